// SPDX-License-Identifier: GPL-2.0
//! A line of jobs of the render node: a queue of SDMA that no process rings, and the
//! `drm_gpu_scheduler` that feeds it.

use super::hw_queue::{PacketSource, SdmaHwQueue};
use super::job_feed::JobFeed;
use super::member::SdmaMember;
use super::slots::SdmaSlots;
use crate::kern::errno::timer_expired;
use crate::kern::fence::{canceled, BlankFence, Fence, FenceContext};
use crate::kern::ratelimit::dev_warn_ratelimited;
use crate::kern::sched::{
    DrmScheduler, OrderedWorkQueue, SchedBackend, SchedEntity, SchedJob, SchedRunner,
};
use crate::ledger::{LedgerHold, LedgerKind};
use crate::mem::job_engine::JobWork;
use crate::mem::vm::Vm;
use crate::queue::gpu::QueueGpu;
use crate::queue::quota::{CountedQueue, QuotaKind};
use crate::queue::request::{engines, QueueOwner};
use crate::queue::resources::QueueResources;
use hw::queue::QueueType;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::aref::ARef;
use kernel::sync::{new_mutex, Arc, Mutex};
use kernel::time::{msecs_to_jiffies, Delta};

/// How long a job may have an engine, milliseconds: amdgpu's limit.
const TIMEOUT_MS: u32 = 2000;

/// A line of jobs. Gone from the hardware once [`JobQueue::stop`] returns.
#[pin_data]
pub(in crate::queue) struct JobQueue {
    /// `None` once stopped. Held while a job is submitted, and while the line is stopped.
    #[pin]
    inner: Mutex<Option<JobQueueInner>>,
    feed: Arc<JobFeed>,
}

/// The parts of a line.
struct JobQueueInner {
    // In this order: the hardware lets go of the queue, the jobs that wait are dropped, and when
    // the scheduler is gone, nothing uses the memory.
    queue: LineQueue,
    entity: Pin<KBox<SchedEntity<LineBackend>>>,
    _scheduler: Arc<DrmScheduler<LineBackend>>,
}

/// The queue of a line. Taken off the hardware when it is dropped.
struct LineQueue {
    fences: Arc<FenceContext>,
    feed: Arc<JobFeed>,
    rlc: Arc<SdmaHwQueue>,
    slots: Arc<SdmaSlots>,
    member: Arc<SdmaMember>,
    vm: Arc<Vm>,
}

/// Jobs of a line.
struct LineBackend;

struct LineJob {
    work: JobWork,
    fence: Option<BlankFence>,
    fences: Arc<FenceContext>,
    // In this order: the queue says when it is gone that nothing of its memory is left.
    feed: Arc<JobFeed>,
    rlc: Arc<SdmaHwQueue>,
    slots: Arc<SdmaSlots>,
    _hold: LedgerHold,
}

impl SchedBackend for LineBackend {
    type Job = LineJob;

    fn run(job: &mut LineJob) -> Result<Option<ARef<Fence>>> {
        // In this callback all jobs are in the order of the ring.
        let fence = job.fence.take().ok_or(EINVAL)?.init_in(&job.fences);
        // What the CPU has stored in VRAM for the job.
        job.rlc.gpu.hw.hdp.flush();
        let handle = job.feed.emit(&job.work, fence)?;
        job.slots.submit(&job.rlc);
        Ok(Some(handle))
    }

    fn timed_out(job: &mut LineJob) {
        job.feed.check();
        // Since the queue may have been waiting for its turn, it is asked again.
        if !job.feed.is_overdue(Delta::from_millis(TIMEOUT_MS.into())) {
            return;
        }
        let (owner, engine) = (job.rlc.owner, job.rlc.engine);
        dev_warn_ratelimited!(
            process owner.pid,
            &*job.rlc.gpu.hw.dev,
            "sdma{engine}: a job of process {} ({}) has not ended within {} s: it is stopped, with \
             the other jobs of its ring and context\n",
            owner.pid,
            format_args!("{}", owner.name),
            TIMEOUT_MS / 1000
        );
        job.rlc.fail(timer_expired());
        job.slots.poll(&job.rlc);
    }

    fn cancelled(job: &mut LineJob) {
        job.rlc.fail(canceled());
    }
}

/// The name of a line's fences and scheduler.
fn line_name(rlc: &SdmaHwQueue) -> Result<CString> {
    let (owner, engine) = (rlc.owner, rlc.engine);
    let name = CString::try_from_fmt(fmt!("sdma{engine}.{}.cs{}", owner.pid, owner.queue))?;
    Ok(name)
}

