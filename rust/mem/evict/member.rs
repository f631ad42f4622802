// SPDX-License-Identifier: GPL-2.0
//! An address space as a member of the evictor: whether its buffers are in VRAM, and since when.

use super::{mover::BufferMover, AGAIN_MS};
use crate::mem::vm::Vm;
use hw::vram_fairness::{turn_ms, VramWait};
use kernel::{
    sync::Arc,
    time::{Instant, Monotonic},
};

/// How many times at most the time doubles until other devices are asked again for buffers that
/// they did not give back.
const REFUSALS: u32 = 5;

/// Whether the buffers of an address space are in VRAM, and since when.
#[derive(Clone, Copy)]
pub(super) struct Residency {
    /// A buffer is, or may be, moved out, and the queues are quiesced.
    pub(super) away: bool,
    /// Since when they are in VRAM, or moved out.
    pub(super) since: Instant<Monotonic>,
    /// How long the last restore took, milliseconds.
    took: i64,
    /// A buffer could not be moved in, because other devices are at work on it; and how often in a
    /// row that was so.
    pub(super) refused: bool,
    refusals: u32,
}

impl Residency {
    /// Records that a buffer is moved out from now on.
    pub(super) fn moved_out(&mut self) {
        self.away = true;
        self.since = Instant::now();
    }

    /// Records that all buffers are in VRAM from now on, after a restore of `took` milliseconds.
    /// Returns whether one of them was refused.
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

    /// Whether the process may be evicted for a buffer that can be moved in. It may not be in its
    /// time slice, nor soon after other devices did not give a buffer back; that delay grows with
    /// each refusal.
    fn may_be_evicted(&self) -> bool {
        let age = self.since.elapsed().as_millis();
        age >= turn_ms(self.took) && (self.refusals == 0 || age >= AGAIN_MS << self.refusals)
    }
}

/// An address space that is a member. Guarded by the lock of the evictor's state.
pub(super) struct EvictMember {
    pub(super) vm: Arc<Vm>,
    /// While a thread moves its buffers, the value from before.
    pub(super) turn: Residency,
    /// `None` while a thread moves its buffers.
    mover: Option<BufferMover>,
}

impl EvictMember {
    /// Creates a member with all buffers in VRAM.
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

    /// Whether a thread moves its buffers now.
    pub(super) fn is_moving(&self) -> bool {
        self.mover.is_none()
    }

    /// Lets the caller move its buffers, until [`EvictMember::end_moving`]. `None` while another
    /// thread does.
    pub(super) fn start_moving(&mut self) -> Option<BufferMover> {
        let mut mover = self.mover.take()?;
        mover.turn = self.turn;
        Some(mover)
    }

    /// Ends the move of its buffers.
    pub(super) fn end_moving(&mut self, mover: BufferMover) {
        self.turn = mover.turn;
        self.mover = Some(mover);
    }

    /// Puts the member behind the other waiters.
    pub(super) fn requeue(&mut self) {
        self.turn.since = Instant::now();
    }

    /// Whether the process is to be evicted now for a buffer that can be moved in; not if it is
    /// evicted already. `None` if it should be, and cannot.
    pub(super) fn is_evictable_for(&self) -> Option<bool> {
        let client = self.vm.client();
        if self.turn.away || !client.is_recalled() {
            return Some(false);
        }
        let room = self.vm.gpu().vram.free() >= client.waiting_to_return();
        (room && !self.is_moving() && self.turn.may_be_evicted()).then_some(true)
    }

    /// How long the member has waited, if it is evicted and has work.
    pub(super) fn waits(&self) -> Option<VramWait> {
        let waits = self.turn.away && self.vm.group().wants_to_run();
        waits.then(|| VramWait::Home {
            away: self.turn.since.elapsed().as_millis(),
            took: self.turn.took,
        })
    }

    /// Returns the rank of the member, and for how many milliseconds it may not yet be asked to
    /// yield (at most 0 if it may at once). The member with the lowest rank yields first. `None`
    /// while a thread moves its buffers.
    pub(super) fn rank(&self) -> Option<(u8, i64, i64)> {
        if self.is_moving() {
            return None;
        }
        let age = self.turn.since.elapsed().as_millis();
        Some(if self.turn.away {
            // The process that was evicted last has its time slice last.
            (0, age, 0)
        } else if !self.vm.group().wants_to_run() {
            (1, -age, 0)
        } else {
            (2, -age, turn_ms(self.turn.took) - age)
        })
    }
}
