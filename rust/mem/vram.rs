// SPDX-License-Identifier: GPL-2.0
//! The manager of VRAM.

use crate::{
    kern::buddy::{BuddyAllocator, BuddyBlocks, BuddySearch},
    ledger::{Ledger, LedgerHold, LedgerKind},
    mem::{
        account::MemoryClient,
        scrub::VramScrubber,
        table_pool::{self, TableMemory, TablePool, TablePurpose},
    },
};
use hw::va::LARGE_PAGE_SIZE;
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{AtomicFlag, Relaxed},
        Arc, SetOnce,
    },
};

/// A run of VRAM without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VramRun {
    /// Offset of the first byte in VRAM.
    pub(crate) offset: u64,
    /// Offset of the first byte in the buffer.
    pub(crate) at: u64,
    /// The bytes: a multiple of the page size.
    pub(crate) size: u64,
}

/// The owner of VRAM that can be reclaimed.
pub(crate) trait VramReclaimer: Send + Sync {
    /// Releases the VRAM that has been in use for longest, until there is `enough` or no more can
    /// be released. May sleep, for a time that is bounded by the time that engines may take for
    /// each large page.
    fn reclaim(&self, enough: &dyn Fn() -> bool);
}

/// The VRAM of a GPU, allocated in pages. Free memory is cleared in the background, see
/// [`VramScrubber`].
pub(crate) struct VramManager {
    tables: TablePool,
    /// The memory with permanent owners, and that of page tables.
    _reserved: [Option<BuddyBlocks>; 2],
    buddy: Arc<BuddyAllocator>,
    scrubber: Arc<VramScrubber>,
    total: u64,
    reserved: u64,
    kept: u64,
    /// The owner of memory that can be reclaimed.
    reclaimer: SetOnce<Arc<dyn VramReclaimer>>,
    ledger: Arc<Ledger>,
}

impl VramManager {
    /// Creates the manager of `size` bytes of VRAM, all free except `first` and `last` bytes at its
    /// ends, whole pages, which have permanent owners. The CPU can access all of it.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is less than a page; `ENOMEM`.
    pub(crate) fn new(size: u64, first: u64, last: u64, ledger: Arc<Ledger>) -> Result<Self> {
        let buddy = BuddyAllocator::new(0, size.checked_sub(last).ok_or(EINVAL)?)?;
        let try_alloc = |bytes| buddy.alloc(BuddySearch::FromStart, bytes, PAGE_SIZE as u64, true);
        let reserved = match first {
            0 => None,
            // This is the first allocation of a search from the start.
            _ => Some(try_alloc(first)?),
        };
        let bytes = table_pool::bytes_of(size);
        let tables = try_alloc(bytes)?;
        let start = tables.iter().next().ok_or(EIO)?.start;
        Ok(Self {
            tables: TablePool::new(start, bytes, ledger.clone())?,
            _reserved: [reserved, Some(tables)],
            scrubber: VramScrubber::new(&buddy)?,
            total: size,
            reserved: first + last,
            kept: last,
            reclaimer: SetOnce::new(),
            buddy,
            ledger,
        })
    }

    /// Returns the bytes of all VRAM.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the scrubber of free memory.
    pub(crate) fn scrubber(&self) -> &Arc<VramScrubber> {
        &self.scrubber
    }

    /// Returns the bytes that are allocated.
    pub(crate) fn used(&self) -> u64 {
        let (free, _) = self.buddy.free();
        let free = free + self.tables.free();
        self.total()
            .saturating_sub(free + self.scrubber.under_way())
    }

    /// Returns the bytes that buffers may have: whole large pages, without the memory that the
    /// driver itself has and page tables may need.
    pub(crate) fn usable(&self) -> u64 {
        let driver = u64::try_from(self.ledger.count(LedgerKind::VramTables)).unwrap_or(0);
        let driver = driver.saturating_sub(self.tables.taken()) + self.reserved;
        let left = self.total().saturating_sub(driver + self.tables.all());
        left / LARGE_PAGE_SIZE * LARGE_PAGE_SIZE
    }

    /// Allocates memory for one more page table of `client`, with undefined content. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if that exceeds the client's share.
    pub(super) fn alloc_page_table(
        &self,
        client: &Arc<MemoryClient>,
        purpose: &TablePurpose,
    ) -> Result<TableMemory> {
        self.tables.alloc(client, purpose)
    }

    /// Makes `reclaimer` the one that is asked to release reclaimable memory from now on.
    pub(super) fn set_reclaimer(&self, reclaimer: Arc<dyn VramReclaimer>) {
        self.reclaimer.populate(reclaimer);
    }

    /// Returns the bytes that buffers may still allocate, including those that can be reclaimed.
    pub(crate) fn free(&self) -> u64 {
        self.spare() + self.reclaimable()
    }

