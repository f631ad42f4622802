// SPDX-License-Identifier: GPL-2.0
//! The pump: sees the doorbells of a process's scheduled and followed queues and makes jobs of the
//! packets that they announce.
//!
//! [`hw::pump`] decides when the pump looks, when it takes the page of doorbells away from the
//! process, and when the next pass is due. It also proves that no doorbell is lost. This file
//! carries its actions out.
//!
//! A look takes no more packets than a [`FeedBudget`] says, as other threads wait for its end:
//! calls for the process's queues, and in a fault every thread that waits for the process's
//! `mmap_lock`. Another pass takes the rest, after [`REFILL_DELAY`] at the latest. It begins with
//! the first queue that this look left out.

use super::feed::{FeedBudget, JOB_PACKETS};
use crate::kern::workqueue;
use crate::queue::doorbell::DoorbellSlice;
use hw::doorbell::DoorbellSlot;
use hw::pump::{
    PassAction, PassFlags, PumpEvent, PumpFindings, PumpFlag, PumpLimits, PumpSignal, PumpState,
    SignalAction, WatchedFence,
};
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Release};
use kernel::sync::{new_mutex, Arc, Mutex};
use kernel::time::delay::fsleep;
use kernel::time::{msecs_to_jiffies, Delta, Jiffies};
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};

/// The work item of a pass.
const PASS: u64 = 0;
/// The work item that has a pass run while a job is under way.
const REFILL: u64 = 1;

/// Longest time that the page may stay mapped without a look, jiffies.
const GRACE: Jiffies = 1;
/// Moments that a pass waits for a store, and doublings of the watchdog's time.
const LIMITS: PumpLimits = PumpLimits {
    patience: 8,
    doublings: 4,
};
/// Time that a pass waits at once for a store that is still to come.
const MOMENT: Delta = Delta::from_micros(25);
/// Time that a job of a stream is alone before the pump looks for packets for the next one.
const REFILL_DELAY: Delta = Delta::from_micros(400);
/// Most packets that a look of a pass takes, and most that one in a fault takes.
const PASS_PACKETS: u32 = 4 * JOB_PACKETS;
const FAULT_PACKETS: u32 = JOB_PACKETS;

/// A queue as the pump sees it.
pub(super) trait PumpedQueue: Send + Sync {
    /// Returns its doorbell in the process's slice.
    fn doorbell(&self) -> DoorbellSlot;

    /// Ends the jobs that are done. Returns whether there were any.
    fn check(&self) -> bool;

    /// Returns whether jobs are under way.
    fn is_busy(&self) -> bool;

    /// Looks at its jobs and at new packets in the process's ring, makes jobs of these as far as
    /// `budget` goes, and adds to `found`. `doorbell` is the value of its doorbell, if that is
    /// known. Called with the pump's queues locked.
    fn look(&self, doorbell: Option<u64>, budget: &mut FeedBudget, found: &mut PumpFindings);

    /// The same in a fault for its doorbell, where only that must be done for which the engine
    /// would wait. User memory may not be touched.
    fn touch(&self, doorbell: Option<u64>, budget: &mut FeedBudget, found: &mut PumpFindings);

    /// Returns whether stores to its doorbell go unheard while the page is mapped: they reach the
    /// hardware, which does not have the queue.
    fn is_unheard(&self) -> bool {
        false
    }

    /// Looks for the last time, before it is removed: what the engine has done is to be in jobs.
    fn finish(&self) {}
}

/// The queues of a pump, and its state.
struct PumpQueues {
    list: KVec<Arc<dyn PumpedQueue>>,
    /// The queue that the next look begins with.
    first: usize,
    state: PumpState,
}

/// The pump of a process's scheduled queues on a GPU.
#[pin_data]
pub(crate) struct Pump {
    doorbells: Arc<DoorbellSlice>,
    #[pin]
    queues: Mutex<PumpQueues>,
    /// [`PumpFlag::Open`].
    open: Atomic<bool>,
    /// [`PumpFlag::Faulted`].
    faulted: Atomic<bool>,
    /// [`PumpFlag::Kicked`].
    kicked: Atomic<bool>,
    /// [`PumpFlag::Left`].
    left: Atomic<bool>,
    #[pin]
    pass: DelayedWork<Self, PASS>,
    #[pin]
    refill: DelayedWork<Self, REFILL>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self, PASS> for Pump { self.pass }
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self, REFILL> for Pump { self.refill }
}

impl WorkItem<PASS> for Pump {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.pass();
    }
}

impl WorkItem<REFILL> for Pump {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // In a work item of its own: the end of a job may be handled meanwhile.
        fsleep(REFILL_DELAY);
        this.kick();
    }
}

