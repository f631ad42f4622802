// SPDX-License-Identifier: GPL-2.0
//! Packed instructions on 16 bits: the halves of all lanes, one behind the other.

use half::f16;
use zerocopy::{transmute, transmute_ref};

use super::float as fp;
use super::halves::{fma_to_odd, is_halfway};
use super::packed::Selection;
use crate::decode::{Decoded, Inst, Unknown};
use crate::env::Env;
use crate::simd::{Build, Handler, Tuned};
use crate::wave::{Flow, Row, Wave, HALVES, LANES};

/// The handler of the VOP3P opcode.
pub fn handler(op: u32) -> Decoded<Handler> {
    Ok(match op {
        0 | 9 => Handler::tuned::<Halves<MAD>>(),
        1 => Handler::tuned::<Halves<MUL>>(),
        2 | 10 => Handler::tuned::<Halves<ADD>>(),
        3 | 11 => Handler::tuned::<Halves<SUB>>(),
        4 => Handler::tuned::<Halves<SHIFT_LEFT>>(),
        5 => Handler::tuned::<Halves<SHIFT_RIGHT>>(),
        6 => Handler::tuned::<Halves<SHIFT_RIGHT_SIGNED>>(),
        7 => Handler::tuned::<Halves<MAX_SIGNED>>(),
        8 => Handler::tuned::<Halves<MIN_SIGNED>>(),
        12 => Handler::tuned::<Halves<MAX>>(),
        13 => Handler::tuned::<Halves<MIN>>(),
        14 => Handler::tuned::<Floats<FMA>>(),
        15 => Handler::tuned::<Floats<ADD>>(),
        16 => Handler::tuned::<Floats<MUL>>(),
        17 => Handler::tuned::<Halves<MIN_FLOAT>>(),
        18 => Handler::tuned::<Halves<MAX_FLOAT>>(),
        _ => return Err(Unknown),
    })
}

const MAD: u8 = 0;
const MUL: u8 = 1;
const ADD: u8 = 2;
const SUB: u8 = 3;
const SHIFT_LEFT: u8 = 4;
const SHIFT_RIGHT: u8 = 5;
const SHIFT_RIGHT_SIGNED: u8 = 6;
const MAX_SIGNED: u8 = 7;
const MIN_SIGNED: u8 = 8;
const MAX: u8 = 9;
const MIN: u8 = 10;
const MIN_FLOAT: u8 = 11;
const MAX_FLOAT: u8 = 12;
const FMA: u8 = 13;

/// The halves of a row.
const PARTS: usize = 2 * LANES;

/// The rows whose halves are at the places of the result's, one for each source.
#[inline(always)]
fn sources(inst: &Inst, wave: &mut Wave, count: usize) -> [usize; 3] {
    let selection = Selection::of(inst.imm);
    let mut rows = [0; 3];
    for n in 0..count {
        rows[n] = wave.narrow(inst.src[n], n);
        let bit = |mask: u32| mask >> n & 1;
        let (low, high) = (bit(selection.low), bit(selection.high));
        let signs = bit(selection.neg_low) << 15 | bit(selection.neg_high) << 31;
        if (low, high, signs) != (0, 1, 0) {
            let row = arranged(&wave.rows[rows[n]], low, high, signs);
            rows[n] = HALVES + n;
            wave.rows[HALVES + n] = row;
        }
    }
    rows
}

/// The halves of `row` that `low` and `high` choose, with these signs changed.
#[inline(always)]
fn arranged(row: &Row, low: u32, high: u32, signs: u32) -> Row {
    let (down, up) = (16 * low, 16 * (1 - high));
    let mut out = Row::ZERO;
    for lane in 0..LANES {
        let word = row.0[lane];
        out.0[lane] = (word >> down & 0xffff | word << up & 0xffff_0000) ^ signs;
    }
    out
}

/// An operation on integers, or on floats as integers.
struct Halves<const OP: u8>;

