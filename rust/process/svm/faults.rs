// SPDX-License-Identifier: GPL-2.0
//! Retried page faults of a process's queues (XNACK). A work item of the process itself maps the
//! memory that its queues have touched, so that only the process waits for the effects of its own
//! memory changes.

use super::chunks::usage;
use super::{MoveProgress, Svm, SvmState, FAULTS};
use crate::ip::retries::PageFault;
use crate::kern::killable::KillableGuard;
use crate::kern::ratelimit::dev_warn_ratelimited;
use crate::kern::user_range::{self, LockWait, MemoryAround};
use crate::kern::{errno, host, workqueue};
use crate::mem::vm::{MappedAt, Vm};
use crate::smi::{MigrateTrigger, SmiEvent, SmiProcess};
use hw::faults::{FaultCursor, FaultHistory, FaultPolicy, StaleFault};
use hw::ih::{HubKind, VmFault};
use hw::svm::{FaultDestination, GpuIndex, SvmAttributes};
use hw::topology::gpu_id::GpuId;
use hw::va::{
    VaRange, GPUVM_BASE, LARGE_PAGE_SHIFT, LARGE_PAGE_SIZE, PAGE_SHIFT, PAGE_SIZE, USER_VA_END,
};
use kernel::prelude::*;
use kernel::sync::atomic::{Full, Relaxed};
use kernel::sync::Arc;
use kernel::time::{msecs_to_jiffies, Delta, Instant, Monotonic};
use kernel::workqueue::WorkItem;

/// The least time until the next look at a page that is not there yet, in milliseconds.
const AGAIN_MS: u32 = 2;
/// That time, in units of how long the last look at all such pages took: the work item, which is in
/// no cgroup, then needs a fifth of a processor for them.
const AGAIN_FACTOR: u32 = 4;
/// The most of that time, in milliseconds, for a look that took long because it waited for a lock.
const AGAIN_MOST_MS: u32 = 100;
/// The number of faults that one run of the work item ends before it lets other items run.
const RUN: u32 = 64;
/// The time for which a run looks at faults that have to wait. It has looked at all of them long
/// before that, unless the mmap lock is waited for, for up to a second each time.
const RUN_MOST: Delta = Delta::from_millis(2000);

/// The size of the memory that is mapped together while an engine waits. To find all pages of a
/// large page takes long if the process changes them all the time.
const URGENT_SIZE: u64 = 16 * PAGE_SIZE;

/// The outcome of a fault.
enum FaultVerdict {
    /// The page is mapped, or the access that needed it ended long ago. If neither is the case, the
    /// fault comes again.
    Done,
    /// The page is not available yet.
    Later {
        /// Something other than the driver has to act first: a program, or queues that have to
        /// leave.
        awaits: bool,
    },
    /// The process has no such page, or its GPU may not access the page in this way.
    Bad {
        /// Whether the page exists.
        present: bool,
    },
    /// The process is at its end.
    Gone,
}

/// What became of a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FaultOutcome {
    /// It is over.
    Over,
    /// It waits on at its place in the CAM.
    Waits,
    /// It has to wait, and too many wait: it ends after the run, and is raised again.
    PutOff,
}

impl FaultOutcome {
    /// Of a fault that has to wait, and keeps its place or not.
    const fn waiting(is_kept: bool) -> Self {
        if is_kept {
            Self::Waits
        } else {
            Self::PutOff
        }
    }
}

/// How far a run of the work item is with the faults that there were when it began. It looks at
/// each of them once, GPU by GPU, because some may have to wait.
#[derive(Default)]
struct FaultRun {
    /// The position in [`SvmState::vms`].
    gpu: usize,
    /// The position among the faults of that GPU.
    seen: Option<FaultCursor>,
    ended: u32,
    /// Whether there are faults that wait, or that were put off.
    waits: bool,
    put_off: bool,
    /// Whether an SDMA engine waits.
    engine_waits: bool,
}

