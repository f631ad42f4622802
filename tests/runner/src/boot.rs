// SPDX-License-Identifier: GPL-2.0
//! A boot of the plan: its guest, another guest for the remaining tests after a death, and the
//! verdict on each test.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::Result;
use regex::Regex;

use crate::guest::{self, Kernel, Outcome, Setup, Work};
use crate::log::{self, Finding, Rules};
use crate::machine::Machine;
use crate::notes::{note, Notes};
use crate::qemu::{suffix, Output};
use crate::report::Report;
use crate::selection::Step;
use crate::status::{at_work, split_output, End, Status};
use crate::sysroot::{random_word, text_of, Sysroot};
use crate::tally::Counts;
use crate::tap::{judge, Verdict};

/// How many lines are shown of the end of a failed test's output, and of the kernel's log.
const OUTPUT_LINES: usize = 25;
const LOG_LINES: usize = 15;
/// How many lines of the log check are shown, and how much of each.
const FINDINGS: usize = 30;
const FINDING_WIDTH: usize = 200;

/// Interval of the notes on a guest's progress.
const STEPS: Duration = Duration::from_secs(60);

/// The form in which the kselftest harness reports a failed expectation.
static HARNESS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^# +[a-z0-9_]+\.[ch]:[0-9]+:").unwrap());

/// Logs and results of a guest that ran.
#[derive(Debug, Default)]
pub struct Ran {
    pub status: Status,
    /// The output of each command that ended.
    pub outputs: Vec<(String, String)>,
    /// The output of one that did not.
    pub unfinished: String,
    pub console: String,
    pub findings: Vec<Finding>,
    /// Why it did not come to its end.
    pub why: Option<String>,
    pub again: Option<String>,
    /// The notes of the runner and of its scripts.
    pub notes: String,
    /// The folder of the logs.
    pub dir: PathBuf,
    pub seconds: u64,
}

/// Runs the guests of a boot.
pub trait Launch {
    /// Runs a guest with these commands.
    ///
    /// # Errors
    ///
    /// A signal ends the runner, or there is no place for logs.
    fn launch(&mut self, steps: &[Step]) -> Result<Ran>;
}

/// Runs a boot. A guest that dies in the middle is started again for the remaining tests.
///
/// # Errors
///
/// As of [`Launch::launch`].
pub fn run(
    label: &str,
    steps: &[Step],
    launch: &mut dyn Launch,
    report: &mut Report,
) -> Result<()> {
    let mut left = steps;
    while !left.is_empty() {
        let ran = launch.launch(left)?;
        if let Some(again) = &ran.again {
            report.again(format!("{label}: {again}"));
        }
        let (done, died) = tally_tests(label, left, &ran, report);
        left = &left[done.len()..];
        if ran.status.unload_failed() {
            let why = Vec::from_iter(ran.status.load_error());
            report.tally(&format!("{label}/unload"), Counts::FAILED, 0, &why);
        }
        tally_log(label, &ran, report);
        if let Some(why) = ran.why.as_ref().filter(|_| !died) {
            let lines: Vec<&str> = ran.notes.lines().collect();
            let end = lines[lines.len().saturating_sub(3)..].join("\n");
            let end = if end.is_empty() { why.clone() } else { end };
            let why = format!("{end} (logs: {})", ran.dir.display());
            report.tally(&format!("{label}/guest"), Counts::FAILED, 0, &[why]);
        }
        // No test of the plan began: another guest is of no use.
        if done.is_empty() {
            not_run(label, left, report);
            break;
        }
    }
    Ok(())
}

fn not_run(label: &str, left: &[Step], report: &mut Report) {
    if !left.is_empty() {
        let counts = Counts::new(0, left.len() as u64, 0);
        report.tally(&format!("{label}/rest"), counts, 0, &["not run".into()]);
    }
}

