// SPDX-License-Identifier: GPL-2.0
//! All interleavings of the threads that move queues between the slots of an SDMA engine.
//!
//! The model has the threads of `rust/queue/sdma/slots/engine.rs`, cut into the steps between which
//! others can run: a step is what is done under the engine's spinlock, or one access to the
//! hardware. The hardware answers, is late, or never answers. Which queue comes and which goes is
//! left open: each choice is explored.

#[path = "seats/model.rs"]
mod model;
#[path = "seats/threads.rs"]
mod threads;

use hw::sdma::seat::{
    EngineTable, LateReason, LoadPermit, Mover, SeatAction, SeatEvent, SeatState, SeatStep,
    TurnWake, UnloadPermit,
};
use hw::seat::{Seat, SlotTable};
use rkfd_host_tests::explore::{explore, Explored, Model};

const SLOTS: usize = 2;
const MOST_QUEUES: usize = 3;
/// States of the largest of these models, with room for some more.
const MOST_STATES: usize = 3_000_000;

/// A queue, the only one of its process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Queue {
    state: SeatState,
    /// The engine knows it.
    known: bool,
    /// Its memory was given back.
    freed: bool,
    failed: bool,
    work: bool,
    in_line: bool,
    vmid: bool,
}

impl Queue {
    fn is_runnable(&self) -> bool {
        self.known && !self.state.is_evicted() && !self.failed
    }

    fn must_leave(&self) -> bool {
        self.state.seat().is_in() && (!self.is_runnable() || self.state.is_cleared())
    }
}

/// What a thread does next, with the permits that it holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// The work item waits to be woken; other threads are through.
    Idle,
    /// The work item decides.
    Decide,
    /// Gets a VMID.
    Lease(u8, LoadPermit),
    /// Waits for the hardware, and writes to it.
    LoadRegisters(u8, LoadPermit),
    /// Has the hardware, and has loaded the queue or not.
    LoadDone(u8, LoadPermit, bool),
    /// Has turned the ring off and polls.
    Unloading(u8, UnloadPermit),
    /// The hardware has let go.
    Unloaded(u8, UnloadPermit),
    /// The hardware has not let go.
    TimedOut(u8, UnloadPermit, LateReason),
    /// Waits for the hardware, and resets it, perhaps because of a queue that hangs.
    Reset(Option<(u8, UnloadPermit)>),
    /// Has reset it, which has helped or not.
    ResetDone(Option<(u8, UnloadPermit)>, bool),
    /// Gives back the queues that the reset has taken off.
    Collect(
        Option<(u8, UnloadPermit)>,
        bool,
        [Option<(u8, UnloadPermit)>; SLOTS],
    ),
    /// Ends the leaving of the queue that hangs.
    EndHang(u8, UnloadPermit, bool),
    /// Has a reference to a queue that it does not move any more.
    DropReference(u8),
    /// Asks for a queue to be off.
    Evict,
    /// Waits for a change of a seat.
    Wait,
    /// Has had a queue evicted, or has given up.
    Evicted,
    /// Makes a queue.
    Add,
    /// Has loaded it.
    Added,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Role {
    TurnWorker,
    /// Keeps a queue off for a while; `patient` if it waits for that at any cost.
    Evictor {
        queue: u8,
        patient: bool,
    },
    Destroyer {
        queue: u8,
    },
    Creator {
        queue: u8,
    },
    /// Resets the engine because of the kernel's ring.
    Resetter,
}

impl Role {
    /// The queue that the thread evicts, destroys or makes.
    fn queue(self) -> Option<usize> {
        match self {
            Self::Evictor { queue, .. } | Self::Destroyer { queue } | Self::Creator { queue } => {
                Some(queue.into())
            }
            Self::TurnWorker | Self::Resetter => None,
        }
    }

