// SPDX-License-Identifier: GPL-2.0
//! Single instructions on parts of registers and on other lanes' data, against results that are
//! computed here lane by lane.

#[path = "common/single.rs"]
mod single;

use proptest::prelude::*;
use rkfd_shader::wave::Wave;
use single::{exec, run, wave, VGPRS};

/// A part's result.
type Rule = fn(u16, u16, u16) -> u16;

/// Packed instructions: name, opcode, whether operands have signs to change, rule.
const PACKED: &[(&str, u32, bool, Rule)] = &[
    ("v_pk_mad_i16", 0, false, |a, b, c| {
        (u32::from(a) * u32::from(b) + u32::from(c)) as u16
    }),
    ("v_pk_mul_lo_u16", 1, false, |a, b, _| {
        (u32::from(a) * u32::from(b)) as u16
    }),
    ("v_pk_add_i16", 2, false, |a, b, _| a.wrapping_add(b)),
    ("v_pk_sub_i16", 3, false, |a, b, _| a.wrapping_sub(b)),
    ("v_pk_lshlrev_b16", 4, false, |a, b, _| {
        (u32::from(b) << (a % 16)) as u16
    }),
    ("v_pk_lshrrev_b16", 5, false, |a, b, _| b >> (a % 16)),
    ("v_pk_ashrrev_i16", 6, false, |a, b, _| {
        (b as i16).div_euclid_by(a)
    }),
    ("v_pk_max_i16", 7, false, |a, b, _| {
        if a as i16 > b as i16 {
            a
        } else {
            b
        }
    }),
    ("v_pk_min_i16", 8, false, |a, b, _| {
        if (a as i16) < b as i16 {
            a
        } else {
            b
        }
    }),
    (
        "v_pk_max_u16",
        12,
        false,
        |a, b, _| if a > b { a } else { b },
    ),
    (
        "v_pk_min_u16",
        13,
        false,
        |a, b, _| if a < b { a } else { b },
    ),
    ("v_pk_fma_f16", 14, true, |a, b, c| {
        rounded(
            fixed(a) * fixed(b) + (fixed(c) << 24),
            sign_of_sum(a ^ b, c),
        )
    }),
    ("v_pk_add_f16", 15, true, |a, b, _| {
        rounded(fixed(a) + fixed(b) << 24, sign_of_sum(a, b))
    }),
    ("v_pk_mul_f16", 16, true, |a, b, _| {
        rounded(fixed(a) * fixed(b), a ^ b)
    }),
    (
        "v_pk_min_f16",
        17,
        true,
        |a, b, _| if less(a, b) { a } else { b },
    ),
    (
        "v_pk_max_f16",
        18,
        true,
        |a, b, _| if less(a, b) { b } else { a },
    ),
];

/// Shifts that keep the sign, as divisions.
trait Divide {
    fn div_euclid_by(self, shift: u16) -> u16;
}

impl Divide for i16 {
    fn div_euclid_by(self, shift: u16) -> u16 {
        i32::from(self).div_euclid(1 << (shift % 16)) as u16
    }
}

/// A finite half, in units of 2^-24.
fn fixed(half: u16) -> i128 {
    let (exponent, fraction) = (half >> 10 & 31, i128::from(half & 0x3ff));
    let magnitude = match exponent {
        0 => fraction,
        _ => (fraction + 1024) << (exponent - 1),
    };
    if half >> 15 == 1 {
        -magnitude
    } else {
        magnitude
    }
}

/// The half nearest so many 2^-48, ties to even, by bisection; a zero has the sign of `sign`.
fn rounded(exact: i128, sign: u16) -> u16 {
    let magnitude = exact.abs();
    // Halves are in the order of their bits; 0x7c00 is both the next one and infinity.
    let (mut above, mut end) = (0u16, 0x7c00);
    while above < end {
        let middle = (above + end) / 2;
        if fixed(middle) << 24 < magnitude {
            above = middle + 1;
        } else {
            end = middle;
        }
    }
    let bits = match above {
        0 => 0,
        _ => {
            let next = if above == 0x7c00 {
                1 << 40
            } else {
                fixed(above)
            };
            let (up, down) = (
                (next << 24) - magnitude,
                magnitude - (fixed(above - 1) << 24),
            );
            if up < down || up == down && above & 1 == 0 {
                above
            } else {
                above - 1
            }
        }
    };
    let negative = if exact == 0 {
        sign >> 15 == 1
    } else {
        exact < 0
    };
    bits | u16::from(negative) << 15
}

