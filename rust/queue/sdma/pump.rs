// SPDX-License-Identifier: GPL-2.0
//! The pump: sees the doorbells of a process's scheduled queues and makes jobs of what they announce.
//!
//! Why no doorbell is lost. A store to the scheduled page either faults or goes unseen. It goes unseen only while the
//! page is mapped, and for the page as a whole this holds at all times:
//!
//!   mapped, or about to be  =>  `writable` is set, and a pass is queued, running, or due by a timer.       (1)
//!
//! - *The page becomes mapped* by a fault alone, and `touched` is called after the insertion: it sets `writable`, then
//!   has a pass queued, at once or by the timer. A pass that was running before does not count: queueing a running item
//!   makes it run again.
//! - *A pass ends* in one of two ways. It leaves the page mapped, and then has itself queued in [`GRACE`], so (1) holds.
//!   Or it arms the page: it clears `writable`, takes the page away (`zap`), and reads all doorbells once more. A store
//!   before the end of `zap` went to the page and is seen by that last reading, since `zap` returns only after no CPU
//!   can use its old translation. A store after it faults. A fault that came in between has set `writable` after its
//!   insertion and queued a pass of its own; whether this `zap` met the page or not, (1) holds.
//! - *The fault itself comes before the store* that caused it: a pass may find nothing because the store is still to
//!   come. If the pass leaves the page mapped, a later pass sees it by (1). If it arms the page, the store faults again. To
//!   let the store happen rather than fault again and again, a pass waits a moment for it before it arms the page: when
//!   it follows a fault and found nothing, or when a doorbell is behind what the process's write pointer already told.
//!
//! So each store is read by a pass that begins its last reading after the store. What it reads is taken unless the
//! queue already has all the jobs that it may have, or memory is short: in the first case the end of a job, which also
//! queues a pass, makes room; in the second a pass is due by the timer.
//!
//! The end of a job may go unnoticed too, when its interrupt is lost: while jobs are under way a pass is due at the
//! latest in [`WATCHDOG_MS`], and looks at the fences. While the page is not mapped it looks at nothing else: thousands of
//! queues may be there beside few that have jobs. As long as it finds none ended, it lets twice as much time pass before the
//! next one: hundreds of processes may have jobs that wait for ever, and passes go before what programs do.
//!
//! While jobs are under way the page stays mapped, since their ends make the pump look anyway; only when [`GRACE`] goes
//! by without any progress it is armed beside them, lest a queue that waits in POLL_REGMEM hides the doorbells of the
//! others.
//!
//! A look takes no more packets than a [`FeedBudget`] says, as others wait for its end: calls for the process's queues, and in a fault
//! all that waits for the process's `mmap_lock`. What it leaves is another pass's, after [`REFILL_DELAY`] at the latest, which begins with
//! the queue that had nothing of this one.

use super::feed::{FeedBudget, RingFeed, JOB_PACKETS};
use crate::kern::workqueue;
use crate::queue::doorbell::DoorbellSlice;
use hw::doorbell::DoorbellSlot;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};
use kernel::sync::{new_mutex, Arc, Mutex};
use kernel::time::delay::fsleep;
use kernel::time::{msecs_to_jiffies, Delta, Jiffies};
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};

/// The work item of a pass.
const PASS: u64 = 0;
/// The work item that has a pass run while a job is under way.
const REFILL: u64 = 1;

/// How long the page may stay mapped without anybody looking, jiffies.
const GRACE: Jiffies = 1;
/// How long the end of a job may go unnoticed at first, milliseconds, and how often that doubles: later it is no longer than the job has
/// taken by then.
const WATCHDOG_MS: u32 = 100;
const DOUBLINGS: u32 = 4;
/// How long a pass waits for a store that is still to come: this often, this long.
const PATIENCE: u32 = 8;
const MOMENT: Delta = Delta::from_micros(25);
/// How long a job of a stream is alone before the pump looks for packets for the next one.
const REFILL_DELAY: Delta = Delta::from_micros(400);
/// The most packets that a pass looks at at a time, and the most in the fault.
const PASS_PACKETS: u32 = 4 * JOB_PACKETS;
const FAULT_PACKETS: u32 = JOB_PACKETS;

/// A queue as the pump sees it.
pub(super) trait PumpedQueue: Send + Sync {
    /// Returns its doorbell in the process's slice.
    fn doorbell(&self) -> DoorbellSlot;

    /// Returns its rings.
    fn feed(&self) -> &RingFeed;

    /// Makes a job of the new packets in the process's ring, as far as `budget` goes; `doorbell` is the
    /// value of its doorbell. Returns whether there were any. Called with the pump's queues locked.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: nothing was taken.
    fn make_job(&self, doorbell: u64, budget: &mut FeedBudget) -> Result<bool>;
}

