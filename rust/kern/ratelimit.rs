// SPDX-License-Identifier: GPL-2.0
//! Rate limits for log lines that processes can cause at will: one for each line, so that one cause
//! does not hide another, and within it one for each process, so that one process does not hide
//! another's.

use super::host;
use super::log_limit::{self, LogVerdict, LogWindow};
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::time::NSEC_PER_SEC;

/// The limit of one line. Processes share [`log_limit::PLACES`] places by their numbers.
pub(crate) struct LogLimit {
    all: Atomic<u64>,
    of_process: [Atomic<u64>; log_limit::PLACES],
}

impl LogLimit {
    /// Nothing was logged yet.
    pub(crate) const fn new() -> Self {
        Self {
            all: Atomic::new(LogWindow::EMPTY.word()),
            of_process: [const { Atomic::new(LogWindow::EMPTY.word()) }; log_limit::PLACES],
        }
    }

    /// Whether the line may be logged once more, for `process`: a process's number or PASID, 0 if
    /// it concerns no process. Returns how many such lines were left out before. Any context.
    pub(crate) fn may_log(&self, process: i64) -> Option<u64> {
        let second = (host::boot_ns() / NSEC_PER_SEC as u64) as u32;
        let own = self.of_process.get(log_limit::place(process))?;
        let before = next(own, second, log_limit::MOST_OF_PROCESS)?;
        let more = next(&self.all, second, log_limit::MOST)?;
        Some(before.saturating_add(more))
    }
}

/// Counts a line in `window`.
fn next(window: &Atomic<u64>, second: u32, most: u64) -> Option<u64> {
    let mut word = window.load(Relaxed);
    loop {
        let (next, verdict) = LogWindow::from_word(word).next(second, most);
        match window.cmpxchg(word, next.word(), Relaxed) {
            Ok(_) => {
                return match verdict {
                    LogVerdict::Write { left_out } => Some(left_out),
                    LogVerdict::LeaveOut => None,
                }
            }
            Err(now) => word = now,
        }
    }
}

/// Logs with `$log` if the limit of this line allows it.
macro_rules! log_ratelimited {
    ($log:ident, $process:expr, $dev:expr, $($arguments:tt)*) => {{
        static LIMIT: $crate::kern::ratelimit::LogLimit =
            $crate::kern::ratelimit::LogLimit::new();
        if let Some(left_out) = LIMIT.may_log(i64::from($process)) {
            if left_out != 0 {
                ::kernel::dev_notice!(
                    $dev,
                    "{left_out} lines like the next one were left out\n"
                );
            }
            ::kernel::$log!($dev, $($arguments)*);
        }
    }};
}

/// Like the kernel's `dev_err_ratelimited`. With `process NUMBER,` in front, one process does not
/// hide the lines of another.
macro_rules! dev_err_ratelimited {
    (process $process:expr, $($arguments:tt)*) => {
        $crate::kern::ratelimit::log_ratelimited!(dev_err, $process, $($arguments)*)
    };
    ($($arguments:tt)*) => {
        $crate::kern::ratelimit::log_ratelimited!(dev_err, 0, $($arguments)*)
    };
}

/// Like [`dev_err_ratelimited`], for a warning.
macro_rules! dev_warn_ratelimited {
    (process $process:expr, $($arguments:tt)*) => {
        $crate::kern::ratelimit::log_ratelimited!(dev_warn, $process, $($arguments)*)
    };
    ($($arguments:tt)*) => {
        $crate::kern::ratelimit::log_ratelimited!(dev_warn, 0, $($arguments)*)
    };
}

/// Like [`dev_err_ratelimited`], for a notice.
macro_rules! dev_notice_ratelimited {
    ($($arguments:tt)*) => {
        $crate::kern::ratelimit::log_ratelimited!(dev_notice, 0, $($arguments)*)
    };
}

pub(crate) use {
    dev_err_ratelimited, dev_notice_ratelimited, dev_warn_ratelimited, log_ratelimited,
};
