// SPDX-License-Identifier: GPL-2.0
//! The ranges that wait for their pages, so that the work item that restores them need not look at
//! all mappings.

use super::Vm;
use kernel::{prelude::*, sync::Arc};

/// The capacity of the first allocation.
const FEWEST: usize = 16;

/// The first addresses of ranges that wait, as a stack. An address may be in it twice, or for a
/// range that does not wait any more. Guarded by [`Vm::evicted`].
#[derive(Default)]
pub(super) struct PendingRanges {
    starts: KVVec<u64>,
    /// The number of ranges that may come to wait; there is room for each.
    ranges: usize,
    /// An address was not pushed for lack of room, because others are in the stack twice.
    overflowed: bool,
}

impl PendingRanges {
    /// Records that the range that starts at `start` waits. Allocates no memory.
    pub(super) fn push(&mut self, start: u64) {
        if self.starts.push_within_capacity(start).is_err() {
            self.overflowed = true;
        }
    }

    /// Returns a range that may be waiting.
    pub(super) fn pop(&mut self) -> Option<u64> {
        self.starts.pop()
    }

    /// Whether more ranges wait than were recorded since the last call.
    pub(super) fn take_overflow(&mut self) -> bool {
        core::mem::take(&mut self.overflowed)
    }
}

/// The reserved room for one range in [`PendingRanges`].
pub(super) struct PendingRoom(Arc<Vm>);

impl PendingRoom {
    /// Reserves the room, so that no memory is allocated when it is needed.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
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
                    // The old vector is freed without the lock.
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
