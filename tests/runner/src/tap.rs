// SPDX-License-Identifier: GPL-2.0
//! The results of a test program, which prints TAP.

use std::sync::LazyLock;

use regex::Regex;

use crate::skip::Cases;
use crate::tally::Counts;

/// Exit status of a program that skips itself, by the convention of kselftest.
const SKIP: i32 = 4;
/// Exit status of a program that was killed: 128 + SIGKILL.
const KILLED: i32 = 137;

static PLAN: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^1\.\.([0-9]+)").unwrap());
static RESULT: LazyLock<Regex> = LazyLock::new(|| Regex::new("^(not )?ok [0-9]+").unwrap());
static SKIPPED: LazyLock<Regex> = LazyLock::new(|| Regex::new("# *SKIP").unwrap());
static TODO: LazyLock<Regex> = LazyLock::new(|| Regex::new("# *(TODO|SKIP)").unwrap());
static CASE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("^(?:not )?ok [0-9]+ *(?:- +)?(.*?) *# *(?:TODO|SKIP) *(.*)$").unwrap()
});

/// The verdict on one test program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub counts: Counts,
    /// The failures, a line each.
    pub why: Vec<String>,
    /// The cases that were skipped, and why.
    pub skipped: Cases,
}

impl Verdict {
    fn fail(&mut self, count: u64, why: String) {
        self.counts.failed += count;
        self.why.push(why);
    }

    /// Compares the cases that the program skipped with those that were expected. Each one that is
    /// too many, or skipped for another reason, is a failure. So is each that was not skipped,
    /// unless the program failed.
    pub fn compare_skips(&mut self, expected: &Cases) {
        let had_failed = self.counts.failed > 0;
        let skipped = std::mem::take(&mut self.skipped);
        for (case, why) in &skipped {
            if expected.get(case) != Some(why) {
                self.fail(1, format!("no skip is expected of {case}: {why}"));
            }
        }
        if had_failed {
            return;
        }
        for (case, why) in expected {
            if !skipped.contains_key(case) {
                self.fail(1, format!("{case} is expected to be skipped: {why}"));
            }
        }
    }
}

/// The case that a line reports as skipped, and why.
fn skipped_case(line: &str) -> Option<(String, String)> {
    let found = CASE.captures(line)?;
    Some((found[1].into(), found[2].into()))
}

/// Judges the output of a program by its exit status and, if the guest ended it, the reason.
///
/// A plan that was not kept, a bad exit status and results without a plan are failures. So is a
/// program that skips itself as a whole: the device is known to be there.
pub fn judge(output: &str, status: i32, ended: Option<&str>) -> Verdict {
    let mut verdict = Verdict::default();
    let mut plan: Option<u64> = None;
    let mut skip_all = false;
    let mut bailed = false;
    for line in output.lines() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if let Some(found) = PLAN.captures(line) {
            plan = Some(found[1].parse().unwrap_or(u64::MAX));
            skip_all |= SKIPPED.is_match(line);
        } else if line.starts_with("Bail out!") {
            bailed = true;
            verdict.why.push(line.into());
        } else if let Some(found) = RESULT.captures(line) {
            verdict.skipped.extend(skipped_case(line));
            let counts = &mut verdict.counts;
            if found.get(1).is_none() {
                if SKIPPED.is_match(line) {
                    counts.skipped += 1;
                } else {
                    counts.passed += 1;
                }
            } else if TODO.is_match(line) {
                counts.skipped += 1;
            } else {
                verdict.fail(1, line.into());
            }
        }
    }

    let counts = verdict.counts;
    let seen = counts.passed + counts.failed + counts.skipped;
    if bailed || ended.is_some() {
        verdict.counts.failed += 1;
        verdict.why.extend(ended.map(String::from));
    } else if skip_all || (status == SKIP && seen == 0) || (seen > 0 && seen == counts.skipped) {
        verdict.fail(1, "skipped as a whole".into());
    } else if status != 0 && counts.failed == 0 {
        verdict.fail(1, bad_status(status));
    } else {
        match plan {
            Some(plan) if seen < plan => {
                let missing = plan - seen;
                verdict.fail(missing, format!("{missing} of {plan} results are missing"));
            }
            Some(plan) if seen > plan || plan == 0 => {
                verdict.fail(1, format!("{seen} results, and a plan of {plan}"));
            }
            Some(_) => {}
            None if seen > 0 => verdict.fail(1, "results without a plan".into()),
            // A program without TAP is one test.
            None => verdict.counts.passed += 1,
        }
    }
    verdict
}

