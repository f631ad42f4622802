// SPDX-License-Identifier: GPL-2.0
//! The pump and what surrounds it as the explorer sees them: their steps and their rules.

use super::*;

impl Pump {
    /// Looks at the next queue, as `PumpQueues::look` does, or at the only one, as
    /// `PumpQueues::look_at` does, with and without memory for a job. `Ok` when all were looked at.
    pub(super) fn look(
        &self,
        state: &State,
        run: &LookRun,
    ) -> Vec<(State, Result<PumpFindings, LookRun>)> {
        let next = (state.first as usize + run.done as usize) % self.stores.len();
        let number = run.only.unwrap_or(next);
        let mut all = Vec::new();
        for short in [false, true] {
            let (mut state, mut run) = (state.clone(), run.clone());
            run.found.progress |= state.check_jobs(number);
            let doorbell = state.queues[number].doorbell;
            if run.packets == 0 && run.left_out.is_none() {
                run.left_out = Some(number as u8);
            }
            let queue = &mut state.queues[number];
            let to = doorbell.max(queue.write_pointer).max(queue.taken);
            let may = !queue.evicted && queue.jobs < self.most_jobs && to > queue.taken;
            let takes = may && run.packets > 0;
            if short && (!takes || state.shortages == 0) {
                continue;
            }
            if takes {
                run.packets -= 1;
            }
            run.found.more |= may && to > queue.taken + u8::from(takes);
            if takes && short {
                state.shortages -= 1;
                run.found.retry = true;
            } else if takes {
                queue.taken += 1;
                queue.jobs += 1;
                run.found.progress = true;
                run.found.long = true;
                run.found.single |= queue.jobs == 1;
            }
            run.found.busy |= queue.jobs > 0;
            run.found.behind |= queue.taken > doorbell;
            run.done += 1;
            if run.only.is_some() {
                all.push((state, Ok(run.found)));
            } else if usize::from(run.done) < self.stores.len() {
                all.push((state, Err(run)));
            } else {
                state.first = run.left_out.unwrap_or(state.first);
                all.push((state, Ok(run.found)));
            }
        }
        all
    }

    pub(super) fn user(&self, state: &State, user: usize, steps: &mut Vec<(Step, State)>) {
        let mut after = state.clone();
        let name = match &state.users[user] {
            User::Idle => {
                let made = usize::from(state.stored[user]);
                let Some(&value) = self.stores[user].get(made) else {
                    return;
                };
                after.users[user] = User::Store;
                if self.both_ways || user != 0 {
                    let step = ("user", user, "announces nothing");
                    steps.push((step, after.clone()));
                }
                if !self.both_ways && user != 0 {
                    return;
                }
                after.queues[user].write_pointer = value;
                "announces"
            }
            User::Store if state.page.mapped => {
                let made = usize::from(state.stored[user]);
                after.queues[user].doorbell = self.stores[user][made];
                after.stored[user] += 1;
                after.users[user] = User::Idle;
                "stores"
            }
            User::Store => {
                after.page.mapped |= self.rules.insert_first;
                after.users[user] = User::Look;
                "faults"
            }
            User::Insert => {
                after.page.mapped = true;
                after.users[user] = User::Store;
                "inserts the page"
            }
            User::Look if state.pass == Pass::Idle => {
                // At once: the lock keeps the pass away, and the order of others does not matter.
                let run = LookRun {
                    only: Some(user),
                    ..LookRun::new(FAULT_PACKETS)
                };
                for (mut after, found) in self.look(state, &run) {
                    let found = found.unwrap_or_default();
                    after.users[user] = self.touched(found);
                    after.fresh |= found.long;
                    steps.push((("user", user, "looks"), after));
                }
                return;
            }
            User::Look => {
                after.users[user] = self.touched(PumpFindings::default());
                "has no lock"
            }
            User::Signal(thread) => {
                let thread = thread.clone();
                after.users[user] = match (after.signal(&thread), self.rules.insert_first) {
                    (Some(left), _) => User::Signal(left),
                    (None, true) => User::Store,
                    (None, false) => User::Insert,
                };
                "signals"
            }
        };
        steps.push((("user", user, name), after));
    }

