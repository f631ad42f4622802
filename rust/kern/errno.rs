// SPDX-License-Identifier: GPL-2.0
//! Error numbers that the kernel crate does not name.

use kernel::error::Error;

/// The operation is known, but not supported.
pub(crate) fn not_supported() -> Error {
    Error::from_errno(-(crate::ffi::EOPNOTSUPP as i32))
}