fn bad_status(status: i32) -> String {
    if status == KILLED {
        "killed: the guest was out of memory".into()
    } else {
        format!("exit status {status}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(output: &str, status: i32, counts: (u64, u64, u64), why: &[&str]) {
        let verdict = judge(output, status, None);
        let Counts {
            passed,
            failed,
            skipped,
        } = verdict.counts;
        assert_eq!(counts, (passed, failed, skipped), "{output:?}");
        assert_eq!(why, verdict.why, "{output:?}");
    }

    #[test]
    fn a_kept_plan() {
        check("TAP version 13\n1..2\nok 1 a\nok 2 b\n", 0, (2, 0, 0), &[]);
        check("1..2\r\nok 1 a\r\nok 2 b # SKIP no\r\n", 0, (1, 0, 1), &[]);
        // The plan may come last.
        check("ok 1 a\nok 2 b\n1..2\n", 0, (2, 0, 0), &[]);
    }

    #[test]
    fn failures_name_their_lines() {
        check(
            "1..3\nok 1 a\nnot ok 2 b\nnot ok 3 c # TODO later\n",
            1,
            (1, 1, 1),
            &["not ok 2 b"],
        );
    }

    #[test]
    fn results_that_are_missing_each_fail() {
        check(
            "1..4\nok 1 a\n",
            0,
            (1, 3, 0),
            &["3 of 4 results are missing"],
        );
        check("1..2\n", 0, (0, 2, 0), &["2 of 2 results are missing"]);
        // The status alone says that it was cut off.
        check("1..4\nok 1 a\n", 139, (1, 1, 0), &["exit status 139"]);
    }

    #[test]
    fn more_results_than_planned_fail() {
        check(
            "1..1\nok 1\nok 2\n",
            0,
            (2, 1, 0),
            &["2 results, and a plan of 1"],
        );
        check("1..0\n", 0, (0, 1, 0), &["0 results, and a plan of 0"]);
        check("ok 1\n", 0, (1, 1, 0), &["results without a plan"]);
    }

    #[test]
    fn a_program_that_skips_itself_fails() {
        let why = ["skipped as a whole"];
        check("1..0 # SKIP no device\n", 0, (0, 1, 0), &why);
        check("no device\n", 4, (0, 1, 0), &why);
        check("1..2\nok 1 # SKIP x\nok 2 #SKIP y\n", 0, (0, 1, 2), &why);
        // Status 4 with results is a bad status.
        check("1..1\nok 1 a\n", 4, (1, 1, 0), &["exit status 4"]);
    }

    #[test]
    fn a_program_without_tap_is_one_test() {
        check("", 0, (1, 0, 0), &[]);
        check("okay\nnot okay\n", 0, (1, 0, 0), &[]);
        check("hello\n", 1, (0, 1, 0), &["exit status 1"]);
        check("", 137, (0, 1, 0), &["killed: the guest was out of memory"]);
    }

    #[test]
    fn a_bad_status_beside_failures_is_theirs() {
        check("1..1\nnot ok 1 a\n", 1, (0, 1, 0), &["not ok 1 a"]);
        // Missing results count besides.
        check(
            "1..2\nnot ok 1 a\n",
            1,
            (0, 2, 0),
            &["not ok 1 a", "1 of 2 results are missing"],
        );
    }

    #[test]
    fn bailing_out_is_a_failure() {
        check(
            "1..5\nok 1 a\nBail out! no GPU\n",
            1,
            (1, 1, 0),
            &["Bail out! no GPU"],
        );
    }

    #[test]
    fn a_program_that_was_ended_says_why() {
        let why = "ended: silent for 300 s, 420 s in all";
        let verdict = judge("1..3\nok 1 a\nnot ok 2 b\n", KILLED, Some(why));
        assert_eq!((1, 2), (verdict.counts.passed, verdict.counts.failed));
        assert_eq!(vec!["not ok 2 b", why], verdict.why);
    }

    /// What is wrong with the skips of an output, of which `a` is expected.
    fn skips(output: &str, status: i32) -> Vec<String> {
        let expected = Cases::from([("a".into(), "no swap".into())]);
        let mut verdict = judge(output, status, None);
        let failed = verdict.counts.failed;
        verdict.compare_skips(&expected);
        let more = verdict.counts.failed - failed;
        verdict.why.split_off(verdict.why.len() - more as usize)
    }

    #[test]
    fn expected_skips_are_none_too_many_and_none_too_few() {
        assert!(skips("1..2\r\nok 1 a # SKIP no swap\r\nok 2 b\r\n", 0).is_empty());
        assert!(skips("1..2\nok 1 - a # SKIP no swap\nok 2 - b\n", 0).is_empty());
        assert_eq!(
            ["a is expected to be skipped: no swap"],
            *skips("1..1\nok 1 a\n", 0)
        );
        assert_eq!(
            ["no skip is expected of b c: old"],
            *skips(
                "1..3\nok 1 a # SKIP no swap\nok 2 b c # SKIP old\nok 3 d\n",
                0
            )
        );
        // For another reason than the one that is known.
        assert_eq!(
            ["no skip is expected of a: no GPU"],
            *skips("1..2\nok 1 a # SKIP no GPU\nok 2 b\n", 0)
        );
        // A program that fails may not have come to it.
        assert!(skips("1..2\nok 1 b\n", 139).is_empty());
    }
}