/// The verdicts on the tests that began. Returns these, and whether the guest died in the last.
fn tally_tests<'a>(
    label: &str,
    steps: &'a [Step],
    ran: &Ran,
    report: &mut Report,
) -> (&'a [Step], bool) {
    let status = &ran.status;
    for (n, Step { name, skips, .. }) in steps.iter().enumerate() {
        if !status.began(name) {
            return (&steps[..n], false);
        }
        let label = format!("{label}/{name}");
        match status.end(name) {
            None => {
                let why = ran.why.as_deref().unwrap_or_default();
                let why = format!("the guest did not survive this: {why}");
                report.tally(&label, Counts::FAILED, 0, &[why]);
                report.lines("    | ", tail(ran.unfinished.lines(), OUTPUT_LINES));
                let log = ran.console.lines().map(|line| line.trim_end_matches('\r'));
                report.lines("    log | ", tail(log, LOG_LINES));
                return (&steps[..=n], true);
            }
            Some(End::NotLoaded) => {
                let why = ran.status.load_error().unwrap_or_default();
                let why = format!("the module did not load: {why}");
                report.tally(&label, Counts::FAILED, 0, &[why]);
            }
            Some(End::Exit(code, seconds)) => {
                let output = ran.outputs.iter().find(|(of, _)| of == name);
                let output = output.map_or("", |(_, text)| text.as_str());
                let mut verdict = judge(output, code, status.ended(name).as_deref());
                if let Some(skips) = skips {
                    verdict.compare_skips(skips);
                }
                tally_output(report, &label, &verdict, output, seconds, OUTPUT_LINES);
                if !verdict.why.is_empty() {
                    report.lines("    log | ", tail(log_of(&ran.console, name), LOG_LINES));
                }
            }
        }
    }
    (steps, false)
}

/// Adds the line of a program. After a failure, the messages of its harness and the end of its
/// output follow.
pub fn tally_output(
    report: &mut Report,
    label: &str,
    verdict: &Verdict,
    output: &str,
    seconds: u64,
    lines: usize,
) {
    report.tally(label, verdict.counts, seconds, &verdict.why);
    if !verdict.why.is_empty() {
        let harness = output.lines().filter(|line| HARNESS.is_match(line));
        report.lines("    | ", harness.take(10));
        report.lines("    | ", tail(output.lines(), lines));
    }
}

/// The part of the kernel's log that a test is at.
fn log_of<'a>(console: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let mut is_its = false;
    let lines = console.lines().map(|line| line.trim_end_matches('\r'));
    lines.filter(move |line| {
        if line.contains("rkfd-run: begin ") {
            is_its = line.split_whitespace().next_back() == Some(name);
        }
        is_its
    })
}

fn tail<'a>(lines: impl Iterator<Item = &'a str>, count: usize) -> Vec<&'a str> {
    let lines: Vec<&str> = lines.collect();
    lines[lines.len().saturating_sub(count)..].to_vec()
}

fn tally_log(label: &str, ran: &Ran, report: &mut Report) {
    let findings = ran.findings.iter().take(FINDINGS);
    let lines = findings.map(|Finding { test, line }| {
        let line = format!("{test}\t{line}");
        line.chars().take(FINDING_WIDTH).collect()
    });
    let lines: Vec<String> = lines.collect();
    let counts = if lines.is_empty() {
        Counts::PASSED
    } else {
        Counts::FAILED
    };
    report.tally(&format!("{label}/log"), counts, ran.seconds, &lines);
}

