// SPDX-License-Identifier: GPL-2.0
//! A device and the driver core: which driver it has.

use kernel::device::Device;

use super::device;
use crate::ffi;

/// Takes its driver from `dev`, which is as unbinding it in sysfs, if it still has the one that the caller means: whether it had. Nobody binds or unbinds it
/// while `is_meant` is asked. Sleeps; not for who is called by that driver, or holds what unbinding waits for.
///
/// The kernel has no such function: between the answer and the release the lock is free. Who takes it then to unbind the device has done so when the
/// release, which is next in line, gets it, and finds no driver.
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

/// The lock of a device, under which it gets drivers and loses them.
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
        // SAFETY: It was taken by this task, see `new`.
        unsafe { ffi::rkfd_device_unlock(device::as_raw(self.0)) };
    }
}

/// Looks for a driver for `dev`, as when it had just been found: whether it has one then. Sleeps.
pub(crate) fn attach(dev: &Device) -> bool {
    // SAFETY: As above.
    unsafe { ffi::device_attach(device::as_raw(dev)) > 0 }
}
