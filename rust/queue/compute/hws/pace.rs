// SPDX-License-Identifier: GPL-2.0
//! Minimum time between two lists: taking the queues off costs all of them time, and every change
//! of a queue requires it.

use kernel::time::{Delta, Instant, Monotonic};

/// A list runs for at least this many times the time that its installation in place of the previous
/// one took.
const TIMES: i64 = 16;
/// Upper limit of that time: a change does not wait longer for the running list.
const MOST: Delta = Delta::from_millis(20);

/// Cost of the lists so far.
#[derive(Clone, Copy)]
pub(crate) struct ListCosts {
    /// Number of lists.
    pub(crate) count: u64,
    /// Total time in which no list ran, because one replaced another.
    pub(crate) between: Delta,
}

/// The pace of lists, see the module.
pub(super) struct RunlistPace {
    /// When the last list started.
    began: Instant<Monotonic>,
    /// How long it is to run at least.
    least: Delta,
    lists: ListCosts,
}

impl RunlistPace {
    /// Returns the pace before the first list.
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            least: Delta::ZERO,
            lists: ListCosts {
                count: 0,
                between: Delta::ZERO,
            },
        }
    }

    /// Records that a list has started, which took `took` to install.
    pub(super) fn has_begun(&mut self, took: Delta) {
        self.lists.count += 1;
        self.lists.between += took;
        self.least = (took.min(MOST) * TIMES).min(MOST);
        self.began = Instant::now();
    }

    /// Remaining time that the list is to run; `None` if it has run for long enough.
    pub(super) fn left(&self) -> Option<Delta> {
        let left = self.least - self.began.elapsed();
        (left > Delta::ZERO).then_some(left)
    }

    /// Cost of the lists so far.
    pub(super) fn lists(&self) -> ListCosts {
        self.lists
    }
}