/// The findings in the logs of a run. `is_usual` tells that a test which ends caused what it causes
/// when nothing shortens it.
pub fn check_logs(
    dir: &std::path::Path,
    machine: &Machine,
    rules: &Rules,
    is_usual: bool,
) -> Vec<Finding> {
    let status = Status::parse(&text_of(dir.join("status")));
    let lines = log::lines(&text_of(dir.join("console")), &status);
    let mut rules = rules.clone();
    rules.by_test.retain(|rule| rule.holds_for(machine.driver));
    let log::Checked {
        mut findings,
        times,
    } = log::check(lines.iter().map(String::as_str), &rules);
    let ends = |test: &str| matches!(status.end(test), Some(End::Exit(..)));
    findings.extend(log::miscounted(&times, &rules, |test| {
        is_usual && ends(test)
    }));
    // The numbers of plan.toml are written from this.
    let counted = times.iter().zip(&rules.by_test);
    let counted: Vec<String> = counted
        .filter(|(_, rule)| ends(&rule.test))
        .map(|(times, rule)| format!("{}\t{times}\t{}\n", rule.test, rule.line))
        .collect();
    // A folder that cannot be written to has failed the run before.
    let _ = fs::write(dir.join("allowed"), counted.concat());
    let models =
        (1..=machine.gpus).map(|gpu| text_of(dir.join(format!("model{}.err", suffix(gpu)))));
    let models: Vec<String> = models.collect();
    let amdgpu = dir.join("amdgpu").exists();
    findings.extend(log::check_rest(&models, status.taint(), amdgpu));
    if machine.hostile.is_some() {
        findings.extend((1..=machine.gpus).filter_map(|gpu| took_nothing(dir, gpu)));
    }
    findings
}

/// The finding about a hostile model that came to its end and took no freedom but at power-up.
fn took_nothing(dir: &std::path::Path, gpu: u32) -> Option<Finding> {
    let summary = text_of(dir.join(format!("summary{}.json", suffix(gpu))));
    summary.contains("\"hostile_idle\":true").then(|| Finding {
        test: "model".into(),
        line: "hostile: no freedom was taken".into(),
    })
}

/// Runs guests of a machine.
pub struct Launcher<'a> {
    pub places: &'a Sysroot,
    pub kernel: &'a Kernel,
    pub machine: &'a Machine,
    pub rules: &'a Rules,
    pub label: &'a str,
    /// When the runner was started.
    pub since: Instant,
}

impl Launcher<'_> {
    /// Whether nothing shortens the tests, or has the device behave in another way.
    fn is_usual(&self) -> bool {
        self.kernel.name == "stock" && self.machine.hostile.is_none()
    }
}

