// SPDX-License-Identifier: GPL-2.0
//! The steps of the threads that move queues.

use super::*;

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
    pub(super) fn is_direct(&self, queue: u8) -> bool {
        self.direct.contains(&queue)
    }

    pub(super) fn belongs_in_line(&self, world: &World, queue: u8) -> bool {
        let entry = &world.queues[usize::from(queue)];
        entry.state.seat().is_out() && entry.is_runnable() && (entry.work || self.is_direct(queue))
    }

    pub(super) fn line_up(&self, world: &mut World, queue: u8) {
        if self.belongs_in_line(world, queue) {
            world.queues[usize::from(queue)].in_line = true;
        }
    }

    /// The transition as this model's rules have it.
    pub(super) fn transition(
        &self,
        world: &mut World,
        queue: u8,
        event: SeatEvent<u8>,
    ) -> SeatStep<u8> {
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
    pub(super) fn apply(&self, world: &mut World, queue: u8, event: SeatEvent<u8>) -> SeatAction {
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
    pub(super) fn after(&self, thread: usize) -> Stage {
        match self.roles[thread] {
            Role::TurnWorker => Stage::Decide,
            Role::Evictor { .. } | Role::Destroyer { .. } => Stage::Evict,
            Role::Creator { .. } => Stage::Added,
            Role::Resetter => Stage::Idle,
        }
    }

    /// The stage after the last event of a thread that has moved a queue.
    pub(super) fn dropped(&self, thread: usize, queue: u8, next: Stage) -> Stage {
        match self.mutation {
            // What comes after that makes no difference to the rule.
            Mutation::DropsLate if self.roles[thread].mover() == Mover::TurnWorker => {
                Stage::DropReference(queue)
            }
            _ => next,
        }
    }

    pub(super) fn decide(&self, world: &World, thread: usize) -> Vec<(&'static str, World)> {
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
    pub(super) fn run(&self, world: &World, thread: usize) -> Vec<(&'static str, World)> {
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
    pub(super) fn happens(&self, world: &World, queue: u8) -> Vec<(&'static str, World)> {
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
