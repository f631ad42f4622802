// SPDX-License-Identifier: GPL-2.0
//! All interleavings of the threads that move queues between the slots of an SDMA engine.
//!
//! The model has the threads of `rust/queue/sdma/slots/engine.rs`, cut into the steps between which
//! others can run: a step is what is done under the engine's spinlock, or one access to the
//! hardware. The hardware answers, is late, or never answers. Which queue comes and which goes is
//! left open: each choice is explored.

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

/// A permit as the machine makes it for a queue that `by` has leave `slot`.
fn forged_permit(slot: u8, by: Mover) -> UnloadPermit {
    let mut table = EngineTable::<u8, SLOTS>::new();
    let mut state = SeatState::forged(Seat::In(slot), false, false);
    match table.apply(&mut state, SeatEvent::Leave(by)).action {
        SeatAction::Unload(permit) => permit,
        other => panic!("{other:?}"),
    }
}

impl Engine {
    fn is_direct(&self, queue: u8) -> bool {
        self.direct.contains(&queue)
    }

    fn belongs_in_line(&self, world: &World, queue: u8) -> bool {
        let entry = &world.queues[usize::from(queue)];
        entry.state.seat().is_out() && entry.is_runnable() && (entry.work || self.is_direct(queue))
    }

    fn line_up(&self, world: &mut World, queue: u8) {
        if self.belongs_in_line(world, queue) {
            world.queues[usize::from(queue)].in_line = true;
        }
    }

    /// The transition as this model's rules have it.
    fn transition(&self, world: &mut World, queue: u8, event: SeatEvent<u8>) -> SeatStep<u8> {
        let mutation = self.mutation;
        let state = &mut world.queues[usize::from(queue)].state;
        let before = *state;
        let event = match event {
            SeatEvent::Late(permit, LateReason::CallerGivesUp)
                if mutation == Mutation::GivesUpAndFrees =>
            {
                SeatEvent::Left(permit)
            }
            SeatEvent::EngineLost(permit) if mutation == Mutation::StuckIsOut => {
                SeatEvent::Left(permit)
            }
            event => event,
        };
        let (is_loaded, gives_up, is_new) = (
            matches!(event, SeatEvent::Loaded(_)),
            matches!(event, SeatEvent::Late(_, LateReason::CallerGivesUp)),
            matches!(event, SeatEvent::NotLoaded(_)),
        );
        let mut step = world.table.apply(state, event);
        match (mutation, *before.seat(), *state.seat()) {
            (Mutation::GivesUpSilently, ..) if gives_up => step.wake = TurnWake::No,
            (Mutation::LeavesSilently, Seat::Leaving(..), _) => step.notify = false,
            (Mutation::CreatorKeepsQuiet, Seat::Loading(_, Mover::Creator), _) if is_new => {
                step.wake = TurnWake::No;
            }
            (Mutation::InOfLostEngine, _, Seat::Stuck(slot)) if is_loaded => {
                *state = SeatState::forged(Seat::In(slot), state.is_evicted(), false);
                step.action = SeatAction::Nothing;
            }
            (Mutation::FreesEarly, Seat::In(slot), Seat::Leaving(_, by)) => {
                let mut other = *state;
                let gone = SeatEvent::Left(forged_permit(slot, by));
                let _ = world.table.apply(&mut other, gone);
            }
            (Mutation::TwoMovers, Seat::Leaving(slot, by), Seat::Leaving(..))
                if matches!(step.action, SeatAction::Wait { .. }) =>
            {
                step.action = SeatAction::Unload(forged_permit(slot, by));
            }
            _ => {}
        }
        step
    }

