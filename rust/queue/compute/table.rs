// SPDX-License-Identifier: GPL-2.0
//! The compute queues of the direct scheduler, where they are, and which comes and goes next.

use super::queue::ComputeQueue;
use super::scheduler::{ComputePlace, QueuePlacement};
use crate::ip::gfx::HqdGuard;
use crate::mem::vm::VmidUse;
use core::convert::Infallible;
use hw::queue::{Hqd, MecInfo, MAX_USER_HQDS};
use hw::seat::{Seat, SlotTable};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::{Instant, Monotonic};

/// Time that a queue with work stays while another waits, milliseconds; longer where loads, which
/// come one by one, take that long.
pub(super) const QUANTUM_MS: i64 = 20;
/// The number of past turns, about, over which the usual length of a turn is an average.
const USUAL_TURNS: i64 = 64;
/// The most that a queue owes, or is owed, because its turns were not as long as usual,
/// milliseconds.
const MOST_AHEAD_MS: i64 = 2 * QUANTUM_MS;
/// The most of that in one turn.
const MOST_REPAID_MS: i64 = QUANTUM_MS * 3 / 4;
/// Time that a queue that does not hang takes to leave, milliseconds.
const LEAVE_MS: i64 = 100;

/// A queue on the hardware. It leaves its HQD before its VMID.
pub(super) struct LoadedQueue {
    pub(super) hqd: HqdGuard,
    pub(super) vmid: VmidUse,
}

/// How far the hardware was asked to let go of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreemptStep {
    /// Its waves are being saved.
    Save,
    /// Its waves were reset.
    Reset,
    /// Its pipe must be reset, once no other queue is on it.
    Pipe,
    /// Its pipe was reset.
    PipeReset,
}

/// The HQDs, with the queues that have them: places for as many as a GPU can have.
pub(super) type HqdSlots = SlotTable<QueueRank, { MAX_USER_HQDS as usize }>;

/// The order of queues that take turns: by the PASID of the process, then by number.
pub(super) type QueueRank = (u16, u32);

/// A queue and its turn.
pub(super) struct HqdEntry {
    pub(super) queue: Arc<ComputeQueue>,
    /// Where it is. It is loaded in one piece, under the lock of the table. Of a queue that is
    /// stuck the HQD, the VMID and all of the queue are kept.
    pub(super) seat: Seat<LoadedQueue, Infallible, PreemptStep>,
    /// The time when the seat became what it is, its turn began, or the last step of leaving was
    /// made.
    pub(super) since: Instant<Monotonic>,
    /// The number of callers that want it off the hardware.
    pub(super) off: u32,
    /// The number of turns that it has had.
    turns: u64,
    /// Milliseconds by which its turns were longer than usual, which are taken off those to come.
    ahead: i64,
    /// Whether it had work at the beginning of this turn.
    has_work: bool,
    /// Whether it left in the middle of something that its pointers do not show.
    midway: bool,
}

impl HqdEntry {
    pub(super) fn new(queue: Arc<ComputeQueue>) -> Self {
        // A queue of a process that is restored may be.
        let midway = queue.descriptor.is_midway();
        Self {
            queue,
            seat: Seat::Out,
            since: Instant::now(),
            off: 0,
            turns: 0,
            ahead: 0,
            has_work: false,
            midway,
        }
    }

    /// Whether it may be on the hardware.
    pub(super) fn is_wanted(&self) -> bool {
        self.off == 0 && self.queue.is_runnable()
    }

    /// Looks for work.
    pub(super) fn poll(&mut self) {
        // Of a queue that came in midway nothing tells when it is through: it has its turn.
        self.has_work = self.queue.memory.has_work() || self.midway;
    }

    /// It has left the hardware, and its HQD is free.
    pub(super) fn left(&mut self, hqds: &mut HqdSlots) {
        if let Ok(image) = self.queue.descriptor.image() {
            self.queue.trace_save(&image);
        }
        self.midway = self.queue.descriptor.is_midway();
        let is_saved = matches!(self.seat, Seat::Leaving(_, PreemptStep::Save));
        if let Some(hqd) = self.hqd() {
            let _ = hqds.release(hqd.index());
        }
        let queue = self.queue.clone();
        self.reseat(|loaded| {
            let image = |xcc| queue.descriptor.image_of(xcc).ok();
            loaded.hqd.left(&|xcc| image(xcc).filter(|_| is_saved));
            Seat::Out
        });
    }

