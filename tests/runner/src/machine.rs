// SPDX-License-Identifier: GPL-2.0
//! The machine that a guest runs on, and the files that the guest finds.

use std::path::PathBuf;

use serde::de::value::{Error as WordError, StrDeserializer};
use serde::de::IntoDeserializer;
use serde::Deserialize;

use crate::size::Size;

/// A guest's machine. The default is the usual one; a boot of the plan and the settings of
/// `scripts/guest` say how theirs differs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Machine {
    /// The driver that the guest loads.
    pub driver: Driver,
    /// The chip of all devices, or one for each with commas between them: `rkfd-model --help`;
    /// without it the model's default.
    pub asic: Option<String>,
    /// XCCs of that chip, those that are fused off included; without it the model's default.
    pub xccs: Option<u32>,
    /// XCCs that are fused off, a bit each.
    pub harvested: u32,
    /// How far the board's firmware has come. With it the guest has firmware files.
    pub firmware: Option<Firmware>,
    /// The maker of these firmware files.
    pub files: Files,
    pub memory: Size,
    pub vram: Size,
    /// The size of BAR0; without it the smallest in which VRAM fits.
    pub bar0: Option<Size>,
    /// MC address of VRAM's first byte, in units of 16 MiB; without it that of a card.
    pub fb_base: Option<u32>,
    /// The GPU's place in a hive of which it is the only one that is there: `NODE/NODES[:MIB]`; or
    /// `all[:MIB]`, which joins all GPUs to one.
    pub hive: Option<String>,
    /// The PCI device id, hexadecimal; without it an MI210's.
    pub device: Option<String>,
    /// The number of the die in its package.
    pub die: u32,
    /// Parts that the PCI function has, or with `no-` in front lacks, unlike the model's default:
    /// `rkfd-model --help`.
    pub pci: Vec<String>,
    /// The times that the device's engines take: `rkfd-model --help`.
    pub timing: Option<String>,
    /// The size of a disk of the guest's own, to hibernate to. A machine that has hibernated is
    /// started again, with new models.
    pub swap: Option<Size>,
    /// How many devices there are, each with a model of its own.
    pub gpus: u32,
    pub cpus: u32,
    pub chipset: Chipset,
    /// More of a kernel command line.
    pub append: String,
    /// The sets of ROCm clients (`scripts/suite`) that the guest finds in `/suite`.
    pub suites: Vec<String>,
    /// The guest is not told that it is one: its processor lacks the hypervisor's bit.
    pub bare: bool,
    /// An Intel IOMMU gives the device only what the driver maps.
    pub iommu: bool,
    /// The devices are behind a PCI Express switch, through which they reach each other's VRAM.
    pub switch: bool,
    /// Each device is behind a root port of its own, as in a real machine, and has a link.
    pub ports: bool,
    /// Two NUMA nodes, each with half of the memory and the processors. Every other device is on
    /// the second one.
    pub numa: bool,
    /// One emulated processor, whose clock counts instructions: each takes a nanosecond.
    pub icount: bool,
    /// A guest that sleeps (suspend to RAM) is woken within some seconds.
    pub wakes: bool,
    /// The guest's kernel is in `/rkfd/kexec`, for kexec.
    pub kexec: bool,
    /// KFDTest is in `/rkfd/kfdtest`.
    pub kfdtest: bool,
    /// CRIU and its plugin are in `/rkfd/criu`.
    pub criu: bool,
    /// The Debian packages of this checkout are in `/rkfd/packages`, and there is a disk with a
    /// Debian to install them on.
    pub packages: bool,
    /// Python, and with it rkfd-top.
    pub python: bool,
    /// The freedoms of hardware that the models take: `rkfd-model --hostile`.
    pub hostile: Option<String>,
    /// The device model.
    #[serde(skip)]
    pub model: Model,
    /// Files and folders that appear in `/rkfd/add`.
    #[serde(skip)]
    pub add: Vec<PathBuf>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            driver: Driver::Rkfd,
            asic: None,
            xccs: None,
            harvested: 0,
            firmware: None,
            files: Files::Ours,
            memory: Size::gib(3),
            vram: Size::gib(4),
            bar0: None,
            fb_base: None,
            hive: None,
            device: None,
            die: 0,
            pci: Vec::new(),
            timing: None,
            swap: None,
            gpus: 1,
            cpus: 2,
            chipset: Chipset::Q35,
            append: String::new(),
            suites: Vec::new(),
            bare: false,
            iommu: false,
            switch: false,
            ports: false,
            numa: false,
            icount: false,
            wakes: false,
            kexec: false,
            kfdtest: false,
            criu: false,
            packages: false,
            python: false,
            hostile: None,
            model: Model::Own,
            add: Vec::new(),
        }
    }
}

