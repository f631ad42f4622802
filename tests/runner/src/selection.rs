// SPDX-License-Identifier: GPL-2.0
//! The boots and tests of the plan that a run has.

use std::collections::BTreeSet;

use anyhow::{bail, Result};

use crate::kernel::{Set, Target};
use crate::machine::Machine;
use crate::plan::{Boot, Plan, Test, FILE};
use crate::skip::Cases;

/// The contents of a run: boots with at least one test, and the tests that the kernel does not get.
#[derive(Debug, Default)]
pub struct Selection {
    pub boots: Vec<Chosen>,
    pub excluded: Vec<Excluded>,
}

/// A boot of a run.
#[derive(Clone, Debug)]
pub struct Chosen {
    pub name: String,
    pub machine: Machine,
    pub tests: Vec<Step>,
}

/// A test that this kernel does not get.
#[derive(Debug, PartialEq, Eq)]
pub struct Excluded {
    pub boot: String,
    pub test: String,
    pub why: String,
}

/// A line of the guest's own plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub name: String,
    pub params: String,
    /// Seconds without output after which it is ended.
    pub silence: u64,
    pub command: String,
    /// The cases that it skips on this kernel, if that is known.
    pub skips: Option<Cases>,
}

impl Step {
    fn new(test: &Test, target: &Target, skips: Option<Cases>) -> Self {
        // Without output for so long a command hangs, however busy the host is.
        let (silence, environment) = if target.is_debug() {
            (900, "export RKFD_QUICK=1 RKFD_TIMEOUT=300; ")
        } else {
            (300, "")
        };
        Self {
            name: test.name.clone(),
            params: test.params().into(),
            silence: silence.max(test.silence),
            command: format!("{environment}{}", test.run),
            skips,
        }
    }

    /// The line, as /init reads it.
    pub fn line(&self) -> String {
        let Self {
            name,
            params,
            silence,
            command,
            ..
        } = self;
        format!("{name}\t{params}\t{silence}\t{command}\n")
    }
}

/// How many turns it takes `make test` to run all boots of the set `rotated`.
pub const TURNS: usize = 3;

impl Selection {
    /// The part of the plan for a kernel: the boots of the target's set, or with names those boots
    /// and tests (`BOOT`, `TEST` or `BOOT/TEST`). `TEST` finds boots of a set only if it is the
    /// target's. Of the boots that take turns every [`TURNS`]th one has the turn numbered `turn`;
    /// the debug kernel runs all of them that need no ROCm clients.
    ///
    /// # Errors
    ///
    /// A name stands for nothing that this kernel gets.
    pub fn new(plan: &Plan, target: &Target, names: &[String], turn: usize) -> Result<Self> {
        let mut selection = Self::default();
        let mut matched = BTreeSet::new();
        let mut waiting = turn % TURNS;
        for boot in &plan.boots {
            let mut is_its_turn = false;
            if boot.set == Some(Set::Rotated) {
                is_its_turn = match target.is_debug() {
                    true => boot.machine.suites.is_empty(),
                    false => waiting == 0,
                };
                waiting = waiting.checked_sub(1).unwrap_or(TURNS - 1);
            }
            let other_kernel = boot.kernel.is_some_and(|k| k.name() != target.kernel);
            if other_kernel || (names.is_empty() && !target.runs(boot.set, is_its_turn)) {
                continue;
            }
            let mut tests = Vec::new();
            for test in &boot.tests {
                if !names.is_empty() {
                    let Some(name) = names.iter().find(|n| stands_for(n, boot, test, target))
                    else {
                        continue;
                    };
                    matched.insert(name);
                }
                match test.without.get(target.exclusion()) {
                    Some(why) => selection.excluded.push(Excluded {
                        boot: boot.name.clone(),
                        test: test.name.clone(),
                        why: why.clone(),
                    }),
                    None => {
                        let skips = plan.skips.of(&boot.name, &test.name, target);
                        tests.push(Step::new(test, target, skips));
                    }
                }
            }
            if !tests.is_empty() {
                selection.boots.push(Chosen {
                    name: boot.name.clone(),
                    machine: boot.machine.clone(),
                    tests,
                });
            }
        }
        if let Some(name) = names.iter().find(|name| !matched.contains(name)) {
            bail!("{FILE} has no boot or test {name} that this kernel gets");
        }
        Ok(selection)
    }
}

