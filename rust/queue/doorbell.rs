// SPDX-License-Identifier: GPL-2.0
//! Slices of the doorbell BAR, and how a process maps its own.
//!
//! Slice 0 has the doorbells of the kernel's rings, slice 1 those of the hardware rings of scheduled queues. From slice 2 on
//! each process has one of its own, once it has a queue whose doorbell the hardware itself gets: the BAR has room for 254, and
//! processes that only have scheduled queues need none of it.

use super::compute::doorbell::CpDoorbellSlots;
use super::compute::MqdMemory;
use super::quota::{ProcessQueueCounts, QueueQuota};
use super::sdma::hw_queue::SCHEDULED_SLICE;
use super::sdma::ring_memory::RingMemory;
use super::sdma::scheduled::ScheduledQueue;
use super::spare::SpareMemory;
use crate::kern::params;
use crate::kern::vma::{self, Mappable, SharedPage, VmaPage, VmaZapper};
use crate::kern::workqueue;
use crate::ledger::{LedgerHold, LedgerKind};
use crate::mem::bo::RegisterRange;
use crate::queue::GpuQueues;
use core::fmt;
use hw::doorbell::{DoorbellSlot, MmapKind, MmapOffset, SliceIndex, SLICE_BYTES};
use hw::ip::GFX90A_SDMA_ENGINES;
use kernel::mm::virt::VmaNew;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, new_spinlock, Arc, ArcBorrow, Mutex, SetOnce, SpinLock};
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};

/// The first slice that a process may have.
const FIRST: u16 = SCHEDULED_SLICE + 1;
/// The slice's page with the doorbells that the CP gets: always the BAR, see [`super::compute::doorbell`].
const CP_PAGE: usize = 0;
/// The slice's page with the doorbells of scheduled queues.
pub(super) const SCHEDULED_PAGE: usize = 1;
/// The slice's work items.
pub(super) const PASS: u64 = 0;
pub(super) const REFILL: u64 = 1;
/// Pages of a slice.
const PAGES: usize = SLICE_BYTES as usize / PAGE_SIZE;

/// Which slices are whose.
#[pin_data]
pub(crate) struct SliceTable {
    #[pin]
    used: Mutex<KVec<SliceLease>>,
    /// How many queues there are.
    #[pin]
    quota: QueueQuota,
}

#[derive(Clone, Copy)]
struct SliceLease {
    index: u16,
    pid: i32,
    pasid: u16,
}

impl SliceTable {
    /// None leased.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            used <- new_mutex!(KVec::new(), "Slices::used"),
            quota <- QueueQuota::new(),
        })
    }

    /// The doorbells of a process on `gpu`, none of the hardware's yet. ENOMEM.
    pub(crate) fn open(gpu: &Arc<GpuQueues>, pid: i32, pasid: u16) -> Result<Arc<DoorbellSlice>> {
        let page = if params::is_sdma_scheduled() {
            Some(SharedPage::new()?)
        } else {
            None
        };
        Arc::pin_init(
            pin_init!(DoorbellSlice {
                page,
                zapper: SetOnce::new(),
                writable: Atomic::new(false),
                faulted: Atomic::new(false),
                kicked: Atomic::new(false),
                unmet: Atomic::new(false),
                closed: Atomic::new(false),
                queues <- new_mutex!(KVec::new(), "Slice::queues"),
                first: Atomic::new(0),
                fruitless: Atomic::new(0),
                cp <- new_spinlock!(CpDoorbellSlots::new(), "Slice::cp"),
                pass <- new_delayed_work!("Slice::pass"),
                refill <- new_delayed_work!("Slice::refill"),
                counts: ProcessQueueCounts::new(),
                served: [const { Atomic::new(0) }; GFX90A_SDMA_ENGINES],
                rings <- SpareMemory::new(),
                descriptors <- SpareMemory::new(),
                _hold: gpu.hw.ledger.hold(LedgerKind::DoorbellSlices, 1),
                leased: SetOnce::new(),
                pid,
                pasid,
                gpu: gpu.clone(),
            }),
            GFP_KERNEL,
        )
    }

    /// Leases a slice of the BAR, of `bar` bytes, for `slice`, unless it has one. ENOSPC when all are leased, ENOMEM.
    fn lease(&self, slice: &DoorbellSlice, bar: u64) -> Result {
        let mut used = self.used.lock();
        if slice.leased.as_ref().is_some() {
            return Ok(());
        }
        let taken = |index| used.iter().any(|lease| lease.index == index);
        let last = SliceIndex::count(bar).min(u64::from(u16::MAX)) as u16;
        let free = (FIRST..last).find(|&index| !taken(index)).ok_or(ENOSPC)?;
        let index = SliceIndex::new(free, bar).ok_or(ENOSPC)?;
        let lease = SliceLease {
            index: free,
            pid: slice.pid,
            pasid: slice.pasid,
        };
        used.push(lease, GFP_KERNEL)?;
        // From here on it goes back when the guard is dropped. There is none yet: that is looked at under the lock.
        slice.leased.populate(LeasedSlice {
            index,
            gpu: slice.gpu.clone(),
        });
        Ok(())
    }

    /// Each slice with its process and PASID, for debugfs.
    pub(crate) fn states(&self, mut show: impl FnMut(u16, i32, u16) -> fmt::Result) -> fmt::Result {
        let used = self.used.lock();
        used.iter()
            .try_for_each(|lease| show(lease.index, lease.pid, lease.pasid))
    }
}

