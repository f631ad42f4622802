// SPDX-License-Identifier: GPL-2.0
//! The pump of a process's scheduled queues, as a state machine.
//!
//! It is also that of followed queues, whose page of doorbells is the hardware's own: what becomes
//! of a store that goes unseen there is in [`crate::sdma::follow`].
//!
//! The pump sees the doorbells of the queues and makes jobs of the packets that they announce. This
//! file decides when it looks, when it takes the page of doorbells away from the process, and when
//! it looks next; `queue/sdma/pump.rs` carries that out. The tests on the host explore all
//! interleavings of the steps below.
//!
//! # Why no doorbell is lost
//!
//! A store to the page of doorbells either faults or goes unseen. It goes unseen only while the
//! page is mapped, and for the page as a whole this holds at all times:
//!
//! > mapped, or about to be ⇒ [`PumpFlag::Open`] is set, and a pass is queued, running, or due by a
//! > timer. (1)
//!
//! - *The page becomes mapped* by a fault alone. [`PumpSignal::Touched`] follows the insertion: it
//!   sets the flag, then queues a pass, at once or by the timer. A pass that was running before
//!   does not count: queueing a running item makes it run again.
//! - *A pass ends* in one of two ways. It leaves the page mapped, and then queues itself in the
//!   grace time, so (1) holds. Or it arms the page: it clears the flag, takes the page away
//!   ([`PassAction::Zap`]), and reads all doorbells once more. A store before the end of the zap
//!   went to the page and is seen by that last reading, since the zap returns only after no CPU can
//!   use its old translation. A store after it faults. A fault that came in between has set the
//!   flag after its insertion and queued a pass of its own. Whether this zap met the page or not,
//!   (1) holds.
//! - *The fault itself comes before the store* that caused it: a pass may find nothing because the
//!   store is still to come. If the pass leaves the page mapped, a later pass sees the store by
//!   (1). If it arms the page, the store faults again. To let the store happen rather than fault
//!   again and again, a pass waits a moment for it before it arms the page: when it follows a fault
//!   and found nothing, or when a doorbell is behind the position that the process's write pointer
//!   already announced.
//!
//! So each store is read by a pass that begins its last reading after the store. The packets that
//! it announces are taken unless the queue already has all the jobs that it may have, or memory is
//! short. In the first case the end of a job, which also queues a pass, makes room. In the second a
//! pass is due by the timer.
//!
//! # Jobs whose end goes unnoticed
//!
//! The end of a job may go unnoticed too, when its interrupt is lost. While jobs are under way a
//! pass is due at the latest in [`WATCHDOG_MS`], and looks at the fences. While the page is not
//! mapped it looks at nothing else: thousands of queues may be there beside few that have jobs. As
//! long as it finds no job ended, it lets twice as much time pass before the next one: hundreds of
//! processes may have jobs that wait for ever, and passes run at a higher priority than programs.
//!
//! While jobs are under way the page stays mapped, since their ends make the pump look anyway. Only
//! when the grace time goes by without any progress is it armed beside them, lest a queue that
//! waits in POLL_REGMEM hides the doorbells of the others. It is also armed beside them when a
//! followed queue has left its slot ([`PumpFlag::Left`]): a store for that queue would have no
//! effect before the next look.
//!
//! # Locks and memory order
//!
//! A pass runs under the pump's lock, a mutex: [`PumpState`] belongs to it, and [`PumpState::step`]
//! is called under it. A fault cannot wait for the lock, and neither can an interrupt: they tell of
//! themselves by [`PumpFlag`]s and by queueing a pass ([`PumpSignal::actions`]). The order of these
//! actions matters, and so does that of memory:
//!
//! - A flag is set with Release and read with Acquire: a pass that sees a flag sees everything
//!   before it.
//! - A pass takes the flags of its beginning by a full exchange. Whatever it reads after that, it
//!   reads after all that had happened before the flag was set.
//! - Queueing a work item is a full barrier. If the item was pending before, it begins later and
//!   sees the flag; if it was running, it runs again.
//!
//! | state | event | next state | actions |
//! |---|---|---|---|
//! | resting | pass begins, no flag, no job unmade | watching | watch jobs |
//! | resting | pass begins, any other | looking | look |
//! | watching | a job has ended | looking | look |
//! | watching | none has, some are under way | resting, doubled | pass by the watchdog |
//! | watching | none is under way | resting | |
//! | looking | store still to come, patience left | looking | wait, look |
//! | looking | open, and no jobs, no progress, or a queue left | arming | clear flag, zap, look |
//! | looking, arming | any other: the pass ends | resting | refill; pass by grace or watchdog |
//!
//! A pass ends with a refill if an engine would run dry or packets were left; with a pass by the
//! grace time if the page is open or memory was short; else, while jobs are under way, with one by
//! the watchdog.

