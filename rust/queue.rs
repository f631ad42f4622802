// SPDX-License-Identifier: GPL-2.0
//! User queues: what CREATE_QUEUE makes, the doorbells that start it and the hardware slots that it runs in. Those of
//! the CP are in [`compute`].
//!
//! A queue of SDMA is *direct* when the process rings the hardware's own doorbell (`sdma_sched=0`), or *scheduled*: then
//! the doorbell is a page of memory, a pump takes the packets that it announces, and each batch is a job of a
//! `drm_gpu_scheduler` of the queue's own.
//!
//! Locks, outermost first: `DoorbellSlice::queues`, `EngineSlots::state`, `RingFeed::state` or `VmidPool::state`; an engine's `state` is never held while
//! the hardware is waited for.

pub(crate) mod compute;
pub(crate) mod doorbell;
pub(crate) mod hardware_queues;
pub(crate) mod interrupts;
mod pointers;
mod quota;
pub(crate) mod sdma;
mod spare;

use crate::health::SuspectQueue;
use crate::ip::Hardware;
use crate::kern::params::SchedulerMode;
use crate::kern::task::{TaskIdentity, TaskName};
use crate::mem::cpu_view::ViewPins;
use crate::mem::vm::Vm;
use crate::mem::GpuMemory;
use crate::ring::KernelRings;
use crate::smi::SmiEvent;
use compute::{ComputeScheduler, TrapPage, UserComputeQueue};
use core::ops::Deref;
use doorbell::{DoorbellSlice, SliceTable};
use hardware_queues::HardwareQueues;
use hw::doorbell::DoorbellSlot;
use hw::mqd::hqd::WaveState;
use hw::queue::{QueuePercentage, QueuePriority, QueueType};
use hw::sdma::ring::RingSize;
use interrupts::InterruptDispatch;
use kernel::prelude::*;
use kernel::sync::{Arc, SetOnce};
use sdma::slots::SdmaSlots;
use sdma::user::UserSdmaQueue;

// How all queues of a process are quiesced; buffers need it too, so it lies below.
pub(crate) use crate::mem::queue_group;

/// The first engines of SDMA, for traffic with the host; the others have the links between GPUs.
const HOST_ENGINES: u8 = 2;

/// The queues of a GPU, kept by each of them. Fields are dropped in this order: each only uses what is below it.
#[pin_data]
pub(crate) struct GpuQueues {
    /// Who takes the GPU's interrupts, once it does.
    pub(crate) interrupts: SetOnce<Arc<InterruptDispatch>>,
    /// Who has which slot of an SDMA engine.
    pub(crate) slots: Arc<SdmaSlots>,
    /// Which compute queues are on the hardware.
    pub(crate) compute: Arc<dyn ComputeScheduler>,
    /// Who has which doorbells.
    #[pin]
    pub(crate) slices: SliceTable,
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
                slots: SdmaSlots::new()?,
                compute: compute::scheduler(
                    SchedulerMode::get(),
                    &rings.hw.gfx,
                    &rings.hw.gmc,
                    &rings.hw.health,
                    &rings.hw.dev,
                )?,
                slices <- SliceTable::new(),
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

/// What CREATE_QUEUE asks for, each number checked on its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CreateQueue {
    /// What serves it, and what packets it holds.
    pub(crate) kind: QueueType,
    /// GPU address of the ring: the start of a mapped buffer of the ring's size.
    pub(crate) ring: u64,
    /// Bytes of the ring.
    pub(crate) size: RingSize,
    /// GPU address of the read pointer that the queue advances: bytes for SDMA, dwords for PM4, packets for AQL.
    pub(crate) read_pointer: u64,
    /// GPU address of the 64-bit write pointer that the process advances, in the same units.
    pub(crate) write_pointer: u64,
    /// Whether it is to run.
    pub(crate) percentage: QueuePercentage,
    /// Its rank.
    pub(crate) priority: QueuePriority,
    /// The engine for [`QueueType::SdmaByEngine`].
    pub(crate) engine: u32,
    /// What compute queues have besides.
    pub(crate) compute: ComputeBuffers,
}

impl CreateQueue {
    /// The kind of queue that comes of it: for one that names its engine, that of the engine.
    pub(crate) fn served_as(&self) -> QueueType {
        match self.kind {
            QueueType::Compute | QueueType::ComputeAql => QueueType::Compute,
            QueueType::SdmaByEngine if self.engine < HOST_ENGINES.into() => QueueType::Sdma,
            QueueType::SdmaByEngine => QueueType::SdmaXgmi,
            kind => kind,
        }
    }
}

/// A [`CreateQueue`] with the user memory pinned that the driver itself uses of it.
pub(crate) struct PreparedQueue {
    create: CreateQueue,
    pins: ViewPins,
}

impl PreparedQueue {
    /// What `create` asks for in `vm`, of the calling process; see [`ViewPins::add`].
    pub(crate) fn new(vm: &Arc<Vm>, create: CreateQueue) -> Result<Self> {
        Ok(Self {
            pins: pointers::pin(vm, &create)?,
            create,
        })
    }
}

