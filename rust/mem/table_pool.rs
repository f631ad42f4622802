// SPDX-License-Identifier: GPL-2.0
//! VRAM for page tables: a part of it that is there for them alone, and who has how much of that.
//!
//! It is apart from what buffers have, so that neither cuts up the other's. And it has an allocator of its own, in which to find a page takes as
//! long as its trees are high, however many tables there are.

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

/// This part of VRAM, but at least so many bytes.
const PART: u64 = 128;
const MIN: u64 = 16 << 20;
/// A quarter of it is kept for processes that have few: for so many of them, or fewer, so that there is enough for each.
const PARTIES: u64 = 1024;
const LEAST: u64 = 64 << 10;

/// How many bytes of VRAM are for page tables, of `total`: whole pages.
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
    /// All of `size` bytes from VRAM offset `start` on, whole pages. `ENOMEM`.
    pub(super) fn new(start: u64, size: u64, ledger: Arc<Ledger>) -> Result<Self> {
        let kept = size / 4;
        Ok(Self {
            buddy: BuddyAllocator::new(start, size)?,
            taken: Arc::new(Atomic::new(0), GFP_KERNEL)?,
            share: FairShare::new(size, kept, (kept / LEAST).min(PARTIES)),
            ledger,
        })
    }

    /// Bytes of it that nobody has.
    pub(super) fn free(&self) -> u64 {
        self.buddy.free().0
    }

    /// All bytes of it.
    pub(super) fn all(&self) -> u64 {
        self.share.all()
    }

    /// Bytes that tables have.
    pub(super) fn taken(&self) -> u64 {
        u64::try_from(self.taken.load(Relaxed)).unwrap_or(0)
    }

    /// Memory for one more table of `client`, in which there is anything. `ENOMEM`, also when that passes its share.
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

    /// All of it that is free, so that nobody gets any; `None` if there is none. `ENOMEM`, also when some was taken meanwhile.
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

    /// Lets `client` have one more. `ENOMEM` when that passes its share.
    fn charge(&self, client: &Arc<MemoryClient>) -> Result<TableCharge> {
        let own = client.bytes(MemoryRegion::Tables);
        let mut taken = self.taken.load(Relaxed);
        // What is refused is never counted: it would stand in others' way meanwhile.
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

/// Memory of a table; free again when dropped. Whoever drops it has seen to it that the GPU has forgotten the address.
pub(super) struct TableMemory {
    start: u64,
    // Before its charge, so that who may have a table finds memory for it.
    _blocks: BuddyBlocks,
    _charge: TableCharge,
    _holds: [LedgerHold; 2],
}

impl TableMemory {
    /// The VRAM offset.
    pub(super) fn start(&self) -> u64 {
        self.start
    }
}

/// What a client has of it; given back when dropped.
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
