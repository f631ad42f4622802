// SPDX-License-Identifier: GPL-2.0
//! A process's SDMA queue, from CREATE_QUEUE to DESTROY_QUEUE.

use super::direct::DirectQueue;
use super::feed::RingFeed;
use super::follow::FollowedQueue;
use super::followed::FollowedLine;
use super::hw_queue::{PacketSource, SdmaHwQueue};
use super::member::SdmaMember;
use super::pump::{Pump, PumpedQueue};
use super::scheduled::ScheduledQueue;
use super::slots::SdmaSlots;
use crate::kern::errno::{not_supported, timer_expired};
use crate::kern::fence::canceled;
use crate::kern::trace;
use crate::mem::queue_group::{QueueGroup, QuiesceTimeout};
use crate::mem::vm::Vm;
use crate::queue::gpu::QueueGpu;
use crate::queue::pointers::QueuePointers;
use crate::queue::quota::{CountedQueue, QuotaKind};
use crate::queue::request::{
    engines, CreateQueue, PreparedQueue, QueueOwner, UpdateQueue, UserQueue,
};
use crate::queue::resources::QueueResources;
use hw::criu::QueueRecord;
use hw::doorbell::DoorbellSlot;
use hw::sdma::ring::RingSize;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::{new_mutex, Arc, Mutex};
use kernel::time::delay::fsleep;
use kernel::time::Delta;

/// How often, and how long in between, the end of others' use of a destroyed queue is waited for: a
/// second in all.
const GONE_TRIES: u32 = 1000;
const GONE_PAUSE: Delta = Delta::from_millis(1);

/// A user queue of SDMA. Gone from the hardware once [`UserSdmaQueue::destroy`] returns, or when
/// dropped.
#[pin_data(PinnedDrop)]
pub(crate) struct UserSdmaQueue {
    owner: QueueOwner,
    ring: (u64, RingSize),
    doorbell: DoorbellSlot,
    /// `None` once destroyed. Held while the hardware is waited for: only calls for this queue wait
    /// for it.
    #[pin]
    inner: Mutex<Option<SdmaQueueInner>>,
}

/// The parts of a queue.
struct SdmaQueueInner {
    rlc: Arc<SdmaHwQueue>,
    slots: Arc<SdmaSlots>,
    member: Arc<SdmaMember>,
    group: Arc<QueueGroup>,
    scheduled: Option<(Arc<Pump>, Arc<dyn PumpedQueue>)>,
}

impl UserSdmaQueue {
    /// Makes a queue of `owner` in `vm`, from the process's `resources`.
    ///
    /// # Errors
    ///
    /// `EFAULT` or `EINVAL` for its memory, see [`CreateQueue`]; `EINVAL` for an engine that does
    /// not exist; `ENOSPC` without a doorbell, or with too many queues; `ENOMEM`.
    pub(crate) fn create(
        gpu: &Arc<QueueGpu>,
        slots: &Arc<SdmaSlots>,
        vm: &Arc<Vm>,
        resources: &Arc<QueueResources>,
        owner: QueueOwner,
        create: &PreparedQueue,
    ) -> Result<Arc<Self>> {
        let counted = CountedQueue::new(&resources.counts, QuotaKind::Sdma)?;
        let range = engines(&gpu.hw.asic.sdma, create.kind, create.engine, vm.retries())?;
        let (wanted, from) = (create.wanted_doorbell(), create.saved_position()?);
        // The hardware gives it to one queue of one engine.
        let own = wanted.and_then(|slot| gpu.hw.asic.doorbells.sdma_at(slot));
        let range = match own {
            Some((engine, _)) if !range.contains(&engine) => return Err(EINVAL),
            Some((engine, _)) => engine..engine + 1,
            None => range,
        };
        let engine = slots.quietest(range, owner.pasid)?;
        let pointers = QueuePointers::new(vm, create)?;
        let may_follow = wanted.is_none() || own.is_some();
        let followed = may_follow
            && resources.doorbells.is_followed()
            && slots.has_own_doorbell(engine, owner.pasid);
        let source = match &resources.pump {
            Some(_) if followed => {
                PacketSource::Followed(FollowedQueue::new(vm.group(), pointers, from)?)
            }
            Some(_) => {
                let feed = RingFeed::new(&gpu.memory, vm, &resources.rings, pointers, from)?;
                PacketSource::Feed(feed)
            }
            None => {
                resources.doorbells.index()?;
                PacketSource::Direct(DirectQueue::new(pointers, from))
            }
        };
        let rlc = SdmaHwQueue::new(gpu, owner, engine, source, vm, resources, counted)?;
        if let Some((_, number)) = own.filter(|_| rlc.has_own_doorbell()) {
            rlc.set_own_doorbell(number);
        } else if wanted.is_some() && rlc.has_own_doorbell() {
            return Err(EINVAL);
        }
        rlc.set_active(create.percentage.is_active());
        // Leaves again, and is removed, when anything below fails.
        let inner = SdmaQueueInner {
            rlc: rlc.clone(),
            slots: slots.clone(),
            member: SdmaMember::new(&rlc, slots)?,
            group: vm.group().clone(),
            scheduled: None,
        };
        // First the group, so that the engine already knows whether it is quiesced.
        inner.group.join(inner.member.clone())?;
        let slot = slots.add(rlc)?;
        let queue = inner.start(slot, wanted, owner, create)?;
        let (ring, size) = (create.ring, create.size.bytes());
        trace::queue_create(owner.pid as u32, owner.queue, engine.into(), ring, size);
        Ok(queue)
    }
}

