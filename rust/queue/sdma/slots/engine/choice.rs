// SPDX-License-Identifier: GPL-2.0
//! The queues that a decision of an engine finds in its line: those that may come, and the reasons
//! why others may not.

use super::entry::{QueueKey, ReadyPlace, SlotEntry};
use super::seats::WORK_POLL_MS;
use super::MAX_SLOTS;
use crate::ip::vmid::VmidPool;

/// The processes that have come to the line, or a note that there were too many.
#[derive(Default)]
pub(super) struct NewArrivals {
    pasids: [u16; MAX_SLOTS],
    count: usize,
}

impl NewArrivals {
    /// Adds a process.
    pub(super) fn add(&mut self, pasid: u16) {
        if self.pasids().any(|other| other == pasid) {
            return;
        }
        if let Some(place) = self.pasids.get_mut(self.count) {
            *place = pasid;
        }
        self.count += 1;
    }

    /// Whether there were too many.
    pub(super) fn is_many(&self) -> bool {
        self.count > self.pasids.len()
    }

    /// Some of their PASIDs.
    pub(super) fn pasids(&self) -> impl Iterator<Item = u16> + '_ {
        self.pasids.iter().take(self.count).copied()
    }
}

/// The result of a look at the line.
pub(super) struct SlotChoice<'a> {
    pub(super) vmids: &'a VmidPool,
    /// Slots of the engine.
    pub(super) slots: u8,
    /// The slots that queues have, and those that are never left any more, a bit each.
    pub(super) taken: u32,
    pub(super) lost: u32,
    /// Time that others keep their VMIDs, milliseconds.
    pub(super) vmid_quantum: i64,
    /// The queue that has work and all that it needs.
    pub(super) best: Option<(u64, u64, QueueKey)>,
    /// There is one that only needs a slot.
    pub(super) crowded: bool,
    /// A direct queue without work that can have a slot, so that its doorbell has an effect.
    pub(super) idle: Option<(u16, QueueKey)>,
    /// Milliseconds until there may be more to find.
    pub(super) later: Option<i64>,
    /// VMIDs are wanted or recalled since: [`VmidPool::notify`] is to be called.
    pub(super) notifies: bool,
}

impl SlotChoice<'_> {
    /// Looks at the queue `key`, which stands in line at `place`.
    pub(super) fn consider(&mut self, entry: &SlotEntry, place: &ReadyPlace, key: QueueKey) {
        if entry.rlc.is_direct() {
            self.later = sooner(self.later, WORK_POLL_MS);
        }
        let has_slot = free_slot(self.slots, self.taken).is_some();
        if !entry.has_work() {
            if has_slot && self.idle.is_none() && self.vmids.has_room(place.pasid) {
                self.idle = Some((place.pasid, key));
            }
            return;
        }
        // A queue that cannot get a slot at all keeps no VMID from others.
        if free_slot(self.slots, self.lost).is_none() {
            return;
        }
        if !self.vmids.ask(place.pasid) {
            let wait = self.vmids.wait(place.pasid, self.vmid_quantum);
            self.later = sooner(self.later, wait.ms);
            self.notifies |= wait.notifies;
            return;
        }
        match has_slot {
            true => self.best = first(self.best, (entry.rlc.served(), place.turn, key)),
            false => self.crowded = true,
        }
    }
}

/// A slot, of `slots`, that is not among those that are `taken`, a bit each.
pub(super) fn free_slot(slots: u8, taken: u32) -> Option<u8> {
    (0..slots).find(|slot| taken >> slot & 1 == 0)
}

/// The sooner of two times in milliseconds, of which one may be never.
pub(super) fn sooner(one: Option<i64>, other: i64) -> Option<i64> {
    Some(one.map_or(other, |one| one.min(other)))
}

/// The queue that has waited longer, of two with the turns at which their processes were served and
/// they came out.
fn first(
    one: Option<(u64, u64, QueueKey)>,
    other: (u64, u64, QueueKey),
) -> Option<(u64, u64, QueueKey)> {
    Some(one.map_or(other, |one| one.min(other)))
}
