// SPDX-License-Identifier: GPL-2.0
//! All interleavings of the threads that move queues between the slots of an SDMA engine.
//!
//! The model has the threads of `rust/queue/sdma/slots/engine.rs`, cut into the steps between which
//! others can run: a step is what is done under the engine's spinlock, or what the work item or a
//! reset does to the hardware without it. A program's thread may stop for ever after any step, as
//! one does that the CPU scheduler starves. The hardware answers, is late, or never answers. Which
//! queue comes and which goes is left open: each choice is explored.
//!
//! References to queues are counted. The thread that destroys a queue drops its own after the
//! engine's, and must be the one that frees the queue.

#[path = "seats/model.rs"]
mod model;
#[path = "seats/threads.rs"]
mod threads;

use hw::sdma::seat::{
    idle_poll_us, EngineTable, LateReason, LoadPermit, ResetPermit, SeatAction, SeatEvent,
    SeatState, SeatStep,
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
    /// It was made.
    made: bool,
    /// The engine knows it.
    known: bool,
    /// References to it: its owner's, the engine's entry's and table's, and those of threads.
    references: u8,
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
        self.state.seat().is_in() && !self.is_runnable()
    }

    fn was_destroyed(&self) -> bool {
        self.made && !self.known
    }
}

/// A queue that has left a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Departed {
    queue: u8,
    vmid: bool,
    unseen: bool,
}

/// What a thread does next, with the permits that it holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// The work item waits to be woken; other threads are through.
    Idle,
    /// The thread never runs again.
    Stopped,
    /// The work item decides.
    Decide,
    /// Looks at queues that have left.
    Settle([Option<Departed>; SLOTS]),
    /// Gives up their VMIDs.
    GiveVmids([Option<Departed>; SLOTS]),
    /// Gets a VMID.
    Lease(u8, LoadPermit),
    /// Waits for the hardware, and writes to it.
    LoadRegisters(u8, LoadPermit),
    /// Has the hardware, and has loaded the queue or not.
    LoadDone(u8, LoadPermit, bool),
    /// Waits for the hardware, to reset it, perhaps because of a queue that hangs.
    Reset(Option<u8>),
    /// Resets it.
    ResetEngine(Option<u8>, ResetPermit),
    /// Has reset it, which has helped or not.
    ResetDone(Option<u8>, ResetPermit, bool),
    /// Has a queue fail that has hung.
    FailHung(u8),
    /// Drops a reference to a queue, without the lock, and goes on.
    DropReference(u8, Box<Stage>),
    /// Has a VMID, which it gives up.
    GiveVmid,
    /// Asks for a queue to be off.
    Evict,
    /// Waits for a change of a seat.
    Wait,
    /// Has had a queue evicted, or has given up.
    Evicted,
    /// Drops the owner's reference.
    Free,
    /// Makes a queue.
    Add,
    /// Looks at the queues that have slots.
    Look,
    /// Has references to them.
    Looked([Option<u8>; SLOTS]),
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
    /// Looks at queues for an interrupt, once.
    Looker,
}

