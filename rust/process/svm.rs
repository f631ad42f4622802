// SPDX-License-Identifier: GPL-2.0
//! Shared virtual memory: the attributes that a process sets on ranges of its memory, and the
//! mappings of these ranges on its GPUs.

mod chunks;
mod fault_priority;
mod faults;
mod migrate;
mod ranges;
mod saved;
mod small_range_list;
mod unmapped;
mod xnack;

use hw::svm::{
    AttributeChange, AttributeMap, AttributeSummary, GpuIndex, GpuPlaces, PingPong, SvmAttributes,
};
use hw::topology::gpu_id::GpuId;
use hw::va::{VaRange, GPUVM_BASE, USER_VA_END};
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, AtomicFlag, Relaxed, Release};
use kernel::sync::Arc;
use kernel::time::msecs_to_jiffies;
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};

use super::Process;
use crate::kern::errno;
use crate::kern::killable::{KillableGuard, KillableMutex};
use crate::kern::mm_exit::AddressSpace;
use crate::kern::ratelimit::dev_warn_ratelimited;
use crate::kern::user_range::{self, FetchRequest, RangeWatch};
use crate::kern::workqueue;
use crate::mem::vm::{RetryBackoff, Vm};
use crate::mem::GpuMemory;
use chunks::update_gpu;
use faults::KnownFaults;
pub(crate) use migrate::MoveProgress;
use ranges::{make_room_to_forget, make_room_to_set, RangeTree};
use small_range_list::SmallRangeList;
use unmapped::{UnmapListener, UnmappedRanges};
pub(super) use xnack::ClosingGpus;

/// The shared virtual memory of a process.
#[pin_data]
pub(crate) struct Svm {
    space: AddressSpace,
    pid: i32,
    pasid: u16,
    /// Whether page faults are retried (XNACK). Changed under `state`, while the process has no
    /// queues.
    retries: AtomicFlag,
    /// The id of the GPU that the process is about to lose, or the value for all of them; nothing
    /// is mapped there any more. See [`ClosingGpus`].
    closing: Atomic<u32>,
    /// Counts the queues that were created and destroyed, so that the faults of a destroyed queue
    /// do not count against others.
    queues: Atomic<u64>,
    /// Whether attributes were ever set on a range.
    used: AtomicFlag,
    /// Held while attributes are set or read, and so during waits for the process's memory, but not
    /// during waits for a program: see [`user_range::with_lock_soon`]. Outside the mmap lock. A
    /// context's memory is not locked inside: page faults would wait as long as an allocation of
    /// VRAM.
    #[pin]
    state: KillableMutex<SvmState>,
    /// The number of waiters for that lock that must not wait until all of the process's memory is
    /// mapped.
    priority_waiters: Atomic<i32>,
    /// The time when page faults began to wait for that lock, in milliseconds since boot; 0 while
    /// none wait.
    faults_wait_since: Atomic<u64>,
    /// The time of the next look at page faults for whose wait there was no place, in milliseconds
    /// since boot; in the past if there are none.
    faults_put_off: Atomic<u64>,
    #[pin]
    unmapped: UnmappedRanges,
    /// Whether memory was unmapped since the last time that this was checked before a page fault
    /// was refused.
    changed: AtomicFlag,
    /// The work item that does deferred work: see `WorkItem<CLEANUP>`.
    #[pin]
    cleanup: DelayedWork<Self, CLEANUP>,
    /// The work item that maps the memory that queues have touched.
    #[pin]
    faults: DelayedWork<Self, FAULTS>,
}

/// The ids of the work items.
const CLEANUP: u64 = 0;
const FAULTS: u64 = 1;

impl_has_delayed_work! {
    impl HasDelayedWork<Self, CLEANUP> for Svm { self.cleanup }
    impl HasDelayedWork<Self, FAULTS> for Svm { self.faults }
}

struct SvmState {
    map: AttributeMap<RangeTree>,
    /// The GPUs to which attributes refer.
    gpus: GpuPlaces<GpuId>,
    /// Their address spaces.
    vms: KVec<(GpuIndex, Arc<Vm>)>,
    /// The unmapped ranges whose attributes are not removed yet.
    pending: KVVec<VaRange>,
    /// The ranges where the mappings of GPUs may not match the attributes: chunks that were
    /// unmapped and could not be mapped again, and ranges whose attributes were removed for lack of
    /// room.
    lost: SmallRangeList,
    /// Backoff for failures to restore those, or to remove the attributes of unmapped memory.
    retry: RetryBackoff,
    /// The last request that waited for a program to provide a page.
    page_request: Option<FetchRequest>,
    /// The state of the page faults of these GPUs.
    faults: KVec<KnownFaults>,
    /// The ranges that have recently moved because of them.
    ping_pong: KBox<PingPong>,
    listener: Option<RangeWatch<UnmapListener>>,
    ended: bool,
}

