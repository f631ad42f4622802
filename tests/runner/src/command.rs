// SPDX-License-Identifier: GPL-2.0
//! The commands of the runner.

use std::path::PathBuf;

use anyhow::{bail, Context, Result};

use crate::guest::Kernel;
use crate::life::silence;
use crate::machine::{word, Machine, Model};
use crate::notes::{note, Notes};
use crate::process::{self, HasSaid, Process};
use crate::qemu::accel;
use crate::size::Size;
use crate::sysroot::{random_word, Sysroot};

pub mod guest;
pub mod shell;
pub mod test;

/// Brings image, device model and ROCm clients for the guests of a kernel up to date.
///
/// # Errors
///
/// `RKFD_SILENCE` is wrong, or a build failed; the scripts print the reason of that.
fn prepare(places: &Sysroot, kernel: &str, suites: &[&str]) -> Result<Kernel> {
    // A wrong setting is refused before anything is built.
    silence(std::env::var_os("RKFD_SILENCE").as_deref())?;
    let mut script = places.script("prepare");
    let status = Process::start(script.arg(kernel).args(suites))?.wait()?;
    if !status.success() {
        bail!(HasSaid);
    }
    let vmlinuz = process::output(places.script("vmlinuz").arg(kernel))?;
    Ok(Kernel {
        name: kernel.into(),
        vmlinuz: vmlinuz.trim_end().into(),
    })
}

/// Finds out whether KVM works on this machine, once for each boot of it.
///
/// # Errors
///
/// There is no kernel to try, or a signal ends the runner.
pub fn trial(places: &Sysroot) -> Result<u8> {
    let vmlinuz = process::output(places.script("vmlinuz").arg("stock"))?;
    accel(places, vmlinuz.trim_end(), &Notes::stderr())?;
    Ok(0)
}

/// A setting of the environment, if it says something.
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// Whether a setting is switched on.
///
/// # Errors
///
/// It has a value other than `y`.
fn is_on(name: &str) -> Result<bool> {
    switch(name, setting(name).as_deref())
}

fn switch(name: &str, text: Option<&str>) -> Result<bool> {
    match text {
        None => Ok(false),
        Some("y") => Ok(true),
        Some(text) => bail!("{name}={text}: only {name}=y has a meaning"),
    }
}

/// The machine that the environment asks for.
///
/// # Errors
///
/// A setting has a wrong value, or a file does not exist.
fn machine(files: &[String]) -> Result<Machine> {
    let mut machine = Machine::default();
    machine.driver = choice("DRIVER", machine.driver)?;
    machine.firmware = match setting("FIRMWARE") {
        Some(text) => Some(parsed("FIRMWARE", word(&text))?),
        None => None,
    };
    machine.asic = setting("ASIC");
    if let Some(text) = setting("XCCS") {
        machine.xccs = Some(text.parse().context("XCCS is no number")?);
    }
    machine.files = choice("FILES", machine.files)?;
    machine.chipset = choice("MACHINE", machine.chipset)?;
    let size = |name: &str| -> Result<Option<Size>> {
        let size = setting(name).map(|text| parsed(name, text.parse()));
        size.transpose()
    };
    machine.memory = size("MEMORY")?.unwrap_or(machine.memory);
    machine.vram = size("VRAM")?.unwrap_or(machine.vram);
    machine.swap = size("SWAP")?;
    if let Some(text) = setting("GPUS") {
        machine.gpus = text.parse().context("GPUS is no number")?;
    }
    machine.append = setting("APPEND").unwrap_or_default();
    machine.timing = setting("TIMING");
    machine.hive = setting("HIVE");
    let parts = setting("PCI").unwrap_or_default();
    machine.pci = parts.split_whitespace().map(String::from).collect();
    machine.suites.extend(setting("SUITE"));
    machine.iommu = is_on("IOMMU")?;
    machine.wakes = is_on("WAKES")?;
    machine.switch = is_on("SWITCH")?;
    machine.ports = is_on("PORTS")?;
    machine.bare = is_on("BARE")?;
    machine.hostile = hostile(setting("HOSTILE"))?;
    machine.numa = is_on("NUMA")?;
    machine.icount = is_on("ICOUNT")?;
    machine.kfdtest = is_on("KFDTEST")?;
    machine.criu = is_on("CRIU")?;
    machine.python = is_on("PYTHON")?;
    machine.model = match setting("MODEL").as_deref() {
        None => Model::Own,
        Some("none") => Model::None,
        Some(path) => Model::Other(path.into()),
    };
    for file in files {
        let path = PathBuf::from(file).canonicalize();
        let Ok(path) = path else {
            bail!("guest: ADD names {file}, which is not there");
        };
        machine.add.push(path);
    }
    Ok(machine)
}

/// What models take with the setting `HOSTILE`: a seed, and classes. `random` is a seed of its own,
/// which is said.
fn hostile(setting: Option<String>) -> Result<Option<String>> {
    let Some(text) = setting else {
        return Ok(None);
    };
    let (seed, classes) = text.split_once(',').unwrap_or((&text, ""));
    if seed != "random" {
        return Ok(Some(text));
    }
    let mut spec = format!("0x{}", &random_word()?[..12]);
    if !classes.is_empty() {
        spec = format!("{spec},{classes}");
    }
    note(&format!("HOSTILE={spec}"));
    Ok(Some(spec))
}

fn parsed<T>(name: &str, result: Result<T, String>) -> Result<T> {
    result
        .map_err(anyhow::Error::msg)
        .with_context(|| name.to_owned())
}

/// The word that a setting is, or the default.
fn choice<T: serde::de::DeserializeOwned>(name: &str, default: T) -> Result<T> {
    match setting(name) {
        Some(text) => parsed(name, word(&text)),
        None => Ok(default),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_seed_is_said() {
        assert_eq!(None, hostile(None).unwrap());
        let same = |text: &str| hostile(Some(text.into())).unwrap().unwrap();
        assert_eq!("7,ih", same("7,ih"));
        let (one, other) = (same("random,ih"), same("random,ih"));
        assert!(one.starts_with("0x") && one.ends_with(",ih"), "{one}");
        assert_ne!(one, other);
    }

    #[test]
    fn switches_are_on_or_absent() {
        assert!(!switch("IOMMU", None).unwrap());
        assert!(switch("IOMMU", Some("y")).unwrap());
        for text in ["n", "0", "1", "yes", "Y"] {
            let error = switch("IOMMU", Some(text)).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("IOMMU={text}: only IOMMU=y ")),
                "{error}"
            );
        }
    }
}