/// Longest time that the end of a job may go unnoticed at first, milliseconds.
pub const WATCHDOG_MS: u32 = 100;

/// Limits of a pump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PumpLimits {
    /// Number of moments that a pass waits for a store that is still to come.
    pub patience: u8,
    /// Number of times that [`WATCHDOG_MS`] doubles. Later the time is no longer than the job has
    /// taken by then.
    pub doublings: u8,
}

/// A flag that is set without the pump's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PumpFlag {
    /// The page of doorbells may be mapped, so that stores to it go unseen.
    Open,
    /// A fault mapped the page since the last pass, and took no packets itself.
    Faulted,
    /// The pass was requested, rather than due by a timer.
    Kicked,
    /// A followed queue has left its slot: stores to its doorbell go unheard.
    Left,
}

/// The flags at the beginning of a pass, which clears all but [`PumpFlag::Open`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PassFlags {
    /// [`PumpFlag::Open`].
    pub open: bool,
    /// [`PumpFlag::Faulted`].
    pub faulted: bool,
    /// [`PumpFlag::Kicked`].
    pub kicked: bool,
    /// [`PumpFlag::Left`].
    pub left: bool,
}

/// Findings of a look at all queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PumpFindings {
    /// Jobs were made, or have ended.
    pub progress: bool,
    /// Jobs are under way.
    pub busy: bool,
    /// A job could not be made for want of memory.
    pub retry: bool,
    /// A job was made that is its queue's only one: unless another follows, the engine runs dry at
    /// its end.
    pub single: bool,
    /// More packets are there than one look may take.
    pub more: bool,
    /// A job was made that may keep its engine busy for long.
    pub long: bool,
    /// A doorbell is behind the packets that were taken: its store has not arrived yet.
    pub behind: bool,
    /// Stores to the doorbell of another queue than the one that the look was for go unheard.
    pub unheard: bool,
}

/// Findings of a look at the fences of jobs under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchedFence {
    /// Jobs have ended.
    Ended,
    /// None has, and some are under way.
    Busy,
    /// None is under way.
    Idle,
}

/// An event of a pass, under the pump's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PumpEvent {
    /// The work item runs.
    Begin(PassFlags),
    /// The fences were looked at.
    Watched(WatchedFence),
    /// All queues were looked at. After that, [`PumpFlag::Open`] was read as `open`.
    Looked {
        /// Findings.
        found: PumpFindings,
        /// The flag.
        open: bool,
    },
}

/// An event without the pump's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PumpSignal {
    /// A fault has inserted the page of doorbells. If the lock was free, the fault has looked at
    /// the queue itself whose doorbell is about to be rung: a process writes its write pointer
    /// before the doorbell, so that most packets can be taken there, a change of threads earlier.
    Touched {
        /// The look made progress.
        taken: bool,
        /// Another look is to come soon: this one left packets, or made a long job, or another
        /// queue is followed and in no slot. The page stays mapped beside such a job, whose end has
        /// a pass look late, and a store for another queue often follows.
        soon: bool,
    },
    /// A followed queue has left its slot: a pass takes the page away, so that the next store for
    /// it faults.
    Left,
    /// A job has ended, or a queue may run again.
    Kick,
}

