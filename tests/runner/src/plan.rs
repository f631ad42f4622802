// SPDX-License-Identifier: GPL-2.0
//! The plan of `tests/guest/plan.toml`: boots, their tests, and the log lines that tests may cause.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{bail, Context, Result};
use serde::Deserialize;

use crate::allow::{AllowBlock, Allowed};
use crate::kernel::Set;
use crate::machine::Machine;
use crate::skip::Skips;

/// Where the plan is, below the checkout.
pub const FILE: &str = "tests/guest/plan.toml";

/// A checked plan: names are unique, references resolve, regular expressions compile.
#[derive(Debug)]
pub struct Plan {
    pub boots: Vec<Boot>,
    pub allowed: Vec<Allowed>,
    pub skips: Skips,
}

/// A guest of its own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boot {
    pub name: String,
    #[serde(default)]
    pub machine: Machine,
    /// The only kernel that runs it.
    pub kernel: Option<OnlyKernel>,
    pub set: Option<Set>,
    /// A boot above, whose tests follow those of this one.
    pub extends: Option<String>,
    /// The tests of the extended boot that this one does not get.
    #[serde(default)]
    pub except: Vec<String>,
    /// Parameters of the module for its own tests that say none.
    pub params: Option<String>,
    /// In a checked plan, those of the extended boot are among them.
    #[serde(default)]
    pub tests: Vec<Test>,
}

/// A kernel that a boot may be for alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnlyKernel {
    Stock,
    Debug,
}

/// A command that runs in a guest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    pub name: String,
    /// For the guest's shell.
    pub run: String,
    /// Parameters of the module, separated by blanks: `-` for the defaults, `nomod` for no module.
    pub params: Option<String>,
    /// Seconds without output after which the command hangs, if it is more than for every test.
    #[serde(default)]
    pub silence: u64,
    /// By kernel, the reason why it does not run the test.
    #[serde(default)]
    pub without: BTreeMap<String, String>,
}

impl Test {
    /// Parameters of the module, in a checked plan; the defaults otherwise.
    pub fn params(&self) -> &str {
        self.params.as_deref().unwrap_or("-")
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    boot: Vec<Boot>,
    #[serde(default)]
    allow: Vec<AllowBlock>,
}

impl OnlyKernel {
    pub fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Debug => "debug",
        }
    }
}

impl Plan {
    /// The plan of a checkout. `kernels` are the names by which a test can be excluded.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or [`Plan::parse`] or [`Skips::parse`] refuses it.
    pub fn read(top: &Path, kernels: &[&str]) -> Result<Self> {
        let path = top.join(FILE);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let mut plan = Self::parse(&text, kernels).with_context(|| format!("{FILE} is wrong"))?;
        plan.skips = Skips::read(top, &plan.boots)?;
        Ok(plan)
    }

    /// The plan that a text is, without skips.
    ///
    /// # Errors
    ///
    /// The text is no TOML, has an unknown key or a value of another type, or is no plan: a name
    /// is there twice or refers to nothing, or a regular expression is none.
    pub fn parse(text: &str, kernels: &[&str]) -> Result<Self> {
        let file: File = toml::from_str(text)?;
        let mut boots: Vec<Boot> = Vec::new();
        for mut boot in file.boot {
            let name = boot.name.clone();
            check_name(&name).with_context(|| format!("boot {name:?}"))?;
            if boots.iter().any(|b| b.name == name) {
                bail!("boot {name} is there twice");
            }
            for test in &mut boot.tests {
                test.params = test.params.take().or_else(|| boot.params.clone());
            }
            let inherited = inherited(&boot, &boots).with_context(|| format!("boot {name}"))?;
            boot.tests.extend(inherited);
            check_tests(&boot.tests, kernels).with_context(|| format!("boot {name}"))?;
            boots.push(boot);
        }
        let names: BTreeSet<&str> = boots
            .iter()
            .flat_map(|boot| boot.tests.iter().map(|test| test.name.as_str()))
            .collect();
        let mut allowed = Vec::new();
        for block in file.allow {
            allowed.extend(block.rules(|test| names.contains(test))?);
        }
        Ok(Self {
            boots,
            allowed,
            skips: Skips::default(),
        })
    }
}

/// The tests that a boot has from the one that it extends.
fn inherited(boot: &Boot, above: &[Boot]) -> Result<Vec<Test>> {
    let Some(extends) = &boot.extends else {
        if !boot.except.is_empty() {
            bail!("except is for a boot that extends another");
        }
        return Ok(Vec::new());
    };
    let Some(other) = above.iter().find(|b| &b.name == extends) else {
        bail!("there is no boot {extends} above it");
    };
    for name in &boot.except {
        if !other.tests.iter().any(|test| &test.name == name) {
            bail!("except: boot {extends} has no test {name}");
        }
    }
    let kept = other.tests.iter();
    let kept = kept.filter(|test| !boot.except.contains(&test.name));
    Ok(kept.cloned().collect())
}

