// SPDX-License-Identifier: GPL-2.0
//! The check of the kernel's log and of the device models' messages: only lines that a test is
//! allowed to cause may be there.

use std::sync::LazyLock;

use regex::Regex;

use crate::allow::Allowed;
use crate::status::Status;

/// The kernel's own trouble. No rule for a single test lets it through.
static TROUBLE: LazyLock<Regex> = LazyLock::new(|| {
    let words = [
        "BUG:|WARNING:|Oops|[Gg]eneral protection|Kernel panic|Call Trace:",
        "UBSAN:|KASAN:|KFENCE:|ODEBUG:",
        "blocked for more than|soft lockup|hard LOCKUP|detected stall|self-detected",
        "rcu:.*stalls? on",
        "possible circular|possible recursive|inconsistent lock state|Invalid wait context",
        "suspicious RCU|scheduling while atomic|sleeping function called",
        "refcount_t:|_(add|del) corruption|bad page|page allocation failure|DEBUG_LOCKS_WARN",
        "kmemleak-report:|nobody cared|Unknown symbol|disagrees about|double free|use-after-free",
        "turning off the locking",
    ];
    Regex::new(&words.join("|")).unwrap()
});
static LEVEL: LazyLock<Regex> = LazyLock::new(|| Regex::new("^<([0-9]+)>").unwrap());
static STEP: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("rkfd-run: (?:begin (.*)|begin|load)").unwrap());
/// The lines that an unsigned module from outside the tree always causes.
static ALWAYS: LazyLock<Regex> = LazyLock::new(|| {
    let line = "rkfd: (loading out-of-tree module taints kernel|module verification failed)";
    Regex::new(line).unwrap()
});

const NEW_KERNEL: &str = "Linux version";
const ERROR: u32 = 3;
const WARNING: u32 = 4;
/// Of a line of the console, which does not say its level.
const UNKNOWN: u32 = 9;

/// Taint flags of every run: a module from outside the tree (bit 12) that is unsigned (bit 13).
const TAINT: u64 = 0x3000;
/// Of a run with amdgpu: parameters that it calls dangerous (bit 6).
const TAINT_AMDGPU: u64 = 0x40;

/// A line that should not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The test that ran.
    pub test: String,
    pub line: String,
}

/// The lines that tests may cause.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// For every test, and for the kernel's trouble.
    pub always: Vec<Regex>,
    pub by_test: Vec<Allowed>,
}

impl Rules {
    fn permit(&self, line: &str, test: Option<&str>) -> bool {
        let of_test = || {
            let rules = self.by_test.iter();
            rules.filter(|rule| Some(rule.test.as_str()) == test)
        };
        ALWAYS.is_match(line)
            || self.always.iter().any(|rule| rule.is_match(line))
            || of_test().any(|rule| rule.line.is_match(line))
    }

    /// Counts a line of a test, once for each rule that lets it through.
    fn count(&self, line: &str, test: &str, times: &mut [u32]) {
        for (rule, times) in self.by_test.iter().zip(times) {
            *times += u32::from(rule.test == test && rule.line.is_match(line));
        }
    }
}

/// The kernel's log as the check reads it.
///
/// A guest that went through its plan has given the log with its levels. Otherwise the log is that
/// of the console. For a kernel before the last one (kexec) both count, and for the last one also
/// the lines on the console after it gave its log (power-off).
pub fn lines(console: &str, status: &Status) -> Vec<String> {
    let console: Vec<&str> = console.lines().collect();
    let mut out: Vec<&str> = Vec::new();
    if status.is_complete() {
        let last = console.iter().rposition(|line| line.contains(NEW_KERNEL));
        out.extend(&console[..last.unwrap_or(0)]);
        out.extend(status.log());
        let mut is_end = false;
        out.extend(console.iter().filter(|line| {
            is_end &= !line.contains(NEW_KERNEL);
            is_end |= line.contains("rkfd-run: begin power-off");
            is_end
        }));
    } else {
        out = console;
    }
    out.iter()
        .map(|line| line.replace(['\r', '\0'], ""))
        .collect()
}