    fn rank(&self) -> QueueRank {
        (self.queue.owner.pasid, self.queue.owner.queue)
    }

    /// Accounts for a turn that is over. `usual` is how long turns usually are, microseconds.
    fn account(&mut self, usual: &mut i64) {
        let held = self.held_ms();
        *usual += (held * 1000 - *usual) / USUAL_TURNS;
        let ahead = self.ahead + held - *usual / 1000;
        self.ahead = ahead.clamp(-MOST_AHEAD_MS, MOST_AHEAD_MS);
    }

    /// How long its turn may be, milliseconds.
    fn quantum(&self) -> i64 {
        QUANTUM_MS - self.ahead.clamp(-MOST_REPAID_MS, MOST_REPAID_MS)
    }

    /// Whether it had work at the beginning of this turn.
    pub(super) fn has_work(&self) -> bool {
        self.has_work
    }

    /// Whether it is on the hardware and others must get its VMID: its process has had its turn, or
    /// it has no work.
    pub(super) fn yields_vmid(&self) -> bool {
        self.loaded().is_some_and(|loaded| {
            loaded.vmid.is_recalled() || !self.has_work && self.queue.gpu.hw.vmids.is_wanted()
        })
    }

    fn waits(&self, work: bool) -> bool {
        self.is_out() && self.has_work == work && self.is_wanted()
    }

    fn loaded(&self) -> Option<&LoadedQueue> {
        self.seat.place()
    }

    /// The HQD that it has.
    pub(super) fn hqd(&self) -> Option<Hqd> {
        Some(self.loaded()?.hqd.hqd())
    }

    /// Whether the hardware has nothing to do with it.
    pub(super) fn is_out(&self) -> bool {
        self.seat.is_out()
    }

    /// Whether it has an HQD that it was not asked to leave.
    pub(super) fn is_in(&self) -> bool {
        self.seat.is_in()
    }

    fn is_leaving(&self) -> bool {
        self.seat.is_leaving()
    }

    /// Milliseconds for which the seat has been what it is.
    pub(super) fn held_ms(&self) -> i64 {
        self.since.elapsed().as_millis()
    }

    /// Changes the seat of a queue that has an HQD to the result of `to`.
    pub(super) fn reseat(
        &mut self,
        to: impl FnOnce(LoadedQueue) -> Seat<LoadedQueue, Infallible, PreemptStep>,
    ) {
        let loaded = core::mem::replace(&mut self.seat, Seat::Out).into_place();
        self.seat = loaded.map_or(Seat::Out, to);
        self.since = Instant::now();
    }

    /// Asks a queue that is in to leave.
    pub(super) fn preempt(&mut self) {
        if self.is_in() {
            self.reseat(|loaded| {
                loaded.hqd.save();
                Seat::Leaving(loaded, PreemptStep::Save)
            });
        }
    }

    /// For debugfs, and for a caller that selects queues.
    pub(super) fn state(&self) -> QueuePlacement<'_> {
        QueuePlacement {
            queue: &self.queue,
            seat: self.seat.view(|loaded| ComputePlace::Hqd(loaded.hqd.hqd())),
            vmid: self.loaded().map(|loaded| loaded.vmid.vmid().get()),
            turns: Some(self.turns),
        }
    }
}

/// The queues of a GPU.
pub(super) struct HqdTable {
    pub(super) entries: KVec<HqdEntry>,
    pub(super) hqds: HqdSlots,
    pub(super) closed: bool,
    /// The rank of the queue that was last to come in for a turn.
    last: QueueRank,
    /// How long a turn usually is, microseconds.
    usual: i64,
    /// A queue waits for an HQD.
    crowded: bool,
}

impl HqdTable {
    pub(super) const fn new() -> Self {
        Self {
            entries: KVec::new(),
            hqds: HqdSlots::new(),
            closed: false,
            last: (0, 0),
            usual: QUANTUM_MS * 1000,
            crowded: false,
        }
    }

    pub(super) fn position(&self, queue: &ComputeQueue) -> Option<usize> {
        self.entries
            .iter()
            .position(|entry| core::ptr::eq(&*entry.queue, queue))
    }

    pub(super) fn find(&mut self, queue: &ComputeQueue) -> Option<&mut HqdEntry> {
        let index = self.position(queue)?;
        self.entries.get_mut(index)
    }