/// Whether a name of the command line stands for a test. A bare test name leaves out boots that
/// extend others, and those of a set that the target is not for: most of their tests are those of
/// other boots again, and those of the set `long` take minutes.
fn stands_for(name: &str, boot: &Boot, test: &Test, target: &Target) -> bool {
    if name == boot.name {
        return true;
    }
    if let Some((of, name)) = name.split_once('/') {
        return of == boot.name && name == test.name;
    }
    let other_set = boot.set.is_some_and(|set| set != Set::Rotated) && boot.set != target.set;
    name == test.name && boot.extends.is_none() && !other_set
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
        [[boot]]
        name = "one"
        tests = [
            { name = "a", run = "a" },
            { name = "b", run = "b", silence = 400, without = { debug = "no b" } },
        ]
        [[boot]]
        name = "stock-only"
        kernel = "stock"
        machine = { suites = ["trixie"] }
        tests = [{ name = "a", run = "a" }]
        [[boot]]
        name = "long-one"
        set = "long"
        extends = "one"
        machine = { suites = ["forky"] }
        [[boot]]
        name = "long-two"
        set = "long"
        tests = [{ name = "a", run = "a" }]
        [[boot]]
        name = "turn-one"
        set = "rotated"
        tests = [{ name = "t", run = "t" }]
        [[boot]]
        name = "turn-two"
        set = "rotated"
        machine = { suites = ["forky"] }
        tests = [{ name = "t", run = "t" }]
        [[boot]]
        name = "kernels"
        set = "suites"
        tests = [{ name = "a", run = "a", params = "x=1 y=2" }]
    "#;

    /// No boot has this turn.
    const NO_TURN: usize = 2;

    fn select(word: &str, names: &[&str]) -> Result<Selection> {
        select_at(NO_TURN, word, names)
    }

    fn select_at(turn: usize, word: &str, names: &[&str]) -> Result<Selection> {
        let plan = Plan::parse(PLAN, &["stock", "debug"]).unwrap();
        let names: Vec<String> = names.iter().map(|n| (*n).into()).collect();
        Selection::new(&plan, &Target::new(word, "trixie"), &names, turn)
    }

    fn tests(word: &str, names: &[&str]) -> Vec<String> {
        tests_of(select(word, names).unwrap())
    }

    fn tests_of(selection: Selection) -> Vec<String> {
        let boots = selection.boots.iter();
        boots
            .flat_map(|boot| {
                boot.tests
                    .iter()
                    .map(|t| format!("{}/{}", boot.name, t.name))
            })
            .collect()
    }

    #[test]
    fn each_kernel_has_its_set() {
        assert_eq!(["one/a", "one/b", "stock-only/a"], *tests("stock", &[]));
        let turns = ["turn-one/t", "turn-two/t"];
        assert_eq!(["one/a", turns[0]], *tests("debug", &[]));
        assert_eq!(
            ["long-one/a", "long-one/b", "long-two/a", turns[0], turns[1]],
            *tests("long", &[])
        );
        assert_eq!(["kernels/a"], *tests("forky", &[]));
        assert_eq!(["kernels/a"], *tests("trixie-backports", &[]));
    }

    #[test]
    fn boots_take_turns() {
        let own = ["one/a", "one/b", "stock-only/a"];
        for (turn, boot) in [
            (0, Some("turn-one/t")),
            (1, Some("turn-two/t")),
            (2, None),
            (4, Some("turn-two/t")),
        ] {
            let all = tests_of(select_at(turn, "stock", &[]).unwrap());
            assert_eq!(boot, all.get(own.len()).map(String::as_str), "{turn}");
        }
        // By its name a boot runs at any turn, and a test of its as one of any boot.
        assert_eq!(["turn-one/t"], *tests("stock", &["turn-one"]));
        assert_eq!(["turn-one/t", "turn-two/t"], *tests("stock", &["t"]));
    }

    #[test]
    fn names_choose_boots_and_tests() {
        assert_eq!(["one/a", "stock-only/a"], *tests("stock", &["a"]));
        assert_eq!(["long-one/a", "long-one/b"], *tests("stock", &["long-one"]));
        assert_eq!(
            ["one/b", "kernels/a"],
            *tests("stock", &["one/b", "kernels"])
        );
        assert_eq!(["long-one/a"], *tests("stock", &["long-one/a"]));
        assert_eq!(["long-two/a"], *tests("stock", &["long-two/a"]));
        // With a suite's kernel its own boots have the name, too, and with "long" those of that
        // set.
        assert_eq!(["one/a", "kernels/a"], *tests("forky", &["a"]));
        let of_long = tests("long", &["a"]);
        assert_eq!(["one/a", "stock-only/a", "long-two/a"], *of_long);
    }

    #[test]
    fn a_name_that_stands_for_nothing_is_refused() {
        for (kernel, name) in [("stock", "c"), ("debug", "stock-only"), ("stock", "one/c")] {
            let error = select(kernel, &["a", name]).unwrap_err().to_string();
            assert!(
                error.contains(&format!("no boot or test {name} ")),
                "{error}"
            );
        }
    }

    #[test]
    fn excluded_tests_have_a_reason() {
        let selection = select("debug", &[]).unwrap();
        assert_eq!("no b", selection.excluded[0].why);
        assert!(select("stock", &[]).unwrap().excluded.is_empty());
        // A boot that has no other test does not start.
        let selection = select("debug", &["b"]).unwrap();
        assert!(selection.boots.is_empty());
    }

    #[test]
    fn the_debug_kernel_has_more_time() {
        let stock = &select("stock", &[]).unwrap().boots[0];
        assert_eq!((300, 400), (stock.tests[0].silence, stock.tests[1].silence));
        let debug = &select("debug", &[]).unwrap().boots[0].tests[0];
        assert_eq!(900, debug.silence);
        assert_eq!("export RKFD_QUICK=1 RKFD_TIMEOUT=300; a", debug.command);
    }

    #[test]
    fn lines_of_the_guest_have_tabs() {
        let step = &select("forky", &[]).unwrap().boots[0].tests[0];
        assert_eq!("a\tx=1 y=2\t300\ta\n", step.line());
    }
}
