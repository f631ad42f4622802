// SPDX-License-Identifier: GPL-2.0
//! User queues: the queues that CREATE_QUEUE makes, the doorbells that ring them, and the hardware
//! slots that they run in. Those of SDMA are in [`sdma`], those of the CP in [`compute`].
//!
//! A queue of SDMA is *direct* when the process rings the hardware's own doorbell and the driver
//! hears nothing of it (`sdma_sched=0`). It is *scheduled* (`sdma_sched=1`) when the doorbell is a
//! page of memory, a pump takes the packets that it announces, and each batch is a job of a
//! `drm_gpu_scheduler` of the queue's own. It is *followed* (`sdma_sched=2`) when the doorbell is
//! the hardware's, and the pump makes such jobs of what the engine has got since it last looked.
//!
//! Files below use each other, but not this one, except [`interrupts`], which dispatches to all
//! queues of a GPU ([`GpuQueues`]). They know the GPU as [`gpu::QueueGpu`].
//!
//! Locks, outermost first: `Pump::queues`, `EngineSlots::state`, `RingFeed::state`,
//! `FollowedQueue::state` or `VmidPool::state`. With an engine's `state` held the hardware is
//! waited for 20 us at most.

pub(crate) mod compute;
pub(crate) mod doorbell;
mod fault_reports;
pub(crate) mod gpu;
pub(crate) mod hardware_queues;
pub(crate) mod interrupts;
mod jobs;
mod pointers;
mod quota;
pub(crate) mod request;
pub(crate) mod resources;
pub(crate) mod sdma;
mod spare;
mod suspects;
pub(crate) mod watch_points;

use crate::ip::Hardware;
use crate::kern::params::{is_isolation_enforced, SchedulerMode};
use crate::mem::pasid::PasidPool;
use crate::mem::vm::Vm;
use crate::ring::KernelRings;
use compute::{ComputeFailure, ComputeScheduler, TrapPage, UserComputeQueue};
use doorbell::SliceTable;
use fault_reports::FaultReports;
use gpu::{AllSdmaSlots, HangListener, QueueGpu};
use hardware_queues::HardwareQueues;
use interrupts::InterruptDispatch;
use jobs::RenderJobs;
use kernel::prelude::*;
use kernel::sync::{Arc, SetOnce};
use quota::QueueQuota;
use request::{PreparedQueue, QueueOwner, UserQueue};
use resources::QueueResources;
use sdma::slots::SdmaSlots;
use sdma::user::UserSdmaQueue;
use watch_points::WatchPoints;

/// The queues of a GPU. Fields are dropped in this order: each only uses those below it.
pub(crate) struct GpuQueues {
    /// The watch points for debuggers.
    pub(crate) watch_points: WatchPoints,
    /// The object that takes the GPU's interrupts, once it does.
    pub(crate) interrupts: SetOnce<Arc<InterruptDispatch>>,
    /// The reports of faults of processes.
    pub(crate) faults: Arc<FaultReports>,
    /// The jobs of the render node.
    jobs: Arc<RenderJobs>,
    /// The slots of SDMA engines.
    pub(crate) slots: Arc<SdmaSlots>,
    /// The scheduler of compute queues.
    pub(crate) compute: Arc<dyn ComputeScheduler>,
    /// The leased slices of doorbells.
    pub(crate) slices: Arc<SliceTable>,
    /// The number of queues.
    quota: Arc<QueueQuota>,
    /// The driver's own rings.
    pub(crate) rings: Arc<KernelRings>,
    /// The hardware.
    pub(crate) hw: Arc<Hardware>,
    /// The parts that queues use.
    gpu: Arc<QueueGpu>,
}

