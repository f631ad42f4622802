// SPDX-License-Identifier: GPL-2.0
//! The queues of an engine and their seats: which queues are in a slot, which wait for one, and
//! which comes and which goes next.
//!
//! All of it is under the engine's spinlock (`EngineSlots::state`): nothing here sleeps or
//! allocates, or loads a queue. [`pieces`] has the steps by which queues leave.
//!
//! A process can have many queues. Each decision looks only at the queues that are in a slot and at
//! one of each process that waits: a queue that is out and has something to do stands in line
//! (`waiting`), behind the others of its process. It gets there when work is put into it, when it
//! comes out with some left, and when it may run again. It leaves the line when it gets a slot, or
//! when it is found there with nothing to do. A direct queue, which gets work without the driver's
//! notice, stands there whenever it is out: a decision looks past those that have none.
//!
//! Of the queues at the head, the one comes next whose process was last given a slot longest ago: a
//! process with many queues does not make others wait longer than a process with one.
//!
//! There may be thousands of processes, of which few can come: those that have a VMID, or are the
//! first that wait for one. A decision looks at these, and at processes that are new in the line.
//! Of the others it looks at some at a time ([`EngineSeats::survey`]), so that they keep their
//! places among the processes that wait for VMIDs.

mod pieces;

use super::super::super::hw_queue::SdmaHwQueue;
use super::choice::{free_slot, sooner, NewArrivals, SlotChoice};
use super::departed::{DepartedQueues, Settlement};
use super::entry::{EntryMemory, QueueKey, ReadyPlace, SlotEntry};
use super::MAX_SLOTS;
use crate::ip::vmid::VmidPool;
use crate::mem::vm::VmidUse;
use hw::latency_average::LatencyAverage;
use hw::sdma::seat::{leaves_within, EngineTable, LoadPermit, SeatAction, SeatEvent, SeatStep};
use hw::seat::Seat;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::Arc;
use kernel::time::{Delta, Instant, Monotonic};

/// Time that a working queue keeps its slot at least while another waits, milliseconds.
const QUANTUM_MS: i64 = 10;
/// The quantum of a slot is at least as long as queues have lately taken to be loaded, so many
/// times for each slot of the engine. A change of queues takes about half as long again. Where
/// registers are slow, as they are in a virtual machine, the changes of all slots must not take
/// more than half of the time, as the work items that make them come before all programs.
const QUANTUM_LOADS: i64 = 3;
/// The longest quantum that comes of that, milliseconds.
const MOST_QUANTUM_MS: i64 = 1000;
/// Time that the working queues of a process keep its VMID at least while another process waits,
/// milliseconds. All of them leave for that, so it is not less than the quantum of a slot.
const VMID_QUANTUM_MS: i64 = 20;
/// Time between two looks at the write pointers of direct queues that are in no slot, where
/// doorbells have no effect, milliseconds.
pub(super) const WORK_POLL_MS: i64 = 5;
/// Time between two surveys of the line, milliseconds: of at least [`FEW`] and a [`PARTS`]th of it
/// at a time, so that every process asks for a VMID several times before its place is forgotten.
const SURVEY_MS: i64 = 25;
const FEW: usize = 16;
const PARTS: usize = 8;

/// The next step of the work item.
pub(super) enum SlotAction {
    /// Clear up after queues that have left.
    Settle(Settlement),
    /// Load the queue.
    Load(Arc<SdmaHwQueue>, LoadPermit),
    /// Reset the engine, as the queue does not leave it.
    Reset(QueueKey),
    /// Decide again: queues have left, or were asked to.
    Again,
    /// Nothing until so many milliseconds have passed.
    Later(i64),
    /// Nothing until the work item is woken.
    Nothing,
}

