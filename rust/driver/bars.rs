// SPDX-License-Identifier: GPL-2.0
//! The BARs, as the machine's firmware and the kernel have left them. One for which there was no
//! room has no address, and nothing can be done with the GPU before an administrator makes room.

use kernel::device::Core;
use kernel::fmt;
use kernel::pci;
use kernel::prelude::*;

use crate::kern::{doorbell_map, mmio, vram_map};

/// A BAR that the driver needs.
struct NeededBar {
    index: u32,
    name: &'static str,
    /// Whether it may be above 4 GiB, as a BAR of 64 bits.
    is_wide: bool,
}

const NEEDED: [NeededBar; 3] = [
    NeededBar {
        index: vram_map::BAR,
        name: "VRAM",
        is_wide: true,
    },
    NeededBar {
        index: doorbell_map::BAR,
        name: "doorbells",
        is_wide: true,
    },
    NeededBar {
        index: mmio::BAR,
        name: "registers",
        is_wide: false,
    },
];

/// The BARs without an address.
struct UnassignedBars([bool; NEEDED.len()]);

impl UnassignedBars {
    fn iter(&self) -> impl Iterator<Item = &'static NeededBar> + '_ {
        let unassigned = NEEDED.iter().zip(self.0);
        unassigned.filter_map(|(bar, is_unassigned)| is_unassigned.then_some(bar))
    }

    /// What to change in the set-up of the machine's firmware, for the most demanding of them.
    fn remedy(&self) -> &'static str {
        if self.iter().any(|bar| bar.is_wide) {
            "enable Above 4G Decoding, or enlarge the space for devices (MMIO) above 4 GiB"
        } else {
            "enlarge the space for devices (MMIO) below 4 GiB"
        }
    }
}

impl fmt::Display for UnassignedBars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, bar) in self.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}BAR{} ({})", bar.index, bar.name)?;
        }
        Ok(())
    }
}

/// Checks that each BAR which the driver needs has an address. Called before `pdev` is enabled,
/// which the kernel may refuse for the same reason.
///
/// # Errors
///
/// `ENODEV` if one has none; the log says which, and what to change.
pub(super) fn check(pdev: &pci::Device<Core<'_>>) -> Result {
    let mut unassigned = UnassignedBars([false; NEEDED.len()]);
    for (bar, is_unassigned) in NEEDED.iter().zip(&mut unassigned.0) {
        *is_unassigned = pdev.resource_start(bar.index)? == 0 || pdev.resource_len(bar.index)? == 0;
    }
    if unassigned.iter().next().is_none() {
        return Ok(());
    }
    dev_err!(
        pdev,
        "no address for {}: in the BIOS setup, {}\n",
        unassigned,
        unassigned.remedy()
    );
    Err(ENODEV)
}
