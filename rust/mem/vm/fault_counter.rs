// SPDX-License-Identifier: GPL-2.0
//! Page faults that are retried although the page is mapped: accesses that the entries do not allow, as a read where only writes are,
//! an instruction's fetch, or a store to doorbells that the GPU does not have. They look like one that was under way when the page was mapped,
//! but never end.

use super::Vm;
use hw::va::VaRange;
use kernel::sync::atomic::{Atomic, Relaxed};

/// So many in a row are no accident: an access under way when the page was mapped faults once more at most.
const MOST: u32 = 3;

/// How often the GPU has faulted at a mapping since its entries were written.
pub(super) struct FaultCounter {
    times: Atomic<u32>,
    /// What was in the interrupt ring before this was raised before the last that counts.
    since: Atomic<u64>,
}

impl FaultCounter {
    /// Never.
    pub(super) const fn new() -> Self {
        Self {
            times: Atomic::new(0),
            since: Atomic::new(0),
        }
    }

    /// The entries were written anew.
    pub(super) fn clear(&self) {
        self.times.store(0, Relaxed);
    }

    /// One more, which was at `position` of the interrupt ring, of which `now` is the end; whether there are too many. Those of
    /// many accesses at once count as one. Called by one at a time.
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
    /// Whether a page fault at `page`, which was at `position` of the interrupt ring, is one of those that come again and again although the page is
    /// mapped. Called by the process's work item for them.
    pub(crate) fn is_repeated(&self, page: VaRange, position: u64) -> bool {
        let mapping = self.state.lock().covering(page);
        mapping.is_some_and(|mapping| mapping.repeats().add(position, self.gpu.hw.ih.position()))
    }
}
