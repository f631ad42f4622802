// SPDX-License-Identifier: GPL-2.0
//! The SMU's table of limits (amdgpu: smu13_driver_if_aldebaran.h, PPTable_t): features, power,
//! temperatures, clocks, and voltages for them. A board's maker puts it into the BIOS, in two
//! pieces (smu_v13_0_pptable.h; aldebaran_append_powerplay_table).
//!
//! The table decides on voltages, so a doubtful table is refused.

use core::ops::{Range, RangeInclusive};

use super::SmuFeatures;
use crate::firmware::bytes_at;
use crate::vbios::{Vbios, VbiosError, VbiosTableKind};

/// Bytes of the table.
pub const BYTES: usize = 760;

/// Its offset in the table of power management.
const IN_POWER: usize = 482;
/// The range of its bytes that the board replaces (from GfxMaxCurrent on), and their offset in the
/// board's table.
const OF_BOARD: Range<usize> = 0x250..0x2f8;
const IN_BOARD: usize = 4;
const BOARD_BYTES: usize = OF_BOARD.end - OF_BOARD.start;
/// The revision of the board's table that has them: format, content.
const BOARD_REVISION: (u8, u8) = (4, 10);

/// The format of the table about the BIOS, the first content revision of it that has a number for
/// the table of limits, and the offset of that number. 0 is the table in the BIOS itself; others
/// are part of the SMU's firmware.
const FIRMWARE_FORMAT: u8 = 3;
const FIRST_WITH_NUMBER: u8 = 3;
const NUMBER: usize = 0x3c;

/// Offsets of fields.
mod at {
    pub(super) const FEATURES_TO_RUN: usize = 0x4;
    pub(super) const PPT_LIMIT: usize = 0xc;
    pub(super) const THOTSPOT_LIMIT: usize = 0x14;
    pub(super) const TMEM_LIMIT: usize = 0x16;
    pub(super) const GFXCLK_FMAX: usize = 0x144;
    pub(super) const GFXCLK_FMIN: usize = 0x146;
}

/// Sane ranges: watts; degrees; the highest clock of graphics, MHz.
const POWER: RangeInclusive<u16> = 100..=600;
const TEMPERATURE: RangeInclusive<u16> = 80..=120;
const MOST_MHZ: u16 = 2000;

/// A table whose limits are sane.
#[derive(Clone, Debug)]
pub struct SmuLimits {
    bytes: [u8; BYTES],
}

impl SmuLimits {
    /// Returns the table of a BIOS.
    ///
    /// # Errors
    ///
    /// [`VbiosError`] if the BIOS has no table, or a doubtful one.
    pub fn new(bios: &Vbios<'_>) -> Result<Self, VbiosError> {
        let firmware = bios.table(VbiosTableKind::Firmware)?;
        if firmware.revision.format != FIRMWARE_FORMAT {
            return Err(firmware.unknown());
        }
        if firmware.revision.content >= FIRST_WITH_NUMBER {
            let number = u32::from_le_bytes(firmware.bytes(NUMBER)?);
            if number != 0 {
                return Err(VbiosError::Elsewhere(number));
            }
        }
        let mut bytes: [u8; BYTES] = bios.table(VbiosTableKind::Power)?.bytes(IN_POWER)?;
        let board = bios.table(VbiosTableKind::Board)?;
        if (board.revision.format, board.revision.content) != BOARD_REVISION {
            return Err(board.unknown());
        }
        let of_board: [u8; BOARD_BYTES] = board.bytes(IN_BOARD)?;
        if let Some(place) = bytes.get_mut(OF_BOARD) {
            place.copy_from_slice(&of_board);
        }
        let limits = Self { bytes };
        limits.check()?;
        Ok(limits)
    }

    fn check(&self) -> Result<(), VbiosError> {
        let [low, high] = self.graphics();
        let checks = [
            ("PptLimit", self.power(), POWER),
            ("ThotspotLimit", self.half(at::THOTSPOT_LIMIT), TEMPERATURE),
            ("TmemLimit", self.half(at::TMEM_LIMIT), TEMPERATURE),
            ("GfxclkFmax", high, 1..=MOST_MHZ),
            ("GfxclkFmin", low, 1..=high.saturating_sub(1)),
        ];
        for (name, value, sane) in checks {
            if !sane.contains(&value) {
                return Err(VbiosError::Limit { name, value });
            }
        }
        Ok(())
    }

    /// The table in the form that the SMU reads.
    pub fn bytes(&self) -> &[u8; BYTES] {
        &self.bytes
    }

    /// The automatic features of the SMU.
    pub fn features(&self) -> SmuFeatures {
        SmuFeatures(u64::from_le_bytes(self.field(at::FEATURES_TO_RUN)))
    }

    /// Power limit of the socket, W.
    pub fn power(&self) -> u16 {
        self.half(at::PPT_LIMIT)
    }

    /// The lowest and the highest clock of graphics, MHz.
    pub fn graphics(&self) -> [u16; 2] {
        [self.half(at::GFXCLK_FMIN), self.half(at::GFXCLK_FMAX)]
    }

    /// The field at `at`, which is in the table.
    fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        bytes_at(&self.bytes, at).unwrap_or([0; N])
    }

    fn half(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.field(at))
    }
}