    /// Returns the bytes that can be reclaimed.
    pub(crate) fn reclaimable(&self) -> u64 {
        u64::try_from(self.ledger.count(LedgerKind::SharedVramBytes)).unwrap_or(0)
    }

    /// Returns the bytes that buffers may still allocate and that are not in use.
    fn spare(&self) -> u64 {
        let driver = u64::try_from(self.ledger.count(LedgerKind::VramTables)).unwrap_or(0);
        let others = self.used().saturating_sub(driver + self.reserved);
        self.usable().saturating_sub(others)
    }

    /// Allocates `size` bytes, whole pages, until they are reclaimed; cleared memory is preferred
    /// if `prefer_cleared`. Does not wait for other owners.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if fewer bytes are free.
    pub(super) fn alloc_reclaimable(
        &self,
        size: u64,
        prefer_cleared: bool,
    ) -> Result<ReclaimableVram> {
        if size > self.spare() {
            return Err(ENOMEM);
        }
        let search = if prefer_cleared {
            BuddySearch::Cleared
        } else {
            BuddySearch::Dirty
        };
        let blocks = self.alloc_blocks(search, size, PAGE_SIZE as u64, false, None)?;
        let blocks = Arc::new(blocks, GFP_KERNEL)?;
        Ok(ReclaimableVram {
            blocks,
            _hold: self.ledger.hold(LedgerKind::SharedVramBytes, size),
        })
    }

    /// Reclaims memory, if it can, until `size` bytes are not in use.
    fn reclaim(&self, size: u64) {
        let enough = || size <= self.spare();
        if !enough() && self.reclaimable() != 0 {
            if let Some(reclaimer) = self.reclaimer.as_ref() {
                reclaimer.reclaim(&enough);
            }
        }
    }

    /// Allocates `size` bytes for a buffer, rounded up to `align`, a power of two of at least a
    /// page. The memory is in one run if it is to be `contiguous` and there is one, otherwise in
    /// runs that are multiples of `align`. The old content is still in it, unless
    /// [`VramBlocks::were_cleared`]; cleared memory is preferred if `prefer_cleared`.
    ///
    /// # Errors
    ///
    /// `EINVAL`; `ENOMEM` if there is no such memory free beside that for tables.
    pub(crate) fn alloc(
        &self,
        size: u64,
        align: u64,
        contiguous: bool,
        prefer_cleared: bool,
    ) -> Result<VramBlocks> {
        if size > self.free() {
            return Err(ENOMEM);
        }
        self.reclaim(size);
        if size > self.spare() {
            return Err(ENOMEM);
        }
        let search = if prefer_cleared {
            BuddySearch::Cleared
        } else {
            BuddySearch::Dirty
        };
        let find = |contiguous| match self.alloc_blocks(search, size, align, contiguous, None) {
            // The memory may be just being cleared, and then be free again.
            Err(error) if error == ENOMEM && self.scrubber.under_way() != 0 => {
                self.scrubber.wait();
                self.alloc_blocks(search, size, align, contiguous, None)
            }
            taken => taken,
        };
        match find(contiguous) {
            // As with amdgpu, no buffer is moved out for this, since possibly no run becomes long
            // enough, whichever buffers are.
            Err(error) if error == ENOMEM && contiguous => find(false),
            taken => taken,
        }
    }

    /// Allocates `size` bytes in one run, rounded up to pages, for a table that the driver itself
    /// writes.
    pub(crate) fn alloc_table(&self, size: u64) -> Result<VramBlocks> {
        self.alloc_own(size, PAGE_SIZE as u64)
    }

    /// Allocates `size` bytes in one run, rounded up and aligned to `align`, a power of two of at
    /// least a page, for the driver itself.
    pub(crate) fn alloc_own(&self, size: u64, align: u64) -> Result<VramBlocks> {
        // The search is from the start, while buffers are allocated from the end: neither fragments
        // the other's part.
        self.alloc_blocks(
            BuddySearch::FromStart,
            size,
            align,
            true,
            Some(LedgerKind::VramTables),
        )
    }

    /// Allocates all free memory, so that no buffer gets any of it. Memory that was cleared does
    /// not count as cleared when it is free again.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if some was allocated meanwhile.
    pub(super) fn alloc_all_free(&self) -> Result<[Option<VramBlocks>; 2]> {
        let buffers = match self.buddy.free() {
            (0, _) => None,
            (free, _) => {
                Some(
                    self.buddy
                        .alloc(BuddySearch::Dirty, free, PAGE_SIZE as u64, false)?,
                )
            }
        };
        let taken = |blocks: Option<BuddyBlocks>| {
            let taken = blocks.map(|blocks| VramBlocks::new(blocks, &self.scrubber));
            taken.transpose()
        };
        Ok([taken(buffers)?, taken(self.tables.alloc_all_free()?)?])
    }

