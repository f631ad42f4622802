// SPDX-License-Identifier: GPL-2.0
//! The tests that need no guest: the host crates' own, and the checks of the sources.

use std::time::Instant;

use anyhow::Result;

use crate::boot::tally_output;
use crate::process::run_to_end;
use crate::report::Report;
use crate::sysroot::Sysroot;
use crate::tally::Counts;
use crate::tap::judge;

/// How many lines of a failure are shown.
const LINES: usize = 60;

/// Runs both, one after the other. Drivers and tests in guests have time limits, which these tests
/// lack: guests come first.
///
/// # Errors
///
/// One cannot be started, or a signal ends the runner.
pub fn run(places: &Sysroot, report: &mut Report) -> Result<()> {
    let start = Instant::now();
    let mut cargo = places.patient_script("cargo");
    cargo.args(["test", "--workspace", "--no-fail-fast", "-q"]);
    let (status, output) = run_to_end(&mut cargo)?;
    tally_cargo(report, status, &output, start.elapsed().as_secs());

    let start = Instant::now();
    let (status, output) = run_to_end(&mut places.patient_script("check"))?;
    let verdict = judge(&output, status, None);
    let seconds = start.elapsed().as_secs();
    tally_output(report, "host/check", &verdict, &output, seconds, LINES);
    Ok(())
}

fn tally_cargo(report: &mut Report, status: i32, output: &str, seconds: u64) {
    let mut counts = cargo_counts(output);
    if status != 0 && counts.failed == 0 {
        // Something does not even compile.
        counts.failed = 1;
    }
    let lines: Vec<&str> = output.lines().collect();
    if status != 0 {
        let noise = |line: &&str| {
            line.is_empty() || line.starts_with("test result: ok") || line.starts_with("running")
        };
        let shown: Vec<&str> = lines.iter().copied().filter(|line| !noise(line)).collect();
        report.lines(
            "",
            shown[shown.len().saturating_sub(LINES)..].iter().copied(),
        );
    }
    let mut why: Vec<String> = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        if line.contains(" panicked at ") || line.starts_with("error") {
            let lines = lines[n..].iter().take(2);
            why.extend(lines.map(|line| line.chars().take(200).collect()));
        }
    }
    why.truncate(20);
    report.tally("host/cargo", counts, seconds, &why);
}

/// The sum of cargo's own tallies. What they call ignored are measurements, which are no tests.
fn cargo_counts(output: &str) -> Counts {
    let mut counts = Counts::default();
    for line in output
        .lines()
        .filter(|line| line.starts_with("test result:"))
    {
        let mut words = line.split([' ', ';']).filter(|word| !word.is_empty());
        let numbers = words.by_ref().filter_map(|word| word.parse().ok());
        let numbers: Vec<u64> = numbers.take(2).collect();
        if let [passed, failed] = numbers[..] {
            counts += Counts::new(passed, failed, 0);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 3 tests
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

running 2 tests
thread 'x' panicked at src/x.rs:1:2:
assertion failed
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 9.00s
";

    #[test]
    fn all_crates_count() {
        assert_eq!(Counts::new(4, 1, 0), cargo_counts(OUTPUT));
    }

    #[test]
    fn failures_are_shown() {
        let mut report = Report::default();
        tally_cargo(&mut report, 101, OUTPUT, 9);
        let text = report.take_text();
        assert!(text.contains("host/cargo "), "{text}");
        assert!(text.contains("    assertion failed\n"), "{text}");
        assert!(!text.contains("running"), "{text}");
    }

    #[test]
    fn what_does_not_compile_has_failed() {
        let mut report = Report::default();
        tally_cargo(
            &mut report,
            101,
            "error[E0308]: mismatched types\n --> src/x.rs\n",
            1,
        );
        let why = "host/cargo: 1 failed: error[E0308]: mismatched types\n --> src/x.rs\n";
        assert!(report.summary().starts_with(why));
    }
}
