// SPDX-License-Identifier: GPL-2.0
//! A descriptor that the calling task is about to get.

use kernel::fs::file::FileDescriptorReservation;
use kernel::fs::File;
use kernel::prelude::*;
use kernel::sync::aref::ARef;

use crate::ffi;

/// A number and the file that it will be of. The task has it from [`NewFd::install`] on, which cannot fail: when what
/// comes before does, nothing is left behind.
pub(crate) struct NewFd {
    reservation: FileDescriptorReservation,
    file: ARef<File>,
}

impl NewFd {
    /// A number for `file`, close-on-exec if `cloexec`. EMFILE, ENOMEM.
    pub(crate) fn new(file: ARef<File>, cloexec: bool) -> Result<Self> {
        let flags = if cloexec { ffi::O_CLOEXEC } else { 0 };
        Ok(Self {
            reservation: FileDescriptorReservation::get_unused_fd_flags(flags)?,
            file,
        })
    }

    /// The number.
    pub(crate) fn number(&self) -> u32 {
        self.reservation.reserved_fd()
    }

    /// Gives it to the task.
    pub(crate) fn install(self) {
        self.reservation.fd_install(self.file);
    }
}
