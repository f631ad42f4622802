// SPDX-License-Identifier: GPL-2.0
//! `drm_gpu_scheduler`: jobs that run when their dependencies are done and the hardware has room.
//!
//! The lifetimes that C leaves to its callers are ensured here as follows:
//!
//! - A [`SchedEntity`] holds its [`DrmScheduler`], and a [`SchedJob`] that is not pushed borrows
//!   its entity.
//! - Jobs that are pushed belong to the scheduler. The scheduler is freed only after the last of
//!   them. Killed ones are freed by the system's workqueue, some time after their entity is gone.
//! - Fences read the scheduler's name until a grace period after they are signalled, so its memory
//!   is freed by RCU.
//! - One work item runs jobs, never twice at a time; another one frees them. A scheduler with a
//!   timeout has an ordered workqueue, so that the timeout handler does not run at the
//!   same time as a job is started. Without a timeout, many schedulers share a [`SharedWorkQueue`]:
//!   a job is freed only after its end, which is after its start.
//!
//! A job's payload must not own its scheduler or entity: it is dropped in the scheduler's own work.

mod entity;
mod job;

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{
    device,
    error::to_result,
    new_condvar, new_mutex,
    prelude::*,
    sync::aref::ARef,
    sync::{Arc, CondVar, Mutex},
    task::MAX_SCHEDULE_TIMEOUT,
    time::Jiffies,
    types::Opaque,
};

use crate::{
    ffi,
    kern::{self, fence::Fence},
};

pub(crate) use self::{entity::SchedEntity, job::SchedJob};

// The generated structures have the same size as those in C.
const _: () = {
    assert!(size_of::<ffi::drm_gpu_scheduler>() == ffi::SIZEOF_DRM_GPU_SCHEDULER);
    assert!(size_of::<ffi::drm_sched_entity>() == ffi::SIZEOF_DRM_SCHED_ENTITY);
    assert!(size_of::<ffi::drm_sched_fence>() == ffi::SIZEOF_DRM_SCHED_FENCE);
    assert!(size_of::<ffi::drm_sched_job>() == ffi::SIZEOF_DRM_SCHED_JOB);
};

/// The hardware side of a scheduler.
pub(crate) trait SchedBackend: 'static {
    /// The payload of a job.
    type Job: Send + 'static;

    /// Submits the job to the hardware. The hardware signals the returned fence when it is done;
    /// without one the job is done when this returns. May sleep, but allocates nothing: memory
    /// reclaim may wait for the job.
    fn run(job: &mut Self::Job) -> Result<Option<ARef<Fence>>>;

    /// The job has been on the hardware for longer than the scheduler's timeout. It stays there
    /// until its fence is signalled, which this may do; otherwise this is called again after the
    /// same time.
    fn timed_out(job: &mut Self::Job);

    /// The scheduler is being dropped while the job is on the hardware. After this, the job's fence
    /// is signalled with `ECANCELED` if it is not signalled yet.
    fn cancelled(_job: &mut Self::Job) {}
}

/// The fence that is signalled when the job starts of which `finished` is the fence; `finished`
/// itself if it is not a job's.
pub(crate) fn started(finished: &Fence) -> ARef<Fence> {
    // SAFETY: The fence is valid. A job has both fences in one structure, which a reference to
    // either keeps.
    match unsafe { ffi::to_drm_sched_fence(finished.as_raw()).as_mut() } {
        // SAFETY: As above.
        Some(both) => unsafe { Fence::from_raw(&raw mut both.scheduled) }.into(),
        None => finished.into(),
    }
}

/// The size of a scheduler's name in bytes, with the terminating zero.
const NAME: usize = 48;

/// The part of a scheduler that fences access.
#[repr(C)]
struct SchedMemory {
    sched: Opaque<ffi::drm_gpu_scheduler>,
    name: [u8; NAME],
}

/// The number of a scheduler's jobs that exist.
#[pin_data]
struct LiveJobs {
    #[pin]
    count: Mutex<u64>,
    #[pin]
    none: CondVar,
}

impl LiveJobs {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                count <- new_mutex!(0, "LiveJobs::count"),
                none <- new_condvar!("LiveJobs::none"),
            }),
            GFP_KERNEL,
        )
    }

    fn wait(&self) {
        let mut count = self.count.lock();
        while *count != 0 {
            self.none.wait(&mut count);
        }
    }
}

