// SPDX-License-Identifier: GPL-2.0
//! An address space whose buffers may move out for others, and its time slice.

use super::{mover::BufferMover, residency::Residency};
use crate::mem::vm::Vm;
use hw::vram_fairness::VramWait;
use kernel::sync::Arc;

/// A reason for an address space to yield before others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum YieldClass {
    /// It is away, and does not run anyhow.
    Away,
    /// Its queues have nothing to do.
    Idle,
    /// Its queues run.
    Busy,
}

/// The order in which address spaces yield: the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct YieldRank {
    class: YieldClass,
    /// Milliseconds. Away: since it was moved out, so that the one moved out last yields first.
    /// Otherwise: minus the time in VRAM, so that the one in VRAM for longest yields first.
    order_ms: i64,
}

/// An address space that can be asked to yield.
pub(super) struct YieldState {
    /// Its rank among others.
    pub(super) rank: YieldRank,
    /// Milliseconds for which it may not be asked yet; not more than 0 if it may at once.
    pub(super) left_ms: i64,
}

/// An address space that takes part. Under the lock of the evictor's state.
pub(super) struct EvictMember {
    pub(super) vm: Arc<Vm>,
    /// While a thread moves its buffers, as it was before.
    pub(super) turn: Residency,
    /// `None` while a thread moves its buffers.
    mover: Option<BufferMover>,
}

impl EvictMember {
    /// All of it is in VRAM.
    pub(super) fn new(vm: &Arc<Vm>) -> Self {
        let turn = Residency::new();
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

    /// The caller moves its buffers, until [`EvictMember::end_moving`]. `None` while another thread
    /// does.
    pub(super) fn start_moving(&mut self) -> Option<BufferMover> {
        let mut mover = self.mover.take()?;
        mover.turn = self.turn;
        Some(mover)
    }

    /// No thread moves its buffers any more.
    pub(super) fn end_moving(&mut self, mover: BufferMover) {
        self.turn = mover.turn;
        self.mover = Some(mover);
    }

    /// Makes it the last of those that wait.
    pub(super) fn requeue(&mut self) {
        self.turn.requeue();
    }

    /// Whether it moves out now for buffers that can move in: not when it is away already. `None`
    /// when it should, and cannot.
    pub(super) fn is_evictable_for(&self) -> Option<bool> {
        let client = self.vm.client();
        if self.turn.away || !client.is_recalled() {
            return Some(false);
        }
        let room = self.vm.gpu().vram.free() >= client.waiting_to_return();
        (room && !self.is_moving() && self.turn.may_be_evicted()).then_some(true)
    }

    /// Its wait, if it is away and has something to do.
    pub(super) fn waits(&self) -> Option<VramWait> {
        let wait = self.turn.wait();
        wait.filter(|_| self.vm.group().wants_to_run())
    }

    /// Whether it may be asked to yield, and when. `None` while a thread moves its buffers.
    pub(super) fn yields(&self) -> Option<YieldState> {
        if self.is_moving() {
            return None;
        }
        let age = self.turn.age_ms();
        let (class, order_ms, left_ms) = if self.turn.away {
            (YieldClass::Away, age, 0)
        } else if !self.vm.group().wants_to_run() {
            (YieldClass::Idle, -age, 0)
        } else {
            (YieldClass::Busy, -age, self.turn.left_ms(age))
        };
        Some(YieldState {
            rank: YieldRank { class, order_ms },
            left_ms,
        })
    }
}
