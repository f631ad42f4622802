// SPDX-License-Identifier: GPL-2.0
//! Clamp: integers that end at their types' bounds, and packed floats from 0 to 1, against exact
//! results that are computed here with wide integers.

#[path = "common/single.rs"]
mod single;

use half::f16;
use proptest::prelude::*;
use rkfd_shader::wave::Wave;
use single::{exec, run, wave};

/// Source registers: three pairs. The result is behind them.
const SOURCES: [u32; 3] = [0, 2, 4];
const RESULT: u32 = 8;
/// Where there is a mask as result, and as source.
const MASK: u32 = 20;
const CARRY: u32 = 22;

/// The part of a source that counts.
fn field(value: u64, bits: u32, signed: bool) -> i128 {
    let value = i128::from(value) % (1 << bits);
    if signed && value >> (bits - 1) == 1 {
        value - (1 << bits)
    } else {
        value
    }
}

/// The parts of that many bits, from the low one on.
fn parts(value: u64, bits: u32, signed: bool) -> impl Iterator<Item = i128> {
    (0..32 / bits).map(move |n| field(value >> (n * bits), bits, signed))
}

fn dot(a: u64, b: u64, bits: u32, signed: bool) -> i128 {
    parts(a, bits, signed)
        .zip(parts(b, bits, signed))
        .map(|(a, b)| a * b)
        .sum()
}

/// The exact result of an instruction.
type Rule = fn([u64; 3]) -> i128;

/// The result's bits, and whether it has a sign.
type Type = (u32, bool);
const U16: Type = (16, false);
const I16: Type = (16, true);
const U32: Type = (32, false);
const I32: Type = (32, true);
const U64: Type = (64, false);
const I64: Type = (64, true);

/// Name, VOP3 opcode, type, rule. Names with "co" have a mask.
const RULES: &[(&str, u32, Type, Rule)] = &[
    ("v_add_u32", 308, U32, |[a, b, _]| {
        field(a, 32, false) + field(b, 32, false)
    }),
    ("v_sub_u32", 309, U32, |[a, b, _]| {
        field(a, 32, false) - field(b, 32, false)
    }),
    ("v_subrev_u32", 310, U32, |[a, b, _]| {
        field(b, 32, false) - field(a, 32, false)
    }),
    ("v_add_i32", 668, I32, |[a, b, _]| {
        field(a, 32, true) + field(b, 32, true)
    }),
    ("v_sub_i32", 669, I32, |[a, b, _]| {
        field(a, 32, true) - field(b, 32, true)
    }),
    ("v_add_u16", 294, U16, |[a, b, _]| {
        field(a, 16, false) + field(b, 16, false)
    }),
    ("v_sub_u16", 295, U16, |[a, b, _]| {
        field(a, 16, false) - field(b, 16, false)
    }),
    ("v_subrev_u16", 296, U16, |[a, b, _]| {
        field(b, 16, false) - field(a, 16, false)
    }),
    ("v_add_i16", 670, I16, |[a, b, _]| {
        field(a, 16, true) + field(b, 16, true)
    }),
    ("v_sub_i16", 671, I16, |[a, b, _]| {
        field(a, 16, true) - field(b, 16, true)
    }),
    ("v_add_co_u32", 281, U32, |[a, b, _]| {
        field(a, 32, false) + field(b, 32, false)
    }),
    ("v_sub_co_u32", 282, U32, |[a, b, _]| {
        field(a, 32, false) - field(b, 32, false)
    }),
    ("v_subrev_co_u32", 283, U32, |[a, b, _]| {
        field(b, 32, false) - field(a, 32, false)
    }),
    ("v_addc_co_u32", 284, U32, |[a, b, c]| {
        field(a, 32, false) + field(b, 32, false) + i128::from(c)
    }),
    ("v_subb_co_u32", 285, U32, |[a, b, c]| {
        field(a, 32, false) - field(b, 32, false) - i128::from(c)
    }),
    ("v_subbrev_co_u32", 286, U32, |[a, b, c]| {
        field(b, 32, false) - field(a, 32, false) - i128::from(c)
    }),
    ("v_mul_i32_i24", 262, I32, |[a, b, _]| {
        field(a, 24, true) * field(b, 24, true)
    }),
    ("v_mul_u32_u24", 264, U32, |[a, b, _]| {
        field(a, 24, false) * field(b, 24, false)
    }),
    ("v_mad_i32_i24", 450, I32, |[a, b, c]| {
        field(a, 24, true) * field(b, 24, true) + field(c, 32, true)
    }),
    ("v_mad_u32_u24", 451, U32, |[a, b, c]| {
        field(a, 24, false) * field(b, 24, false) + field(c, 32, false)
    }),
    ("v_sad_u8", 473, U32, |[a, b, c]| {
        apart(a, b, 8, |_| true) + field(c, 32, false)
    }),
    ("v_sad_hi_u8", 474, U32, |[a, b, c]| {
        apart(a, b, 8, |_| true) * 0x1_0000 + field(c, 32, false)
    }),
    ("v_sad_u16", 475, U32, |[a, b, c]| {
        apart(a, b, 16, |_| true) + field(c, 32, false)
    }),
    ("v_sad_u32", 476, U32, |[a, b, c]| {
        apart(a, b, 32, |_| true) + field(c, 32, false)
    }),
    ("v_msad_u8", 484, U32, |[a, b, c]| {
        apart(a, b, 8, |b| b != 0) + field(c, 32, false)
    }),
    ("v_mad_co_u64_u32", 488, U64, |[a, b, c]| {
        field(a, 32, false) * field(b, 32, false) + i128::from(c)
    }),
    ("v_mad_co_i64_i32", 489, I64, |[a, b, c]| {
        field(a, 32, true) * field(b, 32, true) + field(c, 64, true)
    }),
    ("v_mad_legacy_u16", 491, U16, |[a, b, c]| {
        field(a, 16, false) * field(b, 16, false) + field(c, 16, false)
    }),
    ("v_mad_legacy_i16", 492, I16, |[a, b, c]| {
        field(a, 16, true) * field(b, 16, true) + field(c, 16, true)
    }),
    ("v_mad_u32_u16", 497, U32, |[a, b, c]| {
        field(a, 16, false) * field(b, 16, false) + field(c, 32, false)
    }),
    ("v_mad_i32_i16", 498, I32, |[a, b, c]| {
        field(a, 16, true) * field(b, 16, true) + field(c, 32, true)
    }),
    ("v_min3_u16", 502, U16, |sources| {
        sources
            .map(|n| field(n, 16, false))
            .into_iter()
            .min()
            .unwrap()
    }),
    ("v_max3_i16", 504, I16, |sources| {
        sources
            .map(|n| field(n, 16, true))
            .into_iter()
            .max()
            .unwrap()
    }),
];

