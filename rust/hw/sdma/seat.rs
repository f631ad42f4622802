// SPDX-License-Identifier: GPL-2.0
//! The seats of an SDMA engine as a state machine: all transitions of a queue between its engine's
//! slots and the line of queues that wait for one.
//!
//! Several threads move queues: the engine's work item, a thread that makes a queue, threads that
//! evict or destroy queues, and a reset. All report what happened as a [`SeatEvent`] under the
//! engine's spinlock. [`EngineTable::apply`] answers with a [`SeatStep`]: what the thread must do
//! next, without the spinlock, and how long that may take, and which other threads must look again.
//!
//! A seat that is `Loading` or `Leaving` has exactly one thread that moves it on, its [`Mover`].
//! That thread alone holds the permit ([`LoadPermit`], [`UnloadPermit`]) without which no event
//! ends such a state. A permit is made with the state and is used up with it; it can be neither
//! made nor copied elsewhere.
//!
//! | seat | event | seat after | the thread must |
//! |---|---|---|---|
//! | Out | Enter, engine not lost, slot free | Loading | load |
//! | Loading | NotLoaded | Out | notify, wake for those in line |
//! | Loading | Loaded | In | notify |
//! | Loading | Loaded, engine lost | Stuck | fail the queue, notify |
//! | Loading | LoadHangs | Leaving | reset the engine |
//! | In | Leave | Leaving | unload |
//! | In | Evict | Leaving, to stay out | unload |
//! | Out | Evict | Out, to stay out | |
//! | Loading, Leaving | Evict | as before, to stay out | wait |
//! | In | TakeByReset | Leaving | read its pointer after the reset |
//! | Leaving | Left | Out | notify, wake for those in line |
//! | Leaving | Late, a page fault was served | Leaving | unload once more, some times |
//! | Leaving | Late, the caller gives up | In, to leave for a moment | notify and wake |
//! | Leaving | Late, the caller gives up, engine lost | Stuck | fail the queue, notify |
//! | Leaving | Late, it hangs | Leaving | reset the engine |
//! | Leaving | EngineLost | Stuck | notify |
//! | In | Clear | In, to leave for a moment | wake |
//! | any | Admit | as before, may enter | line up and wake |
//! | In, to stay | Work | as before | ring |
//! | Loading, Leaving | Work | as before | nothing: its mover looks |
//! | Out, Stuck, In to leave | Work | as before | line up and wake |
//!
//! "Notify" is for threads that wait for a change of a seat, "wake" for the work item, which needs
//! none when it has moved the queue itself. Every event that is not in the table changes nothing.

use crate::seat::{Seat, SlotTable};

/// How long a queue may take to leave its slot, milliseconds. A queue that takes longer hangs.
pub const UNLOAD_MS: i64 = 2000;
/// How many more times a queue gets [`UNLOAD_MS`] because page faults of its process are or were
/// to be dealt with meanwhile, which is the driver's affair: ten seconds in all. amdkfd gives a
/// queue nine (queue_preemption_timeout_ms).
pub const FAULT_WAITS: u8 = 4;
/// Time between two looks at the seat of a queue, of a thread that does not wait for it at any
/// cost, microseconds.
const SEAT_POLL_US: i64 = 200;

/// The thread that moves a queue into a slot or out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mover {
    /// The engine's work item.
    TurnWorker,
    /// The thread that makes the queue.
    Creator,
    /// A thread that evicts or destroys the queue.
    Evictor,
    /// A thread that resets the engine.
    Reset,
}

/// The right to end `Loading` of one queue.
#[must_use = "a seat without its permit is never moved on"]
#[cfg_attr(not(MODULE), derive(Clone, PartialEq, Eq, Hash))]
#[derive(Debug)]
pub struct LoadPermit {
    slot: u8,
    by: Mover,
}

impl LoadPermit {
    /// The slot that the queue is loaded into.
    #[inline]
    pub const fn slot(&self) -> u8 {
        self.slot
    }

    fn is(&self, slot: u8, by: Mover) -> bool {
        (self.slot, self.by) == (slot, by)
    }
}

/// The right to end `Leaving` of one queue.
#[must_use = "a seat without its permit is never moved on"]
#[cfg_attr(not(MODULE), derive(Clone, PartialEq, Eq, Hash))]
#[derive(Debug)]
pub struct UnloadPermit {
    slot: u8,
    by: Mover,
    /// How often it got more time because of page faults.
    waits: u8,
}

impl UnloadPermit {
    /// The slot that the queue leaves.
    #[inline]
    pub const fn slot(&self) -> u8 {
        self.slot
    }

    /// How long the queue may take to leave it, milliseconds.
    #[inline]
    pub const fn within_ms(&self) -> i64 {
        UNLOAD_MS
    }