/// An action of a pass. Actions are carried out in the order that they are given in, and only the
/// last one leads to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassAction {
    /// Look at the fences of jobs under way, and at nothing else. [`PumpEvent::Watched`] follows.
    WatchJobs,
    /// Look at every queue, then read [`PumpFlag::Open`]. [`PumpEvent::Looked`] follows.
    Look,
    /// Wait a moment for a store.
    Wait,
    /// Clear [`PumpFlag::Open`].
    ClearOpen,
    /// Take the page of doorbells away from the process. Stores before the end are visible then,
    /// and later ones fault.
    Zap,
    /// Have a pass run in the grace time, unless one is queued already, which is sooner.
    PassByGrace,
    /// Have a pass run in [`PumpState::watchdog_ms`], unless one is queued already, which is
    /// sooner.
    PassByWatchdog,
    /// Have the other work item kick the pump in a moment, unless it is queued already. A delayed
    /// pass would be too late: a jiffy is longer than many a job.
    Refill,
}

/// An action without the pump's lock. Actions are carried out in the order that they are given in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignalAction {
    /// Set a flag.
    Set(PumpFlag),
    /// Clear a flag.
    Clear(PumpFlag),
    /// Have a pass run at once, whenever it was due.
    PassNow,
    /// Have a pass run in the grace time, whenever it was due.
    PassInGrace,
    /// Have a pass run at once if [`PumpFlag::Kicked`] or [`PumpFlag::Left`] is set. The thread
    /// that sets one queues the pass after that. So either it queues the pass after
    /// [`SignalAction::PassInGrace`] and shortens the time, or this action sees its flag.
    PassNowIfAsked,
    /// As [`PassAction::Refill`].
    Refill,
}

impl PumpSignal {
    /// Returns the actions for the event.
    pub const fn actions(self) -> &'static [SignalAction] {
        use PumpFlag::{Faulted, Kicked, Left, Open};
        use SignalAction::{Clear, PassInGrace, PassNow, PassNowIfAsked, Refill, Set};
        let actions: &[SignalAction] = match self {
            Self::Kick => &[Set(Kicked), PassNow],
            Self::Left => &[Set(Left), PassNow],
            Self::Touched { taken: false, soon } => match soon {
                false => &[Set(Faulted), Set(Open), Set(Kicked), PassNow],
                true => &[Refill, Set(Faulted), Set(Open), Set(Kicked), PassNow],
            },
            // There is no hurry: a pass now would only delay the store. A short job ends soon, and
            // its end has a pass look: a refill would be work for nothing.
            Self::Touched { taken: true, soon } => match soon {
                false => &[Clear(Faulted), Set(Open), PassInGrace, PassNowIfAsked],
                true => &[
                    Refill,
                    Clear(Faulted),
                    Set(Open),
                    PassInGrace,
                    PassNowIfAsked,
                ],
            },
        };
        actions
    }
}

/// The part of a pass that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PumpPhase {
    /// No pass is under way.
    Resting,
    /// The fences of jobs are being looked at.
    Watching,
    /// The queues are being looked at.
    Looking(PassLook),
    /// The page was taken away, and the queues are being looked at for the last time.
    Arming,
}

/// A pass that looks at queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PassLook {
    /// It follows a fault.
    faulted: bool,
    /// It was asked for.
    kicked: bool,
    /// A queue has left its slot.
    left: bool,
    /// An earlier look of it made progress.
    progress: bool,
    /// Moments that it may still wait.
    patience: u8,
}

/// State of a pump under its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PumpState {
    limits: PumpLimits,
    phase: PumpPhase,
    /// A job could not be made, for which a pass is due.
    unmet: bool,
    /// Number of passes of the watchdog in a row that found no job ended, at most
    /// [`PumpLimits::doublings`].
    fruitless: u8,
}