/// One job in [`LiveJobs`].
struct CountedJob(Arc<LiveJobs>);

impl CountedJob {
    fn new(live: &Arc<LiveJobs>) -> Self {
        *live.count.lock() += 1;
        Self(live.clone())
    }
}

impl Drop for CountedJob {
    fn drop(&mut self) {
        let mut count = self.0.count.lock();
        *count -= 1;
        if *count == 0 {
            self.0.none.notify_all();
        }
    }
}

/// A workqueue for schedulers; waits for queued items when dropped. It has a rescuer thread for use
/// under memory pressure.
struct SchedWorkQueue(NonNull<ffi::workqueue_struct>);

// SAFETY: A workqueue may be used and destroyed from any thread.
unsafe impl Send for SchedWorkQueue {}

// SAFETY: As above.
unsafe impl Sync for SchedWorkQueue {}

impl SchedWorkQueue {
    /// A workqueue that runs one item at a time.
    fn ordered(name: &CStr) -> Result<Self> {
        // SAFETY: The name is copied.
        let raw = unsafe { ffi::rkfd_alloc_ordered_workqueue(name.as_char_ptr()) };
        Ok(Self(NonNull::new(raw).ok_or(ENOMEM)?))
    }

    /// A workqueue that runs items in parallel.
    fn unordered(name: &'static CStr) -> Result<Self> {
        let flags =
            ffi::wq_flags_WQ_UNBOUND | ffi::wq_flags_WQ_HIGHPRI | ffi::wq_flags_WQ_MEM_RECLAIM;
        // SAFETY: The name is a format without arguments.
        let raw = unsafe { ffi::alloc_workqueue_noprof(name.as_char_ptr(), flags, 0) };
        Ok(Self(NonNull::new(raw).ok_or(ENOMEM)?))
    }
}

impl Drop for SchedWorkQueue {
    fn drop(&mut self) {
        // SAFETY: No item is queued on it any more. The call waits for the queued ones.
        unsafe { ffi::destroy_workqueue(self.0.as_ptr()) };
    }
}

/// A workqueue that schedulers share, so that one more scheduler costs no thread.
pub(crate) struct SharedWorkQueue(SchedWorkQueue);

impl SharedWorkQueue {
    /// A workqueue of this name.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(name: &'static CStr) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self(SchedWorkQueue::unordered(name)?),
            GFP_KERNEL,
        )?)
    }
}

/// The same for schedulers with a timeout: it runs one item at a time.
pub(crate) struct OrderedWorkQueue(SchedWorkQueue);

impl OrderedWorkQueue {
    /// A workqueue of this name.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(name: &CStr) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self(SchedWorkQueue::ordered(name)?),
            GFP_KERNEL_ACCOUNT,
        )?)
    }
}

/// The workqueue of a scheduler.
pub(crate) enum SchedRunner {
    /// A workqueue of its own, with a thread: a job that takes longer than the timeout is reported
    /// to [`SchedBackend::timed_out`].
    Own(Option<Jiffies>),
    /// A workqueue that is shared with other schedulers, with a timeout as above.
    Ordered(Arc<OrderedWorkQueue>, Jiffies),
    /// A workqueue that is shared with other schedulers. Jobs may take any time.
    Shared(Arc<SharedWorkQueue>),
}

/// A [`SchedRunner`] in use.
enum ActiveRunner {
    Own(SchedWorkQueue),
    Ordered(Arc<OrderedWorkQueue>),
    Shared(Arc<SharedWorkQueue>),
}

impl ActiveRunner {
    fn queue(&self) -> &SchedWorkQueue {
        match self {
            Self::Own(queue) => queue,
            Self::Ordered(workers) => &workers.0,
            Self::Shared(workers) => &workers.0,
        }
    }
}

/// A scheduler with one run queue, for one ring.
///
/// # Invariants
///
/// `memory` is a live allocation with an initialized scheduler that works on `running`.
pub(crate) struct DrmScheduler<B: SchedBackend> {
    memory: NonNull<SchedMemory>,
    credit_limit: u32,
    live: Arc<LiveJobs>,
    running: Option<ActiveRunner>,
    // The scheduler's messages use it.
    _dev: ARef<device::Device>,
    _backend: PhantomData<fn(B)>,
}

// SAFETY: The scheduler may be used from any thread; jobs are `Send`.
unsafe impl<B: SchedBackend> Send for DrmScheduler<B> {}

