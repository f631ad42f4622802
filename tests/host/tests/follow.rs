// SPDX-License-Identifier: GPL-2.0
//! Followed queues: which bytes are a job, and all interleavings of the threads around one.
//!
//! The second part composes the tables of the module: that of the page of doorbells (`hw::pump`),
//! that of the engine's slots (`hw::sdma::seat`), and the positions of the queue
//! (`hw::sdma::follow`). Around them are the program, which stores to the doorbell and faults; the
//! engine, which latches doorbells of a queue that is loaded and executes; the thread that loads
//! queues; and one that evicts the queue and admits it again, or has it leave for another. Memory
//! is sequentially consistent, and timers expire at any time.

#[path = "follow/model.rs"]
mod model;

use hw::pump::{
    PassAction, PassFlags, PumpEvent, PumpFindings, PumpLimits, PumpSignal, PumpState,
    SignalAction, WatchedFence,
};
use hw::sdma::follow::{submission_end, FollowedPositions};
use hw::sdma::packet;
use hw::sdma::ring::RingSize;
use hw::sdma::seat::{EngineTable, LoadPermit, SeatAction, SeatEvent, SeatState};
use hw::seat::Seat;
use rkfd_host_tests::doorbell_page::{DoorbellPage, PassDue};
use rkfd_host_tests::explore::{explore, show, Model};

const SIZE: RingSize = match RingSize::new(1024) {
    Ok(size) => size,
    Err(_) => panic!(),
};

#[test]
fn each_byte_is_taken_once() {
    let mut queue = FollowedPositions::new();
    let bytes = queue.look(SIZE, 0, 64);
    assert_eq!((bytes.from, bytes.read, bytes.to), (0, 0, 64));
    assert!(bytes.moved && bytes.intact);
    assert!(bytes.has_work());
    queue.take(32);
    let bytes = queue.look(SIZE, 64, 64);
    assert_eq!((bytes.from, bytes.read, bytes.to), (32, 64, 64));
    assert!(!bytes.has_work());
    queue.take(64);
    let bytes = queue.look(SIZE, 64, 64);
    assert_eq!((bytes.from, bytes.to, bytes.moved), (64, 64, false));
}

#[test]
fn many_rounds_between_two_looks_are_not_intact() {
    let mut queue = FollowedPositions::new();
    let bytes = queue.look(SIZE, 10_240, 10_240 + 512);
    assert_eq!((bytes.from, bytes.read, bytes.to), (0, 10_240, 10_752));
    assert!(!bytes.intact);
    // Exactly one round is.
    let mut queue = FollowedPositions::new();
    assert!(queue.look(SIZE, 512, 1024).intact);
    let mut queue = FollowedPositions::new();
    assert!(!queue.look(SIZE, 512, 1028).intact);
}

#[test]
fn forged_pointers_do_not_move_a_queue() {
    let mut queue = FollowedPositions::new();
    queue.look(SIZE, 128, 256);
    queue.take(256);
    // Back, no whole dword, and further ahead than the ring is large.
    for (read, write) in [
        (0, 0),
        (130, 258),
        (128, 128 + 1028),
        (u64::MAX, 0),
        (0, u64::MAX),
    ] {
        let bytes = queue.look(SIZE, read, write);
        assert_eq!(
            (bytes.read, bytes.to, bytes.moved),
            (128, 256, false),
            "{read} {write}"
        );
    }
    // A read pointer without sense does not hide the write pointer.
    let bytes = queue.look(SIZE, 7, 512);
    assert_eq!((bytes.read, bytes.to), (128, 512));
}

/// All sequences of a few looks with a few values of the pointers: jobs are in order, without gaps.
#[test]
fn jobs_have_no_gaps() {
    const VALUES: [u64; 7] = [0, 4, 6, 512, 1024, 1028, 4096];
    fn go(queue: FollowedPositions, end: u64, left: u8) {
        if left == 0 {
            return;
        }
        for read in VALUES {
            for write in VALUES {
                let mut queue = queue;
                let bytes = queue.look(SIZE, read, write);
                assert_eq!(bytes.from, end);
                assert!(bytes.to >= end && bytes.to % 4 == 0);
                assert!(!bytes.intact || bytes.to - end <= SIZE.bytes());
                // Jobs are made of all, or memory is short after the first half.
                go(queue, end, left - 1);
                queue.take(bytes.to);
                go(queue, bytes.to, left - 1);
            }
        }
    }
    go(FollowedPositions::new(), 0, 3);
}

