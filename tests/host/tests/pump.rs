// SPDX-License-Identifier: GPL-2.0
//! All interleavings of the threads around the pump of scheduled queues.
//!
//! The model has the program's threads, which store to doorbells and fault; the work item of a pass
//! and the one that refills; the hardware, which ends jobs with or without an interrupt; the
//! interrupt; and a thread that evicts and restores a queue. They are cut into the steps between
//! which others can run. Memory is sequentially consistent: `hw::pump` says which order of memory
//! the module asks for so that it is. Timers expire at any time. A packet is a unit, and so is a
//! job.

#[path = "pump/model.rs"]
mod model;

use hw::pump::{
    PassAction, PassFlags, PumpEvent, PumpFindings, PumpLimits, PumpSignal, PumpState,
    SignalAction, WatchedFence,
};
use rkfd_host_tests::doorbell_page::{DoorbellPage, PassDue};
use rkfd_host_tests::explore::{explore, show, Model};

/// States of the largest of these models, with room for some more.
const MOST_STATES: usize = 1_500_000;
/// Most queues of a model, each with a thread that rings it.
const QUEUES: usize = 2;
/// The module waits and doubles more often, which is more of the same.
const LIMITS: PumpLimits = PumpLimits {
    patience: 1,
    doublings: 0,
};
/// Packets that a look takes in a pass, and in a fault.
const PASS_PACKETS: u8 = 2;
const FAULT_PACKETS: u8 = 1;

/// The rules that the module goes by, so that tests can break one.
#[derive(Clone, Copy)]
struct Rules {
    step: fn(PumpState, PumpEvent) -> (PumpState, &'static [PassAction]),
    signal: fn(PumpSignal) -> &'static [SignalAction],
    /// A fault inserts the page before all else.
    insert_first: bool,
    /// An interrupt that finds jobs ended kicks the pump.
    interrupt_kicks: bool,
}

const RULES: Rules = Rules {
    step: PumpState::step,
    signal: PumpSignal::actions,
    insert_first: true,
    interrupt_kicks: true,
};

/// What there is to explore.
#[derive(Clone, Copy)]
struct Pump {
    rules: Rules,
    /// Positions that each program's thread announces, one after the other.
    stores: &'static [&'static [u8]],
    /// Whether each store comes with and without a new write pointer. If not, the first program
    /// writes one before each doorbell, and the second never does.
    both_ways: bool,
    /// Jobs that a queue may have.
    most_jobs: u8,
    /// Times that a job cannot be made for want of memory.
    shortages: u8,
    /// The first queue is evicted and restored once.
    evicts: bool,
}

/// The rings of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Queue {
    write_pointer: u8,
    doorbell: u8,
    taken: u8,
    /// Jobs whose end was not noticed, and how many of them have ended.
    jobs: u8,
    ended: u8,
    evicted: bool,
}

/// A look at all queues, or at one, that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LookRun {
    only: Option<usize>,
    /// Queues looked at.
    done: u8,
    found: PumpFindings,
    packets: u8,
    left_out: Option<u8>,
}

/// A thread that carries actions out without the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Signalling {
    left: &'static [SignalAction],
}

/// A program's thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum User {
    /// Between stores.
    Idle,
    /// About to store.
    Store,
    /// In a fault that has inserted the page, about to look at its queue if the lock is free.
    Look,
    /// In a fault that has not inserted the page, which it does last.
    Insert,
    /// Tells of a fault.
    Signal(Signalling),
}

/// The work item of a pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Pass {
    Idle,
    TakeKicked(PassFlags),
    ReadOpen(PassFlags),
    Act(&'static [PassAction]),
    Look(LookRun),
    /// Has looked, and reads whether the page is open.
    Looked(PumpFindings),
}

/// How often a queue is still to be evicted and restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Evictor {
    Evicts,
    Restores,
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    page: DoorbellPage,
    /// A fault has made a long job, and no pass has begun since.
    fresh: bool,
    pump: PumpState,
    first: u8,
    queues: [Queue; QUEUES],
    users: [User; QUEUES],
    /// Stores that each has made.
    stored: [u8; QUEUES],
    pass: Pass,
    refill_due: bool,
    /// A thread that kicks the pump: the refilling work item, an interrupt, or one that restores a
    /// queue. One at a time.
    kicker: Option<Signalling>,
    evictor: Evictor,
    shortages: u8,
}

