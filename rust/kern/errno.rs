// SPDX-License-Identifier: GPL-2.0
//! Error numbers that the kernel crate does not name.

use kernel::error::Error;

/// The operation is known, but not supported.
pub(crate) fn not_supported() -> Error {
    Error::from_errno(-(crate::ffi::EOPNOTSUPP as i32))
}

/// Something did not happen in its time. Linux 7.2 does not name it.
pub(crate) fn timer_expired() -> Error {
    Error::from_errno(-(crate::ffi::ETIME as i32))
}

/// Something is on its way. Linux 7.2 does not name it.
pub(crate) fn in_progress() -> Error {
    Error::from_errno(-(crate::ffi::EINPROGRESS as i32))
}

/// There is nothing to read. Linux 7.2 does not name it.
pub(crate) fn no_data() -> Error {
    Error::from_errno(-(crate::ffi::ENODATA as i32))
}

/// Something else is there.
pub(crate) fn address_in_use() -> Error {
    Error::from_errno(-(crate::ffi::EADDRINUSE as i32))
}

/// A device does not reach what another one has.
pub(crate) fn remote_io() -> Error {
    Error::from_errno(-(crate::ffi::EREMOTEIO as i32))
}
