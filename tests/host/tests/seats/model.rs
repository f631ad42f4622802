// SPDX-License-Identifier: GPL-2.0
//! The engine as the explorer sees it: its first state, its steps, its rules.

use super::*;

impl Model for Engine {
    type State = World;
    type Step = (&'static str, u8);

    fn start(&self) -> World {
        let queues = (0..self.queues as u8).map(|queue| Queue {
            state: SeatState::new(false),
            made: !self.is_direct(queue),
            known: !self.is_direct(queue),
            references: 2 - u8::from(self.is_direct(queue)),
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
            Role::Looker => Stage::Look,
        });
        World {
            table: EngineTable::new(),
            queues: queues.collect(),
            rings: [None; SLOTS],
            departed: [None; SLOTS],
            looks: 0,
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
                    !world.queues[usize::from(queue)].made
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
        let at_rest = self.is_at_rest(world);
        let lost = world.table.is_lost();
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
            let loading = usize::from(matches!(seat, Seat::Loading(..)));
            rule(
                world.permits(queue) == loading,
                "a queue is loaded by no thread, or by two",
            )?;
            rule(
                !seat.is_stuck() || lost,
                "a queue is stuck on a live engine",
            )?;
            if entry.was_destroyed() {
                let reached = world.rings.contains(&Some(queue));
                rule(!reached, "the hardware reaches a queue that was destroyed")?;
            }
            if at_rest && entry.known {
                rule(
                    !(lost && seat.is_in()),
                    "a queue is in a slot of a lost engine",
                )?;
                rule(
                    !seat.is_leaving() && !matches!(seat, Seat::Loading(..)),
                    "a queue keeps a slot that it was asked to leave",
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
        if at_rest {
            let departed = world.departed.iter().any(Option::is_some);
            rule(!departed, "a queue that is out keeps a VMID")?;
            let held = world.queues.iter().filter(|queue| queue.vmid).count();
            let all = usize::from(world.vmids + world.elsewhere) + held;
            rule(all == usize::from(self.vmids), "a VMID is lost")?;
        }
        Ok(())
    }

    fn is_at_rest(&self, world: &World) -> bool {
        // A queue may be kept off for any time.
        let idle = |stage: &Stage| matches!(stage, Stage::Idle | Stage::Evicted | Stage::Stopped);
        !world.pending && world.stages.iter().all(idle)
    }
}
