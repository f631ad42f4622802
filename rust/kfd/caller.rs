// SPDX-License-Identifier: GPL-2.0
//! The caller of an ioctl.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::{args, Kfd};
use crate::process::context::GpuContext;
use crate::process::Process;

/// The caller of an ioctl.
pub(super) struct Caller<'a> {
    /// The interface.
    pub(super) kfd: &'a Kfd,
    /// The calling process.
    pub(super) process: &'a Arc<Process>,
}

impl Caller<'_> {
    /// The context of the calling process on the GPU that it knows as `gpu_id`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a GPU that does not exist, or that the process's cgroups deny; `ENOMEM`.
    pub(super) fn context(&self, gpu_id: u32) -> Result<Arc<GpuContext>> {
        let id = args::gpu_id(gpu_id)?;
        if let Some(context) = self.process.context(id) {
            return Ok(context);
        }
        let context = self.kfd.context(self.process, id);
        // mmap returns ENODEV where ioctls return EINVAL.
        context.map_err(|error| if error == ENODEV { EINVAL } else { error })
    }
}