/// The queues of an engine, and where they are.
pub(super) struct EngineSeats {
    /// Slots of the engine, at most [`MAX_SLOTS`].
    slots: u8,
    queues: RBTree<QueueKey, SlotEntry>,
    /// How many there are, and how many of them are direct.
    count: usize,
    direct: usize,
    /// The doorbells of a process that queues may have, a bit each.
    own_doorbells: u32,
    /// The line, and its length.
    waiting: RBTree<ReadyPlace, QueueKey>,
    standing: usize,
    /// Processes with queues that have come to the line since the last decision.
    new: NewArrivals,
    /// When the line was surveyed, and where the next survey begins.
    surveyed: Instant<Monotonic>,
    cursor: ReadyPlace,
    /// The number of the next time that a queue comes or goes.
    turn: u64,
    /// The time that queues usually take to be loaded.
    load: LatencyAverage,
    /// The slots, with the queues that are in them, come or go.
    pub(super) table: EngineTable<Arc<SdmaHwQueue>, MAX_SLOTS>,
    departed: DepartedQueues,
    /// The work item is clearing up after queues that have left.
    settling: bool,
    /// How many threads look at queues without the lock. Until there are none, queues stay.
    looks: usize,
    /// No queue is added any more.
    pub(super) closed: bool,
    /// The last decision found processes that wait for a slot here, or for a VMID: a queue that
    /// runs out of work gives its place to them at once.
    awaited: bool,
    /// A decision has changed which VMIDs are wanted or recalled, of which the GPU's engines are to
    /// be told without the lock.
    pub(super) notifies: bool,
}

/// What an event of a queue leads to: see [`EngineSeats::apply`].
pub(super) type QueueStep = SeatStep<Arc<SdmaHwQueue>>;

impl EngineSeats {
    /// No queues in `slots` slots. The description of a chip has at most [`MAX_SLOTS`]. A direct or
    /// followed queue has one of the doorbells `own_doorbells` of its process, a bit each.
    pub(super) fn new(slots: u8, own_doorbells: u32) -> Self {
        Self {
            slots,
            queues: RBTree::new(),
            count: 0,
            direct: 0,
            own_doorbells,
            waiting: RBTree::new(),
            standing: 0,
            new: NewArrivals::default(),
            surveyed: Instant::now(),
            cursor: ReadyPlace::FIRST,
            turn: 1,
            load: LatencyAverage::new(),
            table: EngineTable::new(),
            departed: DepartedQueues::default(),
            settling: false,
            looks: 0,
            closed: false,
            awaited: false,
            notifies: false,
        }
    }

    /// Slots of the engine.
    pub(super) fn slots(&self) -> u8 {
        self.slots
    }

    /// How many queues there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Adds a queue, which is in no slot yet.
    pub(super) fn add(&mut self, rlc: Arc<SdmaHwQueue>, room: EntryMemory) {
        let key = QueueKey::of(&rlc);
        self.direct += usize::from(rlc.is_direct());
        let entry = SlotEntry::new(rlc, self.next_turn(), room.place);
        self.count += 1;
        // There is no other with this key.
        let _ = self.queues.insert(room.entry.into_node(key, entry));
        self.line_up(&key);
    }

    /// Removes a queue, which the caller drops without the lock.
    pub(super) fn remove(&mut self, rlc: &SdmaHwQueue) -> Option<RBTreeNode<QueueKey, SlotEntry>> {
        let key = QueueKey::of(rlc);
        self.step_out(&key);
        self.queues.get(&key)?;
        self.count = self.count.saturating_sub(1);
        self.direct = self.direct.saturating_sub(rlc.is_direct().into());
        self.queues.remove_node(&key)
    }

    /// Ends it: no queue is there any more, and none is added. Returns the queues, which the caller
    /// drops without the lock, once no thread looks at them any more.
    pub(super) fn close(&mut self) -> Self {
        let mut closed = Self {
            closed: true,
            settling: self.settling,
            looks: self.looks,
            ..Self::new(self.slots, self.own_doorbells)
        };
        if self.table.is_lost() {
            closed.table.set_lost();
        }
        core::mem::replace(self, closed)
    }

