// SPDX-License-Identifier: GPL-2.0
//! Memory barriers between CPU and device that the kernel crate lacks.

use crate::ffi;

/// Orders earlier stores, write-combined ones included, before later stores, also as devices see
/// them.
pub(crate) fn wmb() {
    // SAFETY: A barrier has no preconditions.
    unsafe { ffi::rkfd_wmb() }
}

/// Orders earlier loads before later loads, for memory that a device writes.
pub(crate) fn rmb() {
    // SAFETY: A barrier has no preconditions.
    unsafe { ffi::rkfd_rmb() }
}