/// The ends of all submissions of a ring of these packets, which begins at its start.
fn ends(packets: &[&[u32]]) -> Vec<u64> {
    let ring: Vec<u32> = packets.iter().flat_map(|packet| packet.to_vec()).collect();
    let to = ring.len() as u64 * 4;
    let mut from = 0;
    let mut ends = Vec::new();
    while from < to {
        let end = submission_end(from, to, |at, dwords| {
            let rest = ring.get(at as usize / 4..)?;
            let count = rest.len().min(dwords.len());
            dwords[..count].copy_from_slice(&rest[..count]);
            Some(count)
        });
        assert!(end > from);
        ends.push(end);
        from = end;
    }
    ends
}

#[test]
fn submissions_end_behind_their_fences() {
    let copy = [1u32, 0, 0, 0, 0, 0, 0];
    let fence = packet::fence(0x1000, 1);
    let trap = packet::trap(1);
    assert_eq!(ends(&[&copy, &fence, &copy, &fence, &trap]), [44, 96]);
    // Without a fence it is not known where one ends.
    assert_eq!(ends(&[&copy, &copy]), [56]);
    // Dwords that are no packet belong to what is before them.
    assert_eq!(ends(&[&copy, &fence, &[0xff], &copy]), [44, 76]);
    // An incomplete packet.
    assert_eq!(ends(&[&copy, &[2, 0]]), [36]);
}

/// States of the largest model, with room for some more.
const MOST_STATES: usize = 3_000_000;
const LIMITS: PumpLimits = PumpLimits {
    patience: 1,
    doublings: 0,
};

