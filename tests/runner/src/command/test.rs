// SPDX-License-Identifier: GPL-2.0
//! `test`: host tests, and the boots of the plan.

use std::io::Write;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use super::{hostile, prepare, setting};
use crate::boot::{self, Launcher};
use crate::clients::Clients;
use crate::host;
use crate::kernel::Target;
use crate::log::Rules;
use crate::notes::note;
use crate::plan::Plan;
use crate::process::check_interrupted;
use crate::report::Report;
use crate::schedule::{self, Job};
use crate::selection::{Chosen, Excluded, Selection, TURNS};
use crate::size::available;
use crate::sysroot::{text_of, Sysroot};
use crate::tally::Counts;

/// How many guests run at a time.
const GUESTS: usize = 2;
/// How many jobs run at a time in a whole `make test`, with the host's tests: two guests, which
/// wait now and then, leave a quarter of the time of two processors.
const ALL: usize = 3;
/// The job that makes what some guests need.
const CLIENTS: &str = "clients";

/// Runs the tests for a kernel, or those of these names.
///
/// # Errors
///
/// The plan or a name is wrong, a build failed, or a signal ends the runner.
pub fn run(places: &Sysroot, list: bool, words: &[String]) -> Result<u8> {
    let since = Instant::now();
    let stock = "stock".to_owned();
    let (seed, words) = match words.split_first() {
        Some((first, rest)) if first.starts_with("hostile=") => (first.get(8..), rest),
        _ => (None, words),
    };
    let seed = seed.map(String::from).or_else(|| setting("HOSTILE"));
    let (word, names) = words.split_first().unwrap_or((&stock, &[]));
    let target = Target::new(word, &places.base);
    let backports = format!("{}-backports", places.base);
    let mut kernels = vec!["stock", "debug", &backports];
    kernels.extend(places.suites.iter().map(String::as_str));
    let plan = Plan::read(&places.top, &kernels)?;
    let turn = turn(places)?;
    let mut selection = Selection::new(&plan, &target, names, turn)?;
    if let Some(spec) = hostile(seed)? {
        for boot in &mut selection.boots {
            boot.machine.hostile.get_or_insert_with(|| spec.clone());
        }
    }
    if list {
        print_list(&selection);
        return Ok(0);
    }
    for boot in &mut selection.boots {
        boot.machine.hostile = hostile(boot.machine.hostile.take())?;
    }

    let is_all = word == "stock" && names.is_empty();
    if is_all {
        let turn = turn % TURNS;
        note(&format!(
            "of the boots that take turns, those of turn {turn} run (RKFD_TURN=0 to {}, or \
             make test-long)",
            TURNS - 1
        ));
    }
    let mut report = Report::default();
    for Excluded { boot, test, why } in &selection.excluded {
        let name = format!("{}/{boot}/{test}", target.label);
        report.tally(&name, Counts::SKIPPED, 0, std::slice::from_ref(why));
    }
    print(&report.take_text());
    let kernel = prepare(places, &target.kernel, &[])?;
    if let Some(host) = available(&text_of("/proc/meminfo")) {
        for boot in &mut selection.boots {
            boot.machine.memory = boot.machine.memory.within(host);
        }
    }

    let rules = Rules {
        always: Vec::new(),
        by_test: plan.allowed,
    };
    let clients = Clients::of(selection.boots.iter().map(|boot| &boot.machine));
    let mut jobs = Vec::new();
    if is_all {
        jobs.push(Job::new("host", || job("host", |r| host::run(places, r))));
    }
    if !clients.is_none() {
        let kernel = &target.kernel;
        jobs.push(Job::new(CLIENTS, || {
            job(CLIENTS, |_| clients.prepare(places, kernel))
        }));
    }
    for Chosen {
        name,
        machine,
        tests,
    } in &selection.boots
    {
        let label = format!("{}/{name}", target.label);
        let (kernel, rules) = (&kernel, &rules);
        let needs_clients = !Clients::of([machine]).is_none();
        let boot = Job::new(name, move || {
            let mut launcher = Launcher {
                places,
                kernel,
                machine,
                rules,
                label: &label,
                since,
            };
            let mut report = job(&label, |report| {
                boot::run(&label, tests, &mut launcher, report)
            });
            if let Some(spec) = &machine.hostile {
                report.remark(&format!("{label}: HOSTILE={spec}"));
            }
            report
        });
        jobs.push(match needs_clients {
            true => boot.after(CLIENTS),
            false => boot,
        });
    }
    let at_once = if is_all { ALL } else { GUESTS };
    schedule::run(jobs, at_once, |job| {
        let text = report.absorb(job);
        print(&text);
    });
    check_interrupted()?;
    print(&report.summary());
    Ok(report.has_failures().into())
}

/// The report of a job, in which it failed as a whole if there was an error.
fn job(name: &str, run: impl FnOnce(&mut Report) -> Result<()>) -> Report {
    let mut report = Report::default();
    if check_interrupted().is_err() {
        return report;
    }
    if let Err(error) = run(&mut report) {
        if check_interrupted().is_err() {
            return Report::default();
        }
        report.tally(name, Counts::FAILED, 0, &[format!("{error:#}")]);
    }
    report
}

fn print(text: &str) {
    // A reader that is gone is no reason to stop.
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The turn of the boots that take turns: `RKFD_TURN`, or the number of commits, so that each commit
/// has the same one everywhere, and the next one another.
fn turn(places: &Sysroot) -> Result<usize> {
    if let Some(turn) = setting("RKFD_TURN") {
        return turn.parse().context("RKFD_TURN is no number");
    }
    let count = Command::new("git")
        .args(["rev-list", "--count", "HEAD"])
        .current_dir(&places.top)
        .output();
    // Sources without their history have the first turn.
    let count = count.map(|count| String::from_utf8_lossy(&count.stdout).trim().parse().ok());
    Ok(count.ok().flatten().unwrap_or(0))
}

fn print_list(selection: &Selection) {
    for boot in &selection.boots {
        println!("boot {}", boot.name);
        println!("{}", boot.machine.differences().join(" "));
        for test in &boot.tests {
            print!("{}", test.line());
        }
    }
}
