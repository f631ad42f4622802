// SPDX-License-Identifier: GPL-2.0
//! Slices of the doorbell BAR, and a process's own slice as it sees it.
//!
//! Slice 0 has the doorbells of the kernel's rings, slice 1 those of the hardware rings of
//! scheduled queues. Each process has one of the slices from 2 on, once it has a queue whose
//! doorbell reaches the hardware itself, or a buffer of doorbells for the GPU: the BAR has room for
//! 254 of them, and a process that only has scheduled queues needs none.

use crate::ip::Hardware;
use crate::kern::params::SdmaMode;
use crate::kern::vma::{self, Mappable, SharedPage, VmaPage, VmaZapper};
use crate::ledger::{LedgerHold, LedgerKind};
use crate::mem::bo::RegisterRange;
use core::fmt;
use hw::cp_doorbells::CpDoorbellSlots;
use hw::doorbell::{DoorbellLayout, DoorbellSlot, MmapKind, MmapOffset, SliceIndex, SLICE_BYTES};
use kernel::mm::virt::VmaNew;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, new_spinlock, Arc, Mutex, SetOnce, SpinLock};

/// The slice of hardware doorbells that only the kernel rings: those of scheduled queues.
pub(super) const SCHEDULED_SLICE: u16 = 1;
/// The first slice that a process may have.
const FIRST: u16 = SCHEDULED_SLICE + 1;
/// The page of a slice with the doorbells of the CP. It is always a page of the BAR.
const CP_PAGE: usize = 0;
/// The page of a slice with the doorbells of scheduled and followed queues.
const SCHEDULED_PAGE: usize = 1;
/// The most slices that processes lease for followed queues. The others are left to compute queues,
/// which cannot do without.
const MOST_FOLLOWED: usize = 64;
/// Pages of a slice.
const PAGES: usize = SLICE_BYTES as usize / PAGE_SIZE;

/// The leased slices of a GPU.
#[pin_data]
pub(crate) struct SliceTable {
    #[pin]
    used: Mutex<KVec<SliceLease>>,
}

#[derive(Clone, Copy)]
struct SliceLease {
    index: u16,
    pid: i32,
    pasid: u16,
    /// Followed queues were the first to need it.
    followed: bool,
}

impl SliceTable {
    /// Returns a table without leases.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                used <- new_mutex!(KVec::new(), "SliceTable::used"),
            }),
            GFP_KERNEL,
        )
    }

    /// Leases a slice of the BAR, of `bar` bytes, for `slice`, unless it has one. `followed` says
    /// that it is for followed queues, which can do without.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if all are leased, or as many as followed queues get; `ENOMEM`.
    fn lease(self: &Arc<Self>, slice: &DoorbellSlice, bar: u64, followed: bool) -> Result {
        let mut used = self.used.lock();
        if slice.leased.as_ref().is_some() {
            return Ok(());
        }
        if followed && used.iter().filter(|lease| lease.followed).count() >= MOST_FOLLOWED {
            return Err(ENOSPC);
        }
        let taken = |index| used.iter().any(|lease| lease.index == index);
        let last = SliceIndex::count(bar).min(u64::from(u16::MAX)) as u16;
        let free = (FIRST..last).find(|&index| !taken(index)).ok_or(ENOSPC)?;
        let index = SliceIndex::new(free, bar).ok_or(ENOSPC)?;
        let lease = SliceLease {
            index: free,
            pid: slice.pid,
            pasid: slice.pasid,
            followed,
        };
        used.push(lease, GFP_KERNEL)?;
        // From here on the guard gives it back when it is dropped. There is none yet, as was
        // checked above under the lock.
        slice.leased.populate(LeasedSlice {
            index,
            table: self.clone(),
        });
        Ok(())
    }

    /// Calls `show` with each slice, its process and its PASID, for debugfs.
    pub(crate) fn states(&self, mut show: impl FnMut(u16, i32, u16) -> fmt::Result) -> fmt::Result {
        let used = self.used.lock();
        used.iter()
            .try_for_each(|lease| show(lease.index, lease.pid, lease.pasid))
    }
}

/// The second page of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DoorbellPage {
    /// A page of memory: the process's queues are scheduled.
    Memory,
    /// A page of the BAR: they are followed, as far as they have slots.
    Bar,
}

/// A slice that is leased. Dropping it gives the slice back.
struct LeasedSlice {
    index: SliceIndex,
    table: Arc<SliceTable>,
}

