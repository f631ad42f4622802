// SPDX-License-Identifier: GPL-2.0
//! Messages to the SMU (MP1, 13.0) and its answers (amdgpu: aldebaran_ppsmc.h,
//! smu_v13_0_6_ppsmc.h, smu_cmn.c).

mod attributes;
pub mod interface;
pub mod limits;
pub mod link;
pub mod metrics;
pub mod readings;
pub mod socket;

use core::fmt;

use crate::bits::Field;
use interface::SmuInterface;

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

/// A message, with its argument if it has one. Not every interface has each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmuMessage {
    /// Version of the firmware.
    GetSmuVersion,
    /// Version of the interface between drivers and firmware.
    GetDriverIfVersion,
    /// Resets the whole GPU except for its PCI function (mode 1). All firmware that a driver has
    /// loaded, and the contents of VRAM, are lost.
    GfxDriverReset,
    /// Turns on all automatic features that the limits ask for: those of the driver's table, or
    /// the firmware's own.
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
    /// Writes its measurements to that page: [`socket::SocketMetrics`].
    GetMetricsTable,
    /// Writes to that page what does not change: [`socket::board_millivolts`].
    GetStaticMetricsTable,
    /// Asks for one of a clock's levels: MHz ([`megahertz`]), or the number of the highest level
    /// for [`HIGHEST_LEVEL`].
    GetDpmFreqByIndex(SmuClock, u8),
    /// Asks for the lowest clock of graphics, MHz.
    GetMinGfxDpmFreq,
    /// Asks for the highest clock of graphics, MHz.
    GetMaxGfxDpmFreq,
    /// Asks for the limit of the socket's power, W.
    GetPptLimit,
    /// Measures the droop of the supply of graphics.
    RunDcBtc,
    /// Measures the board's own power once, and subtracts it from then on.
    BoardPowerCalibration,
    /// Announces that the driver unloads. The last message.
    PrepareMp1ForUnload,
}

impl SmuMessage {
    /// Its number in `interface`; `None` if that does not have it.
    pub const fn number(self, interface: SmuInterface) -> Option<u32> {
        match interface {
            SmuInterface::V13_0_2 => self.number_13_0_2(),
            SmuInterface::V13_0_6 => self.number_13_0_6(),
        }
    }

    const fn number_13_0_2(self) -> Option<u32> {
        Some(match self {
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
            Self::GetPptLimit => 0x23,
            Self::PrepareMp1ForUnload => 0x24,
            Self::RunDcBtc => 0x27,
            Self::BoardPowerCalibration => 0x43,
            Self::GetMetricsTable
            | Self::GetStaticMetricsTable
            | Self::GetMinGfxDpmFreq
            | Self::GetMaxGfxDpmFreq => return None,
        })
    }

    const fn number_13_0_6(self) -> Option<u32> {
        Some(match self {
            Self::GetSmuVersion => 0x2,
            Self::GfxDriverReset => 0x3,
            Self::GetDriverIfVersion => 0x4,
            Self::EnableAllSmuFeatures => 0x5,
            Self::DisableAllSmuFeatures => 0x6,
            Self::GetMetricsTable => 0x9,
            Self::GetEnabledSmuFeaturesLow => 0xb,
            Self::GetEnabledSmuFeaturesHigh => 0xc,
            Self::SetDriverDramAddrHigh(_) => 0xd,
            Self::SetDriverDramAddrLow(_) => 0xe,
            Self::SetToolsDramAddrHigh(_) => 0xf,
            Self::SetToolsDramAddrLow(_) => 0x10,
            Self::GetDpmFreqByIndex(..) => 0x17,
            Self::GetPptLimit => 0x19,
            Self::GetMinGfxDpmFreq => 0x32,
            Self::GetMaxGfxDpmFreq => 0x33,
            Self::PrepareMp1ForUnload => 0x34,
            Self::GetStaticMetricsTable => 0x59,
            Self::TransferTableSmu2Dram(_)
            | Self::TransferTableDram2Smu(_)
            | Self::RunDcBtc
            | Self::BoardPowerCalibration => return None,
        })
    }

