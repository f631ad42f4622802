// SPDX-License-Identifier: GPL-2.0
//! How soon a list may follow another: to take its queues off costs all of them, and whoever changes a queue has that done.

use kernel::time::{Delta, Instant, Monotonic};

/// A list runs for so many times as long as it took to put it in the place of the one before.
const TIMES: i64 = 16;
/// But nobody waits longer for it than this.
const MOST: Delta = Delta::from_millis(20);

/// What lists have cost.
#[derive(Clone, Copy)]
pub(crate) struct ListCosts {
    /// How many there were.
    pub(crate) count: u64,
    /// For how long in all none ran, as one was put in the place of another.
    pub(crate) between: Delta,
}

/// See the module.
pub(super) struct RunlistPace {
    /// When the last list began.
    began: Instant<Monotonic>,
    /// For how long it is to run.
    least: Delta,
    lists: ListCosts,
}

impl RunlistPace {
    /// No list yet.
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

    /// A list has begun, which took so long.
    pub(super) fn has_begun(&mut self, took: Delta) {
        self.lists.count += 1;
        self.lists.between += took;
        self.least = (took.min(MOST) * TIMES).min(MOST);
        self.began = Instant::now();
    }

    /// For how long the list is still to run; none when it has run for long enough.
    pub(super) fn left(&self) -> Option<Delta> {
        let left = self.least - self.began.elapsed();
        (left > Delta::ZERO).then_some(left)
    }

    /// What lists have cost.
    pub(super) fn lists(&self) -> ListCosts {
        self.lists
    }
}