impl Svm {
    /// Creates the shared virtual memory, without attributes, of the process `pid` with `pasid` and
    /// address space `space`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new(space: &AddressSpace, pid: i32, pasid: u16) -> Result<Arc<Self>> {
        let unmapped = UnmappedRanges::new()?;
        let state = SvmState {
            map: AttributeMap::new(RangeTree::new(), SvmAttributes::initial(false)),
            gpus: GpuPlaces::new(),
            vms: KVec::new(),
            pending: KVVec::new(),
            lost: SmallRangeList::new()?,
            retry: RetryBackoff::default(),
            page_request: None,
            faults: KVec::new(),
            ping_pong: KBox::new(PingPong::new(), GFP_KERNEL_ACCOUNT)?,
            listener: None,
            ended: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                space: space.clone(),
                pid,
                pasid,
                retries: AtomicFlag::new(false),
                closing: Atomic::new(ClosingGpus::NONE),
                queues: Atomic::new(0),
                changed: AtomicFlag::new(false),
                used: AtomicFlag::new(false),
                priority_waiters: Atomic::new(0),
                faults_wait_since: Atomic::new(0),
                faults_put_off: Atomic::new(0),
                state <- KillableMutex::new(state, c"Svm::state", kernel::static_lock_class!()),
                unmapped <- unmapped,
                cleanup <- new_delayed_work!("Svm::cleanup"),
                faults <- new_delayed_work!("Svm::faults"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Locks the shared virtual memory until the returned value is dropped. By then the attributes
    /// of the memory that the process has unmapped are removed, and GPUs have their lost mappings
    /// again, unless the last attempt failed for lack of memory. `check` decides whether the
    /// operation is allowed; its errors are returned.
    ///
    /// # Errors
    ///
    /// `EINTR` if the caller is killed; `ENODEV` if the process is at its end; `ENOMEM` if there is
    /// no memory.
    fn open(self: &Arc<Self>, check: impl Fn() -> Result) -> Result<OpenedSvm<'_>> {
        user_range::with_lock_soon(&self.space, || {
            let mut state = self.lock_when_calm()?;
            if state.ended {
                return Err(ENODEV);
            }
            state.remove_unmapped(self)?;
            if !state.retry.has_failed() {
                state.restore_or_schedule(self)?;
            }
            check()?;
            Ok(OpenedSvm { svm: self, state })
        })
    }

    /// As [`Svm::open`], for an operation on `range` by `process`, the owner.
    ///
    /// # Errors
    ///
    /// Those of [`Svm::open`]; `EFAULT` if a part of the range is not memory of the process's own;
    /// `EADDRINUSE` if a buffer is mapped there on any of its GPUs.
    pub(crate) fn open_for(
        self: &Arc<Self>,
        process: &Process,
        range: VaRange,
    ) -> Result<OpenedSvm<'_>> {
        self.open(|| {
            let (start, size) = (range.start() as usize, range.size() as usize);
            if !user_range::is_own(&self.space, start, size)? {
                return Err(EFAULT);
            }
            let mut free = true;
            process.for_each_vm(|_, vm| free &= !vm.has_buffer(range));
            free.then_some(()).ok_or_else(errno::address_in_use)
        })
    }

    /// Waits for programs that have to provide the pages of the process in `range`, before GPUs are
    /// allowed to use it. A later [`Svm::open`] then finds the pages, and does not have to wait for
    /// a program.
    ///
    /// # Errors
    ///
    /// `EINTR` if the caller is killed; `ESRCH` if the process is at its end.
    pub(crate) fn wait_for_pages(&self, range: VaRange) -> Result {
        let (start, end) = (range.start() as usize, range.end() as usize);
        // It is not known yet whether they may be written.
        user_range::wait_for_pages(&self.space, start, end, false)
    }

    /// Ensures that a buffer can have `range`.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if a part of it has attributes; those of [`Svm::open`].
    pub(crate) fn check_free(self: &Arc<Self>, range: VaRange) -> Result {
        if !self.used.load(Acquire) {
            return Ok(());
        }
        let mut opened = self.open(|| Ok(()))?;
        if opened.state.map.overlaps(range) {
            return Err(errno::address_in_use());
        }
        if opened.state.split_holes(range) {
            drop(opened);
            // This maps the remaining parts around the holes again.
            self.open(|| Ok(()))?;
        }
        Ok(())
    }

