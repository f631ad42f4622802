// SPDX-License-Identifier: GPL-2.0
//! The SMU's table of limits (amdgpu: smu13_driver_if_aldebaran.h, PPTable_t): features, power, temperatures, clocks, and voltages for them.
//! A board's maker puts it into the BIOS, in two pieces (smu_v13_0_pptable.h; aldebaran_append_powerplay_table).
//!
//! It decides on voltages: what is in doubt is refused.

use core::ops::{Range, RangeInclusive};

use super::SmuFeatures;
use crate::firmware::bytes_at;
use crate::vbios::{Vbios, VbiosError, VbiosTableKind};

/// Bytes of it.
pub const BYTES: usize = 760;

/// Where it is in the table of power management.
const IN_POWER: usize = 482;
/// Which of its bytes the board replaces (from GfxMaxCurrent on), and where they are in the board's table.
const OF_BOARD: Range<usize> = 0x250..0x2f8;
const IN_BOARD: usize = 4;
const BOARD_BYTES: usize = OF_BOARD.end - OF_BOARD.start;
/// The revision of that table which has them: format, content.
const BOARD_REVISION: (u8, u8) = (4, 10);

/// The format of the table about the BIOS, and the first of its contents that says by number which table of limits it means, where.
/// 0 is the one that it has itself; others come with firmware of the SMU.
const FIRMWARE_FORMAT: u8 = 3;
const FIRST_WITH_NUMBER: u8 = 3;
const NUMBER: usize = 0x3c;

/// Places of fields.
mod at {
    pub(super) const FEATURES_TO_RUN: usize = 0x4;
    pub(super) const PPT_LIMIT: usize = 0xc;
    pub(super) const THOTSPOT_LIMIT: usize = 0x14;
    pub(super) const TMEM_LIMIT: usize = 0x16;
    pub(super) const GFXCLK_FMAX: usize = 0x144;
    pub(super) const GFXCLK_FMIN: usize = 0x146;
}

/// What is sane. Watts; degrees; the highest clock of graphics, MHz.
const POWER: RangeInclusive<u16> = 100..=600;
const TEMPERATURE: RangeInclusive<u16> = 80..=120;
const MOST_MHZ: u16 = 2000;

/// A table that is sane.
#[derive(Clone, Debug)]
pub struct SmuLimits {
    bytes: [u8; BYTES],
}

impl SmuLimits {
    /// The table of a BIOS. [`VbiosError`] where it has none, or none that is beyond doubt.
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

    /// As the SMU reads it.
    pub fn bytes(&self) -> &[u8; BYTES] {
        &self.bytes
    }

    /// What the SMU is to do by itself.
    pub fn features(&self) -> SmuFeatures {
        SmuFeatures(u64::from_le_bytes(self.field(at::FEATURES_TO_RUN)))
    }

    /// What the socket may take, W.
    pub fn power(&self) -> u16 {
        self.half(at::PPT_LIMIT)
    }

    /// The lowest clock of graphics, and the highest, MHz.
    pub fn graphics(&self) -> [u16; 2] {
        [self.half(at::GFXCLK_FMIN), self.half(at::GFXCLK_FMAX)]
    }

    /// What is at `at`, which is in it.
    fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        bytes_at(&self.bytes, at).unwrap_or([0; N])
    }

    fn half(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.field(at))
    }
}
