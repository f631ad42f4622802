// SPDX-License-Identifier: GPL-2.0
//! Scheduled queues: each batch of packets is a job before the hardware gets it.

use super::feed::{FeedBatch, FeedBudget, RingFeed};
use super::hw_queue::SdmaHwQueue;
use super::pump::PumpedQueue;
use super::slots::SdmaSlots;
use super::submit::{QueueBackend, SubmitLine};
use crate::kern::sched::SchedJob;
use crate::kern::trace;
use hw::doorbell::DoorbellSlot;
use hw::pump::PumpFindings;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A queue, its scheduler, and its doorbell in the process's slice.
pub(super) struct ScheduledQueue {
    // The scheduler is dropped before the queue that it feeds.
    line: SubmitLine,
    slot: DoorbellSlot,
    // Before the queue, which says when it is gone that nothing of its memory is left.
    feed: Arc<RingFeed>,
    rlc: Arc<SdmaHwQueue>,
    slots: Arc<SdmaSlots>,
}

impl ScheduledQueue {
    /// Returns a queue that `feed` feeds, which is that of `rlc` in `slots`, with its doorbell at
    /// `slot`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        rlc: &Arc<SdmaHwQueue>,
        slots: &Arc<SdmaSlots>,
        feed: &Arc<RingFeed>,
        slot: DoorbellSlot,
    ) -> Result<Arc<Self>> {
        let scheduled = Self {
            line: SubmitLine::new(),
            slot,
            feed: feed.clone(),
            rlc: rlc.clone(),
            slots: slots.clone(),
        };
        Ok(Arc::new(scheduled, GFP_KERNEL_ACCOUNT)?)
    }

    fn job(&self, batch: FeedBatch) -> Result<SchedJob<'_, QueueBackend>> {
        let line = self.line.get(&self.rlc, self.feed.credits(), &self.slots)?;
        line.job_of_batch(&self.rlc, &self.slots, &self.feed, batch)
    }

    /// Makes a job of the new packets in the process's ring, as far as `budget` goes; `doorbell` is
    /// the value of its doorbell, if that is known. Returns whether there were any.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: nothing was taken.
    fn make_job(&self, doorbell: Option<u64>, budget: &mut FeedBudget) -> Result<bool> {
        if !self.rlc.is_runnable() {
            return Ok(false);
        }
        let Some(batch) = self.feed.fetch(doorbell, budget) else {
            return Ok(false);
        };
        trace::doorbell(self.rlc.owner.pid as u32, self.rlc.owner.queue, batch.to);
        match self.job(batch) {
            Ok(mut job) => {
                // An engine that has nothing of the queue to do may begin at once, a change of
                // threads earlier. The scheduler is told of the job's start when its thread comes
                // to it, which may be after the end.
                if self.feed.is_only() {
                    job.payload().start_now();
                }
                job.push();
                Ok(true)
            }
            Err(error) => {
                self.feed.put_back(batch);
                Err(error)
            }
        }
    }
}

impl PumpedQueue for ScheduledQueue {
    fn doorbell(&self) -> DoorbellSlot {
        self.slot
    }

    fn check(&self) -> bool {
        self.feed.check()
    }

    fn is_busy(&self) -> bool {
        self.feed.is_busy()
    }

    fn look(&self, doorbell: Option<u64>, budget: &mut FeedBudget, found: &mut PumpFindings) {
        found.progress |= self.feed.check();
        match self.make_job(doorbell, budget) {
            Ok(taken) => {
                found.progress |= taken;
                // Also if the engine is through with it by now.
                found.busy |= taken;
                found.single |= taken && self.feed.jobs() == 1;
            }
            Err(_) => found.retry = true,
        }
        found.busy |= self.feed.is_busy();
        found.behind |= doorbell.is_some_and(|doorbell| self.feed.progress().1 > doorbell);
    }

    fn touch(&self, doorbell: Option<u64>, budget: &mut FeedBudget, found: &mut PumpFindings) {
        self.look(doorbell, budget, found);
    }
}
