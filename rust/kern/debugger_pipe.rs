// SPDX-License-Identifier: GPL-2.0
//! The file by which a debugger learns that there is something to ask for.

use kernel::fs::{File, LocalFile};
use kernel::prelude::*;
use kernel::sync::aref::ARef;

use crate::ffi;

/// What amdkfd writes.
const NOTICE: kernel::ffi::c_char = b'.' as kernel::ffi::c_char;

/// An open file. Only a pipe is ever written to: other files could be memory of a program that has
/// to be waited for, or answer to the rights of the writing thread, which is the kernel's.
pub(crate) struct DebuggerPipe(ARef<File>);

impl DebuggerPipe {
    /// The caller's file `fd`, of any kind.
    ///
    /// # Errors
    ///
    /// `EBADF` if there is none.
    pub(crate) fn of_caller(fd: u32) -> Result<Self> {
        let file = LocalFile::fget(fd)?;
        // SAFETY: An ioctl of this thread may use the same file, by `fdget`; nothing uses
        // `fdget_pos`.
        Ok(Self(unsafe { LocalFile::assume_no_fdget_pos(file) }))
    }

    /// Writes a byte. Does nothing to a file that is no pipe, and to a pipe that is full: then its
    /// reader has something to read. Allocates. May sleep, for as long as a reader holds the pipe's
    /// lock: that may be until the page comes that it reads to. So no other thread may wait for it.
    pub(crate) fn notify(&self) {
        // SAFETY: The file is referenced.
        unsafe { ffi::rkfd_pipe_write_byte(self.0.as_ptr(), NOTICE) };
    }
}
