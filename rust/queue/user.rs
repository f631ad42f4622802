// SPDX-License-Identifier: GPL-2.0
//! A process's SDMA queue, from CREATE_QUEUE to DESTROY_QUEUE.

use super::direct::Direct;
use super::doorbell::Slice;
use super::feed::Feed;
use super::group::{Group, Patience};
use super::pointers::Pointers;
use super::quota::{Counted, Kind};
use super::rlc::{Rlc, Source};
use super::scheduled::Scheduled;
use super::{engines, CreateQueue, Owner, Prepared, UpdateQueue, UserQueue};
use crate::kern::errno::{not_supported, timer_expired};
use crate::kern::fence::canceled;
use crate::kern::trace;
use crate::mem::vm::Vm;
use crate::queue::Queues;
use hw::doorbell::Slot;
use hw::sdma::ring::RingSize;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::{new_mutex, Arc, Mutex};
use kernel::time::delay::fsleep;
use kernel::time::Delta;

/// How often, and how long in between, the end of others' use of a destroyed queue is waited for: a second in all.
const GONE_TRIES: u32 = 1000;
const GONE_PAUSE: Delta = Delta::from_millis(1);

/// A user queue of SDMA. Gone from the hardware once [`SdmaQueue::destroy`] returns, or when dropped.
#[pin_data(PinnedDrop)]
pub(crate) struct SdmaQueue {
    owner: Owner,
    ring: (u64, RingSize),
    doorbell: Slot,
    /// `None` once destroyed. Held while the hardware is waited for: only calls for this queue wait for it.
    #[pin]
    inner: Mutex<Option<Inner>>,
}

/// What a queue is made of.
struct Inner {
    rlc: Arc<Rlc>,
    group: Arc<Group>,
    scheduled: Option<Arc<Scheduled>>,
}

impl SdmaQueue {
    /// Makes a queue of `owner` in `vm`, with a doorbell in `slice`. EOPNOTSUPP for compute; EFAULT and EINVAL for its
    /// memory, see [`CreateQueue`]; EINVAL for an engine that does not exist; ENOSPC without a doorbell, or with too many queues;
    /// ENOMEM.
    pub(crate) fn create(
        gpu: &Arc<Queues>,
        vm: &Arc<Vm>,
        slice: &Arc<Slice>,
        owner: Owner,
        create: &Prepared,
    ) -> Result<Arc<Self>> {
        let counted = Counted::new(slice, Kind::Sdma)?;
        let engine = gpu.slots.quietest(
            engines(create.kind, create.engine, vm.retries())?,
            owner.pasid,
        )?;
        let pointers = Pointers::new(vm, create)?;
        let source = if slice.page.is_some() {
            Source::Feed(KBox::pin_init(
                Feed::new(&gpu.memory, vm, slice, pointers)?,
                GFP_KERNEL_ACCOUNT,
            )?)
        } else {
            slice.index()?;
            Source::Direct(Direct::new(pointers))
        };
        let active = create.percentage.is_active();
        let rlc = Rlc::new(gpu, owner, engine, source, vm, active, counted)?;
        // Leaves again, and is removed, when anything below fails.
        let inner = Inner {
            rlc: rlc.clone(),
            group: vm.group().clone(),
            scheduled: None,
        };
        // First the group, so that the engine already knows whether it is quiesced.
        inner.group.join(rlc.clone())?;
        let slot = gpu.slots.add(rlc)?;
        let queue = inner.start(slice, slot, owner, create)?;
        let (ring, size) = (create.ring, create.size.bytes());
        trace::queue_create(owner.pid as u32, owner.queue, engine.into(), ring, size);
        Ok(queue)
    }
}

impl UserQueue for SdmaQueue {
    fn doorbell(&self) -> Slot {
        self.doorbell
    }

    /// Whether it runs can change, its ring cannot: EOPNOTSUPP. SDMA queues take turns whatever their priority is.
    fn update(&self, update: &UpdateQueue) -> Result {
        if update.ring.is_some_and(|ring| ring != self.ring) {
            return Err(not_supported());
        }
        let inner = self.inner.lock();
        let rlc = &inner.as_ref().ok_or(EINVAL)?.rlc;
        let active = update.is_active();
        if rlc.set_active(active) == active {
            return Ok(());
        }
        if active {
            rlc.gpu.slots.admit(rlc);
            rlc.slice.kick();
        } else {
            rlc.gpu.slots.suspend(rlc, &Patience::endless())?;
        }
        Ok(())
    }

    /// Takes the queue off the hardware, whatever it is doing; jobs that are not done fail. Nothing happens the second
    /// time. ETIME when the engine hangs: then the queue's memory is kept until the device goes. Bounded; sleeps.
    fn destroy(&self) -> Result {
        let mut held = self.inner.lock();
        let Some(inner) = held.take() else {
            return Ok(());
        };
        trace::queue_destroy(self.owner.pid as u32, self.owner.queue);
        let gone = inner.rlc.gone();
        drop(inner);
        // An interrupt or a work item may be looking at the queue. The process unmaps its ring next, so wait.
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
impl PinnedDrop for SdmaQueue {
    fn drop(self: Pin<&mut Self>) {
        // One that hangs was reported.
        let _ = self.destroy();
    }
}

impl Inner {
    /// Gives a queue its doorbell: `slot` is the one that the hardware gives to a direct queue.
    fn start(
        mut self,
        slice: &Arc<Slice>,
        slot: Option<Slot>,
        owner: Owner,
        create: &CreateQueue,
    ) -> Result<Arc<SdmaQueue>> {
        let doorbell = match slot {
            Some(slot) => slot,
            None => {
                let scheduled = slice.add(|slot| Scheduled::new(self.rlc.clone(), slot))?;
                let slot = scheduled.slot;
                self.scheduled = Some(scheduled);
                slot
            }
        };
        let ring = (create.ring, create.size);
        Arc::pin_init(
            pin_init!(SdmaQueue {
                owner,
                ring,
                doorbell,
                inner <- new_mutex!(Some(self), "SdmaQueue::inner"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // No new jobs; those that wait and those under way fail; then the hardware lets go, and after that the
        // scheduler and the memory go.
        if let Some(scheduled) = &self.scheduled {
            self.rlc.slice.remove(scheduled);
        }
        self.rlc.fail(canceled());
        // A queue that hangs was reported, and stays with the engine.
        let _ = self.rlc.gpu.slots.remove(&self.rlc);
        // Not before: who quiesces the group relies on that all is off the hardware.
        self.group.leave(&self.rlc);
    }
}
