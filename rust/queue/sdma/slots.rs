// SPDX-License-Identifier: GPL-2.0
//! The RLC slots of the engines, and who is in them. Queues that have work and no slot, or no VMID, take turns: an idle
//! queue gives way at once, a working one after a quantum.

mod engine;

use super::hw_queue::{PacketSource, SdmaHwQueue};
use crate::ip::vmid::Vmid;
use crate::ip::Hardware;
use crate::kern::sched::SharedWorkQueue;
use crate::mem::queue_group::QuiesceTimeout;
use crate::queue::request::QueueOwner;
use crate::ring::RingEngines;
use core::fmt;
use engine::{EngineSlots, QueueKey, SlotView};
use hw::doorbell::DoorbellSlot;
use hw::ip::GFX90A_SDMA_ENGINES;
use kernel::dev_warn;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::Delta;

/// Where a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SdmaSeat {
    /// In no slot.
    Out,
    /// Being loaded into the slot.
    Loading(u8),
    /// In the slot.
    In(u8),
    /// Being unloaded from the slot.
    Leaving(u8),
    /// In a slot that it does not leave: the engine hangs, and no reset helps.
    Stuck(u8),
}

impl SdmaSeat {
    fn slot(self) -> Option<u8> {
        match self {
            Self::Out => None,
            Self::Loading(slot) | Self::In(slot) | Self::Leaving(slot) | Self::Stuck(slot) => {
                Some(slot)
            }
        }
    }
}

/// The slots of all engines.
pub(crate) struct SdmaSlots {
    engines: [Arc<EngineSlots>; GFX90A_SDMA_ENGINES],
    /// What runs the schedulers of queues.
    workers: Arc<SharedWorkQueue>,
}

/// A queue as debugfs shows it.
pub(crate) struct QueueView {
    /// Whose it is.
    pub(crate) owner: QueueOwner,
    /// Its engine and where it is.
    pub(crate) engine: u8,
    /// Where it is.
    pub(crate) seat: SdmaSeat,
    /// Its address space's VMID, while it is on the hardware.
    pub(crate) vmid: Option<u8>,
    /// It is scheduled, not direct.
    pub(crate) scheduled: bool,
    /// Read and write pointer as the process knows them, bytes.
    pub(crate) pointers: (u64, u64),
    /// Read and write pointer of the hardware's ring, bytes.
    pub(crate) hardware: (u64, u64),
    /// For how long an engine had packets of it to do; of a direct queue only the hardware knows.
    pub(crate) time: Option<Delta>,
}

