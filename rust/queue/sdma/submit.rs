// SPDX-License-Identifier: GPL-2.0
//! The jobs of a user queue, and the `drm_gpu_scheduler` and entity that they go through, which
//! each queue has of its own from its first job on.

use super::feed::{FeedBatch, RingFeed};
use super::hw_queue::SdmaHwQueue;
use super::slots::SdmaSlots;
use crate::kern::fence::{canceled, Fence, FenceContext, HwFence};
use crate::kern::sched::{DrmScheduler, SchedBackend, SchedEntity, SchedJob, SchedRunner};
use crate::ledger::{LedgerHold, LedgerKind};
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::aref::ARef;
use kernel::sync::{Arc, SetOnce};

/// The scheduler and entity of a queue's jobs, once there are some.
pub(super) struct SubmitLine {
    queue: SetOnce<SubmitQueue>,
}

/// The scheduler and entity that a queue's jobs wait in.
pub(super) struct SubmitQueue {
    // Waiting jobs are dropped before the scheduler.
    entity: Pin<KBox<SchedEntity<QueueBackend>>>,
    _scheduler: Arc<DrmScheduler<QueueBackend>>,
    fences: FenceContext,
}

/// Jobs of a user queue's packets.
pub(super) struct QueueBackend;

/// A job of a user queue.
pub(super) struct Submission {
    state: SubmissionState,
    // In this order: the queue says when it is gone that nothing of its memory is left.
    feed: Option<Arc<RingFeed>>,
    rlc: Arc<SdmaHwQueue>,
    slots: Arc<SdmaSlots>,
    _hold: LedgerHold,
}

/// How far a job is.
enum SubmissionState {
    /// It waits in the scheduler for the ring of the queue's feed.
    Waits(FeedBatch, HwFence),
    /// A ring has it, or it has failed.
    Started(Result<ARef<Fence>>),
    /// The scheduler has been told.
    Reported,
}

impl Submission {
    /// Puts the job into the ring, unless it is there. Allocates nothing, waits for nothing.
    fn start(&mut self) -> SubmissionState {
        let state = core::mem::replace(&mut self.state, SubmissionState::Reported);
        let (batch, fence) = match state {
            SubmissionState::Waits(batch, fence) => (batch, fence),
            other => return other,
        };
        let feed = self.feed.as_ref().ok_or(EINVAL);
        let started = feed.and_then(|feed| feed.emit(batch, fence));
        match started {
            Ok(_) => self.slots.submit(&self.rlc),
            Err(error) => self.rlc.fail(error),
        }
        SubmissionState::Started(started)
    }

    /// The same at once, by the thread that has made the job.
    pub(super) fn start_now(&mut self) {
        self.state = self.start();
    }
}

impl SchedBackend for QueueBackend {
    type Job = Submission;

    fn run(submission: &mut Submission) -> Result<Option<ARef<Fence>>> {
        let state = submission.start();
        if let Some(followed) = submission.rlc.followed() {
            followed.has_run();
        }
        match state {
            SubmissionState::Started(started) => started.map(Some),
            SubmissionState::Waits(..) | SubmissionState::Reported => Err(EINVAL),
        }
    }

    /// There is no timeout.
    fn timed_out(_submission: &mut Submission) {}

    fn cancelled(submission: &mut Submission) {
        submission.rlc.fail(canceled());
    }
}

impl SubmitQueue {
    /// Makes the scheduler for jobs of `rlc`, which have `credits` together at most.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn new(rlc: &SdmaHwQueue, credits: u32, slots: &SdmaSlots) -> Result<Self> {
        let owner = rlc.owner;
        let name = CString::try_from_fmt(fmt!("sdma{}.{}.{}", rlc.engine, owner.pid, owner.queue))?;
        // A queue may wait in POLL_REGMEM for any time: there is no timeout.
        let runner = SchedRunner::Shared(slots.workers().clone());
        let scheduler = DrmScheduler::new(&name, credits, runner, &rlc.gpu.hw.dev)?;
        Ok(Self {
            entity: SchedEntity::new(&scheduler)?,
            _scheduler: scheduler,
            fences: FenceContext::new(&name),
        })
    }

    /// Makes the fence of the next job. Jobs end in the order of their fences.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn fence(&self) -> Result<HwFence> {
        HwFence::new(&self.fences)
    }

    /// Makes a job of `batch`, which the ring of `feed` gets.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` for a batch that the ring has no room for.
    pub(super) fn job_of_batch(
        &self,
        rlc: &Arc<SdmaHwQueue>,
        slots: &Arc<SdmaSlots>,
        feed: &Arc<RingFeed>,
        batch: FeedBatch,
    ) -> Result<SchedJob<'_, QueueBackend>> {
        let state = SubmissionState::Waits(batch, self.fence()?);
        self.job(rlc, slots, Some(feed.clone()), batch.credits(), state)
    }

    /// Makes a job of packets that the engine has already got; `fence` tells of their end.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn job_of_past(
        &self,
        rlc: &Arc<SdmaHwQueue>,
        slots: &Arc<SdmaSlots>,
        fence: &HwFence,
    ) -> Result<SchedJob<'_, QueueBackend>> {
        let state = SubmissionState::Started(Ok(fence.fence()));
        self.job(rlc, slots, None, 1, state)
    }

    fn job(
        &self,
        rlc: &Arc<SdmaHwQueue>,
        slots: &Arc<SdmaSlots>,
        feed: Option<Arc<RingFeed>>,
        credits: u32,
        state: SubmissionState,
    ) -> Result<SchedJob<'_, QueueBackend>> {
        let submission = Submission {
            state,
            feed,
            rlc: rlc.clone(),
            slots: slots.clone(),
            _hold: rlc.gpu.hw.ledger.hold(LedgerKind::Jobs, 1),
        };
        SchedJob::new(&self.entity, credits, submission)
    }
}

impl SubmitLine {
    /// None yet.
    pub(super) fn new() -> Self {
        Self {
            queue: SetOnce::new(),
        }
    }

    /// Returns the scheduler and entity of the jobs of `rlc`, which the first call makes: its jobs
    /// have `credits` together at most. Called with the pump's queues locked.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn get(
        &self,
        rlc: &SdmaHwQueue,
        credits: u32,
        slots: &SdmaSlots,
    ) -> Result<&SubmitQueue> {
        if self.queue.as_ref().is_none() {
            self.queue.populate(SubmitQueue::new(rlc, credits, slots)?);
        }
        self.queue.as_ref().ok_or(ENOMEM)
    }
}
