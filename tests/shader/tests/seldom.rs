// SPDX-License-Identifier: GPL-2.0
//! Single instructions that compilers seldom emit, against results that are computed here.

#[path = "common/single.rs"]
mod single;

use half::f16;
use proptest::prelude::*;
use rkfd_shader::lds::Lds;
use rkfd_shader::wave::{sgpr, Wave, TEMPS};
use single::memory::DATA;
use single::{exec, run, run_with, wave};

const V: u32 = 256;
/// The result, behind three sources of up to four registers.
const RESULT: u32 = 12;

fn vop3(op: u32) -> [u32; 2] {
    vop3_of(op, 3)
}

/// With that many sources: v0, v4, v8.
fn vop3_of(op: u32, sources: u32) -> [u32; 2] {
    let source = |n: u32| {
        if n < sources {
            (V + 4 * n) << (9 * n)
        } else {
            0
        }
    };
    [
        0x34 << 26 | op << 16 | RESULT,
        source(0) | source(1) | source(2),
    ]
}

fn word(wave: &Wave, n: u32, lane: usize) -> u32 {
    wave.v(n as usize)[lane]
}

fn qword(wave: &Wave, n: u32, lane: usize) -> u64 {
    u64::from(word(wave, n, lane)) | u64::from(word(wave, n + 1, lane)) << 32
}

fn single_of(wave: &Wave, n: u32, lane: usize) -> f32 {
    f32::from_bits(word(wave, n, lane))
}

fn half_of(word: u32, high: bool) -> f64 {
    f16::from_bits(if high { word >> 16 } else { word } as u16).to_f64()
}

/// Floats that are often of the same size, and not too large.
fn make_plain(wave: &mut Wave, seed: u64) {
    for n in 0..16 {
        for (lane, word) in wave.v_mut(n).iter_mut().enumerate() {
            let value = (*word as i32 >> 24) as f32 / 16.0;
            if (seed >> (lane % 60)) & 1 == 1 {
                *word = value.to_bits();
            }
        }
    }
}

/// The distance of four bytes from four others, without those that are 0 there if `masked`.
fn distance(a: [u8; 4], b: [u8; 4], masked: bool) -> u64 {
    let pairs = a.into_iter().zip(b).filter(|&(_, b)| !masked || b != 0);
    pairs.map(|(a, b)| u64::from(a.max(b) - a.min(b))).sum()
}

/// Nearest integer, ties to even, of a value that is not far from 0.
fn nearest(value: f64) -> i32 {
    let (below, rest) = (value.floor(), value - value.floor());
    let up = rest > 0.5 || rest == 0.5 && below.rem_euclid(2.0) == 1.0;
    below as i32 + i32::from(up)
}

