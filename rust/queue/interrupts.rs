// SPDX-License-Identifier: GPL-2.0
//! Dispatches interrupts to queues and kernel rings. Nothing here waits for memory: fences depend
//! on it.

use super::compute::{ComputeFailure, ComputeScheduler};
use super::fault_reports::{FaultReports, FaultToReport};
use super::request::QueueOwner;
use super::sdma::feed::END_OF_JOB;
use super::sdma::slots::SdmaSlots;
use crate::ip::interrupt_sink::InterruptSink;
use crate::kern::ratelimit::{dev_notice_ratelimited, dev_warn_ratelimited};
use crate::kern::task::TaskIdentity;
use crate::kern::trace;
use crate::queue::GpuQueues;
use crate::ring::KernelRings;
use crate::smi::{Smi, SmiEvent};
use core::cell::Cell;
use core::fmt;
use hw::exceptions::QueueExceptions;
use hw::ih::{
    CpEop, CpError, FaultDetails, FaultStatus, IhInfo, SdmaError, SdmaErrorOrigin, ShaderCause,
    ShaderMessage, VmFault,
};
use hw::sdma::engines::{SdmaMask, SdmaTrapSet};
use hw::topology::gpu_id::GpuId;
use kernel::device::Device;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::{new_spinlock, Arc, SpinLock};

/// The receiver of events for processes. It knows processes by PASID; the process of an unknown
/// PASID has ended. Called by the interrupt thread and by threads that find a queue hanging:
/// allocates nothing and waits for nothing.
pub(crate) trait ProcessSink: Send + Sync {
    /// A queue of the process asked for an interrupt, with a context of which `bits` bits are
    /// valid. Returns whether the context identifies the event. If not,
    /// [`ProcessSink::poll_events`] is called.
    fn signal(&self, pasid: u16, context: u32, bits: u32) -> bool;
    /// Queues of the process asked for interrupts: any of its events may be meant.
    fn poll_events(&self, pasid: u16);
    /// A queue of the process on `gpu` raised `exceptions`. Returns whether its runtime is told of
    /// them. If not, it has no runtime that asked for them, or there is no such queue.
    fn raise(&self, gpu: GpuId, pasid: u16, exceptions: &QueueExceptions) -> bool;
    /// An access of the process could not be translated. Returns whether its debugger takes care of
    /// that.
    fn debug_fault(&self, gpu: GpuId, pasid: u16, fault: &VmFault) -> bool;
    /// An access of the process could not be translated. Returns the process.
    fn fault(&self, gpu: GpuId, pasid: u16, fault: &VmFault) -> Option<TaskIdentity>;
    /// A queue of the process was stopped: it hung, or asked for something that is refused.
    fn stopped(&self, gpu: GpuId, pasid: u16);
}

/// Valid bits in the context of an SDMA TRAP.
const SDMA_CONTEXT_BITS: u32 = 28;
/// Valid bits in the context of an end-of-pipe event.
const CP_CONTEXT_BITS: u32 = 32;
/// Valid bits in the data of a shader's message.
const SHADER_CONTEXT_BITS: u32 = 24;

/// The kernel's address space.
const KERNEL_VMID: u8 = 0;

/// Dispatches interrupts to the queues and rings of a GPU.
#[pin_data]
pub(crate) struct InterruptDispatch {
    slots: Arc<SdmaSlots>,
    compute: Arc<dyn ComputeScheduler>,
    rings: Arc<KernelRings>,
    reports: Arc<FaultReports>,
    processes: Arc<dyn ProcessSink>,
    smi: Arc<Smi>,
    id: GpuId,
    /// How the chip's interrupts name blocks.
    names: &'static IhInfo,
    dev: ARef<Device>,
    #[pin]
    batch: SpinLock<InterruptBatch>,
}

/// The requests of entries since the last [`InterruptSink::flush`]. All of these entries were in
/// the ring before the first of them was handled. So work that was done for the first need not be
/// done before the flush for another that is the same.
#[derive(Default)]
struct InterruptBatch {
    /// Engines whose kernel ring was looked at.
    rings: SdmaTrapSet,
    /// Engines whose queues are to be looked at.
    queues: SdmaMask,
    /// Processes any of whose events may be meant.
    look: FewPasids,
    /// Processes all of whose queues were stopped.
    stopped: FewPasids,
}

/// A few PASIDs; 0 is none.
#[derive(Default)]
struct FewPasids([u16; 8]);

impl FewPasids {
    fn has(&self, pasid: u16) -> bool {
        pasid != 0 && self.0.contains(&pasid)
    }

    /// Adds `pasid`. Returns whether it is in the set now.
    fn add(&mut self, pasid: u16) -> bool {
        let place = self
            .0
            .iter_mut()
            .find(|place| **place == pasid || **place == 0);
        place.map(|place| *place = pasid).is_some()
    }
}