impl Drop for LeasedSlice {
    fn drop(&mut self) {
        let mut used = self.table.used.lock();
        used.retain(|lease| lease.index != self.index.index());
    }
}

/// A process's slice: two pages of doorbells.
///
/// The first page is one of the BAR, from the first queue on that needs it. The second is one of
/// the BAR too for direct and followed queues, and a page of memory for scheduled queues. Except
/// for direct queues it can be taken away from the process, so that its next store is seen.
#[pin_data]
pub(crate) struct DoorbellSlice {
    /// Unless SDMA queues are direct.
    page: Option<SharedPage>,
    /// What the second page is, from the process's first SDMA queue on.
    kind: SetOnce<DoorbellPage>,
    zapper: SetOnce<VmaZapper>,
    closed: Atomic<bool>,
    /// Doorbells of the CP that compute queues have.
    #[pin]
    pub(super) cp: SpinLock<CpDoorbellSlots>,
    _hold: LedgerHold,
    // Another process gets the slice only when nothing of it is left.
    leased: SetOnce<LeasedSlice>,
    table: Arc<SliceTable>,
    pid: i32,
    pasid: u16,
    hw: Arc<Hardware>,
}

impl DoorbellSlice {
    /// The layout of doorbells: which belongs to which block.
    pub(super) fn layout(&self) -> &'static DoorbellLayout {
        &self.hw.asic.doorbells
    }

    /// Returns the doorbells of a process on the GPU of `hw`. None of the hardware's is leased yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        hw: &Arc<Hardware>,
        table: &Arc<SliceTable>,
        pid: i32,
        pasid: u16,
    ) -> Result<Arc<Self>> {
        let mode = SdmaMode::get();
        let page = match mode {
            SdmaMode::Direct => None,
            SdmaMode::Scheduled | SdmaMode::Followed => Some(SharedPage::new()?),
        };
        let kind = SetOnce::new();
        if mode == SdmaMode::Scheduled {
            kind.populate(DoorbellPage::Memory);
        }
        Arc::pin_init(
            pin_init!(Self {
                page,
                kind,
                zapper: SetOnce::new(),
                closed: Atomic::new(false),
                cp <- new_spinlock!(CpDoorbellSlots::new(), "DoorbellSlice::cp"),
                _hold: hw.ledger.hold(LedgerKind::DoorbellSlices, 1),
                leased: SetOnce::new(),
                table: table.clone(),
                pid,
                pasid,
                hw: hw.clone(),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the slice of the BAR, which the first call leases. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if all are leased; `ENOMEM`.
    pub(super) fn index(&self) -> Result<SliceIndex> {
        self.table.lease(self, self.hw.doorbells.size(), false)?;
        self.leased_index()
    }

    /// Returns whether SDMA queues of the process are followed, as far as they have slots. If not,
    /// they are scheduled, or direct. The first call decides. May sleep.
    pub(super) fn is_followed(&self) -> bool {
        if self.page.is_some() && self.kind.as_ref().is_none() {
            let bar = self.hw.doorbells.size();
            // All of them are scheduled if the process does not get a slice.
            let kind = match self.table.lease(self, bar, true) {
                Ok(()) => DoorbellPage::Bar,
                Err(_) => DoorbellPage::Memory,
            };
            // Another thread may have been faster.
            self.kind.populate(kind);
        }
        self.has_bar_page()
    }

    /// Returns whether the second page is one of the BAR that can be taken away.
    fn has_bar_page(&self) -> bool {
        self.kind.copy() == Some(DoorbellPage::Bar)
    }

    /// Returns whether `slot` can be the doorbell of a scheduled queue. In a page of the BAR it is
    /// one that no engine of SDMA listens to.
    pub(super) fn is_free_for_scheduled(&self, slot: DoorbellSlot) -> bool {
        !self.has_bar_page() || self.layout().is_cp(slot)
    }

    /// Returns the slice of the BAR, which the process has since its first direct or compute queue,
    /// or its first buffer of doorbells. Any context.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if it has none.
    pub(super) fn leased_index(&self) -> Result<SliceIndex> {
        Ok(self.leased.as_ref().ok_or(ENOSPC)?.index)
    }

    /// Returns whether the process's SDMA queues are scheduled or followed.
    pub(super) fn is_pumped(&self) -> bool {
        self.page.is_some()
    }

    /// Returns whether page `index` of the slice is that of scheduled and followed queues.
    pub(super) fn is_pumped_page(&self, index: usize) -> bool {
        index == SCHEDULED_PAGE && self.is_pumped()
    }

    /// Returns the first page of the slice's offsets in the file's address space. Every process has
    /// offsets of its own, so that taking away a page of one leaves the others alone.
    fn pgoff(&self) -> usize {
        let offset = MmapOffset {
            kind: MmapKind::Doorbell,
            gpu_id: self.hw.id.get(),
        };
        offset.encode() as usize / PAGE_SIZE + usize::from(self.pasid) * PAGES
    }

    /// Returns the slice's offset in the file's address space, in bytes.
    pub(super) fn mmap_offset(&self) -> u64 {
        (self.pgoff() * PAGE_SIZE) as u64
    }

    /// Maps the slice at `vma`, which must be shared and have exactly the slice's length. `object`
    /// is asked for pages and told of faults.
    ///
    /// # Errors
    ///
    /// `EINVAL` for another shape; `ENODEV` if the slice is closed.
    pub(super) fn mmap<T: Mappable>(&self, vma: &VmaNew, object: Arc<T>) -> Result {
        if self.is_closed() {
            return Err(ENODEV);
        }
        VmaZapper::claim(&self.zapper, vma, self.pgoff())?;
        vma::map(vma, object, PAGES, self.pgoff())
    }

    /// Returns the memory behind page `index`; see [`Mappable::page`].
    pub(super) fn vma_page(&self, index: usize) -> VmaPage {
        if self.is_closed() {
            return VmaPage::Nothing;
        }
        match (&self.page, self.kind.copy()) {
            (Some(page), Some(DoorbellPage::Memory)) if index == SCHEDULED_PAGE => {
                VmaPage::Ram { pfn: page.pfn() }
            }
            // It stays what it is from the first mapping on.
            (Some(_), None) if index == SCHEDULED_PAGE => VmaPage::Nothing,
            _ => {
                let Some(leased) = self.leased.as_ref() else {
                    return VmaPage::Nothing;
                };
                let byte = leased.index.byte() as u32 + (index * PAGE_SIZE) as u32;
                match self.hw.doorbells.pfn(byte) {
                    Ok(pfn) if index < PAGES => VmaPage::Io { pfn },
                    _ => VmaPage::Nothing,
                }
            }
        }
    }

    /// Returns the slice as the GPU reaches it: without the doorbells of scheduled and followed
    /// queues, which only the process's own stores ring.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if all slices are leased; `ENOMEM`.
    pub(crate) fn registers(self: &Arc<Self>) -> Result<RegisterRange> {
        let size = match self.page {
            Some(_) => PAGE_SIZE as u64,
            None => SLICE_BYTES,
        };
        let bar = self.hw.doorbells.dma();
        Ok(RegisterRange {
            bar: bar.clone(),
            run: bar.part(self.index()?.byte(), size)?,
            _owner: Some(self.clone()),
        })
    }

    /// Takes page `index` away from the process: the next access faults. May sleep.
    pub(super) fn zap(&self, index: usize) {
        self.zap_pages(index, 1);
    }

    /// Takes the page of scheduled and followed queues away from the process: the next store
    /// faults. All stores before are seen by [`DoorbellSlice::value`], or are the hardware's. May
    /// sleep.
    pub(super) fn zap_scheduled(&self) {
        self.zap_pages(SCHEDULED_PAGE, 1);
    }

    fn zap_pages(&self, first: usize, count: usize) {
        if let Some(zapper) = self.zapper.as_ref() {
            zapper.zap(first, count);
        }
    }

    /// Returns the value that the process last stored to the doorbell of a scheduled queue. `None`
    /// if the store went to the hardware, so that only the queue's pointer tells.
    pub(super) fn value(&self, slot: DoorbellSlot) -> Option<u64> {
        let page = self.page.as_ref().filter(|_| !self.has_bar_page())?;
        Some(page.read64(slot.byte() as usize))
    }

    /// Sets the doorbell of a scheduled queue back to 0, for a new queue.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the process has no scheduled queues.
    pub(super) fn clear(&self, slot: DoorbellSlot) -> Result {
        let page = self.page.as_ref().ok_or(EINVAL)?;
        page.write64(slot.byte() as usize, 0);
        Ok(())
    }

    /// Returns whether the process has lost its doorbells.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Refuses accesses from now on. [`DoorbellSlice::zap_all`] must follow.
    pub(super) fn close(&self) {
        self.closed.store(true, Relaxed);
    }

    /// Takes all pages away from the process: each access to a closed slice gives SIGBUS. May
    /// sleep.
    pub(super) fn zap_all(&self) {
        self.zap_pages(CP_PAGE, PAGES);
    }
}