    fn mover(self) -> Mover {
        match self {
            Self::TurnWorker => Mover::TurnWorker,
            Self::Evictor { .. } | Self::Destroyer { .. } => Mover::Evictor,
            Self::Creator { .. } => Mover::Creator,
            Self::Resetter => Mover::Reset,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    table: EngineTable<u8, SLOTS>,
    queues: Vec<Queue>,
    /// The queue whose memory each ring of the hardware may reach.
    rings: [Option<u8>; SLOTS],
    stages: Vec<Stage>,
    /// The thread that has the mutex of the hardware.
    hardware: Option<usize>,
    /// VMIDs that are free, and that another engine has taken.
    vmids: u8,
    elsewhere: u8,
    /// A process waits for a VMID, and is told when one is free.
    asked: bool,
    /// The work item is to run.
    pending: bool,
    /// A rule that a step has broken.
    broken: Option<&'static str>,
}

/// A change to the rules, which breaks one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    None,
    /// A thread that gives up does not wake the work item.
    GivesUpSilently,
    /// A thread that gives up takes the queue for gone.
    GivesUpAndFrees,
    /// Threads that wait for a seat are not woken.
    LeavesSilently,
    /// A slot is free as soon as its queue is asked to leave.
    FreesEarly,
    /// A thread that evicts a queue that is leaving moves it, too.
    TwoMovers,
    /// A queue that a reset does not get off counts as gone.
    StuckIsOut,
    /// A queue may be in a slot of an engine that is lost.
    InOfLostEngine,
    /// A thread that makes a queue does not wake the work item if there is no VMID.
    CreatorKeepsQuiet,
    /// A thread that makes a queue does not look whether it was to leave meanwhile.
    CreatorDoesNotLook,
    /// A thread drops its reference after the lock.
    DropsLate,
    /// A queue is destroyed without a wait for its seat.
    DestroysAtOnce,
}

/// The threads, and what may happen to queues.
#[derive(Debug)]
struct Engine {
    roles: &'static [Role],
    queues: usize,
    vmids: u8,
    /// Queues that are made by a thread, whose doorbells are the hardware's own.
    direct: &'static [u8],
    /// Another engine takes VMIDs, too.
    shares_vmids: bool,
    /// Page faults of a process may be dealt with.
    faults: bool,
    /// The hardware may not answer.
    hangs: bool,
    /// Queues fail, and are asked to leave for a moment.
    accidents: bool,
    mutation: Mutation,
}

const PLAIN: Engine = Engine {
    roles: &[Role::TurnWorker],
    queues: 2,
    vmids: 2,
    direct: &[],
    shares_vmids: false,
    faults: false,
    hangs: true,
    accidents: false,
    mutation: Mutation::None,
};

impl World {
    fn give_vmid(&mut self) {
        self.vmids += 1;
        self.pending |= self.asked;
    }

