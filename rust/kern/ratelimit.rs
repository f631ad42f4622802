// SPDX-License-Identifier: GPL-2.0
//! Rate limit for log lines that processes can cause at will: at most ten in a second, for all
//! processes together.

use crate::ffi;

/// Whether one more such line may be logged. Any context.
pub(crate) fn may_log() -> bool {
    // SAFETY: It has no requirements.
    unsafe { ffi::rkfd_ratelimit() }
}

/// Like the kernel's `dev_warn_ratelimited`, but with one limit for all call sites.
macro_rules! dev_warn_ratelimited {
    ($($arguments:tt)*) => {
        if $crate::kern::ratelimit::may_log() {
            ::kernel::dev_warn!($($arguments)*);
        }
    };
}

/// Like the kernel's `dev_err_ratelimited`, but with one limit for all call sites.
macro_rules! dev_err_ratelimited {
    ($($arguments:tt)*) => {
        if $crate::kern::ratelimit::may_log() {
            ::kernel::dev_err!($($arguments)*);
        }
    };
}

/// Like the kernel's `dev_notice_ratelimited`, but with one limit for all call sites.
macro_rules! dev_notice_ratelimited {
    ($($arguments:tt)*) => {
        if $crate::kern::ratelimit::may_log() {
            ::kernel::dev_notice!($($arguments)*);
        }
    };
}

pub(crate) use {dev_err_ratelimited, dev_notice_ratelimited, dev_warn_ratelimited};
