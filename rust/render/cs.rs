// SPDX-License-Identifier: GPL-2.0
//! AMDGPU_CS: submits a job, and AMDGPU_WAIT_CS: waits for one.

use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
    task::MAX_SCHEDULE_TIMEOUT,
    time::{msecs_to_jiffies, Jiffies, NSEC_PER_MSEC},
};

use super::{
    bo_lists::BoList, contexts::RenderContext, cs_chunks::CsInput, file::RenderFile,
    rings::Submitted,
};
use crate::{
    kern::{
        drm::{
            file::OpenDrmFile,
            ioctl::{Delivery, DrmIoctl, IoctlAnswer},
            uapi, DrmDriver,
        },
        fence::Fence,
        host,
    },
    mem::{
        bo::BoData,
        job_engine::{JobWork, UserFence},
        GpuMemory,
    },
};

/// What becomes of a job that is to be submitted, in a context that may be freed meanwhile: see
/// [`FreedContext`](super::ctx::FreedContext).
pub(super) struct CsAnswer(Submitted, Arc<RenderContext>);

impl IoctlAnswer<uapi::Cs> for CsAnswer {
    fn deliver(self, args: &mut uapi::Cs) -> Result<Delivery> {
        match self.0 {
            Submitted::As { number, .. } => {
                args.answer(number);
                Ok(Delivery::Done)
            }
            Submitted::After(before) => {
                // So that its end ends the job.
                drop(self.1);
                before.wait_interruptible(MAX_SCHEDULE_TIMEOUT as Jiffies)?;
                Ok(Delivery::CallAgain)
            }
        }
    }
}

/// CS: submits a job.
///
/// # Errors
///
/// `EINVAL` for an unknown context, engine, ring or chunk, for too many or too long indirect
/// buffers, or none, for those of several rings, for a place of the fence that is none, and for a
/// sync object without a fence; `ENOENT` for an unknown list, buffer or sync object to wait for;
/// `EFAULT` if a chunk cannot be read; `ETIME` if a sync object gets no fence; the error of a job
/// of the same ring that has failed, see
/// [`JobLine::error`](crate::mem::job_engine::JobLine::error); `EBUSY` while a process acquires the
/// address space; `EINTR` or `ERESTARTSYS` on a signal; `ENOSPC`, `ENOMEM`, `ENODEV`.
pub(super) struct CsIoctl;

impl<D: DrmDriver<Data = Arc<GpuMemory>, File = RenderFile, Object = BoData>> DrmIoctl<D>
    for CsIoctl
{
    type Args = uapi::Cs;
    type Input = CsInput;
    type Answer = CsAnswer;

    const COMMAND: u32 = uapi::read_write::<Self::Args>(uapi::CS_NR);

    const NAME: &'static CStr = c"AMDGPU_CS";

    fn prepare(file: &OpenDrmFile<'_, D>, input: &mut CsInput) -> Result {
        input.find_fences(file)
    }

    fn call(file: &OpenDrmFile<'_, D>, args: &mut Self::Args, input: &CsInput) -> Result<CsAnswer> {
        let (context, list) = (args.wanted().ctx_id, args.wanted().bo_list_handle);
        let context = file.data().context(context)?;
        let ring = input.ring(file.data(), &context)?;
        let bos = match (&input.bos, list) {
            (None, 0) => None,
            (None, list) => Some(file.data().bo_lists().get(list).ok_or(ENOENT)?),
            (Some(bos), 0) => Some(BoList::new(file, bos)?),
            (Some(_), _) => return Err(EINVAL),
        };
        let buffers = input.buffers()?;
        let after = input.after(file.data())?;
        let places = input.places(file)?;
        let submitted = ring.submit(|number| {
            let user_fence = match &input.fence {
                Some(place) => {
                    let bo = file.object(place.handle).map_err(|_| EINVAL)?;
                    Some(UserFence::new(bo, place.offset, number)?)
                }
                None => None,
            };
            Ok(JobWork {
                buffers,
                after,
                shared: bos.map(|list| list.bos().clone()),
                user_fence,
            })
        })?;
        if let Submitted::As { fence, .. } = &submitted {
            places.into_iter().for_each(|place| place.put(fence));
        }
        Ok(CsAnswer(submitted, context))
    }
}

/// The wait for a job.
pub(super) struct JobWait {
    /// `None` for one that is done.
    fence: Option<ARef<Fence>>,
    until: u64,
    /// Keeps the job's context: one that is freed meanwhile does not end the job, as with amdgpu.
    _context: Arc<RenderContext>,
}

/// The time that is left until `until`, nanoseconds of the monotonic clock; the top bit stands for
/// no end.
pub(super) fn timeout(until: u64) -> Jiffies {
    if until >> 63 != 0 {
        return MAX_SCHEDULE_TIMEOUT as Jiffies;
    }
    let ns = until.saturating_sub(host::monotonic_ns());
    let ms = ns.div_ceil(NSEC_PER_MSEC as u64);
    // What does not fit is more than a month.
    msecs_to_jiffies(u32::try_from(ms).unwrap_or(u32::MAX / 2))
}

impl IoctlAnswer<uapi::WaitCs> for JobWait {
    /// Waits.
    ///
    /// # Errors
    ///
    /// That of the job; `ERESTARTSYS` on a signal.
    fn deliver(self, args: &mut uapi::WaitCs) -> Result<Delivery> {
        let is_busy = match &self.fence {
            Some(fence) => !fence.wait_interruptible(timeout(self.until))?,
            None => false,
        };
        if let Some(fence) = self.fence.as_ref().filter(|_| !is_busy) {
            fence.status().unwrap_or(Ok(()))?;
        }
        args.answer(is_busy);
        Ok(Delivery::Done)
    }
}

/// WAIT_CS: waits for a job until a time.
///
/// # Errors
///
/// `EINVAL` for an unknown context, engine or ring, and for a job that is still to come; the error
/// of the job, or of one of the same ring that has failed; `ERESTARTSYS` on a signal.
pub(super) struct WaitCsIoctl;

impl<D: DrmDriver<Data = Arc<GpuMemory>, File = RenderFile>> DrmIoctl<D> for WaitCsIoctl {
    type Args = uapi::WaitCs;
    type Input = ();
    type Answer = JobWait;

    const COMMAND: u32 = uapi::read_write::<Self::Args>(uapi::WAIT_CS_NR);

    const NAME: &'static CStr = c"AMDGPU_WAIT_CS";

    fn call(file: &OpenDrmFile<'_, D>, args: &mut Self::Args, (): &()) -> Result<JobWait> {
        let wanted = args.wanted();
        let ring = (wanted.ip_type, wanted.ip_instance, wanted.ring);
        let context = file.data().context(wanted.ctx_id)?;
        Ok(JobWait {
            fence: file.data().ring(&context, ring)?.fence(wanted.handle)?,
            until: wanted.timeout,
            _context: context,
        })
    }
}
