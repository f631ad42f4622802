// SPDX-License-Identifier: GPL-2.0
//! Ioctls by which a process sets how it uses a GPU, and reads how the GPU is set up.

use kernel::prelude::*;

use super::args;
use super::caller::Caller;
use crate::kern::{params, uaccess_ext, uapi};
use hw::trap::SecondLevelTrap;

/// Number of GB_TILE_MODE registers, if gfx9 still had them.
const TILE_MODES: u32 = 32;
/// Number of GB_MACROTILE_MODE registers, if gfx9 still had them.
const MACROTILE_MODES: u32 = 16;

/// SET_SCRATCH_BACKING_VA: the GPU address behind the scratch aperture. gfx9's shaders set it up
/// themselves (FLAT_SCRATCH), so there is nothing to set.
///
/// # Errors
///
/// `ENODEV` before ACQUIRE_VM.
pub(super) fn set_scratch_backing_va(
    caller: &Caller<'_>,
    args: &mut uapi::SetScratchBackingVa,
) -> Result {
    caller.context(args.gpu_id)?.vm()?;
    Ok(())
}

/// SET_TRAP_HANDLER: the second level, which the driver's own handler calls.
///
/// # Errors
///
/// `EFAULT` for an address outside user memory; `ENODEV` before ACQUIRE_VM; `ENOMEM`.
pub(super) fn set_trap_handler(caller: &Caller<'_>, args: &mut uapi::SetTrapHandler) -> Result {
    caller
        .context(args.gpu_id)?
        .set_trap_handler(SecondLevelTrap {
            code: args::user_address(args.tba_addr)?,
            memory: args::user_address(args.tma_addr)?,
        })
}

/// GET_TILE_CONFIG: GB_ADDR_CONFIG. Tile modes are zero, as many of them as the caller has room
/// for.
pub(super) fn get_tile_config(caller: &Caller<'_>, args: &mut uapi::GetTileConfig) -> Result {
    let context = caller.context(args.gpu_id)?;
    args.gb_addr_config = context.gpu().hw.address_config()?;
    args.num_banks = 0;
    args.num_ranks = 0;
    let modes = args.num_tile_configs.min(TILE_MODES);
    args.num_tile_configs = 0;
    write_modes(args.tile_config_ptr, modes)?;
    args.num_tile_configs = modes;
    let modes = args.num_macro_tile_configs.min(MACROTILE_MODES);
    args.num_macro_tile_configs = 0;
    write_modes(args.macro_tile_config_ptr, modes)?;
    args.num_macro_tile_configs = modes;
    Ok(())
}

/// Writes `count` modes to the caller's array.
///
/// # Errors
///
/// `EFAULT`.
fn write_modes(array: u64, count: u32) -> Result {
    (0..count).try_for_each(|index| uaccess_ext::write_element(array, index, &0u32))
}

/// SET_XNACK_MODE: reads (for a negative number) or sets whether page faults are retried until the
/// memory that the process has there is mapped.
///
/// # Errors
///
/// `EBUSY` for setting anything while there are queues; `EPERM` for enabling it without shared
/// virtual memory; `EINTR`; `ENODEV`; `ENOMEM`.
pub(super) fn set_xnack_mode(caller: &Caller<'_>, args: &mut uapi::SetXnackMode) -> Result {
    if args.xnack_enabled < 0 {
        args.xnack_enabled = caller.process.retries().into();
        return Ok(());
    }
    let on = args.xnack_enabled > 0;
    if on && !params::is_svm_enabled() {
        // `EBUSY` for queues has precedence over `EPERM`.
        caller.process.set_retries(false)?;
        return Err(EPERM);
    }
    caller.process.set_retries(on)
}

/// RUNTIME_ENABLE: the ROCm runtime starts, and is told of the exceptions of the queues that it
/// makes, or it ends. With a debugger this waits for it.
///
/// # Errors
///
/// `EBUSY` if it has started; `EEXIST` if there are queues; `EINTR` for a signal: then the same
/// call, made again, continues the wait.
pub(super) fn runtime_enable(caller: &Caller<'_>, args: &mut uapi::RuntimeEnable) -> Result {
    let has = |mask| args.mode_mask & mask != 0;
    if !has(uapi::KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK) {
        return caller.process.disable_runtime();
    }
    let ttmp_setup = has(uapi::KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK);
    caller.process.enable_runtime(args.r_debug, ttmp_setup)
}