/// The sum of the differences of parts of that many bits, of those that count.
fn apart(a: u64, b: u64, bits: u32, counts: fn(i128) -> bool) -> i128 {
    let pairs = parts(a, bits, false).zip(parts(b, bits, false));
    pairs
        .filter(|&(_, b)| counts(b))
        .map(|(a, b)| (a - b).abs())
        .sum()
}

/// Name, VOP3 opcode, bits of the factors' parts: the result is the last source too.
const ACCUMULATING: &[(&str, u32, u32)] = &[
    ("v_dot2c_i32_i16", 312, 16),
    ("v_dot4c_i32_i8", 313, 8),
    ("v_dot8c_i32_i4", 314, 4),
];

/// Name, VOP3P opcode, bits of the factors' parts, sign.
const DOTS: &[(&str, u32, u32, bool)] = &[
    ("v_dot2_i32_i16", 38, 16, true),
    ("v_dot2_u32_u16", 39, 16, false),
    ("v_dot4_i32_i8", 40, 8, true),
    ("v_dot4_u32_u8", 41, 8, false),
    ("v_dot8_i32_i4", 42, 4, true),
    ("v_dot8_u32_u4", 43, 4, false),
];

/// Name, VOP3P opcode, sign, rule for each half.
type PackedRule = fn(i128, i128, i128) -> i128;
const PACKED: &[(&str, u32, bool, PackedRule)] = &[
    ("v_pk_mad_i16", 0, true, |a, b, c| a * b + c),
    ("v_pk_mul_lo_u16", 1, false, |a, b, _| a * b),
    ("v_pk_add_i16", 2, true, |a, b, _| a + b),
    ("v_pk_sub_i16", 3, true, |a, b, _| a - b),
    ("v_pk_max_i16", 7, true, |a, b, _| a.max(b)),
    ("v_pk_mad_u16", 9, false, |a, b, c| a * b + c),
    ("v_pk_add_u16", 10, false, |a, b, _| a + b),
    ("v_pk_sub_u16", 11, false, |a, b, _| a - b),
    ("v_pk_min_u16", 13, false, |a, b, _| a.min(b)),
];

