// SPDX-License-Identifier: GPL-2.0
//! Messages to the SMU (MP1, 13.0) and its answers (amdgpu: aldebaran_ppsmc.h, smu_cmn.c).

pub mod link;
pub mod metrics;

use core::fmt;

use crate::bits::Field;

/// SMN address of the register whose lowest bit says that firmware runs (MP1_FIRMWARE_FLAGS).
pub const FIRMWARE_FLAGS: u32 = 0x03b1_0024;

/// Argument of GfxDriverReset.
const MODE_1: u32 = 1;

/// A message, with its argument if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Version of the firmware.
    GetSmuVersion,
    /// Version of what drivers and firmware have agreed on.
    GetDriverIfVersion,
    /// The whole GPU is reset, but for its PCI function (mode 1): all firmware is gone then, and what VRAM has.
    GfxDriverReset,
    /// Everything that it does by itself ends.
    DisableAllSmuFeatures,
    /// Which of the first 32 features are on: [`Features`].
    GetEnabledSmuFeaturesLow,
    /// MC address of the page for tables: high half.
    SetDriverDramAddrHigh(u32),
    /// Low half.
    SetDriverDramAddrLow(u32),
    /// A table is written to that page.
    TransferTableSmu2Dram(Table),
    /// The driver goes. The last message.
    PrepareMp1ForUnload,
}

impl Message {
    /// Its number.
    pub const fn number(self) -> u32 {
        match self {
            Self::GetSmuVersion => 0x2,
            Self::GfxDriverReset => 0x3,
            Self::GetDriverIfVersion => 0x4,
            Self::DisableAllSmuFeatures => 0x8,
            Self::GetEnabledSmuFeaturesLow => 0xd,
            Self::SetDriverDramAddrHigh(_) => 0xf,
            Self::SetDriverDramAddrLow(_) => 0x10,
            Self::TransferTableSmu2Dram(_) => 0x13,
            Self::PrepareMp1ForUnload => 0x24,
        }
    }

    /// Its argument, 0 for one without.
    pub const fn argument(self) -> u32 {
        match self {
            Self::SetDriverDramAddrHigh(half) | Self::SetDriverDramAddrLow(half) => half,
            Self::TransferTableSmu2Dram(table) => table.number(),
            Self::GfxDriverReset => MODE_1,
            Self::GetSmuVersion
            | Self::GetDriverIfVersion
            | Self::DisableAllSmuFeatures
            | Self::GetEnabledSmuFeaturesLow
            | Self::PrepareMp1ForUnload => 0,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::GetSmuVersion => "GetSmuVersion",
            Self::GfxDriverReset => "GfxDriverReset",
            Self::GetDriverIfVersion => "GetDriverIfVersion",
            Self::DisableAllSmuFeatures => "DisableAllSmuFeatures",
            Self::GetEnabledSmuFeaturesLow => "GetEnabledSmuFeaturesLow",
            Self::SetDriverDramAddrHigh(_) => "SetDriverDramAddrHigh",
            Self::SetDriverDramAddrLow(_) => "SetDriverDramAddrLow",
            Self::TransferTableSmu2Dram(_) => "TransferTableSmu2Dram",
            Self::PrepareMp1ForUnload => "PrepareMp1ForUnload",
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:#x})", self.name(), self.number())
    }
}

/// A table that the SMU gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// What it measures: [`metrics::Metrics`].
    Metrics,
}

impl Table {
    /// Its number.
    pub const fn number(self) -> u32 {
        match self {
            Self::Metrics => 4,
        }
    }
}

/// What the SMU does by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features(pub u32);

impl Features {
    const DPM_GFXCLK: Field = Field::bit(1);
    const DPM_UCLK: Field = Field::bit(2);

    /// It sets the graphics clock.
    pub const fn sets_graphics_clock(self) -> bool {
        Self::DPM_GFXCLK.is_set(self.0)
    }

    /// It sets the memory clock.
    pub const fn sets_memory_clock(self) -> bool {
        Self::DPM_UCLK.is_set(self.0)
    }
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// None yet.
    None,
    /// Done.
    Ok,
    /// It went wrong.
    Failed,
    /// There is no such message.
    Unknown,
    /// Something has to be done before.
    Prerequisite,
    /// It is at something else.
    Busy,
    /// What no firmware answers.
    Other(u32),
}

impl From<u32> for Answer {
    fn from(word: u32) -> Self {
        match word {
            0 => Self::None,
            1 => Self::Ok,
            0xff => Self::Failed,
            0xfe => Self::Unknown,
            0xfd => Self::Prerequisite,
            0xfc => Self::Busy,
            _ => Self::Other(word),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no answer"),
            Self::Ok => f.write_str("done"),
            Self::Failed => f.write_str("it failed"),
            Self::Unknown => f.write_str("unknown message"),
            Self::Prerequisite => f.write_str("something has to come before"),
            Self::Busy => f.write_str("it is busy"),
            Self::Other(word) => write!(f, "answer {word:#x}"),
        }
    }
}

/// Voltage of graphics, mV, by what the regulator calls it (amdgpu: smu_v13_0_get_gfx_vdd, which takes the same eight bits). 0 for codes beyond
/// the last, by which it is off.
pub const fn graphics_millivolts(code: u32) -> u32 {
    // 1550 mV, and 6.25 less for each step.
    6200u32.saturating_sub((code & 0xff) * 25) / 4
}

/// Version of the firmware, as GetSmuVersion says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, major, minor, revision] = self.0.to_be_bytes();
        write!(f, "{major}.{minor}.{revision}")
    }
}
