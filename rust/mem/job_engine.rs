// SPDX-License-Identifier: GPL-2.0
//! The interface to what executes the jobs of the render node: queues, which are in a layer above.

use hw::sdma::packet::IndirectBuffer;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;

use super::bo::{Bo, BoData};
use super::vm::Vm;
use crate::kern::drm::users::SharedObjects;
use crate::kern::fence::Fence;

/// The most indirect buffers of a job, as with amdgpu.
pub(crate) const MOST_BUFFERS: usize = 49;

/// A place in a buffer to which the number of a job is written when the job is done.
pub(crate) struct UserFence {
    bo: ARef<Bo>,
    offset: u64,
    number: u64,
}

impl UserFence {
    /// Bytes of the buffer.
    const BYTES: usize = 4096;

    /// Byte `offset` of `bo` for job `number`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a buffer that is not a page, an offset where no number has room or is not
    /// aligned, and for memory that can move: in VRAM, of others or of the process itself.
    pub(crate) fn new(bo: ARef<Bo>, offset: u32, number: u64) -> Result<Arc<Self>> {
        let last = Self::BYTES - size_of::<u64>();
        let offset = u64::from(offset);
        if bo.size() != Self::BYTES || !bo.is_gtt() || offset > last as u64 || offset % 8 != 0 {
            return Err(EINVAL);
        }
        let fence = Self { bo, offset, number };
        Ok(Arc::new(fence, GFP_KERNEL_ACCOUNT)?)
    }

    /// Writes the number. Allocates nothing, waits for nothing.
    pub(crate) fn write(&self) {
        // The place was checked; the memory does not move.
        let _ = self.bo.write64(self.offset, self.number);
    }
}

/// The buffers of a job's list.
pub(crate) type JobBuffers = SharedObjects<BoData>;

/// What a job does.
pub(crate) struct JobWork {
    /// The packets that it executes, at most [`MOST_BUFFERS`].
    pub(crate) buffers: KVec<IndirectBuffer>,
    /// The jobs that it waits for.
    pub(crate) after: KVec<ARef<Fence>>,
    /// The buffers that other files share: the job waits for their users, and later users wait
    /// for the job.
    pub(crate) shared: Option<Arc<JobBuffers>>,
    /// The place that tells of its end, if the client has one.
    pub(crate) user_fence: Option<Arc<UserFence>>,
}

/// Executes jobs in address spaces.
pub(crate) trait JobEngine: Send + Sync {
    /// Makes what the jobs in `vm` have in common. The caller's process is named in messages about
    /// them, unless another process has acquired the address space.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the device goes; `ENOSPC` without a PASID; `ENOMEM`.
    fn open(&self, vm: &Arc<Vm>) -> Result<Arc<dyn JobClient>>;
}

/// The jobs in an address space. Dropped when all lines are gone and before the address space; may
/// sleep then.
pub(crate) trait JobClient: Send + Sync {
    /// Makes a line of jobs for SDMA engines.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the device goes; `EIO` if no engine works; `ENOSPC` with too many lines or
    /// without addresses; `ENOMEM`.
    fn line(&self) -> Result<Arc<dyn JobLine>>;
}

/// Jobs that are executed one after the other. When it is dropped, those that are not done fail;
/// that may sleep, for as long as the hardware may take.
pub(crate) trait JobLine: Send + Sync {
    /// Submits a job. The returned fence is signalled when it is done. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the device goes; `EINVAL` for too many buffers; `ENOMEM`.
    fn submit(&self, work: JobWork) -> Result<ARef<Fence>>;

    /// The error of a job, after which no job is executed any more: `ETIME` for one that took too
    /// long, `EFAULT` after an access to memory that is not mapped, `EIO` after another error.
    fn error(&self) -> Option<Error>;

    /// Lets all jobs that are not done fail, and those to come. The hardware may still be at work
    /// on one of them. Sleeps for nothing.
    fn cancel(&self);
}