    pub(super) fn touched(&self, found: PumpFindings) -> User {
        let (taken, soon) = (found.progress, found.more || found.long);
        let left = (self.rules.signal)(PumpSignal::Touched { taken, soon });
        User::Signal(Signalling { left })
    }

    /// Tells the machine of an event of the pass.
    pub(super) fn event(&self, state: &mut State, event: PumpEvent) {
        let (pump, actions) = (self.rules.step)(state.pump, event);
        state.pump = pump;
        self.go_on(state, actions);
    }

    /// The pass goes on with these actions, or ends. It begins to look at once.
    pub(super) fn go_on(&self, state: &mut State, actions: &'static [PassAction]) {
        state.pass = match actions {
            [] => Pass::Idle,
            [PassAction::Look, ..] => Pass::Look(LookRun::new(PASS_PACKETS)),
            _ => Pass::Act(actions),
        };
    }

    pub(super) fn pass(&self, state: &State, steps: &mut Vec<(Step, State)>) {
        let mut after = state.clone();
        let name = match &state.pass {
            // A timer may expire at any time.
            Pass::Idle if state.page.due != PassDue::Never => {
                after.fresh = false;
                after.pass = Pass::TakeKicked(after.page.begin_pass());
                "begins"
            }
            Pass::Idle => return,
            &Pass::TakeKicked(flags) => {
                let kicked = std::mem::take(&mut after.page.kicked);
                after.pass = Pass::ReadOpen(PassFlags { kicked, ..flags });
                "takes Kicked"
            }
            &Pass::ReadOpen(flags) => {
                let open = state.page.open;
                self.event(&mut after, PumpEvent::Begin(PassFlags { open, ..flags }));
                "reads Open"
            }
            Pass::Look(run) => {
                for (mut after, found) in self.look(state, run) {
                    after.pass = match found {
                        Ok(found) => Pass::Looked(found),
                        Err(run) => Pass::Look(run),
                    };
                    steps.push((("pass", 0, "looks"), after));
                }
                return;
            }
            &Pass::Looked(found) => {
                let open = state.page.open;
                self.event(&mut after, PumpEvent::Looked { found, open });
                "has looked"
            }
            Pass::Act(actions) => match actions.split_first() {
                None => unreachable!(),
                Some((&action, left)) => {
                    self.go_on(&mut after, left);
                    self.act(&mut after, action)
                }
            },
        };
        steps.push((("pass", 0, name), after));
    }

