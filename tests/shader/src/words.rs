// SPDX-License-Identifier: GPL-2.0
//! Whole dwords of all lanes: conversion from memory's order, lane by lane, to that of registers,
//! and back.

use zerocopy::IntoBytes;

use crate::wave::{Row, LANES};

/// `N` dwords of each lane, a lane's one behind the other.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Words<const N: usize>([[u32; LANES]; N]);

impl<const N: usize> Words<N> {
    /// Zeros.
    pub const ZERO: Words<N> = Words([[0; LANES]; N]);

    /// The bytes in memory's order.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        self.0.as_flattened().as_bytes()
    }

    /// See above.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.as_flattened_mut().as_mut_bytes()
    }

    /// Those of one lane.
    #[inline(always)]
    pub fn lane(&self, lane: usize) -> &[u8] {
        self.0.as_flattened()[lane * N..][..N].as_bytes()
    }

    /// See above.
    #[inline(always)]
    pub fn lane_mut(&mut self, lane: usize) -> &mut [u8] {
        self.0.as_flattened_mut()[lane * N..][..N].as_mut_bytes()
    }

    /// From registers.
    #[inline(always)]
    pub fn of(rows: &[Row]) -> Words<N> {
        let mut words = Words::ZERO;
        let all = words.0.as_flattened_mut();
        let rows = &rows[..N];
        for lane in 0..LANES {
            for n in 0..N {
                all[lane * N + n] = rows[n].0[lane].to_le();
            }
        }
        words
    }

    /// To registers.
    #[inline(always)]
    pub fn rows(&self) -> [Row; N] {
        let all = self.0.as_flattened();
        let mut rows = [Row::ZERO; N];
        for lane in 0..LANES {
            for n in 0..N {
                rows[n].0[lane] = u32::from_le(all[lane * N + n]);
            }
        }
        rows
    }
}

/// Returns whether each lane's number is `step` more than that of the previous lane, and none is
/// too large.
#[inline(always)]
pub fn in_order<const N: usize>(numbers: &[u32; N], step: u32) -> bool {
    let first = numbers[0];
    let mut differs = 0;
    for lane in 0..N {
        differs |= numbers[lane] ^ first.wrapping_add(step.wrapping_mul(lane as u32));
    }
    differs == 0 && first <= numbers[N - 1]
}

/// Returns whether all lanes have the same number.
#[inline(always)]
pub fn are_same<const N: usize>(numbers: &[u32; N]) -> bool {
    let mut differs = 0;
    for lane in 0..N {
        differs |= numbers[lane] ^ numbers[0];
    }
    differs == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let mut rows = [Row::ZERO; 3];
        for (n, row) in rows.iter_mut().enumerate() {
            row.0 = std::array::from_fn(|lane| (lane * 10 + n) as u32);
        }
        let words = Words::<3>::of(&rows);
        assert_eq!(words.bytes()[12 * 5 + 8..][..4], 52u32.to_le_bytes());
        let back = words.rows();
        assert!((0..3).all(|n| back[n].0 == rows[n].0));
    }

    #[test]
    fn orders() {
        let from = |first: u32| -> [u32; LANES] {
            std::array::from_fn(|lane| first.wrapping_add(4 * lane as u32))
        };
        assert!(in_order(&from(100), 4));
        assert!(!in_order(&from(100), 8));
        assert!(in_order(&from(4u32.wrapping_neg() - 4 * 63), 4));
        // Beyond the last number.
        assert!(!in_order(&from(4u32.wrapping_neg() - 4 * 62), 4));
        let mut one = from(100);
        one[63] = 0;
        assert!(!in_order(&one, 4));
        assert!(are_same(&[7; LANES]) && !are_same(&one));
    }
}
