// SPDX-License-Identifier: GPL-2.0
//! gfx942's matrix instructions of small floats and of bytes, dense and sparse, against sums in
//! wide integers that are computed here, and against results on which two independent programs
//! agree.

#[path = "common/single.rs"]
mod single;

use proptest::prelude::*;
use rkfd_shader::wave::Wave;
use single::run942;

/// Registers of A, of B, and of the sum.
const A: u32 = 2;
const B: u32 = 4;
const SUM: u32 = 8;
const VGPRS: u16 = 72;
const V: u32 = 256;

/// A format: bits, mantissa, exponent's bias.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    F16,
    Bf16,
    Xf32,
    Fp8,
    Bf8,
}
use Kind::*;

impl Kind {
    fn bits(self) -> usize {
        match self {
            Xf32 => 32,
            F16 | Bf16 => 16,
            Fp8 | Bf8 => 8,
        }
    }

    /// Significand, its bits behind the point, exponent; None for no finite number.
    fn number(self, word: u32) -> Option<(i128, i32, i32)> {
        let (mantissa, bias, exponents) = match self {
            F16 => (10, 15, 5),
            Bf16 => (7, 127, 8),
            Xf32 => (10, 127, 8),
            Fp8 => (3, 8, 4),
            Bf8 => (2, 16, 5),
        };
        let bits = i64::from(if self == Xf32 { word >> 13 } else { word });
        let fraction = bits % (1 << mantissa);
        let exponent = (bits >> mantissa) % (1 << exponents);
        let negative = bits >> (mantissa + exponents) & 1 == 1;
        let is_small = self.bits() == 8;
        if is_small && negative && fraction + exponent == 0 {
            return None;
        }
        if !is_small && exponent == (1 << exponents) - 1 {
            return None;
        }
        let (value, exponent) = match (exponent, fraction) {
            (0, 0) => (0, -126),
            (0, _) => (fraction, 1 - bias),
            _ => (fraction + (1 << mantissa), exponent as i32 - bias),
        };
        let value = i128::from(if negative { -value } else { value });
        Some((value, mantissa, exponent))
    }
}

/// Opcode, size, depth, blocks, elements of a lane, products that are added at once, A, B.
type Shape = (u32, usize, usize, usize, usize, usize, Kind, Kind);

const SHAPES: &[Shape] = &[
    (62, 16, 8, 1, 2, 4, Xf32, Xf32),
    (63, 32, 4, 1, 2, 4, Xf32, Xf32),
    (72, 32, 4, 2, 4, 4, F16, F16),
    (73, 16, 4, 4, 4, 4, F16, F16),
    (74, 4, 4, 16, 4, 4, F16, F16),
    (76, 32, 8, 1, 4, 8, F16, F16),
    (77, 16, 16, 1, 4, 8, F16, F16),
    (93, 32, 4, 2, 4, 4, Bf16, Bf16),
    (94, 16, 4, 4, 4, 4, Bf16, Bf16),
    (95, 4, 4, 16, 4, 4, Bf16, Bf16),
    (96, 32, 8, 1, 4, 8, Bf16, Bf16),
    (97, 16, 16, 1, 4, 8, Bf16, Bf16),
    (112, 16, 32, 1, 8, 16, Bf8, Bf8),
    (113, 16, 32, 1, 8, 16, Bf8, Fp8),
    (114, 16, 32, 1, 8, 16, Fp8, Bf8),
    (115, 16, 32, 1, 8, 16, Fp8, Fp8),
    (116, 32, 16, 1, 8, 16, Bf8, Bf8),
    (117, 32, 16, 1, 8, 16, Bf8, Fp8),
    (118, 32, 16, 1, 8, 16, Fp8, Bf8),
    (119, 32, 16, 1, 8, 16, Fp8, Fp8),
];

/// `value` * 2^`up`, toward minus infinity.
fn scaled(value: i128, up: i32) -> i128 {
    match up {
        0.. => value << up,
        -120..0 => value >> -up,
        _ => value >> 120,
    }
}

/// The same toward zero.
fn cut(value: i128, up: i32) -> i128 {
    value.signum() * scaled(value.abs(), up)
}

