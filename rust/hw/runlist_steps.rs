// SPDX-License-Identifier: GPL-2.0
//! The replacement of one runlist by the next, as a state machine.
//!
//! A list cannot be changed while it runs. All its queues leave the hardware, which takes time,
//! then the changes are made and the next list begins. No thread owns that: a thread that the
//! kernel's scheduler does not run any more would keep the queues of all processes off the
//! hardware. So the work is cut into pieces:
//!
//! - A piece is short and is done under a spinlock, so that the thread that does it is not
//!   preempted. After it, this state has all that is needed to go on.
//! - Whichever thread needs progress may do the next piece. The work item is queued, before the
//!   spinlock is dropped, whenever there is another piece to do. So the pieces are done even if
//!   every other thread stops for ever.
//! - What sleeps is done by the work item alone: the reset of queues that do not leave
//!   ([`RunlistPiece::Force`]), and the end of all access to memory ([`RunlistPiece::Halt`]). For
//!   that it drops the spinlock, and meanwhile this state gives no piece to another thread.
//!   Otherwise a thread might see a late answer of the hardware and run the next list, whose queues
//!   the work item would then reset.
//!
//! | stage | condition | piece | by | next stage |
//! |---|---|---|---|---|
//! | Stands | due | install | worker; caller if short | Runs, Stands |
//! | Runs | due, or the end is near | ask | any | Leaving |
//! | Leaving | | look | any | Leaving; Left; Forced if late |
//! | Left | | install | worker; caller if short | Runs, Stands |
//! | Forced | | force | worker | Left |
//! | Stands, Left | the end is near | end | worker | Ended |
//! | Failing | | halt | worker | Ended |
//!
//! The hardware's failure leads to Failing from each stage but Ended.

/// Where the replacement of the list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RunlistStage {
    /// No list runs, and no queue is on the hardware.
    Stands,
    /// A list runs.
    Runs,
    /// The queues were asked to leave.
    Leaving,
    /// The queues are off the hardware.
    Left,
    /// Some queues have not left in time.
    Forced,
    /// The hardware has failed. Queues may still be on it.
    Failing,
    /// The hardware takes no list any more, for good, and no queue is on it.
    Ended,
}

/// Whether the hardware may be given lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RunlistAccess {
    /// Not now.
    Closed,
    /// Yes.
    Open,
    /// No more: the running list is to be the last.
    Ending,
}

/// A thread that does pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunlistHelper {
    /// A thread that waits for a change.
    Caller,
    /// The work item, of which there is one.
    Worker,
}

/// What the list of queues demands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RunlistDemand {
    /// Another list is due at once.
    pub due: bool,
    /// The next list is short: any thread may install it.
    pub short: bool,
}

/// A piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunlistPiece {
    /// There is nothing to do.
    Rest,
    /// The work item has the next piece.
    Wait,
    /// Ask the hardware to let all queues go. [`RunlistEvent::Asked`] follows.
    Ask,
    /// Look whether it has. [`RunlistEvent::Answered`] follows.
    Look,
    /// Make the changes, and run the next list if there are queues for it.
    /// [`RunlistEvent::Installed`] follows.
    Install,
    /// Reset the queues that have not left, without the spinlock. [`RunlistEvent::Forced`] follows.
    Force,
    /// End all access of the hardware to memory, without the spinlock, and then mark all queues as
    /// off the hardware. [`RunlistEvent::Ended`] follows.
    Halt,
    /// Mark all queues as off the hardware. [`RunlistEvent::Ended`] follows.
    End,
}

/// The hardware's answer to [`RunlistPiece::Ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunlistAnswer {
    /// There is none yet.
    Outstanding,
    /// All queues have left.
    Left,
    /// It has not come in time, or names a queue that does not leave.
    Late,
}

/// The result of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunlistEvent {
    /// The queues were asked to leave.
    Asked,
    /// The answer so far.
    Answered(RunlistAnswer),
    /// The changes were made.
    Installed {
        /// A list runs.
        runs: bool,
    },
    /// The queues were reset, and are off the hardware.
    Forced,
    /// The hardware does not do what it is to do.
    Failed,
    /// No queue is on the hardware, nor will be.
    Ended,
}

/// State of the replacement of runlists, under the spinlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunlistSteps {
    stage: RunlistStage,
    access: RunlistAccess,
}