    /// One of the queues.
    pub(super) fn any(&self) -> Option<&Arc<SdmaHwQueue>> {
        Some(&self.queues.values().next()?.rlc)
    }

    /// The entry of a queue.
    pub(super) fn find(&mut self, rlc: &SdmaHwQueue) -> Option<&mut SlotEntry> {
        self.queues.get_mut(&QueueKey::of(rlc))
    }

    /// The first entry with a key of at least `from`.
    pub(super) fn next_from(&self, from: &QueueKey) -> Option<(QueueKey, &SlotEntry)> {
        let key = *self.queues.cursor_lower_bound(from)?.current().0;
        Some((key, self.queues.get(&key)?))
    }

    /// The entries of process `pasid`.
    pub(super) fn of_process(&self, pasid: u16) -> impl Iterator<Item = &SlotEntry> {
        let mut from = QueueKey::first_of(pasid);
        core::iter::from_fn(move || {
            let (key, entry) = self
                .next_from(&from)
                .filter(|(key, _)| key.pasid == pasid)?;
            from = key.next();
            Some(entry)
        })
    }

    /// The entry of the queue that has slot `slot`.
    pub(super) fn seated_at(&self, slot: u8) -> Option<(QueueKey, &SlotEntry)> {
        let key = QueueKey::of(self.table.slots().get(slot)?);
        Some((key, self.queues.get(&key)?))
    }

    /// The entries of the queues that are in a slot, come or go.
    fn seated(&self) -> impl Iterator<Item = &SlotEntry> {
        let seated = self.table.slots().queues();
        seated.filter_map(|rlc| self.queues.get(&QueueKey::of(rlc)))
    }

    /// The entries of the queues that are in a slot.
    pub(super) fn inside(&self) -> impl Iterator<Item = &SlotEntry> {
        self.seated().filter(|entry| entry.state.seat().is_in())
    }

    /// The slots that queues do not leave any more, a bit each.
    fn stuck_slots(&self) -> u32 {
        let seats = self.seated().map(|entry| entry.state.seat());
        let slots = seats.filter(|seat| seat.is_stuck()).filter_map(Seat::place);
        slots.fold(0, |mask, slot| mask | 1 << slot)
    }

    /// The doorbell for one more direct or followed queue of process `pasid`: one that no other
    /// queue of the process has.
    pub(super) fn own_doorbell(&self, pasid: u16) -> Option<u8> {
        let queues = self.of_process(pasid);
        let own = queues.filter_map(|entry| entry.rlc.own_doorbell());
        let taken = own.fold(0u32, |mask, number| mask | 1 << number);
        free_slot(self.slots, taken | !self.own_doorbells)
    }

    /// Whether a queue of process `pasid` may get doorbell `number`.
    pub(super) fn is_own_doorbell_free(&self, pasid: u16, number: u8) -> bool {
        let is_own = self.own_doorbells.checked_shr(number.into()).unwrap_or(0) & 1 != 0;
        let mut queues = self.of_process(pasid);
        is_own && queues.all(|entry| entry.rlc.own_doorbell() != Some(number))
    }

    fn next_turn(&mut self) -> u64 {
        let turn = self.turn;
        self.turn = turn.wrapping_add(1);
        turn
    }

    /// Counts the time that a load took.
    pub(super) fn has_taken(&mut self, time: Delta) {
        self.load.has_taken(time.as_micros_ceil());
    }

    /// Time that a working queue keeps its slot while another waits, milliseconds.
    fn quantum(&self) -> i64 {
        let loads = self.load.times_ms(QUANTUM_LOADS * i64::from(self.slots));
        loads.clamp(QUANTUM_MS, MOST_QUANTUM_MS)
    }

    /// Puts a queue into the line, if it belongs there.
    fn line_up(&mut self, key: &QueueKey) {
        let Some(entry) = self.queues.get_mut(key) else {
            return;
        };
        if !entry.belongs_in_line() {
            return;
        }
        if let Some(room) = entry.room.take() {
            // There is no other at this place.
            let _ = self.waiting.insert(room.into_node(entry.place(), *key));
            self.standing += 1;
            self.new.add(key.pasid);
        }
    }