/// A number of 16 bits for one from -1, or without a sign from 0, to 1.
fn norm(value: f64, signed: bool) -> u16 {
    match (value.is_nan(), signed) {
        (true, _) => 0,
        (_, true) => nearest(value.clamp(-1.0, 1.0) * 32767.0) as u16,
        (_, false) => nearest(value.clamp(0.0, 1.0) * 65535.0) as u16,
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

/// The value of f16 bits without denormals.
fn flushed(bits: u16) -> f64 {
    let value = f16::from_bits(bits).to_f64();
    if value.abs() < 2f64.powi(-14) {
        0f64.copysign(value)
    } else {
        value
    }
}

/// The product and sum, rounded twice, without denormals.
fn mad(a: u16, b: u16, c: u16) -> f64 {
    let round = |value: f64| flushed(f16::from_f64(value).to_bits());
    round(round(flushed(a) * flushed(b)) + flushed(c))
}

fn same16(result: u16, expected: f64) -> bool {
    let result = f16::from_bits(result);
    result.is_nan() && expected.is_nan() || result.to_f64().to_bits() == expected.to_bits()
}

fn same32(result: u32, expected: f32) -> bool {
    f32::from_bits(result).is_nan() && expected.is_nan() || result == expected.to_bits()
}

/// Face, two coordinates and twice the largest one of a direction.
fn cube([x, y, z]: [f32; 3]) -> [f32; 4] {
    let largest = x.abs().max(y.abs()).max(z.abs());
    let any_nan = x.is_nan() || y.is_nan() || z.is_nan();
    assert!(!any_nan);
    if z.abs() == largest {
        let (face, s) = if z < 0.0 { (5.0, -x) } else { (4.0, x) };
        [face, s, -y, 2.0 * z]
    } else if y.abs() == largest {
        let (face, t) = if y < 0.0 { (3.0, -z) } else { (2.0, z) };
        [face, x, t, 2.0 * y]
    } else {
        let (face, s) = if x < 0.0 { (1.0, z) } else { (0.0, -z) };
        [face, s, -y, 2.0 * x]
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// v_qsad_pk_u16_u8, v_mqsad_pk_u16_u8, v_mqsad_u32_u8, with and without clamp.
    #[test]
    fn differences(which in 0..3u32, clamp: bool, seed: u64, exec in exec()) {
        let before = wave(seed, exec);
        let mut after = wave(seed, exec);
        let [first, second] = vop3(485 + which);
        run(&mut after, [first | u32::from(clamp) << 15, second]);
        for lane in 0..64 {
            let bytes = qword(&before, 0, lane).to_le_bytes();
            let others = word(&before, 4, lane).to_le_bytes();
            for n in 0..4 {
                let apart = distance(bytes[n..n + 4].try_into().unwrap(), others, which > 0);
                let (old, new, bits) = if which == 2 {
                    let n = n as u32;
                    (word(&before, 8 + n, lane).into(), word(&after, RESULT + n, lane).into(), 32)
                } else {
                    let part = |all: u64| all >> (16 * n) & 0xffff;
                    (part(qword(&before, 8, lane)), part(qword(&after, RESULT, lane)), 16)
                };
                let sum: u64 = old + apart;
                let most = (1 << bits) - 1;
                let expected = match exec >> lane & 1 {
                    1 if clamp => sum.min(most),
                    1 => sum & most,
                    _ if which == 2 => word(&before, RESULT + n as u32, lane).into(),
                    _ => qword(&before, RESULT, lane) >> (16 * n) & 0xffff,
                };
                prop_assert_eq!(new, expected, "{} lane {} {}", which, lane, n);
            }
        }
    }

    /// v_msad_u8, v_sat_pk_u8_i16, v_cvt_pkaccum_u8_f32.
    #[test]
    fn bytes(seed: u64, plain: u64, exec in exec()) {
        let mut before = wave(seed, exec);
        make_plain(&mut before, plain);
        let fresh = || {
            let mut wave = wave(seed, exec);
            make_plain(&mut wave, plain);
            wave
        };
        let (mut masked, mut saturated, mut packed) = (fresh(), fresh(), fresh());
        run(&mut masked, vop3(484));
        run(&mut saturated, vop3_of(0x140 + 79, 1));
        run(&mut packed, vop3_of(496, 2));
        for lane in (0..64).filter(|lane| exec >> lane & 1 == 1) {
            let [a, b, c] = [0, 4, 8].map(|n| word(&before, n, lane));
            let apart = distance(a.to_le_bytes(), b.to_le_bytes(), true) as u32;
            prop_assert_eq!(word(&masked, RESULT, lane), c.wrapping_add(apart));
            let byte = |half: u32| i32::from(half as u16 as i16).clamp(0, 255) as u32;
            prop_assert_eq!(word(&saturated, RESULT, lane), byte(a) + byte(a >> 16) * 256);
            let mut expected = word(&before, RESULT, lane).to_le_bytes();
            let value = f64::from(f32::from_bits(a));
            let value = if value.is_nan() { 0.0 } else { value.clamp(-1.0, 256.0) };
            expected[b as usize % 4] = nearest(value).clamp(0, 255) as u8;
            prop_assert_eq!(word(&packed, RESULT, lane).to_le_bytes(), expected);
        }
    }

    /// v_cvt_pknorm of f32 and f16, v_cvt_norm of f16.
    #[test]
    fn norms(signed: bool, seed: u64, exec in exec()) {
        let mut before = wave(seed, exec);
        let change = |wave: &mut Wave| {
            // Half of the lanes have numbers near 1.
            for n in [0, 4] {
                for word in wave.v_mut(n).iter_mut().step_by(2) {
                    *word = (*word as i32 as f32 / 1.5e9).to_bits();
                }
            }
        };
        change(&mut before);
        let fresh = || {
            let mut wave = wave(seed, exec);
            change(&mut wave);
            wave
        };
        let (mut singles, mut halves, mut one) = (fresh(), fresh(), fresh());
        run(&mut singles, vop3_of(661 - u32::from(signed), 2));
        run(&mut halves, vop3_of(666 - u32::from(signed), 2));
        run(&mut one, vop3_of(0x140 + 78 - u32::from(signed), 1));
        let pair = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
        for lane in (0..64).filter(|lane| exec >> lane & 1 == 1) {
            let [a, b] = [0, 4].map(|n| norm(f64::from(single_of(&before, n, lane)), signed));
            prop_assert_eq!(word(&singles, RESULT, lane), pair(a, b));
            let [a, b] = [0, 4].map(|n| norm(half_of(word(&before, n, lane), false), signed));
            prop_assert_eq!(word(&halves, RESULT, lane), pair(a, b));
            prop_assert_eq!(word(&one, RESULT, lane), u32::from(a));
        }
    }

    /// v_cubeid_f32, v_cubesc_f32, v_cubetc_f32, v_cubema_f32.
    #[test]
    fn cubes(which in 0..4u32, plain: u64, seed: u64, exec in exec()) {
        let mut before = wave(seed, exec);
        let mut after = wave(seed, exec);
        make_plain(&mut before, plain);
        make_plain(&mut after, plain);
        run(&mut after, vop3(452 + which));
        for lane in (0..64).filter(|lane| exec >> lane & 1 == 1) {
            let direction = [0, 4, 8].map(|n| single_of(&before, n, lane));
            if direction.iter().any(|n| n.is_nan()) {
                continue;
            }
            let expected = cube(direction)[which as usize];
            prop_assert!(same32(word(&after, RESULT, lane), expected), "{direction:?} {expected}");
        }
    }

    /// v_mul_legacy_f32 and v_mad_legacy_f32: 0 times anything is 0.
    #[test]
    fn zero_times_anything(seed: u64, plain: u64, exec in exec()) {
        let mut before = wave(seed, exec);
        make_plain(&mut before, plain);
        let fresh = || {
            let mut wave = wave(seed, exec);
            make_plain(&mut wave, plain);
            wave
        };
        let (mut product, mut sum) = (fresh(), fresh());
        run(&mut product, vop3_of(673, 2));
        run(&mut sum, vop3(448));
        let flush = |a: f32| if a.is_subnormal() { 0f32.copysign(a) } else { a };
        for lane in (0..64).filter(|lane| exec >> lane & 1 == 1) {
            let [a, b, c] = [0, 4, 8].map(|n| single_of(&before, n, lane));
            let times = |a: f32, b: f32| if a == 0.0 || b == 0.0 { 0.0 } else { a * b };
            prop_assert!(same32(word(&product, RESULT, lane), times(a, b)), "{a} {b}");
            let expected = flush(flush(times(flush(a), flush(b))) + flush(c));
            prop_assert!(same32(word(&sum, RESULT, lane), expected), "{a} {b} {c}");
        }
    }

    /// v_mad_f16, v_mad_legacy_f16, v_mac_f16, v_madmk_f16, v_madak_f16.
    #[test]
    fn mads(which in 0..5usize, constant: u16, seed: u64, exec in exec()) {
        let before = wave(seed, exec);
        let mut after = wave(seed, exec);
        let in_two = |op: u32| op << 25 | RESULT << 17 | 4 << 9 | V;
        run(&mut after, [
            vop3(515),
            vop3(490),
            [in_two(35), 0xbf80_0000],
            [in_two(36), constant.into()],
            [in_two(37), constant.into()],
        ][which]);
        for lane in (0..64).filter(|lane| exec >> lane & 1 == 1) {
            let [a, b, c] = [0, 4, 8].map(|n| word(&before, n, lane) as u16);
            let old = word(&before, RESULT, lane);
            let expected = match which {
                0 | 1 => mad(a, b, c),
                2 => mad(a, b, old as u16),
                3 => mad(a, constant, b),
                _ => mad(a, b, constant),
            };
            let new = word(&after, RESULT, lane);
            prop_assert!(same16(new as u16, expected), "{which} {a:x} {b:x} {c:x}: {new:x}");
            let high = if which == 1 { 0 } else { old >> 16 };
            prop_assert_eq!(new >> 16, high, "{}", which);
        }
    }

    /// v_pk_fmac_f16, and v_dot2c_f32_f16 of factors that are not denormal.
    #[test]
    fn sums_of_halves(seed: u64, exec in exec()) {
        let before = wave(seed, exec);
        let (mut packed, mut dot) = (wave(seed, exec), wave(seed, exec));
        let in_two = |op: u32| [op << 25 | RESULT << 17 | 4 << 9 | V, 0xbf80_0000];
        run(&mut packed, in_two(60));
        run(&mut dot, in_two(55));
        for lane in (0..64).filter(|lane| exec >> lane & 1 == 1) {
            let [a, b, c] = [0, 4, RESULT].map(|n| word(&before, n, lane));
            for shift in [0, 16] {
                let all = [a, b, c, word(&packed, RESULT, lane)];
                let [a, b, c, new] = all.map(|word| (word >> shift) as u16);
                // Infinities and NaNs are none of this test's.
                if [a, b, c, new].iter().any(|half| half & 0x7c00 == 0x7c00) {
                    continue;
                }
                let exact = fixed(a) * fixed(b) + (fixed(c) << 24);
                let away = |half: u16| ((fixed(half) << 24) - exact).abs();
                let magnitude = new & 0x7fff;
                let neighbours = [magnitude.saturating_sub(1), magnitude + 1];
                for other in neighbours.map(|other| other | new & 0x8000) {
                    let is_half = away(new) == away(other);
                    let nearest = away(new) < away(other) || is_half && new & 1 == 0;
                    prop_assert!(nearest || other == new, "{a:x} {b:x} {c:x}: {new:x}");
                }
            }
            let part = |word: u32, n: u32| {
                let bits = (word >> (16 * n)) as u16;
                flushed(bits)
            };
            let first = part(a, 0) * part(b, 0) + f64::from(f32::from_bits(c));
            let expected = (first as f32 as f64 + part(a, 1) * part(b, 1)) as f32;
            let new = f32::from_bits(word(&dot, RESULT, lane));
            let close = (new - expected).abs() <= expected.abs() * 1e-6;
            prop_assert!(close || new == expected || !expected.is_finite(), "{new} {expected}");
        }
    }

    /// v_accvgpr_mov_b32 a1, a2.
    #[test]
    fn accumulation(seed: u64, exec in exec()) {
        let before = wave(seed, exec);
        let mut after = Wave::new(12, 4, before.pc);
        after.rows.copy_from_slice(&before.rows);
        after.set_exec(exec);
        run(&mut after, [0x3f << 25 | 1 << 17 | 82 << 9 | V | 2, 0xbf81_0000]);
        for lane in 0..64 {
            let from = if exec >> lane & 1 == 1 { 14 } else { 13 };
            prop_assert_eq!(after.rows[TEMPS + 13].0[lane], word(&before, from, lane));
        }
    }

    /// ds_cmpst of floats, ds_wrap, ds_wrxchg2, ds_condxchg32, all of v1, v2 and v4, to v6.
    #[test]
    fn lds(which in 0..8usize, equal: bool, seed: u64, exec in exec()) {
        const SIZE: u32 = 2048;
        const OPS: [u32; 8] = [49, 113, 52, 46, 47, 110, 126, 17];
        let op = OPS[which];
        let addressed = || {
            let mut wave = wave(seed, exec);
            for word in wave.v_mut(1) {
                *word %= 128;
                *word *= 8;
            }
            wave
        };
        let (before, mut after) = (addressed(), addressed());
        let mut lds = Lds::new(SIZE);
        let filled = |n: usize| (seed as u32).wrapping_mul(n as u32 + 1).rotate_left(9);
        for (n, place) in lds.bytes_mut().chunks_exact_mut(4).enumerate() {
            // Zeros of both signs, or what the first lane expects.
            let value = if equal { word(&before, 2 + n as u32 % 2, 0) } else { filled(n) };
            place.copy_from_slice(&value.to_le_bytes());
        }
        let mut data = lds.bytes().to_vec();
        // The second offset of an exchange is in the high byte.
        let offset = match op {
            46 | 47 | 110 => 2 | 1 << 8,
            _ => 16u32,
        };
        run_with(
            &mut after,
            [0x36 << 26 | op << 17 | offset, 1 | 2 << 8 | 4 << 16 | 6 << 24],
            &mut [],
            &mut lds,
        );
        let mut outside = 0;
        for lane in 0..64 {
            let mut expected = [6, 7, 8, 9].map(|n| word(&before, n, lane));
            if exec >> lane & 1 == 1 {
                let at = word(&before, 1, lane);
                let (a, b) = (qword(&before, 2, lane), qword(&before, 4, lane));
                let mut change = |at: u32, bytes: usize, new: &dyn Fn(u64) -> u64| {
                    let at = at as usize;
                    let Some(place) = data.get_mut(at..at + bytes) else {
                        outside += 1;
                        return 0;
                    };
                    let mut old = [0; 8];
                    old[..bytes].copy_from_slice(place);
                    let old = u64::from_le_bytes(old);
                    place.copy_from_slice(&new(old).to_le_bytes()[..bytes]);
                    old
                };
                let single = |bits: u64| f32::from_bits(bits as u32);
                match op {
                    17 | 49 => {
                        let new = |old| if single(old) == single(a) { b } else { old };
                        let old = change(at + 16, 4, &new);
                        if op == 49 {
                            expected[0] = old as u32;
                        }
                    }
                    113 => {
                        let is_equal = |old| f64::from_bits(old) == f64::from_bits(a);
                        let new = |old| if is_equal(old) { b } else { old };
                        let old = change(at + 16, 8, &new);
                        (expected[0], expected[1]) = (old as u32, (old >> 32) as u32);
                    }
                    52 => {
                        let (a, b) = (a as u32, b as u32);
                        let new = |old: u64| match old as u32 {
                            old if old >= a => u64::from(old - a),
                            old => u64::from(old.wrapping_add(b)),
                        };
                        expected[0] = change(at + 16, 4, &new) as u32;
                    }
                    46 | 47 => {
                        let unit = if op == 47 { 256 } else { 4 };
                        expected[0] = change(at + 2 * unit, 4, &|_| a) as u32;
                        expected[1] = change(at + unit, 4, &|_| b) as u32;
                    }
                    110 => {
                        let first = change(at + 16, 8, &|_| a);
                        let second = change(at + 8, 8, &|_| b);
                        expected = [first, first >> 32, second, second >> 32].map(|n| n as u32);
                    }
                    _ => {
                        for (n, expected) in expected.iter_mut().take(2).enumerate() {
                            let new = a >> (32 * n) & 0xffff_ffff;
                            let marked = new >> 31 == 1;
                            let new = |old| if marked { new & 0x7fff_ffff } else { old };
                            *expected = change(at + 16 + 4 * n as u32, 4, &new) as u32;
                        }
                    }
                }
            }
            let found = [6, 7, 8, 9].map(|n| word(&after, n, lane));
            prop_assert_eq!(found, expected, "{} lane {}", op, lane);
        }
        prop_assert_eq!(lds.bytes(), &data[..]);
        prop_assert_eq!(lds.outside(), outside);
    }

    /// ds_append, ds_consume, ds_write_addtid_b32, ds_read_addtid_b32.
    #[test]
    fn lds_by_base(which in 0..4usize, base in 0..256u32, seed: u64, exec in exec()) {
        let (before, mut after) = (wave(seed, exec), wave(seed, exec));
        let (base, offset) = (base & !3, 8);
        after.sgpr[sgpr::M0] = base | 0xabcd_0000;
        let mut lds = Lds::new(1024);
        for (n, byte) in lds.bytes_mut().iter_mut().enumerate() {
            *byte = (seed >> (n % 57)) as u8;
        }
        let mut data = lds.bytes().to_vec();
        let op = [190, 189, 29, 182][which];
        run_with(&mut after, [0x36 << 26 | op << 17 | offset, 2 << 8 | 6 << 24], &mut [], &mut lds);
        let read = |data: &[u8], at: usize| {
            u32::from_le_bytes(data[at..at + 4].try_into().unwrap())
        };
        let first = (base + offset) as usize;
        let old = read(&data, first);
        match which {
            0 | 1 => {
                let count = exec.count_ones();
                let new = if which == 0 {
                    old.wrapping_add(count)
                } else {
                    old.wrapping_sub(count)
                };
                data[first..first + 4].copy_from_slice(&new.to_le_bytes());
            }
            2 => {
                for lane in (0..64).filter(|lane| exec >> lane & 1 == 1) {
                    let at = first + 4 * lane;
                    data[at..at + 4].copy_from_slice(&word(&before, 2, lane).to_le_bytes());
                }
            }
            _ => {}
        }
        for lane in 0..64 {
            let expected = match which {
                _ if exec >> lane & 1 == 0 => word(&before, 6, lane),
                0 | 1 => old,
                3 => read(&data, first + 4 * lane),
                _ => word(&before, 6, lane),
            };
            prop_assert_eq!(word(&after, 6, lane), expected, "lane {}", lane);
        }
        prop_assert_eq!(lds.bytes(), &data[..]);
    }

    /// global_load_dword to LDS, at M0, the offset and four times the lane; s_buffer_atomic_add.
    #[test]
    fn memory(seed: u64, amount: u32, exec in exec()) {
        let mut loading = wave(seed, exec);
        let places: Vec<u32> = loading.v(1).iter().map(|place| place % 512).collect();
        loading.v_mut(1).copy_from_slice(&places);
        loading.set_pair(8, DATA);
        loading.sgpr[sgpr::M0] = 0x40;
        let mut lds = Lds::new(512);
        let mut data: Vec<u8> = (0..1024u32).map(|n| (seed >> (n % 57)) as u8 ^ n as u8).collect();
        // v1 from s[8:9], offset 4.
        let words = [0x37 << 26 | 20 << 18 | 1 << 13 | 2 << 14 | 4, 1 | 8 << 16];
        run_with(&mut loading, words, &mut data, &mut lds);
        for (lane, place) in places.iter().enumerate() {
            let at = *place as usize + 4;
            let expected = if exec >> lane & 1 == 1 { &data[at..at + 4] } else { &[0; 4] };
            let place = 0x44 + 4 * lane;
            prop_assert_eq!(&lds.bytes()[place..place + 4], expected, "lane {}", lane);
        }
        let mut scalar = wave(seed, exec);
        // Bits behind those of the base belong to the buffer's other fields.
        scalar.set_pair(8, DATA | 0x1234 << 48);
        scalar.sgpr[16] = amount;
        let old = u32::from_le_bytes(data[8..12].try_into().unwrap());
        let words = [0x30 << 26 | 66 << 18 | 1 << 17 | 1 << 16 | 16 << 6 | 4, 8];
        run_with(&mut scalar, words, &mut data, &mut lds);
        prop_assert_eq!(scalar.sgpr[16], old);
        let new = u32::from_le_bytes(data[8..12].try_into().unwrap());
        prop_assert_eq!(new, old.wrapping_add(amount));
    }
}