impl Deref for PreparedQueue {
    type Target = CreateQueue;

    fn deref(&self) -> &CreateQueue {
        &self.create
    }
}

/// The buffers of a compute queue: GPU addresses, and bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComputeBuffers {
    /// End-of-pipe buffer.
    pub(crate) eop: u64,
    /// Its size.
    pub(crate) eop_size: u32,
    /// Where waves are saved; what the debugger needs comes behind it.
    pub(crate) save: u64,
    /// Its size.
    pub(crate) save_size: u32,
    /// How much of it the control stack gets.
    pub(crate) control_stack: u32,
}

/// What UPDATE_QUEUE asks for, each number checked on its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpdateQueue {
    /// Its ring. Without one it is not to run, until it is updated again; what it has stays held.
    pub(crate) ring: Option<(u64, RingSize)>,
    /// Whether it is to run.
    pub(crate) percentage: QueuePercentage,
    /// Its rank.
    pub(crate) priority: QueuePriority,
}

impl UpdateQueue {
    /// Whether the queue is to run.
    pub(crate) fn is_active(&self) -> bool {
        self.ring.is_some() && self.percentage.is_active()
    }
}

/// A process's queue. Everything here may sleep and is bounded; it is off the hardware when it is dropped.
pub(crate) trait UserQueue: Send + Sync {
    /// Its doorbell in the process's slice.
    fn doorbell(&self) -> DoorbellSlot;

    /// Changes what can change. EINVAL when it is destroyed, EFAULT and EINVAL for a ring that is none; EOPNOTSUPP for
    /// what cannot change.
    fn update(&self, update: &UpdateQueue) -> Result;

    /// Sets which CUs its waves may use; `bit` tells the bits of the mask. EINVAL for none at all, and for a queue that
    /// has no waves.
    fn set_cu_mask(&self, _bit: &mut dyn FnMut(u32) -> bool) -> Result {
        Err(EINVAL)
    }

    /// What of its waves is saved; calls `write` with index and value of each used dword of the control stack. EINVAL
    /// while the queue is active, and for a queue that has no waves; errors of `write`.
    fn wave_state(&self, _write: &mut dyn FnMut(u32, u32) -> Result) -> Result<WaveState> {
        Err(EINVAL)
    }

    /// Takes it off the hardware, whatever it is doing. Nothing happens the second time, but for waiting for the first.
    /// ETIME when the hardware does not let go of it: it is gone for the process, but its memory is kept until the device
    /// goes.
    fn destroy(&self) -> Result;
}

/// Makes a queue of `owner` in `vm`, with a doorbell in `slice` and, if it has waves, the trap handler that `trap` gives. EFAULT and
/// EINVAL for what `create` asks for, see there; ENOSPC without a doorbell, a slot of the hardware that it needs at once, or with
/// too many queues; ENOMEM; errors of `trap`.
pub(crate) fn create(
    gpu: &Arc<GpuQueues>,
    vm: &Arc<Vm>,
    trap: impl FnOnce() -> Result<Arc<TrapPage>>,
    slice: &Arc<DoorbellSlice>,
    owner: QueueOwner,
    create: &PreparedQueue,
) -> Result<Arc<dyn UserQueue>> {
    if create.kind.is_sdma() {
        return Ok(UserSdmaQueue::create(gpu, vm, slice, owner, create)?);
    }
    let queue = UserComputeQueue::create(gpu, vm, &trap()?, slice, owner, create)?;
    Ok(queue)
}

/// Whose queue it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueOwner {
    /// The process, in the initial PID namespace.
    pub(crate) pid: i32,
    /// The process's name when the queue was made.
    pub(crate) name: TaskName,
    /// The process, as the hardware knows it.
    pub(crate) pasid: u16,
    /// The queue's id within the process.
    pub(crate) queue: u32,
}

impl QueueOwner {
    /// Something that does not answer was at this queue.
    fn suspect(&self) -> SuspectQueue {
        SuspectQueue {
            who: TaskIdentity {
                pid: self.pid,
                name: self.name,
            },
            queue: self.queue,
        }
    }
}

/// The engines that serve queues of `kind`, of a process that `retries` page faults. EINVAL for an engine that does not exist.
///
/// An engine stands while it waits for a page, and what has to be moved for that must not wait behind it: the first one has no such
/// queues. Who asks for it gets the other one for traffic with the host.
fn engines(kind: QueueType, wanted: u32, retries: bool) -> Result<core::ops::Range<u8>> {
    const ALL: u8 = hw::ip::GFX90A_SDMA_ENGINES as u8;
    let first = u8::from(retries);
    match kind {
        QueueType::Sdma => Ok(first..HOST_ENGINES),
        QueueType::SdmaXgmi => Ok(HOST_ENGINES..ALL),
        QueueType::SdmaByEngine => match u8::try_from(wanted) {
            Ok(engine) if engine < ALL => {
                let engine = engine.max(first);
                Ok(engine..engine + 1)
            }
            _ => Err(EINVAL),
        },
        QueueType::Compute | QueueType::ComputeAql => Err(EINVAL),
    }
}