    fn is(&self, slot: u8, by: Mover) -> bool {
        (self.slot, self.by) == (slot, by)
    }
}

/// Why a queue has not left its slot in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LateReason {
    /// The thread that unloads it does not wait any longer.
    CallerGivesUp,
    /// Page faults of its process were dealt with meanwhile, or still are.
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
        /// The thread that loads it.
        by: Mover,
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
    Leave(Mover),
    /// A caller wants it off the hardware, and to stay off.
    Evict,
    /// The engine was reset.
    TakeByReset,
    /// It has left its slot.
    Left(UnloadPermit),
    /// It has not left its slot in time.
    Late(UnloadPermit, LateReason),
    /// It has not left its slot, and the engine did not come to rest by a reset.
    EngineLost(UnloadPermit),
    /// It may enter again.
    Admit,
    /// It must leave for a moment, so that others get turns.
    Clear,
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
    /// Unload the queue; then `Left`, or `Late` after [`UnloadPermit::within_ms`].
    Unload(UnloadPermit),
    /// Reset the engine; then `Left` or `EngineLost`.
    Reset(UnloadPermit),
    /// Read how far the queue has got, which a reset has taken off; then `Left`, or `EngineLost`
    /// if the engine did not come to rest.
    Collect(UnloadPermit),
    /// Ring the doorbell of the slot.
    Ring(u8),
    /// Have the queue stand in line, if it may and has something to do.
    LineUp,
    /// Wait until the seat changes; then report the event again. A thread that cannot wait for that
    /// at any cost looks each `poll_us` microseconds.
    Wait {
        /// The time between two looks.
        poll_us: i64,
    },
    /// The queue is off the hardware.
    Off,
    /// The queue stays on the hardware for good, with all that the engine may still reach.
    Keep,
    /// Have the queue fail: the engine does nothing any more.
    Fail,
}

/// Whether the engine's work item must look at its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TurnWake {
    /// No.
    No,
    /// If a queue stands in line.
    IfWaiting,
    /// Yes.
    Yes,
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
    /// Whether the work item must look.
    pub wake: TurnWake,
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
            wake: TurnWake::No,
            left: None,
        }
    }

    /// The seat has changed in a way that others wait for.
    fn changed(action: SeatAction, wake: TurnWake) -> Self {
        Self {
            notify: true,
            wake,
            ..Self::of(action)
        }
    }

    fn waking(action: SeatAction) -> Self {
        Self {
            wake: TurnWake::Yes,
            ..Self::of(action)
        }
    }
}

/// A queue's seat, and what is wanted of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeatState {
    seat: Seat<u8, Mover, Mover>,
    evicted: bool,
    cleared: bool,
}

impl SeatState {
    /// A queue that is in no slot. It must not enter before [`SeatEvent::Admit`] if `evicted`.
    #[inline]
    pub const fn new(evicted: bool) -> Self {
        Self {
            seat: Seat::Out,
            evicted,
            cleared: false,
        }
    }

    /// Any state, for tests of wrong transitions.
    #[cfg(not(MODULE))]
    #[inline]
    pub const fn forged(seat: Seat<u8, Mover, Mover>, evicted: bool, cleared: bool) -> Self {
        Self {
            seat,
            evicted,
            cleared,
        }
    }

    /// The seat.
    #[inline]
    pub const fn seat(&self) -> &Seat<u8, Mover, Mover> {
        &self.seat
    }

    /// Whether it must be out, and stay out.
    #[inline]
    pub const fn is_evicted(&self) -> bool {
        self.evicted
    }

    /// Whether it must be out for a moment.
    #[inline]
    pub const fn is_cleared(&self) -> bool {
        self.cleared
    }
}

/// The slots of an engine, and the queues that are in them, come or go.
#[cfg_attr(not(MODULE), derive(Clone, PartialEq, Eq, Hash))]
#[derive(Debug)]
pub struct EngineTable<Q, const N: usize> {
    slots: SlotTable<Q, N>,
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