impl FaultRun {
    fn count(&mut self, outcome: FaultOutcome, hub: HubKind) {
        match outcome {
            FaultOutcome::Over => self.ended += 1,
            FaultOutcome::Waits => self.waits = true,
            FaultOutcome::PutOff => (self.waits, self.put_off) = (true, true),
        }
        self.engine_waits |= outcome != FaultOutcome::Over && hub == HubKind::Mm;
    }
}

/// The state of the page faults of a GPU.
pub(super) struct KnownFaults {
    /// The GPU.
    pub(super) gpu: GpuIndex,
    history: FaultHistory,
}

impl KnownFaults {
    /// The initial state: no faults.
    pub(super) const fn new(gpu: GpuIndex) -> Self {
        Self {
            gpu,
            history: FaultHistory::new(),
        }
    }
}

impl Svm {
    /// The policy for retried page faults of the GPU `id`. Any context.
    pub(in crate::process) fn fault_policy(&self, id: GpuId) -> FaultPolicy {
        match (self.retries(), self.is_closing(id)) {
            (false, _) => FaultPolicy::Error,
            (true, false) => FaultPolicy::Map,
            (true, true) => FaultPolicy::End,
        }
    }

    /// Takes the lock for page faults, which have priority over operations on attributes.
    fn lock_for_faults(&self) -> KillableGuard<'_, SvmState> {
        self.faults_wait_since.store(host::boot_ms(), Relaxed);
        let state = self.state.lock();
        self.faults_wait_since.store(0, Relaxed);
        state
    }

    /// Runs the page fault work item soon: a page fault waits. If faults were put off, this is no
    /// sooner than the next look at them, since they are the first to come again. Any context.
    pub(in crate::process) fn serve_soon(self: &Arc<Self>) {
        let until = self.faults_put_off.load(Relaxed);
        let left = until.saturating_sub(host::boot_ms());
        let delay = msecs_to_jiffies(left.min(AGAIN_MOST_MS.into()) as u32);
        workqueue::run_in::<_, FAULTS>(workqueue::faults(), self.clone(), delay);
    }

    /// Schedules another look at the faults that have to wait, in `delay_ms` milliseconds. An
    /// earlier run that is already scheduled, because of another fault, stays.
    fn serve_again(self: &Arc<Self>, delay_ms: u32) {
        let delay = msecs_to_jiffies(delay_ms);
        let _ = workqueue::faults().enqueue_delayed::<_, FAULTS>(self.clone(), delay);
    }

    /// The same after `run`, which took `took`. If it has put off faults, these come again now, and
    /// no run is earlier because of that.
    fn serve_waiting(self: &Arc<Self>, run: &FaultRun, took: Delta) {
        let took_ms = u32::try_from(took.as_millis()).unwrap_or(AGAIN_MOST_MS);
        let again_ms = took_ms.saturating_mul(AGAIN_FACTOR);
        let again_ms = again_ms.clamp(AGAIN_MS, AGAIN_MOST_MS);
        if !run.put_off {
            self.serve_again(again_ms);
            return;
        }
        let until = host::boot_ms() + u64::from(again_ms);
        self.faults_put_off.store(until, Relaxed);
        for (_, vm) in &self.lock_for_faults().vms {
            vm.gpu().hw.faults.release(self.pasid);
        }
        // A new fault may have scheduled a run meanwhile, which is too early for the others.
        self.serve_soon();
    }
}

impl WorkItem<FAULTS> for Svm {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let began = Instant::<Monotonic>::now();
        let mut run = FaultRun::default();
        while run.ended < RUN {
            if run.waits && began.elapsed() >= RUN_MOST {
                break;
            }
            // Others may take the lock in between, but not for long.
            let mut state = this.lock_for_faults();
            if state.ended {
                return;
            }
            let Some((index, vm, fault)) = state.next_fault(&this, &mut run) else {
                break;
            };
            let hub = fault.fault.hub;
            run.count(state.deal(&this, (index, &vm), fault), hub);
            // An engine's fault has priority, also if nothing was urgent yet at the time of the
            // look.
            if run.engine_waits && this.is_urgent(&vm) {
                this.serve_again(AGAIN_MS);
                return;
            }
        }
        if run.ended == RUN {
            this.serve_soon();
        } else if run.waits {
            this.serve_waiting(&run, began.elapsed());
        }
    }
}