impl InterruptDispatch {
    /// A dispatcher for the interrupts of `gpu`, which it does not hold. `processes` gets the
    /// events of processes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(gpu: &GpuQueues, processes: Arc<dyn ProcessSink>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                slots: gpu.slots.clone(),
                compute: gpu.compute.clone(),
                rings: gpu.rings.clone(),
                reports: gpu.faults.clone(),
                processes,
                smi: gpu.hw.smi.clone(),
                id: gpu.hw.id,
                names: &gpu.hw.asic.interrupts,
                dev: gpu.hw.dev.clone(),
                batch <- new_spinlock!(InterruptBatch::default(), "InterruptDispatch::batch"),
            }),
            GFP_KERNEL,
        )
    }

    /// A queue of the process asked for an interrupt.
    fn signal(&self, pasid: u16, context: u32, bits: u32) {
        let named = self.processes.signal(pasid, context, bits);
        // To look at all slots for each interrupt would cost too much.
        if !named && !self.batch.lock().look.add(pasid) {
            self.processes.poll_events(pasid);
        }
    }

    /// A queue of the process `pasid` was stopped: it hung, or asked for something that is refused.
    /// Allocates nothing and waits for nothing.
    pub(crate) fn stopped(&self, pasid: u16) {
        self.processes.stopped(self.id, pasid);
    }
}

/// The process's number for a log message.
fn pid(owner: Option<QueueOwner>) -> i32 {
    owner.map_or(0, |owner| owner.pid)
}

impl InterruptDispatch {
    /// Logs a fault of the process `owner`, or of the driver itself. The line has the fields of
    /// amdgpu's lines for a fault, with their names, because people's tools look for them.
    fn report_fault(
        &self,
        fault: &VmFault,
        status: Option<FaultStatus>,
        owner: Option<&QueueOwner>,
    ) {
        let (hub, client) = fault.names();
        let retry = if fault.retry.is_some() {
            "retry"
        } else {
            "no-retry"
        };
        let (ring, vmid, pasid) = (fault.ring, fault.vmid, fault.pasid);
        let (pid, address) = (pid(owner.copied()), fault.address());
        let access = if fault.write { "write" } else { "read" };
        let name = OwnerName(owner);
        let details = FaultDetails {
            status,
            hub: fault.hub,
            interrupts: self.names,
        };
        dev_warn_ratelimited!(
            process pid,
            self.dev,
            "[{hub}] {retry} page fault (src_id:0 ring:{ring} vmid:{vmid} pasid:{pasid}) \
             for process {} pid {pid} thread {} pid {pid} \
             in page starting at address {address:#018x} from IH client {client}{}: \
             {access}, its queues stop\n",
            format_args!("{name}"),
            format_args!("{name}"),
            format_args!("{details}")
        );
    }
}

/// The name of a process for a log message; the driver's own for none.
struct OwnerName<'a>(Option<&'a QueueOwner>);

impl fmt::Display for OwnerName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(owner) => owner.name.fmt(f),
            None => f.write_str("rkfd"),
        }
    }
}

impl InterruptSink for InterruptDispatch {
    fn sdma_trap(&self, engine: u8, vmid: u8, pasid: u16, context: u32) {
        if vmid == KERNEL_VMID {
            if self.batch.lock().rings.is_first(engine) {
                self.rings.check(engine);
            }
            return;
        }
        // First the threads that wait for an event, and at the flush the jobs that have ended,
        // which have work items run.
        if context != END_OF_JOB {
            self.signal(pasid, context, SDMA_CONTEXT_BITS);
        }
        if !self.batch.lock().queues.insert(engine) {
            self.slots.check(engine);
        }
    }

    fn flush(&self) {
        let batch = core::mem::take(&mut *self.batch.lock());
        batch
            .rings
            .repeated()
            .for_each(|engine| self.rings.check(engine));
        let pasids = batch.look.0.into_iter().filter(|&pasid| pasid != 0);
        pasids.for_each(|pasid| self.processes.poll_events(pasid));
        batch
            .queues
            .iter()
            .for_each(|engine| self.slots.check(engine));
    }

    fn forget_stopped(&self) {
        // Not the rest, which is the interrupt thread's to do.
        self.batch.lock().stopped = FewPasids::default();
    }

    fn cp_eop(&self, eop: &CpEop) {
        // Firmware sends context 0 without a meaning; a context that is meant identifies its event.
        if eop.vmid != KERNEL_VMID && eop.context != 0 {
            self.signal(eop.pasid, eop.context, CP_CONTEXT_BITS);
        }
    }

    fn shader_message(&self, message: &ShaderMessage) {
        let (pasid, vmid, data) = (message.pasid, message.vmid, message.data);
        let (error, place) = (message.cause.error(), message.place);
        trace::shader_interrupt(
            pasid,
            vmid,
            data,
            message.privileged,
            error.is_some(),
            place,
        );
        if vmid == KERNEL_VMID || message.cause == ShaderCause::Sequencer {
            return;
        }
        if let Some(error) = error {
            dev_warn_ratelimited!(
                process pasid,
                self.dev,
                "shader: {error} of a wave of PASID {pasid}, place {place:#x}\n"
            );
        }
        let is_told =
            |exceptions: &QueueExceptions| self.processes.raise(self.id, pasid, exceptions);
        if message.exceptions().as_ref().is_some_and(is_told) {
            return;
        }
        // Also for an error: the process's trap handler has no other receiver for it.
        self.signal(pasid, data, SHADER_CONTEXT_BITS);
    }

