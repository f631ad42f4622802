// SPDX-License-Identifier: GPL-2.0
//! The device model's process, one for each GPU.

use std::fs::OpenOptions;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Result};

use crate::machine::{Driver, Machine};
use crate::process::{check_interrupted, Process};
use crate::qemu::suffix;
use crate::sysroot::{text_of, Sysroot};

/// How long a model may take to start, and to end with its QEMU.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The serial number of the first board, before its last 16 bits, and these.
const SERIAL: &str = "1020390a0";
const SERIAL_FIRST: u32 = 0x210;

/// The model's chip where nothing else is said.
const USUAL_CHIP: &str = "gfx90a";

/// A model that runs.
#[derive(Debug)]
pub struct Running {
    /// The number of its GPU, from 1.
    pub gpu: u32,
    pub process: Process,
}

/// The options that all boards of a guest have.
pub struct Board {
    /// The program, as the sysroot has it.
    pub program: String,
    pub options: Vec<String>,
    /// The archive of firmware files, as the sysroot has it. What the flash chip of a board has is
    /// beside it, with the name of the GPU's chip.
    pub firmware: Option<PathBuf>,
}

impl Board {
    /// Starts the model of a GPU, and waits until QEMU can connect to it.
    ///
    /// # Errors
    ///
    /// It does not start, or not in time.
    pub fn start(
        &self,
        places: &Sysroot,
        dir: &Path,
        machine: &Machine,
        gpu: u32,
    ) -> Result<Running> {
        let n = suffix(gpu);
        let inside = places.inside(dir);
        let file = |name: String| {
            let mut options = OpenOptions::new();
            options.create(true).append(true).open(dir.join(name))
        };
        // The engines of a GPU do not share the processors of its host.
        let mut command = places.urgent_program(&self.program);
        command
            .args(["--serial", &serial(gpu)])
            .args(["--socket", &format!("{inside}/vfio{n}.sock")])
            .args(["--control", &format!("{inside}/control{n}.sock")])
            .args(["--vram", &machine.vram.to_string()])
            .args(function(machine, gpu))
            .args(self.rom(machine, gpu))
            .args(place(machine, gpu, &inside))
            .args(["--summary", &format!("{inside}/summary{n}.json")])
            .args(freedoms_of(machine.driver))
            .args(hostile(machine, &inside, &n))
            .args(&self.options)
            .stdout(file(format!("model{n}.out"))?)
            .stderr(file(format!("model{n}.err"))?);
        let mut process = Process::start(&mut command)?;

        let sockets = [format!("vfio{n}.sock"), format!("control{n}.sock")];
        let is_there = || sockets.iter().all(|name| is_socket(&dir.join(name)));
        let start = Instant::now();
        while !is_there() && process.status()?.is_none() && start.elapsed() < PATIENCE {
            check_interrupted()?;
            thread::sleep(Duration::from_millis(20));
        }
        if !is_there() {
            let text = text_of(dir.join(format!("model{n}.err")));
            let lines: Vec<&str> = text.lines().collect();
            let end = &lines[lines.len().saturating_sub(3)..];
            bail!("the device model did not start: {}", end.join("\n"));
        }
        Ok(Running { gpu, process })
    }

    fn rom(&self, machine: &Machine, gpu: u32) -> Vec<String> {
        let Some(firmware) = &self.firmware else {
            return Vec::new();
        };
        let chip = machine.chip(gpu).unwrap_or(USUAL_CHIP);
        let rom = firmware.with_extension(format!("{chip}.rom"));
        vec!["--rom".into(), rom.display().to_string()]
    }
}

/// The options of a GPU's chip, of its PCI function, and the times of its engines.
fn function(machine: &Machine, gpu: u32) -> Vec<String> {
    let mut options = Vec::new();
    let mut option = |name: &str, value: String| options.extend([name.to_owned(), value]);
    if let Some(chip) = machine.chip(gpu) {
        option("--asic", chip.into());
    }
    if let Some(xccs) = machine.xccs {
        option("--xccs", xccs.to_string());
    }
    if machine.harvested != 0 {
        option("--harvested", format!("{:#x}", machine.harvested));
    }
    if let Some(size) = &machine.bar0 {
        option("--bar0", size.to_string());
    }
    if let Some(units) = machine.fb_base {
        option("--fb-base", format!("{units:#x}"));
    }
    if let Some(id) = &machine.device {
        option("--device", id.clone());
    }
    for part in &machine.pci {
        option("--pci", part.clone());
    }
    if let Some(timing) = &machine.timing {
        option("--timing", timing.clone());
    }
    options
}

/// The folder in which the models of a hive find one another.
pub const HIVE_FOLDER: &str = "hive";

