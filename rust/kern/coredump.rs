// SPDX-License-Identifier: GPL-2.0
//! Device core dumps: a text about a device that has failed, in `/sys/class/devcoredump/devcd<N>/data` for five minutes, or until
//! somebody writes to that file. One of a device at a time: the first is kept.

use core::fmt;

use kernel::device::Device;
use kernel::prelude::*;

use super::device;
use crate::ffi;

/// A text of limited length. What does not fit is left out: writing it allocates nothing.
pub(crate) struct DumpText(VVec<u8>);

impl DumpText {
    /// Nothing, with room for `bytes`. ENOMEM.
    pub(crate) fn new(bytes: usize) -> Result<Self> {
        Ok(Self(VVec::with_capacity(bytes, GFP_KERNEL)?))
    }

    /// Shows it as what is to be known of `dev`. In a kernel without core dumps nothing happens.
    pub(crate) fn show(self, dev: &Device) {
        let (text, length, _) = self.0.into_raw_parts();
        // SAFETY: The device is valid. The memory is of vmalloc, and nobody's any more: the kernel frees it.
        unsafe { ffi::rkfd_dev_coredumpv(device::as_raw(dev), text.cast(), length) };
    }
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
