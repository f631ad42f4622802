// SPDX-License-Identifier: GPL-2.0
//! The delays between tries to get memory that is not available: short at first, and longer while
//! they fail.

/// The delay before the first try, milliseconds: other changes may follow.
pub(super) const SOON_MS: u32 = 1;
/// The limit of mappings that one run of the work item restores.
pub(super) const RUN: u32 = 256;
/// The longest delay between two tries, log2 of milliseconds.
const MAX_DELAY: u32 = 8;
/// After this many failures in a row, half a minute, the queues go on without the memory.
const MAX_FAILURES: u32 = 120;

/// Failures in a row.
#[derive(Default)]
pub(crate) struct RetryBackoff {
    failures: u32,
}

impl RetryBackoff {
    /// Counts one more failure. Returns after how many milliseconds the next try is due.
    pub(crate) fn fail(&mut self) -> u32 {
        let delay = SOON_MS << self.failures.min(MAX_DELAY);
        self.failures = self.failures.saturating_add(1);
        delay
    }

    /// Whether the last try failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// Whether there were enough tries.
    pub(crate) fn is_enough(&self) -> bool {
        self.failures >= MAX_FAILURES
    }
}
