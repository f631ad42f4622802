// SPDX-License-Identifier: GPL-2.0
//! The RLC slots of the engines, and the queues in them. Queues that have work and no slot, or no
//! VMID, take turns: an idle queue gives way at once, a working one after a quantum.

mod engine;

use super::direct::DirectQueue;
use super::hw_queue::{PacketSource, SdmaHwQueue};
use super::suspect::SdmaSuspect;
use crate::ip::vmid::Vmid;
use crate::ip::Hardware;
use crate::kern::params::SdmaMode;
use crate::kern::sched::SharedWorkQueue;
use crate::mem::queue_group::QuiesceTimeout;
use crate::queue::request::QueueOwner;
use crate::ring::RingEngines;
use core::fmt;
use engine::{EngineSlots, QueueKey, SlotView};
use hw::asic::SdmaInfo;
use hw::doorbell::{DoorbellLayout, DoorbellSlot};
use hw::seat::Seat;
use kernel::dev_warn;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::Delta;

/// The slots of all engines.
pub(crate) struct SdmaSlots {
    engines: KVec<Arc<EngineSlots>>,
    /// The thread that runs the schedulers of queues.
    workers: Arc<SharedWorkQueue>,
}

/// A queue as debugfs shows it.
pub(crate) struct QueueView {
    /// The process and the number.
    pub(crate) owner: QueueOwner,
    /// Its engine.
    pub(crate) engine: u8,
    /// Where it is.
    pub(crate) seat: Seat<u8>,
    /// The VMID of its address space, while it is on the hardware.
    pub(crate) vmid: Option<u8>,
    /// How its packets reach the engine.
    pub(crate) mode: SdmaMode,
    /// Read and write pointer as the process knows them, bytes.
    pub(crate) pointers: (u64, u64),
    /// Read and write pointer of the hardware's ring, bytes.
    pub(crate) hardware: (u64, u64),
    /// The time that an engine had packets of it to do. Of a direct queue only the hardware knows.
    pub(crate) time: Option<Delta>,
}

