// SPDX-License-Identifier: GPL-2.0
//! The seats of an SDMA engine as a state machine: all transitions of a queue between its engine's
//! slots and the line of queues that wait for one.
//!
//! Several threads move queues: the engine's work item, threads that evict or destroy queues, and a
//! reset. All report what happened as a [`SeatEvent`] under the engine's spinlock.
//! [`EngineTable::apply`] answers with a [`SeatStep`]: what the thread must do next, and which
//! other threads must look again.
//!
//! # A thread that stops delays no other queue
//!
//! Any thread may lose its processor for seconds: a program can give a thread next to no share of
//! one. So a queue never waits for one particular thread of a program:
//!
//! - A queue leaves in *pieces*. A piece is a few register accesses and the event that they lead
//!   to, all under the spinlock, so the thread keeps its processor from the first access to the
//!   last. [`SeatAction::TurnOff`] and [`SeatAction::Look`] are done in the piece that asks for
//!   them. Between two pieces the seat says all that is needed to go on, and no thread owns it.
//! - Each thread that needs the queue out may do the next piece. The work item looks at all queues
//!   that leave, so it is woken with the first piece.
//! - Steps that sleep belong to the work item: it loads queues ([`LoadPermit`]), and gives up the
//!   VMIDs of queues that have left. Resets are made by work items and the interrupt thread.
//!
//! A reset takes the seats before it touches the engine ([`SeatEvent::TakeByReset`]): other threads
//! pass by them. A read pointer that is read in the middle of a reset would have packets run twice.
//!
//! | seat | event | seat after | the thread must |
//! |---|---|---|---|
//! | Out | Enter, engine not lost, slot free | Loading | load |
//! | Loading | NotLoaded | Out | notify |
//! | Loading | Loaded | In | notify |
//! | Loading | Loaded, engine lost | Stuck | fail the queue, notify |
//! | Loading | LoadHangs | Leaving, in a reset | reset the engine |
//! | In | Leave | Leaving, asked | turn the ring off, wake |
//! | In | Evict | Leaving, asked, to stay out | turn the ring off, wake |
//! | Out | Evict | Out, to stay out | |
//! | Leaving, asked | Evict | as before, to stay out | look at the ring |
//! | Loading; Leaving, in a reset | Evict | as before, to stay out | wait |
//! | Leaving, asked | Idle | Out | notify and wake |
//! | Leaving, asked | Late, a page fault was served | Leaving, asked once more, some times | |
//! | Leaving, asked | Late, any other | as before | reset the engine |
//! | In; Leaving, asked | TakeByReset | Leaving, in a reset | |
//! | Leaving, in a reset | ResetEnded, the engine works | Out | notify and wake |
//! | Leaving, in a reset | ResetEnded, the engine is lost | Stuck | notify |
//! | any | Admit | as before, may enter | line up and wake |
//! | In | Work | In | ring |
//! | Loading, Leaving | Work | as before | nothing: the work item looks later |
//! | Out, Stuck | Work | as before | line up and wake |
//!
//! "Notify" is for threads that wait for a change of a seat, "wake" for the work item, which
//! ignores it: it decides anew after each step. Every event that is not in the table changes
//! nothing.

use crate::seat::{Seat, SlotTable};

/// How long a queue may take to leave its slot, milliseconds. A queue that takes longer hangs.
pub const UNLOAD_MS: i64 = 2000;
/// How many more times a queue gets [`UNLOAD_MS`] because page faults of its process are or were
/// to be dealt with meanwhile, or may be among interrupts that the driver has yet to handle: ten
/// seconds in all. amdkfd gives a queue nine (queue_preemption_timeout_ms).
pub const FAULT_WAITS: u8 = 4;
/// Time between two looks at a queue that leaves, microseconds: while most queues are gone soon,
/// and later.
pub const LEAVE_POLL_US: i64 = 200;
const SLOW_POLL_US: i64 = 1000;
/// Time after which a queue that leaves is looked at less often, milliseconds.
const SLOW_AFTER_MS: i64 = 20;

/// The time between two looks at queues of which the last was asked to leave `asked_ms`
/// milliseconds ago, microseconds.
#[inline]
pub const fn leave_poll_us(asked_ms: i64) -> i64 {
    if asked_ms < SLOW_AFTER_MS {
        LEAVE_POLL_US
    } else {
        SLOW_POLL_US
    }
}