impl PumpQueues {
    /// Looks in a fault at the queue that has doorbell `slot`, and takes at most `packets` packets.
    /// `doorbells` are the process's.
    fn touch(&self, slot: DoorbellSlot, doorbells: &DoorbellSlice, packets: u32) -> PumpFindings {
        let mut found = PumpFindings::default();
        let mut budget = FeedBudget::new(packets);
        if let Some(queue) = self.list.iter().find(|queue| queue.doorbell() == slot) {
            queue.touch(doorbells.value(slot), &mut budget, &mut found);
        }
        let mut others = self.list.iter().filter(|queue| queue.doorbell() != slot);
        found.unheard = others.any(|queue| queue.is_unheard());
        found.more = budget.has_left_more();
        found.long = budget.has_long_job();
        found
    }

    /// Looks at every queue once, and takes at most `packets` packets. `doorbells` are the
    /// process's.
    fn look(&mut self, doorbells: &DoorbellSlice, packets: u32) -> PumpFindings {
        let mut found = PumpFindings::default();
        let mut budget = FeedBudget::new(packets);
        let mut left_out = None;
        let numbered = || self.list.iter().enumerate();
        let from_first = numbered().skip(self.first);
        for (number, queue) in Iterator::chain(from_first, numbered().take(self.first)) {
            if budget.is_spent() {
                left_out = left_out.or(Some(number));
            }
            queue.look(doorbells.value(queue.doorbell()), &mut budget, &mut found);
        }
        found.more = budget.has_left_more();
        found.long = budget.has_long_job();
        self.first = left_out.unwrap_or(self.first);
        found
    }

    /// Looks at the jobs that are under way, and at nothing else.
    fn watch(&self) -> WatchedFence {
        let mut watched = WatchedFence::Idle;
        for queue in self.list.iter().filter(|queue| queue.is_busy()) {
            watched = match watched {
                _ if queue.check() => WatchedFence::Ended,
                WatchedFence::Idle => WatchedFence::Busy,
                before => before,
            };
        }
        watched
    }
}

