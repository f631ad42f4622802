// SPDX-License-Identifier: GPL-2.0
//! When it is looked again for memory that is not there: soon, and later and later while it cannot be had.

/// When it is looked first, milliseconds: other changes may follow.
pub(super) const SOON_MS: u32 = 1;
/// Mappings that one run of the work item restores, at most.
pub(super) const RUN: u32 = 256;
/// The longest time between two tries, log2 of milliseconds.
const MOST_DELAY: u32 = 8;
/// So many failures in a row, half a minute, are enough to go on without the memory.
const MOST_FAILURES: u32 = 120;

/// Failures in a row.
#[derive(Default)]
pub(crate) struct RetryBackoff {
    failures: u32,
}

impl RetryBackoff {
    /// One more: in how many milliseconds the next try is due.
    pub(crate) fn fail(&mut self) -> u32 {
        let delay = SOON_MS << self.failures.min(MOST_DELAY);
        self.failures = self.failures.saturating_add(1);
        delay
    }

    /// Whether the last try failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// Whether it has been tried for long enough.
    pub(crate) fn is_enough(&self) -> bool {
        self.failures >= MOST_FAILURES
    }
}