impl<const OP: u8> Tuned for Halves<OP> {
    #[inline(always)]
    fn run<B: Build>(_: B, inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let rows = sources(inst, wave, if OP == MAD { 3 } else { 2 });
        let a: &[u16; PARTS] = transmute_ref!(&wave.rows[rows[0]].0);
        let b: &[u16; PARTS] = transmute_ref!(&wave.rows[rows[1]].0);
        let c: &[u16; PARTS] = transmute_ref!(&wave.rows[rows[2]].0);
        let mut out = [0; PARTS];
        for n in 0..PARTS {
            out[n] = half::<OP>(a[n], b[n], c[n]);
        }
        wave.put(inst.dst.into(), &Row(transmute!(out)));
        Flow::Next
    }
}

#[inline(always)]
fn half<const OP: u8>(a: u16, b: u16, c: u16) -> u16 {
    let (sa, sb) = (a as i16, b as i16);
    match OP {
        MAD => a.wrapping_mul(b).wrapping_add(c),
        MUL => a.wrapping_mul(b),
        ADD => a.wrapping_add(b),
        SUB => a.wrapping_sub(b),
        SHIFT_LEFT => b << (a & 15),
        SHIFT_RIGHT => b >> (a & 15),
        SHIFT_RIGHT_SIGNED => (sb >> (a & 15)) as u16,
        MAX_SIGNED => sa.max(sb) as u16,
        MIN_SIGNED => sa.min(sb) as u16,
        MAX => a.max(b),
        MIN => a.min(b),
        MAX_FLOAT => fp::max16(f16::from_bits(a), f16::from_bits(b)).to_bits(),
        _ => fp::min16(f16::from_bits(a), f16::from_bits(b)).to_bits(),
    }
}

/// An operation on f16.
struct Floats<const OP: u8>;

impl<const OP: u8> Tuned for Floats<OP> {
    #[inline(always)]
    fn run<B: Build>(build: B, inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let rows = sources(inst, wave, if OP == FMA { 3 } else { 2 });
        let a: &[[[u16; 8]; 2]; PARTS / 16] = transmute_ref!(&wave.rows[rows[0]].0);
        let b: &[[[u16; 8]; 2]; PARTS / 16] = transmute_ref!(&wave.rows[rows[1]].0);
        let c: &[[[u16; 8]; 2]; PARTS / 16] = transmute_ref!(&wave.rows[rows[2]].0);
        let mut out = [[0; 16]; PARTS / 16];
        for n in 0..PARTS / 16 {
            let low = floats::<OP>(build, &a[n][0], &b[n][0], &c[n][0]);
            let high = floats::<OP>(build, &a[n][1], &b[n][1], &c[n][1]);
            out[n] = build.narrow(&[low, high]);
        }
        wave.put(inst.dst.into(), &Row(transmute!(out)));
        Flow::Next
    }
}

/// Computes the values that are rounded to the results.
#[inline(always)]
fn floats<const OP: u8>(build: impl Build, a: &[u16; 8], b: &[u16; 8], c: &[u16; 8]) -> [f32; 8] {
    let (a, b) = (build.widen(a), build.widen(b));
    let c = if OP == FMA { build.widen(c) } else { a };
    let mut result = [0.0; 8];
    let mut doubt = false;
    for k in 0..8 {
        result[k] = float::<OP>(a[k], b[k], c[k]);
        doubt |= OP == FMA && is_halfway(result[k].to_bits());
    }
    if doubt {
        for k in 0..8 {
            result[k] = fma_to_odd(a[k], b[k], c[k]);
        }
    }
    result
}

/// The value that is rounded to the result: products are exact as floats, and sums of two have
/// enough bits not to be rounded to half way between two halves. With a third operand they may be.
#[inline(always)]
fn float<const OP: u8>(a: f32, b: f32, c: f32) -> f32 {
    match OP {
        FMA => a * b + c,
        ADD => a + b,
        _ => a * b,
    }
}
