// SPDX-License-Identifier: GPL-2.0
//! Integer instructions with clamp: a result that does not fit is the nearest one that does. Of
//! each lane the exact value is computed.

use super::sad;
use super::vop2::{dot_i8, low24, signed24};
use super::vop3::bytes_apart;
use crate::decode::Inst;
use crate::env::Env;
use crate::simd::{Body, Handler};
use crate::wave::{Flow, Row, Wave};

/// The type of an operand or result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Int {
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
}
use Int::*;

impl Int {
    fn is_wide(self) -> bool {
        matches!(self, U64 | I64)
    }

    /// Its value in these registers.
    fn get(self, lo: u32, hi: u32) -> i128 {
        let both = u64::from(lo) | u64::from(hi) << 32;
        match self {
            U16 => i128::from(lo as u16),
            I16 => i128::from(lo as i16),
            U32 => lo.into(),
            I32 => i128::from(lo as i32),
            U64 => both.into(),
            I64 => i128::from(both as i64),
        }
    }

    /// The nearest value that it has.
    fn nearest(self, value: i128) -> i128 {
        match self {
            U16 => value.clamp(0, u16::MAX.into()),
            I16 => value.clamp(i16::MIN.into(), i16::MAX.into()),
            U32 => value.clamp(0, u32::MAX.into()),
            I32 => value.clamp(i32::MIN.into(), i32::MAX.into()),
            U64 => value.clamp(0, u64::MAX.into()),
            I64 => value.clamp(i64::MIN.into(), i64::MAX.into()),
        }
    }

    /// The registers of a value.
    fn put(self, value: i128) -> (u32, u32) {
        match self {
            U16 | I16 => (u32::from(value as u16), 0),
            _ => (value as u32, (value >> 32) as u32),
        }
    }
}

/// The masks that it reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carry {
    None,
    /// A bit for each lane whose exact result does not fit.
    Out,
    /// And a bit of each lane is the third operand.
    InOut,
}

/// An instruction.
struct Rule {
    name: &'static str,
    sources: &'static [Int],
    result: Int,
    carry: Carry,
    value: fn(i128, i128, i128) -> i128,
}

const fn rule(
    name: &'static str,
    sources: &'static [Int],
    result: Int,
    value: fn(i128, i128, i128) -> i128,
) -> Rule {
    Rule {
        name,
        sources,
        result,
        carry: Carry::None,
        value,
    }
}

const fn with_carry(rule: Rule, carry: Carry) -> Rule {
    Rule { carry, ..rule }
}

fn add(a: i128, b: i128, _: i128) -> i128 {
    a + b
}

fn sub(a: i128, b: i128, _: i128) -> i128 {
    a - b
}

fn subrev(a: i128, b: i128, _: i128) -> i128 {
    b - a
}

fn mul(a: i128, b: i128, _: i128) -> i128 {
    a * b
}

fn mad(a: i128, b: i128, c: i128) -> i128 {
    a * b + c
}

fn product_i24(a: i128, b: i128) -> i128 {
    i128::from(signed24(a as u32)) * i128::from(signed24(b as u32))
}

fn product_u24(a: i128, b: i128) -> i128 {
    i128::from(low24(a as u32)) * i128::from(low24(b as u32))
}

/// The sum of the products of the signed halves.
pub fn dot_i16(a: u32, b: u32) -> i64 {
    let half = |word: u32, n: u32| i64::from((word >> (16 * n)) as i16);
    half(a, 0) * half(b, 0) + half(a, 1) * half(b, 1)
}

/// The sum of the products of the signed parts of four bits.
pub fn dot_i4(a: u32, b: u32) -> i64 {
    let part = |word: u32, n: u32| i64::from((word << (28 - 4 * n)) as i32 >> 28);
    (0..8).map(|n| part(a, n) * part(b, n)).sum()
}

/// The sum of the products of parts of that many bits without a sign.
fn dot_unsigned(a: u32, b: u32, bits: u32) -> i128 {
    let part = |word: u32, n: u32| i128::from(word >> (bits * n) & ((1 << bits) - 1));
    (0..32 / bits).map(|n| part(a, n) * part(b, n)).sum()
}