impl SdmaSlots {
    /// Slots of the engines that `info` describes, all free.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(info: &SdmaInfo, doorbells: &DoorbellLayout) -> Result<Arc<Self>> {
        let count = info.engines();
        // The page of the other doorbells is the CP's too, and is never taken away.
        let is_own = |slot: &u8| match SdmaMode::get() {
            SdmaMode::Direct => true,
            SdmaMode::Scheduled | SdmaMode::Followed => doorbells
                .sdma(0, *slot)
                .is_some_and(DoorbellSlot::is_scheduled),
        };
        let own = (0..info.queues_per_engine).filter(is_own);
        let own = own.fold(0, |mask, slot| mask | 1u32 << slot);
        let mut engines = KVec::with_capacity(count.into(), GFP_KERNEL)?;
        for engine in 0..count {
            let slots = EngineSlots::new(engine, info.queues_per_engine, own)?;
            engines.push(slots, GFP_KERNEL)?;
        }
        let workers = SharedWorkQueue::new(c"rkfd_queues")?;
        Ok(Arc::new(Self { engines, workers }, GFP_KERNEL)?)
    }

    /// The thread of the kernel that runs the schedulers of all queues.
    pub(super) fn workers(&self) -> &Arc<SharedWorkQueue> {
        &self.workers
    }

    fn engine(&self, number: u8) -> Option<&Arc<EngineSlots>> {
        self.engines.get(usize::from(number))
    }

    /// Has all engines look at their queues, as VMIDs are free, wanted or recalled.
    pub(crate) fn wake(&self) {
        self.engines.iter().for_each(EngineSlots::wake);
    }

    /// The engine of `range` with the fewest queues, of those that have room for a queue of process
    /// `pasid`.
    pub(super) fn quietest(&self, range: core::ops::Range<u8>, pasid: u16) -> Result<u8> {
        let by_queues = |&number: &u8| self.engine(number).map(|engine| engine.load_of(pasid));
        range.min_by_key(by_queues).ok_or(EINVAL)
    }

    /// Returns whether `engine` has a doorbell for one more direct or followed queue of process
    /// `pasid`.
    pub(super) fn has_own_doorbell(&self, engine: u8, pasid: u16) -> bool {
        let engine = self.engine(engine);
        engine.is_some_and(|engine| !engine.load_of(pasid).0)
    }

    /// Adds a queue to its engine. Returns the doorbell that the hardware gives to a direct or
    /// followed one.
    ///
    /// # Errors
    ///
    /// `ENOSPC` when the process of such a queue has all of them; `ENODEV` when the device goes;
    /// `ENOMEM`.
    pub(super) fn add(&self, rlc: Arc<SdmaHwQueue>) -> Result<Option<DoorbellSlot>> {
        let engine = rlc.engine;
        let layout = &rlc.gpu.hw.asic.doorbells;
        let slot = self.engine(engine).ok_or(EINVAL)?.add(rlc)?;
        slot.map(|slot| layout.sdma(engine, slot).ok_or(EINVAL))
            .transpose()
    }

    /// Waits until no queue of process `pasid`, or none at all, comes or goes, or has left an
    /// engine and still has its VMID. The process's queues are gone, or kept off. Called before
    /// the process's address space is given up: the engines' work items must not drop the last
    /// reference to it. Bounded; may sleep.
    pub(crate) fn wait_settled(&self, pasid: Option<u16>) {
        self.engines
            .iter()
            .for_each(|engine| engine.wait_settled(pasid));
    }

    /// Takes a queue off the hardware for good. Bounded; may sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` for a queue that hangs, which stays with the engine.
    pub(super) fn remove(&self, rlc: &SdmaHwQueue) -> Result {
        self.engine(rlc.engine)
            .ok_or(EINVAL)?
            .evict(rlc, true, &QuiesceTimeout::endless())
    }

    /// Has the engine take off a queue that must not run any more. Allocates nothing, waits for
    /// nothing.
    pub(super) fn poll(&self, rlc: &SdmaHwQueue) {
        if let Some(engine) = self.engine(rlc.engine) {
            engine.wake();
        }
    }

    /// Takes a queue off the hardware until [`SdmaSlots::admit`]. Bounded; may sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` when it hangs, or `patience` is over before it is off; it will be.
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

    /// Has the hardware do the packets that were put into a queue's ring. Allocates nothing, waits
    /// for nothing.
    pub(super) fn submit(&self, rlc: &SdmaHwQueue) {
        if let Some(engine) = self.engine(rlc.engine) {
            engine.submit(rlc);
        }
    }

    /// Ends jobs that are done, as a TRAP of `engine` has arrived. The hardware does not say for
    /// sure which queue it was, and a look is cheap.
    pub(crate) fn check(&self, engine: u8) {
        if let Some(engine) = self.engine(engine) {
            engine.check();
        }
    }

    /// Stops the queues of process `pasid` on `engine`, or on all engines; their jobs fail with
    /// `error`. Returns the owner of one of them. Allocates nothing; the hardware lets go of them
    /// later.
    pub(crate) fn fail(&self, engine: Option<u8>, pasid: u16, error: Error) -> Option<QueueOwner> {
        let mut owner = None;
        for one in &self.engines {
            if engine.is_some_and(|number| number != one.number) {
                continue;
            }
            // The loop ends, as a queue that has failed is not found again.
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

    /// Loads no queue any more, and forgets the queues that are left. For unbind, after every
    /// process has lost its queues. May sleep.
    pub(crate) fn close(&self) {
        for engine in &self.engines {
            if let Some((rlc, count)) = engine.close() {
                let number = engine.number;
                dev_warn!(
                    &*rlc.gpu.hw.dev,
                    "sdma{number}: {count} queues have never left the hardware: they are \
                     given up\n"
                );
            }
        }
    }

    /// Calls `show` for each queue of process `pasid` as the suspect for a fault in the page at
    /// `page`. May sleep.
    pub(in crate::queue) fn suspects(
        &self,
        pasid: u16,
        page: u64,
        mut show: impl FnMut(SdmaSuspect),
    ) {
        for engine in &self.engines {
            let mut from = QueueKey::first_of(pasid);
            while let Some((key, queue)) = engine.next_from(&from) {
                if queue.rlc.owner.pasid != pasid {
                    break;
                }
                show(SdmaSuspect::new(&queue.rlc, page));
                from = key.next();
            }
        }
    }

    /// Shows every queue, engine by engine, for debugfs.
    pub(crate) fn states(&self, mut show: impl FnMut(QueueView) -> fmt::Result) -> fmt::Result {
        for engine in &self.engines {
            let mut from = QueueKey::first_of(0);
            // One at a time: lines are written without the lock.
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

    fn reset(&self, hw: &Hardware, engine: u8) -> Result {
        self.engine(engine).ok_or(EINVAL)?.reset(hw, None, None)
    }
}

fn describe(queue: &SlotView) -> QueueView {
    let (rlc, seat) = (&queue.rlc, queue.seat);
    let of_own = |direct: &DirectQueue| {
        let pointers = &direct.pointers;
        (pointers.read_pointer(), pointers.write_pointer())
    };
    let (mode, pointers, position, time) = match &rlc.source {
        PacketSource::Direct(direct) => (SdmaMode::Direct, of_own(direct), direct.position(), None),
        PacketSource::Followed(followed) => {
            let (direct, time) = (&followed.direct, followed.time());
            (
                SdmaMode::Followed,
                of_own(direct),
                direct.position(),
                Some(time),
            )
        }
        PacketSource::Feed(feed) => {
            let (pointers, time) = (feed.progress(), feed.time());
            (SdmaMode::Scheduled, pointers, feed.position(), Some(time))
        }
        // The client has no ring.
        PacketSource::Jobs(jobs) => {
            let position = jobs.position();
            (SdmaMode::Scheduled, position, position, Some(jobs.time()))
        }
    };
    let rptr = match seat {
        Seat::In(slot) => rlc.gpu.hw.sdma[usize::from(rlc.engine)].rptr(slot),
        _ => position.0,
    };
    QueueView {
        owner: rlc.owner,
        engine: rlc.engine,
        seat,
        vmid: queue.vmid.map(Vmid::get),
        mode,
        pointers,
        hardware: (rptr, position.1),
        time,
    }
}
