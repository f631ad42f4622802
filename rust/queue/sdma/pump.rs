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

use super::feed::{FeedBudget, JOB_PACKETS};
use super::scheduled::ScheduledQueue;
use crate::kern::workqueue;
use crate::queue::doorbell::{DoorbellSlice, PASS, REFILL, SCHEDULED_PAGE};
use kernel::sync::atomic::{Acquire, Full, Relaxed, Release};
use kernel::sync::Arc;
use kernel::time::delay::fsleep;
use kernel::time::{msecs_to_jiffies, Delta, Jiffies};

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

/// What a look at all queues of a slice found.
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
fn poll(slice: &DoorbellSlice, queues: &[Arc<ScheduledQueue>], packets: u32) -> PumpResult {
    let mut found = PumpResult::default();
    let mut budget = FeedBudget::new(packets);
    let mut left_out = None;
    let first = slice.first.load(Relaxed);
    let numbered = || queues.iter().enumerate();
    for (number, queue) in numbered().skip(first).chain(numbered().take(first)) {
        found.progress |= queue.check();
        let doorbell = slice.value(queue.slot);
        if budget.is_spent() {
            left_out = left_out.or(Some(number));
        }
        match queue.make_job(doorbell, &mut budget) {
            Ok(taken) => {
                found.progress |= taken;
                found.single |= taken && queue.jobs() == 1;
            }
            Err(_) => found.retry = true,
        }
        found.busy |= queue.is_busy();
        found.behind |= queue.is_ahead_of(doorbell);
    }
    found.more = budget.has_left_more();
    slice.first.store(left_out.unwrap_or(first), Relaxed);
    found
}

/// One pass over the slice, in the work item. Sleeps.
pub(in crate::queue) fn pass(slice: &Arc<DoorbellSlice>) {
    let queues = slice.queues.lock();
    if slice.closed.load(Relaxed) {
        return;
    }
    let faulted = slice.faulted.xchg(false, Full);
    let kicked = slice.kicked.xchg(false, Full);
    let unmet = slice.unmet.xchg(false, Full);
    if !(faulted || kicked || unmet || slice.writable.load(Acquire)) {
        match watch(&queues) {
            WatchedFence::Ended => {}
            WatchedFence::Busy => {
                let before = slice.fruitless.load(Relaxed);
                return slice.watch((before + 1).min(DOUBLINGS));
            }
            WatchedFence::Idle => return,
        }
    }
    let mut found = poll(slice, &queues, PASS_PACKETS);
    for _ in 0..PATIENCE {
        let awaited = found.behind || (faulted && !found.progress);
        if found.busy || !awaited {
            break;
        }
        fsleep(MOMENT);
        let again = poll(slice, &queues, PASS_PACKETS);
        found = PumpResult {
            progress: found.progress || again.progress,
            ..again
        };
    }
    let stalled = !found.progress && !kicked;
    if slice.writable.load(Acquire) && (!found.busy || stalled) {
        slice.writable.store(false, Relaxed);
        slice.zap(SCHEDULED_PAGE, 1);
        found = poll(slice, &queues, PASS_PACKETS);
    }
    // Not a delayed pass: a jiffy is longer than many a job.
    if found.single || found.more {
        let _ = workqueue::allocating().enqueue_delayed::<_, REFILL>(slice.clone(), 0);
    }
    if found.retry {
        slice.unmet.store(true, Relaxed);
    }
    if found.retry || slice.writable.load(Acquire) {
        // Does nothing if a pass is queued already, which is sooner.
        let _ = workqueue::allocating().enqueue_delayed::<_, PASS>(slice.clone(), GRACE);
    } else if found.busy {
        slice.watch(0);
    }
}

/// What the fences of a slice's queues tell.
enum WatchedFence {
    /// Jobs have ended.
    Ended,
    /// None has, and some are under way.
    Busy,
    /// None is under way.
    Idle,
}

/// Looks at the jobs that are under way, and at nothing else.
fn watch(queues: &[Arc<ScheduledQueue>]) -> WatchedFence {
    let mut watched = WatchedFence::Idle;
    for queue in queues.iter().filter(|queue| queue.is_busy()) {
        watched = match watched {
            _ if queue.check() => WatchedFence::Ended,
            WatchedFence::Idle => WatchedFence::Busy,
            before => before,
        };
    }
    watched
}

/// Has a pass run in [`REFILL_DELAY`], in a work item of its own: the end of a job may be handled meanwhile. Sleeps.
pub(in crate::queue) fn refill(slice: &Arc<DoorbellSlice>) {
    fsleep(REFILL_DELAY);
    slice.kick();
}

/// The page has just been mapped by a fault, whose store follows. In the fault: user memory may not be touched.
pub(in crate::queue) fn touched(slice: &Arc<DoorbellSlice>) {
    // A process writes its write pointer before the doorbell, so that what is announced can mostly be taken here, a
    // change of threads earlier.
    let mut taken = false;
    if let Some(queues) = slice.queues.try_lock() {
        if !slice.closed.load(Relaxed) {
            let found = poll(slice, &queues, FAULT_PACKETS);
            taken = found.progress;
            if found.more {
                let _ = workqueue::allocating().enqueue_delayed::<_, REFILL>(slice.clone(), 0);
            }
        }
    }
    slice.faulted.store(!taken, Relaxed);
    slice.writable.store(true, Release);
    if taken {
        // There is no hurry: a pass now would only keep the store from being made.
        slice.within(GRACE);
    } else {
        slice.kick();
    }
}

impl DoorbellSlice {
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
