// SPDX-License-Identifier: GPL-2.0
//! Jobs, and the scheduler's callbacks for them.

use kernel::{
    error::to_result,
    prelude::*,
    sync::aref::ARef,
    sync::atomic::{Atomic, Relaxed},
    types::Opaque,
};

use super::{CountedJob, SchedBackend, SchedEntity};
use crate::{
    ffi,
    kern::{
        drm::users::LockedObjects,
        fence::{self, Fence},
        trace,
    },
};

/// The C job. Dropping it cleans it up, whether it was pushed or not.
#[repr(transparent)]
struct RawJob(Opaque<ffi::drm_sched_job>);

impl Drop for RawJob {
    fn drop(&mut self) {
        let job = self.0.get();
        // SAFETY: Zeroed, or initialized by `drm_sched_job_init`, which leaves no fence if it
        // fails. The job is no longer used.
        unsafe {
            if !(*job).s_fence.is_null() {
                ffi::drm_sched_job_cleanup(job);
            }
        }
    }
}

/// The allocation of a job.
#[repr(C)]
struct JobAllocation<B: SchedBackend> {
    // First, so that its address is the allocation's.
    raw: RawJob,
    payload: B::Job,
    // For trace events; the scheduler clears its own pointer before a job runs.
    entity: *mut ffi::drm_sched_entity,
    id: u64,
    // Last: when this is dropped, the scheduler may be freed.
    _counted: CountedJob,
}

/// A job that is not pushed yet.
pub(crate) struct SchedJob<'e, B: SchedBackend> {
    allocation: KBox<JobAllocation<B>>,
    entity: &'e SchedEntity<B>,
    owner: *mut c_void,
}

/// Numbers the jobs of the module, for trace events.
static IDS: Atomic<u64> = Atomic::new(0);

impl<'e, B: SchedBackend> SchedJob<'e, B> {
    /// Makes a job of `credits`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `credits` is not between 1 and the scheduler's limit; `ENOMEM` if there is no
    /// memory.
    pub(crate) fn new(entity: &'e SchedEntity<B>, credits: u32, payload: B::Job) -> Result<Self> {
        Self::of_owner(entity, credits, core::ptr::null_mut(), payload)
    }

