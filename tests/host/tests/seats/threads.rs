// SPDX-License-Identifier: GPL-2.0
//! The steps of the threads that move queues.

use super::*;

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
    fn transition(&self, world: &mut World, queue: u8, event: SeatEvent<u8>) -> SeatStep<u8> {
        let mutation = self.mutation;
        let state = &mut world.queues[usize::from(queue)].state;
        let before = *state;
        let event = match event {
            SeatEvent::ResetEnded { .. } if mutation == Mutation::StuckIsOut => {
                SeatEvent::ResetEnded { works: true }
            }
            event => event,
        };
        let is_loaded = matches!(event, SeatEvent::Loaded(_));
        let mut step = world.table.apply(state, event);
        match (mutation, *before.seat(), *state.seat()) {
            (Mutation::LeavesSilently, Seat::Leaving(..), _) => step.notify = false,
            (Mutation::AsksSilently, Seat::In(_), Seat::Leaving(..)) => step.wake = false,
            (Mutation::LeavesAlone, Seat::In(_), Seat::Leaving(..))
            | (Mutation::LeavesAlone, Seat::Leaving(..), Seat::Out) => step.wake = false,
            (Mutation::InOfLostEngine, _, Seat::Stuck(slot)) if is_loaded => {
                *state = SeatState::forged(Seat::In(slot), state.is_evicted());
                step.action = SeatAction::Nothing;
            }
            (Mutation::FreesEarly, Seat::In(_), Seat::Leaving(..)) => {
                let mut other = *state;
                let _ = world.table.apply(&mut other, SeatEvent::Idle);
            }
            _ => {}
        }
        step
    }

    /// What `EngineSeats::change` makes of an event.
    pub(super) fn apply(&self, world: &mut World, queue: u8, event: SeatEvent<u8>) -> SeatAction {
        let slot = world.queues[usize::from(queue)]
            .state
            .seat()
            .place()
            .copied();
        let step = self.transition(world, queue, event);
        match step.action {
            SeatAction::Load(_) => world.queues[usize::from(queue)].references += 1,
            // Under the same lock; the ring is off.
            SeatAction::Fail => world.queues[usize::from(queue)].failed = true,
            SeatAction::Ring(slot) if world.rings[usize::from(slot)] != Some(queue) => {
                world.broken = Some("a doorbell rings for a queue that is not there");
            }
            _ => {}
        }
        if step.left.is_some() {
            let entry = &mut world.queues[usize::from(queue)];
            let (vmid, unseen) = (std::mem::take(&mut entry.vmid), entry.work);
            if vmid || unseen {
                let place = &mut world.departed[usize::from(slot.unwrap_or_default())];
                let departed = Departed {
                    queue,
                    vmid,
                    unseen,
                };
                if place.replace(departed).is_some() {
                    world.broken = Some("a queue that has left is forgotten");
                }
            }
            world.drop_reference(queue, false);
        }
        if step.left.is_some() || step.action == SeatAction::LineUp {
            self.line_up(world, queue);
        }
        world.pending |= step.wake;
        if step.notify {
            Self::notify(world);
        }
        step.action
    }

    /// Threads that wait for a change look again.
    fn notify(world: &mut World) {
        let waiting = world.stages.iter_mut();
        let waiting = waiting.filter(|stage| **stage == Stage::Wait);
        waiting.for_each(|stage| *stage = Stage::Evict);
    }

    /// What a thread sees that looks at a slot: the hardware is through with it, or not.
    fn look(&self, world: &World, queue: u8, slot: u8) -> Vec<(bool, World)> {
        let mut busy = world.clone();
        let resets = |stage: &Stage| matches!(stage, Stage::ResetEngine(..) | Stage::ResetDone(..));
        if world.stages.iter().any(resets) {
            busy.broken = Some("a read pointer is read in the middle of a reset");
        }
        let mut idle = busy.clone();
        idle.rings[usize::from(slot)] = None;
        let _ = self.apply(&mut idle, queue, SeatEvent::Idle);
        vec![(true, idle), (false, busy)]
    }

    /// Has a queue leave: what `EngineSeats::apply` makes of an event, and whether it is out.
    fn leave(&self, world: &World, queue: u8, event: SeatEvent<u8>) -> Vec<(SeatAction, World)> {
        let mut after = world.clone();
        let looks = |after: &World, slot| {
            let seen = self.look(after, queue, slot);
            let action = |is_out| match is_out {
                true => SeatAction::Off,
                false => SeatAction::Wait,
            };
            seen.into_iter()
                .map(|(out, world)| (action(out), world))
                .collect()
        };
        match self.apply(&mut after, queue, event) {
            SeatAction::TurnOff(slot) | SeatAction::Look(slot) => looks(&after, slot),
            action => vec![(action, after)],
        }
    }

    /// The stage of a thread that has finished with a queue.
    fn after(&self, thread: usize) -> Stage {
        match self.roles[thread] {
            Role::TurnWorker => Stage::Decide,
            Role::Evictor { .. } | Role::Destroyer { .. } => Stage::Evict,
            Role::Creator { .. } | Role::Resetter | Role::Looker => Stage::Idle,
        }
    }

    /// The work item drops its reference to a queue that it has loaded, under the lock.
    fn dropped(&self, world: &mut World, queue: u8, next: Stage) -> Stage {
        if self.mutation == Mutation::DropsLate {
            return Stage::DropReference(queue, Box::new(next));
        }
        world.drop_reference(queue, false);
        next
    }

    fn decide(&self, world: &World, thread: usize) -> Vec<(&'static str, World)> {
        let mut found = Vec::new();
        let to = |after: &World, stage: Stage| {
            let mut after = after.clone();
            after.stages[thread] = stage;
            after
        };
        let idle = |later: bool| {
            let mut after = to(world, Stage::Idle);
            after.pending |= later;
            after
        };
        let asked = |queue: u8| {
            let slot = world.queues[usize::from(queue)].state.asked();
            slot.filter(|_| self.mutation != Mutation::AskerLooksAlone)
        };
        let asked: Vec<(u8, u8)> = (0..self.queues as u8)
            .filter_map(|queue| Some((queue, asked(queue)?)))
            .collect();
        for &(queue, slot) in &asked {
            found.extend(
                self.look(world, queue, slot)
                    .into_iter()
                    .filter(|(out, after)| *out || after.broken.is_some())
                    .map(|(_, after)| ("has left", after)),
            );
            let reasons = [
                (self.hangs, LateReason::Hangs),
                (self.faults, LateReason::PageFaults),
            ];
            for (_, why) in reasons.into_iter().filter(|(may, _)| *may) {
                let mut after = world.clone();
                let action = self.apply(&mut after, queue, SeatEvent::Late(why));
                if action == SeatAction::Reset {
                    after.stages[thread] = Stage::Reset(Some(queue));
                }
                found.push(("late", after));
            }
        }
        if world.departed.iter().any(Option::is_some) {
            let mut after = world.clone();
            let departed = std::mem::take(&mut after.departed);
            for departed in departed.iter().flatten().filter(|departed| departed.unseen) {
                let entry = &mut after.queues[usize::from(departed.queue)];
                if entry.known {
                    entry.references += 1;
                }
            }
            after.looks += 1;
            // A queue that is gone has no jobs.
            let departed = departed.map(|departed| {
                departed.map(|departed| Departed {
                    unseen: departed.unseen && world.queues[usize::from(departed.queue)].known,
                    ..departed
                })
            });
            found.push(("settle", to(&after, Stage::Settle(departed))));
            return found;
        }
        if world.table.is_lost() {
            if asked.is_empty() {
                found.push(("nothing", idle(false)));
            }
            return found;
        }
        let leave = |queue: u8| {
            let outcomes = self.leave(world, queue, SeatEvent::Leave);
            outcomes.into_iter().map(|(_, after)| ("leave", after))
        };
        let seated: Vec<u8> = (0..SLOTS as u8)
            .filter_map(|slot| world.table.slots().get(slot).copied())
            .filter(|&queue| world.queues[usize::from(queue)].state.seat().is_in())
            .collect();
        let must = |queue: &&u8| world.queues[usize::from(**queue)].must_leave();
        if let Some(&queue) = seated.iter().find(must) {
            found.extend(leave(queue));
            return found;
        }
        let stale = |queue: u8| {
            world.queues[usize::from(queue)].in_line && !self.belongs_in_line(world, queue)
        };
        if let Some(queue) = (0..self.queues as u8).find(|&queue| stale(queue)) {
            let mut after = world.clone();
            after.queues[usize::from(queue)].in_line = false;
            found.push(("vacate", after));
            return found;
        }
        let line: Vec<u8> = (0..self.queues as u8)
            .filter(|&queue| world.queues[usize::from(queue)].in_line)
            .collect();
        let slot = world.table.slots().first_free(0);
        let mut enters = false;
        if let (Some(slot), 1..) = (slot, world.vmids) {
            for &queue in &line {
                let mut after = world.clone();
                after.asked = false;
                after.queues[usize::from(queue)].in_line = false;
                let event = SeatEvent::Enter { slot, queue };
                if let SeatAction::Load(permit) = self.apply(&mut after, queue, event) {
                    // The table's.
                    after.queues[usize::from(queue)].references += 1;
                    after.stages[thread] = Stage::Lease(queue, permit);
                }
                found.push(("enter", after));
                enters = true;
            }
        }
        if !enters && !line.is_empty() {
            found.extend(seated.iter().flat_map(|&queue| leave(queue)));
            if asked.is_empty() {
                let mut after = idle(slot.is_some() || !seated.is_empty());
                after.asked |= world.vmids == 0;
                found.push(("later", after));
            }
        }
        if line.is_empty() && asked.is_empty() {
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
        let stage = world.stages[thread].clone();
        let over = matches!(stage, Stage::Idle | Stage::Stopped);
        if self.stops && role.may_stop() && !over {
            found.push(("stop", to(&after, Stage::Stopped)));
        }
        match stage {
            Stage::Idle if role == Role::TurnWorker && world.pending => {
                after.pending = false;
                found.push(("run", to(&after, Stage::Decide)));
            }
            Stage::Decide => found.extend(self.decide(world, thread)),
            Stage::Settle(departed) => {
                for departed in departed.iter().flatten().filter(|departed| departed.unseen) {
                    after.drop_reference(departed.queue, false);
                }
                after.looks -= 1;
                Self::notify(&mut after);
                found.push(("seen", to(&after, Stage::GiveVmids(departed))));
            }
            Stage::GiveVmids(mut departed) => {
                let next = departed
                    .iter_mut()
                    .find_map(|place| place.take().filter(|departed| departed.vmid));
                match next {
                    Some(_) => {
                        after.give_vmid();
                        found.push(("give VMID", to(&after, Stage::GiveVmids(departed))));
                    }
                    None => found.push(("settled", to(&after, Stage::Decide))),
                }
            }
            Stage::Lease(queue, permit) => {
                if world.vmids > 0 {
                    after.vmids -= 1;
                    found.push(("lease", to(&after, Stage::LoadRegisters(queue, permit))));
                } else {
                    let _ = self.apply(&mut after, queue, SeatEvent::NotLoaded(permit));
                    let next = self.dropped(&mut after, queue, Stage::Decide);
                    found.push(("no VMID", to(&after, next)));
                }
            }
            Stage::LoadRegisters(queue, permit) if world.hardware.is_none() => {
                after.hardware = Some(thread);
                if self.hangs {
                    let done = Stage::LoadDone(queue, permit.clone(), false);
                    found.push(("load hangs", to(&after, done)));
                }
                let ring = &mut after.rings[usize::from(permit.slot())];
                if ring.replace(queue).is_some_and(|other| other != queue) {
                    after.broken = Some("two queues are in one slot of the hardware");
                }
                let done = Stage::LoadDone(queue, permit, true);
                found.push(("load", to(&after, done)));
            }
            Stage::LoadDone(queue, permit, works) => {
                after.queues[usize::from(queue)].vmid = true;
                after.hardware = None;
                let event = match works {
                    true => SeatEvent::Loaded(permit),
                    false => SeatEvent::LoadHangs(permit),
                };
                let next = match self.apply(&mut after, queue, event) {
                    SeatAction::Reset => Stage::Reset(Some(queue)),
                    _ => Stage::Decide,
                };
                let next = self.dropped(&mut after, queue, next);
                found.push(("loaded", to(&after, next)));
            }
            Stage::Reset(hung) if world.hardware.is_none() => {
                let is_gone = |queue: u8| {
                    let entry = &world.queues[usize::from(queue)];
                    !entry.known || !entry.state.seat().is_leaving()
                };
                if hung.is_some_and(is_gone) {
                    found.push(("has left after all", to(&after, self.after(thread))));
                } else if let Some(permit) = after.table.begin_reset() {
                    after.hardware = Some(thread);
                    if self.mutation != Mutation::TakesLate {
                        self.take_by_reset(&mut after);
                    }
                    found.push(("take", to(&after, Stage::ResetEngine(hung, permit))));
                }
            }
            Stage::ResetEngine(hung, permit) => {
                if self.hangs {
                    let failed = Stage::ResetDone(hung, permit.clone(), false);
                    found.push(("reset fails", to(&after, failed)));
                }
                // An engine that did not come to rest once may do so later.
                after.rings = [None; SLOTS];
                let done = Stage::ResetDone(hung, permit, true);
                found.push(("reset", to(&after, done)));
            }
            Stage::ResetDone(hung, permit, works) => {
                if self.mutation == Mutation::TakesLate {
                    self.take_by_reset(&mut after);
                }
                if !works {
                    after.table.set_lost();
                }
                for slot in 0..SLOTS as u8 {
                    let Some(&queue) = world.table.slots().get(slot) else {
                        continue;
                    };
                    let event = SeatEvent::ResetEnded { works };
                    let _ = self.apply(&mut after, queue, event);
                    after.queues[usize::from(queue)].failed |= !works;
                }
                after.table.end_reset(permit);
                after.hardware = None;
                after.pending |= works;
                let next = hung.map_or_else(|| self.after(thread), Stage::FailHung);
                found.push(("reset over", to(&after, next)));
            }
            Stage::FailHung(queue) => {
                after.queues[usize::from(queue)].failed = true;
                found.push(("fail hung", to(&after, self.after(thread))));
            }
            Stage::DropReference(queue, next) => {
                after.drop_reference(queue, false);
                found.push(("drop", to(&after, *next)));
            }
            Stage::GiveVmid => {
                after.give_vmid();
                found.push(("give VMID", to(&after, self.after(thread))));
            }
            Stage::Evict => found.extend(self.evict(world, thread)),
            Stage::Evicted => {
                if let Role::Evictor { queue, .. } = role {
                    // It may be destroyed meanwhile.
                    if world.queues[usize::from(queue)].known {
                        let _ = self.apply(&mut after, queue, SeatEvent::Admit);
                    }
                    found.push(("admit", to(&after, Stage::Idle)));
                }
            }
            Stage::Free => {
                if let Role::Destroyer { queue } = role {
                    after.drop_reference(queue, true);
                    found.push(("free", to(&after, Stage::Idle)));
                }
            }
            Stage::Add => {
                if let Role::Creator { queue } = role {
                    let entry = &mut after.queues[usize::from(queue)];
                    entry.made = true;
                    if !world.table.is_lost() {
                        entry.known = true;
                        entry.references += 1;
                        self.line_up(&mut after, queue);
                        after.pending |= self.mutation != Mutation::AddsSilently;
                    }
                    found.push(("add", to(&after, Stage::Idle)));
                }
            }
            Stage::Look => {
                let mut held = [None; SLOTS];
                for (slot, place) in (0..).zip(&mut held) {
                    *place = world.table.slots().get(slot).copied();
                    if let Some(queue) = *place {
                        after.queues[usize::from(queue)].references += 1;
                    }
                }
                after.looks += u8::from(self.mutation != Mutation::LooksUncounted);
                found.push(("look", to(&after, Stage::Looked(held))));
            }
            Stage::Looked(held) => {
                for queue in held.into_iter().flatten() {
                    after.drop_reference(queue, false);
                }
                after.looks -= u8::from(self.mutation != Mutation::LooksUncounted);
                Self::notify(&mut after);
                found.push(("looked", to(&after, Stage::Idle)));
            }
            Stage::Idle
            | Stage::Stopped
            | Stage::Wait
            | Stage::LoadRegisters(..)
            | Stage::Reset(_) => {}
        }
        found
    }

    /// A reset has the seats from now on.
    fn take_by_reset(&self, world: &mut World) {
        for slot in 0..SLOTS as u8 {
            if let Some(&queue) = world.table.slots().get(slot) {
                let _ = self.apply(world, queue, SeatEvent::TakeByReset);
            }
        }
    }

    /// The step of a thread that evicts or destroys a queue.
    fn evict(&self, world: &World, thread: usize) -> Vec<(&'static str, World)> {
        let (queue, patient, forget) = match self.roles[thread] {
            Role::Evictor { queue, patient } => (queue, patient, false),
            Role::Destroyer { queue } => (queue, true, true),
            other => panic!("{other:?} evicts"),
        };
        let to = |after: &World, stage: Stage| {
            let mut after = after.clone();
            after.stages[thread] = stage;
            after
        };
        let over = if forget { Stage::Free } else { Stage::Evicted };
        if !world.queues[usize::from(queue)].known {
            return vec![("gone", to(world, over))];
        }
        let mut found = Vec::new();
        for (mut action, mut after) in self.leave(world, queue, SeatEvent::Evict) {
            if self.mutation == Mutation::DestroysAtOnce && forget && action == SeatAction::Wait {
                action = SeatAction::Off;
            }
            if self.mutation == Mutation::HelperGivesVmid {
                let own = after.departed.iter_mut().flatten();
                if let Some(own) = own.into_iter().find(|departed| departed.queue == queue) {
                    own.vmid = false;
                    found.push(("give", to(&after, Stage::GiveVmid)));
                    continue;
                }
            }
            match action {
                SeatAction::Off if !forget => found.push(("off", to(&after, over.clone()))),
                SeatAction::Off if after.looks == 0 => {
                    let entry = &mut after.queues[usize::from(queue)];
                    (entry.known, entry.in_line) = (false, false);
                    after.drop_reference(queue, false);
                    found.push(("off", to(&after, over.clone())));
                }
                // It stays with the engine.
                SeatAction::Keep => {
                    let next = if forget { Stage::Idle } else { Stage::Evicted };
                    found.push(("kept", to(&after, next)));
                }
                SeatAction::Off | SeatAction::Wait if patient => {
                    found.push(("wait", to(&after, Stage::Wait)));
                }
                SeatAction::Off | SeatAction::Wait => {
                    found.push(("poll", to(&after, Stage::Evict)));
                    found.push(("give up", to(&after, Stage::Evicted)));
                }
                other => panic!("{other:?} after Evict"),
            }
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
        if self.accidents && entry.work && entry.state.seat().is_in() {
            // It is to leave for a moment.
            let outcomes = self.leave(world, queue, SeatEvent::Leave);
            found.extend(outcomes.into_iter().map(|(_, after)| ("clear", after)));
        }
        found
    }
}