/// The driver that a guest loads. Debian's amdgpu wants a board with a BIOS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Driver {
    #[serde(rename = "rkfd")]
    Rkfd,
    #[serde(rename = "amdgpu")]
    Amdgpu,
    /// rkfd; amdgpu is there to be loaded by hand.
    #[serde(rename = "rkfd+amdgpu")]
    Both,
}

/// How far a board's firmware has come: `rkfd-model --help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Firmware {
    Warm,
    Cold,
    Dirty,
    Unposted,
    Stuck,
    Open,
}

/// The maker of firmware files. The vendor's have signatures that the model does not check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Files {
    Ours,
    Vendor,
}

/// QEMU's machine. With `pc` the device's atomics reach the guest's memory, with `q35` the device
/// is on the root bus and they do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Chipset {
    Q35,
    Pc,
}

/// The program that plays the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Model {
    /// That of this checkout.
    Own,
    /// No device at all.
    None,
    /// Another one, by its path in the sysroot.
    Other(String),
}

impl Firmware {
    pub fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Cold => "cold",
            Self::Dirty => "dirty",
            Self::Unposted => "unposted",
            Self::Stuck => "stuck",
            Self::Open => "open",
        }
    }
}

impl Files {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Vendor => "vendor",
        }
    }
}

impl Chipset {
    pub fn name(self) -> &'static str {
        match self {
            Self::Q35 => "q35",
            Self::Pc => "pc",
        }
    }
}

impl Driver {
    pub fn name(self) -> &'static str {
        match self {
            Self::Rkfd => "rkfd",
            Self::Amdgpu => "amdgpu",
            Self::Both => "rkfd+amdgpu",
        }
    }
}

/// A value of one of these types by its name.
pub fn word<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    let deserializer: StrDeserializer<'a, WordError> = text.into_deserializer();
    T::deserialize(deserializer).map_err(|error| error.to_string())
}

impl Machine {
    /// The firmware that the board has. In a virtual machine, amdgpu resets a GPU whose secure OS
    /// runs, and fails.
    pub fn firmware(&self) -> Option<Firmware> {
        match (self.firmware, self.driver) {
            (None, Driver::Amdgpu | Driver::Both) => Some(Firmware::Open),
            (firmware, _) => firmware,
        }
    }

    /// The chip of a GPU, counted from 1, if it is not the model's default.
    pub fn chip(&self, gpu: u32) -> Option<&str> {
        let mut chips = self.asic.as_deref()?.split(',');
        let first = chips.next();
        (1..gpu).fold(first, |chip, _| chips.next().or(chip))
    }

    /// The processors; one whose clock counts instructions is alone.
    pub fn cpus(&self) -> u32 {
        if self.icount {
            1
        } else {
            self.cpus
        }
    }

