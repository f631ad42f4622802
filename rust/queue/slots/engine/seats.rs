// SPDX-License-Identifier: GPL-2.0
//! The queues of an engine and their seats: who is in a slot, who waits for one, and who comes and who goes next.
//!
//! All of it is under the engine's spinlock (`Engine::state`): nothing here sleeps or allocates, or loads a queue. What was
//! decided is in the seat, and who loads and unloads goes by that.

use super::super::super::doorbell::Slice;
use super::super::super::rlc::Rlc;
use super::super::Seat;
use super::SLOTS;
use crate::ip::vmid::{Turn, Vmids};
use crate::mem::vm::VmidUse;
use hw::doorbell::SDMA_QUEUES;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::{Instant, Monotonic};

/// How long a working queue keeps its slot while another waits, milliseconds.
const QUANTUM_MS: i64 = 10;
/// How long the working queues of a process keep its VMID while another process waits, milliseconds.
const VMID_QUANTUM_MS: i64 = 20;
/// How often the write pointers of direct queues are looked at that are in no slot, where doorbells find nobody,
/// milliseconds.
const WORK_POLL_MS: i64 = 5;

/// What the hardware is to do next.
pub(super) enum Action {
    /// Load the queue into the slot.
    Load(Arc<Rlc>, u8),
    /// Unload it from there.
    Unload(Arc<Rlc>, u8),
    /// Nothing until so many milliseconds have passed.
    Later(i64),
    /// Nothing until somebody wakes the work item.
    Nothing,
}

/// A queue of an engine.
pub(super) struct Entry {
    pub(super) rlc: Arc<Rlc>,
    /// Where it is.
    pub(super) seat: Seat,
    /// Its VMID, unless it is out.
    pub(super) vmid: Option<VmidUse>,
    /// When it got the slot, or began to wait for one.
    pub(super) since: Instant<Monotonic>,
    /// It is to be out, and stay out.
    pub(super) leaving: bool,
    /// It is to be out for a moment.
    pub(super) cleared: bool,
    /// The only slot that a direct queue can be in: the one that its doorbell goes to.
    own: Option<u8>,
}

impl Entry {
    /// A queue that is in no slot yet; a direct one with its own.
    pub(super) fn new(rlc: Arc<Rlc>, own: Option<u8>) -> Self {
        Self {
            leaving: !rlc.is_runnable(),
            rlc,
            seat: Seat::Out,
            vmid: None,
            since: Instant::now(),
            cleared: false,
            own,
        }
    }

    fn is_runnable(&self) -> bool {
        !self.leaving && self.rlc.is_runnable()
    }

    /// Whether it has something to do, as far as its pointers tell.
    pub(super) fn has_work(&self) -> bool {
        self.rlc.has_work(self.seat == Seat::Out)
    }

    /// Whether it is not on the hardware, and may be.
    fn waits(&self) -> bool {
        self.seat == Seat::Out && self.is_runnable()
    }

    fn pasid(&self) -> u16 {
        self.rlc.owner.pasid
    }
}

/// The queues of an engine, and where they are.
pub(super) struct State {
    pub(super) entries: KVVec<Entry>,
    /// Who is in each slot, coming or going, to be found without a look at all.
    pub(super) seated: [Option<Arc<Rlc>>; SLOTS],
    /// No queue is added any more.
    pub(super) closed: bool,
    /// The engine did not come to rest by a reset: nothing runs on it any more.
    pub(super) lost: bool,
}

impl State {
    /// No queues.
    pub(super) fn new() -> Self {
        Self {
            entries: KVVec::new(),
            seated: [const { None }; SLOTS],
            closed: false,
            lost: false,
        }
    }

    /// The place of a queue among the entries.
    pub(super) fn position(&self, rlc: &Rlc) -> Option<usize> {
        self.entries
            .iter()
            .position(|entry| core::ptr::eq(&*entry.rlc, rlc))
    }

    /// The entry of a queue.
    pub(super) fn find(&mut self, rlc: &Rlc) -> Option<&mut Entry> {
        let index = self.position(rlc)?;
        self.entries.get_mut(index)
    }

    /// Which slots somebody is in whose seat is meant, a bit each.
    pub(super) fn slots(&self, which: impl Fn(Seat) -> bool) -> u32 {
        let seats = self.entries.iter().map(|entry| entry.seat);
        let slots = seats.filter(|&seat| which(seat)).filter_map(Seat::slot);
        slots.fold(0, |mask, slot| mask | 1 << slot)
    }

    /// The slot for one more direct queue with doorbells in `slice`: one that no other queue with doorbells there has,
    /// and that the fewest have.
    pub(super) fn own_slot(&self, slice: &Arc<Slice>) -> Option<u8> {
        let have = |slot| {
            let all = self.entries.iter();
            all.filter(move |entry| entry.own == Some(slot))
        };
        (0..SDMA_QUEUES)
            .filter(|&slot| !have(slot).any(|entry| Arc::ptr_eq(&entry.rlc.slice, slice)))
            .min_by_key(|&slot| have(slot).count())
    }