/// The nearest value of the type, and whether it is another one.
fn bounded(exact: i128, (bits, signed): Type) -> (i128, bool) {
    let (least, most) = if signed {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    };
    (exact.max(least).min(most), exact < least || exact > most)
}

fn qword(wave: &Wave, n: u32, lane: usize) -> u64 {
    let word = |n: u32| u64::from(wave.v(n as usize)[lane]);
    word(n) | word(n + 1) << 32
}

/// The words of a VOP3 with clamp; `mask` is the scalar result, and source 2 if it is one.
fn vop3(op: u32, sources: [u32; 3], mask: u32) -> [u32; 2] {
    let [a, b, c] = sources;
    [
        0x34 << 26 | op << 16 | 1 << 15 | mask << 8 | RESULT,
        a | b << 9 | c << 18,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn integers(rule in 0..RULES.len(), equal: bool, seed: u64, exec in exec()) {
        let (name, op, kind, rule) = RULES[rule];
        let before = wave(seed, exec);
        let mut after = wave(seed, exec);
        let has_mask = name.contains("_co_");
        let has_carry = (284..287).contains(&op);
        let mut registers = SOURCES;
        if equal {
            registers[1] = registers[0];
        }
        let mut codes = registers.map(|n| 256 + n);
        if has_carry {
            codes[2] = CARRY;
        }
        // Sources that there are not have to be 0.
        if op < 320 && !has_carry || (660..680).contains(&op) {
            codes[2] = 0;
        }
        run(&mut after, vop3(op, codes, if has_mask { MASK } else { 0 }));
        let carries = before.pair(CARRY as usize);
        let mut mask = 0;
        for lane in 0..64 {
            let mut sources = registers.map(|n| qword(&before, n, lane));
            if has_carry {
                sources[2] = carries >> lane & 1;
            }
            let (value, beyond) = bounded(rule(sources), kind);
            let mut expected = qword(&before, RESULT, lane);
            if exec >> lane & 1 == 1 {
                mask |= u64::from(beyond) << lane;
                expected = match kind.0 {
                    64 => value as u64,
                    32 => expected >> 32 << 32 | u64::from(value as u32),
                    _ => expected >> 32 << 32 | u64::from(value as u16),
                };
            }
            prop_assert_eq!(qword(&after, RESULT, lane), expected, "{} lane {}", name, lane);
        }
        if has_mask {
            prop_assert_eq!(after.pair(MASK as usize), mask, "{}", name);
        }
    }

    /// v_mad_u16 and v_mad_i16 leave the high half as it is.
    #[test]
    fn halves(signed: bool, clamp: bool, seed: u64, exec in exec()) {
        let before = wave(seed, exec);
        let mut after = wave(seed, exec);
        let [first, second] = vop3(516 + u32::from(signed), SOURCES.map(|n| 256 + n), 0);
        run(&mut after, [if clamp { first } else { first & !(1 << 15) }, second]);
        for lane in 0..64 {
            let [a, b, c] = SOURCES.map(|n| field(qword(&before, n, lane), 16, signed));
            let exact = a * b + c;
            let value = if clamp { bounded(exact, (16, signed)).0 } else { exact };
            let old = before.v(RESULT as usize)[lane];
            let expected = match exec >> lane & 1 {
                1 => old & 0xffff_0000 | u32::from(value as u16),
                _ => old,
            };
            prop_assert_eq!(after.v(RESULT as usize)[lane], expected, "lane {}", lane);
        }
    }

    #[test]
    fn sums(rule in 0..ACCUMULATING.len(), clamp: bool, seed: u64, exec in exec()) {
        let (name, op, bits) = ACCUMULATING[rule];
        let before = wave(seed, exec);
        let mut after = wave(seed, exec);
        let [first, second] = vop3(op, [256, 258, 0], 0);
        run(&mut after, [if clamp { first } else { first & !(1 << 15) }, second]);
        for lane in 0..64 {
            let old = before.v(RESULT as usize)[lane];
            let exact = dot(qword(&before, 0, lane), qword(&before, 2, lane), bits, true)
                + field(old.into(), 32, true);
            let value = if clamp { bounded(exact, I32).0 } else { exact };
            let expected = if exec >> lane & 1 == 1 { value as u32 } else { old };
            prop_assert_eq!(after.v(RESULT as usize)[lane], expected, "{} lane {}", name, lane);
        }
    }

    #[test]
    fn dots(rule in 0..DOTS.len(), seed: u64, exec in exec()) {
        let (name, op, bits, signed) = DOTS[rule];
        let before = wave(seed, exec);
        let mut after = wave(seed, exec);
        let words = [
            0x1a7 << 23 | op << 16 | 1 << 15 | 1 << 14 | RESULT,
            256 | 258 << 9 | 260 << 18 | 3 << 27,
        ];
        run(&mut after, words);
        for lane in 0..64 {
            let [a, b, c] = SOURCES.map(|n| qword(&before, n, lane));
            let exact = dot(a, b, bits, signed) + field(c, 32, signed);
            let expected = match exec >> lane & 1 {
                1 => bounded(exact, (32, signed)).0 as u32,
                _ => before.v(RESULT as usize)[lane],
            };
            prop_assert_eq!(after.v(RESULT as usize)[lane], expected, "{} lane {}", name, lane);
        }
    }

    #[test]
    fn packed(rule in 0..PACKED.len(), choice in 0..64u32, seed: u64, exec in exec()) {
        let (name, op, signed, rule) = PACKED[rule];
        let before = wave(seed, exec);
        let mut after = wave(seed, exec);
        let (low, high) = (choice & 7, choice >> 3);
        let words = [
            0x1a7 << 23 | op << 16 | 1 << 15 | (high >> 2) << 14 | low << 11 | RESULT,
            256 | 258 << 9 | 260 << 18 | (high & 3) << 27,
        ];
        run(&mut after, words);
        for lane in 0..64 {
            let half = |which: u32| {
                let mut n = 0;
                let [a, b, c] = SOURCES.map(|register| {
                    let shift = 16 * (which >> n & 1);
                    n += 1;
                    field(qword(&before, register, lane) >> shift, 16, signed)
                });
                u32::from(bounded(rule(a, b, c), (16, signed)).0 as u16)
            };
            let expected = match exec >> lane & 1 {
                1 => half(low) | half(high) << 16,
                _ => before.v(RESULT as usize)[lane],
            };
            prop_assert_eq!(after.v(RESULT as usize)[lane], expected, "{} lane {}", name, lane);
        }
    }

    /// v_pk_mul_f32, v_pk_max_f16 and v_fma_mixhi_f16 of one and others: results are from 0 to 1,
    /// and a NaN is 0 if DX10_CLAMP is on.
    #[test]
    fn floats(which in 0..3usize, dx10: bool, seed: u64, exec in exec()) {
        let (op, bits) = [(49, 32), (18, 16), (34, 16)][which];
        let mut before = wave(seed, exec);
        let mut after = wave(seed, exec);
        for wave in [&mut before, &mut after] {
            wave.mode = 0xf0 | u32::from(dx10) << 8;
        }
        // Source 1 is 1, source 2 is 0.
        let second = 256 | 242 << 9 | 128 << 18;
        let words = [
            0x1a7 << 23 | op << 16 | 1 << 15 | RESULT,
            if op == 34 { second } else { second | 1 << 27 },
        ];
        run(&mut after, words);
        let bound = |value: f64| match value {
            value if value.is_nan() && dx10 => Some(0.0),
            value if value.is_nan() => None,
            value => Some(value.clamp(0.0, 1.0)),
        };
        for lane in 0..64 {
            let (old, new) = (qword(&before, RESULT, lane), qword(&after, RESULT, lane));
            let source = qword(&before, 0, lane);
            if exec >> lane & 1 == 0 {
                prop_assert_eq!(new, old);
                continue;
            }
            let check = |value: f64, result: f64| match bound(value) {
                Some(bound) => assert_eq!(result.to_bits(), (bound + 0.0).to_bits(), "{op} {value}"),
                None => assert!(result.is_nan(), "{op} {value}"),
            };
            let half = |word: u64, n: u32| f16::from_bits((word >> (16 * n)) as u16).to_f64();
            match (op, bits) {
                (49, _) => {
                    let single = |word: u64| f64::from(f32::from_bits(word as u32));
                    check(single(source), single(new));
                    check(single(source >> 32), single(new >> 32));
                }
                (18, _) => {
                    // The greater of it and 1, which is 1 at least and the number beside a NaN.
                    check(half(source, 0).max(1.0), half(new, 0));
                    check(half(source, 1).max(1.0), half(new, 1));
                }
                _ => {
                    let value = f16::from_f32(f32::from_bits(source as u32)).to_f64();
                    check(value, half(new, 1));
                    prop_assert_eq!(new as u16, old as u16);
                }
            }
        }
    }
}
