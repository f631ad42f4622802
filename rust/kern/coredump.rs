// SPDX-License-Identifier: GPL-2.0
//! Device core dumps: a text about a device that has failed, in
//! `/sys/class/devcoredump/devcd<N>/data`. It is there for five minutes, or until a process writes
//! to that file. A device has one at a time: the first is kept,
//! unless it is discarded.

use core::fmt;

use kernel::device::Device;
use kernel::prelude::*;

use super::device;
use crate::ffi;

/// A text of limited length. Text that does not fit is left out: writing allocates nothing.
pub(crate) struct DumpText(VVec<u8>);

impl DumpText {
    /// An empty text with room for `bytes`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(bytes: usize) -> Result<Self> {
        Ok(Self(VVec::with_capacity(bytes, GFP_KERNEL)?))
    }

    /// Publishes the text as the core dump of `dev`. Does nothing in a kernel without core dumps.
    pub(crate) fn show(self, dev: &Device) {
        let (text, length, _) = self.0.into_raw_parts();
        // SAFETY: The device is valid. The memory is from vmalloc and has no other owner: the
        // kernel frees it.
        unsafe { ffi::rkfd_dev_coredumpv(device::as_raw(dev), text.cast(), length) };
    }
}

/// Removes the core dump of `dev`, if it has one. May sleep.
pub(crate) fn discard(dev: &Device) {
    // SAFETY: The device is valid.
    unsafe { ffi::rkfd_dev_coredump_put(device::as_raw(dev)) };
}

impl fmt::Write for DumpText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.0.push_within_capacity(byte).is_err() {
                break;
            }
        }
        Ok(())
    }
}
