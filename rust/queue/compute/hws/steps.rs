// SPDX-License-Identifier: GPL-2.0
//! The state of the scheduler, and the pieces in which one list replaces another:
//! [`hw::runlist_steps`] says which is next, and this file does it.

use super::firmware::HwsFirmware;
use super::runlist::{RunlistDue, RunlistTable};
use crate::health::SuspectQueue;
use crate::queue::compute::queue::ComputeQueue;
use hw::runlist_steps::{
    RunlistAnswer, RunlistDemand, RunlistEvent, RunlistHelper, RunlistPiece, RunlistSteps,
};
use kernel::prelude::*;
use kernel::time::{Delta, Instant, Monotonic};

/// What is left to do after some pieces.
#[derive(Clone, Copy)]
pub(super) enum HwsNext {
    /// Nothing, until a queue changes.
    Rest,
    /// Another list, once the running one has run for this much longer.
    Later(Delta),
    /// The hardware has yet to answer.
    Answer,
    /// All changes so far were made, or none will be. Another list may be due.
    Changed,
    /// This piece of the work item.
    Worker(RunlistPiece),
}

/// State of the scheduler. Nothing is waited for or allocated under its lock, and nothing is freed.
pub(super) struct HwsState {
    pub(super) steps: RunlistSteps,
    /// `None` before start and after stop, and while the work item resets queues.
    pub(super) firmware: Option<HwsFirmware>,
    pub(super) table: RunlistTable,
    /// When the replacement of the list began that is under way, or was the last one.
    began: Instant<Monotonic>,
    /// The queue that did not leave the hardware, for the report if that was in vain.
    pub(super) suspect: Option<SuspectQueue>,
}

impl HwsState {
    /// Returns a state without queues.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(isolates: bool) -> Result<Self> {
        Ok(Self {
            steps: RunlistSteps::new(),
            firmware: None,
            table: RunlistTable::new(isolates)?,
            began: Instant::now(),
            suspect: None,
        })
    }

    /// When another list has to run, unless the next piece does not depend on that.
    pub(super) fn due(&self) -> RunlistDue {
        match self.steps.depends_on_due() {
            true => self.table.due(self.steps.is_running()),
            false => RunlistDue::Never,
        }
    }

    /// Whether `queue` may be on the hardware now.
    pub(super) fn is_listed(&mut self, queue: &ComputeQueue) -> bool {
        let entry = self.table.find(queue);
        entry.is_some_and(|entry| entry.is_listed())
    }

    /// Does the next pieces for `by`, until a list was installed at most. Does not sleep.
    pub(super) fn advance(&mut self, by: RunlistHelper) -> HwsNext {
        loop {
            let due = self.due();
            let demand = RunlistDemand {
                due: matches!(due, RunlistDue::Now),
                short: self.table.is_short(),
            };
            let event = match self.steps.next(by, demand) {
                RunlistPiece::Rest => {
                    return match due {
                        RunlistDue::In(left) => HwsNext::Later(left),
                        RunlistDue::Never | RunlistDue::Now => HwsNext::Rest,
                    }
                }
                RunlistPiece::Ask => self.ask(),
                RunlistPiece::Look => self.look(),
                RunlistPiece::Install => self.install(),
                RunlistPiece::End => {
                    self.end();
                    return HwsNext::Changed;
                }
                piece @ (RunlistPiece::Wait | RunlistPiece::Force | RunlistPiece::Halt) => {
                    return HwsNext::Worker(piece)
                }
            };
            self.steps = self.steps.after(event);
            match event {
                RunlistEvent::Answered(RunlistAnswer::Outstanding) => return HwsNext::Answer,
                RunlistEvent::Installed { .. } => return HwsNext::Changed,
                _ => {}
            }
        }
    }

    fn ask(&mut self) -> RunlistEvent {
        self.began = Instant::now();
        let asked = self
            .firmware
            .as_mut()
            .ok_or(ENODEV)
            .and_then(HwsFirmware::ask);
        asked.map_or(RunlistEvent::Failed, |()| RunlistEvent::Asked)
    }

    fn look(&self) -> RunlistEvent {
        match &self.firmware {
            Some(firmware) => RunlistEvent::Answered(firmware.answer(self.began)),
            None => RunlistEvent::Failed,
        }
    }

    /// Makes the changes, and runs a list of the queues that may run now.
    fn install(&mut self) -> RunlistEvent {
        match self.steps.is_running() {
            true => self.table.trace_saves(),
            false => self.began = Instant::now(),
        }
        let Some(firmware) = &mut self.firmware else {
            return RunlistEvent::Failed;
        };
        let asic = firmware.asic();
        let built = self
            .table
            .build(asic, &mut |at, packet| firmware.write(at, packet));
        let runs = built.and_then(|list| match list {
            Some(list) => firmware.run(&list).map(|()| true),
            None => Ok(false),
        });
        self.table.pace.has_begun(self.began.elapsed());
        runs.map_or(RunlistEvent::Failed, |runs| RunlistEvent::Installed {
            runs,
        })
    }

    /// No queue is on the hardware, nor will be.
    pub(super) fn end(&mut self) {
        self.table.clear();
        self.steps = self.steps.after(RunlistEvent::Ended);
    }
}
