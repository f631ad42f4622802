// SPDX-License-Identifier: GPL-2.0
//! Exploration of all interleavings of a small model, breadth first.

use std::collections::hash_map::{Entry, HashMap};
use std::fmt::{self, Debug, Display};
use std::hash::Hash;
use std::rc::Rc;

/// A model: states, and the steps between them.
pub trait Model {
    /// A state of everything.
    type State: Clone + Debug + Eq + Hash;
    /// The name of a step.
    type Step: Copy + Debug;

    /// The state that it all begins with.
    fn start(&self) -> Self::State;

    /// All steps that are possible in `state`, with the states after them.
    fn steps(&self, state: &Self::State) -> Vec<(Self::Step, Self::State)>;

    /// Checks what must hold in each state.
    ///
    /// # Errors
    ///
    /// The rule that is broken.
    fn check(&self, state: &Self::State) -> Result<(), String>;

    /// Whether nothing is under way in `state`. From each state one like that can be reached.
    fn is_at_rest(&self, state: &Self::State) -> bool;
}

/// What was explored.
#[derive(Clone, Copy, Debug)]
pub struct Explored {
    /// How many states there are.
    pub states: usize,
    /// How many of them are at rest.
    pub at_rest: usize,
}

/// A shortest way to a state that must not be.
#[derive(Debug)]
pub struct Counterexample<M: Model> {
    /// The rule that is broken there.
    pub rule: String,
    /// The steps that lead there.
    pub steps: Vec<M::Step>,
    /// The state.
    pub state: M::State,
}

impl<M: Model> Display for Counterexample<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:", self.rule)?;
        for step in &self.steps {
            writeln!(f, "{step:?}")?;
        }
        write!(f, "{:?}", self.state)
    }
}

/// The states found so far, by number.
struct Found<M: Model> {
    numbers: HashMap<Rc<M::State>, usize>,
    states: Vec<Rc<M::State>>,
    /// The state and the step that each was found from, but for the first.
    from: Vec<Option<(usize, M::Step)>>,
    /// The states that lead to each.
    before: Vec<Vec<usize>>,
}

impl<M: Model> Found<M> {
    fn add(&mut self, state: M::State, from: Option<(usize, M::Step)>) -> usize {
        let state = Rc::new(state);
        let number = match self.numbers.entry(state.clone()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                self.states.push(state);
                self.from.push(from);
                self.before.push(Vec::new());
                *new.insert(self.states.len() - 1)
            }
        };
        self.before[number].extend(from.map(|(before, _)| before));
        number
    }

    fn counterexample(&self, rule: String, number: usize) -> Counterexample<M> {
        let mut steps = Vec::new();
        let mut at = number;
        while let Some((before, step)) = self.from[at] {
            steps.push(step);
            at = before;
        }
        steps.reverse();
        let state = M::State::clone(&self.states[number]);
        Counterexample { rule, steps, state }
    }
}

/// Explores all states of `model`, of which there are at most `most`.
///
/// # Errors
///
/// A shortest way to a state that breaks a rule, or from which nothing comes to rest.
///
/// # Panics
///
/// If there are more than `most` states.
pub fn explore<M: Model>(model: &M, most: usize) -> Result<Explored, Counterexample<M>> {
    let mut found: Found<M> = Found {
        numbers: HashMap::new(),
        states: Vec::new(),
        from: Vec::new(),
        before: Vec::new(),
    };
    found.add(model.start(), None);
    let mut next = 0;
    while let Some(state) = found.states.get(next).cloned() {
        if let Err(rule) = model.check(&state) {
            return Err(found.counterexample(rule, next));
        }
        for (step, after) in model.steps(&state) {
            found.add(after, Some((next, step)));
        }
        next += 1;
        assert!(next <= most, "more than {most} states");
    }
    let mut rests = vec![false; next];
    let mut open: Vec<usize> = (0..next)
        .filter(|&number| model.is_at_rest(&found.states[number]))
        .collect();
    let at_rest = open.len();
    while let Some(number) = open.pop() {
        if !std::mem::replace(&mut rests[number], true) {
            open.extend(&found.before[number]);
        }
    }
    match rests.iter().position(|rests| !rests) {
        Some(number) => Err(found.counterexample("nothing comes to rest".into(), number)),
        None => Ok(Explored {
            states: next,
            at_rest,
        }),
    }
}

/// Explores a model that breaks no rule, and prints how large it is. Panics if it breaks one.
pub fn show<M: Model>(model: &M, most_states: usize) -> Explored {
    match explore(model, most_states) {
        Ok(explored) => {
            println!("{explored:?}");
            explored
        }
        Err(found) => panic!("{found}"),
    }
}