impl SvmState {
    /// Begins to serve the next fault of `run`. Returns it with its GPU and the process's address
    /// space there.
    fn next_fault(&self, svm: &Svm, run: &mut FaultRun) -> Option<(GpuIndex, Arc<Vm>, PageFault)> {
        loop {
            let (index, vm) = self.vms.get(run.gpu)?;
            let faults = &vm.gpu().hw.faults;
            let seen = run.seen.get_or_insert_with(|| faults.cursor(svm.pasid));
            if let Some(fault) = faults.serve(svm.pasid, seen) {
                return Some((*index, vm.clone(), fault));
            }
            (run.gpu, run.seen) = (run.gpu + 1, None);
        }
    }

    /// Handles `fault` of the GPU `on`, given with the process's address space there.
    fn deal(
        &mut self,
        svm: &Arc<Svm>,
        on: (GpuIndex, &Arc<Vm>),
        mut fault: PageFault,
    ) -> FaultOutcome {
        let faults = &on.1.gpu().hw.faults;
        let queues = svm.queues.load(Relaxed);
        match self.serve(svm, on, &fault) {
            FaultVerdict::Done => {}
            FaultVerdict::Later { awaits } => {
                return FaultOutcome::waiting(fault.put_back(awaits));
            }
            FaultVerdict::Gone => faults.end(fault),
            FaultVerdict::Bad { present } => match self.staleness(svm, on.0, &fault, queues) {
                Some(StaleFault::Changing) => {
                    return FaultOutcome::waiting(fault.put_back(false));
                }
                // If the access is not over, it is raised again.
                Some(StaleFault::QueuesChanged | StaleFault::Unmapped | StaleFault::Reported) => {}
                None => {
                    fault.fault.present |= present;
                    fault.fault.unwritable |= present && fault.fault.write;
                    faults.refuse(fault);
                }
            },
        }
        FaultOutcome::Over
    }

    /// Why `fault` of the GPU at `index`, at an address where the process has nothing for it, is no
    /// error of its current queues; `None` if it is one. The process had `queues`, as [`Svm`]
    /// counts them, before the lookup of the address.
    fn staleness(
        &mut self,
        svm: &Svm,
        index: GpuIndex,
        fault: &PageFault,
        queues: u64,
    ) -> Option<StaleFault> {
        // The memory may have been unmapped just now, without a notification so far.
        if user_range::is_changing(&svm.space) {
            return Some(StaleFault::Changing);
        }
        if svm.queues.load(Relaxed) != queues {
            return Some(StaleFault::QueuesChanged);
        }
        // Every unmap that was in progress held the mmap lock until it had notified the listener.
        if svm.changed.xchg(false, Full) {
            for (index, vm) in &self.vms {
                let its = self.faults.iter_mut().filter(|known| known.gpu == *index);
                its.for_each(|known| known.history.set_unmapped(vm.gpu().hw.ih.position()));
            }
        }
        let known = self.faults.iter_mut().find(|known| known.gpu == index)?;
        let hub = fault.fault.hub;
        known.history.check(hub, fault.position, queues)
    }

    /// Removes the attributes of memory that was unmapped, if no GPU of the process is about to
    /// sleep. That GPU has given up the memory that may change meanwhile, and must not get it again
    /// for the sake of a fault of another GPU.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is such memory and such a GPU; those of [`SvmState::remove_unmapped`].
    fn remove_unmapped_awake(&mut self, svm: &Svm) -> Result {
        let mut vms = self.vms.iter();
        if vms.any(|(_, vm)| vm.gpu().hw.faults.is_suspended()) {
            svm.unmapped.drain(&svm.space, &mut self.pending)?;
            if !self.pending.is_empty() {
                return Err(EBUSY);
            }
        }
        self.remove_unmapped(svm)
    }

