// SPDX-License-Identifier: GPL-2.0
//! A device and the driver core: which driver it has.

use kernel::device::Device;

use super::device;
use crate::ffi;

/// Takes its driver from `dev`, which is as unbinding it in sysfs. Nothing happens if it has none. Sleeps; not for who is called by that driver, or
/// holds what unbinding waits for.
pub(crate) fn release(dev: &Device) {
    // SAFETY: The device is valid, and its lock is not held by the caller.
    unsafe { ffi::device_release_driver(device::as_raw(dev)) };
}

/// Looks for a driver for `dev`, as when it had just been found: whether it has one then. Sleeps.
pub(crate) fn attach(dev: &Device) -> bool {
    // SAFETY: As above.
    unsafe { ffi::device_attach(device::as_raw(dev)) > 0 }
}