/// The rules that the module goes by, so that tests can break one.
#[derive(Clone, Copy)]
struct Rules {
    step: fn(PumpState, PumpEvent) -> (PumpState, &'static [PassAction]),
    /// A look that finds work has a queue that is out stand in line.
    submits: bool,
    /// A fault does the same.
    fault_submits: bool,
    /// The pump is told of a queue that has left its slot.
    tells_of_leaving: bool,
    /// The write pointer is read after the engine has the doorbell.
    reads_late: bool,
    /// The program stores its write pointer before the doorbell.
    announces_first: bool,
}

const RULES: Rules = Rules {
    step: PumpState::step,
    submits: true,
    fault_submits: true,
    tells_of_leaving: true,
    reads_late: true,
    announces_first: true,
};

/// What there is to explore.
#[derive(Clone, Copy)]
struct Followed {
    rules: Rules,
    /// Positions that the program announces, one after the other.
    stores: &'static [u8],
    /// Times that the queue leaves its slot for another one.
    leaves: u8,
    /// The queue is evicted and admitted again.
    evicts: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum User {
    /// Between stores.
    Idle,
    /// About to store to the doorbell.
    Store,
    /// In a fault that has inserted the page.
    Look,
    /// Tells of a fault.
    Signal(&'static [SignalAction]),
    /// Has rung before it announces, which breaks a rule.
    Late,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Pass {
    Idle,
    TakeKicked(PassFlags),
    ReadOpen(PassFlags),
    Act(&'static [PassAction]),
    Look,
    Looked(PumpFindings),
}

/// How far the work item is that loads the queue, and clears up after it has left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Turn {
    Idle,
    /// Tells the pump that the queue has left.
    Tells(&'static [SignalAction]),
    /// About to enable the doorbell.
    Begins(LoadPermit, Option<u8>),
    /// About to read the write pointer.
    Enabled(LoadPermit, Option<u8>),
    /// About to write it, and to enable the ring.
    Writes(LoadPermit, u8),
}

/// What the engine has of the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Engine {
    has_doorbell: bool,
    runs: bool,
    wptr: u8,
    rptr: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Evictor {
    Evicts,
    Admits,
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    page: DoorbellPage,
    pump: PumpState,
    pass: Pass,
    user: User,
    stored: u8,
    /// The pointers in memory.
    write: u8,
    read: u8,
    positions: FollowedPositions,
    /// Ends of jobs that were not seen to end.
    jobs: Vec<u8>,
    table: EngineTable<(), 1>,
    seat: SeatState,
    in_line: bool,
    turn: Turn,
    engine: Engine,
    /// The queue has left, and does not stand in line yet if it has to.
    left: bool,
    /// It has left, and the work item has not cleared up yet.
    departed: bool,
    /// The page was mapped, or is about to be, by a fault that found the queue out and without
    /// work, or that the queue's leaving has missed.
    raced: bool,
    leaves: u8,
    evictor: Evictor,
    kicker: Option<&'static [SignalAction]>,
}

type Step = (&'static str, &'static str);

/// A queue that is rung three times.
const ALONE: Followed = Followed {
    rules: RULES,
    stores: &[1, 2, 4],
    leaves: 0,
    evicts: false,
};

/// A queue that leaves its slot for others meanwhile.
const SHARED: Followed = Followed {
    stores: &[1, 3],
    leaves: 2,
    ..ALONE
};

/// A queue that is evicted meanwhile.
const EVICTED: Followed = Followed {
    stores: &[1, 3],
    leaves: 0,
    evicts: true,
    ..ALONE
};

#[test]
fn a_queue_alone_loses_no_doorbell() {
    assert!(show(&ALONE, MOST_STATES).at_rest > 0);
}

#[test]
fn a_queue_that_shares_its_slot_loses_no_doorbell() {
    assert!(show(&SHARED, MOST_STATES).at_rest > 0);
}

#[test]
fn an_evicted_queue_loses_no_doorbell() {
    assert!(show(&EVICTED, MOST_STATES).at_rest > 0);
}

const LOST: &str = "a doorbell is lost";
const MAPPED: &str = DoorbellPage::MAPPED;
const UNHEARD: &str = "stores go unheard";

/// Explores a model with broken rules, which breaks one of `expected`.
fn breaks(model: Followed, rules: Rules, expected: &[&str]) {
    match explore(&Followed { rules, ..model }, MOST_STATES) {
        Ok(explored) => panic!("not found in {explored:?}"),
        Err(found) => assert!(
            expected.iter().any(|rule| found.rule.contains(rule)),
            "{}",
            found
        ),
    }
}

/// What `explore` says of states from which nothing comes to rest.
const STUCK: &str = "rest";

#[test]
fn a_look_that_does_not_submit_loses_a_doorbell() {
    let rules = Rules {
        submits: false,
        ..RULES
    };
    breaks(SHARED, rules, &[LOST, STUCK]);
}

#[test]
fn a_write_pointer_that_is_read_first_loses_a_doorbell() {
    let rules = Rules {
        reads_late: false,
        ..RULES
    };
    breaks(SHARED, rules, &[LOST, STUCK]);
}

#[test]
fn a_program_that_rings_first_loses_its_doorbell() {
    let rules = Rules {
        announces_first: false,
        ..RULES
    };
    breaks(SHARED, rules, &[LOST, STUCK]);
}

#[test]
fn a_flag_cleared_after_the_zap_leaves_the_page_mapped() {
    let step = |state: PumpState, event| {
        let (state, actions) = state.step(event);
        let mut actions = actions.to_vec();
        if actions.contains(&PassAction::Zap) {
            actions.swap(0, 1);
        }
        (state, &*actions.leak())
    };
    breaks(ALONE, Rules { step, ..RULES }, &[MAPPED]);
}

#[test]
fn without_the_last_look_a_doorbell_is_lost() {
    let step = |state: PumpState, event| {
        let (state, actions) = state.step(event);
        let PumpEvent::Looked { found, .. } = event else {
            return (state, actions);
        };
        if !actions.contains(&PassAction::Zap) {
            return (state, actions);
        }
        let (state, end) = state.step(PumpEvent::Looked { found, open: false });
        let mut actions = vec![PassAction::ClearOpen, PassAction::Zap];
        actions.extend(end);
        (state, &*actions.leak())
    };
    breaks(SHARED, Rules { step, ..RULES }, &[LOST, STUCK]);
}

#[test]
fn a_queue_that_leaves_without_a_word_goes_unheard() {
    let rules = Rules {
        tells_of_leaving: false,
        ..RULES
    };
    breaks(SHARED, rules, &[UNHEARD]);
}

/// A page that stays mapped beside work that moves, as without [`PumpFlag::Left`].
#[test]
fn a_page_that_is_not_taken_away_goes_unheard() {
    let step = |state: PumpState, event| {
        state.step(match event {
            PumpEvent::Begin(flags) => PumpEvent::Begin(PassFlags {
                left: false,
                ..flags
            }),
            event => event,
        })
    };
    breaks(SHARED, Rules { step, ..RULES }, &[UNHEARD]);
}

/// The fault's own look only saves time: without it the page is mapped, and a pass follows.
#[test]
fn a_fault_that_does_not_submit_loses_nothing() {
    let rules = Rules {
        fault_submits: false,
        ..RULES
    };
    assert!(show(&Followed { rules, ..SHARED }, MOST_STATES).at_rest > 0);
}