/// The time within which a queue that was asked to leave `asked_ms` milliseconds ago is expected to
/// leave, milliseconds, so that no other queue has to leave in its place; `None` if it takes longer
/// than usual.
#[inline]
pub const fn leaves_within(asked_ms: i64) -> Option<i64> {
    match SLOW_AFTER_MS - asked_ms {
        left @ 1.. => Some(left),
        _ => None,
    }
}

/// The shortest and the longest time between two looks at a queue whose end of work no interrupt
/// tells of, while others wait for its place, microseconds.
const IDLE_POLL_US: (i64, i64) = (200, 4000);

/// The time between two looks at queues whose end of work no interrupt tells of, of which the last
/// got its slot `held_us` microseconds ago, while others wait for its place; in microseconds. So
/// such a queue keeps its slot for a quarter longer than it has work, and the looks are few.
#[inline]
pub const fn idle_poll_us(held_us: i64) -> i64 {
    let (shortest, longest) = IDLE_POLL_US;
    match held_us / 4 {
        quarter if quarter < shortest => shortest,
        quarter if quarter > longest => longest,
        quarter => quarter,
    }
}

/// How far a queue is that leaves its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaveStep {
    /// Its ring is off. The slot is free once the hardware says that it is idle.
    Asked {
        /// How often the queue got more time because of page faults.
        waits: u8,
    },
    /// The engine is being reset, or is about to be.
    Reset {
        /// The slot has the queue's registers: its read pointer says how far the queue has come.
        loaded: bool,
    },
}

/// The right to end `Loading` of one queue, which the work item alone has.
#[must_use = "a seat without its permit is never moved on"]
#[cfg_attr(not(MODULE), derive(Clone, PartialEq, Eq, Hash))]
#[derive(Debug)]
pub struct LoadPermit {
    slot: u8,
}

impl LoadPermit {
    /// The slot that the queue is loaded into.
    #[inline]
    pub const fn slot(&self) -> u8 {
        self.slot
    }
}

/// The right to end `Leaving` of the queues that a reset has taken.
#[must_use = "without its permit a reset never ends"]
#[cfg_attr(not(MODULE), derive(Clone, PartialEq, Eq, Hash))]
#[derive(Debug)]
pub struct ResetPermit(());

/// Why a queue has not left its slot in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LateReason {
    /// Page faults of its process were dealt with meanwhile or still are, or the driver is behind
    /// with the interrupts that report them.
    PageFaults,
    /// None is known.
    Hangs,
}

/// What has happened to a queue.
#[cfg_attr(not(MODULE), derive(Clone, PartialEq, Eq, Hash))]
#[derive(Debug)]
pub enum SeatEvent<Q> {
    /// It is chosen for the slot. The engine's table keeps `queue` while it has the slot.
    Enter {
        /// The slot.
        slot: u8,
        /// The queue.
        queue: Q,
    },
    /// It is not loaded, and the slot was not touched: there is no VMID.
    NotLoaded(LoadPermit),
    /// It is loaded.
    Loaded(LoadPermit),
    /// It is not loaded, as the slot is still busy with the queue before.
    LoadHangs(LoadPermit),
    /// It must leave, or has had its turn.
    Leave,
    /// A caller wants it off the hardware, and to stay off.
    Evict,
    /// The hardware is seen to be through with it.
    Idle,
    /// It has not left its slot in time.
    Late(LateReason),
    /// A reset of the engine begins, see [`EngineTable::begin_reset`].
    TakeByReset,
    /// The engine was reset.
    ResetEnded {
        /// The engine has come to rest.
        works: bool,
    },
    /// It may enter again.
    Admit,
    /// It has something to do.
    Work,
}

/// What the thread that has reported an event must do next.
#[must_use]
#[cfg_attr(not(MODULE), derive(Clone, PartialEq, Eq, Hash))]
#[derive(Debug)]
pub enum SeatAction {
    /// Nothing.
    Nothing,
    /// Load the queue; then `NotLoaded`, `Loaded` or `LoadHangs`.
    Load(LoadPermit),
    /// In the same piece: turn the ring in the slot off, then look at it as for `Look`.
    TurnOff(u8),
    /// In the same piece: look whether the hardware is through with the slot; then `Idle` if so.
    Look(u8),
    /// Reset the engine.
    Reset,
    /// Ring the doorbell of the slot.
    Ring(u8),
    /// Have the queue stand in line, if it may and has something to do.
    LineUp,
    /// Wait until the seat changes; then report the event again. A thread that cannot wait for that
    /// at any cost looks each [`LEAVE_POLL_US`].
    Wait,
    /// The queue is off the hardware.
    Off,
    /// The queue stays on the hardware for good, with all that the engine may still reach.
    Keep,
    /// Have the queue fail: the engine does nothing any more.
    Fail,
}

