// SPDX-License-Identifier: GPL-2.0
//! What differs between the SMUs of two chips: the messages that end and measure, and the forms of
//! their tables (amdgpu: aldebaran_ppt.c, smu_v13_0_6_ppt.c).

use super::{metrics, socket, SmuFeatures, SmuMessage, SmuTable};
use crate::bits::Field64;

/// The interface between drivers and the SMU's firmware, by the version of the SMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmuInterface {
    /// MI200. A driver loads the firmware, and uploads a table of limits from the card's BIOS.
    V13_0_2,
    /// MI300. The firmware is in the card's flash chip, runs from power-up on, and has limits of
    /// its own.
    V13_0_6,
}

/// The messages with which a driver leaves the SMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmuFarewell {
    /// Before the RLC stops.
    pub before: SmuMessage,
    /// After that.
    pub after: Option<SmuMessage>,
}

impl SmuInterface {
    /// SMN address of the register whose lowest bit says that firmware runs (MP1_FIRMWARE_FLAGS).
    pub const fn firmware_flags(self) -> u32 {
        match self {
            Self::V13_0_2 => 0x03b1_0024,
            Self::V13_0_6 => 0x03b1_0028,
        }
    }

    /// Whether the driver uploads a table of limits: [`super::limits::SmuLimits`].
    pub const fn takes_limits(self) -> bool {
        matches!(self, Self::V13_0_2)
    }

    /// The message for measurements.
    pub const fn measure(self) -> SmuMessage {
        match self {
            Self::V13_0_2 => SmuMessage::TransferTableSmu2Dram(SmuTable::Metrics),
            Self::V13_0_6 => SmuMessage::GetMetricsTable,
        }
    }

    /// How often a driver asks for measurements, a millisecond apart, until there are some. Those
    /// of 13.0.6 are not ready at first (amdgpu: smu_v13_0_6_setup_driver_pptable).
    pub const fn attempts(self) -> u32 {
        match self {
            Self::V13_0_2 => 1,
            Self::V13_0_6 => 100,
        }
    }

    /// Dwords of the table of measurements.
    pub const fn table_dwords(self) -> usize {
        match self {
            Self::V13_0_2 => metrics::TABLE_DWORDS,
            Self::V13_0_6 => socket::TABLE_DWORDS,
        }
    }

    /// Bytes of the form of it that tools read.
    pub const fn gpu_metrics_bytes(self) -> usize {
        match self {
            Self::V13_0_2 => metrics::GPU_METRICS_BYTES,
            Self::V13_0_6 => socket::GPU_METRICS_BYTES,
        }
    }

    /// Whether the PCI Express link is only in registers.
    pub const fn takes_link(self) -> bool {
        matches!(self, Self::V13_0_2)
    }

    /// Whether the temperature at the edge of the die is measured.
    pub const fn measures_edge(self) -> bool {
        matches!(self, Self::V13_0_2)
    }

    /// Whether the power is an average; otherwise it is the current one.
    pub const fn averages_power(self) -> bool {
        matches!(self, Self::V13_0_2)
    }

    /// The messages with which a driver leaves the SMU. 13.0.6 keeps its features.
    pub const fn farewell(self) -> SmuFarewell {
        match self {
            Self::V13_0_2 => SmuFarewell {
                before: SmuMessage::DisableAllSmuFeatures,
                after: Some(SmuMessage::PrepareMp1ForUnload),
            },
            Self::V13_0_6 => SmuFarewell {
                before: SmuMessage::PrepareMp1ForUnload,
                after: None,
            },
        }
    }

    /// Whether `features` set the clock of graphics (FEATURE_DPM_GFXCLK).
    pub const fn sets_graphics_clock(self, features: SmuFeatures) -> bool {
        let feature = match self {
            Self::V13_0_2 => Field64::bit(1),
            Self::V13_0_6 => Field64::bit(3),
        };
        feature.is_set(features.0)
    }

    /// Whether `features` set the clock of memory (FEATURE_DPM_UCLK).
    pub const fn sets_memory_clock(self, features: SmuFeatures) -> bool {
        let feature = match self {
            Self::V13_0_2 => Field64::bit(2),
            Self::V13_0_6 => Field64::bit(6),
        };
        feature.is_set(features.0)
    }
}
