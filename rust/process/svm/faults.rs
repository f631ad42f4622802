// SPDX-License-Identifier: GPL-2.0
//! Retried page faults of a process's queues (XNACK). A work item of the process itself maps the
//! memory that its queues have touched, so that only the process waits for the effects of its own
//! memory changes.

use super::chunks::usage;
use super::{MoveProgress, Svm, SvmState, FAULTS};
use crate::ip::retries::PageFault;
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
use kernel::time::msecs_to_jiffies;
use kernel::workqueue::WorkItem;

/// The time until the next look at a page that is not there yet, in milliseconds.
const AGAIN_MS: u32 = 2;
/// The number of faults that one run of the work item handles before it lets other items run.
const RUN: u32 = 64;

/// The number of entries of the CAM that waiting faults of one process may keep. All processes
/// share the CAM.
const KEPT: u32 = 64;

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

    /// Runs the page fault work item in `delay_ms` milliseconds. Any context.
    pub(in crate::process) fn serve_in(self: &Arc<Self>, delay_ms: u32) {
        let delay = msecs_to_jiffies(delay_ms);
        workqueue::run_in::<_, FAULTS>(workqueue::allocating(), self.clone(), delay);
    }

    /// Schedules another look at the faults that have to wait; an earlier run that is already
    /// scheduled, because of another fault, stays.
    fn schedule_serve(self: &Arc<Self>) {
        let delay = msecs_to_jiffies(AGAIN_MS);
        let _ = workqueue::allocating().enqueue_delayed::<_, FAULTS>(self.clone(), delay);
    }
}

impl WorkItem<FAULTS> for Svm {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let (mut later, mut engine_waits) = (0, false);
        // Each fault is looked at once, GPU by GPU, because some may have to wait.
        let mut seen = (0, FaultCursor::default());
        for _ in 0..RUN {
            // Others may take the lock in between, but not for long.
            this.faults_wait_since.store(host::boot_ms(), Relaxed);
            let mut state = this.state.lock();
            this.faults_wait_since.store(0, Relaxed);
            if state.ended {
                return;
            }
            let taken = loop {
                let Some((index, vm)) = state.vms.get(seen.0) else {
                    break None;
                };
                if let Some(fault) = vm.gpu().hw.faults.serve(this.pasid, &mut seen.1) {
                    break Some((*index, vm.clone(), fault));
                }
                seen = (seen.0 + 1, FaultCursor::default());
            };
            let Some((index, vm, fault)) = taken else {
                if later > 0 {
                    this.schedule_serve();
                }
                return;
            };
            let is_of_engine = fault.fault.hub == HubKind::Mm;
            let waits = state.deal(&this, (index, &vm), fault, later < KEPT);
            later += u32::from(waits);
            engine_waits |= waits && is_of_engine;
            // An engine's fault has priority, also if nothing was urgent yet at the time of the
            // look.
            if engine_waits && this.is_urgent(&vm) {
                this.schedule_serve();
                return;
            }
        }
        this.serve_in(0);
    }
}

impl SvmState {
    /// Handles `fault` of the GPU `on`, given with the process's address space there. Returns
    /// whether the fault has to wait. If it has to, it keeps its CAM entry if `keep` is set;
    /// otherwise it is raised again.
    fn deal(
        &mut self,
        svm: &Arc<Svm>,
        on: (GpuIndex, &Arc<Vm>),
        mut fault: PageFault,
        keep: bool,
    ) -> bool {
        let faults = &on.1.gpu().hw.faults;
        let queues = svm.queues.load(Relaxed);
        match self.serve(svm, on, &fault) {
            FaultVerdict::Done => {}
            FaultVerdict::Later { awaits } => {
                if keep {
                    fault.put_back(awaits);
                }
                return true;
            }
            FaultVerdict::Gone => faults.end(fault),
            FaultVerdict::Bad { present } => match self.staleness(svm, on.0, &fault, queues) {
                Some(StaleFault::Changing) => {
                    if keep {
                        fault.put_back(false);
                    }
                    return true;
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
        false
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
        if let Some(listener) = &self.listener {
            // After this, every unmap that was in progress has notified the listener.
            let _ = listener.read_begin();
        }
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
        if self.remove_unmapped(svm).is_err() {
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