/// The sign of a sum that is zero: negative if both are.
fn sign_of_sum(a: u16, b: u16) -> u16 {
    a & b
}

/// Returns whether one is less; -0 is less than +0.
fn less(a: u16, b: u16) -> bool {
    (fixed(a), b >> 15) < (fixed(b), a >> 15)
}

/// Makes all registers finite halves.
fn make_finite(wave: &mut Wave) {
    for n in 0..VGPRS.into() {
        for word in wave.v_mut(n) {
            // Exponents of 31 lose a bit.
            let infinite = |part: u32| *word >> part & 0x7c00 == 0x7c00;
            let lost = u32::from(infinite(0)) << 12 | u32::from(infinite(16)) << 28;
            *word &= !lost;
        }
    }
}

/// The lane that `lane` reads by DPP, and whether it exists.
fn dpp_source(control: u32, lane: usize) -> Option<usize> {
    let (row, n) = (lane / 16 * 16, lane % 16);
    let count = (control % 16) as usize;
    let within = |place: isize| (0..16).contains(&place).then(|| row + place as usize);
    match control {
        0..=0xff => Some(lane / 4 * 4 + (control as usize >> (lane % 4 * 2)) % 4),
        0x101..=0x10f => within((n + count) as isize),
        0x111..=0x11f => within(n as isize - count as isize),
        0x121..=0x12f => Some(row + (n + 16 - count) % 16),
        0x130 => (lane != 63).then(|| lane + 1),
        0x134 => Some((lane + 1) % 64),
        0x138 => (lane != 0).then(|| lane - 1),
        0x13c => Some((lane + 63) % 64),
        0x140 => Some(row + 15 - n),
        0x141 => Some(lane / 8 * 8 + 7 - lane % 8),
        0x142 => (row != 0).then(|| row - 1),
        0x143 => (lane >= 32).then_some(31),
        _ => Some(row + count),
    }
}

fn dpp_control() -> impl Strategy<Value = u32> {
    prop_oneof![
        0..0x100u32,
        0x101..0x110u32,
        0x111..0x120u32,
        0x121..0x130u32,
        0x140..0x144u32,
        0x150..0x160u32,
        Just(0x130),
        Just(0x134),
        Just(0x138),
        Just(0x13c),
    ]
}

