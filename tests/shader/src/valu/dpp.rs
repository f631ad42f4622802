// SPDX-License-Identifier: GPL-2.0
//! Data-parallel primitives: the first source comes from other lanes.

use zerocopy::{transmute, transmute_ref};

use crate::decode::bits;
use crate::simd::{permuted_row, Build};
use crate::wave::{mask_row, Row, LANES};

/// Lanes of a row in DPP.
const ROW: usize = 16;

/// A permutation of the first source's lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dpp {
    control: u32,
    zero_outside: bool,
    banks: u32,
    rows: u32,
}

impl Dpp {
    /// Decodes its dword. None: a reserved control.
    pub fn of(word: u32) -> Option<Dpp> {
        let control = bits(word, 16, 8);
        let known = matches!(
            control,
            0..=0xff | 0x101..=0x10f | 0x111..=0x11f | 0x121..=0x12f | 0x130 | 0x134 | 0x138 | 0x13c
                | 0x140..=0x143 | 0x150..=0x15f
        );
        known.then_some(Dpp {
            control,
            zero_outside: bits(word, 19, 19) == 1,
            banks: bits(word, 27, 24),
            rows: bits(word, 31, 28),
        })
    }

    /// The lane that `lane` reads; None if there is none.
    fn source(self, lane: usize) -> Option<usize> {
        let n = (self.control & 15) as usize;
        let (row, place) = (lane & !15, lane & 15);
        match self.control {
            0..=0xff => Some(lane & !3 | (self.control >> (2 * (lane & 3)) & 3) as usize),
            0x101..=0x10f => (place + n < 16).then_some(lane + n),
            0x111..=0x11f => place.checked_sub(n).map(|place| row | place),
            0x121..=0x12f => Some(row | place + 16 - n & 15),
            0x130 => (lane < 63).then_some(lane + 1),
            0x134 => Some(lane + 1 & 63),
            0x138 => lane.checked_sub(1),
            0x13c => Some(lane + 63 & 63),
            0x140 => Some(row | 15 - place),
            0x141 => Some(lane & !7 | 7 - (lane & 7)),
            0x142 => row.checked_sub(1),
            0x143 => (lane >= 32).then_some(31),
            _ => Some(row | n),
        }
    }

    /// The part of it that does not depend on the wave.
    pub fn moves(self) -> Moves {
        let mut moves = Moves {
            from: Row::ZERO,
            some: 0,
            within: true,
            there: 0,
            zero_outside: self.zero_outside,
        };
        for lane in 0..LANES {
            if let Some(from) = self.source(lane) {
                moves.from.0[lane] = from as u32;
                moves.some |= 1 << lane;
                moves.within &= from / ROW == lane / ROW;
            }
            let there = self.rows >> (lane / 16) & 1 == 1 && self.banks >> (lane % 16 / 4) & 1 == 1;
            moves.there |= u64::from(there) << lane;
        }
        moves
    }
}

/// A [`Dpp`], lane by lane.
#[derive(Debug, Clone, Copy)]
pub struct Moves {
    /// The lane that each reads, if there is one.
    from: Row,
    /// The lanes that have one.
    some: u64,
    /// It is in the same row.
    within: bool,
    /// The lanes of the rows and banks that are written.
    there: u64,
    zero_outside: bool,
}

impl Moves {
    /// The lanes that read an active one.
    #[inline(always)]
    pub fn reading(&self, exec: u64) -> u64 {
        if exec == !0 {
            return self.some;
        }
        let mut reading = 0;
        for lane in 0..LANES {
            reading |= (exec >> (self.from.0[lane] & 63) & 1) << lane;
        }
        reading & self.some
    }

    /// The lanes of `exec` that are written.
    #[inline(always)]
    pub fn enabled(&self, exec: u64, reading: u64) -> u64 {
        let reads = if self.zero_outside { !0 } else { reading };
        self.there & reads & exec
    }

    /// The value of `row` that each lane reads; 0 where there is nothing to read and the lane is
    /// written nevertheless.
    #[inline(always)]
    pub fn permute(&self, build: impl Build, row: &Row, reading: u64) -> Row {
        let mut out = if self.within {
            let from: &[[u32; ROW]; LANES / ROW] = transmute_ref!(&self.from.0);
            let row: &[[u32; ROW]; LANES / ROW] = transmute_ref!(&row.0);
            let mut out = [[0; ROW]; LANES / ROW];
            for n in 0..LANES / ROW {
                out[n] = build.permute(&row[n], &from[n]);
            }
            Row(transmute!(out))
        } else {
            permuted_row(build, row, &self.from)
        };
        if self.zero_outside && reading != !0 {
            let mask = mask_row(reading);
            for lane in 0..LANES {
                out.0[lane] &= mask.0[lane];
            }
        }
        out
    }
}
