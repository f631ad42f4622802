// SPDX-License-Identifier: GPL-2.0
//! Memory of a process that is there now, as another thread reads it. Nothing is waited for: a page
//! that is not there may be the business of a program (userfaultfd, FUSE).

use super::mm_exit::AddressSpace;
use super::task;
use crate::ffi;
use kernel::prelude::*;

impl AddressSpace {
    /// Reads dwords at `address`, if their pages are there. For a kernel thread, or a thread of the
    /// process.
    ///
    /// # Errors
    ///
    /// `EFAULT` if a page is not there, or the process has ended; `EPERM` for other threads.
    pub(crate) fn read_present(&self, address: usize, to: &mut [u32]) -> Result {
        let user = self.user().ok_or(EFAULT)?;
        let borrows = !self.is_current();
        if borrows {
            if !task::is_kernel_thread() {
                return Err(EPERM);
            }
            // SAFETY: This is a kernel thread, and `user` keeps the memory until it is given back.
            unsafe { ffi::kthread_use_mm(user.as_raw()) };
        }
        // SAFETY: `to` has room for its own size. The function checks the address.
        let failed = unsafe {
            ffi::copy_from_user_nofault(
                to.as_mut_ptr().cast(),
                address as *const core::ffi::c_void,
                core::mem::size_of_val(to),
            )
        };
        if borrows {
            // SAFETY: It was taken above.
            unsafe { ffi::kthread_unuse_mm(user.as_raw()) };
        }
        match failed {
            0 => Ok(()),
            _ => Err(EFAULT),
        }
    }
}