    /// How many permits of each kind threads hold for a queue.
    fn permits(&self, queue: u8) -> (usize, usize) {
        let mut count = (0, 0);
        for stage in &self.stages {
            match stage {
                Stage::Lease(of, _) | Stage::LoadRegisters(of, _) | Stage::LoadDone(of, ..) => {
                    count.0 += usize::from(*of == queue);
                }
                Stage::Unloading(of, _)
                | Stage::Unloaded(of, _)
                | Stage::TimedOut(of, ..)
                | Stage::EndHang(of, ..) => count.1 += usize::from(*of == queue),
                Stage::Reset(hung) | Stage::ResetDone(hung, _) => {
                    count.1 += hung.iter().filter(|(of, _)| *of == queue).count();
                }
                Stage::Collect(hung, _, taken) => {
                    let all = hung.iter().chain(taken.iter().flatten());
                    count.1 += all.filter(|(of, _)| *of == queue).count();
                }
                _ => {}
            }
        }
        count
    }
}

fn holds(engine: Engine) -> Explored {
    assert!(engine.queues <= MOST_QUEUES);
    match explore(&engine, MOST_STATES) {
        Ok(explored) => {
            println!("{explored:?}");
            assert!(explored.at_rest > 0);
            explored
        }
        Err(found) => panic!("{}: {:?}\n{:?}", found.rule, found.steps, found.state),
    }
}

fn breaks(engine: Engine, rule: &str) {
    match explore(&engine, MOST_STATES) {
        Ok(explored) => panic!("{explored:?} without {rule}"),
        Err(found) => {
            println!("{:?}: {}: {:?}", engine.mutation, found.rule, found.steps);
            assert_eq!(found.rule, rule, "{:?}: {:?}", engine.mutation, found.steps);
        }
    }
}

const EVICTED: Engine = Engine {
    roles: &[
        Role::TurnWorker,
        Role::Evictor {
            queue: 0,
            patient: false,
        },
    ],
    ..PLAIN
};

const EVICTED_AND_DESTROYED: Engine = Engine {
    roles: &[
        Role::TurnWorker,
        Role::Evictor {
            queue: 0,
            patient: false,
        },
        Role::Destroyer { queue: 0 },
    ],
    ..PLAIN
};

const RESET: Engine = Engine {
    roles: &[
        Role::TurnWorker,
        Role::Destroyer { queue: 0 },
        Role::Resetter,
    ],
    ..PLAIN
};

const MADE: Engine = Engine {
    roles: &[Role::TurnWorker, Role::Creator { queue: 1 }],
    direct: &[1],
    vmids: 1,
    shares_vmids: true,
    accidents: true,
    ..PLAIN
};

#[test]
fn queues_take_turns() {
    holds(Engine {
        queues: 3,
        accidents: true,
        ..PLAIN
    });
    holds(Engine {
        queues: 3,
        vmids: 1,
        ..PLAIN
    });
}

#[test]
fn a_queue_is_evicted_and_destroyed() {
    holds(EVICTED_AND_DESTROYED);
    holds(Engine {
        vmids: 1,
        faults: true,
        ..EVICTED_AND_DESTROYED
    });
}

#[test]
fn threads_evict_one_queue() {
    holds(Engine {
        roles: &[
            Role::TurnWorker,
            Role::Evictor {
                queue: 0,
                patient: false,
            },
            Role::Evictor {
                queue: 0,
                patient: true,
            },
        ],
        ..PLAIN
    });
}

#[test]
fn two_queues_are_destroyed() {
    holds(Engine {
        roles: &[
            Role::TurnWorker,
            Role::Destroyer { queue: 0 },
            Role::Destroyer { queue: 1 },
        ],
        ..PLAIN
    });
}

#[test]
fn one_of_three_queues_is_evicted() {
    holds(Engine {
        queues: 3,
        vmids: 1,
        ..EVICTED
    });
}

#[test]
fn the_engine_is_reset() {
    holds(RESET);
    holds(Engine {
        roles: &[
            Role::TurnWorker,
            Role::Evictor {
                queue: 0,
                patient: false,
            },
            Role::Resetter,
        ],
        ..PLAIN
    });
}

#[test]
fn a_queue_is_made() {
    holds(MADE);
    holds(Engine {
        roles: &[
            Role::TurnWorker,
            Role::Creator { queue: 1 },
            Role::Destroyer { queue: 1 },
        ],
        accidents: false,
        ..MADE
    });
    holds(Engine {
        roles: &[Role::TurnWorker, Role::Creator { queue: 1 }, Role::Resetter],
        shares_vmids: false,
        accidents: false,
        ..MADE
    });
}

#[test]
fn a_place_has_one_queue() {
    let mut slots = SlotTable::<char, 3>::new();
    assert_eq!(slots.first_free(0b001), Some(1));
    assert_eq!(slots.claim(1, 'a'), Ok(()));
    assert_eq!(slots.claim(1, 'b'), Err('b'));
    assert_eq!(slots.claim(3, 'b'), Err('b'));
    assert_eq!((slots.taken(), slots.get(1)), (0b010, Some(&'a')));
    assert_eq!(slots.first_free(0b001), Some(2));
    assert_eq!(slots.first_free(0b101), None);
    assert_eq!(slots.release(1), Some('a'));
    assert_eq!(slots.release(1), None);
    assert_eq!(slots, SlotTable::default());
}

/// Each broken rule is found.
#[test]
fn broken_rules_are_found() {
    for (engine, mutation, rule) in [
        (
            EVICTED,
            Mutation::GivesUpSilently,
            "a queue that must leave does not",
        ),
        (
            EVICTED,
            Mutation::GivesUpAndFrees,
            "two queues are in one slot of the hardware",
        ),
        (
            EVICTED_AND_DESTROYED,
            Mutation::GivesUpAndFrees,
            "the hardware reaches a queue that was destroyed",
        ),
        (
            EVICTED_AND_DESTROYED,
            Mutation::LeavesSilently,
            "nothing comes to rest",
        ),
        (
            PLAIN,
            Mutation::FreesEarly,
            "a queue is where another one is",
        ),
        (
            EVICTED_AND_DESTROYED,
            Mutation::TwoMovers,
            "a seat has not exactly the mover that it needs",
        ),
        (
            RESET,
            Mutation::StuckIsOut,
            "the hardware reaches a queue that was destroyed",
        ),
        (
            RESET,
            Mutation::InOfLostEngine,
            "a queue is in a slot of a lost engine",
        ),
        (
            MADE,
            Mutation::CreatorKeepsQuiet,
            "a queue waits beside a free slot",
        ),
        (
            MADE,
            Mutation::CreatorDoesNotLook,
            "a queue that must leave does not",
        ),
        (
            EVICTED_AND_DESTROYED,
            Mutation::DropsLate,
            "another thread frees a queue that was destroyed",
        ),
        (
            EVICTED_AND_DESTROYED,
            Mutation::DestroysAtOnce,
            "another thread frees a queue that was destroyed",
        ),
    ] {
        breaks(Engine { mutation, ..engine }, rule);
    }
}