impl RunlistSteps {
    /// Returns the state of hardware that is not to be given lists yet.
    pub const fn new() -> Self {
        Self {
            stage: RunlistStage::Stands,
            access: RunlistAccess::Closed,
        }
    }

    /// Allows lists, unless the end is near.
    pub fn open(&mut self) {
        if self.access == RunlistAccess::Closed {
            self.access = RunlistAccess::Open;
        }
    }

    /// Allows no lists for now. Returns whether that was possible: no list may run.
    #[must_use]
    pub fn pause(&mut self) -> bool {
        let stands = matches!(self.stage, RunlistStage::Stands | RunlistStage::Ended);
        if stands && self.access == RunlistAccess::Open {
            self.access = RunlistAccess::Closed;
        }
        stands
    }

    /// Allows no lists any more. The queues leave the hardware, until [`RunlistSteps::has_ended`].
    pub fn end(&mut self) {
        self.access = RunlistAccess::Ending;
    }

    /// Returns whether lists are allowed, unless all has ended.
    pub const fn is_open(self) -> bool {
        matches!(self.access, RunlistAccess::Open)
    }

    /// Returns whether the hardware takes no list any more, and has none.
    pub const fn has_ended(self) -> bool {
        matches!(self.stage, RunlistStage::Ended)
    }

    /// Returns whether [`RunlistSteps::end`] was called.
    pub const fn is_ending(self) -> bool {
        matches!(self.access, RunlistAccess::Ending)
    }

    /// Returns whether queues may be on the hardware.
    pub const fn is_running(self) -> bool {
        !matches!(self.stage, RunlistStage::Stands | RunlistStage::Ended)
    }

    /// Returns whether the next piece depends on whether a list is due.
    pub const fn depends_on_due(self) -> bool {
        self.is_open() && matches!(self.stage, RunlistStage::Stands | RunlistStage::Runs)
    }

    /// Returns the next piece that `by` may do.
    pub const fn next(self, by: RunlistHelper, demand: RunlistDemand) -> RunlistPiece {
        let worker = matches!(by, RunlistHelper::Worker);
        let installs = match worker || demand.short {
            true => RunlistPiece::Install,
            false => RunlistPiece::Wait,
        };
        let (only, by_worker) = match (self.stage, self.access) {
            (RunlistStage::Leaving, _) => (RunlistPiece::Look, false),
            (RunlistStage::Forced, _) => (RunlistPiece::Force, true),
            (RunlistStage::Failing, _) => (RunlistPiece::Halt, true),
            (RunlistStage::Stands | RunlistStage::Left, RunlistAccess::Ending) => {
                (RunlistPiece::End, true)
            }
            (RunlistStage::Left, _) => (installs, false),
            (RunlistStage::Stands, RunlistAccess::Open) if demand.due => (installs, false),
            (RunlistStage::Runs, RunlistAccess::Ending) => (RunlistPiece::Ask, false),
            (RunlistStage::Runs, RunlistAccess::Open) if demand.due => (RunlistPiece::Ask, false),
            (RunlistStage::Stands | RunlistStage::Runs | RunlistStage::Ended, _) => {
                (RunlistPiece::Rest, false)
            }
        };
        match by_worker && !worker {
            true => RunlistPiece::Wait,
            false => only,
        }
    }

    /// Returns the state after `event`: all transitions.
    #[must_use]
    pub const fn after(self, event: RunlistEvent) -> Self {
        use RunlistStage::{Ended, Failing, Forced, Leaving, Left, Runs, Stands};
        let stage = match (self.stage, event) {
            (Ended, _) => Ended,
            (_, RunlistEvent::Failed) => Failing,
            (Runs, RunlistEvent::Asked) => Leaving,
            (Leaving, RunlistEvent::Answered(RunlistAnswer::Left)) => Left,
            (Leaving, RunlistEvent::Answered(RunlistAnswer::Late)) => Forced,
            (Forced, RunlistEvent::Forced) => Left,
            (Stands | Left, RunlistEvent::Installed { runs: true }) => Runs,
            (Stands | Left, RunlistEvent::Installed { runs: false }) => Stands,
            (Stands | Left | Failing, RunlistEvent::Ended) => Ended,
            // No piece of this stage leads to this event.
            (stage, _) => stage,
        };
        Self { stage, ..self }
    }
}

impl Default for RunlistSteps {
    fn default() -> Self {
        Self::new()
    }
}
