// SPDX-License-Identifier: GPL-2.0
//! Device classes, and devices of a class that are on no bus:
//! `/sys/devices/virtual/<class>/<name>`.

use core::ptr::NonNull;

use kernel::error::from_err_ptr;
use kernel::prelude::*;

use crate::ffi;

/// A device class. udev decides which users may open the files of its devices in /dev.
pub(crate) struct DeviceClass(NonNull<ffi::class>);

// SAFETY: A registered class may be used and destroyed from any thread.
unsafe impl Send for DeviceClass {}
// SAFETY: A shared reference only lets devices be created, which the driver core serialises.
unsafe impl Sync for DeviceClass {}

impl DeviceClass {
    /// Registers class `name`.
    ///
    /// # Errors
    ///
    /// The kernel's own error if the name is in use; the kernel also logs it.
    pub(crate) fn new(name: &'static CStr) -> Result<Self> {
        // SAFETY: `name` is a string that outlives the class.
        let class = from_err_ptr(unsafe { ffi::class_create(name.as_char_ptr()) })?;
        NonNull::new(class).map(Self).ok_or(ENOMEM)
    }
}

impl Drop for DeviceClass {
    fn drop(&mut self) {
        // SAFETY: `new` registered it, and each `ClassDevice` owns its class, so no device is left.
        unsafe { ffi::class_destroy(self.0.as_ptr()) };
    }
}

/// A device without a parent, the only one of its class, with a file in /dev.
pub(crate) struct ClassDevice {
    device: NonNull<ffi::device>,
    number: ffi::dev_t,
    class: DeviceClass,
}

// SAFETY: As for `DeviceClass`; the device is only read until it is destroyed.
unsafe impl Send for ClassDevice {}
// SAFETY: As above.
unsafe impl Sync for ClassDevice {}

impl ClassDevice {
    /// Creates device `name` of `class`, whose file opens the character device `number`.
    pub(crate) fn new(class: DeviceClass, name: &CStr, number: ffi::dev_t) -> Result<Self> {
        // SAFETY: The class is registered, the format takes one string, and the name is copied.
        let device = from_err_ptr(unsafe {
            ffi::device_create(
                class.0.as_ptr(),
                core::ptr::null_mut(),
                number,
                core::ptr::null_mut(),
                c"%s".as_char_ptr(),
                name.as_char_ptr(),
            )
        })?;
        Ok(Self {
            device: NonNull::new(device).ok_or(ENOMEM)?,
            number,
            class,
        })
    }

    /// The device's folder in sysfs, as a parent for others; valid as long as the device.
    pub(super) fn kobject(&self) -> *mut ffi::kobject {
        // SAFETY: The device lives as long as `self`.
        unsafe { &raw mut (*self.device.as_ptr()).kobj }
    }
}

impl Drop for ClassDevice {
    fn drop(&mut self) {
        // SAFETY: `new` created the device of this number in this class, and the class is dropped
        // afterwards.
        unsafe { ffi::device_destroy(self.class.0.as_ptr(), self.number) };
    }
}
