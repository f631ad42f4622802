// SPDX-License-Identifier: GPL-2.0
//! Lines of the log that processes can cause as often as they like: at most ten in a second, whoever causes them.

use crate::ffi;

/// Whether one more such line may go to the log. Any context.
pub(crate) fn may_log() -> bool {
    // SAFETY: It has no requirements.
    unsafe { ffi::rkfd_ratelimit() }
}

/// As the kernel's `dev_warn_ratelimited`, but for the limit, which is one for all.
macro_rules! dev_warn_ratelimited {
    ($($arguments:tt)*) => {
        if $crate::kern::ratelimit::may_log() {
            ::kernel::dev_warn!($($arguments)*);
        }
    };
}

/// As the kernel's `dev_err_ratelimited`, but for the limit, which is one for all.
macro_rules! dev_err_ratelimited {
    ($($arguments:tt)*) => {
        if $crate::kern::ratelimit::may_log() {
            ::kernel::dev_err!($($arguments)*);
        }
    };
}

pub(crate) use {dev_err_ratelimited, dev_warn_ratelimited};
