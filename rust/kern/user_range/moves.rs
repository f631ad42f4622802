// SPDX-License-Identifier: GPL-2.0
//! Migration of a process's memory to a device's memory and back.

use super::{slow::lock_soon, VmaExtent};
use crate::{
    ffi,
    kern::{
        device_memory::{DeviceMemory, MigrationObserver, WINDOW},
        mm_exit::AddressSpace,
    },
};
use kernel::{prelude::*, sync::Arc};

/// Moves the memory of the process of `space` between `start` and `end` to `memory`, in one window,
/// [`WINDOW`] at most. Returns the end of the part that was handled, and how many pages moved.
/// Pages that cannot move stay where they are. All pages stay if `go_on` fails before the copy.
/// `observer` is notified if they move out later without a request. May sleep.
///
/// # Errors
///
/// `ENOMEM` if there is no memory for them; `ENODEV` if the device is about to be removed; `ESRCH`
/// if the address space has ended; [`in_progress`](crate::kern::errno::in_progress) if the mmap
/// lock is not available; errors of the engines and of `go_on`.
pub(crate) fn migrate_to_device(
    memory: &DeviceMemory,
    space: &AddressSpace,
    start: usize,
    end: usize,
    observer: &Arc<dyn MigrationObserver>,
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
    let moved = unsafe { memory.move_in(raw, vma.from, to, observer, go_on) }?;
    Ok((to, moved))
}

/// Moves memory in the other direction, as [`migrate_to_device`] does.
///
/// # Errors
///
/// `ENOMEM` if there is no system memory; the others of [`migrate_to_device`].
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
