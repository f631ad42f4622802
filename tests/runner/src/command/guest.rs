// SPDX-License-Identifier: GPL-2.0
//! `guest`: one command in a guest. Its output goes to standard output, and its exit status is that
//! of the runner. Messages of the runner go to standard error.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{bail, Context, Result};
use regex::Regex;

use super::{is_on, machine, prepare, setting};
use crate::boot::check_logs;
use crate::guest::{run as run_guest, Setup, Work};
use crate::log::Rules;
use crate::machine::Driver;
use crate::notes::{note, Notes};
use crate::plan::Plan;
use crate::qemu::Output;
use crate::selection::Step;
use crate::status::{End, Status};
use crate::sysroot::{text_of, Sysroot};

/// The name of the command in the guest's plan.
const NAME: &str = "command";
/// Exit status when only the kernel's log is not as it should be.
const BAD_LOG: u8 = 99;

/// Runs the command that the environment asks for, with these files.
///
/// # Errors
///
/// A setting is wrong, a build failed, or a signal ends the runner.
pub fn run(places: &Sysroot, files: &[String]) -> Result<u8> {
    let Some(command) = setting("CMD") else {
        bail!("guest: say what to run: make guest CMD='command' [ADD='files']");
    };
    let machine = machine(files)?;
    let (shows_log, shows_summary) = (is_on("LOG")?, is_on("SUMMARY")?);
    let rules = rules(places, machine.driver)?;
    let silence = match setting("TIMEOUT") {
        Some(text) => text.parse().context("TIMEOUT is no number of seconds")?,
        None => 600,
    };
    let kernel = setting("KERNEL").unwrap_or_else(|| "stock".into());
    let suites: Vec<&str> = machine.suites.iter().map(String::as_str).collect();
    let kernel = prepare(places, &kernel, &suites)?;
    let dir = match setting("DIR") {
        Some(dir) => PathBuf::from(dir),
        None => places.run_dir()?,
    };
    let step = Step {
        name: NAME.into(),
        params: setting("PARAMS").unwrap_or_else(|| "-".into()),
        silence,
        command: among_clients(&command.replace('\n', " "), suites.first().copied()),
        skips: None,
    };
    let notes = Notes::stderr();
    let setup = Setup {
        places,
        kernel: &kernel,
        machine: &machine,
        dir: &dir,
        work: Work::Plan {
            steps: &[step],
            mark: None,
        },
        output: Output::Stdio,
        notes: &notes,
    };
    let failed = run_guest(&setup, &mut || ())?.why.is_some();

    let console = dir.join("console");
    let mut err = std::io::stderr().lock();
    if shows_log {
        err.write_all(&std::fs::read(&console).unwrap_or_default())?;
    }
    if shows_summary {
        err.write_all(&std::fs::read(dir.join("model.out")).unwrap_or_default())?;
    }
    drop(err);
    let mut result = u8::from(failed);
    let findings = check_logs(&dir, &machine, &rules, false);
    if !findings.is_empty() {
        let console = console.display();
        note(&format!(
            "the kernel's log has what should not be there (all of it: {console}):"
        ));
        for finding in findings.iter().take(40) {
            eprintln!("{}", finding.line);
        }
        if result == 0 {
            result = BAD_LOG;
        }
    }
    let status = Status::parse(&text_of(dir.join("status")));
    if let Some(why) = status.ended(NAME) {
        note(&why);
    }
    match status.end(NAME) {
        None => {
            let console_path = console.display();
            note(&format!(
                "the command did not end; the end of the kernel's log ({console_path}):"
            ));
            let text = text_of(&console);
            let lines: Vec<&str> = text.lines().collect();
            for line in &lines[lines.len().saturating_sub(25)..] {
                eprintln!("{line}");
            }
            Ok(result.max(1))
        }
        Some(End::NotLoaded) => {
            let why = status.load_error().unwrap_or_default();
            note(&format!("the module did not load: {why}"));
            Ok(1)
        }
        Some(End::Exit(0, _)) => Ok(result),
        Some(End::Exit(code, _)) => Ok(u8::try_from(code).unwrap_or(1)),
    }
}

/// The lines of the kernel's log that the environment allows.
fn rules(places: &Sysroot, driver: Driver) -> Result<Rules> {
    let mut rules = Rules::default();
    if let Some(line) = setting("ALLOW") {
        let rule = Regex::new(&line).context("ALLOW is no regular expression")?;
        rules.always.push(rule);
    }
    if let Some(test) = setting("ALLOW_AS") {
        let mut kernels = vec!["stock", "debug"];
        kernels.extend(places.suites.iter().map(String::as_str));
        let plan = Plan::read(&places.top, &kernels)?;
        let allowed = plan.allowed.into_iter();
        let allowed = allowed.filter(|rule| rule.test == test && rule.holds_for(driver));
        rules.always.extend(allowed.map(|rule| rule.line));
    }
    Ok(rules)
}

/// The command as the guest's shell gets it, among the ROCm clients of a release.
fn among_clients(command: &str, suite: Option<&str>) -> String {
    match suite {
        Some(suite) => format!("/rkfd/suite {suite} '{}'", command.replace('\'', r"'\''")),
        None => command.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_among_clients_are_quoted() {
        assert_eq!("echo 'a'", among_clients("echo 'a'", None));
        let command = among_clients("echo 'a'", Some("trixie"));
        assert_eq!(r"/rkfd/suite trixie 'echo '\''a'\'''", command);
    }
}