    /// Makes the transition of a queue at `state` for `event`: see the table at the head of the
    /// module.
    pub fn apply(&mut self, state: &mut SeatState, event: SeatEvent<Q>) -> SeatStep<Q> {
        use SeatAction::{Collect, Keep, LineUp, Load, Off, Reset, Ring, Unload, Wait};
        match (state.seat, event) {
            // Into a slot.
            (Seat::Out, SeatEvent::Enter { slot, by, queue }) if !state.evicted && !self.lost => {
                match self.slots.claim(slot, queue) {
                    Ok(()) => {
                        state.seat = Seat::Loading(slot, by);
                        SeatStep::of(Load(LoadPermit { slot, by }))
                    }
                    Err(_) => SeatStep::nothing(),
                }
            }
            (Seat::Loading(slot, by), SeatEvent::NotLoaded(permit)) if permit.is(slot, by) => {
                self.vacate(state, slot, by)
            }
            (Seat::Loading(slot, by), SeatEvent::Loaded(permit)) if permit.is(slot, by) => {
                state.cleared = false;
                self.settle(state, slot, TurnWake::No)
            }
            (Seat::Loading(slot, by), SeatEvent::LoadHangs(permit)) if permit.is(slot, by) => {
                state.seat = Seat::Leaving(slot, by);
                state.cleared = false;
                SeatStep::of(Reset(UnloadPermit { slot, by, waits: 0 }))
            }
            // Out of it.
            (Seat::In(slot), SeatEvent::Leave(by)) => Self::leave(state, slot, by, Unload),
            (Seat::In(slot), SeatEvent::Evict) => {
                state.evicted = true;
                Self::leave(state, slot, Mover::Evictor, Unload)
            }
            (Seat::In(slot), SeatEvent::TakeByReset) => {
                Self::leave(state, slot, Mover::Reset, Collect)
            }
            (seat, SeatEvent::Evict) => {
                state.evicted = true;
                SeatStep::of(match seat {
                    Seat::Out => Off,
                    Seat::Stuck(_) => Keep,
                    _ => Wait {
                        poll_us: SEAT_POLL_US,
                    },
                })
            }
            (Seat::Leaving(slot, by), SeatEvent::Left(permit)) if permit.is(slot, by) => {
                self.vacate(state, slot, by)
            }
            (Seat::Leaving(slot, by), SeatEvent::Late(permit, why)) if permit.is(slot, by) => {
                let waits = permit.waits + 1;
                match why {
                    // Its ring is off: it must be loaded anew, if it is to run by then.
                    LateReason::CallerGivesUp => {
                        state.cleared = true;
                        self.settle(state, slot, TurnWake::Yes)
                    }
                    // Its packet goes on when the driver has mapped what it has come to.
                    LateReason::PageFaults if waits <= FAULT_WAITS => {
                        SeatStep::of(Unload(UnloadPermit { waits, ..permit }))
                    }
                    LateReason::PageFaults | LateReason::Hangs => SeatStep::of(Reset(permit)),
                }
            }
            (Seat::Leaving(slot, by), SeatEvent::EngineLost(permit)) if permit.is(slot, by) => {
                state.seat = Seat::Stuck(slot);
                SeatStep::changed(SeatAction::Nothing, TurnWake::No)
            }
            // What is wanted of it.
            (_, SeatEvent::Admit) => {
                // It keeps its turn among those that wait: it may be evicted again before that.
                state.evicted = false;
                SeatStep::waking(LineUp)
            }
            (Seat::In(_), SeatEvent::Clear) => {
                state.cleared = true;
                SeatStep::waking(SeatAction::Nothing)
            }
            (Seat::In(slot), SeatEvent::Work) if !state.evicted && !state.cleared => {
                SeatStep::of(Ring(slot))
            }
            // The thread that loads or unloads it looks again when it is through.
            (Seat::Loading(..) | Seat::Leaving(..), SeatEvent::Work) => SeatStep::nothing(),
            (_, SeatEvent::Work) => SeatStep::waking(LineUp),
            _ => SeatStep::nothing(),
        }
    }

    /// The queue is in `slot`; on an engine that is lost it stays there.
    fn settle(&self, state: &mut SeatState, slot: u8, wake: TurnWake) -> SeatStep<Q> {
        if self.lost {
            state.seat = Seat::Stuck(slot);
            return SeatStep::changed(SeatAction::Fail, TurnWake::No);
        }
        state.seat = Seat::In(slot);
        SeatStep::changed(SeatAction::Nothing, wake)
    }

    fn leave(
        state: &mut SeatState,
        slot: u8,
        by: Mover,
        action: fn(UnloadPermit) -> SeatAction,
    ) -> SeatStep<Q> {
        state.seat = Seat::Leaving(slot, by);
        SeatStep::of(action(UnloadPermit { slot, by, waits: 0 }))
    }

    /// The queue is out, and its slot is free. The work item looks again on its own account.
    fn vacate(&mut self, state: &mut SeatState, slot: u8, by: Mover) -> SeatStep<Q> {
        state.seat = Seat::Out;
        let wake = match by {
            Mover::TurnWorker => TurnWake::No,
            Mover::Creator | Mover::Evictor | Mover::Reset => TurnWake::IfWaiting,
        };
        SeatStep {
            left: self.slots.release(slot),
            ..SeatStep::changed(SeatAction::Nothing, wake)
        }
    }
}