impl UserQueue for UserSdmaQueue {
    fn doorbell(&self) -> DoorbellSlot {
        self.doorbell
    }

    /// Whether it runs can change, its ring cannot: EOPNOTSUPP. SDMA queues take turns whatever
    /// their priority is.
    fn update(&self, update: &UpdateQueue) -> Result {
        if update.ring.is_some_and(|ring| ring != self.ring) {
            return Err(not_supported());
        }
        let inner = self.inner.lock();
        let inner = inner.as_ref().ok_or(EINVAL)?;
        let (rlc, slots) = (&inner.rlc, &inner.slots);
        let active = update.is_active();
        if rlc.set_active(active) == active {
            return Ok(());
        }
        if active {
            slots.admit(rlc);
            rlc.kick();
        } else {
            slots.suspend(rlc, &QuiesceTimeout::endless())?;
        }
        Ok(())
    }

    fn begin_suspend(&self) {
        if let Some(inner) = &*self.inner.lock() {
            inner.rlc.set_suspended(true);
            inner.slots.poll(&inner.rlc);
        }
    }

    fn suspend(&self) -> Result {
        let inner = self.inner.lock();
        let inner = inner.as_ref().ok_or(EINVAL)?;
        let failed_before = inner.rlc.has_failed();
        inner.rlc.set_suspended(true);
        let suspended = inner.slots.suspend(&inner.rlc, &QuiesceTimeout::endless());
        match failed_before {
            true => Ok(()),
            false => suspended.map_err(|_| EIO),
        }
    }

    fn resume(&self) {
        if let Some(inner) = &*self.inner.lock() {
            inner.rlc.set_suspended(false);
            inner.slots.admit(&inner.rlc);
            inner.rlc.kick();
        }
    }

    fn save(&self, progress: &mut KVVec<u32>) -> Result {
        let inner = self.inner.lock();
        let inner = inner.as_ref().ok_or(EINVAL)?;
        if inner.rlc.has_failed() || !inner.rlc.is_quiesced() {
            return Err(EINVAL);
        }
        let words = QueueRecord::sdma_progress(inner.rlc.saved_position()?);
        Ok(progress.extend_from_slice(&words, GFP_KERNEL_ACCOUNT)?)
    }

    /// Takes the queue off the hardware, whatever it is doing; jobs that are not done fail. Nothing
    /// happens the second time. ETIME when the engine hangs: then the queue's memory is kept until
    /// the device goes. Bounded; sleeps.
    fn destroy(&self) -> Result {
        let mut held = self.inner.lock();
        let Some(inner) = held.take() else {
            return Ok(());
        };
        trace::queue_destroy(self.owner.pid as u32, self.owner.queue);
        let gone = inner.rlc.drop_notice();
        drop(inner);
        // An interrupt or a work item may be looking at the queue. The process unmaps its ring
        // next, so wait.
        for _ in 0..GONE_TRIES {
            if gone.load(Acquire) {
                return Ok(());
            }
            fsleep(GONE_PAUSE);
        }
        Err(timer_expired())
    }
}

#[pinned_drop]
impl PinnedDrop for UserSdmaQueue {
    fn drop(self: Pin<&mut Self>) {
        // One that hangs was reported.
        let _ = self.destroy();
    }
}

impl SdmaQueueInner {
    /// Gives a queue its doorbell: `slot` is the one that the hardware gives to a direct or
    /// followed queue, `wanted` the one that a queue must have which was saved.
    fn start(
        mut self,
        slot: Option<DoorbellSlot>,
        wanted: Option<DoorbellSlot>,
        owner: QueueOwner,
        create: &CreateQueue,
    ) -> Result<Arc<UserSdmaQueue>> {
        let doorbell = match (&self.rlc.source, slot) {
            (PacketSource::Feed(feed), _) => {
                let pump = self.rlc.resources().pump.as_ref().ok_or(EINVAL)?;
                let queue = pump.add(None, wanted, |slot| {
                    Ok(ScheduledQueue::new(&self.rlc, &self.slots, feed, slot)?)
                })?;
                let slot = queue.doorbell();
                self.scheduled = Some((pump.clone(), queue));
                slot
            }
            (PacketSource::Followed(_), slot) => {
                let pump = self.rlc.resources().pump.as_ref().ok_or(EINVAL)?;
                let own = Some(slot.ok_or(EINVAL)?);
                let queue = pump.add(own, None, |slot| {
                    Ok(FollowedLine::new(&self.rlc, &self.slots, slot)?)
                })?;
                self.scheduled = Some((pump.clone(), queue));
                own.ok_or(EINVAL)?
            }
            (PacketSource::Direct(_), slot) => slot.ok_or(EINVAL)?,
            // Not of a process.
            (PacketSource::Jobs(_), _) => return Err(EINVAL),
        };
        let ring = (create.ring, create.size);
        Arc::pin_init(
            pin_init!(UserSdmaQueue {
                owner,
                ring,
                doorbell,
                inner <- new_mutex!(Some(self), "UserSdmaQueue::inner"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }
}

impl Drop for SdmaQueueInner {
    fn drop(&mut self) {
        // No new jobs; those that wait and those under way fail; then the hardware lets go, and
        // after that the scheduler and the memory go.
        if let Some((pump, queue)) = &self.scheduled {
            pump.remove(queue);
        }
        self.rlc.fail(canceled());
        // A queue that hangs was reported, and stays with the engine.
        let _ = self.slots.remove(&self.rlc);
        // Not before: a thread that quiesces the group relies on all being off the hardware.
        self.group.remove(&self.member);
    }
}
