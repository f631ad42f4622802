// SPDX-License-Identifier: GPL-2.0
//! Matrix instructions, against sums of products that are computed here element by element. The
//! places of elements, CBSZ, ABID and BLGP are those of AMD's matrix instruction calculator.

#[path = "common/single.rs"]
mod single;

use proptest::prelude::*;
use rkfd_shader::wave::{Wave, TEMPS};
use single::run;

/// Registers of A, of B, and of the sum.
const A: u32 = 2;
const B: u32 = 4;
const SUM: u32 = 8;
const VGPRS: u16 = 72;

/// Opcode, size, depth, blocks, elements in a lane.
type Shape = (u32, usize, usize, usize, usize);

/// Those of bytes.
const BYTES: &[Shape] = &[
    (80, 32, 4, 2, 4),
    (81, 16, 4, 4, 4),
    (82, 4, 4, 16, 4),
    (84, 32, 8, 1, 4),
    (85, 16, 16, 1, 4),
];
/// Those of f16, and of bf16.
const HALVES: &[Shape] = &[
    (72, 32, 4, 2, 4),
    (73, 16, 4, 4, 4),
    (74, 4, 4, 16, 4),
    (76, 32, 8, 1, 4),
    (77, 16, 16, 1, 4),
    (99, 32, 4, 2, 4),
    (100, 16, 4, 4, 4),
    (101, 4, 4, 16, 4),
    (102, 32, 8, 1, 4),
    (103, 16, 16, 1, 4),
    (104, 32, 2, 2, 2),
    (105, 16, 2, 4, 2),
    (107, 4, 2, 16, 2),
    (108, 32, 4, 1, 2),
    (109, 16, 8, 1, 2),
];
/// Those of f64.
const DOUBLES: &[Shape] = &[(110, 16, 4, 1, 1), (111, 4, 4, 4, 1)];

/// The lane of a factor's element `k` in row or column `i`, and its place in the lane.
fn factor((_, size, _, blocks, each): Shape, block: usize, i: usize, k: usize) -> (usize, usize) {
    (i + size * (block + blocks * (k / each)), k % each)
}

/// Register and lane of the sum's element, for elements of 32 bits.
fn element((_, size, ..): Shape, block: usize, i: usize, j: usize) -> (usize, usize) {
    match size {
        32 => (16 * block + 4 * (i / 8) + i % 4, j + 32 * (i / 4 % 2)),
        16 => (4 * block + i % 4, j + 16 * (i / 4)),
        _ => (i, j + 4 * block),
    }
}

/// The lane from which one takes B.
fn taken(blgp: u32, lane: usize) -> usize {
    match blgp {
        0 => lane,
        1 => lane % 32,
        2 => 32 + lane % 32,
        3 => (lane + 16) % 64,
        _ => lane % 16 + 16 * (blgp as usize - 4),
    }
}

fn words(op: u32, [cbsz, abid, blgp]: [u32; 3]) -> [u32; 2] {
    [
        0x1a7 << 23 | op << 16 | abid << 11 | cbsz << 8 | SUM,
        256 + A | (256 + B) << 9 | (256 + SUM) << 18 | blgp << 29,
    ]
}

/// The least normal float.
const NORMAL: f64 = f32::MIN_POSITIVE as f64;

/// Rounded to f32, without denormals. A sum of two floats keeps all bits that count in an f64.
fn rounded(value: f64) -> f64 {
    let single = f64::from(value as f32);
    if single.abs() < NORMAL {
        0f64.copysign(single)
    } else {
        single
    }
}

/// A half of a register, f16 or bf16, without denormals.
fn half_of(wave: &Wave, op: u32, register: u32, (lane, n): (usize, usize)) -> f64 {
    let word = wave.v(register as usize + n / 2)[lane];
    let bits = (word >> (16 * (n % 2))) as u16;
    let (value, least) = if op < 99 {
        (half::f16::from_bits(bits).to_f64(), 2f64.powi(-14))
    } else {
        (half::bf16::from_bits(bits).to_f64(), NORMAL)
    };
    if value.abs() < least {
        0.0
    } else {
        value
    }
}

fn byte(wave: &Wave, register: u32, (lane, n): (usize, usize)) -> i32 {
    i32::from(wave.v(register as usize)[lane].to_le_bytes()[n] as i8)
}

