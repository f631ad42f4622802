// SPDX-License-Identifier: GPL-2.0
//! The calling thread.

use crate::ffi;

/// Whether the calling thread is being killed, so that what it asked for is in vain.
pub(crate) fn is_killed() -> bool {
    // SAFETY: A thread may ask this of itself.
    unsafe { ffi::rkfd_fatal_signal_pending() }
}
