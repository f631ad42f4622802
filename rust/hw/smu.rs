// SPDX-License-Identifier: GPL-2.0
//! Messages to the SMU (MP1, 13.0) and its answers (amdgpu: aldebaran_ppsmc.h, smu_cmn.c).

use core::fmt;

/// SMN address of the register whose lowest bit says that firmware runs (MP1_FIRMWARE_FLAGS).
pub const FIRMWARE_FLAGS: u32 = 0x03b1_0024;

/// A message, with its argument if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Version of the firmware.
    GetSmuVersion,
    /// Version of what drivers and firmware have agreed on.
    GetDriverIfVersion,
    /// Everything that it does by itself ends.
    DisableAllSmuFeatures,
    /// The driver goes. The last message.
    PrepareMp1ForUnload,
}

impl Message {
    /// Its number.
    pub const fn number(self) -> u32 {
        match self {
            Self::GetSmuVersion => 0x2,
            Self::GetDriverIfVersion => 0x4,
            Self::DisableAllSmuFeatures => 0x8,
            Self::PrepareMp1ForUnload => 0x24,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?} ({:#x})", self.number())
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

/// Version of the firmware, as GetSmuVersion says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, major, minor, revision] = self.0.to_be_bytes();
        write!(f, "{major}.{minor}.{revision}")
    }
}