    /// What `EngineSeats::apply` and `EngineSlots::report` make of an event.
    fn apply(&self, world: &mut World, queue: u8, event: SeatEvent<u8>) -> SeatAction {
        let step = self.transition(world, queue, event);
        if step.left.is_some() {
            let entry = &mut world.queues[usize::from(queue)];
            if std::mem::take(&mut entry.vmid) {
                world.give_vmid();
            }
        }
        if step.left.is_some() || step.action == SeatAction::LineUp {
            self.line_up(world, queue);
        }
        world.pending |= match step.wake {
            TurnWake::No => false,
            TurnWake::IfWaiting => world.queues.iter().any(|queue| queue.in_line),
            TurnWake::Yes => true,
        };
        if step.notify {
            let waiting = world
                .stages
                .iter_mut()
                .filter(|stage| **stage == Stage::Wait);
            waiting.for_each(|stage| *stage = Stage::Evict);
        }
        match step.action {
            SeatAction::Ring(slot) => {
                let ring = world.rings[usize::from(slot)];
                // A reset takes queues off, and then says so.
                if ring != Some(queue) && (ring.is_some() || world.hardware.is_none()) {
                    world.broken = Some("a doorbell rings for a queue that is not there");
                }
            }
            SeatAction::Fail => world.queues[usize::from(queue)].failed = true,
            _ => {}
        }
        step.action
    }

    /// The stage of a thread that has finished with a queue.
    fn after(&self, thread: usize) -> Stage {
        match self.roles[thread] {
            Role::TurnWorker => Stage::Decide,
            Role::Evictor { .. } | Role::Destroyer { .. } => Stage::Evict,
            Role::Creator { .. } => Stage::Added,
            Role::Resetter => Stage::Idle,
        }
    }

    /// The stage after the last event of a thread that has moved a queue.
    fn dropped(&self, thread: usize, queue: u8, next: Stage) -> Stage {
        match self.mutation {
            // What comes after that makes no difference to the rule.
            Mutation::DropsLate if self.roles[thread].mover() == Mover::TurnWorker => {
                Stage::DropReference(queue)
            }
            _ => next,
        }
    }

    fn decide(&self, world: &World, thread: usize) -> Vec<(&'static str, World)> {
        let mut found = Vec::new();
        let idle = |later: bool| {
            let mut after = world.clone();
            after.stages[thread] = Stage::Idle;
            after.pending |= later;
            after
        };
        if world.table.is_lost() {
            return vec![("nothing", idle(false))];
        }
        let leave = |queue: u8| {
            let mut after = world.clone();
            let event = SeatEvent::Leave(Mover::TurnWorker);
            if let SeatAction::Unload(permit) = self.apply(&mut after, queue, event) {
                after.stages[thread] = Stage::Unloading(queue, permit);
            }
            ("leave", after)
        };
        let seated: Vec<u8> = (0..SLOTS as u8)
            .filter_map(|slot| world.table.slots().get(slot).copied())
            .filter(|&queue| world.queues[usize::from(queue)].state.seat().is_in())
            .collect();
        let must = |queue: &&u8| world.queues[usize::from(**queue)].must_leave();
        if let Some(&queue) = seated.iter().find(must) {
            return vec![leave(queue)];
        }
        let stale = |queue: u8| {
            world.queues[usize::from(queue)].in_line && !self.belongs_in_line(world, queue)
        };
        if let Some(queue) = (0..self.queues as u8).find(|&queue| stale(queue)) {
            let mut after = world.clone();
            after.queues[usize::from(queue)].in_line = false;
            return vec![("vacate", after)];
        }
        let line: Vec<u8> = (0..self.queues as u8)
            .filter(|&queue| world.queues[usize::from(queue)].in_line)
            .collect();
        let slot = world.table.slots().first_free(0);
        if let (Some(slot), 1..) = (slot, world.vmids) {
            for &queue in &line {
                let mut after = world.clone();
                after.asked = false;
                after.queues[usize::from(queue)].in_line = false;
                let by = Mover::TurnWorker;
                if let SeatAction::Load(permit) =
                    self.apply(&mut after, queue, SeatEvent::Enter { slot, by, queue })
                {
                    after.stages[thread] = Stage::Lease(queue, permit);
                }
                found.push(("enter", after));
            }
        }
        if found.is_empty() && !line.is_empty() {
            found.extend(seated.iter().map(|&queue| leave(queue)));
            let mut after = idle(slot.is_some() || !seated.is_empty());
            after.asked |= world.vmids == 0;
            found.push(("later", after));
        }
        if line.is_empty() {
            found.push(("nothing", idle(false)));
        }
        found
    }