    /// Returns the bytes at the end that are never allocated.
    pub(super) fn kept(&self) -> u64 {
        self.kept
    }

    fn alloc_blocks(
        &self,
        search: BuddySearch,
        size: u64,
        align: u64,
        contiguous: bool,
        kind: Option<LedgerKind>,
    ) -> Result<VramBlocks> {
        if size == 0 || align < PAGE_SIZE as u64 || !align.is_power_of_two() {
            return Err(EINVAL);
        }
        let size = size.checked_next_multiple_of(align).ok_or(ENOMEM)?;
        if size > self.total() {
            return Err(ENOMEM);
        }
        let blocks = self.buddy.alloc(search, size, align, contiguous)?;
        let mut taken = VramBlocks::new(blocks, &self.scrubber)?;
        taken._hold = Some(self.ledger.hold(LedgerKind::VramBytes, size));
        taken._kind_hold = kind.map(|kind| self.ledger.hold(kind, size));
        Ok(taken)
    }
}

/// VRAM that is allocated until it is reclaimed; dropping it frees it.
pub(crate) struct ReclaimableVram {
    blocks: Arc<VramBlocks>,
    _hold: LedgerHold,
}

impl ReclaimableVram {
    /// Returns the VRAM.
    pub(super) fn blocks(&self) -> &Arc<VramBlocks> {
        &self.blocks
    }
}

/// Allocated VRAM; dropping it frees it. Before the drop, the owner has flushed the addresses from
/// the GPU.
pub(crate) struct VramBlocks {
    runs: KVVec<VramRun>,
    /// It was cleared when it was allocated.
    were_cleared: bool,
    /// It is cleared when it is freed.
    are_cleared: AtomicFlag,
    /// The engine could not clear it: the scrubber does not try again for this alone.
    stays_dirty: AtomicFlag,
    _hold: Option<LedgerHold>,
    _kind_hold: Option<LedgerHold>,
    blocks: BuddyBlocks,
    scrubber: Arc<VramScrubber>,
}

impl VramBlocks {
    /// Wraps an allocation from the memory that `scrubber` clears when it is free again.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(blocks: BuddyBlocks, scrubber: &Arc<VramScrubber>) -> Result<Self> {
        let mut runs = KVVec::<VramRun>::new();
        let (mut at, mut cleared) = (0, true);
        for block in blocks.iter() {
            let (offset, size) = (block.start, block.size);
            cleared &= block.cleared;
            match runs.last_mut() {
                Some(last) if last.offset + last.size == offset => last.size += size,
                _ => runs.push(VramRun { offset, at, size }, GFP_KERNEL_ACCOUNT)?,
            }
            at += size;
        }
        Ok(Self {
            runs,
            were_cleared: cleared,
            are_cleared: AtomicFlag::new(false),
            stays_dirty: AtomicFlag::new(false),
            _hold: None,
            _kind_hold: None,
            blocks,
            scrubber: scrubber.clone(),
        })
    }

    /// Whether all of it was cleared when it was allocated.
    pub(crate) fn were_cleared(&self) -> bool {
        self.were_cleared
    }

    /// Records that all of it is cleared, and is not written any more.
    pub(super) fn set_cleared(&self) {
        self.are_cleared.store(true, Relaxed);
    }

    /// Records that the engine cannot clear it now: it is cleared with other memory that is freed
    /// later, or when it is allocated.
    pub(super) fn leave_dirty(&self) {
        self.stays_dirty.store(true, Relaxed);
    }

    /// Returns the runs, in the order of the buffer; adjacent ones are merged.
    pub(crate) fn runs(&self) -> &[VramRun] {
        &self.runs
    }

    /// Returns where byte `at` of the buffer is in VRAM, and the bytes from there to the end of its
    /// run.
    pub(crate) fn locate(&self, at: u64) -> Option<(u64, u64)> {
        let next = self.runs.partition_point(|run| run.at <= at);
        let run = self.runs.get(next.checked_sub(1)?)?;
        let inside = at - run.at;
        (inside < run.size).then(|| (run.offset + inside, run.size - inside))
    }

    /// Returns the offset of the first byte.
    pub(crate) fn start(&self) -> u64 {
        self.runs.first().map_or(0, |run| run.offset)
    }
}

impl Drop for VramBlocks {
    fn drop(&mut self) {
        if self.are_cleared.load(Relaxed) {
            self.blocks.set_cleared();
        } else if !self.stays_dirty.load(Relaxed) {
            self.scrubber.has_work();
        }
    }
}
