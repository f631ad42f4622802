// SPDX-License-Identifier: GPL-2.0
//! AMDGPU_CS: submits a job, and AMDGPU_WAIT_CS: waits for one.

use hw::sdma::packet::IndirectBuffer;
use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
    task::MAX_SCHEDULE_TIMEOUT,
    time::{msecs_to_jiffies, Jiffies, NSEC_PER_MSEC},
    transmute::FromBytes,
    uaccess::{UserPtr, UserSlice},
};

use super::{
    bo_lists::{BoList, BoListInput},
    contexts::RenderContext,
    file::RenderFile,
    rings::{ContextRing, Submitted},
};
use crate::{
    kern::{
        drm::{
            file::OpenDrmFile,
            ioctl::{Delivery, DrmIoctl, IoctlAnswer, IoctlInput},
            uapi::{self, chunk_id, BoListIn, CsChunk, CsDependency, CsFence, CsIb},
            DrmDriver,
        },
        errno,
        fence::Fence,
        host, uaccess_ext,
    },
    mem::{
        bo::BoData,
        job_engine::{JobWork, UserFence, MOST_BUFFERS},
        GpuMemory,
    },
};

/// The most chunks of a job: more than any has that is accepted.
const MOST_CHUNKS: u32 = 256;

/// The most jobs that a job waits for.
const MOST_DEPENDENCIES: usize = 1024;

/// The chunks of a job.
pub(super) struct CsInput {
    buffers: KVec<CsIb>,
    after: KVec<CsDependency>,
    fence: Option<CsFence>,
    bos: Option<BoListInput>,
}

/// A `T` at the beginning of a chunk.
fn head<T: FromBytes>(chunk: &CsChunk) -> Result<T> {
    let size = size_of::<T>();
    if u64::from(chunk.length_dw) * 4 < size as u64 {
        return Err(EINVAL);
    }
    let from = usize::try_from(chunk.chunk_data).map_err(|_| EFAULT)?;
    UserSlice::new(UserPtr::from_addr(from), size)
        .reader()
        .read()
}

impl CsInput {
    fn add(&mut self, chunk: &CsChunk) -> Result {
        match chunk.chunk_id {
            chunk_id::IB => {
                if self.buffers.len() >= MOST_BUFFERS {
                    return Err(EINVAL);
                }
                self.buffers.push(head(chunk)?, GFP_KERNEL_ACCOUNT)?;
            }
            chunk_id::FENCE => {
                if self.fence.replace(head(chunk)?).is_some() {
                    return Err(EINVAL);
                }
            }
            chunk_id::BO_HANDLES => {
                let list: BoListIn = head(chunk)?;
                if self.bos.replace(BoListInput::of(&list)?).is_some() {
                    return Err(EINVAL);
                }
            }
            chunk_id::DEPENDENCIES => self.add_dependencies(chunk)?,
            chunk_id::SCHEDULED_DEPENDENCIES
            | chunk_id::SYNCOBJ_IN
            | chunk_id::SYNCOBJ_OUT
            | chunk_id::SYNCOBJ_TIMELINE_WAIT
            | chunk_id::SYNCOBJ_TIMELINE_SIGNAL => return Err(errno::not_supported()),
            _ => return Err(EINVAL),
        }
        Ok(())
    }