/// The f32 nearest `value` * 2^`e`, ties to even.
fn nearest(value: i128, e: i32) -> f32 {
    let magnitude = value.unsigned_abs();
    let length = 128 - magnitude.leading_zeros() as i32;
    // The last place of the result.
    let place = (length - 24).max(-149 - e);
    let (kept, rest) = if place > 0 {
        let whole = magnitude.checked_shr(place as u32).unwrap_or(0);
        (
            whole,
            magnitude - whole.checked_shl(place as u32).unwrap_or(0),
        )
    } else {
        (magnitude << -place, 0)
    };
    let half = if place > 0 {
        1u128.checked_shl(place as u32 - 1).unwrap_or(u128::MAX)
    } else {
        1
    };
    let up = rest > half || rest == half && kept % 2 == 1;
    let kept = (kept + u128::from(up)) as f64;
    let scale = place + e;
    // Two steps, as neither power of two has to be an f64 by itself.
    let value32 = kept * 2f64.powi(scale / 2) * 2f64.powi(scale - scale / 2);
    let value32 = value32 as f32;
    if value < 0 {
        -value32
    } else {
        value32
    }
}

/// A sum with a group of products.
fn added(sum: f32, group: &[(u32, u32)], kinds: (Kind, Kind)) -> Option<f32> {
    let mut products = Vec::new();
    for &(a, b) in group {
        let (sa, ma, ea) = kinds.0.number(a)?;
        let (sb, mb, eb) = kinds.1.number(b)?;
        // What no f32 holds counts as infinite.
        if ((sa * sb) as f64).abs() * 2f64.powi(ea + eb - ma - mb) >= 2f64.powi(128) {
            return None;
        }
        products.push((sa * sb, ma + mb, ea + eb));
    }
    let is_small = kinds.0.bits() == 8;
    let together = |step: usize, start: usize| {
        let some: Vec<_> = products.iter().skip(start).step_by(step).collect();
        let e = some.iter().map(|p| p.2).max().unwrap();
        let q: i128 = some.iter().map(|p| cut(p.0, 24 - p.1 + p.2 - e)).sum();
        (q, e)
    };
    let (q, e) = if is_small {
        let ((q0, e0), (q1, e1)) = (together(2, 0), together(2, 1));
        let e = e0.max(e1);
        (scaled(q0, e0 - e) + scaled(q1, e1 - e), e)
    } else {
        together(1, 0)
    };
    let bits = sum.to_bits();
    let field = bits >> 23 & 0xff;
    let hidden = u32::from(field > 0) << 23;
    let significand = i128::from(bits & 0x7f_ffff | hidden) * if bits >> 31 == 1 { -1 } else { 1 };
    let own = field.max(1) as i32 - 127;
    let most = e.max(own);
    let mut c = scaled(significand, 1 + own - most);
    if is_small && own < most - 25 {
        c = 0;
    }
    Some(nearest(scaled(q, 7 + e - most) + 128 * c, most - 31))
}

fn element(wave: &Wave, register: u32, (lane, n): (usize, usize), bits: usize) -> u32 {
    let each = 32 / bits;
    let word = wave.v(register as usize + n / each)[lane] >> (bits * (n % each));
    if bits == 32 {
        word
    } else {
        word & ((1 << bits) - 1)
    }
}

fn place(
    (_, size, _, blocks, each, ..): Shape,
    block: usize,
    i: usize,
    k: usize,
) -> (usize, usize) {
    (i + size * (block + blocks * (k / each)), k % each)
}

fn sum_at(size: usize, block: usize, i: usize, j: usize) -> (usize, usize) {
    match size {
        32 => (16 * block + 4 * (i / 8) + i % 4, j + 32 * (i / 4 % 2)),
        16 => (4 * block + i % 4, j + 16 * (i / 4)),
        _ => (i, j + 4 * block),
    }
}

fn words(op: u32) -> [u32; 2] {
    [
        0x1a7 << 23 | op << 16 | SUM,
        V + A | (V + B) << 9 | (V + SUM) << 18,
    ]
}

