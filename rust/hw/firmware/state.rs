// SPDX-License-Identifier: GPL-2.0
//! The state in which a driver finds a GPU, and the states that it cannot work with.

use core::fmt;

use crate::sdma::engines::SdmaMask;
use crate::xgmi::XgmiPlace;

/// The value that every register of a device reads as when the device does not answer.
const GONE: u32 = u32::MAX;
/// C2PMSG_35 when the PSP's bootloader waits for a command: exactly this value.
const BOOTLOADER_READY: u32 = 1 << 31;

/// The state that registers show, before the first write to any of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservedState {
    /// RCC_CONFIG_MEMSIZE, MiB.
    pub memory: u32,
    /// RCC_IOV_FUNC_IDENTIFIER: whether it is a virtual function.
    pub is_virtual: bool,
    /// BIOS_SCRATCH_7: whether its own firmware has set the card up.
    pub is_posted: bool,
    /// C2PMSG_33: whether the firmware in its flash chip has run.
    pub is_flash_ready: bool,
    /// C2PMSG_35: the bootloader's answer.
    pub bootloader: u32,
    /// C2PMSG_81: the secure OS runs if this is not 0.
    pub secure_os: u32,
    /// C2PMSG_58: version of the secure OS, if it runs.
    pub secure_os_version: u32,
    /// SMUIO_MCM_CONFIG: whether XGMI connects the die to the CPU.
    pub is_on_cpu_link: bool,
    /// SMUIO_MCM_CONFIG: number of the die in its package.
    pub die: u32,
    /// Its place among the GPUs that XGMI connects to it.
    pub xgmi: XgmiPlace,
    /// Engines that a previous driver has left running.
    pub running: RunningEngines,
}

/// Engines that run although no driver is bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunningEngines {
    /// CP_MEC_CNTL: whether a micro engine runs.
    pub mec: bool,
    /// RLC_CNTL: whether the RLC runs.
    pub rlc: bool,
    /// F32_CNTL: the running SDMA engines.
    pub sdma: SdmaMask,
    /// IH_RB_CNTL: whether an interrupt ring is on.
    pub ih: bool,
}

impl RunningEngines {
    /// Whether any of them runs.
    pub fn any(&self) -> bool {
        self.mec || self.rlc || self.ih || !self.sdma.is_empty()
    }
}

impl fmt::Display for RunningEngines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        let mut name = |f: &mut fmt::Formatter<'_>, name: fmt::Arguments<'_>| {
            let comma = if core::mem::take(&mut first) {
                ""
            } else {
                ", "
            };
            write!(f, "{comma}{name}")
        };
        if self.mec {
            name(f, format_args!("MEC"))?;
        }
        if self.rlc {
            name(f, format_args!("RLC"))?;
        }
        for engine in self.sdma.iter() {
            name(f, format_args!("SDMA{engine}"))?;
        }
        if self.ih {
            name(f, format_args!("IH"))?;
        }
        if first {
            f.write_str("nothing")?;
        }
        Ok(())
    }
}

/// A state from which a driver can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootState {
    /// Nothing is loaded: the PSP's bootloader waits.
    Cold,
    /// The secure OS runs, and all engines are halted.
    Warm,
    /// The secure OS runs, and a previous driver left without stopping the engines that it had
    /// started.
    Dirty,
}

impl fmt::Display for BootState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cold => "cold: no firmware is loaded",
            Self::Warm => "warm: the PSP's secure OS lives, engines stand",
            Self::Dirty => "dirty: a driver went and left engines running",
        })
    }
}

/// The reason to leave a GPU alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootRefusal {
    /// It does not answer.
    Gone,
    /// It is a virtual function.
    VirtualFunction,
    /// Its own firmware has not set it up.
    Unposted,
    /// XGMI connects it to the CPU.
    OnCpuLink,
    /// Its place in a hive contradicts itself or the size of VRAM.
    ImpossibleHive(XgmiPlace),
    /// The PSP's bootloader does not wait for commands; this is its answer.
    StuckBootloader(u32),
}

impl fmt::Display for BootRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("it does not answer: in reset, or gone from the bus"),
            Self::VirtualFunction => f.write_str(
                "it is a virtual function, \
                 which this driver does not know",
            ),
            Self::Unposted => f.write_str(
                "its own firmware has not set it up (not posted): \
                     power-cycle the machine",
            ),
            Self::OnCpuLink => {
                f.write_str("it is joined to the CPU by XGMI, which this driver does not know")
            }
            Self::ImpossibleHive(place) => write!(
                f,
                "its registers contradict each other ({place}): \
                 the XGMI bridge is not whole, or is in the wrong slots"
            ),
            Self::StuckBootloader(answer) => write!(
                f,
                "the PSP's bootloader does not wait for commands (C2PMSG_35 = {answer:#010x}): \
                 power-cycle the machine"
            ),
        }
    }
}

impl ObservedState {
    /// Whether the device answers at all.
    pub fn is_present(&self) -> bool {
        self.memory != GONE
    }

    /// Whether the bootloader waits for a command.
    pub fn is_bootloader_ready(&self) -> bool {
        self.bootloader == BOOTLOADER_READY
    }

    /// The state that the registers show. Registers that only a later question needs may have any
    /// value where an earlier one refuses.
    ///
    /// # Errors
    ///
    /// The reason why the GPU is left alone.
    pub fn state(&self) -> Result<BootState, BootRefusal> {
        if !self.is_present() {
            return Err(BootRefusal::Gone);
        }
        if self.is_virtual {
            return Err(BootRefusal::VirtualFunction);
        }
        if self.memory == 0 || !self.is_posted {
            return Err(BootRefusal::Unposted);
        }
        if self.is_on_cpu_link {
            return Err(BootRefusal::OnCpuLink);
        }
        if !self.xgmi.is_possible(u64::from(self.memory) << 20) {
            return Err(BootRefusal::ImpossibleHive(self.xgmi));
        }
        match self.secure_os {
            0 if self.is_bootloader_ready() => Ok(BootState::Cold),
            0 => Err(BootRefusal::StuckBootloader(self.bootloader)),
            _ if self.running.any() => Ok(BootState::Dirty),
            _ => Ok(BootState::Warm),
        }
    }
}
