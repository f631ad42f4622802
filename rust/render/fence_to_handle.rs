// SPDX-License-Identifier: GPL-2.0
//! AMDGPU_FENCE_TO_HANDLE: the end of a job as a sync object or a sync file.

use kernel::{prelude::*, sync::Arc};

use super::file::RenderFile;
use crate::{
    kern::{
        drm::{
            file::OpenDrmFile,
            ioctl::DrmIoctl,
            syncobj::Syncobj,
            uapi::{self, fence_as},
            DrmDriver,
        },
        fence::Fence,
        new_fd::NewFd,
    },
    mem::GpuMemory,
};

/// FENCE_TO_HANDLE: a new sync object with the fence of a job, by handle or by descriptor, or a new
/// sync file.
///
/// # Errors
///
/// `EINVAL` for an unknown context, engine or ring, a job that is still to come, and if anything
/// else is wanted; the error of a job of the same ring that has failed; `EMFILE`, `ENFILE`,
/// `ENOSPC`, `ENOMEM`.
pub(super) struct FenceToHandleIoctl;

impl<D: DrmDriver<Data = Arc<GpuMemory>, File = RenderFile>> DrmIoctl<D> for FenceToHandleIoctl {
    type Args = uapi::FenceToHandle;
    type Input = ();
    type Answer = ();

    const COMMAND: u32 = uapi::read_write::<Self::Args>(uapi::FENCE_TO_HANDLE_NR);

    const NAME: &'static CStr = c"AMDGPU_FENCE_TO_HANDLE";

    fn call(file: &OpenDrmFile<'_, D>, args: &mut Self::Args, (): &()) -> Result {
        let job = args.job();
        let ring = (job.ip_type, job.ip_instance, job.ring);
        let fence = file.data().job_fence(job.ctx_id, ring, job.seq_no)?;
        let fence = fence.unwrap_or_else(Fence::signaled);
        let handle = match args.wanted_as() {
            fence_as::SYNCOBJ => file.create_syncobj_handle(&Syncobj::new(&fence)?)?,
            fence_as::SYNCOBJ_FD => Syncobj::new(&fence)?.install()?,
            fence_as::SYNC_FILE_FD => {
                let fd = NewFd::new(fence.sync_file()?, true)?;
                let number = fd.number();
                fd.install();
                number
            }
            _ => return Err(EINVAL),
        };
        args.answer(handle);
        Ok(())
    }
}
