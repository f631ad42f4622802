// SPDX-License-Identifier: GPL-2.0
//! Messages to the SMU (MP1, 13.0) and its answers (amdgpu: aldebaran_ppsmc.h, smu_cmn.c).

pub mod limits;
pub mod link;
pub mod metrics;

use core::fmt;

use crate::bits::{Field, Field64};

/// SMN address of the register whose lowest bit says that firmware runs (MP1_FIRMWARE_FLAGS).
pub const FIRMWARE_FLAGS: u32 = 0x03b1_0024;

/// Bytes of the memory for traces.
pub const TRACE_BYTES: u64 = 0x1_9000;
/// Level in GetDpmFreqByIndex that asks for the number of the highest level.
pub const HIGHEST_LEVEL: u8 = 0xff;

/// Argument of GfxDriverReset.
const MODE_1: u32 = 1;
/// Argument of GetDpmFreqByIndex: the clock.
const CLOCK: Field = Field::new(31, 16);
const LEVEL: Field = Field::new(15, 0);
/// The frequency in its answer, MHz; the rest says whether the levels are fine grained.
const FREQUENCY: Field = Field::new(30, 0);
/// The last firmware that does not know BoardPowerCalibration (amdgpu: aldebaran_run_board_btc).
const LAST_WITHOUT_CALIBRATION: u32 = 0x0044_1d00;

/// A message, with its argument if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmuMessage {
    /// Version of the firmware.
    GetSmuVersion,
    /// Version of the interface between drivers and firmware.
    GetDriverIfVersion,
    /// Resets the whole GPU except for its PCI function (mode 1). All firmware and the contents of
    /// VRAM are lost.
    GfxDriverReset,
    /// Turns on all automatic features that the table of limits asks for.
    EnableAllSmuFeatures,
    /// Turns off all automatic features.
    DisableAllSmuFeatures,
    /// Asks which of the first 32 features are on: the low half of [`SmuFeatures`].
    GetEnabledSmuFeaturesLow,
    /// The high half.
    GetEnabledSmuFeaturesHigh,
    /// MC address of the page for tables: high half.
    SetDriverDramAddrHigh(u32),
    /// Low half.
    SetDriverDramAddrLow(u32),
    /// MC address of the memory for its traces, [`TRACE_BYTES`], which tools read: high half.
    SetToolsDramAddrHigh(u32),
    /// Low half.
    SetToolsDramAddrLow(u32),
    /// Writes a table to that page.
    TransferTableSmu2Dram(SmuTable),
    /// Reads a table from that page.
    TransferTableDram2Smu(SmuTable),
    /// Asks for one of a clock's levels: MHz ([`megahertz`]), or the number of the highest level
    /// for [`HIGHEST_LEVEL`].
    GetDpmFreqByIndex(SmuClock, u8),
    /// Measures the droop of the supply of graphics.
    RunDcBtc,
    /// Measures the board's own power once, and subtracts it from then on.
    BoardPowerCalibration,
    /// Announces that the driver unloads. The last message.
    PrepareMp1ForUnload,
}

impl SmuMessage {
    /// Its number.
    pub const fn number(self) -> u32 {
        match self {
            Self::GetSmuVersion => 0x2,
            Self::GfxDriverReset => 0x3,
            Self::GetDriverIfVersion => 0x4,
            Self::EnableAllSmuFeatures => 0x7,
            Self::DisableAllSmuFeatures => 0x8,
            Self::GetEnabledSmuFeaturesLow => 0xd,
            Self::GetEnabledSmuFeaturesHigh => 0xe,
            Self::SetDriverDramAddrHigh(_) => 0xf,
            Self::SetDriverDramAddrLow(_) => 0x10,
            Self::SetToolsDramAddrHigh(_) => 0x11,
            Self::SetToolsDramAddrLow(_) => 0x12,
            Self::TransferTableSmu2Dram(_) => 0x13,
            Self::TransferTableDram2Smu(_) => 0x14,
            Self::GetDpmFreqByIndex(..) => 0x1e,
            Self::PrepareMp1ForUnload => 0x24,
            Self::RunDcBtc => 0x27,
            Self::BoardPowerCalibration => 0x43,
        }
    }

