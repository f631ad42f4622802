// SPDX-License-Identifier: GPL-2.0
//! `shell`: a shell in a guest, with the module loaded. `exit` powers the guest off.

use std::io::{IsTerminal, Write};
use std::process::Command;

use anyhow::Result;

use super::{is_on, machine, prepare, setting};
use crate::guest::{run as run_guest, Setup, Work};
use crate::notes::{note, Notes};
use crate::qemu::Output;
use crate::sysroot::Sysroot;

/// Gives a shell in the guest that the environment asks for, with these files.
///
/// # Errors
///
/// A setting is wrong, a build failed, or a signal ends the runner.
pub fn run(places: &Sysroot, files: &[String]) -> Result<u8> {
    let machine = machine(files)?;
    let shows_summary = is_on("SUMMARY")?;
    let kernel = setting("KERNEL").unwrap_or_else(|| "stock".into());
    let suites: Vec<&str> = machine.suites.iter().map(String::as_str).collect();
    let kernel = prepare(places, &kernel, &suites)?;
    let dir = places.run_dir()?;
    note(&format!("kernel log: {}", dir.join("console").display()));
    let params = setting("PARAMS").unwrap_or_else(|| "-".into());
    let notes = Notes::stderr();
    let setup = Setup {
        places,
        kernel: &kernel,
        machine: &machine,
        dir: &dir,
        work: Work::Shell { params: &params },
        output: Output::Stdio,
        notes: &notes,
    };
    let outcome = run_guest(&setup, &mut || ());
    if std::io::stdin().is_terminal() {
        // QEMU had it for itself.
        let _ = Command::new("stty").arg("sane").status();
    }
    if shows_summary {
        let text = std::fs::read(dir.join("model.out")).unwrap_or_default();
        std::io::stderr().write_all(&text)?;
    }
    Ok(outcome?.why.is_some().into())
}
