// SPDX-License-Identifier: GPL-2.0
//! Scheduled queues. Each has a `drm_gpu_scheduler` and an entity of its own, from its first job
//! on.

use super::feed::{FeedBatch, FeedBudget, RingFeed};
use super::hw_queue::SdmaHwQueue;
use super::pump::PumpedQueue;
use super::slots::SdmaSlots;
use crate::kern::fence::{canceled, Fence, FenceContext, HwFence};
use crate::kern::sched::{DrmScheduler, SchedBackend, SchedEntity, SchedJob, SchedRunner};
use crate::kern::trace;
use crate::ledger::{LedgerHold, LedgerKind};
use hw::doorbell::DoorbellSlot;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::aref::ARef;
use kernel::sync::{Arc, SetOnce};

/// A queue, its scheduler, and its doorbell in the process's slice.
pub(super) struct ScheduledQueue {
    // The scheduler is dropped before the queue that it feeds.
    line: SetOnce<SubmitQueue>,
    slot: DoorbellSlot,
    // Before the queue, which says when it is gone that nothing of its memory is left.
    feed: Arc<RingFeed>,
    rlc: Arc<SdmaHwQueue>,
    slots: Arc<SdmaSlots>,
}

/// The scheduler and entity that a queue's jobs wait in.
struct SubmitQueue {
    // Waiting jobs are dropped before the scheduler.
    entity: Pin<KBox<SchedEntity<QueueBackend>>>,
    _scheduler: Arc<DrmScheduler<QueueBackend>>,
    fences: FenceContext,
}

/// Jobs of a user queue's packets.
pub(super) struct QueueBackend;

pub(super) struct Submission {
    batch: FeedBatch,
    state: SubmissionState,
    // In this order, as in `ScheduledQueue`.
    feed: Arc<RingFeed>,
    rlc: Arc<SdmaHwQueue>,
    slots: Arc<SdmaSlots>,
    _hold: LedgerHold,
}

/// How far a job is.
enum SubmissionState {
    /// It waits in the scheduler.
    Waits(HwFence),
    /// The hardware ring has it, or it has failed.
    Started(Result<ARef<Fence>>),
    /// The scheduler has been told.
    Reported,
}

impl Submission {
    /// Puts the job into the hardware ring, unless it is there. Allocates nothing, waits for
    /// nothing.
    fn start(&mut self) -> SubmissionState {
        let state = core::mem::replace(&mut self.state, SubmissionState::Reported);
        let SubmissionState::Waits(fence) = state else {
            return state;
        };
        let started = self.feed.emit(self.batch, fence);
        match started {
            Ok(_) => self.slots.submit(&self.rlc),
            Err(error) => self.rlc.fail(error),
        }
        SubmissionState::Started(started)
    }
}

impl SchedBackend for QueueBackend {
    type Job = Submission;

    fn run(submission: &mut Submission) -> Result<Option<ARef<Fence>>> {
        match submission.start() {
            SubmissionState::Started(started) => started.map(Some),
            SubmissionState::Waits(_) | SubmissionState::Reported => Err(EINVAL),
        }
    }

    /// There is no timeout.
    fn timed_out(_submission: &mut Submission) {}

    fn cancelled(submission: &mut Submission) {
        submission.rlc.fail(canceled());
    }
}

impl SubmitQueue {
    /// Makes the scheduler for jobs of `rlc`, which `feed` feeds.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn new(rlc: &SdmaHwQueue, feed: &RingFeed, slots: &SdmaSlots) -> Result<Self> {
        let owner = rlc.owner;
        let name = CString::try_from_fmt(fmt!("sdma{}.{}.{}", rlc.engine, owner.pid, owner.queue))?;
        // A queue may wait in POLL_REGMEM for any time: there is no timeout.
        let runner = SchedRunner::Shared(slots.workers().clone());
        let scheduler = DrmScheduler::new(&name, feed.credits(), runner, &rlc.gpu.hw.dev)?;
        Ok(Self {
            entity: SchedEntity::new(&scheduler)?,
            _scheduler: scheduler,
            fences: FenceContext::new(&name),
        })
    }
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
            line: SetOnce::new(),
            slot,
            feed: feed.clone(),
            rlc: rlc.clone(),
            slots: slots.clone(),
        };
        Ok(Arc::new(scheduled, GFP_KERNEL_ACCOUNT)?)
    }

    /// Returns the scheduler and entity of its jobs, which the first call makes. Called with the
    /// pump's queues locked.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn line(&self) -> Result<&SubmitQueue> {
        if self.line.as_ref().is_none() {
            self.line
                .populate(SubmitQueue::new(&self.rlc, &self.feed, &self.slots)?);
        }
        self.line.as_ref().ok_or(ENOMEM)
    }

    fn job(&self, batch: FeedBatch) -> Result<SchedJob<'_, QueueBackend>> {
        let line = self.line()?;
        let submission = Submission {
            batch,
            state: SubmissionState::Waits(HwFence::new(&line.fences)?),
            feed: self.feed.clone(),
            rlc: self.rlc.clone(),
            slots: self.slots.clone(),
            _hold: self.rlc.gpu.hw.ledger.hold(LedgerKind::Jobs, 1),
        };
        SchedJob::new(&line.entity, batch.credits(), submission)
    }
}

impl PumpedQueue for ScheduledQueue {
    fn doorbell(&self) -> DoorbellSlot {
        self.slot
    }

    fn feed(&self) -> &RingFeed {
        &self.feed
    }

    fn make_job(&self, doorbell: u64, budget: &mut FeedBudget) -> Result<bool> {
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
                    let submission = job.payload();
                    submission.state = submission.start();
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
