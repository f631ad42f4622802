// SPDX-License-Identifier: GPL-2.0
//! Reports of the page faults of processes: what was around the address, and which queues and
//! packets may have caused it. A work item makes them: the interrupt thread, which learns of a
//! fault, must not wait for the locks that this takes.

use crate::kern::coredump::{self, DumpText};
use crate::kern::host;
use crate::kern::ratelimit::dev_warn_ratelimited;
use crate::kern::workqueue;
use crate::mem::vm::LastFault;
use crate::mem::GpuMemory;
use crate::queue::compute::ComputeScheduler;
use crate::queue::request::QueueOwner;
use crate::queue::sdma::slots::SdmaSlots;
use crate::queue::suspects::Suspects;
use core::fmt::{self, Write};
use hw::ih::VmFault;
use hw::surroundings::Surroundings;
use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Full, Relaxed};
use kernel::sync::{new_mutex, new_spinlock, Arc, Mutex, SpinLock};
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};

/// The most faults that wait for their reports. A process has one at a time, since its queues have
/// stopped then. A fault beyond that has no report.
const MOST_WAITING: usize = 8;
/// Bytes of a core dump.
const DUMP_BYTES: usize = 8 << 10;
/// The reports that are kept for debugfs.
const MOST_KEPT: usize = 16;

/// A fault as the interrupt thread knows it.
#[derive(Clone, Copy)]
pub(crate) struct FaultToReport {
    /// One of the queues that were stopped.
    owner: QueueOwner,
    fault: VmFault,
    /// `VM_L2_PROTECTION_FAULT_STATUS`; 0 if the register had it of another fault.
    status: u32,
    /// When, in nanoseconds since boot.
    at_ns: u64,
}

impl FaultToReport {
    /// The `fault` of the process of `owner`, now, with the hub's `status`.
    pub(crate) fn new(owner: QueueOwner, fault: &VmFault, status: u32) -> Self {
        Self {
            owner,
            fault: *fault,
            status,
            at_ns: host::boot_ns(),
        }
    }
}

/// A report of a fault.
#[derive(Clone, Copy)]
struct FaultReport {
    cause: FaultToReport,
    /// `None` if the process has ended before.
    surroundings: Option<Surroundings>,
    suspects: Suspects,
}

/// The reports of a GPU.
#[pin_data]
pub(crate) struct FaultReports {
    #[pin]
    waiting: SpinLock<WaitingFaults>,
    /// Held while reports are made; outside `Vm::state`.
    #[pin]
    made: Mutex<MadeReports>,
    /// The device may have a core dump of a fault.
    has_dump: AtomicFlag,
    #[pin]
    work: DelayedWork<Self>,
    memory: Arc<GpuMemory>,
    slots: Arc<SdmaSlots>,
    compute: Arc<dyn ComputeScheduler>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for FaultReports { self.work }
}

/// The faults that wait, the oldest first.
struct WaitingFaults([Option<FaultToReport>; MOST_WAITING]);

impl WaitingFaults {
    fn push(&mut self, fault: FaultToReport) {
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()) {
            *place = Some(fault);
        }
    }

    fn pop(&mut self) -> Option<FaultToReport> {
        let first = self.0[0].take();
        self.0.rotate_left(1);
        first
    }
}

/// The last reports, the oldest first.
struct MadeReports(KVec<FaultReport>);

impl MadeReports {
    fn push(&mut self, report: FaultReport) {
        if self.0.len() == MOST_KEPT {
            let _ = self.0.remove(0);
        }
        // There is room.
        let _ = self.0.push_within_capacity(report);
    }
}