    /// Makes a job of `credits` and of `owner`, an address that is never used: see
    /// [`SchedJob::wait_for_users`].
    ///
    /// # Errors
    ///
    /// Those of [`SchedJob::new`].
    pub(crate) fn of_owner(
        entity: &'e SchedEntity<B>,
        credits: u32,
        owner: *mut c_void,
        payload: B::Job,
    ) -> Result<Self> {
        if credits == 0 || credits > entity.sched().credit_limit {
            return Err(EINVAL);
        }
        let allocation = KBox::new(
            JobAllocation {
                raw: RawJob(Opaque::zeroed()),
                payload,
                entity: entity.as_raw(),
                id: 0,
                _counted: CountedJob::new(&entity.sched().live),
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        // SAFETY: The memory belongs to the job and stays in its box; the entity is initialized.
        to_result(unsafe {
            ffi::drm_sched_job_init(allocation.raw.0.get(), entity.as_raw(), credits, owner, 0)
        })?;
        Ok(Self {
            allocation,
            entity,
            owner,
        })
    }

    /// Returns the payload.
    pub(crate) fn payload(&mut self) -> &mut B::Job {
        &mut self.allocation.payload
    }

    /// Lets the job wait for `fence` before it runs, whatever the fence's result is. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn wait_for(&mut self, fence: ARef<Fence>) -> Result {
        let job = self.allocation.raw.0.get();
        // SAFETY: The job is initialized and not armed. The call takes over the reference, also if
        // it fails.
        to_result(unsafe {
            ffi::drm_sched_job_add_dependency(job, ARef::into_raw(fence).as_ptr().cast())
        })
    }

    /// Lets the job wait for the other users of `objects`; see
    /// [`LockedObjects::add_dependencies`].
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn wait_for_users(&mut self, objects: &LockedObjects<'_>) -> Result {
        // SAFETY: The job is initialized and not armed.
        unsafe { objects.add_dependencies(self.allocation.raw.0.get(), self.owner) }
    }

    /// Queues the job. The returned fence is signalled when the job is done, with an error if it
    /// did not run.
    pub(crate) fn push(self) -> ARef<Fence> {
        self.push_told(|_| ())
    }

    /// Queues the job as a user of `objects`. Otherwise like [`SchedJob::push`].
    pub(crate) fn push_using(self, objects: &LockedObjects<'_>) -> ARef<Fence> {
        self.push_told(|fence| objects.add_user(fence))
    }

    /// Queues the job; `tell` gets its fence before it can run.
    fn push_told(mut self, tell: impl FnOnce(&Fence)) -> ARef<Fence> {
        let pushing = self.entity.pushing.lock();
        self.allocation.id = IDS.fetch_add(1, Relaxed) + 1;
        let job = KBox::into_raw(self.allocation).cast::<ffi::drm_sched_job>();
        // SAFETY: The job is initialized, and belongs to the scheduler from here on, which frees it
        // with `free_callback`. Arming the job creates its fence; the reference is taken before the
        // job can be freed.
        let finished = unsafe {
            ffi::drm_sched_job_arm(job);
            let finished: ARef<Fence> = Fence::from_raw(&raw mut (*(*job).s_fence).finished).into();
            tell(&finished);
            ffi::drm_sched_entity_push_job(job);
            finished
        };
        drop(pushing);
        finished
    }
}

/// `drm_sched_backend_ops::run_job`.
///
/// # Safety
///
/// `job` must be an armed job of a scheduler of `B`, which the scheduler is submitting to the
/// hardware now.
pub(super) unsafe extern "C" fn run_callback<B: SchedBackend>(
    job: *mut ffi::drm_sched_job,
) -> *mut ffi::dma_fence {
    // SAFETY: Every job of the scheduler is a `JobAllocation<B>`, and has no other user now. It is
    // freed after its end, which is after this. Its timeout, if there is one, is an item of the
    // same ordered workqueue. It is cancelled only while the scheduler is stopped.
    let this = unsafe { &mut *job.cast::<JobAllocation<B>>() };
    // SAFETY: The job is armed, and the entity exists while one of its jobs is submitted to the
    // hardware.
    unsafe { trace::drm_run_job(job, this.entity, this.id) };
    match B::run(&mut this.payload) {
        // The scheduler takes over the reference.
        Ok(Some(fence)) => ARef::into_raw(fence).as_ptr().cast(),
        Ok(None) => core::ptr::null_mut(),
        Err(e) => e.to_ptr(),
    }
}

/// `drm_sched_backend_ops::timedout_job`.
///
/// # Safety
///
/// `job` must be a job of a scheduler of `B` that ran; the scheduler must not free it during the
/// call.
pub(super) unsafe extern "C" fn timed_out_callback<B: SchedBackend>(
    job: *mut ffi::drm_sched_job,
) -> ffi::drm_gpu_sched_stat {
    // SAFETY: As in `run_callback`.
    let this = unsafe { &mut *job.cast::<JobAllocation<B>>() };
    B::timed_out(&mut this.payload);
    // The same status in all cases: the scheduler keeps the job, frees it when its fence is
    // signalled, and restarts its timer. Any other status would remove the job from the scheduler
    // for good.
    ffi::drm_gpu_sched_stat_DRM_GPU_SCHED_STAT_NO_HANG
}

/// `drm_sched_backend_ops::cancel_job`.
///
/// # Safety
///
/// `job` must be a job of a scheduler of `B` that ran, and the scheduler must be stopped.
pub(super) unsafe extern "C" fn cancel_callback<B: SchedBackend>(job: *mut ffi::drm_sched_job) {
    // SAFETY: As in `run_callback`.
    let this = unsafe { &mut *job.cast::<JobAllocation<B>>() };
    B::cancelled(&mut this.payload);
    // SAFETY: The job ran, so its fence refers to the fence that `run_callback` returned, and holds
    // a reference to it. When this is done, the scheduler's callback has run to its end, whichever
    // thread signals the fence, so the job can be freed.
    unsafe {
        let parent = (*(*job).s_fence).parent;
        if !parent.is_null() {
            fence::complete(parent, Err(fence::canceled()));
        }
    }
}

/// `drm_sched_backend_ops::free_job`.
///
/// # Safety
///
/// `job` must be a job of a scheduler of `B` that was pushed, and is no longer used.
pub(super) unsafe extern "C" fn free_callback<B: SchedBackend>(job: *mut ffi::drm_sched_job) {
    // SAFETY: The job was armed, so it has a fence, which refers to the fence that `run_callback`
    // returned if the job ran. The thread that signalled that fence may still be in the scheduler's
    // callback, under the fence's lock, where it accesses the scheduler. When this is done, it has
    // left.
    unsafe {
        let parent = (*(*job).s_fence).parent;
        if !parent.is_null() {
            fence::wait_callbacks(parent);
        }
    }
    // SAFETY: `push` made it from a box, and the scheduler no longer uses it.
    drop(unsafe { KBox::from_raw(job.cast::<JobAllocation<B>>()) });
}