/// A slice that is taken; free again when dropped.
struct LeasedSlice {
    index: SliceIndex,
    gpu: Arc<GpuQueues>,
}

impl Drop for LeasedSlice {
    fn drop(&mut self) {
        let mut used = self.gpu.slices.used.lock();
        used.retain(|lease| lease.index != self.index.index());
    }
}

/// A process's slice: two pages. The first is the BAR, from the first queue on that needs it. The second is the BAR too for
/// direct queues; for scheduled ones it is a page of memory, which [`super::sdma::pump`] takes away from the process while nothing is under way, so
/// that the first store is seen.
#[pin_data]
pub(crate) struct DoorbellSlice {
    pub(super) page: Option<SharedPage>,
    zapper: SetOnce<VmaZapper>,
    /// The scheduled page may be mapped, so that stores to it go unseen.
    pub(super) writable: Atomic<bool>,
    /// The scheduled page was touched since the last pass.
    pub(super) faulted: Atomic<bool>,
    /// The pass was asked for, rather than due.
    pub(super) kicked: Atomic<bool>,
    /// A job could not be made, for which the next pass is due.
    pub(super) unmet: Atomic<bool>,
    pub(super) closed: Atomic<bool>,
    #[pin]
    pub(super) queues: Mutex<KVec<Arc<ScheduledQueue>>>,
    /// Which of them the next look begins with. Under `queues`.
    pub(super) first: Atomic<usize>,
    /// How many passes of the watchdog in a row found no job ended, as far as it counts. Under `queues`.
    pub(super) fruitless: Atomic<u32>,
    /// Which of the CP's doorbells are compute queues'.
    #[pin]
    pub(super) cp: SpinLock<CpDoorbellSlots>,
    #[pin]
    pass: DelayedWork<Self, PASS>,
    /// Has a pass run while a job is under way.
    #[pin]
    refill: DelayedWork<Self, REFILL>,
    /// How many queues the process has.
    pub(super) counts: ProcessQueueCounts,
    /// For each SDMA engine when one of them was last given a slot, in turns of the engine's; 0 is never. Under `EngineSlots::state`.
    pub(super) served: [Atomic<u64>; GFX90A_SDMA_ENGINES],
    /// What the next scheduled queue can have.
    #[pin]
    pub(super) rings: SpareMemory<RingMemory>,
    /// What the next compute queue can have.
    #[pin]
    pub(super) descriptors: SpareMemory<MqdMemory>,
    _hold: LedgerHold,
    // The slice is another's only when nothing of it is left.
    leased: SetOnce<LeasedSlice>,
    pid: i32,
    pasid: u16,
    gpu: Arc<GpuQueues>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self, PASS> for DoorbellSlice { self.pass }
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self, REFILL> for DoorbellSlice { self.refill }
}

impl WorkItem<REFILL> for DoorbellSlice {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        super::sdma::pump::refill(&this);
    }
}

impl WorkItem<PASS> for DoorbellSlice {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        super::sdma::pump::pass(&this);
    }
}

impl DoorbellSlice {
    /// The hardware's doorbells of the process, leased with the first call. Sleeps. ENOSPC when all are leased, ENOMEM.
    pub(super) fn index(&self) -> Result<SliceIndex> {
        self.gpu.slices.lease(self, self.gpu.hw.doorbells.size())?;
        self.leased_index()
    }

    /// The hardware's doorbells of the process, which it has since its first direct or compute queue. Any context; ENOSPC when
    /// it has none.
    pub(super) fn leased_index(&self) -> Result<SliceIndex> {
        Ok(self.leased.as_ref().ok_or(ENOSPC)?.index)
    }

    /// How many queues there are.
    pub(super) fn quota(&self) -> &QueueQuota {
        &self.gpu.slices.quota
    }

    /// The first page of the slice's offsets in the file's address space: every process has offsets of its own, so that
    /// taking away a page of one leaves the others alone.
    fn pgoff(&self) -> usize {
        let offset = MmapOffset {
            kind: MmapKind::Doorbell,
            gpu_id: self.gpu.hw.id.get(),
        };
        offset.encode() as usize / PAGE_SIZE + usize::from(self.pasid) * PAGES
    }