    fn sdma_error(&self, error: &SdmaError) {
        let (engine, pasid, what) = (error.engine, error.pasid, error.kind.name());
        match error.origin() {
            SdmaErrorOrigin::KernelRing => {
                dev_err!(
                    self.dev,
                    "sdma{engine}: {what} in the driver's ring: its jobs there fail, and the \
                     engine is reset\n"
                );
                self.rings.fail(engine);
            }
            SdmaErrorOrigin::Process => {
                let owner = self.slots.fail(Some(engine), pasid, EIO);
                self.stopped(pasid);
                let pid = pid(owner);
                dev_warn_ratelimited!(
                    process pid,
                    self.dev,
                    "sdma{engine}: fault of process {pid} (PASID {pasid}): {what}; \
                     its queues there stop\n"
                );
            }
            SdmaErrorOrigin::Unknown => dev_warn_ratelimited!(
                process pasid,
                self.dev,
                "sdma{engine}: {what} of no known queue (ring {}, PASID {pasid}): nothing is \
                 stopped\n",
                error.ring
            ),
        }
    }

    fn sdma_partial_doorbell(&self, engine: u8) {
        dev_notice_ratelimited!(
            self.dev,
            "sdma{engine}: a process stored part of a doorbell, which takes eight bytes at once: \
             the store is ignored\n"
        );
    }

    fn cp_error(&self, error: &CpError) {
        let (pasid, doorbell) = (error.pasid, error.doorbell());
        // The CP itself notifies the owner of an AQL queue, by its queue_inactive_signal. The
        // runtime may continue after that, but the event of a hang would end it. A queue of PM4
        // packets has no such signal.
        let is_notified = Cell::new(true);
        // Without a doorbell it is not known which of the process's queues it was.
        let owner = self.compute.fail(ComputeFailure::Stopped, &|queue| {
            let meant = queue.owner().pasid == pasid
                && doorbell.is_none_or(|slot| queue.doorbell() == slot);
            if meant {
                is_notified.set(is_notified.get() && queue.is_aql() && doorbell.is_some());
            }
            meant
        });
        // A queue that was stopped before is not reported again.
        let Some(QueueOwner { pid, queue, .. }) = owner else {
            return;
        };
        let exceptions = error.exceptions();
        let is_told =
            exceptions.is_some_and(|exceptions| self.processes.raise(self.id, pasid, &exceptions));
        if !is_told && !is_notified.get() {
            self.processes.stopped(self.id, pasid);
        }
        let (what, code) = (error.name(), error.code());
        dev_warn_ratelimited!(
            process pid,
            self.dev,
            "cp: fault of queue {queue} of process {pid} (PASID {pasid}): {what}, \
             code {code}; it stops\n"
        );
    }

    fn vm_fault(&self, fault: &VmFault, status: Option<FaultStatus>) {
        if fault.vmid != KERNEL_VMID && self.batch.lock().stopped.has(fault.pasid) {
            // A fault of queues that have just been stopped is not reported. To stop them again
            // would mean to look at the queues of all processes.
            let raw = status.map_or(0, |status| status.encode());
            trace::vm_fault(fault.pasid.into(), 0, fault.address(), raw);
            return;
        }
        if fault.vmid != KERNEL_VMID && self.processes.debug_fault(self.id, fault.pasid, fault) {
            // Its queues go on, until the debugger has looked at them.
            let raw = status.map_or(0, |status| status.encode());
            trace::vm_fault(fault.pasid.into(), 0, fault.address(), raw);
            return;
        }
        let owner = if fault.vmid == KERNEL_VMID {
            None
        } else {
            self.batch.lock().stopped.add(fault.pasid);
            // All queues of the process are stopped, as amdkfd does. They are found by PASID: the
            // VMID may be another process's by now, and the process may have two.
            let compute = self.compute.fail(ComputeFailure::Harm, &|queue| {
                queue.owner().pasid == fault.pasid
            });
            self.slots.fail(None, fault.pasid, EFAULT).or(compute)
        };
        let raw = status.map_or(0, |status| status.encode());
        if let Some(owner) = owner {
            // Before the process is told, which may end then: that waits for the report.
            self.reports.report(FaultToReport::new(owner, fault, raw));
        }
        if fault.vmid != KERNEL_VMID {
            let task = self.processes.fault(self.id, fault.pasid, fault);
            if let Some(task) = task {
                self.smi.notify(&SmiEvent::VmFault(task));
            }
        }
        let pid = pid(owner);
        trace::vm_fault(fault.pasid.into(), pid as u32, fault.address(), raw);
        // Once a process's queues are stopped, faults of accesses that were still under way are not
        // reported.
        let is_reported = owner.is_some() || fault.vmid == KERNEL_VMID;
        if is_reported {
            self.report_fault(fault, status, owner.as_ref());
        }
    }
}