/// The options of the place of a GPU, counted from 1, in a hive and in its package. In a hive of all
/// GPUs (`all[:MIB]`) two dies are in each package.
fn place(machine: &Machine, gpu: u32, dir: &str) -> Vec<String> {
    let mut options = Vec::new();
    let mut option = |name: &str, value: String| options.extend([name.to_owned(), value]);
    let mut die = machine.die;
    if let Some(place) = &machine.hive {
        if let Some(segment) = place.strip_prefix("all") {
            let node = gpu - 1;
            option("--hive", format!("{node}/{}{segment}", machine.gpus));
            option("--hive-folder", format!("{dir}/{HIVE_FOLDER}"));
            if machine.device.is_some() {
                die = node % 2;
            }
        } else {
            option("--hive", place.clone());
        }
    }
    if die != 0 {
        option("--die", die.to_string());
    }
    options
}

/// The options for what the model takes from Debian's driver and not from ours.
fn freedoms_of(driver: Driver) -> &'static [&'static str] {
    match driver {
        Driver::Rkfd => &[],
        _ => &["--write-combined", "--unaligned-leaves"],
    }
}

/// The options for a machine with hostile models.
fn hostile(machine: &Machine, dir: &str, suffix: &str) -> Vec<String> {
    let Some(spec) = &machine.hostile else {
        return Vec::new();
    };
    let file = format!("{dir}/freedoms{suffix}");
    let options = ["--hostile".into(), spec.clone(), "--freedoms".into(), file];
    options.into()
}

fn serial(gpu: u32) -> String {
    format!("{SERIAL}{:04x}", SERIAL_FIRST + gpu - 1)
}

fn is_socket(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|data| data.file_type().is_socket())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_is_the_models_own_by_default() {
        assert!(function(&Machine::default(), 1).is_empty());
        let machine = Machine {
            asic: Some("gfx942".into()),
            xccs: Some(8),
            harvested: 1,
            bar0: Some("256M".parse().unwrap()),
            fb_base: Some(0x8000),
            hive: Some("1/2".into()),
            device: Some("740c".into()),
            die: 1,
            pci: vec!["flr".into(), "no-msix".into()],
            timing: Some("card=16".into()),
            ..Machine::default()
        };
        let expected = "--asic gfx942 --xccs 8 --harvested 0x1 --bar0 256M --fb-base 0x8000 \
                        --device 740c --pci flr --pci no-msix --timing card=16";
        assert_eq!(expected, function(&machine, 1).join(" "));
        let alone = place(&machine, 1, "/vm/x").join(" ");
        assert_eq!("--hive 1/2 --die 1", alone);
        let all = Machine {
            hive: Some("all:8192".into()),
            gpus: 4,
            ..machine
        };
        let second = "--hive 1/4:8192 --hive-folder /vm/x/hive --die 1";
        assert_eq!(second, place(&all, 2, "/vm/x").join(" "));
        let third = "--hive 2/4:8192 --hive-folder /vm/x/hive";
        assert_eq!(third, place(&all, 3, "/vm/x").join(" "));
    }

    #[test]
    fn each_gpu_has_its_chip_and_the_flash_chip_for_it() {
        let machine = Machine {
            asic: Some("gfx90a,gfx942".into()),
            ..Machine::default()
        };
        assert_eq!("--asic gfx90a", function(&machine, 1).join(" "));
        for gpu in [2, 3] {
            assert_eq!("--asic gfx942", function(&machine, gpu).join(" "));
        }
        let mut board = Board {
            program: "model".into(),
            options: Vec::new(),
            firmware: None,
        };
        assert!(board.rom(&machine, 1).is_empty());
        board.firmware = Some("/out/ours.cpio".into());
        let rom = |machine, gpu| board.rom(machine, gpu).join(" ");
        assert_eq!("--rom /out/ours.gfx942.rom", rom(&machine, 2));
        assert_eq!("--rom /out/ours.gfx90a.rom", rom(&Machine::default(), 2));
    }

    #[test]
    fn models_are_strict_with_our_driver() {
        assert!(freedoms_of(Driver::Rkfd).is_empty());
        assert!(freedoms_of(Driver::Both).contains(&"--unaligned-leaves"));
    }

    #[test]
    fn hostile_models_keep_their_freedoms() {
        let mut machine = Machine::default();
        assert!(hostile(&machine, "/vm/x", "").is_empty());
        machine.hostile = Some("7,ih".into());
        let options = hostile(&machine, "/vm/x", "2").join(" ");
        assert_eq!("--hostile 7,ih --freedoms /vm/x/freedoms2", options);
    }

    #[test]
    fn boards_have_numbers_of_their_own() {
        assert_eq!("1020390a00210", serial(1));
        assert_eq!("1020390a00213", serial(4));
    }
}