/// The pump of a process's scheduled queues on a GPU.
#[pin_data]
pub(in crate::queue) struct Pump {
    doorbells: Arc<DoorbellSlice>,
    #[pin]
    queues: Mutex<KVec<Arc<dyn PumpedQueue>>>,
    /// The scheduled page may be mapped, so that stores to it go unseen.
    writable: Atomic<bool>,
    /// The scheduled page was touched since the last pass.
    faulted: Atomic<bool>,
    /// The pass was asked for, rather than due.
    kicked: Atomic<bool>,
    /// A job could not be made, for which the next pass is due.
    unmet: Atomic<bool>,
    /// The queue that the next look begins with. Under `queues`.
    first: Atomic<usize>,
    /// Number of passes of the watchdog in a row that found no job ended, as far as it counts. Under
    /// `queues`.
    fruitless: Atomic<u32>,
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
        pass(&this);
    }
}

impl WorkItem<REFILL> for Pump {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        refill(&this);
    }
}

/// Findings of a look at all queues.
#[derive(Clone, Copy, Default)]
struct PumpResult {
    /// Jobs were made, or have ended.
    progress: bool,
    /// Jobs are under way.
    busy: bool,
    /// A job could not be made.
    retry: bool,
    /// A job was made that is its queue's only one: unless another follows, the engine runs dry at its end.
    single: bool,
    /// There is more to take than one look may.
    more: bool,
    /// A doorbell is behind what was taken: its store is still to come.
    behind: bool,
}

/// Looks at every queue once, and takes of them so many packets at most.
fn poll(pump: &Pump, queues: &[Arc<dyn PumpedQueue>], packets: u32) -> PumpResult {
    let mut found = PumpResult::default();
    let mut budget = FeedBudget::new(packets);
    let mut left_out = None;
    let first = pump.first.load(Relaxed);
    let numbered = || queues.iter().enumerate();
    for (number, queue) in Iterator::chain(numbered().skip(first), numbered().take(first)) {
        found.progress |= queue.feed().check();
        let doorbell = pump.doorbells.value(queue.doorbell());
        if budget.is_spent() {
            left_out = left_out.or(Some(number));
        }
        match queue.make_job(doorbell, &mut budget) {
            Ok(taken) => {
                found.progress |= taken;
                found.single |= taken && queue.feed().jobs() == 1;
            }
            Err(_) => found.retry = true,
        }
        found.busy |= queue.feed().is_busy();
        found.behind |= queue.feed().progress().1 > doorbell;
    }
    found.more = budget.has_left_more();
    pump.first.store(left_out.unwrap_or(first), Relaxed);
    found
}

/// One pass over the pump, in the work item. Sleeps.
fn pass(pump: &Arc<Pump>) {
    let queues = pump.queues.lock();
    if pump.doorbells.is_closed() {
        return;
    }
    let faulted = pump.faulted.xchg(false, Full);
    let kicked = pump.kicked.xchg(false, Full);
    let unmet = pump.unmet.xchg(false, Full);
    if !(faulted || kicked || unmet || pump.writable.load(Acquire)) {
        match watch(&queues) {
            WatchedFence::Ended => {}
            WatchedFence::Busy => {
                let before = pump.fruitless.load(Relaxed);
                return pump.watch((before + 1).min(DOUBLINGS));
            }
            WatchedFence::Idle => return,
        }
    }
    let mut found = poll(pump, &queues, PASS_PACKETS);
    for _ in 0..PATIENCE {
        let awaited = found.behind || (faulted && !found.progress);
        if found.busy || !awaited {
            break;
        }
        fsleep(MOMENT);
        let again = poll(pump, &queues, PASS_PACKETS);
        found = PumpResult {
            progress: found.progress || again.progress,
            ..again
        };
    }
    let stalled = !found.progress && !kicked;
    if pump.writable.load(Acquire) && (!found.busy || stalled) {
        pump.writable.store(false, Relaxed);
        pump.doorbells.zap_scheduled();
        found = poll(pump, &queues, PASS_PACKETS);
    }
    // Not a delayed pass: a jiffy is longer than many a job.
    if found.single || found.more {
        let _ = workqueue::allocating().enqueue_delayed::<_, REFILL>(pump.clone(), 0);
    }
    if found.retry {
        pump.unmet.store(true, Relaxed);
    }
    if found.retry || pump.writable.load(Acquire) {
        // Does nothing if a pass is queued already, which is sooner.
        let _ = workqueue::allocating().enqueue_delayed::<_, PASS>(pump.clone(), GRACE);
    } else if found.busy {
        pump.watch(0);
    }
}

/// What the fences of a pump's queues tell.
enum WatchedFence {
    /// Jobs have ended.
    Ended,
    /// None has, and some are under way.
    Busy,
    /// None is under way.
    Idle,
}

/// Looks at the jobs that are under way, and at nothing else.
fn watch(queues: &[Arc<dyn PumpedQueue>]) -> WatchedFence {
    let mut watched = WatchedFence::Idle;
    for queue in queues.iter().filter(|queue| queue.feed().is_busy()) {
        watched = match watched {
            _ if queue.feed().check() => WatchedFence::Ended,
            WatchedFence::Idle => WatchedFence::Busy,
            before => before,
        };
    }
    watched
}

