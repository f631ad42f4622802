// SPDX-License-Identifier: GPL-2.0
//! What a process has, on its way to a device's memory and back.

use super::{slow::lock_soon, VmaExtent};
use crate::{
    ffi,
    kern::{
        device_memory::{DeviceMemory, MigrationObserver, WINDOW},
        mm_exit::AddressSpace,
    },
};
use kernel::{prelude::*, sync::Arc};

/// Brings to `memory` what the process of `space` has between `start` and `end`, of one window, [`WINDOW`] at most; how far it has come
/// then, and how many pages were brought there. What cannot come stays where it is, and so does all when `go_on` fails before it is copied; of what leaves again
/// by itself `witness` hears.
///
/// `ENOMEM` when there is no memory for it, ENODEV when the device is about to go, ESRCH when the address space is at its end,
/// [`in_progress`](crate::kern::errno::in_progress) when somebody keeps the mmap lock; errors of the engines, what `go_on` says. Sleeps.
pub(crate) fn migrate_to_device(
    memory: &DeviceMemory,
    space: &AddressSpace,
    start: usize,
    end: usize,
    witness: &Arc<dyn MigrationObserver>,
    go_on: &dyn Fn() -> Result,
) -> Result<(usize, usize)> {
    let mm = space.user().ok_or(ESRCH)?;
    let _lock = lock_soon(&mm)?;
    let _open = memory.open()?;
    // SAFETY: The mmap lock is held.
    let Some(vma) = (unsafe { VmaExtent::next(&mm, start, end) }) else {
        return Ok((end, 0));
    };
    if !vma.can_move() {
        return Ok((vma.to, 0));
    }
    let to = vma.to.min((vma.from / WINDOW + 1) * WINDOW);
    // SAFETY: The mmap lock is held.
    let raw = unsafe { ffi::find_vma(mm.as_raw(), vma.from) };
    // SAFETY: It is the VMA of these addresses, as long as the lock is held.
    let moved = unsafe { memory.move_in(raw, vma.from, to, witness, go_on) }?;
    Ok((to, moved))
}

/// The other way; ENOMEM when there is no system memory.
pub(crate) fn migrate_to_system(
    memory: &DeviceMemory,
    space: &AddressSpace,
    start: usize,
    end: usize,
) -> Result<(usize, usize)> {
    let mm = space.user().ok_or(ESRCH)?;
    let _lock = lock_soon(&mm)?;
    // SAFETY: The mmap lock is held.
    let Some(vma) = (unsafe { VmaExtent::next(&mm, start, end) }) else {
        return Ok((end, 0));
    };
    if !vma.anonymous {
        return Ok((vma.to, 0));
    }
    let to = vma.to.min((vma.from / WINDOW + 1) * WINDOW);
    // SAFETY: The mmap lock is held.
    let raw = unsafe { ffi::find_vma(mm.as_raw(), vma.from) };
    // SAFETY: It is the VMA of these addresses, as long as the lock is held.
    let moved = unsafe { memory.move_out_of(raw, vma.from, to, None) }?;
    Ok((to, moved))
}
