// SPDX-License-Identifier: GPL-2.0
//! A followed queue and what surrounds it as the explorer sees them: their steps and their rules.

use super::*;

impl State {
    /// Carries out an action without the lock, and returns those that are left.
    fn signal(&mut self, actions: &'static [SignalAction]) -> Option<&'static [SignalAction]> {
        let (&action, left) = actions.split_first()?;
        self.page.signal(action);
        (!left.is_empty()).then_some(left)
    }

    /// Whether the queue stands in line when it is asked to.
    fn line_up(&mut self) {
        let out = self.seat.seat().is_out() && !self.seat.is_evicted();
        self.in_line |= out && self.write > self.engine.rptr;
    }

    /// As `EngineSlots::submit`.
    fn submit(&mut self) {
        let step = self.table.apply(&mut self.seat, SeatEvent::Work);
        if let SeatAction::LineUp = step.action {
            self.line_up();
        }
    }

    /// The doorbell rings.
    fn ring(&mut self, value: u8) {
        if self.engine.has_doorbell {
            self.engine.wptr = self.engine.wptr.max(value);
        }
    }

    /// Ends the jobs that are done; whether there were any.
    fn check(&mut self) -> bool {
        let before = self.jobs.len();
        let read = self.read;
        self.jobs.retain(|&to| to > read);
        self.jobs.len() < before
    }

    fn is_quiet(&self) -> bool {
        matches!(self.user, User::Idle | User::Store)
            && self.pass == Pass::Idle
            && self.turn == Turn::Idle
            && self.kicker.is_none()
            && !self.departed
            && !self.left
    }
}

impl Followed {
    fn go_on(&self, state: &mut State, actions: &'static [PassAction]) {
        state.pass = match actions {
            [] => Pass::Idle,
            [PassAction::Look, ..] => Pass::Look,
            _ => Pass::Act(actions),
        };
    }

    fn event(&self, state: &mut State, event: PumpEvent) {
        let (pump, actions) = (self.rules.step)(state.pump, event);
        state.pump = pump;
        self.go_on(state, actions);
    }

    fn user(&self, state: &State) -> Option<(Step, State)> {
        let mut after = state.clone();
        let next = self.stores.get(usize::from(state.stored)).copied();
        let name = match state.user {
            User::Idle => {
                let value = next?;
                if self.rules.announces_first {
                    after.write = value;
                }
                after.user = User::Store;
                "announces"
            }
            User::Store if state.page.mapped => {
                after.ring(next?);
                after.stored += 1;
                after.user = match self.rules.announces_first {
                    true => User::Idle,
                    false => User::Late,
                };
                "stores"
            }
            User::Store => {
                after.page.mapped = true;
                after.user = User::Look;
                "faults"
            }
            User::Look => {
                let found = state.pass == Pass::Idle;
                if found && self.rules.fault_submits {
                    after.submit();
                }
                after.raced |= after.seat.seat().is_out() && !after.in_line;
                let signal = PumpSignal::Touched {
                    taken: found,
                    soon: false,
                };
                after.user = User::Signal(signal.actions());
                "looks"
            }
            User::Signal(actions) => {
                after.user = after.signal(actions).map_or(User::Store, User::Signal);
                "signals"
            }
            User::Late => {
                after.write = self.stores[usize::from(state.stored) - 1];
                after.user = User::Idle;
                "announces late"
            }
        };
        Some((("user", name), after))
    }

