// SPDX-License-Identifier: GPL-2.0
//! Followed queues: passes of the pump make jobs of what the engine has got from the process
//! itself.

use super::feed::{FeedBudget, ReadAhead};
use super::follow::FollowedQueue;
use super::hw_queue::SdmaHwQueue;
use super::pump::PumpedQueue;
use super::slots::SdmaSlots;
use super::submit::SubmitLine;
use crate::kern::trace;
use crate::ring::flight;
use hw::doorbell::DoorbellSlot;
use hw::pump::PumpFindings;
use hw::sdma::follow::{submission_end, FollowedBytes, JOBS_OF_LOOK};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::delay::fsleep;
use kernel::time::{Delta, Instant, Monotonic};

/// Credits of all jobs of a queue together, of which each has one: all of them are started at once.
const CREDITS: u32 = flight::MAX as u32;
/// How often, and how long in between, the scheduler is waited for that must still start jobs of a
/// queue that goes.
const RUN_TRIES: u32 = 2000;
const RUN_PAUSE: Delta = Delta::from_micros(50);

/// A followed queue as the pump sees it: with its scheduler, and its doorbell in the process's
/// slice.
pub(super) struct FollowedLine {
    // The scheduler is dropped before the queue.
    line: SubmitLine,
    slot: DoorbellSlot,
    rlc: Arc<SdmaHwQueue>,
    slots: Arc<SdmaSlots>,
}

impl FollowedLine {
    /// Returns the queue of `rlc` in `slots`, with its doorbell at `slot`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        rlc: &Arc<SdmaHwQueue>,
        slots: &Arc<SdmaSlots>,
        slot: DoorbellSlot,
    ) -> Result<Arc<Self>> {
        let followed = Self {
            line: SubmitLine::new(),
            slot,
            rlc: rlc.clone(),
            slots: slots.clone(),
        };
        Ok(Arc::new(followed, GFP_KERNEL_ACCOUNT)?)
    }

    /// Makes jobs of `bytes`, the last of which are more than one submission if there are many.
    /// Those began after `after`. Returns whether there were any.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or as [`FollowedQueue::has_room`]: some bytes were not taken.
    fn make_jobs(
        &self,
        followed: &FollowedQueue,
        bytes: FollowedBytes,
        after: Instant<Monotonic>,
    ) -> Result<bool> {
        let mut ahead = ReadAhead::new(followed.pointers());
        let mut from = bytes.from;
        for number in 1..=JOBS_OF_LOOK {
            if from >= bytes.to || !followed.has_room()? {
                break;
            }
            let last = !bytes.intact || number == JOBS_OF_LOOK;
            let to = match last {
                true => bytes.to,
                false => submission_end(from, bytes.to, |at, dwords| {
                    let header = ahead.header(at, bytes.to)?;
                    dwords.get_mut(..header.len())?.copy_from_slice(header);
                    Some(header.len())
                }),
            };
            let line = self.line.get(&self.rlc, CREDITS, &self.slots)?;
            let fence = line.fence()?;
            let job = line.job_of_past(&self.rlc, &self.slots, &fence)?;
            if !followed.add(from, to, after, fence) {
                break;
            }
            trace::doorbell(self.rlc.owner.pid as u32, self.rlc.owner.queue, to);
            job.push();
            from = to;
        }
        Ok(from != bytes.from)
    }

    fn owner(&self) -> (i32, u32) {
        (self.rlc.owner.pid, self.rlc.owner.queue)
    }

    /// Looks at the pointers, and makes jobs.
    fn follow(&self, followed: &FollowedQueue, found: &mut PumpFindings) {
        let (bytes, before) = followed.look();
        found.progress |= bytes.moved;
        match self.make_jobs(followed, bytes, before) {
            Ok(taken) => found.progress |= taken,
            Err(_) => found.retry = true,
        }
        found.progress |= followed.check(self.owner());
        // The page stays mapped while anything moves.
        found.busy |= bytes.moved || followed.has_jobs();
        if bytes.has_work() && self.rlc.is_runnable() {
            self.slots.submit(&self.rlc);
        }
    }
}

impl PumpedQueue for FollowedLine {
    fn doorbell(&self) -> DoorbellSlot {
        self.slot
    }

    fn check(&self) -> bool {
        let followed = self.rlc.followed();
        followed.is_some_and(|followed| followed.check(self.owner()))
    }

    fn is_busy(&self) -> bool {
        self.rlc.followed().is_some_and(FollowedQueue::has_jobs)
    }

    fn look(&self, _doorbell: Option<u64>, _budget: &mut FeedBudget, found: &mut PumpFindings) {
        if let Some(followed) = self.rlc.followed() {
            self.follow(followed, found);
        }
    }

    fn touch(&self, _doorbell: Option<u64>, _budget: &mut FeedBudget, found: &mut PumpFindings) {
        if let Some(followed) = self.rlc.followed() {
            followed.touch();
        }
        if self.rlc.is_runnable() {
            self.slots.submit(&self.rlc);
        }
        found.progress = true;
    }

    fn is_unheard(&self) -> bool {
        self.rlc.followed().is_some_and(FollowedQueue::is_out)
    }

    fn finish(&self) {
        if let Some(followed) = self.rlc.followed() {
            self.follow(followed, &mut PumpFindings::default());
        }
    }
}

impl Drop for FollowedLine {
    fn drop(&mut self) {
        // Each job passes the scheduler, also the last ones. Their fences are signalled by now, so
        // its thread only has to come to them.
        let Some(followed) = self.rlc.followed() else {
            return;
        };
        for _ in 0..RUN_TRIES {
            if !followed.waits_to_run() {
                break;
            }
            fsleep(RUN_PAUSE);
        }
    }
}
