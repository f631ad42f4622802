// SPDX-License-Identifier: GPL-2.0
//! The driver's own ioctls of a DRM device.
//!
//! DRM copies the caller's structure in (zero-filled if it is shorter than ours) and out.

use kernel::{prelude::*, str::as_char_ptr_in_const_context};

use crate::{
    ffi,
    kern::drm::{file::OpenFile, Device, Driver},
};

/// An ioctl of the driver `D`, which render nodes allow.
pub(crate) trait Ioctl<D: Driver> {
    /// Its structure. Every bit pattern must be a value of it.
    type Args: kernel::transmute::FromBytes;

    /// The whole number, as in `DRM_IOCTL_...`.
    const COMMAND: u32;

    /// Its name.
    const NAME: &'static CStr;

    /// Does it, for `file`. The device is not unplugged meanwhile.
    fn call(file: &OpenFile<'_, D>, args: &mut Self::Args) -> Result;
}

/// A place in the driver's list of ioctls.
#[repr(transparent)]
pub(crate) struct Descriptor(ffi::drm_ioctl_desc);

impl Descriptor {
    /// No ioctl: its number fails with `EINVAL`.
    pub(crate) const NONE: Self = Self(ffi::drm_ioctl_desc {
        cmd: 0,
        flags: 0,
        func: None,
        name: core::ptr::null(),
    });

    /// The ioctl `I`.
    pub(crate) const fn new<D: Driver, I: Ioctl<D>>() -> Self {
        assert!(kernel::ioctl::_IOC_SIZE(I::COMMAND) == size_of::<I::Args>());
        Self(ffi::drm_ioctl_desc {
            cmd: I::COMMAND,
            flags: ffi::drm_ioctl_flags_DRM_RENDER_ALLOW,
            func: Some(callback::<D, I>),
            name: as_char_ptr_in_const_context(I::NAME),
        })
    }
}

/// `drm_ioctl_desc::func`.
///
/// # Safety
///
/// DRM calls it for an open file `raw` of a device `drm` of driver `D`, with a buffer `data` as large as `I`'s command
/// says.
unsafe extern "C" fn callback<D: Driver, I: Ioctl<D>>(
    drm: *mut ffi::drm_device,
    data: *mut c_void,
    raw: *mut ffi::drm_file,
) -> c_int {
    // SAFETY: Only devices of `D` have this ioctl, and DRM holds the device meanwhile.
    let dev = unsafe { Device::<D::Data>::from_raw(drm) };
    // SAFETY: The file is one of that device, and open while it is called.
    let file = unsafe { OpenFile::<D>::new(dev, raw) };
    // SAFETY: DRM's buffer is as long as the command says, which is the size of `Args`; it is nobody else's,
    // and any bytes are a value.
    let args = unsafe { &mut *data.cast::<I::Args>() };
    match dev.while_plugged(|| I::call(&file, args)) {
        Some(Ok(())) => 0,
        Some(Err(e)) => e.to_errno(),
        None => ENODEV.to_errno(),
    }
}
