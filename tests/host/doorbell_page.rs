// SPDX-License-Identifier: GPL-2.0
//! The page of doorbells of a process, with the pump's flags and its work item, as models of
//! scheduled and of followed queues share them.

use hw::pump::{PassAction, PassFlags, PumpFlag, SignalAction};

/// When the work item of a pass runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassDue {
    /// Not at all.
    Never,
    /// At once.
    Now,
    /// In the grace time.
    Grace,
    /// When the watchdog looks.
    Watchdog,
}

/// The page, the flags, and the work item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DoorbellPage {
    /// Stores to the page do not fault.
    pub mapped: bool,
    /// [`PumpFlag::Open`].
    pub open: bool,
    /// [`PumpFlag::Faulted`].
    pub faulted: bool,
    /// [`PumpFlag::Kicked`].
    pub kicked: bool,
    /// [`PumpFlag::Left`].
    pub left: bool,
    /// The work item.
    pub due: PassDue,
}

impl DoorbellPage {
    /// A rule of [`DoorbellPage::check_pass`].
    pub const MAPPED: &'static str = "the page is mapped without a pass to come";
    /// The rule of [`DoorbellPage::check_grace`].
    pub const GRACE: &'static str = "the page is mapped beyond the grace time";

    /// Of a process that has not stored yet.
    pub const fn new() -> Self {
        Self {
            mapped: false,
            open: false,
            faulted: false,
            kicked: false,
            left: false,
            due: PassDue::Never,
        }
    }

    fn flag(&mut self, flag: PumpFlag) -> &mut bool {
        match flag {
            PumpFlag::Open => &mut self.open,
            PumpFlag::Faulted => &mut self.faulted,
            PumpFlag::Kicked => &mut self.kicked,
            PumpFlag::Left => &mut self.left,
        }
    }

    /// Carries out an action of a thread without the lock. A refill is not the page's.
    pub fn signal(&mut self, action: SignalAction) {
        match action {
            SignalAction::Set(flag) => *self.flag(flag) = true,
            SignalAction::Clear(flag) => *self.flag(flag) = false,
            SignalAction::PassNow => self.due = PassDue::Now,
            SignalAction::PassInGrace => self.due = PassDue::Grace,
            SignalAction::PassNowIfAsked if self.kicked || self.left => self.due = PassDue::Now,
            SignalAction::PassNowIfAsked => {}
            SignalAction::Refill => unreachable!("a refill"),
        }
    }

    /// The work item begins a pass. Returns the first of its flags.
    pub fn begin_pass(&mut self) -> PassFlags {
        self.due = PassDue::Never;
        PassFlags {
            faulted: std::mem::take(&mut self.faulted),
            ..PassFlags::default()
        }
    }

    fn queue(&mut self, due: PassDue) {
        if self.due == PassDue::Never {
            self.due = due;
        }
    }

    /// Carries out an action of a pass, and returns what it does. Looks at queues and refills are
    /// not the page's.
    pub fn act(&mut self, action: PassAction) -> &'static str {
        match action {
            PassAction::Wait => "waits",
            PassAction::ClearOpen => {
                self.open = false;
                "clears Open"
            }
            PassAction::Zap => {
                self.mapped = false;
                "zaps"
            }
            PassAction::PassByGrace => {
                self.queue(PassDue::Grace);
                "queues a pass in the grace time"
            }
            PassAction::PassByWatchdog => {
                self.queue(PassDue::Watchdog);
                "queues a pass of the watchdog"
            }
            PassAction::WatchJobs | PassAction::Look | PassAction::Refill => {
                unreachable!("{action:?}")
            }
        }
    }

    /// A pass of the work item comes by itself, within the grace time.
    pub fn is_due_soon(&self) -> bool {
        matches!(self.due, PassDue::Now | PassDue::Grace)
    }

    /// While the page is mapped a pass is to come. A fault that has inserted the page sees to its
    /// flag and its pass, and a pass that has cleared the flag is about to take the page away:
    /// `excused`. `passes` tells whether a pass is under way.
    ///
    /// # Errors
    ///
    /// [`DoorbellPage::MAPPED`].
    pub fn check_pass(&self, excused: bool, passes: bool) -> Result<(), String> {
        let comes = self.due != PassDue::Never || passes;
        match !self.mapped || excused || (self.open && comes) {
            true => Ok(()),
            false => Err(Self::MAPPED.to_string()),
        }
    }

    /// The same while no thread is in the middle of anything.
    ///
    /// # Errors
    ///
    /// [`DoorbellPage::GRACE`].
    pub fn check_grace(&self) -> Result<(), String> {
        match !self.mapped || self.is_due_soon() {
            true => Ok(()),
            false => Err(Self::GRACE.to_string()),
        }
    }
}

impl Default for DoorbellPage {
    fn default() -> Self {
        Self::new()
    }
}
