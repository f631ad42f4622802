// SPDX-License-Identifier: GPL-2.0
//! The calling thread and its process.

use core::fmt;

use crate::ffi;

/// Whether the calling thread is being killed, so that what it asked for is in vain.
pub(crate) fn is_killed() -> bool {
    // SAFETY: A thread may ask this of itself.
    unsafe { ffi::rkfd_fatal_signal_pending() }
}

/// Whether the calling thread is freeing memory for the kernel: whatever process it is of, it should not be held up.
pub(crate) fn is_reclaiming() -> bool {
    // SAFETY: A thread may ask this of itself.
    unsafe { ffi::rkfd_current_is_reclaiming() }
}

/// Whether the calling thread has CAP_SYS_ADMIN.
pub(crate) fn is_admin() -> bool {
    // SAFETY: A thread may ask this of itself.
    unsafe { ffi::capable(ffi::CAP_SYS_ADMIN as i32) }
}

/// Bytes of a process's name: `TASK_COMM_LEN`.
const NAME: usize = 16;

/// The name of a process, for messages.
#[derive(Clone, Copy)]
pub(crate) struct Name([u8; NAME]);

impl Name {
    /// That of the calling process.
    pub(crate) fn of_current() -> Self {
        let mut name = [0; NAME];
        // SAFETY: There is room for the name and its end.
        unsafe { ffi::rkfd_get_process_name(name.as_mut_ptr().cast(), NAME) };
        Self(name)
    }
}

/// On one line: the process chooses the name, so what is neither a letter nor a blank is shown as its number, as the
/// kernel does it in `/proc`.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut letters = self.0.iter().take_while(|&&letter| letter != 0);
        letters.try_for_each(|&letter| match letter {
            b'\\' => f.write_str("\\134"),
            b' '..=b'~' => fmt::Write::write_char(f, char::from(letter)),
            _ => write!(f, "\\{letter:03o}"),
        })
    }
}
