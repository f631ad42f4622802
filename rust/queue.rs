// SPDX-License-Identifier: GPL-2.0
//! User queues: what CREATE_QUEUE makes, the doorbells that start it and the hardware slots that it runs in. Those of
//! the CP are in [`compute`].
//!
//! A queue of SDMA is *direct* when the process rings the hardware's own doorbell (`sdma_sched=0`), or *scheduled*: then
//! the doorbell is a page of memory, a pump takes the packets that it announces, and each batch is a job of a
//! `drm_gpu_scheduler` of the queue's own.
//!
//! Locks, outermost first: `Pump::queues`, `EngineSlots::state`, `RingFeed::state` or `VmidPool::state`; an engine's `state` is never held while
//! the hardware is waited for.

pub(crate) mod compute;
pub(crate) mod doorbell;
pub(crate) mod hardware_queues;
pub(crate) mod interrupts;
mod pointers;
mod quota;
pub(crate) mod request;
pub(crate) mod resources;
pub(crate) mod sdma;
mod spare;

use crate::ip::Hardware;
use crate::kern::params::SchedulerMode;
use crate::mem::vm::Vm;
use crate::mem::GpuMemory;
use crate::ring::KernelRings;
use crate::smi::SmiEvent;
use compute::{ComputeScheduler, TrapPage, UserComputeQueue};
use doorbell::SliceTable;
use hardware_queues::HardwareQueues;
use interrupts::InterruptDispatch;
use kernel::prelude::*;
use kernel::sync::{Arc, SetOnce};
use quota::QueueQuota;
use request::{PreparedQueue, QueueOwner, UserQueue};
use resources::QueueResources;
use sdma::slots::SdmaSlots;
use sdma::user::UserSdmaQueue;

// How all queues of a process are quiesced; buffers need it too, so it lies below.
pub(crate) use crate::mem::queue_group;

/// The queues of a GPU, kept by each of them. Fields are dropped in this order: each only uses what is below it.
#[pin_data]
pub(crate) struct GpuQueues {
    /// Who takes the GPU's interrupts, once it does.
    pub(crate) interrupts: SetOnce<Arc<InterruptDispatch>>,
    /// Who has which slot of an SDMA engine.
    pub(crate) slots: Arc<SdmaSlots>,
    /// Which compute queues are on the hardware.
    pub(crate) compute: Arc<dyn ComputeScheduler>,
    /// The leased slices of doorbells.
    pub(crate) slices: Arc<SliceTable>,
    /// The number of queues.
    quota: Arc<QueueQuota>,
    /// The driver's own rings.
    pub(crate) rings: Arc<KernelRings>,
    /// The memory.
    pub(crate) memory: Arc<GpuMemory>,
    /// The hardware.
    pub(crate) hw: Arc<Hardware>,
}

impl GpuQueues {
    /// No queues. ENOMEM.
    pub(crate) fn new(rings: &Arc<KernelRings>) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                interrupts: SetOnce::new(),
                slots: SdmaSlots::new(rings.hw.asic.sdma.engines())?,
                compute: compute::scheduler(
                    SchedulerMode::get(),
                    &rings.hw.gfx,
                    &rings.hw.gmc,
                    &rings.hw.health,
                    &rings.hw.dev,
                )?,
                slices: SliceTable::new()?,
                quota: QueueQuota::new()?,
                rings: rings.clone(),
                memory: rings.memory.clone(),
                hw: rings.hw.clone(),
            }),
            GFP_KERNEL,
        )
    }

    /// Starts the scheduler of compute queues, once the rings have started.
    pub(crate) fn start(&self) -> Result {
        let turns = HardwareQueues::new(self)?;
        self.compute.start(&self.memory)?;
        self.hw.vmids.watch(Some(turns));
        Ok(())
    }

    /// Returns the resources that process `pid`, with PASID `pasid`, needs for queues.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn open(&self, pid: i32, pasid: u16) -> Result<Arc<QueueResources>> {
        QueueResources::new(&self.hw, &self.slices, &self.quota, pid, pasid)
    }

    /// Runs `stop`, which takes a queue of the process `pasid` off the hardware that hung, as `cause` says: the process
    /// is told, and who watches the GPU. Itself allocates nothing and waits for nothing.
    fn queue_hung(&self, pasid: u16, cause: &CStr, stop: impl FnOnce()) {
        self.hw.smi.notify(&SmiEvent::Resetting(cause));
        stop();
        if let Some(dispatch) = self.interrupts.as_ref() {
            dispatch.stopped(pasid);
        }
        self.hw.smi.notify(&SmiEvent::Reset(cause));
    }
}

/// Makes a queue of `owner` in `vm`, with a doorbell in `slice` and, if it has waves, the trap handler that `trap` gives. EFAULT and
/// EINVAL for what `create` asks for, see there; ENOSPC without a doorbell, a slot of the hardware that it needs at once, or with
/// too many queues; ENOMEM; errors of `trap`.
pub(crate) fn create(
    gpu: &Arc<GpuQueues>,
    vm: &Arc<Vm>,
    trap: impl FnOnce() -> Result<Arc<TrapPage>>,
    resources: &Arc<QueueResources>,
    owner: QueueOwner,
    create: &PreparedQueue,
) -> Result<Arc<dyn UserQueue>> {
    if create.kind.is_sdma() {
        return Ok(UserSdmaQueue::create(gpu, vm, resources, owner, create)?);
    }
    let queue = UserComputeQueue::create(gpu, vm, &trap()?, resources, owner, create)?;
    Ok(queue)
}