impl LineQueue {
    fn new(
        gpu: &Arc<QueueGpu>,
        slots: &Arc<SdmaSlots>,
        vm: &Arc<Vm>,
        resources: &Arc<QueueResources>,
        owner: QueueOwner,
    ) -> Result<Self> {
        let counted = CountedQueue::new(&resources.counts, QuotaKind::Sdma)?;
        let range = engines(&gpu.hw.asic.sdma, QueueType::Sdma, 0, vm.retries())?;
        let engine = slots.quietest(range, owner.pasid)?;
        let feed = JobFeed::new(&gpu.memory, vm, &resources.rings)?;
        let source = PacketSource::Jobs(feed.clone());
        let rlc = SdmaHwQueue::new(gpu, owner, engine, source, vm, resources, counted)?;
        rlc.set_active(true);
        // Leaves again, and is removed, when anything below fails.
        let queue = Self {
            fences: Arc::new(FenceContext::new(&line_name(&rlc)?), GFP_KERNEL_ACCOUNT)?,
            feed,
            member: SdmaMember::new(&rlc, slots)?,
            rlc,
            slots: slots.clone(),
            vm: vm.clone(),
        };
        // First the group, so that the engine already knows whether it is quiesced.
        queue.vm.group().join(queue.member.clone())?;
        slots.add(queue.rlc.clone())?;
        Ok(queue)
    }
}

impl Drop for LineQueue {
    fn drop(&mut self) {
        self.rlc.fail(canceled());
        // A queue that hangs was reported, and stays with the engine.
        let _ = self.slots.remove(&self.rlc);
        // Not before: a thread that quiesces the group relies on all being off the hardware.
        self.vm.group().remove(&self.member);
    }
}

impl JobQueueInner {
    fn new(queue: LineQueue, workers: &Arc<OrderedWorkQueue>) -> Result<Self> {
        let name = line_name(&queue.rlc)?;
        let runner = SchedRunner::Ordered(workers.clone(), msecs_to_jiffies(TIMEOUT_MS));
        let credits = JobFeed::credits();
        let scheduler = DrmScheduler::new(&name, credits, runner, &queue.rlc.gpu.hw.dev)?;
        Ok(Self {
            queue,
            entity: SchedEntity::new(&scheduler)?,
            _scheduler: scheduler,
        })
    }

    fn submit(&self, mut work: JobWork) -> Result<ARef<Fence>> {
        let queue = &self.queue;
        let after = core::mem::take(&mut work.after);
        let shared = work.shared.take();
        let credits = JobFeed::credits_of(work.buffers.len())?;
        let job = LineJob {
            work,
            fence: Some(BlankFence::new()?),
            fences: queue.fences.clone(),
            feed: queue.feed.clone(),
            rlc: queue.rlc.clone(),
            slots: queue.slots.clone(),
            _hold: queue.rlc.gpu.hw.ledger.hold(LedgerKind::Jobs, 1),
        };
        // The jobs of an address space are ordered by their submitter.
        let owner = Arc::as_ptr(&queue.vm).cast_mut().cast();
        let mut job = SchedJob::of_owner(&self.entity, credits, owner, job)?;
        for fence in after {
            job.wait_for(fence)?;
        }
        match shared {
            None => Ok(job.push()),
            Some(shared) => shared.locked(|shared| {
                job.wait_for_users(shared)?;
                Ok(job.push_using(shared))
            }),
        }
    }
}

impl JobQueue {
    /// Makes a line of `owner` in `vm`, from the client's `resources`. `workers` runs its
    /// scheduler.
    ///
    /// # Errors
    ///
    /// `EINVAL` or `EIO` without an engine; `ENOSPC` with too many queues, or without addresses;
    /// `ENODEV` when the device goes; `ENOMEM`.
    pub(in crate::queue) fn new(
        gpu: &Arc<QueueGpu>,
        slots: &Arc<SdmaSlots>,
        vm: &Arc<Vm>,
        resources: &Arc<QueueResources>,
        owner: QueueOwner,
        workers: &Arc<OrderedWorkQueue>,
    ) -> Result<Arc<Self>> {
        let queue = LineQueue::new(gpu, slots, vm, resources, owner)?;
        let feed = queue.feed.clone();
        let inner = JobQueueInner::new(queue, workers)?;
        Arc::pin_init(
            pin_init!(Self {
                inner <- new_mutex!(Some(inner), "JobQueue::inner"),
                feed,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Submits a job; see [`JobLine::submit`](crate::mem::job_engine::JobLine::submit).
    pub(in crate::queue) fn submit(&self, work: JobWork) -> Result<ARef<Fence>> {
        self.inner.lock().as_ref().ok_or(ENODEV)?.submit(work)
    }

    /// The error that stopped the line, if there was one.
    pub(in crate::queue) fn error(&self) -> Option<Error> {
        self.feed.error()
    }

    /// Lets all jobs that are not done fail; see
    /// [`JobLine::cancel`](crate::mem::job_engine::JobLine::cancel).
    pub(in crate::queue) fn cancel(&self) {
        self.feed.fail(canceled());
    }

    /// Takes the line off the hardware, whatever it is doing; jobs that are not done fail. A second
    /// call only waits for the first. Bounded; sleeps.
    pub(in crate::queue) fn stop(&self) {
        let mut inner = self.inner.lock();
        drop(inner.take());
    }

    /// Takes the ring away from the device while it is still bound: the file may stay open. The
    /// line is stopped.
    pub(in crate::queue) fn detach(&self) {
        let memory = self.feed.memory();
        memory.ring.unmap_dma();
        memory.status.unmap_dma();
    }
}
