// SPDX-License-Identifier: GPL-2.0
//! Devices of the class hwmon, by which sensors are found: `/sys/class/hwmon/hwmonN`.

use core::ptr::NonNull;

use kernel::device::{Bound, Device};
use kernel::error::from_err_ptr;
use kernel::prelude::*;

use super::device::as_raw;
use super::kobject::SysfsFiles;
use crate::ffi;

/// The files as the driver core wants them: a list of one group, which names them.
struct HwmonGroups {
    list: [*const ffi::attribute_group; 2],
    group: ffi::attribute_group,
    _attributes: KVec<*mut ffi::attribute>,
    _files: SysfsFiles,
}

/// A hwmon device. It goes when this is dropped, after who reads its files.
pub(crate) struct HwmonDevice {
    device: NonNull<ffi::device>,
    _groups: KBox<HwmonGroups>,
}

// SAFETY: The device is only given back, which any thread may do; the files may go anywhere.
unsafe impl Send for HwmonDevice {}
// SAFETY: Nothing can be done with a shared reference.
unsafe impl Sync for HwmonDevice {}

impl HwmonDevice {
    /// A device below `parent`, which its driver makes, until it is unbound at the latest; `name` has no blanks and no `-`. Its files are
    /// `files`, by the names that sensors have (Documentation/hwmon/sysfs-interface.rst of the kernel). None in a kernel without hwmon. ENOMEM.
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
        // SAFETY: The parent is bound. List, group and attributes end in a null, are boxed, and stay until the device is gone, and so does
        // the name. The attributes' functions want no data of the device.
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
