// SPDX-License-Identifier: GPL-2.0
//! Devices of the class hwmon, by which sensors are found: `/sys/class/hwmon/hwmonN`.

use core::ptr::NonNull;

use kernel::device::{Bound, Device};
use kernel::error::from_err_ptr;
use kernel::prelude::*;

use super::device::as_raw;
use super::kobject::SysfsFiles;
use crate::ffi;

/// The files in the form that the driver core takes: a list of one group, which contains them.
struct HwmonGroups {
    list: [*const ffi::attribute_group; 2],
    group: ffi::attribute_group,
    _attributes: KVec<*mut ffi::attribute>,
    _files: SysfsFiles,
}

/// A hwmon device. Dropping it waits for readers of its files, and removes it.
pub(crate) struct HwmonDevice {
    device: NonNull<ffi::device>,
    _groups: KBox<HwmonGroups>,
}

// SAFETY: The device is only unregistered, which any thread may do; the files may move between
// threads.
unsafe impl Send for HwmonDevice {}
// SAFETY: A shared reference allows no operation.
unsafe impl Sync for HwmonDevice {}

impl HwmonDevice {
    /// Registers a device below `parent`. The parent's driver makes it, and drops it before the
    /// unbind ends. `name` has no blanks and no `-`. `files` have the names of sensors
    /// (Documentation/hwmon/sysfs-interface.rst of the kernel). Returns `None` in a kernel without
    /// hwmon.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(
        parent: &Device<Bound>,
        name: &'static CStr,
        files: SysfsFiles,
    ) -> Result<Option<Self>> {
        let mut attributes = files.attributes()?;
        let mut group: ffi::attribute_group = pin_init::zeroed();
        group.__bindgen_anon_2.attrs = attributes.as_mut_ptr();
        let mut groups = KBox::new(
            HwmonGroups {
                list: [core::ptr::null(); 2],
                group,
                _attributes: attributes,
                _files: files,
            },
            GFP_KERNEL,
        )?;
        groups.list = [&raw const groups.group, core::ptr::null()];
        // SAFETY: The parent is bound. List, group and attributes end in a null, are boxed, and
        // stay until the device is gone, and so does the name. The attributes' functions need no
        // data of the device.
        let device = from_err_ptr(unsafe {
            ffi::rkfd_hwmon_device_register(
                as_raw(parent),
                name.as_char_ptr(),
                groups.list.as_mut_ptr(),
            )
        })?;
        Ok(NonNull::new(device).map(|device| Self {
            device,
            _groups: groups,
        }))
    }
}

impl Drop for HwmonDevice {
    fn drop(&mut self) {
        // SAFETY: `new` has registered it.
        unsafe { ffi::rkfd_hwmon_device_unregister(self.device.as_ptr()) };
    }
}