    /// Decides what comes next, and marks the seat.
    pub(super) fn next(&mut self) -> Action {
        if self.lost {
            return Action::Nothing;
        }
        let Some(gpu) = self.entries.first().map(|entry| entry.rlc.gpu.clone()) else {
            return Action::Nothing;
        };
        let vmids = &*gpu.hw.vmids;
        if let Some(action) = self.leave(vmids) {
            return action;
        }
        let taken = self.slots(|_| true);
        let lost = self.slots(|seat| matches!(seat, Seat::Stuck(_)));
        let mut later = None;
        // Who has work and all that it needs, and who only needs a slot.
        let (mut best, mut crowded) = (None, None);
        for (index, entry) in self.entries.iter().enumerate() {
            if !entry.waits() {
                continue;
            }
            if entry.rlc.is_direct() {
                later = sooner(later, WORK_POLL_MS);
            }
            // Who cannot get a slot at all keeps no VMID from others.
            if !entry.has_work() || slot_for(entry, lost).is_none() {
                continue;
            }
            let this = (index, entry.since);
            match vmids.turn(entry.pasid(), VMID_QUANTUM_MS) {
                Turn::In(ms) => later = sooner(later, ms),
                Turn::Now if slot_for(entry, taken).is_some() => best = longer(best, this),
                Turn::Now => crowded = longer(crowded, this),
            }
        }
        if let Some((index, _)) = best {
            return self.enter(index, taken);
        }
        if let Some((index, _)) = crowded {
            match self.make_room(index) {
                Action::Later(ms) => later = sooner(later, ms),
                // Only leaving or stuck queues: one of them will say when it is gone.
                Action::Nothing => {}
                action => return action,
            }
        }
        // Doorbells of direct queues that have no work yet find them, where that is free.
        let idle = self.entries.iter().position(|entry| {
            entry.waits()
                && entry.rlc.is_direct()
                && slot_for(entry, taken).is_some()
                && vmids.has_room(entry.pasid())
        });
        match (idle, later) {
            (Some(index), _) => self.enter(index, taken),
            (None, Some(ms)) => Action::Later(ms),
            (None, None) => Action::Nothing,
        }
    }

    /// One who is not to run any more leaves, or has no work while others want its VMID, or has had its turn.
    fn leave(&mut self, vmids: &Vmids) -> Option<Action> {
        let wanted = vmids.is_wanted();
        let leaves = |entry: &Entry| {
            !entry.is_runnable()
                || entry.cleared
                || wanted && !entry.has_work()
                || entry.vmid.as_ref().is_some_and(VmidUse::is_recalled)
        };
        for entry in self.entries.iter_mut() {
            if let Seat::In(slot) = entry.seat {
                if leaves(entry) {
                    entry.seat = Seat::Leaving(slot);
                    return Some(Action::Unload(entry.rlc.clone(), slot));
                }
            }
        }
        None
    }

    /// Entry `index`, for which there is a slot, comes.
    fn enter(&mut self, index: usize, taken: u32) -> Action {
        let Some(entry) = self.entries.get_mut(index) else {
            return Action::Nothing;
        };
        match slot_for(entry, taken) {
            Some(slot) => {
                entry.seat = Seat::Loading(slot);
                let rlc = entry.rlc.clone();
                if let Some(place) = self.seated.get_mut(usize::from(slot)) {
                    // It was empty.
                    *place = Some(rlc.clone());
                }
                Action::Load(rlc, slot)
            }
            None => Action::Nothing,
        }
    }

    /// Has a queue leave a slot that entry `index` could have: one without work, or else the one that has been in longest, once
    /// it has had its turn.
    fn make_room(&mut self, index: usize) -> Action {
        let own = self.entries.get(index).and_then(|entry| entry.own);
        let inside = |entry: &&mut Entry| match entry.seat {
            Seat::In(slot) => own.is_none_or(|own| own == slot),
            _ => false,
        };
        let left = |entry: &Entry| match entry.has_work() {
            true => QUANTUM_MS - entry.since.elapsed().as_millis(),
            false => i64::MIN,
        };
        let victim = self.entries.iter_mut().filter(inside);
        let Some(entry) = victim.min_by_key(|entry| left(entry)) else {
            return Action::Nothing;
        };
        match (left(entry), entry.seat) {
            (left @ 1.., _) => Action::Later(left),
            (_, Seat::In(slot)) => {
                entry.seat = Seat::Leaving(slot);
                Action::Unload(entry.rlc.clone(), slot)
            }
            _ => Action::Nothing,
        }
    }
}

/// The slot that a queue can be put into now.
fn slot_for(entry: &Entry, taken: u32) -> Option<u8> {
    let is_free = |&slot: &u8| taken >> slot & 1 == 0;
    match entry.own {
        Some(slot) => Some(slot).filter(is_free),
        None => (0..SDMA_QUEUES).find(is_free),
    }
}

/// The sooner of two times in milliseconds, of which one may be never.
fn sooner(one: Option<i64>, other: i64) -> Option<i64> {
    Some(one.map_or(other, |one| one.min(other)))
}

/// Of the entries whose indices and times are `one` and `other`, the one that has waited longer.
fn longer(
    one: Option<(usize, Instant<Monotonic>)>,
    other: (usize, Instant<Monotonic>),
) -> Option<(usize, Instant<Monotonic>)> {
    Some(
        one.filter(|one| one.1.elapsed() >= other.1.elapsed())
            .unwrap_or(other),
    )
}