    /// The steps of a thread.
    fn run(&self, world: &World, thread: usize) -> Vec<(&'static str, World)> {
        let mut after = world.clone();
        let role = self.roles[thread];
        let mut found = Vec::new();
        let to = |after: &World, stage: Stage| {
            let mut after = after.clone();
            after.stages[thread] = stage;
            after
        };
        let has_hardware = world.hardware.is_none();
        match world.stages[thread].clone() {
            Stage::Idle => {
                if role == Role::TurnWorker && world.pending {
                    after.pending = false;
                    found.push(("run", to(&after, Stage::Decide)));
                }
            }
            Stage::Decide => return self.decide(world, thread),
            Stage::Lease(queue, permit) => {
                if world.vmids > 0 {
                    after.vmids -= 1;
                    found.push(("lease", to(&after, Stage::LoadRegisters(queue, permit))));
                } else {
                    let _ = self.apply(&mut after, queue, SeatEvent::NotLoaded(permit));
                    let next = self.dropped(thread, queue, self.after(thread));
                    found.push(("no VMID", to(&after, next)));
                }
            }
            Stage::LoadRegisters(queue, permit) if has_hardware => {
                after.hardware = Some(thread);
                let ring = &mut after.rings[usize::from(permit.slot())];
                if ring.replace(queue).is_some_and(|other| other != queue) {
                    after.broken = Some("two queues are in one slot of the hardware");
                }
                let done = Stage::LoadDone(queue, permit.clone(), true);
                found.push(("load", to(&after, done)));
                if self.hangs {
                    let done = Stage::LoadDone(queue, permit, false);
                    found.push(("load hangs", to(&after, done)));
                }
            }
            Stage::LoadDone(queue, permit, works) => {
                after.queues[usize::from(queue)].vmid = true;
                after.hardware = None;
                let event = match works {
                    true => SeatEvent::Loaded(permit),
                    false => SeatEvent::LoadHangs(permit),
                };
                let next = match self.apply(&mut after, queue, event) {
                    SeatAction::Reset(permit) => Stage::Reset(Some((queue, permit))),
                    _ => self.dropped(thread, queue, self.after(thread)),
                };
                found.push(("loaded", to(&after, next)));
            }
            Stage::Unloading(queue, permit) => {
                let late = |why| Stage::TimedOut(queue, permit.clone(), why);
                if matches!(role, Role::Evictor { patient: false, .. }) {
                    found.push(("give up", to(&after, late(LateReason::CallerGivesUp))));
                }
                if self.hangs {
                    found.push(("hangs", to(&after, late(LateReason::Hangs))));
                }
                if self.faults {
                    found.push(("fault", to(&after, late(LateReason::PageFaults))));
                }
                after.rings[usize::from(permit.slot())] = None;
                let unloaded = Stage::Unloaded(queue, permit);
                found.push(("unload", to(&after, unloaded)));
            }
            Stage::Unloaded(queue, permit) => {
                let _ = self.apply(&mut after, queue, SeatEvent::Left(permit));
                let next = self.dropped(thread, queue, self.after(thread));
                found.push(("unloaded", to(&after, next)));
            }
            Stage::TimedOut(queue, permit, why) => {
                let next = match self.apply(&mut after, queue, SeatEvent::Late(permit, why)) {
                    SeatAction::Unload(permit) => Stage::Unloading(queue, permit),
                    SeatAction::Reset(permit) => Stage::Reset(Some((queue, permit))),
                    _ => Stage::Evicted,
                };
                found.push(("late", to(&after, next)));
            }
            Stage::Reset(hung) if has_hardware => {
                after.hardware = Some(thread);
                if self.hangs {
                    let failed = Stage::ResetDone(hung.clone(), false);
                    found.push(("reset fails", to(&after, failed)));
                }
                // An engine that did not come to rest once may do so later.
                after.rings = [None; SLOTS];
                found.push(("reset", to(&after, Stage::ResetDone(hung, true))));
            }
            Stage::ResetDone(hung, works) => {
                if !works {
                    after.table.set_lost();
                }
                let mut taken = [const { None }; SLOTS];
                for (slot, place) in (0..).zip(&mut taken) {
                    let Some(&queue) = world.table.slots().get(slot) else {
                        continue;
                    };
                    let event = SeatEvent::TakeByReset;
                    if let SeatAction::Collect(permit) = self.apply(&mut after, queue, event) {
                        *place = Some((queue, permit));
                    }
                }
                found.push(("take", to(&after, Stage::Collect(hung, works, taken))));
            }
            Stage::Collect(hung, works, mut taken) => {
                if let Some((queue, permit)) = taken.iter_mut().find_map(Option::take) {
                    let event = match works {
                        true => SeatEvent::Left(permit),
                        false => SeatEvent::EngineLost(permit),
                    };
                    after.queues[usize::from(queue)].failed |= !works;
                    let _ = self.apply(&mut after, queue, event);
                    let rest = Stage::Collect(hung, works, taken);
                    found.push(("collected", to(&after, rest)));
                } else {
                    after.hardware = None;
                    after.pending |= works;
                    let next = match hung {
                        Some((queue, permit)) => Stage::EndHang(queue, permit, works),
                        None => self.after(thread),
                    };
                    found.push(("go on", to(&after, next)));
                }
            }
            Stage::EndHang(queue, permit, works) => {
                after.queues[usize::from(queue)].failed = true;
                let event = match works {
                    true => SeatEvent::Left(permit),
                    false => SeatEvent::EngineLost(permit),
                };
                let _ = self.apply(&mut after, queue, event);
                after.pending = true;
                let next = self.dropped(thread, queue, self.after(thread));
                found.push(("end hang", to(&after, next)));
            }
            Stage::DropReference(_) => found.push(("drop", to(&after, self.after(thread)))),
            Stage::Evict if !role.queue().is_some_and(|queue| world.queues[queue].known) => {
                found.push(("off", to(&after, Stage::Idle)));
            }
            Stage::Evict => {
                let (queue, patient, forget) = match role {
                    Role::Evictor { queue, patient } => (queue, patient, false),
                    Role::Destroyer { queue } => (queue, true, true),
                    other => panic!("{other:?} evicts"),
                };
                let mut action = self.apply(&mut after, queue, SeatEvent::Evict);
                if self.mutation == Mutation::DestroysAtOnce
                    && forget
                    && matches!(action, SeatAction::Wait { .. })
                {
                    action = SeatAction::Off;
                }
                match action {
                    SeatAction::Off => {
                        if forget {
                            let entry = &mut after.queues[usize::from(queue)];
                            (entry.known, entry.freed, entry.in_line) = (false, true, false);
                        }
                        let next = if forget { Stage::Idle } else { Stage::Evicted };
                        found.push(("off", to(&after, next)));
                    }
                    SeatAction::Keep => {
                        let next = if forget { Stage::Idle } else { Stage::Evicted };
                        found.push(("kept", to(&after, next)));
                    }
                    SeatAction::Wait { .. } if patient => {
                        found.push(("wait", to(&after, Stage::Wait)));
                    }
                    SeatAction::Wait { .. } => {
                        found.push(("poll", to(&after, Stage::Evict)));
                        found.push(("give up", to(&after, Stage::Evicted)));
                    }
                    SeatAction::Unload(permit) => {
                        found.push(("evict", to(&after, Stage::Unloading(queue, permit))));
                    }
                    other => panic!("{other:?} after Evict"),
                }
            }
            Stage::Evicted => {
                if let Role::Evictor { queue, .. } = role {
                    // It may be destroyed meanwhile.
                    if world.queues[usize::from(queue)].known {
                        let _ = self.apply(&mut after, queue, SeatEvent::Admit);
                    }
                    found.push(("admit", to(&after, Stage::Idle)));
                }
            }
            Stage::Add => {
                let Role::Creator { queue } = role else {
                    panic!("{role:?} makes a queue");
                };
                let entry = &mut after.queues[usize::from(queue)];
                entry.known = true;
                self.line_up(&mut after, queue);
                let mut next = Stage::Idle;
                match (after.table.slots().first_free(0), world.vmids) {
                    _ if world.table.is_lost() => {
                        let entry = &mut after.queues[usize::from(queue)];
                        (entry.known, entry.freed, entry.in_line) = (false, true, false);
                    }
                    (Some(slot), 1..) if !world.asked => {
                        after.queues[usize::from(queue)].in_line = false;
                        let by = Mover::Creator;
                        let event = SeatEvent::Enter { slot, by, queue };
                        if let SeatAction::Load(permit) = self.apply(&mut after, queue, event) {
                            next = Stage::Lease(queue, permit);
                        }
                    }
                    _ => after.pending = true,
                }
                found.push(("add", to(&after, next)));
            }
            Stage::Added => {
                let Role::Creator { queue } = role else {
                    panic!("{role:?} has made a queue");
                };
                if self.mutation != Mutation::CreatorDoesNotLook {
                    after.pending |= world.queues[usize::from(queue)].must_leave();
                }
                found.push(("added", to(&after, Stage::Idle)));
            }
            Stage::Wait | Stage::LoadRegisters(..) | Stage::Reset(_) => {}
        }
        found
    }