/// What follows from an event.
#[must_use]
#[cfg_attr(not(MODULE), derive(Clone, PartialEq, Eq, Hash))]
#[derive(Debug)]
pub struct SeatStep<Q> {
    /// What the thread must do.
    pub action: SeatAction,
    /// Threads that wait for a change of a seat must look again.
    pub notify: bool,
    /// The work item must look.
    pub wake: bool,
    /// What the table had of the queue, which is out now. The queue goes to the end of the line.
    pub left: Option<Q>,
}

impl<Q> SeatStep<Q> {
    fn nothing() -> Self {
        Self::of(SeatAction::Nothing)
    }

    fn of(action: SeatAction) -> Self {
        Self {
            action,
            notify: false,
            wake: false,
            left: None,
        }
    }

    /// The seat has changed in a way that others wait for.
    fn changed(action: SeatAction) -> Self {
        Self {
            notify: true,
            ..Self::of(action)
        }
    }

    fn waking(action: SeatAction) -> Self {
        Self {
            wake: true,
            ..Self::of(action)
        }
    }
}

/// A queue's seat, and what is wanted of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeatState {
    seat: Seat<u8, (), LeaveStep>,
    evicted: bool,
}

impl SeatState {
    /// A queue that is in no slot. It must not enter before [`SeatEvent::Admit`] if `evicted`.
    #[inline]
    pub const fn new(evicted: bool) -> Self {
        Self {
            seat: Seat::Out,
            evicted,
        }
    }

    /// Any state, for tests of wrong transitions.
    #[cfg(not(MODULE))]
    #[inline]
    pub const fn forged(seat: Seat<u8, (), LeaveStep>, evicted: bool) -> Self {
        Self { seat, evicted }
    }

    /// The seat.
    #[inline]
    pub const fn seat(&self) -> &Seat<u8, (), LeaveStep> {
        &self.seat
    }

    /// Whether it must be out, and stay out.
    #[inline]
    pub const fn is_evicted(&self) -> bool {
        self.evicted
    }

    /// The slot, if the hardware was asked to be through with the queue.
    #[inline]
    pub const fn asked(&self) -> Option<u8> {
        match self.seat {
            Seat::Leaving(slot, LeaveStep::Asked { .. }) => Some(slot),
            _ => None,
        }
    }
}

/// The slots of an engine, and the queues that are in them, come or go.
#[cfg_attr(not(MODULE), derive(Clone, PartialEq, Eq, Hash))]
#[derive(Debug)]
pub struct EngineTable<Q, const N: usize> {
    slots: SlotTable<Q, N>,
    resetting: bool,
    lost: bool,
}

impl<Q, const N: usize> Default for EngineTable<Q, N> {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl<Q, const N: usize> EngineTable<Q, N> {
    /// No queue is in a slot.
    #[inline]
    pub const fn new() -> Self {
        Self {
            slots: SlotTable::new(),
            resetting: false,
            lost: false,
        }
    }

    /// The slots.
    #[inline]
    pub const fn slots(&self) -> &SlotTable<Q, N> {
        &self.slots
    }

    /// Whether the engine did not come to rest by a reset: nothing runs on it any more.
    #[inline]
    pub const fn is_lost(&self) -> bool {
        self.lost
    }

    /// The engine does not come to rest by a reset.
    #[inline]
    pub fn set_lost(&mut self) {
        self.lost = true;
    }

    /// A reset of the engine begins; `None` while there is another one. [`SeatEvent::TakeByReset`]
    /// for each queue that has a slot follows, under the same lock and before the engine is
    /// touched.
    #[inline]
    pub fn begin_reset(&mut self) -> Option<ResetPermit> {
        match self.resetting {
            true => None,
            false => {
                self.resetting = true;
                Some(ResetPermit(()))
            }
        }
    }

    /// The reset is over: [`SeatEvent::ResetEnded`] was reported for each queue that has a slot,
    /// under the same lock.
    #[inline]
    pub fn end_reset(&mut self, permit: ResetPermit) {
        let ResetPermit(()) = permit;
        self.resetting = false;
    }

