// SPDX-License-Identifier: GPL-2.0
//! An address space whose buffers yield VRAM to others, and whose turn it is.

use super::{mover::BufferMover, AGAIN_MS};
use crate::mem::vm::Vm;
use hw::vram_fairness::{turn_ms, VramWait};
use kernel::{
    sync::Arc,
    time::{Instant, Monotonic},
};

/// The most often that the time doubles until others are asked again for what they did not give back.
const REFUSALS: u32 = 5;

/// Whether an address space is there, and since when.
#[derive(Clone, Copy)]
pub(super) struct Residency {
    /// Something of it is, or may be, away, and its queues are quiesced.
    pub(super) away: bool,
    /// Since when it is there, or away.
    pub(super) since: Instant<Monotonic>,
    /// What it took to bring it home the last time, milliseconds.
    took: i64,
    /// Something could not come home, because others have work on it, and how often in a row that was so.
    pub(super) refused: bool,
    refusals: u32,
}

impl Residency {
    /// It is away from now on.
    pub(super) fn moved_out(&mut self) {
        self.away = true;
        self.since = Instant::now();
    }

    /// It is there from now on, which took `took` milliseconds; whether something of it was refused.
    pub(super) fn moved_in(&mut self, took: i64) -> bool {
        self.away = false;
        self.since = Instant::now();
        self.took = took;
        self.refusals = match self.refused {
            true => REFUSALS.min(self.refusals + 1),
            false => 0,
        };
        self.refused
    }

    /// Whether it may leave for what can come home: not in its turn, nor soon after others did not give something back, each time less
    /// soon.
    fn may_be_evicted(&self) -> bool {
        let age = self.since.elapsed().as_millis();
        age >= turn_ms(self.took) && (self.refusals == 0 || age >= AGAIN_MS << self.refusals)
    }
}

/// An address space that takes part. Under the lock of the evictor's state.
pub(super) struct EvictMember {
    pub(super) vm: Arc<Vm>,
    /// While somebody moves its buffers, as it was before.
    pub(super) turn: Residency,
    /// `None` while somebody moves its buffers.
    mover: Option<BufferMover>,
}

impl EvictMember {
    /// All of it is there.
    pub(super) fn new(vm: &Arc<Vm>) -> Self {
        let turn = Residency {
            away: false,
            since: Instant::now(),
            took: 0,
            refused: false,
            refusals: 0,
        };
        Self {
            vm: vm.clone(),
            turn,
            mover: Some(BufferMover::new(vm, turn)),
        }
    }

    /// Whether somebody moves its buffers now.
    pub(super) fn is_moving(&self) -> bool {
        self.mover.is_none()
    }

    /// The caller moves its buffers, until [`EvictMember::end_moving`]. `None` while somebody else does.
    pub(super) fn start_moving(&mut self) -> Option<BufferMover> {
        let mut mover = self.mover.take()?;
        mover.turn = self.turn;
        Some(mover)
    }

    /// Nobody moves its buffers any more.
    pub(super) fn end_moving(&mut self, mover: BufferMover) {
        self.turn = mover.turn;
        self.mover = Some(mover);
    }

    /// It is the last of those that wait.
    pub(super) fn requeue(&mut self) {
        self.turn.since = Instant::now();
    }

    /// Whether it leaves now for what can come home: not when it is away already. `None` when it should, and cannot.
    pub(super) fn is_evictable_for(&self) -> Option<bool> {
        let client = self.vm.client();
        if self.turn.away || !client.is_recalled() {
            return Some(false);
        }
        let room = self.vm.gpu().vram.free() >= client.waiting_to_return();
        (room && !self.is_moving() && self.turn.may_be_evicted()).then_some(true)
    }

    /// How long it waits, if it is away and has something to do.
    pub(super) fn waits(&self) -> Option<VramWait> {
        let waits = self.turn.away && self.vm.group().wants_to_run();
        waits.then(|| VramWait::Home {
            away: self.turn.since.elapsed().as_millis(),
            took: self.turn.took,
        })
    }

    /// Whether it may be asked to yield, for how long not yet (milliseconds, not more than 0 if at once), and its rank:
    /// who has the lowest yields first. `None` while somebody moves its buffers.
    pub(super) fn rank(&self) -> Option<(u8, i64, i64)> {
        if self.is_moving() {
            return None;
        }
        let age = self.turn.since.elapsed().as_millis();
        Some(if self.turn.away {
            // The one that came last has its turn last.
            (0, age, 0)
        } else if !self.vm.group().wants_to_run() {
            (1, -age, 0)
        } else {
            (2, -age, turn_ms(self.turn.took) - age)
        })
    }
}