fn check_tests(tests: &[Test], kernels: &[&str]) -> Result<()> {
    let mut names = BTreeSet::new();
    for test in tests {
        let name = &test.name;
        check_name(name).with_context(|| format!("test {name:?}"))?;
        if !names.insert(name) {
            bail!("test {name} is there twice");
        }
        // The guest's plan has a line for each test, whose parts are separated by tabs.
        for (key, text) in [("run", test.run.as_str()), ("params", test.params())] {
            if text.trim().is_empty() || text.contains(['\t', '\n']) {
                bail!("test {name}: {key} is empty, or has a tab or a line break");
            }
        }
        for kernel in test.without.keys() {
            if !kernels.contains(&kernel.as_str()) {
                bail!("test {name}: without: there is no kernel {kernel}");
            }
        }
    }
    Ok(())
}

/// Names are words of file names, and of lines whose parts are separated by blanks.
fn check_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if name.is_empty() || !name.chars().all(good) {
        bail!("a name has letters, digits and dashes");
    }
    // The names of /init's own steps.
    if ["unload", "power-off"].contains(&name) {
        bail!("this name is a step of every guest");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Driver;

    const KERNELS: [&str; 3] = ["stock", "debug", "forky"];

    fn parse(text: &str) -> Result<Plan> {
        Plan::parse(text, &KERNELS)
    }

    fn error(text: &str) -> String {
        format!("{:#}", parse(text).unwrap_err())
    }

    const TWO: &str = r#"
        [[boot]]
        name = "first"
        machine = { iommu = true }
        tests = [
            { name = "a", run = "a" },
            { name = "b", run = "b", params = "x=1", silence = 400 },
            { name = "c", run = "c", without = { debug = "no c" } },
        ]
        [[boot]]
        name = "second"
        extends = "first"
        except = ["b"]
        tests = [{ name = "d", run = "d" }]
    "#;

    #[test]
    fn a_boot_has_parameters_for_its_tests() {
        let plan = parse(
            r#"
            [[boot]]
            name = "first"
            params = "y=2"
            tests = [{ name = "a", run = "a" }, { name = "b", run = "b", params = "x=1" }]
            [[boot]]
            name = "second"
            extends = "first"
            params = "z=3"
            tests = [{ name = "c", run = "c" }]
            "#,
        )
        .unwrap();
        let params = |boot: &Boot| -> Vec<String> {
            boot.tests.iter().map(|test| test.params().into()).collect()
        };
        assert_eq!(params(&plan.boots[0]), ["y=2", "x=1"]);
        assert_eq!(params(&plan.boots[1]), ["z=3", "y=2", "x=1"]);
    }

    fn names(boot: &Boot) -> Vec<&str> {
        boot.tests.iter().map(|test| test.name.as_str()).collect()
    }

    #[test]
    fn this_tree_has_a_sound_plan() {
        let plan = include_str!("../../guest/plan.toml");
        let plan = Plan::parse(plan, &kernels()).unwrap();
        assert!(plan.boots.len() > 50);
        let skips = Skips::parse(include_str!("../../guest/skips.toml"), &plan.boots).unwrap();
        assert!(!skips.is_empty());
    }

    /// The kernels of this tree: those of scripts/test, with the suites of scripts/lib.sh.
    fn kernels() -> Vec<&'static str> {
        let script = include_str!("../../../scripts/lib.sh");
        let suites = script
            .lines()
            .find_map(|line| line.strip_prefix("SUITES='"));
        let suites = suites.unwrap().trim_end_matches('\'').split(' ');
        let own = ["stock", "debug", "trixie-backports"];
        own.into_iter().chain(suites).collect()
    }

    #[test]
    fn a_test_of_this_tree_can_exclude_a_suite() {
        assert!(kernels().contains(&"forky"));
        let text = "[[boot]]\nname = \"x\"\n\
                    tests = [{ name = \"a\", run = \"b\", without = { forky = \"new\" } }]";
        Plan::parse(text, &kernels()).unwrap();
    }

    #[test]
    fn an_allow_that_allows_nothing_is_refused() {
        for (tests, lines) in [("", "\"x\""), ("\"a\"", "")] {
            let allow = format!("[[allow]]\ntests = [{tests}]\nlines = [{lines}]");
            let error = error(&format!("{TWO}{allow}"));
            assert!(error.contains("no tests or no lines"), "{error}");
        }
    }

    #[test]
    fn tests_of_the_extended_boot_follow() {
        let plan = parse(TWO).unwrap();
        assert_eq!(["d", "a", "c"], *names(&plan.boots[1]));
        assert_eq!(plan.boots[0].tests[2], plan.boots[1].tests[2]);
        // Of the machine nothing is inherited.
        assert!(plan.boots[0].machine.iommu && !plan.boots[1].machine.iommu);
    }

    #[test]
    fn an_extended_boot_can_be_extended() {
        let third = "[[boot]]\nname = \"third\"\nextends = \"second\"";
        let plan = parse(&format!("{TWO}{third}")).unwrap();
        assert_eq!(["d", "a", "c"], *names(&plan.boots[2]));
    }

    #[test]
    fn tests_have_defaults() {
        let plan = parse(TWO).unwrap();
        let test = &plan.boots[0].tests[0];
        assert_eq!(("-", 0), (test.params(), test.silence));
    }

    #[test]
    fn unknown_keys_are_refused() {
        for (text, key) in [
            ("[[boots]]\nname = \"a\"", "boots"),
            ("[[boot]]\nname = \"a\"\nmemory = \"4G\"", "memory"),
            ("[[boot]]\nname = \"a\"\nmachine = { gpu = 2 }", "gpu"),
            (
                "[[boot]]\nname = \"a\"\ntests = [{ name = \"t\", run = \"t\", on = 1 }]",
                "on",
            ),
            ("[[allow]]\ntests = []\nlines = []\nline = \"x\"", "line"),
        ] {
            let error = error(text);
            assert!(error.contains(&format!("unknown field `{key}`")), "{error}");
            assert!(error.contains("line "), "{error}");
        }
    }

    #[test]
    fn values_of_another_kind_are_refused() {
        for machine in [
            "memory = 4",
            "memory = \"4\"",
            "gpus = -1",
            "iommu = \"yes\"",
            "driver = \"radeon\"",
        ] {
            error(&format!(
                "[[boot]]\nname = \"a\"\nmachine = {{ {machine} }}"
            ));
        }
        error("[[boot]]\nname = \"a\"\nset = \"short\"");
        error("[[boot]]\nname = \"a\"\nkernel = \"forky\"");
    }

    #[test]
    fn references_to_nothing_are_refused() {
        for (more, what) in [
            ("[[boot]]\nname = \"x\"\nextends = \"y\"", "no boot y above"),
            ("[[boot]]\nname = \"x\"\nextends = \"x\"", "no boot x above"),
            (
                "[[boot]]\nname = \"x\"\nextends = \"first\"\nexcept = [\"z\"]",
                "has no test z",
            ),
            (
                "[[boot]]\nname = \"x\"\nexcept = [\"z\"]",
                "extends another",
            ),
            (
                "[[allow]]\ntests = [\"z\"]\nlines = [\"x\"]",
                "no boot has a test z",
            ),
            ("[[allow]]\ntests = [\"a\"]\nlines = [\"(\"]", "allow for a"),
        ] {
            let error = error(&format!("{TWO}{more}"));
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn names_are_unique_and_plain() {
        let test = |name: &str| format!("{{ name = \"{name}\", run = \"x\" }}");
        let boot = |tests: &str| format!("[[boot]]\nname = \"x\"\ntests = [{tests}]\n");
        assert!(error(&boot(&format!("{}, {}", test("a"), test("a")))).contains("test a is there"));
        assert!(error(&boot("").repeat(2)).contains("boot x is there twice"));
        let own = "[[boot]]\nname = \"x\"\nextends = \"first\"\ntests = [";
        let error_text = error(&format!("{TWO}{own}{}]", test("a")));
        assert!(error_text.contains("test a is there twice"), "{error_text}");
        for name in ["", "a b", "a/b", "a.b", "unload"] {
            error(&boot(&test(name)));
        }
    }

    #[test]
    fn commands_are_one_line() {
        error("[[boot]]\nname = \"x\"\ntests = [{ name = \"a\", run = \"b\\nc\" }]");
        error("[[boot]]\nname = \"x\"\ntests = [{ name = \"a\", run = \"b\", params = \"\" }]");
        error("[[boot]]\nname = \"x\"\ntests = [{ name = \"a\", run = \" \" }]");
    }

    #[test]
    fn rules_of_a_driver_hold_for_it_alone() {
        let holds = |driver: &str| {
            let allow = format!("[[allow]]\n{driver}\ntests = [\"a\"]\nlines = [\"x\"]");
            let plan = parse(&format!("{TWO}{allow}")).unwrap();
            let drivers = [Driver::Rkfd, Driver::Amdgpu, Driver::Both];
            drivers.map(|driver| plan.allowed[0].holds_for(driver))
        };
        assert_eq!([true, true, true], holds(""));
        assert_eq!([true, false, true], holds("driver = \"rkfd\""));
        assert_eq!([false, true, true], holds("driver = \"amdgpu\""));
    }

    #[test]
    fn exclusions_name_kernels() {
        let text = "[[boot]]\nname = \"x\"\n\
                    tests = [{ name = \"a\", run = \"b\", without = { woody = \"old\" } }]";
        assert!(error(text).contains("there is no kernel woody"));
    }
}