/// The double in two registers of a lane.
fn double(wave: &Wave, register: usize, lane: usize) -> f64 {
    let word = |n: usize| u64::from(wave.v(register + n)[lane]);
    f64::from_bits(word(0) | word(1) << 32)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn bytes(which in 0..BYTES.len(), cbsz in 0..5u32, abid: u32, blgp in 0..8u32, seed: u64) {
        let shape = BYTES[which];
        let (op, size, depth, blocks, _) = shape;
        let cbsz = cbsz.min(blocks.ilog2());
        let abid = abid % (1 << cbsz);
        let blgp = if blocks == 1 { 0 } else { blgp };
        let (before, mut after) = (single::random(VGPRS, seed), single::random(VGPRS, seed));
        run(&mut after, words(op, [cbsz, abid, blgp]));
        for block in 0..blocks {
            let group = 1 << cbsz;
            let from = block / group * group + abid as usize;
            for i in 0..size {
                for j in 0..size {
                    let (register, lane) = element(shape, block, i, j);
                    let mut sum = before.v(SUM as usize + register)[lane];
                    for k in 0..depth {
                        let a = byte(&before, A, factor(shape, from, i, k));
                        let (lane, n) = factor(shape, block, j, k);
                        let b = byte(&before, B, (taken(blgp, lane), n));
                        sum = sum.wrapping_add((a * b) as u32);
                    }
                    let found = after.v(SUM as usize + register)[lane];
                    prop_assert_eq!(found, sum, "{} {} {} {}", op, block, i, j);
                }
            }
        }
    }

    /// Products of a lane's elements are added in pairs, the pairs, and then these to the sum: each
    /// time rounded, and without denormals.
    #[test]
    fn halves(which in 0..HALVES.len(), seed: u64) {
        let shape = HALVES[which];
        let (op, size, depth, blocks, each) = shape;
        let (before, mut after) = (single::random(VGPRS, seed), single::random(VGPRS, seed));
        run(&mut after, words(op, [0; 3]));
        for block in 0..blocks {
            for i in 0..size {
                for j in 0..size {
                    let (register, lane) = element(shape, block, i, j);
                    let bits = before.v(SUM as usize + register)[lane];
                    let mut sum = f64::from(f32::from_bits(bits));
                    if sum.abs() < NORMAL {
                        sum = 0.0;
                    }
                    for first in (0..depth).step_by(each) {
                        let product = |k: usize| {
                            let a = half_of(&before, op, A, factor(shape, block, i, first + k));
                            let b = half_of(&before, op, B, factor(shape, block, j, first + k));
                            rounded(a * b)
                        };
                        let mut group = rounded(product(0) + product(1));
                        if each == 4 {
                            group = rounded(group + rounded(product(2) + product(3)));
                        }
                        sum = rounded(sum + group);
                    }
                    let found = f32::from_bits(after.v(SUM as usize + register)[lane]);
                    let same = found.is_nan() && sum.is_nan() || f64::from(found) == sum;
                    prop_assert!(same, "{op} {block} {i} {j}: {found} {sum}");
                }
            }
        }
    }

    /// Doubles that are small integers, with signs changed by BLGP.
    #[test]
    fn doubles(which in 0..DOUBLES.len(), signs in 0..8u32, seed: u64) {
        let shape = DOUBLES[which];
        let (op, size, depth, blocks, _) = shape;
        let small = || {
            let mut wave = single::random(VGPRS, seed);
            for pair in wave.vgprs_mut().chunks_exact_mut(2) {
                let [low, high] = pair else { unreachable!() };
                for (low, high) in low.0.iter_mut().zip(&mut high.0) {
                    let bits = f64::from(*low as i32 >> 20).to_bits();
                    (*low, *high) = (bits as u32, (bits >> 32) as u32);
                }
            }
            wave
        };
        let (before, mut after) = (small(), small());
        run(&mut after, words(op, [0, 0, signs]));
        let sign = |n: u32| if signs >> n & 1 == 1 { -1.0 } else { 1.0 };
        for block in 0..blocks {
            for i in 0..size {
                for j in 0..size {
                    let (pair, lane) = match size {
                        16 => (i / 4, j + 16 * (i % 4)),
                        _ => (0, 16 * i + 4 * block + j),
                    };
                    let register = SUM as usize + 2 * pair;
                    let mut sum = sign(2) * double(&before, register, lane);
                    for k in 0..depth {
                        let a = double(&before, A as usize, factor(shape, block, i, k).0);
                        let b = double(&before, B as usize, factor(shape, block, j, k).0);
                        sum += sign(0) * a * sign(1) * b;
                    }
                    prop_assert_eq!(double(&after, register, lane), sum, "{} {} {}", block, i, j);
                }
            }
        }
        // Nothing else changed.
        let last = TEMPS + SUM as usize;
        for row in TEMPS..last {
            prop_assert_eq!(after.rows[row].0, before.rows[row].0);
        }
    }
}
