// SPDX-License-Identifier: GPL-2.0
//! The test runner: boots guests with the device model, runs tests in them, judges their results
//! and the kernel's log. `scripts/test`, `scripts/guest` and `scripts/shell` build and start it.

use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use lexopt::prelude::*;

mod allow;
mod boot;
mod clients;
mod command;
mod guest;
mod host;
mod initrd;
mod kernel;
mod life;
mod log;
mod machine;
mod model;
mod monitor;
mod notes;
mod plan;
mod process;
mod qemu;
mod report;
mod schedule;
mod selection;
mod size;
mod skip;
mod status;
mod sysroot;
mod tally;
mod tap;

use process::HasSaid;
use sysroot::Sysroot;

const USAGE: &str = "\
rkfd-runner PLACES test [--list] [hostile=SEED] KERNEL [NAME...]
rkfd-runner PLACES guest [FILE...]
rkfd-runner PLACES shell [FILE...]
rkfd-runner PLACES trial

test boots the guests of tests/guest/plan.toml that KERNEL gets (stock, debug, long, or a Debian
suite), or the boots and tests of these names, and prints a tally; --list prints the plan instead.
guest runs one command in a guest, shell gives a shell in one; both take settings from the
environment (scripts/guest) and files that the guest gets in /rkfd/add. trial finds out whether KVM
works, which the first guest would do.
PLACES, all of them from scripts/lib.sh: --top, --cache, --sysroot, --out, --checkout, --base and
--suites.";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            if let Some(signal) = process::interrupted() {
                return ExitCode::from(128 + signal);
            }
            if !error.is::<HasSaid>() {
                notes::note(&format!("{error:#}"));
            }
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let mut places = Sysroot::default();
    let mut list = false;
    let mut words = Vec::new();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("top") => places.top = parser.value()?.into(),
            Long("cache") => places.cache = parser.value()?.into(),
            Long("sysroot") => places.root = parser.value()?.into(),
            Long("out") => places.out = parser.value()?.string()?,
            Long("checkout") => places.checkout = parser.value()?.string()?,
            Long("base") => places.base = parser.value()?.string()?,
            Long("suites") => {
                let suites = parser.value()?.string()?;
                places.suites = suites.split_whitespace().map(String::from).collect();
            }
            Long("list") => list = true,
            Long("help") => {
                println!("{USAGE}");
                return Ok(ExitCode::SUCCESS);
            }
            Value(word) => words.push(word.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    process::catch_signals().context("cannot catch signals")?;
    let Some((command, rest)) = words.split_first() else {
        bail!("runner: no command\n{USAGE}");
    };
    let code = match command.as_str() {
        "test" => command::test::run(&places, list, rest)?,
        "guest" => command::guest::run(&places, rest)?,
        "shell" => command::shell::run(&places, rest)?,
        "trial" => command::trial(&places)?,
        _ => bail!("runner: there is no command {command}\n{USAGE}"),
    };
    Ok(ExitCode::from(code))
}
