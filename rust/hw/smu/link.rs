// SPDX-License-Identifier: GPL-2.0
//! The PCI Express link as the GPU itself sees it, which a hypervisor may hide in configuration
//! space (amdgpu: smu_v13_0.c, aldebaran_ppt.c).

use crate::bits::Field;

/// SMN address of PCIE_LC_LINK_WIDTH_CNTL.
pub const WIDTH: u32 = 0x1114_0288;
/// SMN address of PCIE_LC_SPEED_CNTL.
pub const SPEED: u32 = 0x1114_0290;
/// SMN address of PCIE_ESM_CTRL.
pub const EXTENDED: u32 = 0x1110_03d0;

/// PCIE_LC_LINK_WIDTH_CNTL.LC_LINK_WIDTH_RD.
const LC_LINK_WIDTH_RD: Field = Field::new(6, 4);
/// PCIE_LC_SPEED_CNTL.LC_CURRENT_DATA_RATE.
const LC_CURRENT_DATA_RATE: Field = Field::new(7, 5);
/// PCIE_ESM_CTRL: whether speeds beyond the standard are on, and the current one, as a distance
/// from 12.8 GT/s.
const ESM_ENABLED: Field = Field::bit(15);
const ESM_SPEED: Field = Field::new(14, 8);
const ESM_LEAST: u16 = 128;

/// Number of lanes by LC_LINK_WIDTH_RD.
const LANES: [u16; 7] = [0, 1, 2, 4, 8, 12, 16];
/// 0.1 GT/s by LC_CURRENT_DATA_RATE.
const SPEEDS: [u16; 4] = [25, 50, 80, 160];

/// The value for an unknown code.
pub const UNKNOWN: u16 = u16::MAX;

/// A link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcieLink {
    /// Lanes.
    pub width: u16,
    /// 0.1 GT/s.
    pub speed: u16,
}

impl PcieLink {
    /// One of which nothing is known.
    pub const UNKNOWN: Self = Self {
        width: UNKNOWN,
        speed: UNKNOWN,
    };

    /// The link in the registers [`WIDTH`], [`SPEED`] and [`EXTENDED`].
    pub fn new(width: u32, speed: u32, extended: u32) -> Self {
        let look_up = |table: &[u16], code: u32| {
            let found = table.get(code as usize).copied();
            found.unwrap_or(UNKNOWN)
        };
        Self {
            width: look_up(&LANES, LC_LINK_WIDTH_RD.get(width)),
            speed: match ESM_ENABLED.is_set(extended) {
                true => ESM_LEAST + ESM_SPEED.get(extended) as u16,
                false => look_up(&SPEEDS, LC_CURRENT_DATA_RATE.get(speed)),
            },
        }
    }
}