/// A step: the thread that makes it, its number, and what it does.
type Step = (&'static str, usize, &'static str);

impl State {
    /// Carries out the next action of a thread without the lock. `None` when there is none left.
    fn signal(&mut self, thread: &Signalling) -> Option<Signalling> {
        let (&action, left) = thread.left.split_first()?;
        match action {
            SignalAction::Refill => self.refill_due = true,
            action => self.page.signal(action),
        }
        (!left.is_empty()).then_some(Signalling { left })
    }

    /// Ends the jobs of a queue that are done; whether there were any.
    fn check_jobs(&mut self, queue: usize) -> bool {
        let queue = &mut self.queues[queue];
        let any = queue.ended > 0;
        queue.jobs -= queue.ended;
        queue.ended = 0;
        any
    }

    /// Whether no thread is in the middle of anything.
    fn is_quiet(&self) -> bool {
        let quiet = |user: &User| matches!(user, User::Idle | User::Store);
        self.users.iter().all(quiet) && self.pass == Pass::Idle && self.kicker.is_none()
    }
}

impl LookRun {
    fn new(packets: u8) -> Self {
        Self {
            only: None,
            done: 0,
            found: PumpFindings::default(),
            packets,
            left_out: None,
        }
    }
}

/// Two queues that are rung once each.
const TWO: Pump = Pump {
    rules: RULES,
    stores: &[&[1], &[1]],
    both_ways: false,
    most_jobs: 1,
    shortages: 0,
    evicts: false,
};

/// A queue that is rung again, then for more than a look in a fault takes.
const STREAM: Pump = Pump {
    rules: RULES,
    stores: &[&[1, 3]],
    both_ways: true,
    most_jobs: 2,
    shortages: 0,
    evicts: false,
};

/// As `STREAM`, with room for one job, so that the end of one makes room.
const FULL: Pump = Pump {
    most_jobs: 1,
    ..STREAM
};

/// A queue for which memory is short.
const SHORT: Pump = Pump {
    stores: &[&[1, 2]],
    shortages: 1,
    ..STREAM
};

/// A queue that is evicted.
const EVICTED: Pump = Pump {
    stores: &[&[1, 2]],
    evicts: true,
    ..STREAM
};

#[test]
fn two_queues_lose_no_doorbell() {
    assert!(show(&TWO, MOST_STATES).at_rest > 0);
}

#[test]
fn a_stream_loses_no_doorbell() {
    assert!(show(&STREAM, MOST_STATES).at_rest > 0);
}

#[test]
fn a_full_queue_loses_no_doorbell() {
    assert!(show(&FULL, MOST_STATES).at_rest > 0);
}

#[test]
fn a_shortage_loses_no_doorbell() {
    assert!(show(&SHORT, MOST_STATES).at_rest > 0);
}

#[test]
fn an_evicted_queue_loses_no_doorbell() {
    assert!(show(&EVICTED, MOST_STATES).at_rest > 0);
}

/// Explores a model with broken rules, which breaks one of `expected`.
fn breaks(model: Pump, rules: Rules, expected: &[&str]) {
    match explore(&Pump { rules, ..model }, MOST_STATES) {
        Ok(explored) => panic!("not found in {explored:?}"),
        Err(found) => assert!(expected.contains(&&*found.rule), "{}", found),
    }
}

const MAPPED: &str = DoorbellPage::MAPPED;
const GRACE: &str = DoorbellPage::GRACE;
const LOST: &str = "a doorbell is lost";
const UNWATCHED: &str = "jobs are under way without a pass to come";
const LATE: &str = "a kick waits";
const BESIDE: &str = "a doorbell beside a long job waits for the grace time";

/// The real transition, with another list of actions: that of `change`.
fn with_actions(
    state: PumpState,
    event: PumpEvent,
    change: impl FnOnce(&mut Vec<PassAction>),
) -> (PumpState, &'static [PassAction]) {
    let (state, actions) = state.step(event);
    let mut actions = actions.to_vec();
    change(&mut actions);
    (state, actions.leak())
}

