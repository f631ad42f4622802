// SPDX-License-Identifier: GPL-2.0
//! VRAM: who has which part of it.

use crate::{
    kern::buddy::{BuddyAllocator, BuddyBlocks, BuddySearch},
    ledger::{Ledger, LedgerHold, LedgerKind},
    mem::{
        account::MemoryClient,
        scrub::VramScrubber,
        table_pool::{self, TableMemory, TablePool},
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

/// Who has VRAM that can be reclaimed.
pub(crate) trait VramReclaimer: Send + Sync {
    /// Gives back what has been had for longest, until there is `enough` or nothing is left that can be given back. Sleeps, for a time that is bounded by what
    /// engines may take for each large page.
    fn reclaim(&self, enough: &dyn Fn() -> bool);
}

/// The VRAM of a GPU, given out in pages. What is free is cleared in the background, see [`VramScrubber`].
pub(crate) struct VramManager {
    tables: TablePool,
    /// What somebody has for good, and what page tables have.
    _reserved: [Option<BuddyBlocks>; 2],
    buddy: Arc<BuddyAllocator>,
    scrubber: Arc<VramScrubber>,
    total: u64,
    reserved: u64,
    kept: u64,
    /// Who has what can be reclaimed.
    reclaimer: SetOnce<Arc<dyn VramReclaimer>>,
    ledger: Arc<Ledger>,
}

impl VramManager {
    /// `size` bytes of VRAM, all free apart from `first` and `last` bytes at its ends, whole pages, which somebody has for
    /// good. The CPU reaches all of it. `EINVAL` when there is less than a page, `ENOMEM`.
    pub(crate) fn new(size: u64, first: u64, last: u64, ledger: Arc<Ledger>) -> Result<Self> {
        let buddy = BuddyAllocator::new(0, size.checked_sub(last).ok_or(EINVAL)?)?;
        let take = |bytes| buddy.alloc(BuddySearch::FromStart, bytes, PAGE_SIZE as u64, true);
        let reserved = match first {
            0 => None,
            // The first of a search from the start.
            _ => Some(take(first)?),
        };
        let bytes = table_pool::bytes_of(size);
        let tables = take(bytes)?;
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

    /// All bytes.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Who clears what is free.
    pub(crate) fn scrubber(&self) -> &Arc<VramScrubber> {
        &self.scrubber
    }

    /// The bytes that are given out.
    pub(crate) fn used(&self) -> u64 {
        let (free, _) = self.buddy.free();
        let free = free + self.tables.free();
        self.total()
            .saturating_sub(free + self.scrubber.under_way())
    }

    /// The bytes that buffers may have: whole large pages, without what the driver itself has and page tables may need.
    pub(crate) fn usable(&self) -> u64 {
        let driver = u64::try_from(self.ledger.count(LedgerKind::VramTables)).unwrap_or(0);
        let driver = driver.saturating_sub(self.tables.taken()) + self.reserved;
        let left = self.total().saturating_sub(driver + self.tables.all());
        left / LARGE_PAGE_SIZE * LARGE_PAGE_SIZE
    }

    /// Memory for one more page table of `client`, in which there is anything. `ENOMEM`, also when that passes its share. Sleeps.
    pub(super) fn alloc_page_table(&self, client: &Arc<MemoryClient>) -> Result<TableMemory> {
        self.tables.alloc(client)
    }

    /// From now on `reclaimer` is asked for what can be reclaimed.
    pub(super) fn set_reclaimer(&self, reclaimer: Arc<dyn VramReclaimer>) {
        self.reclaimer.populate(reclaimer);
    }

    /// The bytes that buffers may still take; what can be reclaimed is.
    pub(crate) fn free(&self) -> u64 {
        self.spare() + self.reclaimable()
    }

    /// The bytes that can be reclaimed.
    pub(crate) fn reclaimable(&self) -> u64 {
        u64::try_from(self.ledger.count(LedgerKind::SharedVramBytes)).unwrap_or(0)
    }

    /// The bytes that buffers may still take, and nobody has.
    fn spare(&self) -> u64 {
        let driver = u64::try_from(self.ledger.count(LedgerKind::VramTables)).unwrap_or(0);
        let others = self.used().saturating_sub(driver + self.reserved);
        self.usable().saturating_sub(others)
    }

    /// `size` bytes, whole pages, until they are wanted for something else; cleared, if it `matters` and there are such. `ENOMEM` when nobody
    /// leaves so many free. Waits for nobody.
    pub(super) fn alloc_reclaimable(&self, size: u64, matters: bool) -> Result<ReclaimableVram> {
        if size > self.spare() {
            return Err(ENOMEM);
        }
        let search = if matters {
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

    /// Reclaims what can be, until `size` bytes are nobody's.
    fn reclaim(&self, size: u64) {
        let enough = || size <= self.spare();
        if !enough() && self.reclaimable() != 0 {
            if let Some(reclaimer) = self.reclaimer.as_ref() {
                reclaimer.reclaim(&enough);
            }
        }
    }

    /// `size` bytes, rounded up to `align`, a power of two of at least a page; in one run when it is to be `contiguous` and there is one,
    /// else in runs that are multiples of `align`: for a buffer. What they held before is still in them, unless
    /// [`VramBlocks::were_cleared`], which is tried for if it `matters`. `EINVAL`, or `ENOMEM` when there is no such memory free beside
    /// what is kept for tables.
    pub(crate) fn alloc(
        &self,
        size: u64,
        align: u64,
        contiguous: bool,
        matters: bool,
    ) -> Result<VramBlocks> {
        if size > self.free() {
            return Err(ENOMEM);
        }
        self.reclaim(size);
        if size > self.spare() {
            return Err(ENOMEM);
        }
        let search = if matters {
            BuddySearch::Cleared
        } else {
            BuddySearch::Dirty
        };
        let take = |contiguous| match self.alloc_blocks(search, size, align, contiguous, None) {
            // It may be about to be cleared, and free again.
            Err(error) if error == ENOMEM && self.scrubber.under_way() != 0 => {
                self.scrubber.wait();
                self.alloc_blocks(search, size, align, contiguous, None)
            }
            taken => taken,
        };
        match take(contiguous) {
            // As with amdgpu: nobody is moved for it, since it may be that no run is long enough whoever is.
            Err(error) if error == ENOMEM && contiguous => take(false),
            taken => taken,
        }
    }

    /// `size` bytes in one run, rounded up to pages: a table that the driver writes, of its own.
    pub(crate) fn alloc_table(&self, size: u64) -> Result<VramBlocks> {
        self.alloc_own(size, PAGE_SIZE as u64)
    }

    /// `size` bytes in one run, rounded up to `align`, a power of two of at least a page, and so aligned: what the driver itself needs.
    pub(crate) fn alloc_own(&self, size: u64, align: u64) -> Result<VramBlocks> {
        // Searched from the start, while buffers come from the end: neither cuts up the other's part.
        self.alloc_blocks(
            BuddySearch::FromStart,
            size,
            align,
            true,
            Some(LedgerKind::VramTables),
        )
    }

    /// All that is free, so that nobody gets any of it. Nobody takes anything for cleared of what was, when it is free again. ENOMEM, also when
    /// some was taken meanwhile.
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

    /// Bytes at the end that nobody is given.
    pub(super) fn kept(&self) -> u64 {
        self.kept
    }

    fn alloc_blocks(
        &self,
        search: BuddySearch,
        size: u64,
        align: u64,
        contiguous: bool,
        also: Option<LedgerKind>,
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
        taken._also = also.map(|kind| self.ledger.hold(kind, size));
        Ok(taken)
    }
}

/// VRAM that somebody has until it is wanted for something else; given back when dropped.
pub(crate) struct ReclaimableVram {
    blocks: Arc<VramBlocks>,
    _hold: LedgerHold,
}

impl ReclaimableVram {
    /// The VRAM.
    pub(super) fn blocks(&self) -> &Arc<VramBlocks> {
        &self.blocks
    }
}

/// VRAM that somebody has; free again when dropped. Whoever drops it has seen to it that the GPU has
/// forgotten the addresses.
pub(crate) struct VramBlocks {
    runs: KVVec<VramRun>,
    /// It was when it was given out.
    were_cleared: bool,
    /// It is when it is given back.
    are_cleared: AtomicFlag,
    _hold: Option<LedgerHold>,
    _also: Option<LedgerHold>,
    blocks: BuddyBlocks,
    scrubber: Arc<VramScrubber>,
}

impl VramBlocks {
    /// What was given out of the memory that `scrubber` clears when it is free again. `ENOMEM`.
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
            _hold: None,
            _also: None,
            blocks,
            scrubber: scrubber.clone(),
        })
    }

    /// Whether all of it was cleared when it was given out.
    pub(crate) fn were_cleared(&self) -> bool {
        self.were_cleared
    }

    /// All of it is cleared, and nobody writes to it any more.
    pub(super) fn set_cleared(&self) {
        self.are_cleared.store(true, Relaxed);
    }

    /// The runs, in the order of the buffer; adjacent ones are merged.
    pub(crate) fn runs(&self) -> &[VramRun] {
        &self.runs
    }

    /// Where byte `at` of the buffer is in VRAM, and the bytes from there to the end of its run.
    pub(crate) fn locate(&self, at: u64) -> Option<(u64, u64)> {
        let next = self.runs.partition_point(|run| run.at <= at);
        let run = self.runs.get(next.checked_sub(1)?)?;
        let inside = at - run.at;
        (inside < run.size).then(|| (run.offset + inside, run.size - inside))
    }

    /// The offset of the first byte.
    pub(crate) fn start(&self) -> u64 {
        self.runs.first().map_or(0, |run| run.offset)
    }
}

impl Drop for VramBlocks {
    fn drop(&mut self) {
        if self.are_cleared.load(Relaxed) {
            self.blocks.set_cleared();
        } else {
            self.scrubber.has_work();
        }
    }
}
