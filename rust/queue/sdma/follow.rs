// SPDX-License-Identifier: GPL-2.0
//! The positions and jobs of a followed queue: the engine reads the process's own ring, as that of
//! a direct queue, and jobs are made of what was announced and done since the look before.
//! [`hw::sdma::follow`] says which bytes are a job, and why no doorbell is lost.
//!
//! The process can write both pointers. What it gets by that is a wrong account of its own copies:
//! the engine goes by its own registers.

use super::direct::DirectQueue;
use super::queue_time::{QueueTime, QueueTimeState};
use crate::kern::fence::HwFence;
use crate::kern::trace;
use crate::mem::queue_group::QueueGroup;
use crate::queue::pointers::QueuePointers;
use crate::ring::flight::{self, JobsInFlight};
use hw::sdma::follow::{FollowedBytes, FollowedPositions};
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Relaxed, Release};
use kernel::sync::{Arc, SpinLock};
use kernel::time::{Delta, Instant, Monotonic};

/// The most jobs of a queue that the scheduler is still to start: more are not made before its
/// thread has come to some of them.
const MOST_WAITING: i32 = 64;

/// A queue that jobs follow.
#[pin_data]
pub(super) struct FollowedQueue {
    pub(super) direct: DirectQueue,
    #[pin]
    state: SpinLock<FollowState>,
    /// Counts while looks find work. Inside `state`.
    #[pin]
    time: QueueTime,
    /// Jobs that the scheduler is still to start.
    waiting: Atomic<i32>,
    /// It is in no slot.
    out: Atomic<bool>,
}

struct FollowState {
    positions: FollowedPositions,
    /// Jobs whose end was not seen.
    flight: JobsInFlight<FollowMark>,
    /// When the queue was last looked at.
    looked: Instant<Monotonic>,
    time: QueueTimeState,
    /// Reason why no more jobs are made.
    failed: Option<Error>,
}

/// A job whose end was not seen.
struct FollowMark {
    from: u64,
    to: u64,
    /// It began after this.
    after: Instant<Monotonic>,
}

impl FollowState {
    /// See [`QueueTimeState::count`].
    fn count(&mut self, time: &QueueTime) {
        self.time.count(self.flight.count(), time);
    }
}

impl FollowedQueue {
    /// Returns a queue of `group`, whose ring and pointers are `pointers`. It begins at byte count
    /// `from`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        group: &Arc<QueueGroup>,
        pointers: QueuePointers,
        from: u64,
    ) -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            pin_init!(Self {
                direct: DirectQueue::new(pointers, from),
                state <- new_spinlock!(
                    FollowState {
                        positions: FollowedPositions::from(from),
                        flight: JobsInFlight::new(),
                        looked: Instant::now(),
                        time: QueueTimeState::default(),
                        failed: None,
                    },
                    "FollowedQueue::state"
                ),
                time <- QueueTime::new(group.clone()),
                waiting: Atomic::new(0),
                out: Atomic::new(true),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Returns its ring and pointers.
    pub(super) fn pointers(&self) -> &QueuePointers {
        &self.direct.pointers
    }

    /// Returns the time in which an engine had the queue and looks found work of it.
    pub(super) fn time(&self) -> Delta {
        self.time.total()
    }

    /// Returns whether it is in no slot, or was a moment ago.
    pub(super) fn is_out(&self) -> bool {
        self.out.load(Relaxed)
    }

    /// Returns whether jobs are under way whose ends were not seen.
    pub(super) fn has_jobs(&self) -> bool {
        self.state.lock().flight.count() != 0
    }

    /// Reads the pointers. Returns the bytes that no job was made of, and when the look before was.
    pub(super) fn look(&self) -> (FollowedBytes, Instant<Monotonic>) {
        // First the read pointer: the other one is never behind it then.
        let read = self.pointers().read_pointer();
        let write = self.pointers().write_pointer();
        let size = self.pointers().size();
        let mut state = self.state.lock();
        let before = state.looked;
        state.looked = Instant::now();
        (state.positions.look(size, read, write), before)
    }

    /// Ends the jobs that are done. Returns whether there were any. `owner` is the queue's. Any
    /// process context, no locks held.
    pub(super) fn check(&self, owner: (i32, u32)) -> bool {
        if !self.has_jobs() {
            return false;
        }
        let read = self.pointers().read_pointer();
        let write = self.pointers().write_pointer();
        let size = self.pointers().size();
        let read = self.state.lock().positions.look(size, read, write).read;
        let mut any = false;
        loop {
            let mut state = self.state.lock();
            let done = state.flight.oldest().is_some_and(|job| job.to <= read);
            let popped = if done {
                state.flight.pop_oldest()
            } else {
                None
            };
            state.count(&self.time);
            drop(state);
            let Some((job, fence)) = popped else {
                return any;
            };
            trace::sdma_span(owner.0 as u32, owner.1, job.from, job.to, job.after);
            fence.signal(Ok(()));
            any = true;
        }
    }

    /// Stops the queue: no more jobs are made of it, and those under way fail with `error`. The
    /// first error stays.
    pub(super) fn fail(&self, error: Error) {
        self.state.lock().failed.get_or_insert(error);
        loop {
            let popped = {
                let mut state = self.state.lock();
                let popped = state.flight.pop_oldest();
                state.count(&self.time);
                popped
            };
            match popped {
                Some((_, fence)) => fence.signal(Err(error)),
                None => break,
            }
        }
    }

    /// Notes that the queue is in a slot.
    pub(super) fn enter(&self) {
        self.out.store(false, Relaxed);
        let mut state = self.state.lock();
        state.time.seated = true;
        state.count(&self.time);
    }

    /// Notes that the hardware has given the queue up at `rptr`.
    pub(super) fn save(&self, rptr: u64) {
        self.direct.save(rptr);
        self.out.store(true, Relaxed);
        let mut state = self.state.lock();
        state.time.seated = false;
        state.count(&self.time);
    }

    /// Notes that a fault comes before a store to its doorbell: what that announces begins later.
    pub(super) fn touch(&self) {
        self.state.lock().looked = Instant::now();
    }

    /// Returns whether the scheduler is still to start jobs.
    pub(super) fn waits_to_run(&self) -> bool {
        self.waiting.load(Acquire) > 0
    }

    /// Notes that the scheduler has started a job.
    pub(super) fn has_run(&self) {
        self.waiting.fetch_sub(1, Release);
    }

    /// Adds a job of the bytes from `from` to `to`, which is about to be pushed. Returns whether
    /// there was room for it.
    pub(super) fn add(
        &self,
        from: u64,
        to: u64,
        after: Instant<Monotonic>,
        fence: HwFence,
    ) -> bool {
        let mut state = self.state.lock();
        // A fence that finds no room, or a queue that has failed, is dropped, and thereby fails.
        if state.failed.is_some()
            || state
                .flight
                .push(FollowMark { from, to, after }, fence)
                .is_err()
        {
            return false;
        }
        state.positions.take(to);
        state.count(&self.time);
        drop(state);
        self.waiting.fetch_add(1, Relaxed);
        true
    }

    /// Returns whether one more job may be made. If not, the end of one makes room, or there are
    /// none any more.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if the scheduler must start jobs first, and no event tells of that.
    pub(super) fn has_room(&self) -> Result<bool> {
        if self.waiting.load(Relaxed) >= MOST_WAITING {
            return Err(EAGAIN);
        }
        let state = self.state.lock();
        Ok(state.failed.is_none() && state.flight.count() < flight::MAX)
    }
}