    fn pass(&self, state: &State) -> Option<(Step, State)> {
        let mut after = state.clone();
        let name = match state.pass {
            Pass::Idle if state.page.due != PassDue::Never => {
                after.pass = Pass::TakeKicked(after.page.begin_pass());
                "begins"
            }
            Pass::Idle => return None,
            Pass::TakeKicked(flags) => {
                let kicked = std::mem::take(&mut after.page.kicked);
                // In one step, as the threads that set them have a pass run after that.
                let left = std::mem::take(&mut after.page.left);
                after.pass = Pass::ReadOpen(PassFlags {
                    kicked,
                    left,
                    ..flags
                });
                "takes Kicked and Left"
            }
            Pass::ReadOpen(flags) => {
                let open = state.page.open;
                self.event(&mut after, PumpEvent::Begin(PassFlags { open, ..flags }));
                "reads Open"
            }
            Pass::Look => {
                let (read, write) = (u64::from(state.read) * 4, u64::from(state.write) * 4);
                let bytes = after.positions.look(SIZE, read, write);
                let mut found = PumpFindings {
                    progress: bytes.moved,
                    ..PumpFindings::default()
                };
                if bytes.to > bytes.from {
                    after.positions.take(bytes.to);
                    after.jobs.push((bytes.to / 4) as u8);
                    found.progress = true;
                }
                found.progress |= after.check();
                found.busy = bytes.moved || !after.jobs.is_empty();
                if bytes.has_work() && self.rules.submits {
                    after.submit();
                }
                after.pass = Pass::Looked(found);
                "looks"
            }
            Pass::Looked(found) => {
                let open = state.page.open;
                self.event(&mut after, PumpEvent::Looked { found, open });
                "has looked"
            }
            Pass::Act(actions) => {
                let (&action, left) = actions.split_first()?;
                self.go_on(&mut after, left);
                match action {
                    PassAction::WatchJobs => {
                        let watched = match (after.jobs.is_empty(), after.check()) {
                            (true, _) => WatchedFence::Idle,
                            (false, true) => WatchedFence::Ended,
                            (false, false) => WatchedFence::Busy,
                        };
                        self.event(&mut after, PumpEvent::Watched(watched));
                        "watches"
                    }
                    action => {
                        after.raced &= action != PassAction::Zap;
                        after.page.act(action)
                    }
                }
            }
        };
        Some((("pass", name), after))
    }

    fn turn(&self, state: &State) -> Option<(Step, State)> {
        let mut after = state.clone();
        let name = match &state.turn {
            // Before it loads a queue it clears up.
            Turn::Idle if state.departed => {
                let in_fault = matches!(state.user, User::Look | User::Signal(_));
                after.raced |= !state.page.open && in_fault;
                after.departed = false;
                if state.page.open {
                    after.turn = Turn::Tells(PumpSignal::Left.actions());
                }
                "looks at the page"
            }
            Turn::Tells(actions) => {
                after.turn = after.signal(actions).map_or(Turn::Idle, Turn::Tells);
                "tells of leaving"
            }
            Turn::Idle if state.in_line => {
                after.in_line = false;
                let (slot, queue) = (0, ());
                let step = after
                    .table
                    .apply(&mut after.seat, SeatEvent::Enter { slot, queue });
                let SeatAction::Load(permit) = step.action else {
                    // It was evicted since.
                    return Some((("turn", "finds it evicted"), after));
                };
                let early = (!self.rules.reads_late).then_some(state.write);
                after.turn = Turn::Begins(permit, early);
                "chooses"
            }
            Turn::Idle => return None,
            Turn::Begins(permit, early) => {
                after.engine.has_doorbell = true;
                after.engine.wptr = 0;
                after.turn = Turn::Enabled(permit.clone(), *early);
                "enables the doorbell"
            }
            Turn::Enabled(permit, early) => {
                after.turn = Turn::Writes(permit.clone(), early.unwrap_or(state.write));
                "reads the write pointer"
            }
            Turn::Writes(permit, write) => {
                // Doorbells that rang meanwhile were latched.
                after.engine.wptr = state.engine.wptr.max(*write);
                after.engine.runs = true;
                after.turn = Turn::Idle;
                let permit = permit.clone();
                let _ = after
                    .table
                    .apply(&mut after.seat, SeatEvent::Loaded(permit));
                "loads"
            }
        };
        Some((("turn", name), after))
    }

    /// Takes the queue off the engine.
    fn leave(&self, state: &mut State, event: SeatEvent<()>) {
        // Its packets under way are done first.
        if let SeatAction::TurnOff(_) = state.table.apply(&mut state.seat, event).action {
            state.engine.has_doorbell = false;
            state.engine.runs = false;
            state.read = state.engine.rptr;
            let _ = state.table.apply(&mut state.seat, SeatEvent::Idle);
            state.left = true;
        }
    }