    /// Releases the GPU with this memory: the process is about to lose it, and can no longer refer
    /// to it. Its queues there are gone. The wait for a call that is mapping memory on GPUs takes
    /// no longer than that call needs for one chunk.
    pub(super) fn remove_gpu(&self, gpu: &Arc<GpuMemory>) {
        self.priority_waiters.add(1, Relaxed);
        let mut state = self.state.lock();
        let _ = self.priority_waiters.fetch_sub(1, Relaxed);
        let SvmState {
            map,
            vms,
            gpus,
            faults,
            ..
        } = &mut *state;
        gpu.hw.faults.cancel(self.pasid);
        vms.retain(|(_, vm)| {
            let stays = !Arc::ptr_eq(vm.gpu(), gpu);
            if !stays {
                vm.set_retries(false);
                if let Err(error) = vm.unshare_all() {
                    dev_warn_ratelimited!(
                        process self.pid,
                        gpu.hw.dev,
                        "shared memory of process {}, which ended, stays mapped until the GPU is \
                         unbound: {error:?}\n",
                        self.pid
                    );
                }
            }
            stays
        });
        faults.retain(|known| vms.iter().any(|(index, _)| *index == known.gpu));
        if let Some(gone) = gpus.release(gpu.hw.id) {
            map.remove_gpu(gone);
        }
    }

    /// Runs the cleanup work item in `delay_ms` milliseconds. Any context.
    fn schedule_cleanup(self: &Arc<Self>, delay_ms: u32) {
        let delay = msecs_to_jiffies(delay_ms);
        workqueue::run_in::<_, CLEANUP>(workqueue::background(), self.clone(), delay);
    }

    /// Ends the shared virtual memory with the process: what is large is freed here, since the last
    /// reference may be that of the interrupt thread. May sleep.
    pub(super) fn end(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.ended = true;
        let listener = state.listener.take();
        let page_request = state.page_request.take();
        let none = AttributeMap::new(RangeTree::new(), SvmAttributes::initial(false));
        let map = core::mem::replace(&mut state.map, none);
        let pending = core::mem::take(&mut state.pending);
        drop(state);
        drop((listener, page_request, map, pending));
        // From now on, a work item that is scheduled finds nothing to do.
        workqueue::cancel::<_, CLEANUP>(self);
        workqueue::cancel::<_, FAULTS>(self);
    }
}

/// The deferred work: removes the attributes of unmapped memory, and restores lost mappings.
impl WorkItem<CLEANUP> for Svm {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let mut state = this.state.lock();
        if state.ended {
            return;
        }
        let done = state.remove_unmapped(&this);
        if done.and_then(|()| state.restore_lost(&this)).is_ok() {
            state.retry = RetryBackoff::default();
        } else if state.retry.is_enough() {
            // The GPUs do without these mappings. The next operation on the shared virtual memory
            // removes the attributes of the unmapped memory.
            state.lost.clear();
            state.retry = RetryBackoff::default();
        } else {
            state.retry_later(&this);
        }
    }
}

/// The locked shared virtual memory of a process, for an operation that sets or reads attributes.
pub(crate) struct OpenedSvm<'a> {
    svm: &'a Arc<Svm>,
    state: KillableGuard<'a, SvmState>,
}