    /// Makes the transition of a queue at `state` for `event`: see the table at the head of the
    /// module.
    pub fn apply(&mut self, state: &mut SeatState, event: SeatEvent<Q>) -> SeatStep<Q> {
        use SeatAction::{
            Fail, Keep, LineUp, Load, Look, Nothing, Off, Reset, Ring, TurnOff, Wait,
        };
        match (state.seat, event) {
            // Into a slot.
            (Seat::Out, SeatEvent::Enter { slot, queue }) if !state.evicted && !self.lost => {
                match self.slots.claim(slot, queue) {
                    Ok(()) => {
                        state.seat = Seat::Loading(slot, ());
                        SeatStep::of(Load(LoadPermit { slot }))
                    }
                    Err(_) => SeatStep::nothing(),
                }
            }
            (Seat::Loading(slot, ()), SeatEvent::NotLoaded(permit)) if permit.slot == slot => {
                self.vacate(state, slot)
            }
            (Seat::Loading(slot, ()), SeatEvent::Loaded(permit)) if permit.slot == slot => {
                // On an engine that is lost it stays there.
                let (seat, action) = match self.lost {
                    true => (Seat::Stuck(slot), Fail),
                    false => (Seat::In(slot), Nothing),
                };
                state.seat = seat;
                SeatStep::changed(action)
            }
            (Seat::Loading(slot, ()), SeatEvent::LoadHangs(permit)) if permit.slot == slot => {
                state.seat = Seat::Leaving(slot, LeaveStep::Reset { loaded: false });
                SeatStep::of(Reset)
            }
            // Out of it.
            (Seat::In(slot), event @ (SeatEvent::Leave | SeatEvent::Evict)) => {
                state.evicted |= matches!(event, SeatEvent::Evict);
                state.seat = Seat::Leaving(slot, LeaveStep::Asked { waits: 0 });
                SeatStep::waking(TurnOff(slot))
            }
            (seat, SeatEvent::Evict) => {
                state.evicted = true;
                SeatStep::of(match seat {
                    Seat::Out => Off,
                    Seat::Leaving(slot, LeaveStep::Asked { .. }) => Look(slot),
                    Seat::Stuck(_) => Keep,
                    Seat::Loading(..) | Seat::In(_) | Seat::Leaving(..) => Wait,
                })
            }
            (Seat::Leaving(slot, LeaveStep::Asked { .. }), SeatEvent::Idle) => {
                self.vacate(state, slot)
            }
            // Its packet goes on when the driver has mapped what it has come to.
            (
                Seat::Leaving(slot, LeaveStep::Asked { waits }),
                SeatEvent::Late(LateReason::PageFaults),
            ) if waits < FAULT_WAITS => {
                state.seat = Seat::Leaving(slot, LeaveStep::Asked { waits: waits + 1 });
                SeatStep::nothing()
            }
            // It may still leave before the reset begins.
            (Seat::Leaving(_, LeaveStep::Asked { .. }), SeatEvent::Late(_)) => SeatStep::of(Reset),
            (
                Seat::In(slot) | Seat::Leaving(slot, LeaveStep::Asked { .. }),
                SeatEvent::TakeByReset,
            ) if self.resetting => {
                state.seat = Seat::Leaving(slot, LeaveStep::Reset { loaded: true });
                SeatStep::nothing()
            }
            (Seat::Leaving(slot, LeaveStep::Reset { .. }), SeatEvent::ResetEnded { works })
                if self.resetting =>
            {
                match works {
                    true => self.vacate(state, slot),
                    false => {
                        state.seat = Seat::Stuck(slot);
                        SeatStep::changed(Nothing)
                    }
                }
            }
            // What is wanted of it.
            (_, SeatEvent::Admit) => {
                // It keeps its turn among those that wait: it may be evicted again before that.
                state.evicted = false;
                SeatStep::waking(LineUp)
            }
            (Seat::In(slot), SeatEvent::Work) => SeatStep::of(Ring(slot)),
            // The work item looks again when the queue has come or gone.
            (Seat::Loading(..) | Seat::Leaving(..), SeatEvent::Work) => SeatStep::nothing(),
            (_, SeatEvent::Work) => SeatStep::waking(LineUp),
            _ => SeatStep::nothing(),
        }
    }

    /// The queue is out, and its slot is free.
    fn vacate(&mut self, state: &mut SeatState, slot: u8) -> SeatStep<Q> {
        state.seat = Seat::Out;
        SeatStep {
            left: self.slots.release(slot),
            notify: true,
            ..SeatStep::waking(SeatAction::Nothing)
        }
    }
}