const RULES: &[Rule] = &[
    rule("v_add_u32", &[U32, U32], U32, add),
    rule("v_sub_u32", &[U32, U32], U32, sub),
    rule("v_subrev_u32", &[U32, U32], U32, subrev),
    rule("v_add_i32", &[I32, I32], I32, add),
    rule("v_sub_i32", &[I32, I32], I32, sub),
    rule("v_add_u16", &[U16, U16], U16, add),
    rule("v_sub_u16", &[U16, U16], U16, sub),
    rule("v_subrev_u16", &[U16, U16], U16, subrev),
    rule("v_add_i16", &[I16, I16], I16, add),
    rule("v_sub_i16", &[I16, I16], I16, sub),
    with_carry(rule("v_add_co_u32", &[U32, U32], U32, add), Carry::Out),
    with_carry(rule("v_sub_co_u32", &[U32, U32], U32, sub), Carry::Out),
    with_carry(
        rule("v_subrev_co_u32", &[U32, U32], U32, subrev),
        Carry::Out,
    ),
    with_carry(
        rule("v_addc_co_u32", &[U32, U32], U32, |a, b, c| a + b + c),
        Carry::InOut,
    ),
    with_carry(
        rule("v_subb_co_u32", &[U32, U32], U32, |a, b, c| a - b - c),
        Carry::InOut,
    ),
    with_carry(
        rule("v_subbrev_co_u32", &[U32, U32], U32, |a, b, c| b - a - c),
        Carry::InOut,
    ),
    rule("v_mul_i32_i24", &[U32, U32], I32, |a, b, _| {
        product_i24(a, b)
    }),
    rule("v_mul_u32_u24", &[U32, U32], U32, |a, b, _| {
        product_u24(a, b)
    }),
    rule("v_mul_lo_u16", &[U16, U16], U16, mul),
    rule("v_mad_i32_i24", &[U32, U32, I32], I32, |a, b, c| {
        product_i24(a, b) + c
    }),
    rule("v_mad_u32_u24", &[U32, U32, U32], U32, |a, b, c| {
        product_u24(a, b) + c
    }),
    rule("v_sad_u8", &[U32, U32, U32], U32, |a, b, c| {
        i128::from(bytes_apart(a as u32, b as u32)) + c
    }),
    rule("v_sad_hi_u8", &[U32, U32, U32], U32, |a, b, c| {
        (i128::from(bytes_apart(a as u32, b as u32)) << 16) + c
    }),
    rule("v_sad_u16", &[U32, U32, U32], U32, |a, b, c| {
        (a % 0x1_0000 - b % 0x1_0000).abs() + (a / 0x1_0000 - b / 0x1_0000).abs() + c
    }),
    rule("v_sad_u32", &[U32, U32, U32], U32, |a, b, c| {
        (a - b).abs() + c
    }),
    rule("v_msad_u8", &[U32, U32, U32], U32, |a, b, c| {
        i128::from(sad::masked_bytes_apart(a as u32, b as u32)) + c
    }),
    with_carry(
        rule("v_mad_u64_u32", &[U32, U32, U64], U64, mad),
        Carry::Out,
    ),
    with_carry(
        rule("v_mad_i64_i32", &[I32, I32, I64], I64, mad),
        Carry::Out,
    ),
    rule("v_mad_legacy_u16", &[U16, U16, U16], U16, mad),
    rule("v_mad_legacy_i16", &[I16, I16, I16], I16, mad),
    rule("v_mad_u16", &[U16, U16, U16], U16, mad),
    rule("v_mad_i16", &[I16, I16, I16], I16, mad),
    rule("v_mad_u32_u16", &[U16, U16, U32], U32, mad),
    rule("v_mad_i32_i16", &[I16, I16, I32], I32, mad),
    rule("v_dot2c_i32_i16", &[U32, U32, I32], I32, |a, b, c| {
        i128::from(dot_i16(a as u32, b as u32)) + c
    }),
    rule("v_dot4c_i32_i8", &[U32, U32, I32], I32, |a, b, c| {
        i128::from(dot_i8(a as u32, b as u32)) + c
    }),
    rule("v_dot8c_i32_i4", &[U32, U32, I32], I32, |a, b, c| {
        i128::from(dot_i4(a as u32, b as u32)) + c
    }),
];

