// SPDX-License-Identifier: GPL-2.0
//! A descriptor number that is reserved for the calling task.

use kernel::fs::file::FileDescriptorReservation;
use kernel::fs::File;
use kernel::prelude::*;
use kernel::sync::aref::ARef;

use crate::ffi;

/// A reserved number and the file for it. The task gets the descriptor with [`NewFd::install`],
/// which cannot fail: if an earlier step fails, dropping this undoes everything.
pub(crate) struct NewFd {
    reservation: FileDescriptorReservation,
    file: ARef<File>,
}

impl NewFd {
    /// Reserves a number for `file`, close-on-exec if `cloexec`.
    ///
    /// # Errors
    ///
    /// `EMFILE` if the task has too many open files; `ENOMEM` if there is no memory.
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

    /// Installs the descriptor in the task.
    pub(crate) fn install(self) {
        self.reservation.fd_install(self.file);
    }
}
