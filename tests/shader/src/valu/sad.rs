// SPDX-License-Identifier: GPL-2.0
//! Sums of absolute differences: four of them at once, of a row of bytes at four places.

use super::vop3::bytes_apart;
use super::{seldom, Form, Spec};
use crate::decode::{Inst, Kind, Src};
use crate::env::Env;
use crate::simd::Body;
use crate::wave::{Flow, Reason, Row, Wave};

/// As [`bytes_apart`], without the bytes of which the second operand's is 0.
pub fn masked_bytes_apart(a: u32, b: u32) -> u32 {
    (0..4).fold(0, |sum, n| {
        let (a, b) = (a >> (8 * n) & 0xff, b >> (8 * n) & 0xff);
        sum + if b == 0 { 0 } else { a.abs_diff(b) }
    })
}

/// The word that begins at byte `n`.
fn window(a: u64, n: u32) -> u32 {
    (a >> (8 * n)) as u32
}

/// Four sums of 16 bits, added to those of `c`, which end at 0xffff if it `saturates`.
fn four(a: u64, b: u32, c: u64, apart: fn(u32, u32) -> u32, saturates: bool) -> u64 {
    (0..4).fold(0, |all, n| {
        let sum = (c >> (16 * n) & 0xffff) as u32 + apart(window(a, n), b);
        let sum = if saturates { sum.min(0xffff) } else { sum };
        all | u64::from(sum as u16) << (16 * n)
    })
}

/// v_qsad_pk_u16_u8.
pub fn qsad_pk_u16_u8() -> Spec {
    seldom!("v_qsad_pk_u16_u8" (a: u64, b: u32, c: u64) -> u64 { four(a, b, c, bytes_apart, false) })
}

/// The same with clamp.
pub fn qsad_pk_u16_u8_clamped() -> Spec {
    seldom!("v_qsad_pk_u16_u8" (a: u64, b: u32, c: u64) -> u64 { four(a, b, c, bytes_apart, true) })
}

/// v_mqsad_pk_u16_u8.
pub fn mqsad_pk_u16_u8() -> Spec {
    seldom!("v_mqsad_pk_u16_u8" (a: u64, b: u32, c: u64) -> u64 {
        four(a, b, c, masked_bytes_apart, false)
    })
}

/// The same with clamp.
pub fn mqsad_pk_u16_u8_clamped() -> Spec {
    seldom!("v_mqsad_pk_u16_u8" (a: u64, b: u32, c: u64) -> u64 {
        four(a, b, c, masked_bytes_apart, true)
    })
}

/// Four sums of 32 bits, in four registers.
struct Four<const SATURATES: bool>;

impl<const SATURATES: bool> Body for Four<SATURATES> {
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let Src::V(c) = inst.src[2] else {
            return Reason::Unsupported("v_mqsad_u32_u8 with a scalar sum").into();
        };
        let a = wave.wide(inst.src[0], 0);
        let b = wave.narrow(inst.src[1], 1);
        let mut sums = [Row::ZERO; 4];
        for lane in wave.active() {
            let word = |row: usize| wave.rows[row].0[lane];
            let bytes = u64::from(word(a)) | u64::from(word(a + 1)) << 32;
            for (n, sum) in (0..).zip(&mut sums) {
                let (old, apart) = (
                    word(usize::from(c) + n as usize),
                    masked_bytes_apart(window(bytes, n), word(b)),
                );
                sum.0[lane] = if SATURATES {
                    old.saturating_add(apart)
                } else {
                    old.wrapping_add(apart)
                };
            }
        }
        for (n, sum) in sums.iter().enumerate() {
            wave.put(usize::from(inst.dst) + n, sum);
        }
        Flow::Next
    }
}

/// Its sum and its result have four registers, of which the last two are named apart.
const KINDS: [Kind; 4] = [Kind::Int64, Kind::Int32, Kind::Int64, Kind::Int64];

/// v_mqsad_u32_u8.
pub fn mqsad_u32_u8() -> Spec {
    Spec::of::<Four<false>>("v_mqsad_u32_u8", Form::Plain, 3, KINDS)
}

/// The same with clamp.
pub fn mqsad_u32_u8_clamped() -> Spec {
    Spec::of::<Four<true>>("v_mqsad_u32_u8", Form::Plain, 3, KINDS)
}
