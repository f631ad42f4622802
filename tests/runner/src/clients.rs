// SPDX-License-Identifier: GPL-2.0
//! What only some guests need beside the image: ROCm's clients, KFDTest, CRIU, this checkout's
//! packages.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{bail, Context, Result};

use crate::machine::Machine;
use crate::process::run_to_end;
use crate::sysroot::Sysroot;

/// What is shown of a build that failed.
const LINES: usize = 20;

/// What some guests need.
#[derive(Debug, Default)]
pub struct Clients<'a> {
    suites: BTreeSet<&'a str>,
    kfdtest: bool,
    criu: bool,
    packages: bool,
}

impl<'a> Clients<'a> {
    /// What these machines need.
    pub fn of(machines: impl IntoIterator<Item = &'a Machine>) -> Self {
        let mut clients = Self::default();
        for machine in machines {
            clients
                .suites
                .extend(machine.suites.iter().map(String::as_str));
            clients.kfdtest |= machine.kfdtest;
            clients.criu |= machine.criu;
            clients.packages |= machine.packages;
        }
        clients
    }

    /// Whether the image is enough.
    pub fn is_none(&self) -> bool {
        self.suites.is_empty() && !self.kfdtest && !self.criu && !self.packages
    }

    /// Brings it up to date, for guests with this kernel, while others may run.
    ///
    /// # Errors
    ///
    /// A build failed, or a signal ends the runner.
    pub fn prepare(&self, places: &Sysroot, kernel: &str) -> Result<()> {
        let mut prepare = places.patient_script("prepare");
        prepare.args(["--clients", kernel]).args(&self.suites);
        make(&mut prepare).context("the ROCm clients were not made")?;
        if self.kfdtest {
            make(&mut places.patient_script("kfdtest")).context("KFDTest was not built")?;
        }
        if self.criu {
            make(&mut places.patient_script("criu")).context("CRIU was not built")?;
        }
        if self.packages {
            make(&mut places.patient_script("deb")).context("the packages were not made")?;
            make(places.patient_script("deb-root").arg("guest"))
                .context("the packages have no root")?;
        }
        Ok(())
    }
}

/// Runs a build, whose progress would stand among that of guests.
fn make(command: &mut Command) -> Result<()> {
    let (status, output) = run_to_end(command)?;
    if status != 0 {
        let lines: Vec<&str> = output.lines().collect();
        bail!("{}", lines[lines.len().saturating_sub(LINES)..].join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_machines_need() {
        let mut machines = [Machine::default(), Machine::default()];
        assert!(Clients::of(&machines).is_none());
        machines[0].suites = vec!["trixie".into(), "forky".into()];
        machines[1].suites = vec!["trixie".into()];
        assert!(!Clients::of(&machines).is_none());
        let suites = Clients::of(&machines).suites;
        assert_eq!(vec!["forky", "trixie"], Vec::from_iter(suites));
        machines[1] = Machine::default();
        machines[1].kfdtest = true;
        assert!(!Clients::of(&machines[1..]).is_none());
    }

    #[test]
    fn the_end_of_a_failed_build_is_shown() {
        let mut command = Command::new("sh");
        command.args(["-c", "seq 30; false"]);
        let why = make(&mut command).unwrap_err().to_string();
        assert!(why.starts_with("11\n") && why.ends_with("\n30"), "{why}");
    }
}
