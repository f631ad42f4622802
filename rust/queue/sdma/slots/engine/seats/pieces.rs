// SPDX-License-Identifier: GPL-2.0
//! The steps by which queues change their seats, and what goes with each: a queue leaves in pieces,
//! see [`hw::sdma::seat`]. A thread that needs a queue out does a piece for that queue, the work
//! item does one for each that leaves, and a reset has all of them out at once.

use super::super::departed::Settlement;
use super::super::entry::{QueueKey, SlotEntry};
use super::super::MAX_SLOTS;
use super::{EngineSeats, QueueStep, SdmaHwQueue, SlotAction};
use hw::sdma::seat::{idle_poll_us, leave_poll_us, LeaveStep, SeatAction, SeatEvent};
use hw::seat::Seat;
use kernel::sync::Arc;
use kernel::time::Delta;

/// The longest time that a thread polls for the end of a packet when it has turned a ring off. It
/// keeps its processor meanwhile, and the engine's spinlock.
const TURN_OFF_POLL: Delta = Delta::from_micros(20);

impl EngineSeats {
    /// Reports an event of a queue: makes the transition that [`hw::sdma::seat`] has for it, and
    /// what belongs to it here. If the step is a piece, it is done, and so is the transition that
    /// follows. The caller does any other step that is returned: a queue that is asked to leave is
    /// `Off` or has the caller `Wait`. `None` if the engine does not know the queue any more.
    pub(in super::super) fn apply(
        &mut self,
        key: &QueueKey,
        event: SeatEvent<Arc<SdmaHwQueue>>,
    ) -> Option<QueueStep> {
        let mut step = self.change(key, event)?;
        let entry = self.queues.get_mut(key)?;
        let is_idle = match step.action {
            SeatAction::TurnOff(slot) => {
                entry.turn_off(slot);
                entry.leaves_within(slot, TURN_OFF_POLL)
            }
            SeatAction::Look(slot) => entry.has_left(slot),
            _ => return Some(step),
        };
        step.action = SeatAction::Wait;
        if is_idle {
            let out = self.change(key, SeatEvent::Idle)?;
            step.action = SeatAction::Off;
            step.notify |= out.notify;
            step.wake |= out.wake;
        }
        Some(step)
    }

    /// Makes one transition.
    fn change(&mut self, key: &QueueKey, event: SeatEvent<Arc<SdmaHwQueue>>) -> Option<QueueStep> {
        let entry = self.queues.get_mut(key)?;
        let slot = entry.state.seat().place().copied();
        let mut step = self.table.apply(&mut entry.state, event);
        // The entry's own reference is left, so that nothing is freed under the lock.
        let left = slot.filter(|_| step.left.take().is_some());
        if let Some(slot) = left {
            entry.end_request();
            self.departed.add(slot, entry);
            entry.turn = self.turn;
            self.turn = self.turn.wrapping_add(1);
        }
        if left.is_some() || matches!(step.action, SeatAction::LineUp) {
            self.line_up(key);
        }
        Some(step)
    }

    /// Looks at all queues that leave: a piece for each. If one is late, and the engine is to be
    /// reset for that, the step of the work item.
    pub(in super::super) fn poll_leaving(&mut self) -> Option<SlotAction> {
        let mut any = false;
        for slot in 0..self.slots {
            let Some((key, _)) = self.seated_at(slot) else {
                continue;
            };
            let entry = self.queues.get_mut(&key)?;
            if entry.state.asked().is_none() {
                continue;
            }
            let event = match (entry.has_left(slot), entry.late()) {
                (true, _) => SeatEvent::Idle,
                (false, Some(why)) => SeatEvent::Late(why),
                (false, None) => continue,
            };
            any |= matches!(event, SeatEvent::Idle);
            let step = self.change(&key, event)?;
            if matches!(step.action, SeatAction::Reset) {
                return Some(SlotAction::Reset(key));
            }
        }
        any.then_some(SlotAction::Again)
    }

    /// A reset begins: it has the queues that are in a slot, or leave.
    pub(in super::super) fn take_by_reset(&mut self) {
        for slot in 0..self.slots {
            if let Some((key, _)) = self.seated_at(slot) {
                let _ = self.apply(&key, SeatEvent::TakeByReset);
            }
        }
    }

    /// A reset is over; if the engine `works`, queues are out at the read pointers `rptrs` of the
    /// slots.
    pub(in super::super) fn end_reset(&mut self, rptrs: &[u64; MAX_SLOTS], works: bool) {
        for (slot, &rptr) in (0..self.slots).zip(rptrs) {
            let Some((key, entry)) = self.seated_at(slot) else {
                continue;
            };
            if let (true, Seat::Leaving(_, LeaveStep::Reset { loaded: true })) =
                (works, entry.state.seat())
            {
                entry.rlc.save(rptr);
            }
            let _ = self.apply(&key, SeatEvent::ResetEnded { works });
        }
    }

    /// The time until queues that leave are to be looked at again; `None` if none leaves.
    pub(in super::super) fn poll_delay(&self) -> Option<Delta> {
        let asked = self.seated().filter_map(SlotEntry::asked_ms);
        let delay = asked.map(leave_poll_us).min()?;
        Some(Delta::from_micros(delay))
    }

    /// The time until queues with doorbells of their own are to be looked at again for which others
    /// wait: no interrupt tells that they have run out of work. `None` if there are none.
    pub(in super::super) fn idle_delay(&self) -> Option<Delta> {
        let own = self
            .inside()
            .filter(|entry| self.awaited && entry.rlc.has_own_doorbell());
        let delay = own.map(|entry| idle_poll_us(entry.since.elapsed().as_micros_ceil()));
        Some(Delta::from_micros(delay.min()?))
    }

    /// Whether queues of process `pasid`, or any, come or go, or have left and still have VMIDs.
    pub(in super::super) fn is_unsettled(&self, pasid: Option<u16>) -> bool {
        let is_meant = |entry: &&SlotEntry| pasid.is_none_or(|pasid| pasid == entry.key().pasid);
        let moves =
            |entry: &SlotEntry| matches!(entry.state.seat(), Seat::Loading(..) | Seat::Leaving(..));
        self.settling || self.departed.has(pasid) || self.seated().filter(is_meant).any(moves)
    }

    /// The work item has cleared up.
    pub(in super::super) fn end_settling(&mut self) {
        self.settling = false;
    }

    /// A thread looks at queues without the lock, and has references to them until
    /// [`EngineSeats::end_look`].
    pub(in super::super) fn begin_look(&mut self) {
        self.looks += 1;
    }

    /// That thread has dropped its references, under the same lock, and the entries still had some:
    /// see [`EngineSeats::is_looked_at`].
    pub(in super::super) fn end_look(&mut self) {
        self.looks = self.looks.saturating_sub(1);
    }

    /// Whether a thread may have references to queues. No queue is removed then: the thread that
    /// destroys a queue is the one that frees it.
    pub(in super::super) fn is_looked_at(&self) -> bool {
        self.looks != 0
    }

    /// Has the queue in a slot leave it.
    pub(in super::super) fn release(&mut self, key: &QueueKey) {
        // The work item looks at it until it has left.
        let _ = self.apply(key, SeatEvent::Leave);
    }

    /// What is to be done for the queues that have left.
    pub(super) fn settle(&mut self) -> Settlement {
        let queues = &self.queues;
        let find = |key: &QueueKey| queues.get(key).map(|entry| entry.rlc.clone());
        let settlement = self.departed.take(find);
        self.settling = true;
        if settlement.has_queues() {
            self.begin_look();
        }
        settlement
    }
}
