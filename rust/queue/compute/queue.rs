// SPDX-License-Identifier: GPL-2.0
//! A compute queue as a scheduler sees it.

use super::descriptor::ComputeDescriptor;
use super::doorbell::CpDoorbell;
use super::memory::QueueBuffers;
use super::trap::TrapPage;
use crate::kern::trace;
use crate::ledger::{LedgerHold, LedgerKind};
use crate::mem::vm::Vm;
use crate::queue::gpu::QueueGpu;
use crate::queue::quota::CountedQueue;
use crate::queue::request::{PreparedQueue, QueueOwner};
use crate::queue::resources::QueueResources;
use hw::debug::DebugControls;
use hw::doorbell::DoorbellSlot;
use hw::mqd::compute::{self as mqd, ContextSaveArea, PacketFormat, XccShare};
use hw::mqd::hqd::HqdImage;
use hw::pm4::schedule;
use hw::queue::QueueType;
use hw::trap::TrapHandler;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Release};
use kernel::sync::Arc;

/// How a queue fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComputeFailure {
    /// The CP has stopped it at a packet. It may stay on the hardware for a moment.
    Stopped,
    /// It does harm, such as accesses that fault, until it is off the hardware.
    Harm,
}

/// A queue with everything that the hardware needs of it. A reference keeps all of that in place.
#[pin_data]
pub(crate) struct ComputeQueue {
    pub(crate) owner: QueueOwner,
    /// Whether the process wants it to run.
    active: Atomic<bool>,
    /// Whether its group is quiesced.
    quiesced: Atomic<bool>,
    /// Whether the debugger of its process keeps it off the hardware.
    suspended: Atomic<bool>,
    /// Whether it has failed, or is about to be removed.
    failed: Atomic<bool>,
    /// Whether the hardware has stopped it and it does no harm where it is.
    stopped: Atomic<bool>,
    pub(super) descriptor: ComputeDescriptor,
    #[pin]
    pub(super) memory: QueueBuffers,
    doorbell: CpDoorbell,
    trap: Arc<TrapPage>,
    vm: Arc<Vm>,
    _hold: LedgerHold,
    _counted: CountedQueue,
    pub(super) gpu: Arc<QueueGpu>,
}