impl FaultReports {
    /// No reports yet, of a GPU with these queues.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        memory: &Arc<GpuMemory>,
        slots: &Arc<SdmaSlots>,
        compute: &Arc<dyn ComputeScheduler>,
    ) -> Result<Arc<Self>> {
        let made = MadeReports(KVec::with_capacity(MOST_KEPT, GFP_KERNEL)?);
        Arc::pin_init(
            pin_init!(Self {
                waiting <- new_spinlock!(
                    WaitingFaults([None; MOST_WAITING]),
                    "FaultReports::waiting"
                ),
                made <- new_mutex!(made, "FaultReports::made"),
                has_dump: AtomicFlag::new(false),
                work <- new_delayed_work!("FaultReports::work"),
                memory: memory.clone(),
                slots: slots.clone(),
                compute: compute.clone(),
            }),
            GFP_KERNEL,
        )
    }

    /// Has a report of `fault` made soon. Allocates nothing, waits for nothing.
    pub(super) fn report(self: &Arc<Self>, fault: FaultToReport) {
        self.waiting.lock().push(fault);
        workqueue::run_in(workqueue::background(), self.clone(), 0);
    }

    /// Makes the reports of all faults so far. A process that ends waits for its own here: its
    /// buffers are not known after that. May sleep.
    pub(crate) fn make(&self) {
        let mut made = self.made.lock();
        loop {
            let Some(cause) = self.waiting.lock().pop() else {
                return;
            };
            let vm = self.memory.vms.of_process(cause.owner.pasid);
            if let (Some(vm), 1..) = (&vm, cause.status) {
                vm.set_last_fault(LastFault {
                    address: cause.fault.address(),
                    status: cause.status,
                    hub: cause.fault.hub,
                });
            }
            let report = FaultReport {
                cause,
                surroundings: vm.map(|vm| vm.surroundings(cause.fault.address(), cause.at_ns)),
                suspects: Suspects::of(
                    cause.owner.pasid,
                    &cause.fault,
                    &self.slots,
                    &*self.compute,
                ),
            };
            self.log(&report);
            self.dump(&report);
            made.push(report);
        }
    }

    fn log(&self, report: &FaultReport) {
        let (owner, address) = (&report.cause.owner, report.cause.fault.address());
        let (pid, Some(surroundings)) = (owner.pid, &report.surroundings) else {
            return;
        };
        dev_warn_ratelimited!(
            process pid,
            self.memory.hw.dev,
            "the fault of process {} pid {pid} at address {address:#018x}: {}{}\n",
            format_args!("{}", owner.name),
            format_args!("{surroundings}"),
            format_args!("{}", FirstSuspect(&report.suspects))
        );
    }

    /// Publishes the report as a core dump of the device, which keeps the first.
    fn dump(&self, report: &FaultReport) {
        let hw = &self.memory.hw;
        let Ok(mut text) = DumpText::new(DUMP_BYTES) else {
            return;
        };
        let (gpu, id, owner) = (hw.asic.ids.name, hw.id.get(), &report.cause.owner);
        // Text that does not fit is cut off.
        let _ = write!(
            text,
            "rkfd\ncause: a page fault of process {}, pid {}\ngpu: {gpu}, gpu_id {id}\n\n[fault]\n\
             {report}",
            owner.name, owner.pid
        );
        self.has_dump.store(true, Relaxed);
        text.show(&hw.dev);
    }

    /// Makes room for a more important core dump. May sleep.
    pub(crate) fn discard_dump(&self) {
        if self.has_dump.xchg(false, Full) {
            coredump::discard(&self.memory.hw.dev);
        }
    }

    /// Shows the last reports, for debugfs.
    pub(crate) fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for index in 0..MOST_KEPT {
            let report = self.made.lock().0.get(index).copied();
            let Some(report) = report else { break };
            writeln!(f, "{report}")?;
        }
        Ok(())
    }

    /// Makes no report any more. For unbind, when no interrupts are taken. May sleep.
    pub(crate) fn close(self: &Arc<Self>) {
        workqueue::cancel(self);
    }
}

impl WorkItem for FaultReports {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.make();
    }
}

/// The most likely queue for the end of a line, if there is one.
struct FirstSuspect<'a>(&'a Suspects);

impl fmt::Display for FirstSuspect<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.first() {
            Some(suspect) => write!(f, "; {suspect}"),
            None => Ok(()),
        }
    }
}

/// Lines of `name: value`.
impl fmt::Display for FaultReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FaultToReport {
            owner,
            fault,
            at_ns,
            ..
        } = &self.cause;
        writeln!(
            f,
            "time: {}.{:06}",
            at_ns / 1_000_000_000,
            at_ns / 1000 % 1_000_000
        )?;
        writeln!(
            f,
            "process: {} pid {} pasid {}",
            owner.name, owner.pid, owner.pasid
        )?;
        let (hub, client) = fault.names();
        let access = match (fault.execute, fault.write) {
            (true, _) => "instruction fetch",
            (_, true) => "write",
            _ => "read",
        };
        writeln!(
            f,
            "fault: {access} at {:#x}, {hub}, client {client}",
            fault.address()
        )?;
        match &self.surroundings {
            Some(surroundings) => writeln!(f, "address: {surroundings}")?,
            None => writeln!(f, "address: the process has ended")?,
        }
        self.suspects
            .iter()
            .try_for_each(|suspect| writeln!(f, "suspect: {suspect}"))
    }
}