    /// A free HQD of `mec`; none on a pipe that is about to be reset.
    pub(super) fn free_hqd(&self, mec: &MecInfo) -> Option<Hqd> {
        let mut blocked = 0;
        for entry in &self.entries {
            if let Seat::Leaving(loaded, PreemptStep::Pipe | PreemptStep::PipeReset) = &entry.seat {
                blocked |= pipe_mask(mec, loaded.hqd.hqd().pipe());
            }
        }
        // The table may have more places than `mec` has HQDs: those at its end.
        self.hqds
            .first_free(blocked)
            .and_then(|index| mec.hqd(index))
    }

    /// Entry `index`, which was out, is loaded into an HQD that was free.
    pub(super) fn enter(&mut self, index: usize, loaded: LoadedQueue) {
        if let Some(entry) = self.entries.get_mut(index) {
            let hqd = loaded.hqd.hqd();
            let _ = self.hqds.claim(hqd.index(), entry.rank());
            entry.seat = Seat::In(loaded);
        }
    }

    /// The queue that comes in next of those that may, with work or without. Queues take turns in
    /// the order of their processes, then of their numbers: none has a second turn before each that
    /// wants one has had its first, and those of a process come and go together, so that few VMIDs
    /// change hands.
    pub(super) fn next_to_load(&self, work: bool) -> Option<usize> {
        let waiting = self.entries.iter().enumerate();
        waiting
            .filter(|(_, entry)| entry.waits(work))
            .min_by_key(|(_, entry)| (entry.rank() <= self.last, entry.rank()))
            .map(|(index, _)| index)
    }

    /// The queue that was last to come in for a turn.
    pub(super) fn last(&self) -> impl PartialEq {
        self.last
    }

    /// Begins a turn of entry `index`. Queues that would have come before it, and are still in,
    /// begin another.
    pub(super) fn start_quantum(&mut self, index: usize) {
        let Some(rank) = self.entries.get(index).map(HqdEntry::rank) else {
            return;
        };
        let last = core::mem::replace(&mut self.last, rank);
        let is_passed = |this| {
            if last < rank {
                last < this && this < rank
            } else {
                last < this || this < rank
            }
        };
        for (n, entry) in self.entries.iter_mut().enumerate() {
            if n == index {
                entry.turns += 1;
            } else if entry.is_in() && entry.has_work && is_passed(entry.rank()) {
                entry.account(&mut self.usual);
                entry.since = Instant::now();
                entry.turns += 1;
            }
        }
    }

    /// How many queues with work are out.
    pub(super) fn waiting(&self) -> usize {
        self.entries
            .iter()
            .filter(|entry| entry.waits(true))
            .count()
    }

    /// The number of queues that were asked to leave so lately that they are about to be out.
    pub(super) fn leaving(&self) -> usize {
        let soon = |entry: &&HqdEntry| entry.is_leaving() && entry.held_ms() < LEAVE_MS;
        self.entries.iter().filter(soon).count()
    }

    /// Notes whether a queue waits for an HQD. The turns of the queues that are in begin with that.
    pub(super) fn set_crowded(&mut self, crowded: bool) {
        if crowded && !self.crowded {
            let inside = self.entries.iter_mut().filter(|entry| entry.is_in());
            inside.for_each(|entry| entry.since = Instant::now());
        }
        self.crowded = crowded;
    }

    /// Asks the queue at `index`, which has had its turn, to leave.
    pub(super) fn end_turn(&mut self, index: usize) {
        if let Some(entry) = self.entries.get_mut(index) {
            if entry.has_work {
                entry.account(&mut self.usual);
            }
            entry.preempt();
        }
    }

    /// The queue that must give up its HQD next, and the milliseconds after which it has had its
    /// turn: one without work, or else the one whose turn has been over for longest.
    pub(super) fn next_to_preempt(&self) -> Option<(usize, i64)> {
        let turn = |(index, entry): (usize, &HqdEntry)| {
            let idle = !entry.has_work;
            let left = if idle {
                i64::MIN
            } else {
                entry.quantum() - entry.held_ms()
            };
            (index, left)
        };
        let inside = self.entries.iter().enumerate();
        inside
            .filter(|(_, entry)| entry.is_in())
            .map(turn)
            .min_by_key(|&(_, left)| left)
    }
}

/// The HQDs of a pipe, a bit each.
fn pipe_mask(mec: &MecInfo, pipe: u8) -> u32 {
    mec.hqds()
        .filter(|hqd| hqd.pipe() == pipe)
        .fold(0, |mask, hqd| mask | 1 << hqd.index())
}
