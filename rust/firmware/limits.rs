// SPDX-License-Identifier: GPL-2.0
//! The limits within which the SMU sets clocks: a table in the card's BIOS, or its own.

use kernel::prelude::*;

use hw::smu::limits::SmuLimits;
use hw::vbios::{self, Vbios, VbiosError};

use crate::ip::rom::Rom;
use crate::ip::Hardware;
use crate::kern::params;

/// Text in the log for a GPU whose SMU gets no such table.
pub(super) const WITHOUT: &str = "clocks and limits of power stay as at power-on";

/// The limits of an SMU.
pub(super) enum ClockLimits {
    /// A table that the driver uploads.
    Table(KBox<SmuLimits>),
    /// The firmware has them.
    Own,
}

/// The limits of the card of `hw`. `None` if it needs a table and has no valid one, or if
/// `clocks=0`; the log has one line that says why. May sleep, as long as it takes to read the flash
/// chip twice.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn find(hw: &Hardware) -> Result<Option<ClockLimits>> {
    if !params::are_clocks_set() {
        dev_info!(&*hw.dev, "SMU: {WITHOUT}: the parameter clocks is 0\n");
        return Ok(None);
    }
    if !hw.asic.firmware.smu.takes_limits() {
        return Ok(Some(ClockLimits::Own));
    }
    let Ok(rom) = Rom::new(&hw.mmio, hw.ips()) else {
        return Ok(None);
    };
    match read(&rom)? {
        Ok(limits) => Ok(Some(ClockLimits::Table(limits))),
        Err(damage) => {
            // A device that is gone needs no line about missing limits.
            if hw.is_present() {
                dev_warn!(
                    &*hw.dev,
                    "SMU: {WITHOUT}: the card's BIOS: {}\n",
                    format_args!("{damage}")
                );
            }
            Ok(None)
        }
    }
}

fn read(rom: &Rom) -> Result<Result<KBox<SmuLimits>, VbiosError>> {
    let head = rom.read(vbios::HEADER_BYTES)?;
    let length = match vbios::length(&head) {
        Ok(length) => length,
        Err(damage) => return Ok(Err(damage)),
    };
    let image = rom.read(length)?;
    // The image has no checksum that is verified elsewhere, and voltages depend on it: it is read
    // twice.
    if !rom.is(&image) {
        return Ok(Err(VbiosError::Unsteady));
    }
    match Vbios::new(&image).and_then(|bios| SmuLimits::new(&bios)) {
        Ok(limits) => Ok(Ok(KBox::new(limits, GFP_KERNEL)?)),
        Err(damage) => Ok(Err(damage)),
    }
}
