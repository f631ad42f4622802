// SPDX-License-Identifier: GPL-2.0
//! The lines of the kernel's log that a test may cause, and how many of each (`[[allow]]` of
//! `tests/guest/plan.toml`).

use std::ops::RangeInclusive;

use anyhow::{bail, Context, Result};
use regex::Regex;
use serde::Deserialize;

use crate::machine::Driver;

/// How many lines of a kind a run of a test may cause where the plan says no number.
const MOST: u32 = 10;

/// A driver that a rule may be for alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnlyDriver {
    Rkfd,
    Amdgpu,
}

impl OnlyDriver {
    /// Whether a guest with these drivers has this one.
    fn is_of(self, drivers: Driver) -> bool {
        match self {
            Self::Rkfd => drivers != Driver::Amdgpu,
            Self::Amdgpu => drivers != Driver::Rkfd,
        }
    }
}

/// A line of the kernel's log that a test may cause.
#[derive(Clone, Debug)]
pub struct Allowed {
    pub test: String,
    /// The only driver in whose guests the test may cause it.
    pub driver: Option<OnlyDriver>,
    pub line: Regex,
    /// How many times a run of the test causes it.
    pub times: RangeInclusive<u32>,
}

impl Allowed {
    /// Whether the rule holds in guests with these drivers.
    pub fn holds_for(&self, drivers: Driver) -> bool {
        self.driver.is_none_or(|driver| driver.is_of(drivers))
    }
}

/// A block of the plan.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowBlock {
    tests: Vec<String>,
    lines: Vec<AllowLine>,
    driver: Option<OnlyDriver>,
    /// For its lines that say no number.
    #[serde(default)]
    least: u32,
    most: Option<u32>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum AllowLine {
    Plain(String),
    Counted(CountedLine),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CountedLine {
    line: String,
    least: Option<u32>,
    most: Option<u32>,
}

impl AllowBlock {
    /// The rules of the block, for tests of which `is_test` knows.
    ///
    /// # Errors
    ///
    /// It has no tests or no lines, a test is none, a line is no regular expression, or its least
    /// number is more than its most.
    pub fn rules(self, is_test: impl Fn(&str) -> bool) -> Result<Vec<Allowed>> {
        if self.tests.is_empty() || self.lines.is_empty() {
            let of = self.tests.join(", ");
            bail!("allow for [{of}]: it has no tests or no lines");
        }
        let mut rules = Vec::new();
        for test in &self.tests {
            if !is_test(test) {
                bail!("allow: no boot has a test {test}");
            }
            for line in &self.lines {
                let (line, least, most) = match line {
                    AllowLine::Plain(line) => (line, None, None),
                    AllowLine::Counted(of) => (&of.line, of.least, of.most),
                };
                let least = least.unwrap_or(self.least);
                let most = most.or(self.most).unwrap_or(MOST.max(least));
                if least > most || most == 0 {
                    bail!("allow for {test}: {line:?}: between {least} and {most} times");
                }
                rules.push(Allowed {
                    test: test.clone(),
                    driver: self.driver,
                    line: Regex::new(line)
                        .with_context(|| format!("allow for {test}: {line:?}"))?,
                    times: least..=most,
                });
            }
        }
        Ok(rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Result<Vec<Allowed>> {
        let block: AllowBlock = toml::from_str(text)?;
        block.rules(|test| test == "a" || test == "b")
    }

    #[test]
    fn lines_have_numbers_of_their_own_or_of_the_block() {
        let text = "least = 1\nmost = 3\ntests = ['a', 'b']\n\
                    lines = ['x', { line = 'y', least = 0, most = 2 }, { line = 'z', least = 2 }]";
        let times: Vec<_> = rules(text).unwrap().into_iter().map(|r| r.times).collect();
        assert_eq!([1..=3, 0..=2, 2..=3, 1..=3, 0..=2, 2..=3], *times);
        let plain = rules("tests = ['a']\nlines = ['x', { line = 'y', least = 20 }]").unwrap();
        assert_eq!(
            (0..=MOST, 20..=20),
            (plain[0].times.clone(), plain[1].times.clone())
        );
    }

    #[test]
    fn numbers_that_no_run_can_have_are_refused() {
        for line in [
            "{ line = 'x', least = 3, most = 2 }",
            "{ line = 'x', most = 0 }",
            "{ line = 'x', least = -1 }",
            "{ line = 'x', times = 1 }",
        ] {
            assert!(
                rules(&format!("tests = ['a']\nlines = [{line}]")).is_err(),
                "{line}"
            );
        }
    }
}
