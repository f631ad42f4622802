// SPDX-License-Identifier: GPL-2.0
//! Waves in memory: the words of the control stack, and the size of a record.

use crate::decode::bits;

/// SGPRs that every wave has.
pub const SGPRS: u32 = 112;
/// LDS comes in units of this many bytes.
pub const LDS_UNIT: u32 = 512;
/// Bytes of a record apart from VGPRs and LDS: SGPRs, hardware registers and TTMPs, and unused
/// ones.
const SCALARS: u64 = SGPRS as u64 * 4 + 128 + 64;
/// Bytes of a VGPR.
const VGPR: u64 = 256;
/// EXEC of a wave that has got a record: it is its group's first.
const FIRST: u64 = 1 << 58;

/// The part of their registers that the waves of a group have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// VGPRs, arch and accumulation.
    pub arch: u16,
    /// See above.
    pub acc: u16,
    /// Bytes of LDS of the group.
    pub lds: u32,
}

impl Shape {
    /// The control stack's word: VGPRS\[5:0\], SGPRS\[8:6\] with the TTMPs, LDS\[16:9\],
    /// ACCUM_OFFSET\[29:24\].
    pub fn word(self) -> u32 {
        u32::from(self.arch + self.acc) / 8 - 1
            | (SGPRS + 16) / 16 - 1 << 6
            | self.lds / LDS_UNIT << 9
            | u32::from(self.arch) / 4 - 1 << 24
            | 1 << 31
    }

    /// Decodes the word; None if it is another one, or impossible for a wave.
    pub fn of(word: u32) -> Option<Shape> {
        let all = (bits(word, 5, 0) as u16 + 1) * 8;
        let arch = (bits(word, 29, 24) as u16 + 1) * 4;
        (word >> 30 == 2 && arch <= all && bits(word, 8, 6) == (SGPRS + 16) / 16 - 1).then_some(
            Shape {
                arch,
                acc: all - arch,
                lds: bits(word, 16, 9) * LDS_UNIT,
            },
        )
    }

    /// Bytes of a wave's record; the first of a group has the LDS.
    pub fn record(self, first: bool) -> u64 {
        let lds = if first { u64::from(self.lds) } else { 0 };
        u64::from(self.arch + self.acc) * VGPR + SCALARS + lds
    }

    /// GPR_ALLOC.
    pub fn gpr_alloc(self) -> u32 {
        (u32::from(self.arch + self.acc) / 8 - 1) << 6
            | (u32::from(self.arch) / 4 - 1) << 12
            | (SGPRS / 16 - 1) << 24
    }

    /// LDS_ALLOC.
    pub fn lds_alloc(self) -> u32 {
        self.lds / 256 << 12
    }
}

/// A wave on the control stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// Its slot of scratch in its engine.
    pub scoreboard: u32,
    /// Its engine.
    pub engine: u32,
    /// It has scratch.
    pub scratch: bool,
    /// The last of its group.
    pub last: bool,
    /// The first of its group.
    pub first: bool,
}

impl Word {
    /// SCOREBOARD\[8:0\], SE\[11:9\], SCRATCH_EN 15, LAST_WAVE 16, FIRST_WAVE 17.
    pub fn word(self) -> u32 {
        self.scoreboard & 0x1ff
            | (self.engine & 7) << 9
            | u32::from(self.scratch) << 15
            | u32::from(self.last) << 16
            | u32::from(self.first) << 17
    }

    /// Decodes the word; None if it is another one.
    pub fn of(word: u32) -> Option<Word> {
        (word >> 30 == 0).then(|| Word {
            scoreboard: bits(word, 8, 0),
            engine: bits(word, 11, 9),
            scratch: bits(word, 15, 15) == 1,
            last: bits(word, 16, 16) == 1,
            first: bits(word, 17, 17) == 1,
        })
    }
}

/// EXEC as passed to a wave's handler: the place of its record, and whether it is the group's
/// first.
pub fn exec(record: u64, first: bool) -> u64 {
    record & 0xffff_ffff_ffff | if first { FIRST } else { 0 }
}
