// SPDX-License-Identifier: GPL-2.0
//! All interleavings of threads that invalidate translations in the hubs. The threads have the
//! steps of `rust/ip/gmc.rs`: a step is what is done under the lock once. Hubs answer, are late, or
//! never answer, and the scheduler may keep threads from the CPU for ever.

use hw::flush::{FlushProgress, FlushRequests, FlushTicket, HubSet, FLUSH_TIMEOUT_US};
use hw::ih::HubKind;
use rkfd_host_tests::explore::{explore, Model};

const THREADS: usize = 3;
/// The thread that has to come to its end, whatever becomes of the others.
const NEVER_STARVED: usize = 0;
/// More states than these models have.
const MOST_STATES: usize = 2_000_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Wants to make a request to these hubs.
    Begin(HubSet),
    Sleeps(HubSet, FlushTicket),
    Ended(HubSet, bool),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Thread {
    stage: Stage,
    /// It does not run any more.
    starved: bool,
    /// The hubs that have invalidated what it wanted.
    flushed: HubSet,
}

/// A hub's register: the thread whose request it has, and whether that is acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Hub {
    request: Option<usize>,
    acknowledged: bool,
    /// It does not answer any more.
    broken: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    threads: [Thread; THREADS],
    hubs: [Hub; 2],
    requests: FlushRequests,
    /// A request was written while a hub had not answered the one before, and was not broken.
    overwritten: bool,
}

/// What happens, and to which thread or hub.
type Step = (&'static str, usize);

const KINDS: [HubKind; 2] = [HubKind::Gfx, HubKind::Mm];

fn index(kind: HubKind) -> usize {
    match kind {
        HubKind::Gfx => 0,
        HubKind::Mm => 1,
    }
}

impl State {
    /// As `HubsState::poll`; `waited` microseconds after the request.
    fn poll(&mut self, waited: u64) {
        if let Some(pending) = self.requests.pending() {
            for kind in pending.awaited.kinds() {
                if self.hubs[index(kind)].acknowledged {
                    self.requests.acknowledge(kind);
                }
            }
            self.requests.expire(waited);
        }
    }

    /// As `Gmc::step_flush`.
    fn run(&mut self, number: usize, waited: u64, rules: Rules) {
        let stage = &self.threads[number].stage;
        if rules != Rules::NoHelp || matches!(stage, Stage::Sleeps(..)) {
            self.poll(waited);
        }
        let (hubs, ticket) = match self.threads[number].stage {
            Stage::Sleeps(hubs, _) if rules == Rules::ByPending => {
                if self.requests.pending().is_none() {
                    self.threads[number].stage = Stage::Ended(hubs, true);
                }
                return;
            }
            Stage::Begin(hubs) => (hubs, self.request(number, hubs)),
            Stage::Sleeps(hubs, ticket) => (hubs, Some(ticket)),
            Stage::Ended(..) => return,
        };
        self.threads[number].stage = match ticket {
            None => Stage::Begin(hubs),
            Some(ticket) => match self.requests.progress(ticket) {
                FlushProgress::Pending => Stage::Sleeps(hubs, ticket),
                FlushProgress::Done => Stage::Ended(hubs, true),
                FlushProgress::Failed => Stage::Ended(hubs, false),
            },
        };
    }

    fn request(&mut self, number: usize, hubs: HubSet) -> Option<FlushTicket> {
        let ticket = self.requests.request(hubs, 1)?;
        for kind in hubs.kinds() {
            let hub = &mut self.hubs[index(kind)];
            self.overwritten |= hub.request.is_some() && !hub.acknowledged && !hub.broken;
            hub.request = Some(number);
            hub.acknowledged = false;
        }
        Some(ticket)
    }
}

/// What the threads do, or one of two rules that are broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    Kept,
    /// A thread that has slept takes it for done when no request is under way.
    ByPending,
    /// A thread polls its own request only.
    NoHelp,
}

/// The sets of hubs that the threads flush.
struct Threads([HubSet; THREADS], Rules);

