// SPDX-License-Identifier: GPL-2.0
//! The caller of an ioctl.

use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::{args, Kfd};
use crate::process::context::GpuContext;
use crate::process::table::FileProcess;
use crate::process::Process;

/// The caller of an ioctl.
pub(super) struct Caller<'a> {
    /// The interface.
    pub(super) kfd: &'a Kfd,
    /// The process of the file by which it calls.
    pub(super) file: &'a FileProcess,
    /// The calling process.
    pub(super) process: &'a Arc<Process>,
}

impl Caller<'_> {
    /// The GPU that the calling process knows as `gpu_id`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a number that cannot be an id.
    pub(super) fn gpu_id(&self, gpu_id: u32) -> Result<GpuId> {
        Ok(self.process.gpu_named(args::gpu_id(gpu_id)?))
    }

    /// The id by which the calling process knows GPU `id`.
    pub(super) fn shown_id(&self, id: GpuId) -> u32 {
        self.process.name_of(id).get().into()
    }

    /// The context of the calling process on the GPU that it knows as `gpu_id`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a GPU that does not exist, or that the process's cgroups deny; `ENOMEM`.
    pub(super) fn context(&self, gpu_id: u32) -> Result<Arc<GpuContext>> {
        self.context_of(self.gpu_id(gpu_id)?)
    }

    /// As [`Caller::context`], on the GPU `id`.
    pub(super) fn context_of(&self, id: GpuId) -> Result<Arc<GpuContext>> {
        if let Some(context) = self.process.context(id) {
            return Ok(context);
        }
        let context = self.kfd.context(self.process, id);
        // mmap returns ENODEV where ioctls return EINVAL.
        context.map_err(|error| if error == ENODEV { EINVAL } else { error })
    }
}