    /// How the machine differs from the usual one, as `scripts/test --list` prints it.
    pub fn differences(&self) -> Vec<String> {
        let usual = Self::default();
        let mut out = Vec::new();
        let mut value = |differs: bool, name: &str, value: &dyn ToString| {
            if differs {
                out.push(format!("--{name} {}", value.to_string()));
            }
        };
        value(self.driver != usual.driver, "driver", &self.driver.name());
        if let Some(firmware) = self.firmware {
            value(true, "firmware", &firmware.name());
        }
        if let Some(asic) = &self.asic {
            value(true, "asic", asic);
        }
        if let Some(xccs) = self.xccs {
            value(true, "xccs", &xccs.to_string());
        }
        let harvested = format!("{:#x}", self.harvested);
        value(self.harvested != usual.harvested, "harvested", &harvested);
        value(self.files != usual.files, "files", &self.files.name());
        value(self.memory != usual.memory, "memory", &self.memory);
        value(self.vram != usual.vram, "vram", &self.vram);
        if let Some(hostile) = &self.hostile {
            value(true, "hostile", hostile);
        }
        for (name, size) in [("bar0", &self.bar0), ("swap", &self.swap)] {
            if let Some(size) = size {
                value(true, name, size);
            }
        }
        if let Some(units) = self.fb_base {
            value(true, "fb-base", &format!("{units:#x}"));
        }
        for (name, text) in [("hive", &self.hive), ("device", &self.device)] {
            if let Some(text) = text {
                value(true, name, text);
            }
        }
        value(self.die != usual.die, "die", &self.die.to_string());
        for part in &self.pci {
            value(true, "pci", part);
        }
        if let Some(timing) = &self.timing {
            value(true, "timing", timing);
        }
        value(self.gpus != usual.gpus, "gpus", &self.gpus);
        value(self.cpus != usual.cpus, "cpus", &self.cpus);
        let chipset = self.chipset.name();
        value(self.chipset != usual.chipset, "machine", &chipset);
        value(!self.append.is_empty(), "append", &self.append);
        for suite in &self.suites {
            value(true, "suite", suite);
        }
        for (is, name) in [
            (self.bare, "bare"),
            (self.iommu, "iommu"),
            (self.switch, "switch"),
            (self.ports, "ports"),
            (self.numa, "numa"),
            (self.icount, "icount"),
            (self.wakes, "wakes"),
            (self.kexec, "kexec"),
            (self.kfdtest, "kfdtest"),
            (self.criu, "criu"),
            (self.packages, "packages"),
            (self.python, "python"),
        ] {
            if is {
                out.push(format!("--{name}"));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_machine_differs_in_nothing() {
        assert!(Machine::default().differences().is_empty());
        let machine: Machine = toml::from_str("memory = \"4G\"\niommu = true").unwrap();
        assert_eq!(["--memory 4G", "--iommu"], *machine.differences());
        let machine: Machine = toml::from_str("fb-base = 0x8000\npci = [\"flr\"]").unwrap();
        assert_eq!(["--fb-base 0x8000", "--pci flr"], *machine.differences());
        let machine: Machine = toml::from_str("asic = \"gfx942\"").unwrap();
        assert_eq!([Some("gfx942"); 2], [1, 2].map(|gpu| machine.chip(gpu)));
        assert_eq!(["--asic gfx942"], *machine.differences());
        let machine: Machine = toml::from_str("xccs = 2\nharvested = 1").unwrap();
        assert_eq!(["--xccs 2", "--harvested 0x1"], *machine.differences());
        let machine: Machine = toml::from_str("hostile = \"58,ih\"").unwrap();
        assert_eq!(["--hostile 58,ih"], *machine.differences());
    }

    #[test]
    fn unknown_words_are_refused() {
        assert_eq!(Ok(Driver::Both), word("rkfd+amdgpu"));
        let error = word::<Firmware>("warmer").unwrap_err();
        assert!(
            error.contains("warmer") && error.contains("cold"),
            "{error}"
        );
        assert!(toml::from_str::<Machine>("chipset = \"i440\"").is_err());
        assert!(toml::from_str::<Machine>("memroy = \"4G\"").is_err());
    }

    #[test]
    fn amdgpu_wants_open_firmware() {
        let mut machine = Machine {
            driver: Driver::Amdgpu,
            ..Machine::default()
        };
        assert_eq!(Some(Firmware::Open), machine.firmware());
        machine.firmware = Some(Firmware::Cold);
        assert_eq!(Some(Firmware::Cold), machine.firmware());
    }
}
