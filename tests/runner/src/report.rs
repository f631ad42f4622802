// SPDX-License-Identifier: GPL-2.0
//! The report of a run, or of a part of it.

use std::fmt::Write;

use crate::tally::Counts;

/// The longest part of a line that the summary repeats, in characters.
const SUMMARY_LINE: usize = 300;

/// The text of a run or of one of its jobs, its counts, and the lines for the summary.
#[derive(Debug, Default)]
pub struct Report {
    text: String,
    counts: Counts,
    failures: Vec<String>,
    again: Vec<String>,
}

impl Report {
    /// Adds the line of one test program, with the reasons of failures below it.
    pub fn tally(&mut self, name: &str, counts: Counts, seconds: u64, why: &[String]) {
        self.counts += counts;
        let _ = write!(self.text, "{name:<34} {:4} passed", counts.passed);
        if counts.failed > 0 {
            let _ = write!(self.text, ", {} FAILED", counts.failed);
        }
        if counts.skipped > 0 {
            let _ = write!(self.text, ", {} skipped", counts.skipped);
        }
        if seconds >= 5 {
            let _ = write!(self.text, " ({seconds} s)");
        }
        self.text.push('\n');
        self.lines("    ", why.iter().flat_map(|why| why.lines()));
        if counts.failed > 0 {
            let text = format!("{name}: {} failed: {}", counts.failed, why.join("\n"));
            self.failures.extend(text.lines().map(String::from));
        }
    }

    /// Adds lines, each behind a prefix.
    pub fn lines<'a>(&mut self, prefix: &str, lines: impl IntoIterator<Item = &'a str>) {
        for line in lines {
            let _ = writeln!(self.text, "{prefix}{line}");
        }
    }

    /// Adds that a guest was started again before its first program.
    pub fn again(&mut self, text: String) {
        self.lines("", [text.as_str()]);
        self.again.push(text);
    }

    /// Takes another report's counts and the lines for the summary over, and returns its text.
    pub fn absorb(&mut self, other: Self) -> String {
        self.counts += other.counts;
        self.failures.extend(other.failures);
        self.again.extend(other.again);
        other.text
    }

    /// The text so far, of which the report keeps nothing.
    pub fn take_text(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// The end of a run: all failures once more, as often only the end of a long run is read, and
    /// the counts.
    pub fn summary(&self) -> String {
        let mut out = String::new();
        let mut add = |line: &str| {
            out.extend(line.chars().take(SUMMARY_LINE));
            out.push('\n');
        };
        for line in &self.failures {
            add(line);
        }
        if !self.again.is_empty() {
            let count = self.again.len();
            add(&format!(
                "guests started again before their first program: {count}"
            ));
            for line in &self.again {
                add(line);
            }
        }
        add(&self.counts.to_string());
        out
    }

    /// Adds what belongs to the failures so far, if there are some.
    pub fn remark(&mut self, line: &str) {
        if self.has_failures() {
            self.lines("    ", [line]);
            self.failures.push(line.into());
        }
    }

    pub fn has_failures(&self) -> bool {
        self.counts.failed > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_tally() {
        let mut report = Report::default();
        report.tally("guest/small/yield", Counts::new(7, 0, 0), 4, &[]);
        report.tally(
            "guest/a/b",
            Counts::new(1, 2, 3),
            12,
            &["x\ny".into(), "z".into()],
        );
        let text = "\
            guest/small/yield                     7 passed\n\
            guest/a/b                             1 passed, 2 FAILED, 3 skipped (12 s)\n    \
            x\n    y\n    z\n";
        assert_eq!(text, report.take_text());
        assert!(report.has_failures());
        assert_eq!(
            "guest/a/b: 2 failed: x\ny\nz\n8 passed, 2 failed, 3 skipped\n",
            report.summary()
        );
    }

    #[test]
    fn remarks_belong_to_failures() {
        let mut report = Report::default();
        report.remark("a: HOSTILE=7");
        assert!(!report.summary().contains("HOSTILE"));
        report.tally("a", Counts::FAILED, 0, &["x".into()]);
        report.remark("a: HOSTILE=7");
        assert!(report.summary().contains("a: HOSTILE=7\n"));
        assert!(report.take_text().ends_with("    a: HOSTILE=7\n"));
    }

    #[test]
    fn the_summary_has_what_jobs_reported() {
        let mut job = Report::default();
        job.again("guest/a, it stood still".into());
        job.tally("guest/a/log", Counts::PASSED, 0, &[]);
        let mut report = Report::default();
        assert!(report.absorb(job).starts_with("guest/a, it stood still\n"));
        assert_eq!(
            "guests started again before their first program: 1\n\
             guest/a, it stood still\n1 passed, 0 failed\n",
            report.summary()
        );
    }
}
