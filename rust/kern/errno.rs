// SPDX-License-Identifier: GPL-2.0
//! Error numbers that the kernel crate does not define.

use kernel::error::Error;

/// `EOPNOTSUPP`: the operation is known, but not supported.
pub(crate) fn not_supported() -> Error {
    Error::from_errno(-(crate::ffi::EOPNOTSUPP as i32))
}

/// `ETIME`: an event did not happen in time. Linux 7.2 does not define it.
pub(crate) fn timer_expired() -> Error {
    Error::from_errno(-(crate::ffi::ETIME as i32))
}

/// `EINPROGRESS`: the operation is in progress. Linux 7.2 does not define it.
pub(crate) fn in_progress() -> Error {
    Error::from_errno(-(crate::ffi::EINPROGRESS as i32))
}

/// `ENODATA`: there is nothing to read. Linux 7.2 does not define it.
pub(crate) fn no_data() -> Error {
    Error::from_errno(-(crate::ffi::ENODATA as i32))
}

/// `EADDRINUSE`: the address is in use.
pub(crate) fn address_in_use() -> Error {
    Error::from_errno(-(crate::ffi::EADDRINUSE as i32))
}

/// `EREMOTEIO`: a device does not reach the memory of another one.
pub(crate) fn remote_io() -> Error {
    Error::from_errno(-(crate::ffi::EREMOTEIO as i32))
}
