// SPDX-License-Identifier: GPL-2.0
//! Which ranges wait for their pages, so that who restores them need not look at all that is mapped.

use super::Vm;
use kernel::{prelude::*, sync::Arc};

/// The first room that is made.
const FEWEST: usize = 16;

/// The first addresses of ranges that wait, the last one on top. One may be there that does not any more, or twice. [`Vm::evicted`]
/// guards it.
#[derive(Default)]
pub(super) struct PendingRanges {
    starts: KVVec<u64>,
    /// How many ranges there are that may come to wait, for each of which there is room.
    ranges: usize,
    /// One was not put down, for which there was no room: there are two of others.
    missed: bool,
}

impl PendingRanges {
    /// The range that starts here waits. Allocates nothing.
    pub(super) fn push(&mut self, start: u64) {
        if self.starts.push_within_capacity(start).is_err() {
            self.missed = true;
        }
    }

    /// One that may wait.
    pub(super) fn pop(&mut self) -> Option<u64> {
        self.starts.pop()
    }

    /// Whether there are more than were put down, from the last call on.
    pub(super) fn take_overflow(&mut self) -> bool {
        core::mem::take(&mut self.missed)
    }
}

/// Room for one range to wait.
pub(super) struct PendingRoom(Arc<Vm>);

impl PendingRoom {
    /// Nothing is allocated once it is needed. ENOMEM.
    pub(super) fn new(vm: &Arc<Vm>) -> Result<Self> {
        let mut more = KVVec::new();
        loop {
            let ranges = {
                let mut evicted = vm.evicted.lock();
                let waiting = &mut evicted.waiting;
                if waiting.ranges < waiting.starts.capacity() {
                    waiting.ranges += 1;
                    drop(evicted);
                    return Ok(Self(vm.clone()));
                }
                if more.capacity() > waiting.ranges {
                    for start in &waiting.starts {
                        let _ = more.push_within_capacity(*start);
                    }
                    core::mem::swap(&mut waiting.starts, &mut more);
                    // The old ones are freed without the lock.
                    continue;
                }
                waiting.ranges
            };
            let wanted = ranges.saturating_mul(2).max(FEWEST);
            more = KVVec::with_capacity(wanted, GFP_KERNEL_ACCOUNT)?;
        }
    }
}

impl Drop for PendingRoom {
    fn drop(&mut self) {
        self.0.evicted.lock().waiting.ranges -= 1;
    }
}