impl PumpState {
    /// Returns the state of a pump whose page was never mapped.
    pub const fn new(limits: PumpLimits) -> Self {
        Self {
            limits,
            phase: PumpPhase::Resting,
            unmet: false,
            fruitless: 0,
        }
    }

    /// Returns the time of [`PassAction::PassByWatchdog`], milliseconds.
    pub const fn watchdog_ms(self) -> u32 {
        WATCHDOG_MS << self.fruitless
    }

    /// Returns the state after `event` and the actions that it requires: all transitions of a pass.
    #[must_use]
    pub fn step(self, event: PumpEvent) -> (Self, &'static [PassAction]) {
        use PassAction::{ClearOpen, Look, PassByWatchdog, Wait, WatchJobs, Zap};
        match (self.phase, event) {
            (PumpPhase::Resting, PumpEvent::Begin(flags)) => {
                let watched = !(flags.faulted || flags.kicked || flags.open || self.unmet);
                let state = Self {
                    unmet: false,
                    ..self
                };
                match watched {
                    true => (state.in_phase(PumpPhase::Watching), &[WatchJobs]),
                    false => (state.in_phase(self.looking(flags)), &[Look]),
                }
            }
            (PumpPhase::Watching, PumpEvent::Watched(watched)) => match watched {
                WatchedFence::Ended => {
                    let phase = self.looking(PassFlags::default());
                    (self.in_phase(phase), &[Look])
                }
                WatchedFence::Busy => {
                    let fruitless = (self.fruitless + 1).min(self.limits.doublings);
                    let state = Self { fruitless, ..self };
                    (state.in_phase(PumpPhase::Resting), &[PassByWatchdog])
                }
                WatchedFence::Idle => (self.in_phase(PumpPhase::Resting), &[]),
            },
            (PumpPhase::Looking(pass), PumpEvent::Looked { found, open }) => {
                let progress = pass.progress || found.progress;
                let awaited = found.behind || (pass.faulted && !progress);
                let stalled = !progress && !pass.kicked;
                if awaited && !found.busy && pass.patience > 0 {
                    let phase = PumpPhase::Looking(PassLook {
                        progress,
                        patience: pass.patience - 1,
                        ..pass
                    });
                    (self.in_phase(phase), &[Wait, Look])
                } else if open && (!found.busy || stalled || pass.left) {
                    (self.in_phase(PumpPhase::Arming), &[ClearOpen, Zap, Look])
                } else {
                    self.end(found, open)
                }
            }
            (PumpPhase::Arming, PumpEvent::Looked { found, open }) => self.end(found, open),
            // No action of this phase leads to this event.
            _ => (self.in_phase(PumpPhase::Resting), &[]),
        }
    }

    const fn looking(self, flags: PassFlags) -> PumpPhase {
        PumpPhase::Looking(PassLook {
            faulted: flags.faulted,
            kicked: flags.kicked,
            left: flags.left,
            progress: false,
            patience: self.limits.patience,
        })
    }

    const fn in_phase(self, phase: PumpPhase) -> Self {
        Self { phase, ..self }
    }

    /// The pass ends after a look.
    fn end(self, found: PumpFindings, open: bool) -> (Self, &'static [PassAction]) {
        use PassAction::{PassByGrace, PassByWatchdog, Refill};
        let refill = found.single || found.more;
        let grace = found.retry || open;
        let watchdog = !grace && found.busy;
        let state = Self {
            phase: PumpPhase::Resting,
            unmet: found.retry,
            fruitless: if watchdog { 0 } else { self.fruitless },
            ..self
        };
        let actions: &[PassAction] = match (refill, grace, watchdog) {
            (false, true, _) => &[PassByGrace],
            (false, false, true) => &[PassByWatchdog],
            (false, false, false) => &[],
            (true, true, _) => &[Refill, PassByGrace],
            (true, false, true) => &[Refill, PassByWatchdog],
            (true, false, false) => &[Refill],
        };
        (state, actions)
    }
}
