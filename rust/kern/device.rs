// SPDX-License-Identifier: GPL-2.0
//! The C device behind the kernel crate's `Device`, which the crate does not expose.

use crate::ffi;
use kernel::device::{Device, DeviceContext};

/// The `Device` of a C device.
///
/// # Safety
///
/// `raw` must be a device that lives for `'a`.
pub(in crate::kern) unsafe fn from_raw<'a>(raw: *mut ffi::device) -> &'a Device {
    // SAFETY: By this function's contract; `Device` is a transparent wrapper of an `Opaque`.
    unsafe { &*raw.cast::<Device>() }
}

/// The C device of `dev`; valid as long as `dev` is borrowed or referenced.
pub(in crate::kern) fn as_raw<Ctx: DeviceContext>(dev: &Device<Ctx>) -> *mut ffi::device {
    // `Device` is a transparent wrapper of an `Opaque`, so the address is that of the C structure.
    core::ptr::from_ref(dev).cast::<ffi::device>().cast_mut()
}