    /// What happens to a queue without a thread of the driver's.
    fn happens(&self, world: &World, queue: u8) -> Vec<(&'static str, World)> {
        let mut found = Vec::new();
        let entry = &world.queues[usize::from(queue)];
        if !entry.known {
            return found;
        }
        if !entry.work && !entry.failed {
            let mut after = world.clone();
            after.queues[usize::from(queue)].work = true;
            let _ = self.apply(&mut after, queue, SeatEvent::Work);
            found.push(("work", after));
        }
        if entry.work && entry.state.seat().is_in() {
            let mut after = world.clone();
            after.queues[usize::from(queue)].work = false;
            found.push(("work done", after));
        }
        if self.accidents && !entry.failed {
            let mut after = world.clone();
            after.queues[usize::from(queue)].failed = true;
            after.pending = true;
            found.push(("fail", after));
        }
        if self.accidents && entry.work && entry.state.seat().is_in() && !entry.state.is_cleared() {
            let mut after = world.clone();
            let _ = self.apply(&mut after, queue, SeatEvent::Clear);
            found.push(("clear", after));
        }
        found
    }
}

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

impl Model for Engine {
    type State = World;
    type Step = (&'static str, u8);

    fn start(&self) -> World {
        let queues = (0..self.queues as u8).map(|queue| Queue {
            state: SeatState::new(false),
            known: !self.is_direct(queue),
            freed: false,
            failed: false,
            work: false,
            in_line: false,
            vmid: false,
        });
        let stages = self.roles.iter().map(|role| match role {
            Role::TurnWorker => Stage::Idle,
            Role::Evictor { .. } | Role::Destroyer { .. } => Stage::Evict,
            Role::Creator { .. } => Stage::Add,
            Role::Resetter => Stage::Reset(None),
        });
        World {
            table: EngineTable::new(),
            queues: queues.collect(),
            rings: [None; SLOTS],
            stages: stages.collect(),
            hardware: None,
            vmids: self.vmids,
            elsewhere: 0,
            asked: false,
            pending: false,
            broken: None,
        }
    }

    fn steps(&self, world: &World) -> Vec<((&'static str, u8), World)> {
        let mut found = Vec::new();
        for thread in 0..self.roles.len() {
            // A queue that was not made yet can be neither evicted nor destroyed.
            let waits = match self.roles[thread] {
                Role::Evictor { queue, .. } | Role::Destroyer { queue } => {
                    let entry = &world.queues[usize::from(queue)];
                    !entry.known && !entry.freed
                }
                _ => false,
            };
            if !waits {
                let steps = self.run(world, thread);
                found.extend(
                    steps
                        .into_iter()
                        .map(|(name, after)| ((name, thread as u8), after)),
                );
            }
        }
        for queue in 0..self.queues as u8 {
            let steps = self.happens(world, queue);
            found.extend(
                steps
                    .into_iter()
                    .map(|(name, after)| ((name, queue), after)),
            );
        }
        if self.shares_vmids {
            let mut after = world.clone();
            if world.elsewhere > 0 {
                after.elsewhere -= 1;
                after.give_vmid();
                found.push((("VMID comes", 0), after));
            } else if world.vmids > 0 {
                after.vmids -= 1;
                after.elsewhere += 1;
                found.push((("VMID goes", 0), after));
            }
        }
        found
    }

    fn check(&self, world: &World) -> Result<(), String> {
        let rule = |holds: bool, rule: &str| match holds {
            true => Ok(()),
            false => Err(rule.to_string()),
        };
        rule(world.broken.is_none(), world.broken.unwrap_or_default())?;
        let slots = world.table.slots();
        for (entry, queue) in world.queues.iter().zip(0..) {
            let seat = entry.state.seat();
            if let Some(&slot) = seat.place() {
                rule(
                    slots.get(slot) == Some(&queue),
                    "a queue is where another one is",
                )?;
            }
            let places = slots.queues().filter(|&&seated| seated == queue).count();
            let at = usize::from(seat.place().is_some());
            rule(places == at, "a queue is in two slots, or a slot is lost")?;
            let movers = match seat {
                Seat::Loading(..) => (1, 0),
                Seat::Leaving(..) => (0, 1),
                _ => (0, 0),
            };
            let permits = world.permits(queue);
            rule(
                permits == movers,
                "a seat has not exactly the mover that it needs",
            )?;
            let lost = world.table.is_lost();
            rule(
                !seat.is_stuck() || lost,
                "a queue is stuck on a live engine",
            )?;
            if entry.freed {
                let reached = world.rings.contains(&Some(queue));
                rule(!reached, "the hardware reaches a queue that was destroyed")?;
                let dropping =
                    |stage: &Stage| matches!(stage, Stage::DropReference(of) if *of == queue);
                let held = permits != (0, 0) || world.stages.iter().any(dropping);
                rule(!held, "another thread frees a queue that was destroyed")?;
            }
            if self.is_at_rest(world) && entry.known {
                rule(
                    !(lost && seat.is_in()),
                    "a queue is in a slot of a lost engine",
                )?;
                rule(!entry.must_leave(), "a queue that must leave does not")?;
                let belongs = self.belongs_in_line(world, queue) && !lost;
                rule(
                    !belongs || entry.in_line,
                    "a queue that waits is not in line",
                )?;
                let room = slots.first_free(0).is_some() && world.vmids > 0;
                rule(!belongs || !room, "a queue waits beside a free slot")?;
            }
        }
        Ok(())
    }

    fn is_at_rest(&self, world: &World) -> bool {
        // A queue may be kept off for any time.
        let idle = |stage: &Stage| matches!(stage, Stage::Idle | Stage::Evicted);
        !world.pending && world.stages.iter().all(idle)
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