// SAFETY: As above.
unsafe impl<B: SchedBackend> Sync for DrmScheduler<B> {}

impl<B: SchedBackend> DrmScheduler<B> {
    const OPS: ffi::drm_sched_backend_ops = ffi::drm_sched_backend_ops {
        prepare_job: None,
        run_job: Some(job::run_callback::<B>),
        timedout_job: Some(job::timed_out_callback::<B>),
        free_job: Some(job::free_callback::<B>),
        cancel_job: Some(job::cancel_callback::<B>),
    };

    /// Makes a scheduler. It submits jobs as long as those on the hardware have at most
    /// `credit_limit` credits together. The name, cut to 47 bytes, is the ring's in trace events.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `credit_limit` is 0; `ENOMEM` if there is no memory.
    pub(crate) fn new(
        name: &CStr,
        credit_limit: u32,
        runner: SchedRunner,
        dev: &device::Device,
    ) -> Result<Arc<Self>> {
        if credit_limit == 0 {
            return Err(EINVAL);
        }
        let (running, timeout) = match runner {
            SchedRunner::Own(timeout) => {
                (ActiveRunner::Own(SchedWorkQueue::ordered(name)?), timeout)
            }
            SchedRunner::Ordered(workers, timeout) => {
                (ActiveRunner::Ordered(workers), Some(timeout))
            }
            SchedRunner::Shared(workers) => (ActiveRunner::Shared(workers), None),
        };
        let queue = running.queue().0.as_ptr();
        let live = LiveJobs::new()?;

        let mut memory = KBox::new(
            SchedMemory {
                sched: Opaque::zeroed(),
                name: [0; NAME],
            },
            GFP_KERNEL,
        )?;
        let bytes = name.to_bytes();
        let len = bytes.len().min(NAME - 1);
        memory.name[..len].copy_from_slice(&bytes[..len]);

        let args = ffi::drm_sched_init_args {
            ops: const { &Self::OPS },
            submit_wq: queue,
            timeout_wq: queue,
            num_rqs: 1,
            credit_limit,
            hang_limit: 0,
            timeout: timeout.map_or(MAX_SCHEDULE_TIMEOUT, |t| {
                c_long::try_from(t).unwrap_or(MAX_SCHEDULE_TIMEOUT)
            }),
            score: core::ptr::null_mut(),
            name: (&raw const memory.name).cast(),
            dev: kern::device::as_raw(dev),
        };
        // SAFETY: The memory is zeroed and does not move. The targets of the pointers in `args`
        // live as long as it, and the workqueue and the device live longer than the scheduler is
        // used.
        to_result(unsafe { ffi::drm_sched_init(memory.sched.get(), &args) })?;

        // SAFETY: `into_raw` never returns null.
        let memory = unsafe { NonNull::new_unchecked(KBox::into_raw(memory)) };
        // INVARIANT: Just initialized. From here on the destructor undoes it.
        let this = Self {
            memory,
            credit_limit,
            live,
            running: Some(running),
            _dev: dev.into(),
            _backend: PhantomData,
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    fn as_raw(&self) -> *mut ffi::drm_gpu_scheduler {
        // SAFETY: Live by the type invariant.
        unsafe { (*self.memory.as_ptr()).sched.get() }
    }
}

impl<B: SchedBackend> Drop for DrmScheduler<B> {
    fn drop(&mut self) {
        // Entities hold the scheduler, so there are none: no new jobs come. SAFETY: Initialized,
        // and finished once.
        unsafe { ffi::drm_sched_fini(self.as_raw()) };
        // Killed jobs wait for those that were on the hardware, which are cancelled by now.
        self.live.wait();
        // A thread that signalled a job's fence may have seen the scheduler still running, just
        // before it stopped, and have requested the freeing of jobs after that: see
        // `free_callback`. All jobs are freed by now, so there are no further requests. SAFETY: The
        // work items are initialized; they find nothing to do.
        unsafe {
            ffi::cancel_work_sync(&raw mut (*self.as_raw()).work_free_job);
            ffi::cancel_work_sync(&raw mut (*self.as_raw()).work_run_job);
        }
        drop(self.running.take());
        // SAFETY: Its only users are fences, which read the name in an RCU section.
        unsafe { ffi::rkfd_kfree_rcu_mightsleep(self.memory.as_ptr().cast()) };
    }
}
