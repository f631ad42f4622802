// SPDX-License-Identifier: GPL-2.0
//! VRAM for page tables: a part of VRAM that is reserved for them, and each client's share of it.
//!
//! It is separate from the VRAM for buffers, so that neither fragments the other. And it has an
//! allocator of its own, in which the search for a page takes time in proportion to the height of
//! its trees, independent of the number of tables.

use crate::{
    kern::buddy::{BuddyAllocator, BuddyBlocks, BuddySearch},
    ledger::{Ledger, LedgerHold, LedgerKind},
    mem::account::{MemoryClient, MemoryRegion},
};
use hw::{share::FairShare, va::TABLE_BYTES};
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
/// A quarter of it is reserved for clients that have few tables: for this many of them, or for
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
    ledger: Arc<Ledger>,
}

impl TablePool {
    /// Creates a pool of `size` bytes from VRAM offset `start` on, whole pages.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(start: u64, size: u64, ledger: Arc<Ledger>) -> Result<Self> {
        let kept = size / 4;
        Ok(Self {
            buddy: BuddyAllocator::new(start, size)?,
            taken: Arc::new(Atomic::new(0), GFP_KERNEL)?,
            share: FairShare::new(size, kept, (kept / LEAST).min(PARTIES)),
            ledger,
        })
    }

    /// Returns the free bytes.
    pub(super) fn free(&self) -> u64 {
        self.buddy.free().0
    }

    /// Returns the bytes of the whole pool.
    pub(super) fn all(&self) -> u64 {
        self.share.all()
    }

    /// Returns the bytes that tables use.
    pub(super) fn taken(&self) -> u64 {
        u64::try_from(self.taken.load(Relaxed)).unwrap_or(0)
    }

    /// Allocates memory for one more table of `client`, with undefined content.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if that exceeds the client's share.
    pub(super) fn alloc(&self, client: &Arc<MemoryClient>) -> Result<TableMemory> {
        let charge = self.charge(client)?;
        let buddy = &self.buddy;
        let blocks = buddy.alloc(BuddySearch::Dirty, TABLE_BYTES, PAGE_SIZE as u64, true)?;
        let start = blocks.iter().next().ok_or(EIO)?.start;
        Ok(TableMemory {
            start,
            _blocks: blocks,
            _charge: charge,
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
        let mut taken = self.taken.load(Relaxed);
        // A request that is refused is never counted: it would block other clients meanwhile.
        loop {
            let all = u64::try_from(taken).unwrap_or(0);
            if !self.share.allows(all, own, TABLE_BYTES) {
                return Err(ENOMEM);
            }
            let sum = taken.checked_add(TABLE_BYTES as i64).ok_or(ENOMEM)?;
            match self.taken.cmpxchg(taken, sum, Relaxed) {
                Ok(_) => break,
                Err(now) => taken = now,
            }
        }
        client.add(MemoryRegion::Tables, TABLE_BYTES as i64);
        Ok(TableCharge {
            taken: self.taken.clone(),
            client: client.clone(),
        })
    }
}

/// The memory of a table, freed when this is dropped. Before the drop, the caller has flushed the
/// address from the GPU.
pub(super) struct TableMemory {
    start: u64,
    // This is dropped before its charge: a client that may have a table finds memory for it.
    _blocks: BuddyBlocks,
    _charge: TableCharge,
    _holds: [LedgerHold; 2],
}

impl TableMemory {
    /// Returns the VRAM offset.
    pub(super) fn start(&self) -> u64 {
        self.start
    }
}

/// The charge for a table; dropping it returns the charge.
struct TableCharge {
    taken: Arc<Atomic<i64>>,
    client: Arc<MemoryClient>,
}

impl Drop for TableCharge {
    fn drop(&mut self) {
        self.taken.add(-(TABLE_BYTES as i64), Relaxed);
        self.client.add(MemoryRegion::Tables, -(TABLE_BYTES as i64));
    }
}