impl Pump {
    /// Returns the pump of a process's doorbells. It has no queues yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(doorbells: &Arc<DoorbellSlice>) -> Result<Arc<Self>> {
        let queues = PumpQueues {
            list: KVec::new(),
            first: 0,
            state: PumpState::new(LIMITS),
        };
        Arc::pin_init(
            pin_init!(Self {
                doorbells: doorbells.clone(),
                queues <- new_mutex!(queues, "Pump::queues"),
                open: Atomic::new(false),
                faulted: Atomic::new(false),
                kicked: Atomic::new(false),
                left: Atomic::new(false),
                pass <- new_delayed_work!("Pump::pass"),
                refill <- new_delayed_work!("Pump::refill"),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a queue, which `make` makes for the doorbell that it is given: `own` if the hardware
    /// has given it one, or else the one that is `wanted`, or one that no other queue has.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the one that is wanted is used; `ENOSPC` if all doorbells are; `ENOMEM`; `ENODEV`
    /// if the doorbells are closed; errors of `make`.
    pub(super) fn add(
        &self,
        own: Option<DoorbellSlot>,
        wanted: Option<DoorbellSlot>,
        make: impl FnOnce(DoorbellSlot) -> Result<Arc<dyn PumpedQueue>>,
    ) -> Result<Arc<dyn PumpedQueue>> {
        let mut queues = self.queues.lock();
        if self.doorbells.is_closed() {
            return Err(ENODEV);
        }
        let taken = |slot| queues.list.iter().any(|queue| queue.doorbell() == slot);
        let mut free = (0..)
            .map_while(DoorbellSlot::scheduled)
            .filter(|&slot| self.doorbells.is_free_for_scheduled(slot))
            .filter(|&slot| !taken(slot));
        let slot = match (own, wanted) {
            (Some(slot), _) => slot,
            (None, Some(wanted)) => free.find(|&slot| slot == wanted).ok_or(EBUSY)?,
            (None, None) => free.next().ok_or(ENOSPC)?,
        };
        self.doorbells.clear(slot)?;
        queues.list.reserve(1, GFP_KERNEL)?;
        let queue = make(slot)?;
        queues.list.push(queue.clone(), GFP_KERNEL)?;
        Ok(queue)
    }

    /// Looks at a queue for the last time, and removes it: the pump does not touch it any more from
    /// the return on.
    pub(super) fn remove(&self, queue: &Arc<dyn PumpedQueue>) {
        let mut queues = self.queues.lock();
        queue.finish();
        // No two of them have the same doorbell.
        let is_other = |other: &mut Arc<dyn PumpedQueue>| other.doorbell() != queue.doorbell();
        queues.list.retain(is_other);
    }

    /// Closes the doorbells: no pass does anything from now on. [`Pump::cancel`] must follow.
    pub(crate) fn close(&self) {
        let _queues = self.queues.lock();
        self.doorbells.close();
    }

    /// Cancels the work items of a closed pump, and waits for their ends. May sleep.
    pub(crate) fn cancel(self: &Arc<Self>) {
        // The first queues the second.
        workqueue::cancel::<_, REFILL>(self);
        workqueue::cancel::<_, PASS>(self);
    }

    /// Has a pass look for packets at once. Any context.
    pub(crate) fn kick(self: &Arc<Self>) {
        self.signal(PumpSignal::Kick);
    }

    /// Reacts to a followed queue that has left its slot. Any context.
    pub(super) fn has_left(self: &Arc<Self>) {
        // If a fault is about to map the page, a pass is due.
        if self.open.load(Acquire) {
            self.signal(PumpSignal::Left);
        }
    }

    /// Reacts to a fault that has just mapped the page for an access to byte `offset` of it. The
    /// access follows. Looks at that queue alone: the others' stores are not noticed from now on,
    /// and a pass is due for them. In the fault: user memory may not be touched.
    pub(crate) fn touched(self: &Arc<Self>, offset: usize) {
        let mut found = PumpFindings::default();
        let slot = DoorbellSlot::scheduled_at(offset);
        if let (Some(queues), Some(slot)) = (self.queues.try_lock(), slot) {
            if !self.doorbells.is_closed() {
                found = queues.touch(slot, &self.doorbells, FAULT_PACKETS);
            }
        }
        self.signal(PumpSignal::Touched {
            taken: found.progress,
            soon: found.more || found.long || found.unheard,
        });
        // An engine may be through with the job before the page counts as open. The pass at the
        // job's end has left it mapped then.
        if found.busy && slot.is_some_and(|slot| self.is_idle(slot)) {
            self.kick();
        }
    }

    /// Returns whether the queue that has doorbell `slot` has no jobs under way, or that is not
    /// known as a pass is running. Any context in which `Pump::queues` may be tried.
    fn is_idle(&self, slot: DoorbellSlot) -> bool {
        let Some(queues) = self.queues.try_lock() else {
            return true;
        };
        let mut busy = queues.list.iter().filter(|queue| queue.is_busy());
        !busy.any(|queue| queue.doorbell() == slot)
    }

    /// Carries out the actions for an event outside a pass. Any context.
    fn signal(self: &Arc<Self>, signal: PumpSignal) {
        for &action in signal.actions() {
            match action {
                SignalAction::Set(flag) => self.flag(flag).store(true, Release),
                SignalAction::Clear(flag) => self.flag(flag).store(false, Release),
                SignalAction::PassNow => self.pass_in(0),
                SignalAction::PassInGrace => self.pass_in(GRACE),
                SignalAction::PassNowIfAsked => {
                    if self.kicked.load(Acquire) || self.left.load(Acquire) {
                        self.pass_in(0);
                    }
                }
                SignalAction::Refill => self.refill(),
            }
        }
    }

    /// Runs one pass, in the work item. May sleep.
    fn pass(self: &Arc<Self>) {
        let mut queues = self.queues.lock();
        if self.doorbells.is_closed() {
            return;
        }
        let mut event = Some(PumpEvent::Begin(PassFlags {
            faulted: self.faulted.xchg(false, Full),
            kicked: self.kicked.xchg(false, Full),
            left: self.left.xchg(false, Full),
            open: self.open.load(Acquire),
        }));
        while let Some(happened) = event.take() {
            let (state, actions) = queues.state.step(happened);
            queues.state = state;
            for &action in actions {
                event = self.carry_out(&mut queues, action);
            }
        }
    }

    /// Carries out an action of a pass, and returns the event that it leads to. May sleep.
    fn carry_out(
        self: &Arc<Self>,
        queues: &mut PumpQueues,
        action: PassAction,
    ) -> Option<PumpEvent> {
        match action {
            PassAction::WatchJobs => return Some(PumpEvent::Watched(queues.watch())),
            PassAction::Look => {
                return Some(PumpEvent::Looked {
                    found: queues.look(&self.doorbells, PASS_PACKETS),
                    open: self.open.load(Acquire),
                })
            }
            PassAction::Wait => fsleep(MOMENT),
            PassAction::ClearOpen => self.open.store(false, Release),
            PassAction::Zap => self.doorbells.zap_scheduled(),
            PassAction::PassByGrace => self.pass_by(GRACE),
            PassAction::PassByWatchdog => {
                self.pass_by(msecs_to_jiffies(queues.state.watchdog_ms()));
            }
            PassAction::Refill => self.refill(),
        }
        None
    }

    fn flag(&self, flag: PumpFlag) -> &Atomic<bool> {
        match flag {
            PumpFlag::Open => &self.open,
            PumpFlag::Faulted => &self.faulted,
            PumpFlag::Kicked => &self.kicked,
            PumpFlag::Left => &self.left,
        }
    }

    /// Has a pass run after `delay`, sooner or later than it was due.
    fn pass_in(self: &Arc<Self>, delay: Jiffies) {
        workqueue::run_in::<_, PASS>(workqueue::allocating(), self.clone(), delay);
    }

    /// Has a pass run after `delay`, unless one is queued already.
    fn pass_by(self: &Arc<Self>, delay: Jiffies) {
        let _ = workqueue::allocating().enqueue_delayed::<_, PASS>(self.clone(), delay);
    }

    /// Has the pump kicked in a moment, unless that is queued already.
    fn refill(self: &Arc<Self>) {
        let _ = workqueue::allocating().enqueue_delayed::<_, REFILL>(self.clone(), 0);
    }
}