impl Launch for Launcher<'_> {
    fn launch(&mut self, steps: &[Step]) -> Result<Ran> {
        let start = Instant::now();
        let dir = self.places.run_dir()?;
        let mark = random_word()?;
        let notes_path = dir.join("vm.err");
        let notes = Notes::file(&notes_path)?;
        let setup = Setup {
            places: self.places,
            kernel: self.kernel,
            machine: self.machine,
            dir: &dir,
            work: Work::Plan {
                steps,
                mark: Some(&mark),
            },
            output: Output::File,
            notes: &notes,
        };
        let mut said = Instant::now();
        let mut tick = || {
            if said.elapsed() >= STEPS {
                said = Instant::now();
                let minutes = self.since.elapsed().as_secs() / 60;
                let (status, out) = (text_of(dir.join("status")), text_of(dir.join("out")));
                note(&format!(
                    "{} {minutes} min: {}",
                    self.label,
                    at_work(&status, &out)
                ));
            }
        };
        let outcome = guest::run(&setup, &mut tick).or_else(|error| {
            crate::process::check_interrupted()?;
            let why = format!("{error:#}");
            notes.note(&why);
            anyhow::Ok(Outcome {
                why: Some(why),
                again: None,
            })
        })?;
        let (outputs, unfinished) = split_output(&text_of(dir.join("out")), &mark);
        let results = dir.join("results");
        fs::create_dir_all(&results)?;
        for (name, text) in &outputs {
            fs::write(results.join(name), text)?;
        }
        fs::write(results.join("unfinished"), &unfinished)?;
        Ok(Ran {
            status: Status::parse(&text_of(dir.join("status"))),
            outputs,
            unfinished,
            console: text_of(dir.join("console")),
            findings: check_logs(&dir, self.machine, self.rules, self.is_usual()),
            why: outcome.why,
            again: outcome.again,
            notes: text_of(&notes_path),
            dir,
            seconds: start.elapsed().as_secs(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_model_that_takes_nothing_is_found() {
        let dir = std::env::temp_dir().join(format!("rkfd-hostile-{}", random_word().unwrap()));
        fs::create_dir(&dir).unwrap();
        // One that failed has no summary, and is found otherwise.
        assert!(took_nothing(&dir, 1).is_none());
        for (gpu, text, found) in [(1, "false", false), (2, "true", true)] {
            let file = dir.join(format!("summary{}.json", suffix(gpu)));
            fs::write(file, format!("{{\"hostile_idle\":{text}}}\n")).unwrap();
            assert_eq!(found, took_nothing(&dir, gpu).is_some());
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    /// Guests with prepared results, and the plan that each one got.
    struct Guests {
        guests: Vec<Ran>,
        plans: Vec<Vec<String>>,
    }

    impl Launch for Guests {
        fn launch(&mut self, steps: &[Step]) -> Result<Ran> {
            self.plans
                .push(steps.iter().map(|step| step.name.clone()).collect());
            Ok(self.guests.remove(0))
        }
    }

    fn ran(status: &str, why: Option<&str>) -> Ran {
        Ran {
            status: Status::parse(status),
            why: why.map(String::from),
            ..Ran::default()
        }
    }

    fn steps(names: &[&str]) -> Vec<Step> {
        let step = |name: &&str| Step {
            name: (*name).into(),
            params: "-".into(),
            silence: 300,
            command: "true".into(),
            skips: None,
        };
        names.iter().map(step).collect()
    }

    /// Runs a boot of a, b, c; returns the plans of its guests and the report.
    fn boot(guests: Vec<Ran>) -> (Vec<String>, String, String) {
        let mut guests = Guests {
            guests,
            plans: Vec::new(),
        };
        let mut report = Report::default();
        run(
            "guest/x",
            &steps(&["a", "b", "c"]),
            &mut guests,
            &mut report,
        )
        .unwrap();
        assert!(guests.guests.is_empty(), "a guest has not run");
        let plans = guests.plans.iter().map(|plan| plan.join(" "));
        (plans.collect(), report.take_text(), report.summary())
    }

    fn last(summary: &str) -> &str {
        summary.lines().last().unwrap()
    }

    const ALL: &str = "begin a\nend a 0 1\nbegin b\nend b 0 7\nbegin c\nend c 0 1\n\
                       begin unload\nend unload 0\n@@end\n";

    #[test]
    fn a_guest_that_goes_through_its_plan() {
        let (plans, text, summary) = boot(vec![ran(ALL, None)]);
        assert_eq!(["a b c"], *plans);
        // Each test and the log.
        assert_eq!("4 passed, 0 failed\n", summary);
        assert!(text.contains("guest/x/b                             1 passed (7 s)\n"));
    }

    #[test]
    fn a_guest_that_dies_is_started_for_what_is_left() {
        let mut first = ran("begin a\nend a 0 1\nbegin b\n", Some("QEMU stopped"));
        first.unfinished = "some output\n".into();
        first.console = "a line\r\nanother\r\n".into();
        let second = ran("begin c\nend c 0 1\nend unload 0\n@@end\n", None);
        let (plans, text, summary) = boot(vec![first, second]);
        assert_eq!(["a b c", "c"], *plans);
        for line in [
            "    the guest did not survive this: QEMU stopped\n",
            "    | some output\n",
            "    log | another\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        // a, c, and the logs of both.
        assert_eq!("4 passed, 1 failed", last(&summary));
    }

    #[test]
    fn a_guest_that_dies_in_its_last_test_is_not_started_again() {
        let status = "begin a\nend a 0 1\nbegin b\nend b 0 1\nbegin c\n";
        let (plans, _, summary) = boot(vec![ran(status, Some("QEMU stopped"))]);
        assert_eq!(1, plans.len());
        assert_eq!("3 passed, 1 failed", last(&summary));
    }

    #[test]
    fn a_guest_that_dies_between_tests_is_started_again() {
        let first = ran("begin a\nend a 0 1\n", Some("no sign of life"));
        let second = ran("begin b\nend b 0 1\nbegin c\nend c 0 1\n@@end\n", None);
        let (plans, _, summary) = boot(vec![first, second]);
        assert_eq!(["a b c", "b c"], *plans);
        assert!(summary.contains("guest/x/guest: 1 failed: no sign of life (logs: "));
        assert_eq!("5 passed, 1 failed", last(&summary));
    }

    #[test]
    fn a_guest_that_begins_nothing_is_not_started_again() {
        let (plans, text, summary) = boot(vec![ran("", Some("the kernel panicked"))]);
        assert_eq!(1, plans.len());
        assert!(text.contains("guest/x/rest"));
        // The guest and its three tests; nothing is wrong with the log.
        assert_eq!("1 passed, 4 failed", last(&summary));
    }

    #[test]
    fn a_guest_that_only_unloads_is_not_started_for_ever() {
        let status = "begin unload\nend unload 0\n";
        let (plans, text, summary) = boot(vec![ran(status, Some("it hangs"))]);
        assert_eq!(1, plans.len());
        assert!(text.contains("guest/x/rest"));
        // The guest and its three tests; nothing is wrong with the log.
        assert_eq!("1 passed, 4 failed", last(&summary));
    }

    #[test]
    fn a_guest_that_fails_at_its_end_is_not_started_again() {
        let status = ALL.replace("@@end", "").replace("unload 0", "unload 1");
        let (plans, _, summary) = boot(vec![ran(&status, Some("it hangs"))]);
        assert_eq!(1, plans.len());
        assert!(summary.contains("guest/x/unload: 1 failed"));
        assert_eq!("4 passed, 2 failed", last(&summary));
    }

    #[test]
    fn a_guest_that_skips_its_plan_is_not_started_for_ever() {
        let (plans, _, summary) = boot(vec![ran("@@end\n", None)]);
        assert_eq!(1, plans.len());
        assert_eq!("1 passed, 3 failed", last(&summary));
    }

    #[test]
    fn a_module_that_does_not_load_fails_its_test_alone() {
        let status = ALL.replace("end b 0 7", "load no such device\nend b load 0");
        let (_, _, summary) = boot(vec![ran(&status, None)]);
        assert!(summary.contains("guest/x/b: 1 failed: the module did not load: no such device"));
        assert_eq!("3 passed, 1 failed", last(&summary));
    }

    #[test]
    fn a_failed_test_shows_its_output_and_its_log() {
        let mut guest = ran(ALL, None);
        let output = "# x.c:12:it:Expected 1 == 2\nmore\nnot ok 1 it\n1..1\n";
        guest.outputs = vec![("b".into(), output.into())];
        guest.console = "rkfd-run: begin a\nof a\nrkfd-run: begin b\r\nof b\r\n".into();
        let (_, text, summary) = boot(vec![guest]);
        let shown = "    not ok 1 it\n    | # x.c:12:it:Expected 1 == 2\n    \
                     | # x.c:12:it:Expected 1 == 2\n    | more\n    | not ok 1 it\n    | 1..1\n    \
                     log | rkfd-run: begin b\n    log | of b\n";
        assert!(text.contains(shown), "{text}");
        assert_eq!("3 passed, 1 failed", last(&summary));
    }

    #[test]
    fn findings_fail_the_log_of_a_boot() {
        let mut guest = ran(ALL, None);
        guest.findings = vec![Finding {
            test: "a".into(),
            line: "<3> something".into(),
        }];
        guest.again = Some("it stood still".into());
        let (_, text, summary) = boot(vec![guest]);
        assert!(text.starts_with("guest/x: it stood still\n"), "{text}");
        assert!(text.contains("\n    a\t<3> something\n"), "{text}");
        assert!(summary.contains("guest/x/log: 1 failed: a\t<3> something\n"));
        assert_eq!("3 passed, 1 failed", last(&summary));
    }
}
