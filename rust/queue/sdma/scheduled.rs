// SPDX-License-Identifier: GPL-2.0
//! Scheduled queues: each with a `drm_gpu_scheduler` and an entity of its own, from its first job on.

use super::feed::{FeedBatch, FeedBudget, RingFeed};
use super::hw_queue::SdmaHwQueue;
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
pub(in crate::queue) struct ScheduledQueue {
    // The scheduler goes before the queue that it feeds.
    line: SetOnce<SubmitQueue>,
    pub(in crate::queue) slot: DoorbellSlot,
    pub(super) rlc: Arc<SdmaHwQueue>,
}

/// Where a queue's jobs wait.
struct SubmitQueue {
    // Jobs that wait go before the scheduler.
    entity: Pin<KBox<SchedEntity<QueueBackend>>>,
    _scheduler: Arc<DrmScheduler<QueueBackend>>,
    fences: FenceContext,
}

/// Jobs of a user queue's packets.
pub(super) struct QueueBackend;

pub(super) struct Submission {
    batch: FeedBatch,
    fence: Option<HwFence>,
    rlc: Arc<SdmaHwQueue>,
    _hold: LedgerHold,
}

impl SchedBackend for QueueBackend {
    type Job = Submission;

    fn run(submission: &mut Submission) -> Result<Option<ARef<Fence>>> {
        let rlc = &submission.rlc;
        let fence = submission.fence.take().ok_or(EINVAL)?;
        let feed = rlc.feed().ok_or(EINVAL)?;
        match feed.emit(submission.batch, fence) {
            Ok(fence) => {
                rlc.gpu.slots.submit(rlc);
                Ok(Some(fence))
            }
            Err(error) => {
                rlc.fail(error);
                Err(error)
            }
        }
    }

    /// There is no timeout.
    fn timed_out(_submission: &mut Submission) {}

    fn cancelled(submission: &mut Submission) {
        submission.rlc.fail(canceled());
    }
}

impl SubmitQueue {
    /// For the jobs of `rlc`, which has a feed. ENOMEM.
    fn new(rlc: &SdmaHwQueue) -> Result<Self> {
        let feed = rlc.feed().ok_or(EINVAL)?;
        let owner = rlc.owner;
        let name = CString::try_from_fmt(fmt!("sdma{}.{}.{}", rlc.engine, owner.pid, owner.queue))?;
        // A queue may wait in POLL_REGMEM as long as it likes: there is no timeout.
        let runner = SchedRunner::Shared(rlc.gpu.slots.workers().clone());
        let scheduler = DrmScheduler::new(&name, feed.credits(), runner, &rlc.gpu.hw.dev)?;
        Ok(Self {
            entity: SchedEntity::new(&scheduler)?,
            _scheduler: scheduler,
            fences: FenceContext::new(&name),
        })
    }
}

impl ScheduledQueue {
    /// For `rlc`, which has a feed. ENOMEM.
    pub(super) fn new(rlc: Arc<SdmaHwQueue>, slot: DoorbellSlot) -> Result<Arc<Self>> {
        let scheduled = Self {
            line: SetOnce::new(),
            slot,
            rlc,
        };
        Ok(Arc::new(scheduled, GFP_KERNEL_ACCOUNT)?)
    }

    /// Its jobs' line, made by the first call. ENOMEM. Called with the slice's queues locked.
    fn line(&self) -> Result<&SubmitQueue> {
        if self.line.as_ref().is_none() {
            self.line.populate(SubmitQueue::new(&self.rlc)?);
        }
        self.line.as_ref().ok_or(ENOMEM)
    }

    /// Ends the jobs that are done; whether there were any.
    pub(super) fn check(&self) -> bool {
        self.rlc.feed().is_some_and(RingFeed::check)
    }

    /// How many jobs are under way.
    pub(super) fn jobs(&self) -> usize {
        self.rlc.feed().map_or(0, RingFeed::jobs)
    }

    /// Whether jobs are under way.
    pub(super) fn is_busy(&self) -> bool {
        self.rlc.feed().is_some_and(RingFeed::is_busy)
    }

    /// Whether more was taken than `doorbell`, the queue's doorbell, tells.
    pub(super) fn is_ahead_of(&self, doorbell: u64) -> bool {
        self.rlc
            .feed()
            .is_some_and(|feed| feed.progress().1 > doorbell)
    }

    /// Makes a job of what is new in the process's ring, as far as `budget` goes, `doorbell` being what its doorbell holds;
    /// whether there was anything. ENOMEM: nothing was taken. Called with the slice's queues locked.
    pub(super) fn make_job(&self, doorbell: u64, budget: &mut FeedBudget) -> Result<bool> {
        let Some(feed) = self.rlc.feed().filter(|_| self.rlc.is_runnable()) else {
            return Ok(false);
        };
        let Some(batch) = feed.fetch(doorbell, budget) else {
            return Ok(false);
        };
        trace::doorbell(self.rlc.owner.pid as u32, self.rlc.owner.queue, batch.to);
        match self.job(batch) {
            Ok(job) => {
                job.push();
                Ok(true)
            }
            Err(error) => {
                feed.put_back(batch);
                Err(error)
            }
        }
    }

    fn job(&self, batch: FeedBatch) -> Result<SchedJob<'_, QueueBackend>> {
        let line = self.line()?;
        let submission = Submission {
            batch,
            fence: Some(HwFence::new(&line.fences)?),
            rlc: self.rlc.clone(),
            _hold: self.rlc.gpu.hw.ledger.hold(LedgerKind::Jobs, 1),
        };
        SchedJob::new(&line.entity, batch.credits(), submission)
    }
}