impl Role {
    /// Whether it is a thread of a program, which may stop.
    fn may_stop(self) -> bool {
        matches!(
            self,
            Self::Evictor { .. } | Self::Destroyer { .. } | Self::Creator { .. }
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    table: EngineTable<u8, SLOTS>,
    queues: Vec<Queue>,
    /// The queue whose memory each ring of the hardware may reach.
    rings: [Option<u8>; SLOTS],
    departed: [Option<Departed>; SLOTS],
    /// Threads that look at queues, as far as others know.
    looks: u8,
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
    /// Only the thread that asks a queue to leave looks whether it has.
    AskerLooksAlone,
    /// A thread that asks a queue to leave does not wake the work item.
    AsksSilently,
    /// A thread that has a queue leave gives up its VMID itself.
    HelperGivesVmid,
    /// A queue that leaves does not wake the work item.
    LeavesAlone,
    /// Threads that wait for a seat are not woken.
    LeavesSilently,
    /// A slot is free as soon as its queue is asked to leave.
    FreesEarly,
    /// A reset takes the seats when it has reset the engine.
    TakesLate,
    /// A queue that a reset does not get off counts as gone.
    StuckIsOut,
    /// A queue may be in a slot of an engine that is lost.
    InOfLostEngine,
    /// A thread that makes a queue does not wake the work item.
    AddsSilently,
    /// The work item drops its reference after the lock.
    DropsLate,
    /// Queues are removed while a thread looks at them.
    LooksUncounted,
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
    /// Queues fail.
    accidents: bool,
    /// Threads of programs may stop for ever.
    stops: bool,
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
    stops: false,
    mutation: Mutation::None,
};

impl World {
    fn give_vmid(&mut self) {
        self.vmids += 1;
        self.pending |= self.asked;
    }

    /// Drops a reference to a queue; `owner` if the thread is the one that destroys it.
    fn drop_reference(&mut self, queue: u8, owner: bool) {
        let references = &mut self.queues[usize::from(queue)].references;
        *references -= 1;
        if *references == 0 && !owner {
            self.broken = Some("another thread frees a queue that was destroyed");
        }
    }

    /// How many threads have the permit to load a queue.
    fn permits(&self, queue: u8) -> usize {
        let loads = |stage: &&Stage| match stage {
            Stage::Lease(of, _) | Stage::LoadRegisters(of, _) | Stage::LoadDone(of, ..) => {
                *of == queue
            }
            _ => false,
        };
        self.stages.iter().filter(loads).count()
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

const LOOKED_AT: Engine = Engine {
    roles: &[Role::TurnWorker, Role::Destroyer { queue: 0 }, Role::Looker],
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
fn an_interrupt_looks_at_queues() {
    holds(LOOKED_AT);
}

/// Threads that the CPU scheduler starves keep neither slots nor VMIDs.
#[test]
fn threads_stop_anywhere() {
    for engine in [
        EVICTED_AND_DESTROYED,
        Engine {
            vmids: 1,
            ..EVICTED_AND_DESTROYED
        },
        RESET,
        Engine { vmids: 1, ..RESET },
        MADE,
        LOOKED_AT,
    ] {
        holds(Engine {
            stops: true,
            ..engine
        });
    }
    holds(Engine {
        roles: &[
            Role::TurnWorker,
            Role::Destroyer { queue: 0 },
            Role::Destroyer { queue: 1 },
        ],
        queues: 3,
        vmids: 2,
        stops: true,
        ..PLAIN
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
    let stops = |engine: Engine| Engine {
        stops: true,
        ..engine
    };
    for (engine, mutation, rule) in [
        (
            stops(EVICTED),
            Mutation::AskerLooksAlone,
            "a queue keeps a slot that it was asked to leave",
        ),
        (
            stops(EVICTED),
            Mutation::AsksSilently,
            "a queue keeps a slot that it was asked to leave",
        ),
        (stops(EVICTED), Mutation::HelperGivesVmid, "a VMID is lost"),
        (
            EVICTED,
            Mutation::LeavesAlone,
            "a queue that is out keeps a VMID",
        ),
        (
            EVICTED_AND_DESTROYED,
            Mutation::LeavesSilently,
            "nothing comes to rest",
        ),
        (
            EVICTED,
            Mutation::FreesEarly,
            "a queue is where another one is",
        ),
        (
            RESET,
            Mutation::TakesLate,
            "a read pointer is read in the middle of a reset",
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
            Mutation::AddsSilently,
            "a queue waits beside a free slot",
        ),
        (
            EVICTED_AND_DESTROYED,
            Mutation::DropsLate,
            "another thread frees a queue that was destroyed",
        ),
        (
            LOOKED_AT,
            Mutation::LooksUncounted,
            "another thread frees a queue that was destroyed",
        ),
        (
            EVICTED_AND_DESTROYED,
            Mutation::DestroysAtOnce,
            "the hardware reaches a queue that was destroyed",
        ),
    ] {
        breaks(Engine { mutation, ..engine }, rule);
    }
}

/// A queue that others wait for is looked at in time, and not too often.
#[test]
fn idle_queues_are_found_soon() {
    let mut held_us = 0;
    let mut looks = 0;
    while held_us < 10_000 {
        let next_us = held_us + idle_poll_us(held_us);
        assert!(next_us - held_us <= (held_us / 4).max(200));
        held_us = next_us;
        looks += 1;
    }
    assert!(looks <= 20, "{looks} looks in a time slice");
    assert_eq!(idle_poll_us(i64::MAX), 4000);
}