    /// Maps the memory of the process at the address where the GPU at `index`, with address space
    /// `vm`, has faulted.
    fn serve(
        &mut self,
        svm: &Arc<Svm>,
        (index, vm): (GpuIndex, &Arc<Vm>),
        fault: &PageFault,
    ) -> FaultVerdict {
        if svm.is_closing(vm.gpu().hw.id) {
            return FaultVerdict::Gone;
        }
        let VmFault { write, .. } = fault.fault;
        let address = fault.fault.address();
        let Ok(page) = VaRange::new(address, PAGE_SIZE) else {
            return FaultVerdict::Bad { present: false };
        };
        if address < GPUVM_BASE || page.end() > USER_VA_END {
            return FaultVerdict::Bad { present: false };
        }
        if self.remove_unmapped_awake(svm).is_err() {
            return FaultVerdict::Later { awaits: false };
        }
        match vm.mapped_at(page, write) {
            MappedAt::Nothing | MappedAt::Chunk(_) => {}
            MappedAt::Buffer => return mapped(vm, page, fault),
            MappedAt::Awaited => return FaultVerdict::Later { awaits: true },
            MappedAt::Refused => return FaultVerdict::Bad { present: true },
        }
        match self.map_page(svm, (index, vm), page, fault) {
            Ok(verdict) => verdict,
            Err(error) if error == ESRCH => FaultVerdict::Gone,
            Err(error) if error == EAGAIN || error == EBUSY || error == EEXIST => {
                FaultVerdict::Later { awaits: false }
            }
            Err(error) if error == errno::in_progress() => FaultVerdict::Later {
                awaits: self.request_page(vm, page, write),
            },
            Err(error) => {
                dev_warn_ratelimited!(
                    process svm.pid,
                    vm.gpu().hw.dev,
                    "memory at {address:#x} of process {} cannot be mapped: {error:?}\n",
                    svm.pid
                );
                FaultVerdict::Bad { present: false }
            }
        }
    }

    /// Does the same for a `page` without a buffer: the memory around it moves to where it is to
    /// be, and is mapped.
    ///
    /// # Errors
    ///
    /// Those of [`SvmState::place_part`], [`Vm::share`] and [`Vm::fault_in`].
    fn map_page(
        &mut self,
        svm: &Arc<Svm>,
        (index, vm): (GpuIndex, &Arc<Vm>),
        page: VaRange,
        fault: &PageFault,
    ) -> Result<FaultVerdict> {
        let write = fault.fault.write;
        let urgent = svm.is_urgent(vm);
        let most = if urgent { URGENT_SIZE } else { LARGE_PAGE_SIZE };
        let window = window(&self.map.at(page.start(), page).1, page, most);
        let (said, attributes) = self.map.at(page.start(), window);
        let Some(usage) = usage(&attributes, index) else {
            return Ok(FaultVerdict::Bad { present: false });
        };
        let at = page.start() as usize;
        let within = window.start() as usize..window.end() as usize;
        let Some(memory) = user_range::around(&svm.space, at, within, LockWait::Long)? else {
            return Ok(FaultVerdict::Bad { present: false });
        };
        if let Some(present) = refused(&memory, usage.0.access.write, write) {
            return Ok(FaultVerdict::Bad { present });
        }
        // The chunk that stays, if there is one.
        let chunk = match vm.mapped_at(page, write) {
            MappedAt::Chunk(chunk) => {
                let is_right = !chunk.cut && (chunk.usage, chunk.always) == usage;
                if is_right && vm.is_reached(page, write) {
                    return Ok(mapped(vm, page, fault));
                }
                if is_right && (chunk.always || chunk.range.size() <= most) {
                    Some(chunk.range)
                } else {
                    vm.unmap(chunk.range)?;
                    None
                }
            }
            MappedAt::Nothing => None,
            // A buffer was mapped here in the meantime.
            MappedAt::Buffer | MappedAt::Awaited | MappedAt::Refused => return Err(EAGAIN),
        };
        let whose = SmiProcess {
            pid: svm.pid,
            space: svm.space.id(),
        };
        let (smi, number) = (&vm.gpu().hw.smi, page.start() >> PAGE_SHIFT);
        smi.notify(&SmiEvent::PageFault(whose, number, write));
        let mine = VaRange::of_process(&memory.range).unwrap_or(page);
        let piece = mine.intersection(said).unwrap_or(page);
        // Only the part that is mapped now. Memory that is examined for a move is unmapped from the
        // GPU. If a move covered more, two chunks that the GPU accesses at the same time would each
        // be unmapped for the other's sake, for ever.
        let piece = match chunk {
            Some(chunk) => piece.intersection(chunk).unwrap_or(page),
            None => vm.gap(page, piece),
        };
        let destination = match self.map.overlaps(page) {
            _ if urgent => FaultDestination::Stays,
            false if memory.heap_or_stack => FaultDestination::System,
            _ => attributes.destination(index, vm.gpu().hw.id.get().into()),
        };
        let has_moved = self.migrate(svm, vm, piece, &attributes, destination)?;
        if chunk.is_none() {
            vm.share(&svm.space, piece, usage, LARGE_PAGE_SIZE, || {
                svm.check_precedence(vm)
            })?;
        }
        if !vm.fault_in(page, write, &|| svm.check_precedence(vm))? {
            return Ok(FaultVerdict::Bad { present: false });
        }
        smi.notify(&SmiEvent::PageMapped(whose, number, has_moved));
        Ok(FaultVerdict::Done)
    }