impl GpuQueues {
    /// Returns a GPU without queues.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(rings: &Arc<KernelRings>) -> Result<Arc<Self>> {
        let gpu = QueueGpu::new(rings)?;
        let slots = SdmaSlots::new(&rings.hw.asic.sdma, &rings.hw.asic.doorbells)?;
        gpu.slots.set(slots.clone());
        let compute = compute::scheduler(
            SchedulerMode::get(),
            is_isolation_enforced(),
            &rings.hw.gfx,
            &rings.hw.gmc,
            &rings.hw.health,
            &rings.hw.dev,
        )?;
        let queues = Self {
            watch_points: WatchPoints::new()?,
            interrupts: SetOnce::new(),
            jobs: RenderJobs::new()?,
            faults: FaultReports::new(&rings.memory, &slots, &compute)?,
            slots,
            compute,
            slices: SliceTable::new()?,
            quota: QueueQuota::new()?,
            rings: rings.clone(),
            hw: rings.hw.clone(),
            gpu,
        };
        Ok(Arc::new(queues, GFP_KERNEL)?)
    }

    /// Starts the scheduler of compute queues and jobs of the render node, once the rings have
    /// started and interrupts are taken. Address spaces that no process has acquired get one of
    /// `pasids` for their jobs.
    pub(crate) fn start(self: &Arc<Self>, pasids: &Arc<PasidPool>) -> Result {
        if let Some(dispatch) = self.interrupts.as_ref() {
            self.gpu.listen(dispatch.clone());
        }
        let turns = HardwareQueues::new(&self.slots, &self.compute)?;
        self.compute.start(&self.gpu.memory)?;
        self.hw.vmids.set_user(Some(turns));
        self.jobs.start(self, pasids);
        self.rings.memory.set_job_engine(self.jobs.clone());
        Ok(())
    }

    /// Stops the jobs of the render node, for good; the node is gone. Bounded; sleeps.
    pub(crate) fn stop_jobs(&self) {
        self.jobs.close();
    }

    /// Stops all queues of process `pasid`, for good, as after an access that was refused.
    pub(crate) fn stop_process(&self, pasid: u16) {
        let meant = |queue: &compute::QueuePlacement<'_>| queue.owner().pasid == pasid;
        self.compute.fail(ComputeFailure::Harm, &meant);
        self.slots.fail(None, pasid, EFAULT);
    }

    /// Returns the resources that process `pid`, with PASID `pasid`, needs for queues.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn open(&self, pid: i32, pasid: u16) -> Result<Arc<QueueResources>> {
        QueueResources::new(&self.hw, &self.slices, &self.quota, pid, pasid)
    }
}

impl HangListener for InterruptDispatch {
    fn stopped(&self, pasid: u16) {
        InterruptDispatch::stopped(self, pasid);
    }
}

impl AllSdmaSlots for SdmaSlots {
    fn fail(&self, engine: Option<u8>, pasid: u16, error: Error) -> Option<QueueOwner> {
        SdmaSlots::fail(self, engine, pasid, error)
    }
}

/// Makes a queue of `owner` in `vm`, from the process's `resources`. If the queue has waves, `trap`
/// returns its trap handler.
///
/// # Errors
///
/// `EFAULT` or `EINVAL` for the arguments, see [`request::CreateQueue`]; `ENOSPC` without a
/// doorbell or a hardware slot that the queue needs at once, or with too many queues; `ENOMEM`;
/// errors of `trap`.
pub(crate) fn create(
    queues: &GpuQueues,
    vm: &Arc<Vm>,
    trap: impl FnOnce() -> Result<Arc<TrapPage>>,
    resources: &Arc<QueueResources>,
    owner: QueueOwner,
    create: &PreparedQueue,
) -> Result<Arc<dyn UserQueue>> {
    if create.kind.is_sdma() {
        let (gpu, slots) = (&queues.gpu, &queues.slots);
        return Ok(UserSdmaQueue::create(
            gpu, slots, vm, resources, owner, create,
        )?);
    }
    let (gpu, scheduler, trap) = (&queues.gpu, &queues.compute, trap()?);
    Ok(UserComputeQueue::create(
        gpu, scheduler, vm, &trap, resources, owner, create,
    )?)
}