/// Registers of numbers whose exponents are near each other, or are any.
fn random(seed: u64, near: bool) -> Wave {
    let mut wave = single::random(VGPRS, seed);
    if near {
        // bf16 and f32 of about 1; an f16 of about 1.
        for word in wave.vgprs_mut().iter_mut().flat_map(|row| &mut row.0) {
            *word = *word & 0x83ff_83ff | 0x3c00_3c00;
        }
    }
    wave
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn small(which in 0..SHAPES.len(), seed: u64, near: bool) {
        let shape = SHAPES[which];
        let (op, size, depth, blocks, _, together, a, b) = shape;
        let (before, mut after) = (random(seed, near), random(seed, near));
        run942(&mut after, words(op));
        for block in 0..blocks {
            for i in 0..size {
                for j in 0..size {
                    let (register, lane) = sum_at(size, block, i, j);
                    let mut sum = f32::from_bits(before.v(SUM as usize + register)[lane]);
                    let pairs: Vec<(u32, u32)> = (0..depth)
                        .map(|k| {
                            let first = element(&before, A, place(shape, block, i, k), a.bits());
                            let second = element(&before, B, place(shape, block, j, k), b.bits());
                            (first, second)
                        })
                        .collect();
                    let mut known = sum.is_finite();
                    for group in pairs.chunks(together) {
                        match added(sum, group, (a, b)) {
                            Some(next) if next.is_finite() && known => sum = next,
                            _ => known = false,
                        }
                    }
                    let found = f32::from_bits(after.v(SUM as usize + register)[lane]);
                    if known {
                        prop_assert_eq!(found.to_bits(), sum.to_bits(), "{} {} {}", op, i, j);
                    }
                }
            }
        }
    }

    #[test]
    fn bytes(wide: bool, seed: u64) {
        let (op, size, depth) = if wide { (86, 32, 16) } else { (87, 16, 32) };
        let shape = (op, size, depth, 1, 8, 0, Fp8, Fp8);
        let (before, mut after) = (random(seed, false), random(seed, false));
        run942(&mut after, words(op));
        for i in 0..size {
            for j in 0..size {
                let (register, lane) = sum_at(size, 0, i, j);
                let mut sum = before.v(SUM as usize + register)[lane];
                for k in 0..depth {
                    let byte = |register: u32, n: usize| {
                        element(&before, register, place(shape, 0, n, k), 8) as i8 as i32
                    };
                    sum = sum.wrapping_add((byte(A, i) * byte(B, j)) as u32);
                }
                prop_assert_eq!(after.v(SUM as usize + register)[lane], sum);
            }
        }
    }
}

/// Opcode, size, elements of B in a lane, A, B. A has half as many.
const SPARSE: &[(u32, usize, usize, Kind, Kind)] = &[
    (98, 16, 8, F16, F16),
    (100, 32, 8, F16, F16),
    (102, 16, 8, Bf16, Bf16),
    (104, 32, 8, Bf16, Bf16),
    (120, 16, 16, Bf8, Bf8),
    (121, 16, 16, Bf8, Fp8),
    (122, 16, 16, Fp8, Bf8),
    (123, 16, 16, Fp8, Fp8),
    (124, 32, 16, Bf8, Bf8),
    (125, 32, 16, Bf8, Fp8),
    (126, 32, 16, Fp8, Bf8),
    (127, 32, 16, Fp8, Fp8),
];

/// The register of indices.
const INDICES: u32 = 60;

fn sparse_words(op: u32, cbsz: u32, abid: u32) -> [u32; 2] {
    let [first, second] = words(op);
    let sources = second & !(511 << 18) | (V + INDICES) << 18;
    [first | cbsz << 8 | abid << 11, sources]
}