    /// Takes a queue out of the line, if it is there.
    fn step_out(&mut self, key: &QueueKey) {
        if let Some(place) = self.queues.get(key).map(SlotEntry::place) {
            self.vacate(&place, key);
        }
    }

    fn vacate(&mut self, place: &ReadyPlace, key: &QueueKey) {
        let node = self.waiting.remove_node(place);
        self.standing -= usize::from(node.is_some());
        if let (Some(node), Some(entry)) = (node, self.queues.get_mut(key)) {
            entry.room = Some(node.into_reservation());
        }
    }

    /// The first in line with a place of at least `from`.
    fn in_line(&self, from: &ReadyPlace) -> Option<(ReadyPlace, QueueKey)> {
        let cursor = self.waiting.cursor_lower_bound(from)?;
        let (place, key) = cursor.current();
        Some((*place, *key))
    }

    /// Decides what comes next, and marks the seat.
    pub(super) fn next(&mut self) -> SlotAction {
        self.awaited = false;
        if !self.departed.is_empty() {
            return SlotAction::Settle(self.settle());
        }
        if self.table.is_lost() {
            return SlotAction::Nothing;
        }
        let Some(gpu) = self.any().map(|rlc| rlc.gpu.clone()) else {
            return SlotAction::Nothing;
        };
        let vmids = &*gpu.hw.vmids;
        if self.start_unload(vmids) {
            return SlotAction::Again;
        }
        let mut choice = SlotChoice {
            vmids,
            slots: self.slots,
            taken: self.table.slots().taken(),
            lost: self.stuck_slots(),
            vmid_quantum: self.quantum().max(VMID_QUANTUM_MS),
            best: None,
            crowded: false,
            idle: None,
            later: None,
            notifies: false,
        };
        let new = core::mem::take(&mut self.new);
        let called = vmids.due();
        for pasid in called.pasids().chain(new.pasids()) {
            self.scan(
                ReadyPlace::first_of(pasid),
                Some(pasid),
                usize::MAX,
                &mut choice,
            );
        }
        self.survey(new.is_many(), &mut choice);
        self.awaited = choice.crowded || vmids.is_wanted();
        let SlotChoice {
            taken,
            best,
            crowded,
            idle,
            mut later,
            notifies,
            ..
        } = choice;
        self.notifies |= notifies;
        if let Some((.., key)) = best {
            return self.enter(&key, taken);
        }
        if crowded {
            match self.make_room() {
                SlotAction::Later(ms) => later = sooner(later, ms),
                // All are leaving, in a reset or stuck: a queue that leaves has the work item look
                // again.
                SlotAction::Nothing => {}
                action => return action,
            }
        }
        // Others may have begun to wait since.
        match (idle.filter(|(pasid, _)| vmids.has_room(*pasid)), later) {
            (Some((_, key)), _) => self.enter(&key, taken),
            (None, Some(ms)) => SlotAction::Later(ms),
            (None, None) => SlotAction::Nothing,
        }
    }

    /// Whether there is a queue in a slot that has run out of work while others wait, and to which
    /// its process has not announced more: a decision is due.
    pub(super) fn has_idle(&self) -> bool {
        let is_idle = |entry: &SlotEntry| !entry.has_work() && !entry.rlc.wants_to_run();
        self.awaited && self.inside().any(is_idle)
    }

    /// Looks at queues in line that have waited for a look, if it is time, or at `all`.
    fn survey(&mut self, all: bool, choice: &mut SlotChoice<'_>) {
        // Direct queues get work without the driver's notice: each is looked at.
        let few = all || self.direct != 0 || self.standing <= FEW;
        if few || self.surveyed.elapsed().as_millis() >= SURVEY_MS {
            let (from, most) = match few {
                true => (ReadyPlace::FIRST, usize::MAX),
                false => (self.cursor, FEW + self.standing / PARTS),
            };
            self.surveyed = Instant::now();
            self.cursor = self.scan(from, None, most, choice);
        }
        if !few {
            choice.later = sooner(choice.later, SURVEY_MS);
        }
    }

