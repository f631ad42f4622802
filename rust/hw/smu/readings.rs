// SPDX-License-Identifier: GPL-2.0
//! A table of measurements, whatever its form, and single values of it.

use super::interface::SmuInterface;
use super::link::PcieLink;
use super::metrics::SmuMetrics;
use super::socket::{SocketMetrics, XccSet};
use super::{SmuFeatures, SmuVersion};

/// nJ in a unit of energy.
const ENERGY_UNIT: u64 = 15_259;

/// Energy in uJ that is `units` of 15.259 uJ.
pub fn microjoules(units: u64) -> u64 {
    let (thousands, rest) = (units / 1000, units % 1000);
    thousands
        .saturating_mul(ENERGY_UNIT)
        .saturating_add(rest * ENERGY_UNIT / 1000)
}

/// Single values of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmuReadings {
    /// Temperature at the edge of the die, millidegrees; `None` where it is not measured.
    pub edge: Option<u32>,
    /// At the hottest place.
    pub junction: u32,
    /// Of the hottest memory.
    pub memory: u32,
    /// Power of the socket, mW.
    pub milliwatts: u32,
    /// Energy used so far, uJ.
    pub microjoules: u64,
    /// Clocks of graphics and memory, MHz: current ones if the SMU sets them, otherwise averages,
    /// if it has those (as in amdgpu).
    pub clocks: [u32; 2],
}

/// What the form for tools has of other sources than the table.
#[derive(Clone, Copy, Debug)]
pub struct MetricsSurroundings {
    /// The PCI Express link that registers show.
    pub link: PcieLink,
    /// The version of the firmware.
    pub version: SmuVersion,
    /// The GPU's XCCs.
    pub xccs: XccSet,
    /// ns since boot, suspend included.
    pub now: u64,
}

/// A table of measurements.
#[derive(Clone, Copy, Debug)]
pub enum SmuMeasurement<'a> {
    /// Of 13.0.2.
    Die(SmuMetrics),
    /// Of 13.0.6.
    Socket(SocketMetrics<'a>),
}

impl<'a> SmuMeasurement<'a> {
    /// The table in `dwords`, of `interface`. `None` if the SMU has not measured.
    pub fn new(interface: SmuInterface, dwords: &'a [u32]) -> Option<Self> {
        match interface {
            SmuInterface::V13_0_2 => SmuMetrics::new(dwords.first_chunk()?).map(Self::Die),
            SmuInterface::V13_0_6 => SocketMetrics::new(dwords.first_chunk()?).map(Self::Socket),
        }
    }

    /// It for a die that is not the first of its package: [`SmuMetrics::without_board`].
    pub const fn without_board(self) -> Self {
        match self {
            Self::Die(metrics) => Self::Die(metrics.without_board()),
            Self::Socket(_) => self,
        }
    }

    /// The serial number of the board, 0 for none.
    pub fn serial(&self) -> u64 {
        match self {
            Self::Die(metrics) => metrics.serial,
            Self::Socket(metrics) => metrics.serial(),
        }
    }

    /// Single values, while `features` are on.
    pub fn readings(&self, features: SmuFeatures) -> SmuReadings {
        match self {
            Self::Die(metrics) => metrics.readings(features),
            Self::Socket(metrics) => metrics.readings(),
        }
    }

    /// Writes the table for tools to the beginning of `to`, which has
    /// [`SmuInterface::gpu_metrics_bytes`]. Unknown values have all bits set.
    pub fn gpu_metrics(&self, around: &MetricsSurroundings, to: &mut [u8]) {
        match self {
            Self::Die(metrics) => {
                let bytes = metrics.gpu_metrics(around.link, around.now);
                if let Some(place) = to.first_chunk_mut() {
                    *place = bytes;
                }
            }
            Self::Socket(metrics) => {
                if let Some(place) = to.first_chunk_mut() {
                    metrics.gpu_metrics(around, place);
                }
            }
        }
    }
}