    fn others(&self, state: &State, steps: &mut Vec<(Step, State)>) {
        let mut step = |name: Step, change: &dyn Fn(&mut State)| {
            let mut after = state.clone();
            change(&mut after);
            steps.push((name, after));
        };
        if state.engine.runs && state.engine.wptr > state.engine.rptr {
            step(("engine", "executes"), &|after| {
                after.engine.rptr = after.engine.wptr;
            });
        }
        if state.engine.runs && state.read != state.engine.rptr {
            step(("engine", "reports"), &|after| {
                after.read = after.engine.rptr;
            });
        }
        if state.left {
            step(("seats", "line up"), &|after| {
                after.left = false;
                after.line_up();
                after.departed = self.rules.tells_of_leaving;
            });
        } else if *state.seat.seat() == Seat::In(0) && state.leaves > 0 {
            step(("stranger", "comes"), &|after| {
                after.leaves -= 1;
                self.leave(after, SeatEvent::Leave);
            });
        }
        if let Some(actions) = state.kicker {
            step(("kicker", "kicks"), &|after| {
                after.kicker = after.signal(actions)
            });
            return;
        }
        match state.evictor {
            Evictor::Evicts if !state.left && state.turn == Turn::Idle => {
                step(("evictor", "evicts"), &|after| {
                    self.leave(after, SeatEvent::Evict);
                    after.evictor = Evictor::Admits;
                });
            }
            Evictor::Admits if !state.left => step(("evictor", "admits"), &|after| {
                let _ = after.table.apply(&mut after.seat, SeatEvent::Admit);
                after.line_up();
                after.kicker = Some(PumpSignal::Kick.actions());
                after.evictor = Evictor::Over;
            }),
            _ => {}
        }
    }
}

impl Model for Followed {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        State {
            page: DoorbellPage::new(),
            pump: PumpState::new(LIMITS),
            pass: Pass::Idle,
            user: User::Idle,
            stored: 0,
            write: 0,
            read: 0,
            positions: FollowedPositions::new(),
            jobs: Vec::new(),
            table: EngineTable::new(),
            seat: SeatState::new(false),
            in_line: false,
            turn: Turn::Idle,
            engine: Engine::default(),
            left: false,
            departed: false,
            raced: false,
            leaves: self.leaves,
            evictor: match self.evicts {
                true => Evictor::Evicts,
                false => Evictor::Over,
            },
            kicker: None,
        }
    }

    fn steps(&self, state: &State) -> Vec<(Step, State)> {
        let mut steps = Vec::new();
        steps.extend(self.user(state));
        steps.extend(self.pass(state));
        steps.extend(self.turn(state));
        self.others(state, &mut steps);
        steps
    }

    fn check(&self, state: &State) -> Result<(), String> {
        let rule = |holds: bool, rule: &str| holds.then_some(()).ok_or(rule.to_string());
        let in_fault = matches!(state.user, User::Look | User::Signal(_));
        let zaps = matches!(&state.pass, Pass::Act(left) if left.contains(&PassAction::Zap));
        let passes = state.pass != Pass::Idle;
        let comes = state.page.due != PassDue::Never || passes;
        state.page.check_pass(in_fault || zaps, passes)?;
        // No job ends before the engine has done its bytes.
        let ended = state
            .jobs
            .first()
            .is_none_or(|&to| to > state.read || comes || in_fault);
        rule(
            ended || state.page.due != PassDue::Never,
            "jobs are not watched",
        )?;
        if !state.is_quiet() {
            return Ok(());
        }
        let soon = state.page.is_due_soon();
        state.page.check_grace()?;
        let idle = state.seat.seat().is_out() && !state.in_line && !state.seat.is_evicted();
        let unheard = idle && state.page.mapped && state.page.due != PassDue::Now;
        rule(!unheard || state.raced, "stores go unheard")?;
        let stored = match state.stored {
            0 => 0,
            stored => self.stores[usize::from(stored) - 1],
        };
        let runs = state.engine.runs && state.engine.wptr >= stored;
        let waits = state.in_line || state.seat.is_evicted();
        rule(
            state.engine.rptr >= stored || runs || waits || soon,
            "a doorbell is lost",
        )?;
        rule(
            state.jobs.is_empty() || state.page.due != PassDue::Never,
            "jobs are under way without a pass to come",
        )
    }

    fn is_at_rest(&self, state: &State) -> bool {
        let last = self.stores.last().copied().unwrap_or(0);
        state.is_quiet()
            && state.user == User::Idle
            && state.engine.rptr == last
            && state.read == last
            && { state.positions }
                .look(SIZE, u64::from(last) * 4, u64::from(last) * 4)
                .from
                == u64::from(last) * 4
            && state.jobs.is_empty()
            && !state.page.mapped
            && state.page.due == PassDue::Never
            && state.evictor == Evictor::Over
    }
}