/// Has a pass run in [`REFILL_DELAY`], in a work item of its own: the end of a job may be handled meanwhile. Sleeps.
fn refill(pump: &Arc<Pump>) {
    fsleep(REFILL_DELAY);
    pump.kick();
}

impl Pump {
    /// Returns the pump of a process's doorbells. It has no queues yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(in crate::queue) fn new(doorbells: &Arc<DoorbellSlice>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                doorbells: doorbells.clone(),
                queues <- new_mutex!(KVec::new(), "Pump::queues"),
                writable: Atomic::new(false),
                faulted: Atomic::new(false),
                kicked: Atomic::new(false),
                unmet: Atomic::new(false),
                first: Atomic::new(0),
                fruitless: Atomic::new(0),
                pass <- new_delayed_work!("Pump::pass"),
                refill <- new_delayed_work!("Pump::refill"),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a queue, which `make` makes for the doorbell that it is given.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if all doorbells are used; `ENOMEM`; `ENODEV` if the doorbells are closed; errors of
    /// `make`.
    pub(super) fn add(
        &self,
        make: impl FnOnce(DoorbellSlot) -> Result<Arc<dyn PumpedQueue>>,
    ) -> Result<Arc<dyn PumpedQueue>> {
        let mut queues = self.queues.lock();
        if self.doorbells.is_closed() {
            return Err(ENODEV);
        }
        let taken = |slot| queues.iter().any(|queue| queue.doorbell() == slot);
        let slot = (0..)
            .map_while(DoorbellSlot::scheduled)
            .find(|&slot| !taken(slot))
            .ok_or(ENOSPC)?;
        self.doorbells.clear(slot)?;
        queues.reserve(1, GFP_KERNEL)?;
        let queue = make(slot)?;
        queues.push(queue.clone(), GFP_KERNEL)?;
        Ok(queue)
    }

    /// Removes a queue, which the pump does not touch any more from the return on.
    pub(super) fn remove(&self, queue: &Arc<dyn PumpedQueue>) {
        let mut queues = self.queues.lock();
        // No two of them have the same doorbell.
        queues.retain(|other| other.doorbell() != queue.doorbell());
    }

    /// Closes the doorbells: no pass does anything from now on. [`Pump::cancel`] must follow.
    pub(in crate::queue) fn close(&self) {
        let _queues = self.queues.lock();
        self.doorbells.close();
    }

    /// Cancels the work items of a closed pump, and waits for their ends. May sleep.
    pub(in crate::queue) fn cancel(self: &Arc<Self>) {
        // The first queues the second.
        workqueue::cancel::<_, REFILL>(self);
        workqueue::cancel::<_, PASS>(self);
    }

    /// The page has just been mapped by a fault, whose store follows. In the fault: user memory may not be touched.
    pub(in crate::queue) fn touched(self: &Arc<Self>) {
        // A process writes its write pointer before the doorbell, so that what is announced can mostly be taken here, a
        // change of threads earlier.
        let mut taken = false;
        if let Some(queues) = self.queues.try_lock() {
            if !self.doorbells.is_closed() {
                let found = poll(self, &queues, FAULT_PACKETS);
                taken = found.progress;
                if found.more {
                    let _ = workqueue::allocating().enqueue_delayed::<_, REFILL>(self.clone(), 0);
                }
            }
        }
        self.faulted.store(!taken, Relaxed);
        self.writable.store(true, Release);
        if taken {
            // There is no hurry: a pass now would only keep the store from being made.
            self.within(GRACE);
        } else {
            self.kick();
        }
    }

    /// Has a pass look at the jobs that are under way, before long, after so many `fruitless` ones. Does nothing if one is queued
    /// already, which is sooner.
    fn watch(self: &Arc<Self>, fruitless: u32) {
        self.fruitless.store(fruitless, Relaxed);
        let delay = msecs_to_jiffies(WATCHDOG_MS << fruitless);
        let _ = workqueue::allocating().enqueue_delayed::<_, PASS>(self.clone(), delay);
    }

    /// Has a pass run at once. Any context.
    pub(in crate::queue) fn kick(self: &Arc<Self>) {
        self.kicked.store(true, Release);
        workqueue::run_in::<_, PASS>(workqueue::allocating(), self.clone(), 0);
    }

    /// Has a pass run after `delay`, or at once when one was asked for.
    fn within(self: &Arc<Self>, delay: Jiffies) {
        workqueue::run_in::<_, PASS>(workqueue::allocating(), self.clone(), delay);
        // A kick comes after its flag: either it comes after the delay was set, and shortens it, or its flag is seen.
        if self.kicked.load(Acquire) {
            workqueue::run_in::<_, PASS>(workqueue::allocating(), self.clone(), 0);
        }
    }
}