impl ComputeQueue {
    /// Creates a queue of `owner` in `vm` that no scheduler knows yet. `counted` counts it as a
    /// compute queue; `trap` saves its waves.
    ///
    /// # Errors
    ///
    /// `EFAULT` and `EINVAL` for its memory, see [`QueueBuffers::new`]; `ENOSPC` without a doorbell
    /// or room in the GART; `ENOMEM`.
    pub(super) fn new(
        gpu: &Arc<QueueGpu>,
        vm: &Arc<Vm>,
        trap: &Arc<TrapPage>,
        resources: &QueueResources,
        counted: CountedQueue,
        owner: QueueOwner,
        create: &PreparedQueue,
    ) -> Result<Arc<Self>> {
        let doorbell = CpDoorbell::new(&resources.doorbells, create.wanted_doorbell())?;
        let format = match create.kind {
            QueueType::ComputeAql => PacketFormat::Aql,
            _ => PacketFormat::Pm4,
        };
        let sizes = gpu.hw.cus.context_save();
        let xccs = gpu.hw.asic.gfx.xccs;
        if format == PacketFormat::Pm4 && xccs > 1 && u32::from(create.percentage.pm4_xcc) >= xccs {
            return Err(EINVAL);
        }
        let saved = create.saved_xccs()?;
        let first = match (&saved, gpu.hw.asic.mqd.split) {
            (Some(saved), Some(split)) => saved.first(&split, xccs).ok_or(EINVAL)?,
            (Some(_), None) => 0,
            (None, _) => gpu.hw.gfx.next_first(),
        };
        let memory = QueueBuffers::new(vm, create, format, &gpu.hw.cus)?;
        let compute = &create.compute;
        let queue = mqd::ComputeMqdConfig {
            // Filled in once the address is known.
            mqd_address: 0,
            ring_base: create.ring,
            ring_size: create.size,
            read_pointer: create.read_pointer,
            write_pointer: create.write_pointer,
            eop_base: compute.eop,
            eop_bytes: compute.eop_size,
            doorbell: doorbell.doorbell(),
            // The VMID of the address space is known when the queue is loaded.
            vmid: 0,
            format,
            priority: create.priority,
            context_save: Some(ContextSaveArea {
                base: compute.save,
                size: compute.save_size,
                control_stack: compute.control_stack,
                trap_handler: true,
            }),
            share: XccShare {
                first,
                target: create.percentage.pm4_xcc.into(),
                ..XccShare::ALONE
            },
        };
        let descriptor = ComputeDescriptor::new(
            &gpu.memory,
            vm.client(),
            &resources.descriptors,
            queue,
            sizes.control_stack,
            saved,
        )?;
        Arc::pin_init(
            pin_init!(Self {
                owner,
                active: Atomic::new(create.percentage.is_active()),
                quiesced: Atomic::new(false),
                suspended: Atomic::new(false),
                failed: Atomic::new(false),
                stopped: Atomic::new(false),
                descriptor,
                memory <- memory,
                doorbell,
                trap: trap.clone(),
                vm: vm.clone(),
                _hold: gpu.hw.ledger.hold(LedgerKind::Queues, 1),
                _counted: counted,
                gpu: gpu.clone(),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Traces that the queue has left the hardware, for which the CP has saved `image`.
    pub(super) fn trace_save(&self, image: &HqdImage) {
        self.trace_waves(image, trace::wave_save);
    }

    /// Traces that the queue is put on the hardware with `image`.
    pub(super) fn trace_restore(&self, image: &HqdImage) {
        self.trace_waves(image, trace::wave_restore);
    }

    fn trace_waves(&self, image: &HqdImage, trace: fn(u32, u32, u32, u32)) {
        let state = image.wave_state();
        if state.control_stack_used != 0 {
            let pid = self.owner.pid as u32;
            trace(
                pid,
                self.owner.queue,
                state.waves_used,
                state.control_stack_used,
            );
        }
    }

    /// Returns its doorbell in the process's slice.
    pub(super) fn doorbell(&self) -> DoorbellSlot {
        self.doorbell.slot()
    }

    /// The parameters with which the hardware scheduler maps it.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone.
    pub(super) fn map(&self) -> Result<schedule::MapQueue> {
        Ok(schedule::MapQueue {
            place: schedule::HqdSelect::Any,
            doorbell: self.doorbell.doorbell(),
            mqd: self.descriptor.address(),
            write_pointer: self.descriptor.image()?.write_pointer_address(),
        })
    }

    /// Returns whether it may be on the hardware.
    pub(super) fn is_runnable(&self) -> bool {
        self.is_active() && self.may_stay()
    }

    /// Whether it may stay on the hardware for a moment, even if its process does not want it to
    /// run.
    pub(super) fn may_stay(&self) -> bool {
        !self.is_kept_off() && !self.has_failed()
    }

    /// Whether its group or its debugger keeps it off the hardware.
    fn is_kept_off(&self) -> bool {
        self.quiesced.load(Acquire) || self.is_suspended()
    }

    /// Whether it must leave the hardware at once, whatever that costs others.
    pub(super) fn must_leave(&self) -> bool {
        !self.may_stay() && (self.is_kept_off() || !self.stopped.load(Acquire))
    }

    /// The trap handler of its waves.
    pub(super) fn trap_handler(&self) -> TrapHandler {
        self.trap.handler()
    }

    /// What the debugger of its process has set.
    pub(super) fn debug_controls(&self) -> DebugControls {
        self.trap.debug_controls()
    }

    /// Returns the address space that it runs in.
    pub(super) fn vm(&self) -> &Arc<Vm> {
        &self.vm
    }

    /// Returns whether the process wants it to run.
    pub(super) fn is_active(&self) -> bool {
        self.active.load(Acquire)
    }

    /// Sets whether the process wants it to run. The caller notifies the scheduler.
    pub(super) fn set_active(&self, on: bool) {
        self.active.store(on, Release);
    }

    /// Returns whether it has failed, for good.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Acquire)
    }

    /// Marks it as not to run any more; returns whether it was not marked before. The scheduler
    /// takes it off the hardware.
    pub(super) fn fail(&self, why: ComputeFailure) -> bool {
        match why {
            ComputeFailure::Stopped if self.has_failed() => {}
            ComputeFailure::Stopped => self.stopped.store(true, Release),
            ComputeFailure::Harm => self.stopped.store(false, Release),
        }
        !self.failed.xchg(true, Full)
    }

    /// Marks it as failed: only force takes it off the hardware.
    pub(super) fn hangs(&self) {
        let cause = c"compute queue hang";
        self.gpu.queue_hung(self.owner.pasid, cause, || {
            self.fail(ComputeFailure::Harm);
        });
    }

    /// Sets whether its group is quiesced. The caller notifies the scheduler.
    pub(super) fn set_quiesced(&self, quiesced: bool) {
        self.quiesced.store(quiesced, Release);
    }

    /// Whether its group is quiesced.
    pub(super) fn is_quiesced(&self) -> bool {
        self.quiesced.load(Acquire)
    }

    /// Sets whether its debugger keeps it off the hardware. The caller notifies the scheduler.
    pub(super) fn set_suspended(&self, suspended: bool) {
        self.suspended.store(suspended, Release);
    }

    /// Whether its debugger keeps it off the hardware.
    pub(super) fn is_suspended(&self) -> bool {
        self.suspended.load(Acquire)
    }

    /// Returns whether it has something to do and its process wants it to run. Exact while it is
    /// off the hardware. While it is on the hardware, work that was left midway counts until it is
    /// off again.
    pub(super) fn wants_to_run(&self) -> bool {
        let has_work = || self.memory.has_work() || self.descriptor.is_midway();
        self.is_active() && !self.has_failed() && has_work()
    }
}
