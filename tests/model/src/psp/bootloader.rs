// SPDX-License-Identifier: GPL-2.0
//! The PSP's bootloader (C2PMSG_35 and _36), which takes the parts of the secure OS one after the
//! other, and that OS's sign of life (C2PMSG_81).

use std::time::{Duration, Instant};

use super::image::{self, Bad, Kind, HEADER};
use super::{Psp, State};
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::regs::mp0;
use crate::vm::Vm;

/// C2PMSG_35, all 32 bits of it: waits for a command. With further bits set the last one was
/// refused.
pub const READY: u32 = 1 << 31;
/// Alignment of the buffer with the image, and its maximum size: C2PMSG_36 counts in these.
const UNIT: u64 = 1 << 20;
/// The time that it takes for a part.
pub(super) const LOADING: Duration = Duration::from_millis(2);
/// The time until the secure OS reports life. amdgpu looks once after 20 ms and then waits for a
/// value different from that one, so an OS that lives by then looks dead to it.
const COMING: Duration = Duration::from_millis(25);
/// C2PMSG_81 of a secure OS that lives.
const ALIVE: u32 = 1;

/// Codes of refused parts, which are undocumented: the low bytes of the secure OS's statuses.
const REFUSED_IMAGE: u32 = 0x0f;
const REFUSED_ORDER: u32 = 0x07;

/// A part that it loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Keys for the next parts.
    KeyDatabase,
    /// The driver of the PSP itself.
    SysDriver,
    /// Drivers of the rest of the chip, of its links, for debugging, and of memory with errors.
    SocDriver,
    /// See above.
    InterfaceDriver,
    /// See above.
    DebugDriver,
    /// See above.
    RasDriver,
    /// The secure OS, which takes over.
    SecureOs,
}

/// In the order of the type: command, name, kind of image.
const PARTS: [(u32, &str, Part, Kind); 7] = [
    (0x8_0000, "kdb", Part::KeyDatabase, Kind::KEY_DATABASE),
    (0x1_0000, "sys", Part::SysDriver, Kind::SYS_DRIVER),
    (0xb_0000, "soc", Part::SocDriver, Kind::SOC_DRIVER),
    (
        0xd_0000,
        "intf",
        Part::InterfaceDriver,
        Kind::INTERFACE_DRIVER,
    ),
    (0xc_0000, "dbg", Part::DebugDriver, Kind::DEBUG_DRIVER),
    (0xe_0000, "ras", Part::RasDriver, Kind::RAS_DRIVER),
    (0x2_0000, "sos", Part::SecureOs, Kind::SECURE_OS),
];

impl Part {
    /// The part with the name that faults use.
    pub fn named(name: &str) -> Option<Part> {
        PARTS.iter().find(|row| row.1 == name).map(|row| row.2)
    }

    /// The part, among those of a version, that comes with a command.
    fn of_command(parts: &[Part], command: u32) -> Option<Part> {
        parts.iter().copied().find(|part| part.row().0 == command)
    }

    fn row(self) -> (u32, &'static str, Part, Kind) {
        PARTS[self as usize]
    }
}

/// State of the bootloader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bootloader {
    /// Takes nothing: it has not come up, has failed, or its work is done.
    Closed,
    /// Waits for a command; the number of loaded parts.
    Ready(usize),
    /// Loads a part; the number of loaded parts.
    Busy(usize),
}

/// The secure OS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecureOs {
    Off,
    /// Started, not seen to live. The first look after that finds it dead in any case: on an
    /// emulated processor the driver's 20 ms can be any time of ours.
    Coming {
        since: Instant,
        looked: bool,
        version: u32,
    },
    Alive,
}

impl SecureOs {
    /// C2PMSG_81 is read. If the OS comes to life by that, returns its version.
    pub(super) fn look(&mut self) -> Option<u32> {
        let SecureOs::Coming {
            since,
            looked,
            version,
        } = self
        else {
            return None;
        };
        if !std::mem::replace(looked, true) || since.elapsed() < COMING {
            return None;
        }
        let version = *version;
        *self = SecureOs::Alive;
        Some(version)
    }
}