impl OpenedSvm<'_> {
    /// The index of the GPU `id` among those to which attributes refer.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are too many.
    pub(crate) fn index(&mut self, id: GpuId) -> Result<GpuIndex> {
        self.state.gpus.acquire(id).ok_or(ENOSPC)
    }

    /// A summary of the attributes of `range`.
    pub(crate) fn summary(&self, range: VaRange) -> AttributeSummary {
        self.state.map.summary(range)
    }

    /// Applies `changes` to `range`, and then maps what the GPUs may use of it. The attributes stay
    /// changed even if the mapping fails.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ESRCH`, `ENOSPC`; those of [`Vm::share`]; [`errno::in_progress`] if a GPU is
    /// about to be removed, or page faults have priority. The caller then repeats the operation
    /// from [`Svm::open_for`] on, which first maps memory for the others, with the same `progress`.
    pub(crate) fn set(
        &mut self,
        process: &Process,
        range: VaRange,
        changes: &[AttributeChange],
        progress: &mut MoveProgress,
    ) -> Result {
        self.join(process)?;
        let state = &mut *self.state;
        make_room_to_set(&mut state.map, range)?;
        self.svm.used.store(true, Release);
        state.map.set(range, changes);
        let revoked = state.revoke(self.svm, range);
        // Before it is mapped: memory that they do not have yet need not be in system memory first.
        let done = match revoked.and_then(|()| state.place(self.svm, range, progress)) {
            Err(error) if error == errno::in_progress() => Err(error),
            placed => placed.and(state.update_gpu(self.svm, range)),
        };
        match done {
            Err(error) if error == errno::in_progress() => state.lost.add(range),
            Err(_) if state.lost.last().is_some() => state.retry_later(self.svm),
            _ => {}
        }
        done
    }

    /// Ensures that all address spaces of `process` are known, and that its unmaps are noticed.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; those of [`OpenedSvm::index`] and [`RangeWatch::new`].
    fn join(&mut self, process: &Process) -> Result {
        let mut found = KVec::new();
        let mut result = Ok(());
        process.for_each_vm(|id, vm| {
            let pushed = found.push((id, vm.clone()), GFP_KERNEL_ACCOUNT);
            result = result.and(pushed.map_err(Error::from));
        });
        result?;
        for (id, vm) in found {
            let index = self.index(id)?;
            if !self.state.vms.iter().any(|(known, _)| *known == index) {
                vm.set_retries(self.svm.retries());
                self.state
                    .faults
                    .push(KnownFaults::new(index), GFP_KERNEL_ACCOUNT)?;
                self.state.vms.push((index, vm), GFP_KERNEL_ACCOUNT)?;
            }
        }
        if self.state.listener.is_none() {
            let (start, size) = (GPUVM_BASE as usize, (USER_VA_END - GPUVM_BASE) as usize);
            let listener = UnmapListener(self.svm.clone());
            self.state.listener = Some(RangeWatch::new(&self.svm.space, start, size, listener)?);
        }
        Ok(())
    }
}

impl SvmState {
    /// Schedules another attempt of the operation that has just failed, with a longer delay each
    /// time.
    fn retry_later(&mut self, svm: &Arc<Svm>) {
        let delay = self.retry.fail();
        svm.schedule_cleanup(delay);
    }

    /// Restores the mappings that the GPUs have lost, or schedules that if there is no memory.
    ///
    /// # Errors
    ///
    /// `EINTR` if the caller is killed; those of [`Svm::check_precedence`].
    fn restore_or_schedule(&mut self, svm: &Arc<Svm>) -> Result {
        match self.restore_lost(svm) {
            Err(error) if error == EINTR || error == errno::in_progress() => Err(error),
            Err(_) => {
                self.retry_later(svm);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Removes the attributes of memory that was unmapped. After an error, the next call continues.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; those of [`user_range::with_lock_soon`] and
    /// [`Svm::check_precedence`].
    fn remove_unmapped(&mut self, svm: &Svm) -> Result {
        svm.unmapped.drain(&svm.space, &mut self.pending)?;
        while let Some(pending) = self.pending.last() {
            let range = *pending;
            let more = make_room_to_forget(&mut self.map, range)?;
            self.map.remove(more);
            if more != range {
                // For the memory that still exists, the GPUs lose their mappings.
                self.lost.add(more);
            }
            for on in &self.vms {
                let (_, vm) = on;
                for chunk in vm.chunks(range) {
                    svm.check_precedence(vm)?;
                    // A cut chunk itself knows which part the process still has.
                    if range.covers(chunk.range) {
                        vm.unmap(chunk.range)?;
                    } else if !chunk.cut {
                        update_gpu(svm, &self.map, &mut self.lost, on, chunk.range)?;
                    }
                }
            }
            let _ = self.pending.pop();
        }
        Ok(())
    }
}

impl Process {
    /// The process's shared virtual memory.
    pub(crate) fn svm(&self) -> &Arc<Svm> {
        &self.svm
    }

    /// Whether it has acquired an address space of any GPU.
    pub(crate) fn has_vm(&self) -> bool {
        let mut has = false;
        self.for_each_vm(|_, _| has = true);
        has
    }

    /// Calls `f` with each GPU of which the process has an address space, and with that address
    /// space.
    fn for_each_vm(&self, mut f: impl FnMut(GpuId, &Arc<Vm>)) {
        self.for_each_context(|context| {
            if let Ok(vm) = context.vm() {
                f(context.gpu().hw.id, &vm);
            }
        });
    }
}