    /// Its argument in `interface`, 0 if it has none.
    pub const fn argument(self, interface: SmuInterface) -> u32 {
        match self {
            Self::SetDriverDramAddrHigh(half)
            | Self::SetDriverDramAddrLow(half)
            | Self::SetToolsDramAddrHigh(half)
            | Self::SetToolsDramAddrLow(half) => half,
            Self::TransferTableSmu2Dram(table) | Self::TransferTableDram2Smu(table) => {
                table.number()
            }
            Self::GetDpmFreqByIndex(clock, level) => {
                CLOCK.put(clock.number(interface)) | LEVEL.put(level as u32)
            }
            Self::GfxDriverReset => MODE_1,
            Self::GetSmuVersion
            | Self::GetDriverIfVersion
            | Self::EnableAllSmuFeatures
            | Self::DisableAllSmuFeatures
            | Self::GetEnabledSmuFeaturesLow
            | Self::GetEnabledSmuFeaturesHigh
            | Self::GetMetricsTable
            | Self::GetStaticMetricsTable
            | Self::GetMinGfxDpmFreq
            | Self::GetMaxGfxDpmFreq
            | Self::GetPptLimit
            | Self::RunDcBtc
            | Self::BoardPowerCalibration
            | Self::PrepareMp1ForUnload => 0,
        }
    }

    /// It with its number in `interface`, for the log.
    pub const fn shown(self, interface: SmuInterface) -> ShownMessage {
        ShownMessage(self, interface)
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
            Self::GetMetricsTable => "GetMetricsTable",
            Self::GetStaticMetricsTable => "GetStaticMetricsTable",
            Self::GetDpmFreqByIndex(..) => "GetDpmFreqByIndex",
            Self::GetMinGfxDpmFreq => "GetMinGfxDpmFreq",
            Self::GetMaxGfxDpmFreq => "GetMaxGfxDpmFreq",
            Self::GetPptLimit => "GetPptLimit",
            Self::RunDcBtc => "RunDcBtc",
            Self::BoardPowerCalibration => "BoardPowerCalibration",
            Self::PrepareMp1ForUnload => "PrepareMp1ForUnload",
        }
    }
}

/// A message with its number in an interface.
#[derive(Clone, Copy, Debug)]
pub struct ShownMessage(SmuMessage, SmuInterface);

impl fmt::Display for ShownMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(message, interface) = *self;
        f.write_str(message.name())?;
        match message.number(interface) {
            Some(number) => write!(f, " ({number:#x})"),
            None => Ok(()),
        }
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
    /// Its number in `interface`. 13.0.2 begins with graphics, 13.0.6 with V and D.
    pub const fn number(self, interface: SmuInterface) -> u32 {
        match (interface, self) {
            (SmuInterface::V13_0_2, Self::Soc) => 3,
            (SmuInterface::V13_0_2, Self::Memory) => 4,
            (SmuInterface::V13_0_2, Self::Fabric) => 5,
            (SmuInterface::V13_0_6, Self::Soc) => 2,
            (SmuInterface::V13_0_6, Self::Memory) => 3,
            (SmuInterface::V13_0_6, Self::Fabric) => 4,
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
    /// Whether any feature is on.
    pub const fn are_any(self) -> bool {
        self.0 != 0
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

    /// Whether it is at least `first`.
    pub(crate) const fn is_since(self, first: u32) -> bool {
        self.0 >= first
    }

    /// Whether it is at least the one of `firsts` that is of the same program. The highest byte is
    /// the program: here 0 and 7, which count on their own.
    pub(crate) const fn is_since_of(self, firsts: [u32; 2]) -> bool {
        let [first, other] = firsts;
        match self.0.to_be_bytes() {
            [0, ..] => self.is_since(first),
            [7, ..] => self.is_since(other),
            _ => false,
        }
    }
}

impl fmt::Display for SmuVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, major, minor, revision] = self.0.to_be_bytes();
        write!(f, "{major}.{minor}.{revision}")
    }
}