impl Psp {
    /// Handles a write of C2PMSG_35.
    pub(super) fn bootloader_command(
        &self,
        gpu: &Gpu,
        state: &mut State,
        value: u32,
    ) -> Result<Part> {
        let refuse = |reason: &str| gpu.regs.refuse(mp0::MP0_SMN_C2PMSG_35, value, reason);
        let Bootloader::Ready(parts) = state.bootloader else {
            return Err(refuse("the bootloader takes no command now"));
        };
        let part = Part::of_command(gpu.regs.asic.psp.parts, value)
            .ok_or_else(|| refuse("no command of the bootloader"))?;
        state.bootloader = Bootloader::Busy(parts);
        gpu.regs.set(mp0::MP0_SMN_C2PMSG_35, value & !READY);
        Ok(part)
    }

    /// Loads or refuses the part at C2PMSG_36.
    pub(super) fn load_part(&self, gpu: &Gpu, state: &mut State, part: Part) -> Result<()> {
        let Bootloader::Busy(parts) = state.bootloader else {
            return Ok(());
        };
        let (command, _, _, kind) = part.row();
        let address = u64::from(gpu.regs.get(mp0::MP0_SMN_C2PMSG_36)) * UNIT;
        let image = fetch(gpu, address)?;
        let checked = image::check(&image, self.signatures);
        let code = match (checked, state.faults.bootloader) {
            (_, Some((bad, code))) if bad == part => code,
            (Err(_), _) => REFUSED_IMAGE,
            (Ok(header), _) if header.kind != kind => REFUSED_IMAGE,
            _ if gpu.regs.asic.psp.parts.get(parts) != Some(&part) => REFUSED_ORDER,
            _ => 0,
        };
        if state.faults.bootloader_hangs == Some(part) {
            return Ok(());
        }
        let hash = image::digest(&image);
        self.trace.add(format!(
            "bl {command:#x} {:#x} {hash:016x} {code:#x}",
            image.len()
        ));
        let answer = match (code, part, checked) {
            (0, Part::SecureOs, Ok(header)) => {
                state.bootloader = Bootloader::Closed;
                if !state.faults.no_secure_os {
                    state.os = SecureOs::Coming {
                        since: Instant::now(),
                        looked: false,
                        version: header.version,
                    };
                }
                0
            }
            (0, ..) => {
                state.bootloader = Bootloader::Ready(parts + 1);
                READY
            }
            _ => {
                state.bootloader = Bootloader::Closed;
                READY | code
            }
        };
        gpu.regs.set(mp0::MP0_SMN_C2PMSG_35, answer);
        Ok(())
    }

    /// Handles a read of C2PMSG_81.
    pub(super) fn look_for_os(&self, gpu: &Gpu, state: &mut State) -> u32 {
        if let Some(version) = state.os.look() {
            for (reg, value) in [
                (mp0::MP0_SMN_C2PMSG_58, version),
                (mp0::MP0_SMN_C2PMSG_64, READY),
                (mp0::MP0_SMN_C2PMSG_81, ALIVE),
            ] {
                gpu.regs.set(reg, value);
            }
        }
        gpu.regs.get(mp0::MP0_SMN_C2PMSG_81)
    }
}

/// Reads the image at a GPU address of VMID 0. Its length is in the header; a bad header gives the
/// header alone.
fn fetch(gpu: &Gpu, address: u64) -> Result<Vec<u8>> {
    gpu.check_bar0()?;
    let vm = Vm::kernel(gpu, HubId::Mm);
    let mut image = vec![0; HEADER];
    vm.read(address, &mut image)?;
    match image::total(&image) {
        Ok(total) if total as u64 > UNIT => Err(ModelError::Other(format!(
            "the bootloader gets an image of {total:#x} bytes"
        ))),
        Ok(total) => {
            image.resize(total, 0);
            vm.read(address, &mut image)?;
            Ok(image)
        }
        Err(Bad::Magic | Bad::Size | Bad::Signature) => Ok(image),
    }
}