/// The pairs of row `i` and column `j`, as bits: the four elements of a group are in one lane.
fn sparse_pairs(
    wave: &Wave,
    (size, each, bits): (usize, usize, [usize; 2]),
    first: u32,
    i: usize,
    j: usize,
) -> Vec<(u32, u32)> {
    let mut pairs = Vec::new();
    for lane in 0..64 / size {
        let (row, column) = (i + size * lane, j + size * lane);
        for group in 0..each / 4 {
            let index = wave.v(INDICES as usize)[row] >> first >> (4 * group);
            for n in 0..2 {
                let from = 4 * group + (index >> (2 * n) & 3) as usize;
                pairs.push((
                    element(wave, A, (row, 2 * group + n), bits[0]),
                    element(wave, B, (column, from), bits[1]),
                ));
            }
        }
    }
    pairs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn sparse(which in 0..SPARSE.len(), seed: u64, near: bool, cbsz in 0..2u32, abid in 0..4u32) {
        let (op, size, each, a, b) = SPARSE[which];
        let first = match (cbsz, each) {
            (0, 8) => 8 * abid,
            (0, _) => 16 * (abid & 1),
            _ => 0,
        };
        let (before, mut after) = (random(seed, near), random(seed, near));
        run942(&mut after, sparse_words(op, cbsz, abid));
        for i in 0..size {
            for j in 0..size {
                let (register, lane) = sum_at(size, 0, i, j);
                let mut sum = f32::from_bits(before.v(SUM as usize + register)[lane]);
                let mut known = sum.is_finite();
                let shape = (size, each, [a.bits(), b.bits()]);
                let pairs = sparse_pairs(&before, shape, first, i, j);
                for group in pairs.chunks(each) {
                    match added(sum, group, (a, b)) {
                        Some(next) if next.is_finite() && known => sum = next,
                        _ => known = false,
                    }
                }
                let found = after.v(SUM as usize + register)[lane];
                if known {
                    prop_assert_eq!(found, sum.to_bits(), "{} {} {}", op, i, j);
                }
            }
        }
    }

    #[test]
    fn sparse_bytes(wide: bool, seed: u64, abid in 0..2u32) {
        let (op, size) = if wide { (108, 32) } else { (106, 16) };
        let (before, mut after) = (random(seed, false), random(seed, false));
        run942(&mut after, sparse_words(op, 0, abid));
        for i in 0..size {
            for j in 0..size {
                let (register, lane) = sum_at(size, 0, i, j);
                let mut sum = before.v(SUM as usize + register)[lane];
                for (a, b) in sparse_pairs(&before, (size, 16, [8, 8]), 16 * abid, i, j) {
                    sum = sum.wrapping_add((a as i8 as i32 * b as i8 as i32) as u32);
                }
                prop_assert_eq!(after.v(SUM as usize + register)[lane], sum);
            }
        }
    }
}

/// Results of two programs that share nothing.
#[test]
fn sparse_of_one_lane() {
    for (op, a, b, indices, sum, cbsz, abid, expected) in [
        (
            98,
            0x4000_3c00,
            [0x4000_3c00, 0x4800_4400],
            0x444d,
            0x3f00_0000,
            0,
            0,
            0x4194_0000,
        ),
        (
            98,
            0x4000_3c00,
            [0x4000_3c00, 0x4800_4400],
            0x444d,
            0x3f00_0000,
            0,
            1,
            0x40b0_0000,
        ),
        (
            98,
            0x4000_3c00,
            [0x4000_3c00, 0x4800_4400],
            0x444d,
            0x3f00_0000,
            1,
            1,
            0x4194_0000,
        ),
        (
            106,
            0x0403_0201,
            [0x0403_0201, 0x0807_0605],
            0x449c,
            0,
            0,
            0,
            0x37,
        ),
    ] {
        let mut wave = random(1, false);
        wave.vgprs_mut().iter_mut().for_each(|row| row.0 = [0; 64]);
        wave.v_mut(A as usize)[0] = a;
        wave.v_mut(B as usize)[0] = b[0];
        wave.v_mut(B as usize + 1)[0] = b[1];
        wave.v_mut(INDICES as usize)[0] = indices;
        wave.v_mut(SUM as usize)[0] = sum;
        run942(&mut wave, sparse_words(op, cbsz, abid));
        assert_eq!(wave.v(SUM as usize)[0], expected, "{op} {cbsz} {abid}");
    }
}

/// Row 0 of A times column 0 of B, with pairs from k = 0 on and zeros behind.
fn dot(op: u32, pairs: &[(u32, u32)], c: u32) -> u32 {
    let &shape = SHAPES.iter().find(|shape| shape.0 == op).unwrap();
    let mut wave = random(1, false);
    wave.vgprs_mut().iter_mut().for_each(|row| row.0 = [0; 64]);
    for (k, &(a, b)) in pairs.iter().enumerate() {
        for (register, value, bits) in [(A, a, shape.6.bits()), (B, b, shape.7.bits())] {
            let (lane, n) = place(shape, 0, 0, k);
            let each = 32 / bits;
            let word = &mut wave.v_mut(register as usize + n / each)[lane];
            *word |= value << (bits * (n % each));
        }
    }
    wave.v_mut(SUM as usize)[0] = c;
    run942(&mut wave, words(op));
    wave.v(SUM as usize)[0]
}

/// One pair, and `count` others.
fn with(first: (u32, u32), count: usize, others: (u32, u32)) -> Vec<(u32, u32)> {
    let mut pairs = vec![first];
    pairs.extend(std::iter::repeat_n(others, count));
    pairs
}

const NAN: u32 = 0x7fc0_0000;