    /// Looks at the queues in line from `from` on, of each process up to the first with work: at
    /// `most` of them, or at those of process `only`. Returns where that ended.
    fn scan(
        &mut self,
        mut from: ReadyPlace,
        only: Option<u16>,
        most: usize,
        choice: &mut SlotChoice<'_>,
    ) -> ReadyPlace {
        for _ in 0..most {
            let next = self.in_line(&from);
            let meant = next.filter(|(place, _)| only.is_none_or(|pasid| pasid == place.pasid));
            let Some((place, key)) = meant else {
                return ReadyPlace::FIRST;
            };
            match self.queues.get(&key) {
                Some(entry) if entry.belongs_in_line() => {
                    // One with work stands for all of its process. A direct queue may have none,
                    // while the next has.
                    from = match entry.has_work() {
                        true => place.behind(),
                        false => place.next(),
                    };
                    choice.consider(entry, &place, key);
                }
                _ => self.vacate(&place, &key),
            }
        }
        from
    }

    /// Has queues leave that must. Returns whether there were any.
    fn start_unload(&mut self, vmids: &VmidPool) -> bool {
        let wanted = vmids.is_wanted();
        let must = |entry: &&SlotEntry| should_unload(entry, wanted);
        let key = self.inside().find(must).map(SlotEntry::key);
        if let Some(key) = &key {
            self.release(key);
        }
        key.is_some()
    }

    /// Has the work item load a queue for which there is a slot.
    fn enter(&mut self, key: &QueueKey, taken: u32) -> SlotAction {
        self.step_out(key);
        let turn = self.next_turn();
        let Some(entry) = self.queues.get(key) else {
            return SlotAction::Nothing;
        };
        // The slot with the doorbell's number comes first: amdkfd knows no other.
        let own = entry.rlc.own_doorbell();
        let own = own.filter(|slot| taken >> slot & 1 == 0);
        let Some(slot) = own.or_else(|| free_slot(self.slots, taken)) else {
            return SlotAction::Nothing;
        };
        entry.rlc.set_served(turn);
        let rlc = entry.rlc.clone();
        let queue = rlc.clone();
        match self.apply(key, SeatEvent::Enter { slot, queue }) {
            Some(SeatStep {
                action: SeatAction::Load(permit),
                ..
            }) => SlotAction::Load(rlc, permit),
            _ => SlotAction::Nothing,
        }
    }

    /// Has a queue leave its slot, as another has none: one without work, or else the one that has
    /// been in longest, once it has had its turn.
    fn make_room(&mut self) -> SlotAction {
        let quantum = self.quantum();
        let left = |entry: &SlotEntry| match entry.has_work() {
            true => quantum - entry.since.elapsed().as_millis(),
            false => i64::MIN,
        };
        // One at a time, unless that takes long.
        let soon = |entry: &SlotEntry| leaves_within(entry.asked_ms()?);
        if let Some(ms) = self.seated().filter_map(soon).min() {
            return SlotAction::Later(ms);
        }
        let victims = self.inside().map(|entry| (left(entry), entry.key()));
        match victims.min() {
            Some((left @ 1.., _)) => SlotAction::Later(left),
            Some((_, key)) => {
                self.release(&key);
                SlotAction::Again
            }
            None => SlotAction::Nothing,
        }
    }
}

/// Whether a queue in a slot must leave it: it must not run any more, has no work while VMIDs are
/// `wanted`, or has had its turn.
fn should_unload(entry: &SlotEntry, wanted: bool) -> bool {
    !entry.is_runnable()
        || wanted && !entry.has_work()
        || entry.vmid.as_ref().is_some_and(VmidUse::is_recalled)
}
