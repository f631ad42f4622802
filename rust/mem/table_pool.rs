// SPDX-License-Identifier: GPL-2.0
//! VRAM for page tables: a part of VRAM that is reserved for them, and each client's share of it.
//!
//! It is separate from the VRAM for buffers, so that neither fragments the other. And it has an
//! allocator of its own, in which the search for a page takes time in proportion to the height of
//! its trees, independent of the number of tables.
//!
//! A buffer that was mapped with large pages may come back from system memory in pieces, and then
//! needs tables that it did not need before. They must not depend on what other clients have taken:
//! the owner does not run until all of its buffers are mapped. So a part of the pool is for them
//! alone. A buffer that is in VRAM may have one for each large page of its size, in all of its
//! mappings together, and returns them when it moves. The part is enough for all of VRAM: a table
//! is 1/512 of what it maps.

use crate::{
    kern::buddy::{BuddyAllocator, BuddyBlocks, BuddySearch},
    ledger::{Ledger, LedgerHold, LedgerKind},
    mem::account::{MemoryClient, MemoryRegion},
};
use hw::{
    share::FairShare,
    va::{LARGE_PAGE_SIZE, TABLE_BYTES},
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

/// The divisor of VRAM that gives the reserved part, and its minimum in bytes.
const PART: u64 = 128;
const MIN: u64 = 16 << 20;
/// A quarter of it is for large pages that came back in pieces: as many as VRAM has.
const SPLIT_PART: u64 = 4;
const _: () = assert!(PART * SPLIT_PART <= LARGE_PAGE_SIZE / TABLE_BYTES);
/// Another quarter is reserved for clients that have few tables: for this many of them, or for
/// fewer, so that each of them gets the minimum.
const PARTIES: u64 = 1024;
const LEAST: u64 = 64 << 10;

/// Returns how many bytes of VRAM are for page tables, of `total`: whole pages.
pub(super) fn bytes_of(total: u64) -> u64 {
    (total / PART).max(MIN) / TABLE_BYTES * TABLE_BYTES
}

/// The VRAM of a GPU that is for page tables.
pub(super) struct TablePool {
    buddy: Arc<BuddyAllocator>,
    /// Bytes that are charged to clients.
    taken: Arc<Atomic<i64>>,
    share: FairShare,
    /// The same of the part for large pages in pieces, and its size.
    split: Arc<Atomic<i64>>,
    split_most: u64,
    ledger: Arc<Ledger>,
}

impl TablePool {
    /// Creates a pool of `size` bytes from VRAM offset `start` on, whole pages.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(start: u64, size: u64, ledger: Arc<Ledger>) -> Result<Self> {
        let (kept, split_most) = (size / 4, size / SPLIT_PART);
        Ok(Self {
            buddy: BuddyAllocator::new(start, size)?,
            taken: Arc::new(Atomic::new(0), GFP_KERNEL)?,
            share: FairShare::new(size - split_most, kept, (kept / LEAST).min(PARTIES)),
            split: Arc::new(Atomic::new(0), GFP_KERNEL)?,
            split_most,
            ledger,
        })
    }

    /// Returns the free bytes.
    pub(super) fn free(&self) -> u64 {
        self.buddy.free().0
    }

    /// Returns the bytes of the whole pool.
    pub(super) fn all(&self) -> u64 {
        self.share.all() + self.split_most
    }

    /// Returns the bytes that tables use.
    pub(super) fn taken(&self) -> u64 {
        [&self.taken, &self.split]
            .map(|taken| u64::try_from(taken.load(Relaxed)).unwrap_or(0))
            .iter()
            .sum()
    }

    /// Allocates memory for one more table of `client`, with undefined content.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if that exceeds the client's share.
    pub(super) fn alloc(
        &self,
        client: &Arc<MemoryClient>,
        purpose: &TablePurpose,
    ) -> Result<TableMemory> {
        let charge = match purpose {
            TablePurpose::SplitPage(buffer) => {
                let charge = self.charge_split(buffer);
                charge.or_else(|_| self.charge(client))
            }
            TablePurpose::NewMapping => self.charge(client),
        }?;
        let buddy = &self.buddy;
        let blocks = buddy.alloc(BuddySearch::Dirty, TABLE_BYTES, PAGE_SIZE as u64, true)?;
        let start = blocks.iter().next().ok_or(EIO)?.start;
        Ok(TableMemory {
            start,
            _blocks: blocks,
            charge,
            _holds: [LedgerKind::VramBytes, LedgerKind::VramTables]
                .map(|kind| self.ledger.hold(kind, TABLE_BYTES)),
        })
    }

    /// Allocates all free memory of the pool, so that no table gets any; `None` if there is none.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if some was allocated meanwhile.
    pub(super) fn alloc_all_free(&self) -> Result<Option<BuddyBlocks>> {
        match self.free() {
            0 => Ok(None),
            free => {
                let buddy = &self.buddy;
                Ok(Some(buddy.alloc(
                    BuddySearch::Dirty,
                    free,
                    PAGE_SIZE as u64,
                    false,
                )?))
            }
        }
    }

    /// Charges one more table to `client`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if that exceeds its share.
    fn charge(&self, client: &Arc<MemoryClient>) -> Result<TableCharge> {
        let own = client.bytes(MemoryRegion::Tables);
        add_table(&self.taken, |all| self.share.allows(all, own, TABLE_BYTES))?;
        client.add(MemoryRegion::Tables, TABLE_BYTES as i64);
        Ok(TableCharge {
            taken: self.taken.clone(),
            owner: TableOwner::Client(client.clone()),
        })
    }

    /// Charges a table for a large page in pieces to `buffer`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if it is not in VRAM, or that exceeds its quota.
    fn charge_split(&self, buffer: &Arc<dyn SplitBuffer>) -> Result<TableCharge> {
        let quota = buffer.split_quota();
        let most = if buffer.is_in_vram() { quota.most } else { 0 };
        add_table(&quota.taken, |own| own + TABLE_BYTES <= most)?;
        self.split.add(TABLE_BYTES as i64, Relaxed);
        Ok(TableCharge {
            taken: self.split.clone(),
            owner: TableOwner::Buffer(buffer.clone()),
        })
    }
}

