// SPDX-License-Identifier: GPL-2.0
//! Operations of DBG_TRAP by which a debugger sets how waves are launched, which exceptions trap,
//! and which memory is watched.

use hw::debug::{LaunchMode, WatchPoint, EXCEPTIONS};
use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::DebugTarget;
use crate::kern::uapi;
use crate::process::context::GpuContext;

/// `override_mode`: in addition to what kernels enable, or instead.
const OR: u32 = 0;
const REPLACE: u32 = 1;
/// The flag that gfx9 has: one access to memory under way at a time.
const SINGLE_MEM_OP: u32 = 1;

impl DebugTarget<'_> {
    /// SET_WAVE_LAUNCH_OVERRIDE.
    ///
    /// # Errors
    ///
    /// `EPERM` for an unknown mode; `EACCES` for an exception that cannot be made to trap: the
    /// caller learns which can.
    pub(super) fn launch_override(self, args: &mut uapi::DbgLaunchOverride) -> Result<u32> {
        let replaces = match args.override_mode {
            OR => false,
            REPLACE => true,
            _ => return Err(EPERM),
        };
        let request = core::mem::replace(&mut args.support_request_mask, EXCEPTIONS);
        if request & !EXCEPTIONS != 0 {
            return Err(EACCES);
        }
        let enable = args.enable_mask;
        args.enable_mask = self
            .process
            .change_waves(|waves| Ok(waves.override_exceptions(replaces, enable, request)))?;
        Ok(0)
    }

    /// SET_WAVE_LAUNCH_MODE.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown mode.
    pub(super) fn launch_mode(self, args: &mut uapi::DbgLaunchMode) -> Result<u32> {
        let mode = LaunchMode::new(args.launch_mode).ok_or(EINVAL)?;
        self.process.change_waves(|waves| {
            waves.launch = mode;
            Ok(())
        })?;
        Ok(0)
    }

    /// SET_FLAGS.
    ///
    /// # Errors
    ///
    /// `EACCES` for a flag that the GPU does not have.
    pub(super) fn set_flags(self, args: &mut uapi::DbgSetFlags) -> Result<u32> {
        let flags = args.flags;
        let before = self.process.exceptions().wave_controls().precise_memory;
        args.flags = if before { SINGLE_MEM_OP } else { 0 };
        if flags & (0x7 & !SINGLE_MEM_OP) != 0 {
            return Err(EACCES);
        }
        self.process.change_waves(|waves| {
            waves.precise_memory = flags & SINGLE_MEM_OP != 0;
            Ok(())
        })?;
        Ok(0)
    }

    /// The context of the process on the GPU `gpu_id`.
    ///
    /// # Errors
    ///
    /// `ENODEV` for a GPU that the process may not use; `ENOMEM`.
    fn context(&self, gpu_id: u32) -> Result<Arc<GpuContext>> {
        let id = GpuId::from_raw(gpu_id).ok_or(ENODEV)?;
        let id = self.process.gpu_named(id);
        match self.process.context(id) {
            Some(context) => Ok(context),
            None => self.caller.kfd.context(&self.process, id),
        }
    }

    /// SET_NODE_ADDRESS_WATCH.
    ///
    /// # Errors
    ///
    /// `ENODEV` for an unknown GPU; `ENOMEM` if all its watch points are taken.
    pub(super) fn set_watch(self, args: &mut uapi::DbgSetWatch) -> Result<u32> {
        let context = self.context(args.gpu_id)?;
        let point = WatchPoint {
            address: args.address,
            mask: args.mask,
            mode: args.mode,
        };
        args.id = self.process.watch(&context, point)?;
        Ok(0)
    }

    /// CLEAR_NODE_ADDRESS_WATCH.
    ///
    /// # Errors
    ///
    /// `ENODEV` for an unknown GPU; `EINVAL` for a watch point that the process does not have.
    pub(super) fn clear_watch(self, args: &mut uapi::DbgClearWatch) -> Result<u32> {
        let context = self.context(args.gpu_id)?;
        self.process.unwatch(&context, args.id)?;
        Ok(0)
    }
}
