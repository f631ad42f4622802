// SPDX-License-Identifier: GPL-2.0
//! The threads and the hardware as the explorer sees them: their steps and their rules.

use super::*;

pub(super) const STAYS: &str = "a queue is on the hardware that counts as off";
pub(super) const RESET: &str = "a list begins during a reset";
pub(super) const LEFT: &str = "a piece is left, and the work item is not queued";
const TWO_LISTS: &str = "a list begins while queues are on the hardware";
const IN_USE: &str = "a queue is changed on the hardware";
const GONE: &str = "a piece needs firmware that was taken down";

/// What a thread does, and the event of a piece.
type Deed = (&'static str, Option<RunlistEvent>);

/// A step: the thread that makes it, its number, and what it does.
type Step = (&'static str, usize, Deed);

impl Lists {
    fn demand(&self, world: &World) -> RunlistDemand {
        let due = |queue: &Queue| queue.change || queue.listed != queue.is_wanted();
        RunlistDemand {
            due: world.queues.iter().any(due),
            short: self.short,
        }
    }

    fn next(&self, world: &World, by: RunlistHelper) -> RunlistPiece {
        match (world.steps.next(by, self.demand(world)), by) {
            (RunlistPiece::Look, RunlistHelper::Worker)
                if self.broken == Broken::AnswerIsCallers =>
            {
                RunlistPiece::Rest
            }
            (piece, _) => piece,
        }
    }

    /// Marks all queues as off the hardware.
    fn end(&self, world: &mut World) {
        for queue in &mut world.queues {
            (queue.listed, queue.change) = (false, false);
        }
        world.steps = world.steps.after(RunlistEvent::Ended);
    }

    fn install(&self, world: &mut World) -> RunlistEvent {
        if world.on.contains(&true) {
            world.wrong = Some(TWO_LISTS);
        }
        if matches!(world.worker, Worker::Forces(_)) {
            world.wrong = Some(RESET);
        }
        for (queue, on) in world.queues.iter_mut().zip(&mut world.on) {
            if queue.change && *on {
                world.wrong = Some(IN_USE);
            }
            queue.change = false;
            queue.listed = queue.is_wanted();
            *on = queue.listed;
        }
        let runs = world.on.contains(&true);
        RunlistEvent::Installed { runs }
    }

    /// Does one piece under the lock: all that can come of it.
    fn piece(&self, world: &World, by: RunlistHelper) -> Vec<(Deed, World)> {
        let piece = self.next(world, by);
        let mut all = Vec::new();
        let mut found = |event: RunlistEvent, mut after: World| {
            after.steps = after.steps.after(event);
            if event == RunlistEvent::Failed && self.broken == Broken::EndsWithoutHalt {
                self.end(&mut after);
            }
            all.push((("piece", Some(event)), after));
        };
        let mut after = world.clone();
        match piece {
            RunlistPiece::Ask | RunlistPiece::Look | RunlistPiece::Install if world.gone => {
                after.wrong = Some(GONE);
                all.push((("piece", None), after));
            }
            RunlistPiece::Ask => {
                (after.asked, after.answered) = (true, false);
                found(RunlistEvent::Asked, after);
                if self.fails {
                    found(RunlistEvent::Failed, world.clone());
                }
            }
            RunlistPiece::Look => {
                let abandoned = world.on.contains(&true);
                let answer = match world.answered {
                    true if abandoned => RunlistAnswer::Late,
                    true => RunlistAnswer::Left,
                    false => RunlistAnswer::Outstanding,
                };
                found(RunlistEvent::Answered(answer), after);
                if self.late && !world.answered {
                    found(RunlistEvent::Answered(RunlistAnswer::Late), world.clone());
                }
            }
            RunlistPiece::Install => {
                let event = self.install(&mut after);
                found(event, after);
            }
            RunlistPiece::End => {
                self.end(&mut after);
                all.push((("end", None), after));
            }
            RunlistPiece::Rest | RunlistPiece::Wait | RunlistPiece::Force | RunlistPiece::Halt => {}
        }
        all
    }

    fn worker(&self, world: &World, steps: &mut Vec<(Step, World)>) {
        let mut after = world.clone();
        let deed = match world.worker {
            Worker::Idle => "begins",
            Worker::Runs => "goes on",
            Worker::Forces(_) => "forces",
            Worker::Halts | Worker::Halted => "halts",
        };
        match world.worker {
            Worker::Idle if world.pending => {
                after.pending = false;
                after.worker = Worker::Runs;
            }
            Worker::Idle => return,
            Worker::Runs => {
                let next = self.next(world, RunlistHelper::Worker);
                let late = RunlistEvent::Answered(RunlistAnswer::Late);
                for (deed, mut after) in self.piece(world, RunlistHelper::Worker) {
                    // The work item resets queues while others may look for the answer.
                    if self.broken == Broken::ForcesBesideOthers
                        && after.steps == world.steps.after(late)
                        && next == RunlistPiece::Look
                    {
                        after.steps = world.steps;
                        after.worker = Worker::Forces(0);
                    }
                    steps.push((("worker", 0, deed), after));
                }
                after.worker = match next {
                    RunlistPiece::Rest => Worker::Idle,
                    RunlistPiece::Force => Worker::Forces(0),
                    RunlistPiece::Halt => Worker::Halts,
                    _ => return,
                };
            }
            Worker::Forces(queue) if queue < QUEUES => {
                // The firmware answers once the queues have gone.
                after.on[queue] = false;
                after.worker = Worker::Forces(queue + 1);
            }
            Worker::Forces(_) => {
                after.worker = Worker::Runs;
                if self.fails {
                    let mut after = after.clone();
                    after.steps = after.steps.after(RunlistEvent::Failed);
                    steps.push((("worker", 0, ("cannot force", None)), after));
                }
                after.steps = after.steps.after(RunlistEvent::Forced);
            }
            Worker::Halts => {
                after.on = [false; QUEUES];
                after.worker = Worker::Halted;
            }
            Worker::Halted => {
                self.end(&mut after);
                after.worker = Worker::Runs;
            }
        }
        steps.push((("worker", 0, (deed, None)), after));
    }

    /// Queues the work item if there is another piece, as each caller does before it drops the
    /// lock.
    fn wake(&self, world: &mut World) {
        if self.broken != Broken::CallerDoesNotWake {
            world.pending |= self.next(world, RunlistHelper::Worker) != RunlistPiece::Rest;
        }
    }

    fn caller(&self, world: &World, number: usize, steps: &mut Vec<(Step, World)>) {
        let role = self.roles[number];
        let mut after = world.clone();
        let deed = match world.callers[number] {
            Caller::New => "begins",
            Caller::Helps => "waits",
            Caller::Waits => "is through",
            Caller::Sleeps => "wakes",
            Caller::Done => return,
        };
        match world.callers[number] {
            Caller::New => {
                after.callers[number] = Caller::Helps;
                match role {
                    Role::Create(queue) => {
                        after.queues[queue].known = world.steps.is_open();
                        after.callers[number] = Caller::Done;
                    }
                    Role::Destroy(queue) if world.queues[queue].known => {
                        after.queues[queue].off = true;
                    }
                    // What is not on the list is changed at once.
                    Role::Change(queue) if world.queues[queue].listed => {
                        after.queues[queue].change = true;
                    }
                    Role::Destroy(_) | Role::Change(_) => after.callers[number] = Caller::Done,
                    Role::Sleep => {
                        let sleeps = after.steps.pause();
                        after.gone |= sleeps;
                        after.callers[number] = match sleeps {
                            true => Caller::Sleeps,
                            false => Caller::Done,
                        };
                    }
                    Role::Stop => {
                        after.steps.end();
                        after.callers[number] = Caller::Waits;
                    }
                }
                self.wake(&mut after);
            }
            Caller::Helps => {
                for (piece, mut after) in self.piece(world, RunlistHelper::Caller) {
                    self.wake(&mut after);
                    steps.push((("caller", number, piece), after));
                }
                after.callers[number] = Caller::Waits;
                self.wake(&mut after);
            }
            Caller::Waits => {
                let through = match role {
                    Role::Destroy(queue) => !world.queues[queue].listed,
                    Role::Change(queue) => !world.queues[queue].change,
                    Role::Stop => world.steps.has_ended(),
                    Role::Create(_) | Role::Sleep => true,
                };
                if !through {
                    return self.stop(world, number, steps);
                }
                match role {
                    Role::Destroy(queue) => after.queues[queue].known = false,
                    Role::Stop => after.gone = true,
                    Role::Create(_) | Role::Change(_) | Role::Sleep => {}
                }
                after.callers[number] = Caller::Done;
            }
            Caller::Sleeps => {
                after.gone = false;
                after.steps.open();
                after.callers[number] = Caller::Done;
                self.wake(&mut after);
            }
            Caller::Done => {}
        }
        steps.push((("caller", number, (deed, None)), after));
        self.stop(world, number, steps);
    }

    /// The thread does nothing any more.
    fn stop(&self, world: &World, number: usize, steps: &mut Vec<(Step, World)>) {
        let mut after = world.clone();
        after.callers[number] = Caller::Done;
        steps.push((("caller", number, ("stops", None)), after));
    }

    fn hardware(&self, world: &World, steps: &mut Vec<(Step, World)>) {
        if !world.asked || world.answered {
            return;
        }
        let mut after = world.clone();
        after.answered = true;
        if self.late && world.on.contains(&true) {
            steps.push((("hardware", 0, ("gives up", None)), after.clone()));
        }
        after.on = [false; QUEUES];
        steps.push((("hardware", 0, ("answers", None)), after));
    }
}

impl Model for Lists {
    type State = World;
    type Step = Step;

    fn start(&self) -> World {
        let mut steps = RunlistSteps::new();
        steps.open();
        let listed = Queue {
            known: true,
            listed: true,
            ..Queue::default()
        };
        World {
            steps: steps.after(RunlistEvent::Installed { runs: true }),
            queues: [listed, Queue::default()],
            on: [true, false],
            asked: false,
            answered: false,
            gone: false,
            pending: false,
            worker: Worker::Idle,
            callers: std::array::from_fn(|number| match self.roles.get(number) {
                Some(_) => Caller::New,
                None => Caller::Done,
            }),
            wrong: None,
        }
    }

    fn steps(&self, world: &World) -> Vec<(Step, World)> {
        let mut steps = Vec::new();
        self.worker(world, &mut steps);
        self.hardware(world, &mut steps);
        for number in 0..self.roles.len() {
            self.caller(world, number, &mut steps);
        }
        steps
    }

    fn check(&self, world: &World) -> Result<(), String> {
        let stays = |(queue, on): (&Queue, &bool)| *on && !(queue.known && queue.listed);
        if let Some(wrong) = world.wrong {
            return Err(wrong.into());
        }
        if world.queues.iter().zip(&world.on).any(stays) {
            return Err(STAYS.into());
        }
        if self.next(world, RunlistHelper::Worker) != RunlistPiece::Rest
            && !world.pending
            && world.worker == Worker::Idle
        {
            return Err(LEFT.into());
        }
        Ok(())
    }

    fn is_at_rest(&self, world: &World) -> bool {
        let takes_lists = world.steps.is_open() && !world.steps.has_ended();
        let is_made = !takes_lists || !self.demand(world).due;
        is_made
            && !world.pending
            && world.worker == Worker::Idle
            && world.callers.iter().all(|caller| *caller == Caller::Done)
    }
}