#[test]
fn dots_of_halves() {
    let (one, t) = (0x3c00, 0x0c00);
    assert_eq!(dot(77, &with((one, one), 7, (t, t)), 0), 0x3f80_0004);
    assert_eq!(dot(77, &with((one, one), 15, (t, t)), 0), 0x3f80_0008);
    assert_eq!(dot(77, &[(one, one)], 0xb080_0000), 0x3f7f_ffff);
    assert_eq!(dot(77, &[(one, one)], 0x3080_0000), 0x3f80_0000);
    assert_eq!(dot(77, &[(1, one)], 0), 0x3380_0000);
    let mut pairs = with((one, one), 7, (0, 0));
    pairs[1] = (one | 0x8000, one);
    pairs.push((one, t));
    assert_eq!(dot(77, &pairs, 0x3380_0000), 0x3980_0800);
    let (one, t) = (0x3f80, 0x3980);
    assert_eq!(dot(97, &with((one, one), 7, (t, t)), 0), 0x3f80_0004);
    assert_eq!(dot(97, &[(1, 0x7180)], 0), 0x2f00_0000);
    assert_eq!(dot(97, &[(0x1c80, 0x1c80)], 0), 0x200);
    assert_eq!(dot(97, &[(0x5f80, 0x5f80)], 0), 0x7f80_0000);
    assert_eq!(dot(97, &[(one, one)], 0xb080_0000), 0x3f7f_ffff);
    assert_eq!(dot(97, &[(0x7180, 0x7180), (0x7180, 0xf100)], 0), NAN);
}

#[test]
fn dots_of_xf32() {
    let (one, t) = (0x3f80_0000, 0x3980_0000);
    assert_eq!(dot(62, &[(0x3f80_1fff, 0x3f80_1fff)], 0), one);
    assert_eq!(dot(62, &[(0x3f80_1800, one)], 0), one);
    assert_eq!(dot(62, &with((one, one), 3, (t, t)), 0), 0x3f80_0002);
    assert_eq!(dot(62, &with((one, one), 7, (t, t)), 0), 0x3f80_0004);
    assert_eq!(dot(62, &[(one, one)], 0xb080_0000), 0x3f7f_ffff);
}

#[test]
fn dots_of_bytes() {
    assert_eq!(dot(115, &[(0x40, 0x40)], 0xb080_0000), 0x3f80_0000);
    assert_eq!(dot(115, &[(0x40, 0x40)], 0xb300_0000), 0x3f7f_ffff);
    assert_eq!(dot(115, &[(0x40, 0x40)], 0xb2ff_ffff), 0x3f80_0000);
    assert_eq!(dot(112, &[(0x7c, 0x40), (0x82, 0x3c)], 0), 0x46ff_ffff);
    assert_eq!(
        dot(112, &[(0x7c, 0x40), (0, 0), (0x82, 0x3c)], 0),
        0x4700_0000
    );
    let mut pairs = vec![(0x42, 0x48), (0x44, 0x38), (0xc6, 0x40)];
    pairs.resize(16, (0, 0));
    pairs.resize(32, (0x40, 0x40));
    assert_eq!(dot(113, &pairs, 0x3f80_0000), 0x4190_0000);
    assert_eq!(dot(114, &[(0x80, 0x40)], 0x3f80_0000), NAN);
    assert_eq!(dot(119, &[(0x7f, 0x7f); 16], 0), 0x4961_0000);
}

/// Infinities, and MODE's part in products of f32.
#[test]
fn others() {
    let infinity = 0x7f80_0000;
    assert_eq!(dot(77, &[(0x7c00, 0x3c00)], 0), infinity);
    assert_eq!(dot(77, &[(0x7c00, 0)], 0), NAN);
    assert_eq!(dot(77, &[(0x7c00, 0x3c00)], 0xff80_0000), NAN);
    assert_eq!(dot(77, &[(0x7c00, 0x3c00), (0x7c00, 0xbc00)], 0), NAN);
    assert_eq!(dot(77, &[(0x3c00, 0x3c00)], 0xff80_0000), 0xff80_0000);
    // f32 16x16x4: a denormal.
    for (mode, expected) in [(0xf0, 0x3480_0000), (0xc0, 0)] {
        let mut wave = random(1, false);
        wave.vgprs_mut().iter_mut().for_each(|row| row.0 = [0; 64]);
        wave.v_mut(A as usize)[0] = 1;
        wave.v_mut(B as usize)[0] = 0x7f00_0000;
        wave.mode = mode;
        run942(&mut wave, words(69));
        assert_eq!(wave.v(SUM as usize)[0], expected);
    }
}