impl Model for Threads {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        let thread = |hubs| Thread {
            stage: Stage::Begin(hubs),
            starved: false,
            flushed: HubSet::NONE,
        };
        State {
            threads: self.0.map(thread),
            hubs: Default::default(),
            requests: FlushRequests::new(),
            overwritten: false,
        }
    }

    fn steps(&self, state: &State) -> Vec<(Step, State)> {
        let mut steps = Vec::new();
        let mut add = |step, change: &dyn Fn(&mut State)| {
            let mut after = state.clone();
            change(&mut after);
            steps.push((step, after));
        };
        // A hub that does not answer for so long is broken.
        let broken = state.requests.pending().is_some_and(|pending| {
            let mut awaited = pending.awaited.kinds();
            awaited.all(|kind| state.hubs[index(kind)].broken)
        });
        for (number, thread) in state.threads.iter().enumerate() {
            if thread.starved || matches!(thread.stage, Stage::Ended(..)) {
                continue;
            }
            add(("runs", number), &|state| state.run(number, 0, self.1));
            if number != NEVER_STARVED {
                add(("starves", number), &|state| {
                    state.threads[number].starved = true;
                });
            }
            if broken {
                add(("runs late", number), &|state| {
                    state.run(number, FLUSH_TIMEOUT_US, self.1)
                });
            }
        }
        for kind in KINDS {
            let hub = &state.hubs[index(kind)];
            if hub.broken {
                continue;
            }
            add(("breaks", index(kind)), &|state| {
                state.hubs[index(kind)].broken = true
            });
            if let (Some(number), false) = (hub.request, hub.acknowledged) {
                add(("answers", index(kind)), &|state| {
                    state.hubs[index(kind)].acknowledged = true;
                    let thread = &mut state.threads[number];
                    thread.flushed = thread.flushed.with(HubSet::of(kind));
                });
            }
        }
        steps
    }

    fn check(&self, state: &State) -> Result<(), String> {
        if state.overwritten {
            return Err("a request was written before the one before was answered".into());
        }
        for thread in &state.threads {
            if let Stage::Ended(hubs, true) = thread.stage {
                if !hubs.without(thread.flushed).is_empty() {
                    return Err(format!("{thread:?} believes that its hubs have answered"));
                }
            }
            let is_well = state.hubs.iter().all(|hub| !hub.broken);
            if is_well && matches!(thread.stage, Stage::Ended(_, false)) {
                return Err(format!("{thread:?} failed, and no hub is broken"));
            }
        }
        Ok(())
    }

    /// All threads that run have ended. That this can be reached from each state says that a
    /// starved thread holds up no other.
    fn is_at_rest(&self, state: &State) -> bool {
        let mut threads = state.threads.iter();
        threads.all(|thread| thread.starved || matches!(thread.stage, Stage::Ended(..)))
    }
}

#[test]
fn starved_threads_delay_only_themselves() {
    for hubs in [
        [HubSet::BOTH, HubSet::BOTH, HubSet::BOTH],
        [HubSet::BOTH, HubSet::MM, HubSet::BOTH],
        [HubSet::MM, HubSet::BOTH, HubSet::BOTH],
    ] {
        let explored = explore(&Threads(hubs, Rules::Kept), MOST_STATES)
            .unwrap_or_else(|found| panic!("{} after {:?}", found.rule, found.steps));
        assert!(explored.at_rest > 0);
    }
}

fn broken_rule(rules: Rules) -> String {
    let threads = Threads([HubSet::BOTH; THREADS], rules);
    explore(&threads, MOST_STATES)
        .expect_err("all is well")
        .rule
}

#[test]
fn broken_rules_are_found() {
    let rule = broken_rule(Rules::ByPending);
    assert!(
        rule.contains("believes that its hubs have answered"),
        "{rule}"
    );
    assert_eq!(broken_rule(Rules::NoHelp), "nothing comes to rest");
}

/// A hub that has lost its state has nothing to flush, and answers no request of before.
#[test]
fn reset_ends_the_request_under_way() {
    let mut requests = FlushRequests::new();
    let ticket = requests.request(HubSet::BOTH, 3).unwrap();
    assert_eq!(requests.request(HubSet::MM, 4), None);
    assert_eq!(requests.progress(ticket), FlushProgress::Pending);
    requests.reset();
    assert_eq!(requests.progress(ticket), FlushProgress::Done);
    assert!(requests.request(HubSet::MM, 4).is_some());
}

/// A hub that did not answer in time is not given as much time again, until it answers.
#[test]
fn silent_hubs_are_not_waited_for() {
    use hw::flush::FLUSH_SPIN_US;
    let mut requests = FlushRequests::new();
    let first = requests.request(HubSet::BOTH, 3).unwrap();
    requests.acknowledge(HubKind::Gfx);
    assert_eq!(requests.expire(FLUSH_TIMEOUT_US - 1), HubSet::NONE);
    assert_eq!(requests.expire(FLUSH_TIMEOUT_US), HubSet::MM);
    assert_eq!(requests.progress(first), FlushProgress::Failed);
    let second = requests.request(HubSet::BOTH, 3).unwrap();
    // GFXHUB may still answer.
    assert_eq!(requests.expire(FLUSH_SPIN_US), HubSet::NONE);
    assert_eq!(requests.progress(second), FlushProgress::Pending);
    requests.acknowledge(HubKind::Gfx);
    assert_eq!(requests.expire(FLUSH_SPIN_US - 1), HubSet::NONE);
    // It is not reported again.
    assert_eq!(requests.expire(FLUSH_SPIN_US), HubSet::NONE);
    assert_eq!(requests.progress(second), FlushProgress::Failed);
    let third = requests.request(HubSet::BOTH, 3).unwrap();
    requests.acknowledge(HubKind::Mm);
    requests.acknowledge(HubKind::Gfx);
    assert_eq!(requests.progress(third), FlushProgress::Done);
    requests.request(HubSet::MM, 3).unwrap();
    assert_eq!(requests.expire(FLUSH_SPIN_US), HubSet::NONE);
    assert!(requests.pending().is_some());
}