    /// Moves `piece`, which has these attributes, to where it is to be for the GPU of `vm`, as far
    /// as possible. Returns whether anything has moved.
    ///
    /// # Errors
    ///
    /// Those of [`SvmState::place_part`].
    fn migrate(
        &mut self,
        svm: &Arc<Svm>,
        vm: &Arc<Vm>,
        piece: VaRange,
        attributes: &SvmAttributes,
        destination: FaultDestination,
    ) -> Result<bool> {
        let began_ms = host::boot_ms();
        let to = match destination {
            FaultDestination::Stays => return Ok(false),
            FaultDestination::Vram if self.ping_pong.is_on(piece, began_ms) => return Ok(false),
            FaultDestination::Vram => Some(vm),
            FaultDestination::System => None,
        };
        let (trigger, mut progress) = (MigrateTrigger::GpuFault, MoveProgress::default());
        let moved = self.place_part(svm, piece, attributes, to, trigger, &mut progress)?;
        if moved != 0 && to.is_some() {
            self.ping_pong.moved(piece, began_ms, host::boot_ms());
        }
        Ok(moved != 0)
    }

    /// Ensures that a work item waits for the program that has to provide `page`, if there is one.
    /// Returns whether a work item waits.
    fn request_page(&mut self, vm: &Vm, page: VaRange, write: bool) -> bool {
        let is_waiting = self.page_request.as_ref();
        if is_waiting.is_some_and(|request| !request.by().is_done()) {
            return true;
        }
        // Without memory, the next run does it.
        let Ok(request) = vm.request_pages(page, write) else {
            return false;
        };
        self.page_request = Some(request);
        true
    }
}

/// The outcome of `fault` at a page that is mapped. Either the fault was already under way when the
/// page was mapped, or the access is not allowed.
fn mapped(vm: &Vm, page: VaRange, fault: &PageFault) -> FaultVerdict {
    if vm.is_repeated(page, fault.position) {
        FaultVerdict::Bad { present: true }
    } else {
        FaultVerdict::Done
    }
}

/// The range that is handled together with `page`, in memory with these attributes: at most `most`
/// bytes, and at most the range of a large page.
fn window(attributes: &SvmAttributes, page: VaRange, most: u64) -> VaRange {
    let granularity = u32::from(attributes.granularity());
    let size = most.min(PAGE_SIZE << granularity.min(LARGE_PAGE_SHIFT - PAGE_SHIFT));
    let start = page.start() / size * size;
    VaRange::between(start.max(GPUVM_BASE), (start + size).min(USER_VA_END)).unwrap_or(page)
}

/// Whether the page exists, if the GPU of the process may not access `memory` in this way; `None`
/// if it may.
fn refused(memory: &MemoryAround, may_write: bool, write: bool) -> Option<bool> {
    match (memory.readable, memory.writable && may_write || !write) {
        (true, true) => None,
        (readable, _) => Some(readable),
    }
}