/// The handler of the instruction with clamp, and the constant that it needs ([`Inst::imm`]). None:
/// all results fit.
pub fn handler(name: &str) -> Option<(Handler, i32)> {
    match name {
        "v_qsad_pk_u16_u8" => return Some((sad::qsad_pk_u16_u8_clamped().handler, 0)),
        "v_mqsad_pk_u16_u8" => return Some((sad::mqsad_pk_u16_u8_clamped().handler, 0)),
        "v_mqsad_u32_u8" => return Some((sad::mqsad_u32_u8_clamped().handler, 0)),
        _ => {}
    }
    let number = RULES.iter().position(|rule| rule.name == name)?;
    Some((Handler::of::<Saturated>(), number as i32))
}

/// The rule whose number is the instruction's constant.
struct Saturated;

impl Body for Saturated {
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let rule = &RULES[inst.imm as usize];
        let mut rows = [(0, 0); 3];
        for (n, source) in rule.sources.iter().enumerate() {
            rows[n] = if source.is_wide() {
                let row = wave.wide(inst.src[n], n);
                (row, row + 1)
            } else {
                let row = wave.narrow(inst.src[n], n);
                (row, row)
            };
        }
        let carries = match rule.carry {
            Carry::InOut => wave.scalar64(inst.src[2]),
            _ => 0,
        };
        let (mut lo, mut hi, mut mask) = (Row::ZERO, Row::ZERO, 0);
        for lane in wave.active() {
            let mut values = [0; 3];
            values[2] = i128::from(carries >> lane & 1);
            for (n, source) in rule.sources.iter().enumerate() {
                let (lo, hi) = rows[n];
                values[n] = source.get(wave.rows[lo].0[lane], wave.rows[hi].0[lane]);
            }
            let exact = (rule.value)(values[0], values[1], values[2]);
            let nearest = rule.result.nearest(exact);
            mask |= u64::from(nearest != exact) << lane;
            (lo.0[lane], hi.0[lane]) = rule.result.put(nearest);
        }
        let dst = usize::from(inst.dst);
        wave.put(dst, &lo);
        if rule.result.is_wide() {
            wave.put(dst + 1, &hi);
        }
        if rule.carry != Carry::None {
            wave.set_pair(inst.sdst.into(), mask);
        }
        Flow::Next
    }
}

/// The two halves of a packed instruction with clamp, each of `a`, `b` and `c`; its VOP3P opcode.
pub fn packed(op: u16, a: u16, b: u16, c: u16) -> u16 {
    let [ua, ub, uc] = [a, b, c].map(i128::from);
    let [sa, sb, sc] = [a, b, c].map(|half| i128::from(half as i16));
    match op {
        0 => I16.nearest(sa * sb + sc) as u16,
        1 => U16.nearest(ua * ub) as u16,
        2 => I16.nearest(sa + sb) as u16,
        3 => I16.nearest(sa - sb) as u16,
        9 => U16.nearest(ua * ub + uc) as u16,
        10 => U16.nearest(ua + ub) as u16,
        _ => U16.nearest(ua - ub) as u16,
    }
}

/// A dot product with clamp; its VOP3P opcode.
pub fn dot(op: u16, a: u32, b: u32, c: u32) -> u32 {
    let signed = i128::from(c as i32);
    let unsigned = i128::from(c);
    match op {
        38 => I32.nearest(signed + i128::from(dot_i16(a, b))) as u32,
        39 => U32.nearest(unsigned + dot_unsigned(a, b, 16)) as u32,
        40 => I32.nearest(signed + i128::from(dot_i8(a, b))) as u32,
        41 => U32.nearest(unsigned + dot_unsigned(a, b, 8)) as u32,
        42 => I32.nearest(signed + i128::from(dot_i4(a, b))) as u32,
        _ => U32.nearest(unsigned + dot_unsigned(a, b, 4)) as u32,
    }
}