#[test]
fn without_the_last_look_a_doorbell_is_lost() {
    let step = |state: PumpState, event| {
        let (state, actions) = state.step(event);
        if !actions.contains(&PassAction::Zap) {
            return (state, actions);
        }
        // As if the look before had been the last one.
        let PumpEvent::Looked { found, .. } = event else {
            unreachable!()
        };
        let (state, end) = state.step(PumpEvent::Looked { found, open: false });
        let mut actions = vec![PassAction::ClearOpen, PassAction::Zap];
        actions.extend(end);
        (state, &*actions.leak())
    };
    breaks(TWO, Rules { step, ..RULES }, &[LOST]);
}

#[test]
fn a_flag_cleared_after_the_zap_leaves_the_page_mapped() {
    let step = |state, event| {
        with_actions(state, event, |actions| {
            if actions.contains(&PassAction::Zap) {
                actions.swap(0, 1);
            }
        })
    };
    breaks(TWO, Rules { step, ..RULES }, &[MAPPED]);
}

#[test]
fn a_page_left_mapped_without_a_pass_is_found() {
    let step = |state, event| {
        with_actions(state, event, |actions| {
            actions.retain(|&action| action != PassAction::PassByGrace);
        })
    };
    breaks(STREAM, Rules { step, ..RULES }, &[MAPPED, GRACE, LOST]);
}

#[test]
fn flags_set_before_the_insertion_leave_the_page_mapped() {
    let rules = Rules {
        insert_first: false,
        ..RULES
    };
    breaks(TWO, rules, &[MAPPED]);
}

#[test]
fn a_pass_queued_before_its_flag_leaves_the_page_mapped() {
    let signal = |signal: PumpSignal| {
        if signal == PumpSignal::Kick {
            return signal.actions();
        }
        let mut actions = signal.actions().to_vec();
        let is_flag = |action: &SignalAction| matches!(action, SignalAction::Set(_));
        actions.sort_by_key(is_flag);
        &*actions.leak()
    };
    breaks(TWO, Rules { signal, ..RULES }, &[MAPPED, GRACE]);
}

#[test]
fn a_shortage_that_is_forgotten_loses_a_doorbell() {
    let step = |state: PumpState, event| match event {
        PumpEvent::Looked { mut found, open } => {
            found.retry = false;
            state.step(PumpEvent::Looked { found, open })
        }
        _ => state.step(event),
    };
    breaks(SHORT, Rules { step, ..RULES }, &[LOST]);
}

#[test]
fn without_the_watchdog_jobs_go_unwatched() {
    let step = |state, event| {
        with_actions(state, event, |actions| {
            actions.retain(|&action| action != PassAction::PassByWatchdog);
        })
    };
    breaks(TWO, Rules { step, ..RULES }, &[UNWATCHED]);
}

#[test]
fn a_pass_that_only_watches_after_a_kick_loses_a_doorbell() {
    let step = |state: PumpState, event| match event {
        PumpEvent::Begin(flags) => state.step(PumpEvent::Begin(PassFlags {
            kicked: false,
            ..flags
        })),
        _ => state.step(event),
    };
    breaks(FULL, Rules { step, ..RULES }, &[LOST]);
}

#[test]
fn an_interrupt_that_does_not_kick_loses_a_doorbell() {
    let rules = Rules {
        interrupt_kicks: false,
        ..RULES
    };
    breaks(FULL, rules, &[LOST]);
}

#[test]
fn a_grace_time_that_ignores_kicks_delays_them() {
    let signal = |signal: PumpSignal| {
        let mut actions = signal.actions().to_vec();
        actions.retain(|&action| action != SignalAction::PassNowIfAsked);
        &*actions.leak()
    };
    breaks(TWO, Rules { signal, ..RULES }, &[LATE]);
}

#[test]
fn without_a_refill_after_a_fault_a_doorbell_beside_a_job_waits() {
    let signal = |signal: PumpSignal| match signal {
        PumpSignal::Touched { taken: true, .. } => PumpSignal::Touched {
            taken: true,
            soon: false,
        }
        .actions(),
        _ => signal.actions(),
    };
    breaks(TWO, Rules { signal, ..RULES }, &[BESIDE]);
}