impl SdmaSlots {
    /// All slots free. ENOMEM.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let engines = [
            EngineSlots::new(0)?,
            EngineSlots::new(1)?,
            EngineSlots::new(2)?,
            EngineSlots::new(3)?,
            EngineSlots::new(4)?,
        ];
        let workers = SharedWorkQueue::new(c"rkfd_queues")?;
        Ok(Arc::new(Self { engines, workers }, GFP_KERNEL)?)
    }

    /// What runs the schedulers of queues: one thread of the kernel's for all of them.
    pub(super) fn workers(&self) -> &Arc<SharedWorkQueue> {
        &self.workers
    }

    fn engine(&self, number: u8) -> Option<&Arc<EngineSlots>> {
        self.engines.get(usize::from(number))
    }

    /// VMIDs are free, wanted or recalled.
    pub(crate) fn wake(&self) {
        self.engines.iter().for_each(EngineSlots::wake);
    }

    /// The engine of `range` that has the fewest queues, of those that have room for one of process `pasid`.
    pub(super) fn quietest(&self, range: core::ops::Range<u8>, pasid: u16) -> Result<u8> {
        let by_queues = |&number: &u8| self.engine(number).map(|engine| engine.load_of(pasid));
        range.min_by_key(by_queues).ok_or(EINVAL)
    }

    /// Adds a queue to its engine. The doorbell that the hardware gives to a direct one is returned: ENOSPC when its
    /// process has all of them. ENOMEM; ENODEV when the device goes.
    pub(super) fn add(&self, rlc: Arc<SdmaHwQueue>) -> Result<Option<DoorbellSlot>> {
        let engine = rlc.engine;
        let slot = self.engine(engine).ok_or(EINVAL)?.add(rlc)?;
        slot.map(|slot| DoorbellSlot::sdma(engine, slot).ok_or(EINVAL))
            .transpose()
    }

    /// Takes a queue off the hardware for good. ETIMEDOUT for a queue that hangs, which stays with the engine.
    /// Bounded; sleeps.
    pub(super) fn remove(&self, rlc: &SdmaHwQueue) -> Result {
        self.engine(rlc.engine)
            .ok_or(EINVAL)?
            .evict(rlc, true, &QuiesceTimeout::endless())
    }

    /// Has the engine take a queue off that may not run any more. Allocates nothing, waits for nothing.
    pub(super) fn poll(&self, rlc: &SdmaHwQueue) {
        if let Some(engine) = self.engine(rlc.engine) {
            engine.wake();
        }
    }

    /// Takes a queue off the hardware until [`SdmaSlots::admit`]. ETIMEDOUT when it hangs, or `patience` is over before it is off;
    /// it will be. Bounded; sleeps.
    pub(super) fn suspend(&self, rlc: &SdmaHwQueue, patience: &QuiesceTimeout) -> Result {
        let engine = self.engine(rlc.engine).ok_or(EINVAL)?;
        engine.evict(rlc, false, patience)
    }

    /// Allows a suspended queue to run again.
    pub(super) fn admit(&self, rlc: &SdmaHwQueue) {
        if let Some(engine) = self.engine(rlc.engine) {
            engine.admit(rlc);
        }
    }

    /// Has the hardware do what was put into a queue's ring. Allocates nothing, waits for nothing.
    pub(super) fn submit(&self, rlc: &SdmaHwQueue) {
        if let Some(engine) = self.engine(rlc.engine) {
            engine.submit(rlc);
        }
    }

    /// A TRAP of `engine` arrived: jobs of its queues may be done. Which queue it was, the hardware does not say for
    /// sure, and looking is cheap.
    pub(crate) fn check(&self, engine: u8) {
        if let Some(engine) = self.engine(engine) {
            engine.poll_seated(SdmaHwQueue::check);
        }
    }

    /// Stops the queues of process `pasid` on `engine`, or on all engines; their jobs fail with `error`. Gives the owner of
    /// one of them. Allocates nothing; the hardware lets go of them later.
    pub(crate) fn fail(&self, engine: Option<u8>, pasid: u16, error: Error) -> Option<QueueOwner> {
        let mut owner = None;
        for one in &self.engines {
            if engine.is_some_and(|number| number != one.number) {
                continue;
            }
            // Ends, since who has failed is not meant any more.
            loop {
                let failed =
                    one.poll_some_of(pasid, |rlc| !rlc.has_failed(), |rlc| rlc.fail(error));
                if failed.is_none() {
                    break;
                }
                owner = failed;
                one.wake();
            }
        }
        owner
    }

    /// No queue is loaded any more, and what is still there is forgotten. For unbind, after every process has lost
    /// its queues. Sleeps.
    pub(crate) fn close(&self) {
        for engine in &self.engines {
            if let Some((rlc, count)) = engine.close() {
                let number = engine.number;
                dev_warn!(&*rlc.gpu.hw.dev, "sdma{number}: {count} queues are left\n");
            }
        }
    }

    /// Every queue, engine by engine, for debugfs.
    pub(crate) fn states(&self, mut show: impl FnMut(QueueView) -> fmt::Result) -> fmt::Result {
        for engine in &self.engines {
            let mut from = QueueKey::first_of(0);
            // One at a time: what is shown is written without the lock.
            while let Some((key, queue)) = engine.next_from(&from) {
                show(describe(&queue))?;
                from = key.next();
            }
        }
        Ok(())
    }
}

impl RingEngines for SdmaSlots {
    fn clear(&self, engine: u8) {
        if let Some(engine) = self.engine(engine) {
            engine.clear();
        }
    }

    fn reset(&self, hw: &Hardware, engine: u8) {
        if let Some(engine) = self.engine(engine) {
            // That it failed is said there, and that is all there is to do.
            let _ = engine.reset(hw, None, None);
        }
    }
}

fn describe(queue: &SlotView) -> QueueView {
    let (rlc, seat) = (&queue.rlc, queue.seat);
    let (pointers, position, time) = match &rlc.source {
        PacketSource::Direct(direct) => {
            let pointers = &direct.pointers;
            let both = (pointers.read_pointer(), pointers.write_pointer());
            (both, direct.position(), None)
        }
        PacketSource::Feed(feed) => (feed.progress(), feed.position(), Some(feed.time())),
    };
    let rptr = match seat {
        SdmaSeat::In(slot) => rlc.gpu.hw.sdma[usize::from(rlc.engine)].rptr(slot),
        _ => position.0,
    };
    QueueView {
        owner: rlc.owner,
        engine: rlc.engine,
        seat,
        vmid: queue.vmid.map(Vmid::get),
        scheduled: !rlc.is_direct(),
        pointers,
        hardware: (rptr, position.1),
        time,
    }
}
