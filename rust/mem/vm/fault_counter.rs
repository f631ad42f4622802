// SPDX-License-Identifier: GPL-2.0
//! Page faults that repeat although the page is mapped: accesses that the entries do not allow,
//! such as a read where only writes are allowed, an instruction fetch, or a store to doorbells that
//! the GPU does not have. Each looks like an access that was under way when the page was mapped,
//! but it never ends.

use super::Vm;
use hw::va::VaRange;
use kernel::sync::atomic::{Atomic, Relaxed};

/// More faults in a row are no accident: an access that was under way when the page was mapped
/// faults once more at most.
const MOST: u32 = 3;

/// Counts how often the GPU has faulted at a mapping since its entries were written.
pub(super) struct FaultCounter {
    times: Atomic<u32>,
    /// Faults before this position of the interrupt ring were raised before the last one that
    /// counts.
    since: Atomic<u64>,
}

impl FaultCounter {
    /// Creates a counter at zero.
    pub(super) const fn new() -> Self {
        Self {
            times: Atomic::new(0),
            since: Atomic::new(0),
        }
    }

    /// Resets the counter, since the entries were written again.
    pub(super) fn clear(&self) {
        self.times.store(0, Relaxed);
    }

    /// Counts one more fault, which was at `position` of the interrupt ring; `now` is the end of
    /// the ring. Returns whether there are too many. The faults of many accesses at once count as
    /// one. Only one thread at a time calls this.
    fn add(&self, position: u64, now: u64) -> bool {
        let mut times = self.times.load(Relaxed);
        if position >= self.since.load(Relaxed) {
            times = times.saturating_add(1);
            self.times.store(times, Relaxed);
            self.since.store(now, Relaxed);
        }
        times > MOST
    }
}

impl Vm {
    /// Whether a page fault at `page`, which was at `position` of the interrupt ring, is one of
    /// those that repeat although the page is mapped. Only the process's work item for faults calls
    /// this.
    pub(crate) fn is_repeated(&self, page: VaRange, position: u64) -> bool {
        let mapping = self.state.lock().covering(page);
        mapping.is_some_and(|mapping| mapping.repeats().add(position, self.gpu.hw.ih.position()))
    }
}
