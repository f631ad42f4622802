// SPDX-License-Identifier: GPL-2.0
//! Shared virtual memory: what a process said of ranges of its memory, and what its GPUs have of them.

mod chunks;
mod fault_priority;
mod faults;
mod migrate;
mod ranges;
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
    /// Page faults are retried (XNACK). Changed with `state`, while there are no queues.
    retries: AtomicFlag,
    /// The process loses the GPU of this id, or all of them, and nothing is mapped there any more: see [`ClosingGpus`].
    closing: Atomic<u32>,
    /// Queues that were made or destroyed: what those did that are gone does not count against others.
    queues: Atomic<u64>,
    /// Something was said of a range.
    used: AtomicFlag,
    /// Held while something is said, and so while the process's memory is waited for, but for no program: see
    /// [`user_range::with_lock_soon`]. Outside a context's memory and the mmap lock.
    #[pin]
    state: KillableMutex<SvmState>,
    /// How many wait for that lock who are not to wait until all of a process's memory is there.
    awaited: Atomic<i32>,
    /// When page faults began to wait for that lock, milliseconds since boot; 0 while none do.
    faults_wait_since: Atomic<u64>,
    #[pin]
    unmapped: UnmappedRanges,
    /// Memory was unmapped since somebody last looked who refuses a page fault.
    changed: AtomicFlag,
    /// Does what is left to be done.
    #[pin]
    cleanup: DelayedWork<Self, CLEANUP>,
    /// Maps what queues have come to.
    #[pin]
    faults: DelayedWork<Self, FAULTS>,
}

/// The work items.
const CLEANUP: u64 = 0;
const FAULTS: u64 = 1;

impl_has_delayed_work! {
    impl HasDelayedWork<Self, CLEANUP> for Svm { self.cleanup }
    impl HasDelayedWork<Self, FAULTS> for Svm { self.faults }
}

struct SvmState {
    map: AttributeMap<RangeTree>,
    /// GPUs of which something was said.
    gpus: GpuPlaces<GpuId>,
    /// Their address spaces.
    vms: KVec<(GpuIndex, Arc<Vm>)>,
    /// What was unmapped and is not forgotten yet.
    pending: KVVec<VaRange>,
    /// Where GPUs may not have what was said: chunks that were taken out and could not be made anew, and what was forgotten for want of room.
    torn: SmallRangeList,
    /// How often that failed, or to forget what was unmapped.
    retry: RetryBackoff,
    /// Who was last to wait for a program that has to bring a page.
    bringer: Option<FetchRequest>,
    /// What is known of the page faults of these GPUs.
    faults: KVec<KnownFaults>,
    /// What has lately moved because of them.
    ping_pong: KBox<PingPong>,
    listener: Option<RangeWatch<UnmapListener>>,
    ended: bool,
}

impl Svm {
    /// Of the process `pid`, `pasid` of address space `space`, which has said nothing. ENOMEM.
    pub(super) fn new(space: &AddressSpace, pid: i32, pasid: u16) -> Result<Arc<Self>> {
        let unmapped = UnmappedRanges::new()?;
        let state = SvmState {
            map: AttributeMap::new(RangeTree::new(), SvmAttributes::initial(false)),
            gpus: GpuPlaces::new(),
            vms: KVec::new(),
            pending: KVVec::new(),
            torn: SmallRangeList::new()?,
            retry: RetryBackoff::default(),
            bringer: None,
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
                awaited: Atomic::new(0),
                faults_wait_since: Atomic::new(0),
                state <- KillableMutex::new(state, c"Svm::state", kernel::static_lock_class!()),
                unmapped <- unmapped,
                cleanup <- new_delayed_work!("Svm::cleanup"),
                faults <- new_delayed_work!("Svm::faults"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Nobody else says or asks anything until what is returned is dropped. What the process has unmapped until now is
    /// forgotten, and GPUs have got again what they had lost, unless there was no memory for that the last time. `check` says whether it may be done. EINTR when the caller is killed, ENODEV at the process's end, ENOMEM.
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

    /// As [`Svm::open`], for `process`, whose it is, and to say or ask something of `range`: EFAULT when that is not all memory of
    /// the process's own, EADDRINUSE when a buffer is mapped there on any of its GPUs.
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

    /// Waits for programs that have to bring what the process has in `range`, before somebody says that GPUs may use it: whoever
    /// opens finds the pages there, and waits for none. EINTR when the caller is killed, ESRCH at the process's end.
    pub(crate) fn wait_for_pages(&self, range: VaRange) -> Result {
        let (start, end) = (range.start() as usize, range.end() as usize);
        // Nobody knows yet whether they may be written.
        user_range::wait_for_pages(&self.space, start, end, false)
    }

    /// Sees to it that a buffer can have `range`. EADDRINUSE when something was said of a part of it; the rest as [`Svm::open`].
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
            // This makes anew what is left around them.
            self.open(|| Ok(()))?;
        }
        Ok(())
    }

    /// The process loses the GPU with this memory, of which it can say nothing any more. Its queues there are gone. Who is giving GPUs
    /// memory is not waited for longer than a chunk of that takes.
    pub(super) fn remove_gpu(&self, gpu: &Arc<GpuMemory>) {
        self.awaited.add(1, Relaxed);
        let mut state = self.state.lock();
        let _ = self.awaited.fetch_sub(1, Relaxed);
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
                        gpu.hw.dev,
                        "shared memory of a process that ended stays mapped: {error:?}\n"
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

    /// Has the work item run in so many milliseconds. Any context.
    fn catch_up_in(self: &Arc<Self>, delay_ms: u32) {
        let delay = msecs_to_jiffies(delay_ms);
        workqueue::run_in::<_, CLEANUP>(workqueue::background(), self.clone(), delay);
    }

    /// The process is at its end. Sleeps.
    pub(super) fn end(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.ended = true;
        let listener = state.listener.take();
        let bringer = state.bringer.take();
        drop(state);
        drop((listener, bringer));
        // From now on nobody has them run who finds anything to do.
        workqueue::cancel::<_, CLEANUP>(self);
        workqueue::cancel::<_, FAULTS>(self);
    }
}

/// What happens in the background.
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
            // GPUs go without it. What was unmapped is forgotten by whoever says or asks something next.
            state.torn.clear();
            state.retry = RetryBackoff::default();
        } else {
            state.later(&this);
        }
    }
}

