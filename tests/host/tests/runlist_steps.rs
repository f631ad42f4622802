// SPDX-License-Identifier: GPL-2.0
//! All interleavings of the threads that replace one runlist by the next.
//!
//! The model has the threads of `rust/queue/compute/hws.rs`, cut into the pieces between which
//! others can run: a piece under the spinlock is a step, and so is each access to the hardware
//! without it. Threads that wait for a change stop for ever after any step. The hardware answers,
//! is late, names a queue that does not leave, or never answers.

#[path = "runlist_steps/model.rs"]
mod model;

use hw::runlist_steps::{
    RunlistAnswer, RunlistDemand, RunlistEvent, RunlistHelper, RunlistPiece, RunlistSteps,
};
use rkfd_host_tests::explore::{explore, Explored, Model};

/// States of the largest of these models, with room for some more.
const MOST_STATES: usize = 2_000_000;
const QUEUES: usize = 2;
const MOST_CALLERS: usize = 3;

/// A rule of the module that a test breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    /// None.
    Nothing,
    /// A thread that waits does not queue the work item.
    CallerDoesNotWake,
    /// Only the thread that asked looks for the answer.
    AnswerIsCallers,
    /// Queues are reset while other threads may do pieces.
    ForcesBesideOthers,
    /// Where the hardware fails, its access to memory does not end.
    EndsWithoutHalt,
}

/// What a thread is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Creates a queue.
    Create(usize),
    /// Destroys a queue.
    Destroy(usize),
    /// Changes a queue between two lists.
    Change(usize),
    /// Puts the hardware to sleep, and wakes it.
    Sleep,
    /// Takes everything down.
    Stop,
}

/// What there is to explore.
#[derive(Clone, Copy)]
struct Lists {
    broken: Broken,
    roles: &'static [Role],
    /// Threads that wait may install the list.
    short: bool,
    /// The hardware may be late, and may name a queue that does not leave.
    late: bool,
    /// The hardware may fail.
    fails: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Queue {
    /// It is in the table.
    known: bool,
    listed: bool,
    /// It is about to be destroyed.
    off: bool,
    /// A change waits for the next list.
    change: bool,
}

impl Queue {
    fn is_wanted(&self) -> bool {
        self.known && !self.off
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Caller {
    /// It is still to begin.
    New,
    /// It does pieces.
    Helps,
    /// It waits for the table to change.
    Waits,
    /// It has made the GPU sleep.
    Sleeps,
    /// It is through, or stopped for ever.
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Worker {
    Idle,
    /// It takes the lock next.
    Runs,
    /// It resets the queues from this one on.
    Forces(usize),
    /// It ends the access to memory.
    Halts,
    /// The access to memory has ended.
    Halted,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    steps: RunlistSteps,
    queues: [Queue; QUEUES],
    /// Which queues are on the hardware.
    on: [bool; QUEUES],
    /// The hardware is to answer.
    asked: bool,
    /// It has answered.
    answered: bool,
    /// The firmware was taken down.
    gone: bool,
    /// The work item is queued.
    pending: bool,
    worker: Worker,
    callers: [Caller; MOST_CALLERS],
    wrong: Option<&'static str>,
}

/// Two queues, one of which is changed and then destroyed while the other is created.
const CHANGES: Lists = Lists {
    broken: Broken::Nothing,
    roles: &[Role::Create(1), Role::Change(0), Role::Destroy(0)],
    short: true,
    late: false,
    fails: false,
};

/// Two queues that are destroyed, and hardware that is late.
const LATE: Lists = Lists {
    roles: &[Role::Create(1), Role::Destroy(0), Role::Destroy(1)],
    late: true,
    ..CHANGES
};

/// Hardware that fails.
const FAILS: Lists = Lists {
    fails: true,
    ..LATE
};

/// A GPU that goes.
const STOPS: Lists = Lists {
    roles: &[Role::Create(1), Role::Destroy(0), Role::Stop],
    fails: true,
    ..LATE
};

/// A GPU that sleeps.
const SLEEPS: Lists = Lists {
    roles: &[Role::Create(1), Role::Destroy(0), Role::Sleep],
    ..LATE
};

/// Explores a model, with lists that any thread may install and others.
fn show(model: Lists) {
    for short in [false, true] {
        match explore(&Lists { short, ..model }, MOST_STATES) {
            Ok(explored @ Explored { at_rest: 1.., .. }) => println!("{explored:?}"),
            Ok(explored) => panic!("{explored:?}"),
            Err(found) => panic!("{found}"),
        }
    }
}

#[test]
fn changes_are_made_whichever_thread_stops() {
    show(CHANGES);
}

#[test]
fn a_late_answer_is_met_by_no_other_list() {
    show(LATE);
}

#[test]
fn a_failure_ends_all_access() {
    show(FAILS);
}

#[test]
fn the_end_comes() {
    show(STOPS);
}

#[test]
fn no_queue_is_on_sleeping_hardware() {
    show(SLEEPS);
}

/// Explores a model with a broken rule, which must be found.
fn breaks(broken: Broken, model: Lists, expected: &str) {
    match explore(&Lists { broken, ..model }, MOST_STATES) {
        Ok(explored) => panic!("not found in {explored:?}"),
        Err(found) => assert_eq!(expected, found.rule, "{}", found),
    }
}

#[test]
fn a_caller_that_leaves_the_rest_to_nothing_is_found() {
    breaks(Broken::CallerDoesNotWake, CHANGES, model::LEFT);
}

#[test]
fn a_caller_that_others_depend_on_is_found() {
    breaks(Broken::AnswerIsCallers, CHANGES, "nothing comes to rest");
}

#[test]
fn a_reset_beside_other_threads_is_found() {
    breaks(Broken::ForcesBesideOthers, LATE, model::RESET);
}

#[test]
fn a_failure_without_an_end_is_found() {
    breaks(Broken::EndsWithoutHalt, FAILS, model::STAYS);
}