/// Adds a table to `taken` if it `is_allowed` with what is taken already.
///
/// # Errors
///
/// `ENOMEM` if it is not.
fn add_table(taken: &Atomic<i64>, is_allowed: impl Fn(u64) -> bool) -> Result {
    let mut all = taken.load(Relaxed);
    // A request that is refused is never counted: it would block other clients meanwhile.
    loop {
        if !is_allowed(u64::try_from(all).unwrap_or(0)) {
            return Err(ENOMEM);
        }
        let sum = all.checked_add(TABLE_BYTES as i64).ok_or(ENOMEM)?;
        match taken.cmpxchg(all, sum, Relaxed) {
            Ok(_) => return Ok(()),
            Err(now) => all = now,
        }
    }
}

/// The tables that a buffer in VRAM may have because its large pages are in pieces.
pub(super) struct SplitQuota {
    taken: Atomic<i64>,
    most: u64,
}

impl SplitQuota {
    /// Creates the quota of a buffer of `size` bytes.
    pub(super) fn new(size: u64) -> Self {
        Self {
            taken: Atomic::new(0),
            most: size / LARGE_PAGE_SIZE * TABLE_BYTES,
        }
    }
}

/// A buffer that may have such tables.
pub(super) trait SplitBuffer: Send + Sync {
    /// Whether the buffer is in VRAM now. Context: any.
    fn is_in_vram(&self) -> bool;

    /// Returns the page tables that its large pages may have while they are in pieces.
    fn split_quota(&self) -> &SplitQuota;
}

/// The purpose of a table.
pub(super) enum TablePurpose {
    /// A mapping that does not have it yet.
    NewMapping,
    /// A mapping that had a large page in place of the table before the buffer moved.
    SplitPage(Arc<dyn SplitBuffer>),
}

/// The memory of a table, freed when this is dropped. Before the drop, the caller has flushed the
/// address from the GPU.
pub(super) struct TableMemory {
    start: u64,
    // This is dropped before its charge: a client that may have a table finds memory for it.
    _blocks: BuddyBlocks,
    charge: TableCharge,
    _holds: [LedgerHold; 2],
}

impl TableMemory {
    /// Returns the VRAM offset.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Whether it is from the part for large pages in pieces, so that it may be used only as long
    /// as the page stays in pieces.
    pub(super) fn is_for_split_page(&self) -> bool {
        matches!(self.charge.owner, TableOwner::Buffer(_))
    }
}

/// What a table is charged to.
enum TableOwner {
    Client(Arc<MemoryClient>),
    Buffer(Arc<dyn SplitBuffer>),
}

/// The charge for a table; dropping it returns the charge.
struct TableCharge {
    taken: Arc<Atomic<i64>>,
    owner: TableOwner,
}

impl Drop for TableCharge {
    fn drop(&mut self) {
        let bytes = TABLE_BYTES as i64;
        self.taken.add(-bytes, Relaxed);
        match &self.owner {
            TableOwner::Client(client) => client.add(MemoryRegion::Tables, -bytes),
            TableOwner::Buffer(buffer) => buffer.split_quota().taken.add(-bytes, Relaxed),
        }
    }
}