/// What the kernel's log has.
#[derive(Debug, Default)]
pub struct Checked {
    /// Lines that should not be there.
    pub findings: Vec<Finding>,
    /// For each rule by test, how many lines its test caused.
    pub times: Vec<u32>,
}

/// Looks through the lines of the kernel's log.
///
/// The kernel's trouble counts at any time. Once the module was loaded, errors of everything
/// count, and warnings of rkfd.
pub fn check<'a>(lines: impl IntoIterator<Item = &'a str>, rules: &Rules) -> Checked {
    let mut findings = Vec::new();
    let mut times = vec![0; rules.by_test.len()];
    let mut loaded = false;
    let mut test = "boot";
    for line in lines {
        if line.contains(NEW_KERNEL) {
            loaded = false;
            test = "boot";
        }
        if let Some(step) = STEP.captures(line) {
            loaded = true;
            if let Some(name) = step.get(1) {
                test = name.as_str();
            }
            continue;
        }
        let level = LEVEL.captures(line).and_then(|level| level[1].parse().ok());
        let level = level.map_or(UNKNOWN, |level: u32| level % 8);
        let permitted = if TROUBLE.is_match(line) {
            rules.permit(line, None)
        } else if loaded && (level <= ERROR || (level == WARNING && line.contains("rkfd"))) {
            rules.count(line, test, &mut times);
            rules.permit(line, Some(test))
        } else {
            true
        };
        if !permitted {
            findings.push(Finding {
                test: test.into(),
                line: line.into(),
            });
        }
    }
    Checked { findings, times }
}

/// The rules whose lines were too many or, for the tests of which `is_whole` holds, too few.
pub fn miscounted(times: &[u32], rules: &Rules, is_whole: impl Fn(&str) -> bool) -> Vec<Finding> {
    let counted = times.iter().zip(&rules.by_test);
    let wrong = counted.filter(|(times, rule)| {
        *times > rule.times.end() || (is_whole(&rule.test) && *times < rule.times.start())
    });
    let finding = |(times, rule): (&u32, &Allowed)| Finding {
        test: rule.test.clone(),
        line: format!(
            "{times} lines, expected {} to {}: {}",
            rule.times.start(),
            rule.times.end(),
            rule.line
        ),
    };
    wrong.map(finding).collect()
}