/// The part that SDWA selects.
fn selected(word: u32, select: u32, signed: bool) -> u32 {
    let bytes = word.to_le_bytes();
    match (select, signed) {
        (0..=3, false) => bytes[select as usize].into(),
        (0..=3, true) => bytes[select as usize] as i8 as u32,
        (4 | 5, false) => word >> (16 * (select - 4)) & 0xffff,
        (4 | 5, true) => (word >> (16 * (select - 4))) as i16 as u32,
        _ => word,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn packed(
        rule in 0..PACKED.len(),
        choice: u32,
        signs: u32,
        seed: u64,
        exec in exec(),
        dst in 0..VGPRS,
    ) {
        let (name, op, is_float, rule) = PACKED[rule];
        let (low, high) = (choice & 7, choice >> 3 & 7);
        // Half of the time the parts are at the places of the result's.
        let (low, high) = if choice >> 6 & 1 == 1 { (0, 7) } else { (low, high) };
        let signs = if is_float { signs & 0x3f } else { 0 };
        let (neg_low, neg_high) = (signs & 7, signs >> 3);
        let mut before = wave(seed, exec);
        let mut after = wave(seed, exec);
        if is_float {
            make_finite(&mut before);
            make_finite(&mut after);
        }
        let third = matches!(op, 0 | 14);
        let mask = if third { 7 } else { 3 };
        let sources = [1, 2, 3u32];
        run(&mut after, [
            0x1a7 << 23 | op << 16 | (high >> 2) << 14 | low << 11 | (neg_high & mask) << 8
                | u32::from(dst),
            256 + sources[0] | (256 + sources[1]) << 9 | (256 + sources[2]) << 18
                | (high & 3) << 27 | (neg_low & mask) << 29,
        ]);
        for lane in 0..64 {
            let part = |high: u32, negative: u32| {
                let part = |n: usize| {
                    let word = before.v(sources[n] as usize)[lane];
                    (word >> (16 * (high >> n & 1))) as u16
                        ^ ((negative & mask) >> n & 1) as u16 * 0x8000
                };
                rule(part(0), part(1), part(2))
            };
            let (below, above) = (part(low, neg_low), part(high, neg_high));
            let mut expected = u32::from(below) | u32::from(above) << 16;
            if exec >> lane & 1 == 0 {
                expected = before.v(dst.into())[lane];
            }
            prop_assert_eq!(after.v(dst.into())[lane], expected, "{} lane {}", name, lane);
        }
    }

    #[test]
    fn dpp(
        control in dpp_control(), rows in 0..16u32, banks in 0..16u32, masked: bool, zero: bool,
        negative: bool,
        seed: u64, exec in exec(), dst in 0..VGPRS,
    ) {
        let (rows, banks) = if masked { (rows, banks) } else { (15, 15) };
        let before = wave(seed, exec);
        let mut after = wave(seed, exec);
        // v_add_u32, or v_max_f32 of a changed sign and a register with itself.
        let op = if negative { 11 } else { 52 };
        let second = if negative { 1 } else { 2 };
        run(&mut after, [
            op << 25 | u32::from(dst) << 17 | second << 9 | 250,
            1 | control << 8 | u32::from(zero) << 19 | u32::from(negative) << 20 | banks << 24
                | rows << 28,
        ]);
        for lane in 0..64 {
            let source = dpp_source(control, lane).filter(|from| exec >> from & 1 == 1);
            let written = exec >> lane & 1 == 1
                && rows >> (lane / 16) & 1 == 1
                && banks >> (lane % 16 / 4) & 1 == 1
                && (zero || source.is_some());
            let first = source.map_or(0, |from| before.v(1)[from]);
            let own = before.v(second as usize)[lane];
            let expected = match (written, negative) {
                (false, _) => before.v(dst.into())[lane],
                (true, false) => first.wrapping_add(own),
                (true, true) => {
                    let (a, b) = (f32::from_bits(first ^ 1 << 31), f32::from_bits(own));
                    if a.is_nan() || b.is_nan() {
                        continue;
                    }
                    let zeros = a == 0.0 && b == 0.0;
                    if zeros { a.to_bits() & b.to_bits() } else { a.max(b).to_bits() }
                }
            };
            prop_assert_eq!(after.v(dst.into())[lane], expected, "{:#x} lane {}", control, lane);
        }
        prop_assert_eq!(after.exec(), exec);
    }

    #[test]
    fn sdwa(
        select in [0..7u32, 0..7u32], signed: [bool; 2], to in 0..7u32, unused in 0..3u32,
        seed: u64,
        exec in exec(), dst in 0..VGPRS,
    ) {
        let before = wave(seed, exec);
        let mut after = wave(seed, exec);
        run(&mut after, [
            52 << 25 | u32::from(dst) << 17 | 2 << 9 | 249,
            1 | to << 8 | unused << 11 | select[0] << 16 | u32::from(signed[0]) << 19
                | select[1] << 24
                | u32::from(signed[1]) << 27,
        ]);
        for lane in 0..64 {
            let old = before.v(dst.into())[lane];
            let source = |n: usize| selected(before.v(n + 1)[lane], select[n], signed[n]);
            let sum = source(0).wrapping_add(source(1));
            let (first, size) = match to {
                0..=3 => (8 * to, 8),
                4 | 5 => (16 * (to - 4), 16),
                _ => (0, 32),
            };
            let bits = |from: u32, to: u32| (from..to).fold(0u32, |mask, n| mask | 1 << n);
            let mine = bits(first, first + size);
            let value = sum << first & mine;
            let rest = match unused {
                0 => 0,
                1 if value >> (first + size - 1) & 1 == 1 => bits(first + size, 32),
                1 => 0,
                _ => old & !mine,
            };
            let expected = if exec >> lane & 1 == 1 { value | rest } else { old };
            prop_assert_eq!(after.v(dst.into())[lane], expected, "lane {}", lane);
        }
    }

    #[test]
    fn bpermute(offset in 0..0x200u32, seed: u64, exec in exec(), dst in 0..VGPRS) {
        let before = wave(seed, exec);
        let mut after = wave(seed, exec);
        run(&mut after, [0x36 << 26 | 63 << 17 | offset, 1 | 2 << 8 | u32::from(dst) << 24]);
        for lane in 0..64 {
            let from = (before.v(1)[lane].wrapping_add(offset) / 4 % 64) as usize;
            let expected = match (exec >> lane & 1, exec >> from & 1) {
                (0, _) => before.v(dst.into())[lane],
                (_, 0) => 0,
                _ => before.v(2)[from],
            };
            prop_assert_eq!(after.v(dst.into())[lane], expected, "lane {}", lane);
        }
    }
}