    pub(super) fn act(&self, state: &mut State, action: PassAction) -> &'static str {
        match action {
            PassAction::WatchJobs => {
                let mut watched = WatchedFence::Idle;
                for queue in 0..QUEUES {
                    if state.queues[queue].jobs > 0 {
                        watched = match watched {
                            _ if state.check_jobs(queue) => WatchedFence::Ended,
                            WatchedFence::Idle => WatchedFence::Busy,
                            before => before,
                        };
                    }
                }
                self.event(state, PumpEvent::Watched(watched));
                "watches"
            }
            PassAction::Refill => {
                state.refill_due = true;
                "queues a refill"
            }
            action => state.page.act(action),
        }
    }

    pub(super) fn kick(&self, state: &mut State) {
        let left = (self.rules.signal)(PumpSignal::Kick);
        state.kicker = Some(Signalling { left });
    }

    pub(super) fn others(&self, state: &State, steps: &mut Vec<(Step, State)>) {
        let mut step = |name, change: &dyn Fn(&mut State)| {
            let mut after = state.clone();
            change(&mut after);
            steps.push((name, after));
        };
        for queue in 0..self.stores.len() {
            if state.queues[queue].ended < state.queues[queue].jobs {
                step(("hardware", queue, "ends a job"), &|after| {
                    after.queues[queue].ended += 1;
                });
            }
        }
        if let Some(kicker) = &state.kicker {
            step(("kicker", 0, "kicks"), &|after| {
                after.kicker = after.signal(kicker)
            });
            return;
        }
        if state.refill_due {
            step(("refill", 0, "wakes"), &|after| {
                after.refill_due = false;
                self.kick(after);
            });
        }
        // It comes at any time or never.
        if state.queues.iter().any(|queue| queue.ended > 0) {
            step(("interrupt", 0, "checks"), &|after| {
                (0..QUEUES).for_each(|queue| {
                    after.check_jobs(queue);
                });
                if self.rules.interrupt_kicks {
                    self.kick(after);
                }
            });
        }
        match state.evictor {
            Evictor::Evicts => step(("evictor", 0, "evicts"), &|after| {
                after.queues[0].evicted = true;
                after.evictor = Evictor::Restores;
            }),
            Evictor::Restores => step(("evictor", 0, "restores"), &|after| {
                after.queues[0].evicted = false;
                after.evictor = Evictor::Over;
                self.kick(after);
            }),
            Evictor::Over => {}
        }
    }
}

impl Model for Pump {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        State {
            page: DoorbellPage::new(),
            fresh: false,
            pump: PumpState::new(LIMITS),
            first: 0,
            queues: Default::default(),
            users: [const { User::Idle }; QUEUES],
            stored: [0; QUEUES],
            pass: Pass::Idle,
            refill_due: false,
            kicker: None,
            evictor: match self.evicts {
                true => Evictor::Evicts,
                false => Evictor::Over,
            },
            shortages: self.shortages,
        }
    }

    fn steps(&self, state: &State) -> Vec<(Step, State)> {
        let mut steps = Vec::new();
        for user in 0..self.stores.len() {
            self.user(state, user, &mut steps);
        }
        self.pass(state, &mut steps);
        self.others(state, &mut steps);
        steps
    }

    fn check(&self, state: &State) -> Result<(), String> {
        let rule = |holds: bool, rule: &str| holds.then_some(()).ok_or(rule.to_string());
        let fault = |user: &User| matches!(user, User::Look | User::Signal(_));
        let in_fault = self.rules.insert_first && state.users.iter().any(fault);
        let zaps = matches!(&state.pass, Pass::Act(left) if left.contains(&PassAction::Zap));
        let passes = state.pass != Pass::Idle;
        state.page.check_pass(in_fault || zaps, passes)?;
        if !state.is_quiet() {
            return Ok(());
        }
        let soon = state.page.is_due_soon();
        state.page.check_grace()?;
        for queue in &state.queues {
            let waits = queue.evicted || queue.jobs == self.most_jobs;
            rule(
                queue.doorbell <= queue.taken || waits || soon || state.refill_due,
                "a doorbell is lost",
            )?;
            let sooner = state.page.due == PassDue::Now || state.refill_due;
            rule(
                !state.fresh || queue.doorbell <= queue.taken || waits || sooner,
                "a doorbell beside a long job waits for the grace time",
            )?;
            rule(
                queue.jobs == 0 || state.page.due != PassDue::Never,
                "jobs are under way without a pass to come",
            )?;
        }
        rule(
            !state.page.kicked || state.page.due == PassDue::Now,
            "a kick waits",
        )
    }

    fn is_at_rest(&self, state: &State) -> bool {
        let last = |user: usize| self.stores[user].last().copied().unwrap_or(0);
        let done = |user: usize| {
            let queue = &state.queues[user];
            state.users[user] == User::Idle && queue.taken == last(user) && queue.jobs == 0
        };
        state.is_quiet()
            && (0..self.stores.len()).all(done)
            && !state.page.mapped
            && state.page.due == PassDue::Never
            && !state.refill_due
            && state.evictor == Evictor::Over
    }
}