    /// Its argument, 0 if it has none.
    pub const fn argument(self) -> u32 {
        match self {
            Self::SetDriverDramAddrHigh(half)
            | Self::SetDriverDramAddrLow(half)
            | Self::SetToolsDramAddrHigh(half)
            | Self::SetToolsDramAddrLow(half) => half,
            Self::TransferTableSmu2Dram(table) | Self::TransferTableDram2Smu(table) => {
                table.number()
            }
            Self::GetDpmFreqByIndex(clock, level) => {
                CLOCK.put(clock.number()) | LEVEL.put(level as u32)
            }
            Self::GfxDriverReset => MODE_1,
            Self::GetSmuVersion
            | Self::GetDriverIfVersion
            | Self::EnableAllSmuFeatures
            | Self::DisableAllSmuFeatures
            | Self::GetEnabledSmuFeaturesLow
            | Self::GetEnabledSmuFeaturesHigh
            | Self::RunDcBtc
            | Self::BoardPowerCalibration
            | Self::PrepareMp1ForUnload => 0,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::GetSmuVersion => "GetSmuVersion",
            Self::GfxDriverReset => "GfxDriverReset",
            Self::GetDriverIfVersion => "GetDriverIfVersion",
            Self::EnableAllSmuFeatures => "EnableAllSmuFeatures",
            Self::DisableAllSmuFeatures => "DisableAllSmuFeatures",
            Self::GetEnabledSmuFeaturesLow => "GetEnabledSmuFeaturesLow",
            Self::GetEnabledSmuFeaturesHigh => "GetEnabledSmuFeaturesHigh",
            Self::SetDriverDramAddrHigh(_) => "SetDriverDramAddrHigh",
            Self::SetDriverDramAddrLow(_) => "SetDriverDramAddrLow",
            Self::SetToolsDramAddrHigh(_) => "SetToolsDramAddrHigh",
            Self::SetToolsDramAddrLow(_) => "SetToolsDramAddrLow",
            Self::TransferTableSmu2Dram(_) => "TransferTableSmu2Dram",
            Self::TransferTableDram2Smu(_) => "TransferTableDram2Smu",
            Self::GetDpmFreqByIndex(..) => "GetDpmFreqByIndex",
            Self::RunDcBtc => "RunDcBtc",
            Self::BoardPowerCalibration => "BoardPowerCalibration",
            Self::PrepareMp1ForUnload => "PrepareMp1ForUnload",
        }
    }
}

impl fmt::Display for SmuMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:#x})", self.name(), self.number())
    }
}

/// A table that the SMU writes or reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmuTable {
    /// The limits in which it works: [`limits::SmuLimits`].
    Limits,
    /// Its measurements: [`metrics::SmuMetrics`].
    Metrics,
}

impl SmuTable {
    /// Its number.
    pub const fn number(self) -> u32 {
        match self {
            Self::Limits => 0,
            Self::Metrics => 4,
        }
    }
}

/// A clock whose levels can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmuClock {
    /// The clock of SOC.
    Soc,
    /// The clock of memory.
    Memory,
    /// The clock of the fabric.
    Fabric,
}

impl SmuClock {
    /// Its number.
    pub const fn number(self) -> u32 {
        match self {
            Self::Soc => 3,
            Self::Memory => 4,
            Self::Fabric => 5,
        }
    }
}

/// The frequency in an answer to GetDpmFreqByIndex, MHz.
pub const fn megahertz(result: u32) -> u32 {
    FREQUENCY.get(result)
}

/// The automatic features of the SMU, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmuFeatures(pub u64);

impl SmuFeatures {
    const DPM_GFXCLK: Field64 = Field64::bit(1);
    const DPM_UCLK: Field64 = Field64::bit(2);

    /// Whether any feature is on.
    pub const fn are_any(self) -> bool {
        self.0 != 0
    }

    /// Whether it sets the graphics clock.
    pub const fn sets_graphics_clock(self) -> bool {
        Self::DPM_GFXCLK.is_set(self.0)
    }

    /// Whether it sets the memory clock.
    pub const fn sets_memory_clock(self) -> bool {
        Self::DPM_UCLK.is_set(self.0)
    }
}

/// An answer to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmuAnswer {
    /// No answer yet.
    None,
    /// Done.
    Ok,
    /// The message failed.
    Failed,
    /// The firmware does not know the message.
    Unknown,
    /// Something else has to be done first.
    Prerequisite,
    /// The firmware is busy with something else.
    Busy,
    /// A value that no firmware answers.
    Other(u32),
}

impl From<u32> for SmuAnswer {
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

impl fmt::Display for SmuAnswer {
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

/// Voltage of graphics, mV, for a code of the regulator (amdgpu: smu_v13_0_get_gfx_vdd, which takes
/// the same eight bits). 0 for codes beyond the last one, which turn it off.
pub const fn graphics_millivolts(code: u32) -> u32 {
    // 1550 mV, and 6.25 less for each step.
    6200u32.saturating_sub((code & 0xff) * 25) / 4
}

/// Version of the firmware, in the form of GetSmuVersion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmuVersion(pub u32);

impl SmuVersion {
    /// Whether it calibrates a board's power.
    pub const fn calibrates_board(self) -> bool {
        self.0 > LAST_WITHOUT_CALIBRATION
    }
}

impl fmt::Display for SmuVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, major, minor, revision] = self.0.to_be_bytes();
        write!(f, "{major}.{minor}.{revision}")
    }
}
