// SPDX-License-Identifier: GPL-2.0
//! AMDGPU_WAIT_FENCES: waits for one of several jobs, or for all.

use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};

use super::{cs::timeout, file::RenderFile};
use crate::{
    kern::{
        drm::{
            file::OpenDrmFile,
            ioctl::{Delivery, DrmIoctl, IoctlAnswer, IoctlInput},
            uapi::{self, JobFence},
            DrmDriver,
        },
        fence::Fence,
        uaccess_ext,
    },
    mem::GpuMemory,
};

/// The most jobs of a call.
const MOST: u32 = 4096;

/// The jobs in the caller's memory.
pub(super) struct JobFences(KVec<JobFence>);

impl IoctlInput<uapi::WaitFences> for JobFences {
    fn read(args: &uapi::WaitFences) -> Result<Self> {
        let wanted = args.wanted();
        if wanted.fence_count == 0 || wanted.fence_count > MOST {
            return Err(EINVAL);
        }
        let mut jobs = KVec::new();
        for index in 0..wanted.fence_count {
            let job = uaccess_ext::read_element(wanted.fences, index)?;
            jobs.push(job, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(Self(jobs))
    }
}

/// What is waited for.
pub(super) enum FencesWait {
    /// A job at this place was done long ago, and one is enough.
    Done(u32),
    /// One of them, or all.
    Until {
        fences: KVec<ARef<Fence>>,
        all: bool,
        until: u64,
    },
}

impl IoctlAnswer<uapi::WaitFences> for FencesWait {
    /// Waits.
    ///
    /// # Errors
    ///
    /// That of the job that was first, or of any if all are waited for; `ERESTARTSYS` on a signal;
    /// `ENOMEM`.
    fn deliver(self, args: &mut uapi::WaitFences) -> Result<Delivery> {
        match self {
            Self::Done(place) => args.answer(true, place),
            Self::Until { fences, all, until } if all => {
                let mut is_done = true;
                for fence in &fences {
                    is_done = fence.wait_interruptible(timeout(until))?;
                    if !is_done {
                        break;
                    }
                    fence.status().unwrap_or(Ok(()))?;
                }
                args.answer(is_done, 0);
            }
            Self::Until { fences, until, .. } => {
                let first = Fence::wait_any(&fences, timeout(until))?;
                if let Some(fence) = first.and_then(|first| fences.get(first)) {
                    fence.status().unwrap_or(Ok(()))?;
                }
                let place = first.map_or(u32::MAX, |first| first as u32);
                args.answer(first.is_some(), place);
            }
        }
        Ok(Delivery::Done)
    }
}

/// WAIT_FENCES: waits for one of several jobs, or for all, until a time.
///
/// # Errors
///
/// `EINVAL` for no jobs or too many, an unknown context, engine or ring, and a job that is still to
/// come; `EFAULT` if they cannot be read; the error of a job; `ERESTARTSYS` on a signal; `ENOMEM`.
pub(super) struct WaitFencesIoctl;

impl<D: DrmDriver<Data = Arc<GpuMemory>, File = RenderFile>> DrmIoctl<D> for WaitFencesIoctl {
    type Args = uapi::WaitFences;
    type Input = JobFences;
    type Answer = FencesWait;

    const COMMAND: u32 = uapi::read_write::<Self::Args>(uapi::WAIT_FENCES_NR);

    const NAME: &'static CStr = c"AMDGPU_WAIT_FENCES";

    fn call(
        file: &OpenDrmFile<'_, D>,
        args: &mut Self::Args,
        jobs: &JobFences,
    ) -> Result<FencesWait> {
        let all = args.wanted().wait_all != 0;
        let mut fences = KVec::with_capacity(jobs.0.len(), GFP_KERNEL_ACCOUNT)?;
        for (place, job) in jobs.0.iter().enumerate() {
            let ring = (job.ip_type, job.ip_instance, job.ring);
            match file.data().job_fence(job.ctx_id, ring, job.seq_no)? {
                Some(fence) => fences.push(fence, GFP_KERNEL_ACCOUNT)?,
                None if all => {}
                None => return Ok(FencesWait::Done(place as u32)),
            }
        }
        Ok(FencesWait::Until {
            fences,
            all,
            until: args.wanted().timeout_ns,
        })
    }
}