/// Checks the rest: models, one for each GPU, print to standard error only when something is wrong,
/// and the kernel must not be tainted.
pub fn check_rest(models: &[String], taint: Option<u64>, amdgpu: bool) -> Vec<Finding> {
    let mut lines: Vec<String> = Vec::new();
    for text in models {
        lines.extend(text.lines().map(String::from));
    }
    let usual = if amdgpu { TAINT | TAINT_AMDGPU } else { TAINT };
    if let Some(taint) = taint.filter(|taint| taint & !usual != 0) {
        lines.push(format!("the kernel is tainted: {taint}"));
    }
    let finding = |line| Finding {
        test: "boot".into(),
        line,
    };
    lines.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(rules: &[(&str, &str)]) -> Rules {
        let by_test = rules.iter().map(|(test, line)| Allowed {
            test: (*test).into(),
            driver: None,
            line: Regex::new(line).unwrap(),
            times: 1..=1,
        });
        Rules {
            always: Vec::new(),
            by_test: by_test.collect(),
        }
    }

    fn found(log: &str, rules: &Rules) -> Vec<(String, String)> {
        let findings = check(log.lines(), rules).findings.into_iter();
        findings.map(|f| (f.test, f.line)).collect()
    }

    const LOG: &str = "\
<3>[ 0.1] early: an error before the module
<6>[ 1.0] rkfd-run: load 
<4>[ 1.1] rkfd: loading out-of-tree module taints kernel.
<6>[ 2.0] rkfd-run: begin reset
<4>[ 2.1] rkfd 0000:00:01.0: the GPU is reset
<4>[ 2.2] other: a warning of something else
<3>[ 2.3] other: an error
<6>[ 3.0] rkfd-run: begin queue
<4>[ 3.1] rkfd 0000:00:01.0: the GPU is reset
";

    #[test]
    fn errors_and_warnings_count_once_the_module_is_there() {
        let found = found(LOG, &Rules::default());
        let tests: Vec<&str> = found.iter().map(|(test, _)| test.as_str()).collect();
        assert_eq!(["reset", "reset", "queue"], *tests);
        assert_eq!("<3>[ 2.3] other: an error", found[1].1);
    }

    #[test]
    fn a_test_may_cause_its_lines_alone() {
        let rules = rules(&[
            ("reset", "rkfd .*the GPU is reset$"),
            ("reset", "other: an"),
        ]);
        let found = found(LOG, &rules);
        assert_eq!(1, found.len());
        assert_eq!("queue", found[0].0);
    }

    #[test]
    fn lines_are_counted_by_test() {
        let log = format!("{LOG}<4>[ 3.2] rkfd 0000:00:01.0: the GPU is reset\n");
        let mut rules = rules(&[
            ("reset", "the GPU is reset$"),
            ("queue", "the GPU is reset$"),
            ("queue", "the GPU is lost"),
        ]);
        let Checked { findings, times } = check(log.lines(), &rules);
        assert_eq!((1, vec![1, 2, 0]), (findings.len(), times.clone()));
        let wrong = |rules: &Rules, whole: bool| -> Vec<String> {
            let wrong = miscounted(&times, rules, |_| whole).into_iter();
            wrong.map(|finding| finding.line).collect()
        };
        let many = "2 lines, expected 1 to 1: the GPU is reset$";
        let none = "0 lines, expected 1 to 1: the GPU is lost";
        assert_eq!([many, none], *wrong(&rules, true));
        // Too few are no finding in a test that was cut off.
        assert_eq!([many], *wrong(&rules, false));
        rules.by_test[1].times = 0..=2;
        assert_eq!([none], *wrong(&rules, true));
    }

    #[test]
    fn trouble_is_not_let_through_by_a_rule_of_a_test() {
        let log = "<6>[ 1] rkfd-run: begin reset\n<4>[ 2] WARNING: CPU: 0 PID: 1\n";
        let mut rules = rules(&[("reset", "WARNING")]);
        assert_eq!("reset", found(log, &rules)[0].0);
        rules.always.push(Regex::new("WARNING").unwrap());
        assert!(found(log, &rules).is_empty());
        // Nor need the module be there, or the line have a level.
        let log = "[ 0.1] BUG: KASAN: slab-out-of-bounds\n[ 0.2] rcu: INFO: stall on\n";
        assert_eq!(2, found(log, &Rules::default()).len());
    }

    #[test]
    fn another_kernel_starts_anew() {
        let log = format!("{LOG}[ 0.0] Linux version 7.3\n<3>[ 0.1] early: an error\n");
        assert_eq!(3, found(&log, &Rules::default()).len());
    }

    #[test]
    fn levels_are_without_their_facility() {
        let log = "rkfd-run: begin a\n<11>[ 1] user: an error\n<14>[ 1] user: rkfd, all well\n";
        assert_eq!(1, found(log, &Rules::default()).len());
    }

    #[test]
    fn the_log_with_levels_takes_the_place_of_the_console() {
        let console = "Linux version 1\r\nfirst kernel\nLinux version 2\nsecond kernel\n\
                       rkfd-run: begin power-off\nlast words\n";
        let complete = Status::parse("log\n<6>second kernel\n@@end\n");
        let lines = lines(console, &complete);
        assert_eq!(
            [
                "Linux version 1",
                "first kernel",
                "log",
                "<6>second kernel",
                "@@end",
                "rkfd-run: begin power-off",
                "last words"
            ],
            *lines
        );
        let cut_off = Status::parse("begin a\n");
        assert_eq!(6, super::lines(console, &cut_off).len());
    }

    #[test]
    fn models_and_taint() {
        assert!(check_rest(&[String::new()], Some(0x3000), false).is_empty());
        assert!(check_rest(&[], Some(0x3040), true).is_empty());
        let findings = check_rest(&["a\nb\n".into()], Some(0x3040), false);
        let lines: Vec<&str> = findings.iter().map(|f| f.line.as_str()).collect();
        assert_eq!(["a", "b", "the kernel is tainted: 12352"], *lines);
        assert_eq!("boot", findings[0].test);
    }
}