    /// Maps the slice at `vma`: shared, and exactly of the slice's length. EINVAL for another shape; ENODEV when it is
    /// closed.
    pub(crate) fn mmap(self: &Arc<Self>, vma: &VmaNew) -> Result {
        if self.closed.load(Relaxed) {
            return Err(ENODEV);
        }
        VmaZapper::claim(&self.zapper, vma, self.pgoff())?;
        vma::map(vma, self.clone(), PAGES, self.pgoff())
    }

    /// The slice as the GPU reaches it: without the doorbells of scheduled queues, which only the process's own stores ring.
    /// ENOSPC when all of the hardware's are leased.
    pub(crate) fn registers(self: &Arc<Self>) -> Result<RegisterRange> {
        let size = match self.page {
            Some(_) => PAGE_SIZE as u64,
            None => SLICE_BYTES,
        };
        let bar = self.gpu.hw.doorbells.dma();
        Ok(RegisterRange {
            bar: bar.clone(),
            run: bar.part(self.index()?.byte(), size)?,
            _owner: Some(self.clone()),
        })
    }

    /// Takes pages of the slice away from the process: the next access faults.
    pub(super) fn zap(&self, first: usize, count: usize) {
        if let Some(zapper) = self.zapper.as_ref() {
            zapper.zap(first, count);
        }
    }

    /// The doorbell that the process rings for a scheduled queue: what it last stored.
    pub(super) fn value(&self, slot: DoorbellSlot) -> u64 {
        self.page
            .as_ref()
            .map_or(0, |page| page.read64(slot.byte() as usize))
    }

    /// The doorbells are the process's no more: every mapping of them gives SIGBUS. Its queues are gone by now. For
    /// the end of the process's use of the GPU, and for unbind. Sleeps.
    pub(crate) fn close(self: &Arc<Self>) {
        {
            // No pass may go on, nor be due later.
            let _queues = self.queues.lock();
            self.closed.store(true, Relaxed);
        }
        self.rings.close();
        self.descriptors.close();
        self.zap(CP_PAGE, PAGES);
        // The first asks for the second.
        workqueue::cancel::<_, REFILL>(self);
        workqueue::cancel::<_, PASS>(self);
    }

    /// Adds a scheduled queue under the doorbell that `make` is given. ENOSPC when all doorbells are used, ENOMEM,
    /// ENODEV when closed; errors of `make`.
    pub(super) fn add(
        &self,
        make: impl FnOnce(DoorbellSlot) -> Result<Arc<ScheduledQueue>>,
    ) -> Result<Arc<ScheduledQueue>> {
        let mut queues = self.queues.lock();
        if self.closed.load(Relaxed) {
            return Err(ENODEV);
        }
        let page = self.page.as_ref().ok_or(EINVAL)?;
        let taken = |slot| queues.iter().any(|queue| queue.slot == slot);
        let slot = (0..)
            .map_while(DoorbellSlot::scheduled)
            .find(|&slot| !taken(slot))
            .ok_or(ENOSPC)?;
        page.write64(slot.byte() as usize, 0);
        queues.reserve(1, GFP_KERNEL)?;
        let queue = make(slot)?;
        queues.push(queue.clone(), GFP_KERNEL)?;
        Ok(queue)
    }

    /// The pump has nothing to do with `queue` any more, from the return on.
    pub(super) fn remove(&self, queue: &Arc<ScheduledQueue>) {
        let mut queues = self.queues.lock();
        queues.retain(|other| !Arc::ptr_eq(other, queue));
    }
}

impl Mappable for DoorbellSlice {
    fn page(&self, index: usize) -> VmaPage {
        if self.closed.load(Relaxed) {
            return VmaPage::Nothing;
        }
        match &self.page {
            Some(page) if index == SCHEDULED_PAGE => VmaPage::Ram { pfn: page.pfn() },
            _ => {
                let Some(leased) = self.leased.as_ref() else {
                    return VmaPage::Nothing;
                };
                let byte = leased.index.byte() as u32 + (index * PAGE_SIZE) as u32;
                match self.gpu.hw.doorbells.pfn(byte) {
                    Ok(pfn) if index < PAGES => VmaPage::Io { pfn },
                    _ => VmaPage::Nothing,
                }
            }
        }
    }

    fn mapped(this: ArcBorrow<'_, Self>, index: usize) {
        if this.closed.load(Relaxed) {
            // Closed since `page` was asked: what `close` took away has just been put back.
            this.zap(index, 1);
        } else if index == SCHEDULED_PAGE && this.page.is_some() {
            super::sdma::pump::touched(&this.into());
        }
    }
}
