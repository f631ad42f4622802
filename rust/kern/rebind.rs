// SPDX-License-Identifier: GPL-2.0
//! The binding between a device and its driver.

use kernel::device::Device;

use super::device;
use crate::ffi;

/// Detaches `dev` from its driver, like unbind in sysfs, if `is_meant` confirms that it still has
/// the intended driver. Returns whether it did. The device is neither bound nor unbound during
/// `is_meant`. May sleep. Must not be called from a callback of that driver, or with a lock that
/// unbinding waits for.
///
/// The kernel has no such function: the lock is free between the check and the release. If another
/// task takes the lock then to unbind the device, it is finished when the release, which is next in
/// line, gets the lock and finds no driver.
pub(crate) fn release(dev: &Device, is_meant: impl FnOnce() -> bool) -> bool {
    let held = DeviceLock::new(dev);
    let meant = is_meant();
    drop(held);
    if meant {
        // SAFETY: The device is valid, and its lock is not held by the caller.
        unsafe { ffi::device_release_driver(device::as_raw(dev)) };
    }
    meant
}

/// Guard of the lock of a device, under which drivers are attached and detached.
struct DeviceLock<'a>(&'a Device);

impl<'a> DeviceLock<'a> {
    fn new(dev: &'a Device) -> Self {
        // SAFETY: The device is valid, and its lock is not held by the caller of `release`.
        unsafe { ffi::rkfd_device_lock(device::as_raw(dev)) };
        Self(dev)
    }
}

impl Drop for DeviceLock<'_> {
    fn drop(&mut self) {
        // SAFETY: This task took it, see `new`.
        unsafe { ffi::rkfd_device_unlock(device::as_raw(self.0)) };
    }
}

/// Looks for a driver for `dev`, as for a newly found device. Returns whether it has one then. May
/// sleep. Takes the device's lock, so it must not be called with that lock held.
pub(crate) fn attach(dev: &Device) -> bool {
    // SAFETY: The device is valid, and its lock is not held by the caller.
    unsafe { ffi::device_attach(device::as_raw(dev)) > 0 }
}