    fn add_dependencies(&mut self, chunk: &CsChunk) -> Result {
        let size = size_of::<CsDependency>();
        let count = chunk.length_dw as usize * 4 / size;
        if count > MOST_DEPENDENCIES - self.after.len().min(MOST_DEPENDENCIES) {
            return Err(EINVAL);
        }
        for index in 0..count as u32 {
            let dependency = uaccess_ext::read_element(chunk.chunk_data, index)?;
            self.after.push(dependency, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(())
    }

    /// The fences of the jobs of `file` to wait for, without those that were done long ago.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown context or ring, or a job that is still to come; the error of a job
    /// of such a ring that has failed; those of [`RenderContext::ring`].
    fn after(&self, file: &RenderFile) -> Result<KVec<ARef<Fence>>> {
        let mut fences = KVec::with_capacity(self.after.len(), GFP_KERNEL_ACCOUNT)?;
        for job in &self.after {
            let ring = (job.ip_type, job.ip_instance, job.ring);
            if let Some(fence) = file.job_fence(job.ctx_id, ring, job.handle)? {
                fences.push(fence, GFP_KERNEL_ACCOUNT)?;
            }
        }
        Ok(fences)
    }

    /// The ring of all its indirect buffers.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are none, or for several rings; as [`RenderContext::ring`].
    fn ring(&self, file: &RenderFile, context: &RenderContext) -> Result<Arc<ContextRing>> {
        let first = self.buffers.first().ok_or(EINVAL)?;
        let ring = |ib: &CsIb| (ib.ip_type, ib.ip_instance, ib.ring);
        if self.buffers.iter().any(|ib| ring(ib) != ring(first)) {
            return Err(EINVAL);
        }
        file.ring(context, ring(first))
    }

    /// The indirect buffers.
    ///
    /// # Errors
    ///
    /// `EINVAL` for one that is too long, or for an engine that does not exist; `ENOMEM`.
    fn buffers(&self) -> Result<KVec<IndirectBuffer>> {
        let mut buffers = KVec::with_capacity(self.buffers.len(), GFP_KERNEL_ACCOUNT)?;
        for ib in &self.buffers {
            if ib.flags & uapi::IB_FLAG_CE != 0 {
                return Err(EINVAL);
            }
            let buffer = IndirectBuffer::new(ib.va_start, ib.ib_bytes / 4).ok_or(EINVAL)?;
            buffers.push(buffer, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(buffers)
    }
}

impl IoctlInput<uapi::Cs> for CsInput {
    fn read(args: &uapi::Cs) -> Result<Self> {
        let wanted = args.wanted();
        if wanted.num_chunks == 0 || wanted.num_chunks > MOST_CHUNKS {
            return Err(EINVAL);
        }
        let mut input = Self {
            buffers: KVec::new(),
            after: KVec::new(),
            fence: None,
            bos: None,
        };
        for index in 0..wanted.num_chunks {
            let at: u64 = uaccess_ext::read_element(wanted.chunks, index)?;
            input.add(&uaccess_ext::read_element(at, 0)?)?;
        }
        Ok(input)
    }
}

/// What becomes of a job that is to be submitted.
pub(super) struct CsAnswer(Submitted);

impl IoctlAnswer<uapi::Cs> for CsAnswer {
    fn deliver(self, args: &mut uapi::Cs) -> Result<Delivery> {
        match self.0 {
            Submitted::As(number) => {
                args.answer(number);
                Ok(Delivery::Done)
            }
            Submitted::After(before) => {
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
/// buffers, or none, for those of several rings, and for a place of the fence that is none;
/// `ENOENT` for an unknown list or buffer; `EFAULT` if a chunk cannot be read; `EOPNOTSUPP` for
/// sync objects; the error of a job of the same ring that has failed, see
/// [`JobLine::error`](crate::mem::job_engine::JobLine::error); `EBUSY` while a process acquires the
/// address space; `ENOSPC`, `ENOMEM`, `ENODEV`.
pub(super) struct CsIoctl;

impl<D: DrmDriver<Data = Arc<GpuMemory>, File = RenderFile, Object = BoData>> DrmIoctl<D>
    for CsIoctl
{
    type Args = uapi::Cs;
    type Input = CsInput;
    type Answer = CsAnswer;

    const COMMAND: u32 = uapi::read_write::<Self::Args>(uapi::CS_NR);

    const NAME: &'static CStr = c"AMDGPU_CS";

    fn call(file: &OpenDrmFile<'_, D>, args: &mut Self::Args, input: &CsInput) -> Result<CsAnswer> {
        let (context, list) = (args.wanted().ctx_id, args.wanted().bo_list_handle);
        let context = file.data().contexts().get(context).ok_or(EINVAL)?;
        let ring = input.ring(file.data(), &context)?;
        // Buffers are kept where they are by the address space, so lists are only checked.
        if let Some(bos) = &input.bos {
            if list != 0 {
                return Err(EINVAL);
            }
            BoList::new(file, bos)?;
        }
        if list != 0 {
            file.data().bo_lists().get(list).ok_or(ENOENT)?;
        }
        let buffers = input.buffers()?;
        let after = input.after(file.data())?;
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
                user_fence,
            })
        })?;
        Ok(CsAnswer(submitted))
    }
}

/// The wait for a job: `None` for one that is done.
pub(super) struct JobWait {
    fence: Option<ARef<Fence>>,
    until: u64,
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
        let fence = file.data().job_fence(wanted.ctx_id, ring, wanted.handle)?;
        Ok(JobWait {
            fence,
            until: wanted.timeout,
        })
    }
}