/// The shared virtual memory of a process, for one who says or asks something.
pub(crate) struct OpenedSvm<'a> {
    svm: &'a Arc<Svm>,
    state: KillableGuard<'a, SvmState>,
}

impl OpenedSvm<'_> {
    /// Where the GPU `id` is among those of which something was said. ENOSPC when there are too many.
    pub(crate) fn index(&mut self, id: GpuId) -> Result<GpuIndex> {
        self.state.gpus.acquire(id).ok_or(ENOSPC)
    }

    /// What was said of `range`.
    pub(crate) fn summary(&self, range: VaRange) -> AttributeSummary {
        self.state.map.summary(range)
    }

    /// Says `changes` of `range`, and gives the GPUs what they may use of it then: what is said stays, even if that fails. ENOMEM,
    /// ESRCH, ENOSPC, and what [`Vm::share`] says; [`errno::in_progress`] when a GPU is about to go: then it is to be said once more, from
    /// [`Svm::open_for`] on, which first gives the others what they may use, with the same `progress`.
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
        let taken = state.revoke(self.svm, range);
        // Before they get it: what they do not have yet need not be in system memory first.
        let done = match taken.and_then(|()| state.place(self.svm, range, progress)) {
            Err(error) if error == errno::in_progress() => Err(error),
            placed => placed.and(state.update_gpu(self.svm, range)),
        };
        match done {
            Err(error) if error == errno::in_progress() => state.torn.add(range),
            Err(_) if state.torn.last().is_some() => state.later(self.svm),
            _ => {}
        }
        done
    }

    /// Sees to it that all address spaces of `process` are known, and what it unmaps is heard of.
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
    /// Has the work item try again what has just failed, later each time.
    fn later(&mut self, svm: &Arc<Svm>) {
        let delay = self.retry.fail();
        svm.catch_up_in(delay);
    }

    /// Gives the GPUs again what they have lost, or has the work item do it when there is no memory. EINTR, and what
    /// [`Svm::check_precedence`] says.
    fn restore_or_schedule(&mut self, svm: &Arc<Svm>) -> Result {
        match self.restore_lost(svm) {
            Err(error) if error == EINTR || error == errno::in_progress() => Err(error),
            Err(_) => {
                self.later(svm);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// What was said of memory that is unmapped is forgotten. ENOMEM, and see [`user_range::with_lock_soon`] and [`Svm::check_precedence`]: some is
    /// left for the next time.
    fn remove_unmapped(&mut self, svm: &Svm) -> Result {
        svm.unmapped.drain(&svm.space, &mut self.pending)?;
        while let Some(pending) = self.pending.last() {
            let range = *pending;
            let more = make_room_to_forget(&mut self.map, range)?;
            self.map.remove(more);
            if more != range {
                // Of what is still there they lose what they had.
                self.torn.add(more);
            }
            for on in &self.vms {
                let (_, vm) = on;
                for chunk in vm.chunks(range) {
                    svm.check_precedence(vm)?;
                    // One that is cut knows itself which part the process has still.
                    if range.covers(chunk.range) {
                        vm.unmap(chunk.range)?;
                    } else if !chunk.cut {
                        update_gpu(svm, &self.map, &mut self.torn, on, chunk.range)?;
                    }
                }
            }
            let _ = self.pending.pop();
        }
        Ok(())
    }
}

impl Process {
    /// Its shared virtual memory.
    pub(crate) fn svm(&self) -> &Arc<Svm> {
        &self.svm
    }

    /// Whether it has acquired an address space of any GPU.
    pub(crate) fn has_vm(&self) -> bool {
        let mut has = false;
        self.for_each_vm(|_, _| has = true);
        has
    }

    /// Calls `f` with each GPU of which the process has an address space, and that.
    fn for_each_vm(&self, mut f: impl FnMut(GpuId, &Arc<Vm>)) {
        self.for_each_context(|context| {
            if let Ok(vm) = context.vm() {
                f(context.gpu().hw.id, &vm);
            }
        });
    }
}
