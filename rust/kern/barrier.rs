// SPDX-License-Identifier: GPL-2.0
//! Barriers between memory and device that the kernel crate lacks.

use crate::ffi;

/// Stores before it, combined ones among them, come before stores after it, for devices too.
pub(crate) fn wmb() {
    // SAFETY: a barrier has no preconditions.
    unsafe { ffi::rkfd_wmb() }
}

/// Loads before it come before loads after it, for memory that a device writes.
pub(crate) fn rmb() {
    // SAFETY: a barrier has no preconditions.
    unsafe { ffi::rkfd_rmb() }
}
