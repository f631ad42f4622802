// SPDX-License-Identifier: GPL-2.0
//! The C device behind the kernel crate's, which keeps it to itself.

use crate::ffi;
use kernel::device::{Device, DeviceContext};

/// The device behind the C one.
///
/// # Safety
///
/// `raw` must be a device that lives for `'a`.
pub(in crate::kern) unsafe fn from_raw<'a>(raw: *mut ffi::device) -> &'a Device {
    // SAFETY: By this function's contract; `DrmDevice` is a transparent wrapper of an `Opaque`.
    unsafe { &*raw.cast::<Device>() }
}

/// The C device of `dev`: valid as long as `dev` is borrowed or a reference to it is held.
pub(in crate::kern) fn as_raw<Ctx: DeviceContext>(dev: &Device<Ctx>) -> *mut ffi::device {
    // `DrmDevice` is a transparent wrapper of an `Opaque`, so the address is the C structure's.
    core::ptr::from_ref(dev).cast::<ffi::device>().cast_mut()
}
