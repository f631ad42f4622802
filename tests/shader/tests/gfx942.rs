// SPDX-License-Identifier: GPL-2.0
//! Instructions of gfx942 that gfx90a does not have, or has otherwise.

#[path = "common/single.rs"]
mod single;

use half::{bf16, f16};
use proptest::prelude::*;
use rkfd_shader::decode::{decode, Lack, Words};
use rkfd_shader::dispatch::{Launch, Seat};
use rkfd_shader::isa::Isa;
use rkfd_shader::lds::Lds;
use rkfd_shader::wave::{sgpr, Apertures, Wave};
use single::memory::{DATA, XCC};
use single::{exec, run942, run_of, wave};

/// The code of v0 as a source.
const V: u32 = 256;
/// No SGPR in an address.
const OFF: u32 = 0x7f;

fn double(wave: &Wave, n: usize, lane: usize) -> u64 {
    u64::from(wave.v(n)[lane]) | u64::from(wave.v(n + 1)[lane]) << 32
}

/// The value of a bf16, or of an f16.
fn value(bf: bool, half: u16) -> f64 {
    if bf {
        bf16::from_bits(half).to_f64()
    } else {
        f16::from_bits(half).to_f64()
    }
}

/// Returns whether no half is nearer to `sum`, or as near and even.
fn is_nearest(bf: bool, half: u16, sum: f64) -> bool {
    let found = value(bf, half);
    if !found.is_finite() {
        let most = value(bf, if bf { 0x7f7f } else { 0x7bff });
        return sum.is_nan() && found.is_nan()
            || sum.abs() > most && sum.signum() == found.signum();
    }
    let away = |half: u16| (value(bf, half) - sum).abs();
    let is_nearer = |other: u16| {
        let is_odd = half & 1 == 1;
        away(other) < away(half) || away(other) == away(half) && is_odd
    };
    let is_zero = half & 0x7fff == 0;
    !is_nearer(half + 1) && (is_zero && sum == 0.0 || !is_nearer(half.wrapping_sub(1)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn mov_b64(seed: u64, exec in exec()) {
        let (before, mut after) = (wave(seed, exec), wave(seed, exec));
        run942(&mut after, [0x3f << 25 | 4 << 17 | 56 << 9 | V | 2, 0xbf80_0000]);
        for lane in 0..64 {
            let from = if exec >> lane & 1 == 1 { 2 } else { 4 };
            prop_assert_eq!(double(&after, 4, lane), double(&before, from, lane));
        }
        // A literal has no sign.
        run942(&mut after, [0x3f << 25 | 4 << 17 | 56 << 9 | 255, !0]);
        // A row's fourth lane for all of it.
        let mut moved = wave(seed, !0);
        run942(&mut moved, [0x3f << 25 | 6 << 17 | 56 << 9 | 250, 0xff << 24 | 0x153 << 8 | 2]);
        for lane in 0..64 {
            if exec >> lane & 1 == 1 {
                prop_assert_eq!(double(&after, 4, lane), 0xffff_ffff);
            }
            prop_assert_eq!(double(&moved, 6, lane), double(&before, 2, lane & !15 | 3));
        }
    }

    #[test]
    fn lshl_add_u64(seed: u64, exec in exec()) {
        let (before, mut after) = (wave(seed, exec), wave(seed, exec));
        let sources = V + 2 | (V + 8) << 9 | 6 << 18;
        run942(&mut after, [0x34 << 26 | 520 << 16 | 4, sources]);
        for lane in 0..64 {
            let shifted = double(&before, 2, lane) << (before.v(8)[lane] & 7);
            let sum = shifted.wrapping_add(before.pair(6));
            let expected = if exec >> lane & 1 == 1 { sum } else { double(&before, 4, lane) };
            prop_assert_eq!(double(&after, 4, lane), expected);
        }
    }

    /// Multiply and add with a constant: rounded once.
    #[test]
    fn fmamk(seed: u64, constant: f32) {
        let (before, mut after) = (wave(seed, !0), wave(seed, !0));
        run942(&mut after, [23 << 25 | 4 << 17 | 6 << 9 | V | 2, constant.to_bits()]);
        run942(&mut after, [24 << 25 | 5 << 17 | 6 << 9 | V | 2, constant.to_bits()]);
        for lane in 0..64 {
            let float = |n: usize| f32::from_bits(before.v(n)[lane]);
            let sums = [
                float(2).mul_add(constant, float(6)),
                float(2).mul_add(float(6), constant),
            ];
            for (n, sum) in sums.into_iter().enumerate() {
                let found = f32::from_bits(after.v(4 + n)[lane]);
                prop_assert!(found.to_bits() == sum.to_bits() || found.is_nan() && sum.is_nan());
            }
        }
    }

    /// The halves of a dword are added apart, in LDS and in memory.
    #[test]
    fn pk_add(seed: u64, exec in exec(), bf: bool) {
        let (before, mut after) = (wave(seed, exec), wave(seed, exec));
        let mut lds = Lds::new(1024);
        *after.v_mut(2) = std::array::from_fn(|lane| 4 * lane as u32);
        let old: Vec<u32> = (0..64).map(|lane| before.v(9)[63 - lane]).collect();
        for (lane, word) in old.iter().enumerate() {
            lds.write(4 * lane as u32, &word.to_le_bytes());
        }
        let op = if bf { 184 } else { 183 };
        let words = [0x36 << 26 | op << 17, 2 | 8 << 8 | 4 << 24];
        run_of(Isa::Gfx942, &mut after, words, &mut [], &mut lds);
        // global_atomic_pk_add_f16 and _bf16.
        let mut data: Vec<u8> = old.iter().flat_map(|word| word.to_le_bytes()).collect();
        after.set_pair(10, DATA);
        let op = if bf { 82 } else { 78 };
        let words = [0x37 << 26 | op << 18 | 2 << 14, 2 | 8 << 8 | 10 << 16];
        run_of(Isa::Gfx942, &mut after, words, &mut data, &mut lds);
        for lane in 0..64 {
            let mut in_lds = [0; 4];
            lds.read(4 * lane as u32, &mut in_lds);
            let in_memory = data[4 * lane..][..4].try_into().unwrap();
            for found in [in_lds, in_memory].map(u32::from_le_bytes) {
                for shift in [0, 16] {
                    let half = |word: u32| (word >> shift) as u16;
                    let (a, b, found) = (half(old[lane]), half(before.v(8)[lane]), half(found));
                    if exec >> lane & 1 == 0 {
                        prop_assert_eq!(found, a);
                        continue;
                    }
                    let sum = value(bf, a) + value(bf, b);
                    prop_assert!(is_nearest(bf, found, sum), "{:x} {:x}: {:x}", a, b, found);
                }
            }
            if exec >> lane & 1 == 1 {
                prop_assert_eq!(after.v(4)[lane], old[lane]);
            }
        }
    }

    /// Private memory: the offset, a VGPR and an SGPR, each with or without the others.
    #[test]
    fn scratch(
        first in 0..16u32,
        scalar in 0..8u32,
        offset in -8..8i32,
        form in 0..4u32,
        same: bool,
    ) {
        let mut wave = wave(1, !0);
        let base = 64 * 4 * 16;
        wave.set_pair(sgpr::FLAT_SCRATCH, DATA);
        wave.sgpr[4] = 4 * scalar + 64;
        let by_lane = |lane: u32| 4 * if same { first } else { first + lane % 4 };
        *wave.v_mut(2) = std::array::from_fn(|lane| by_lane(lane as u32));
        let mut data: Vec<u8> = (0..base as u32).flat_map(|n| n.to_le_bytes()).collect();
        let (sve, saddr) = (form & 1, if form & 2 == 0 { OFF } else { 4 });
        // Without registers all lanes have the offset, which must not be less than 0.
        let offset = if form == 0 { 4 * offset.abs() } else { 4 * offset };
        let offset = if form & 2 == 0 { offset.abs() } else { offset };
        let word = 0x37 << 26 | 20 << 18 | 1 << 14 | sve << 13 | offset as u32 & 0x1fff;
        let words = [word, 2 | saddr << 16 | 5 << 24];
        run_of(Isa::Gfx942, &mut wave, words, &mut data, &mut Lds::new(0));
        for lane in 0..64u32 {
            let mut at = offset as u32;
            if sve == 1 {
                at = at.wrapping_add(by_lane(lane));
            }
            if saddr != OFF {
                at = at.wrapping_add(4 * scalar + 64);
            }
            prop_assert_eq!(wave.v(5)[lane as usize], at / 4 * 64 + lane, "{} {}", form, lane);
        }
    }
}

/// A byte of each lane becomes a dword of LDS.
#[test]
fn loads_to_lds() {
    let mut wave = wave(1, !0);
    wave.set_pair(4, DATA);
    wave.sgpr[sgpr::M0] = 64;
    *wave.v_mut(2) = std::array::from_fn(|lane| 3 * lane as u32);
    for (op, signed) in [(38, false), (39, true)] {
        let mut lds = Lds::new(1024);
        let mut data: Vec<u8> = (0..256u32).map(|n| (n * 7) as u8).collect();
        let words = [0x37 << 26 | op << 18 | 2 << 14 | 8, 2 | 4 << 16];
        run_of(Isa::Gfx942, &mut wave, words, &mut data, &mut lds);
        for lane in 0..64 {
            let mut found = [0; 4];
            lds.read(64 + 8 + 4 * lane, &mut found);
            let byte = data[3 * lane as usize + 8];
            let expected = if signed {
                byte as i8 as u32
            } else {
                byte.into()
            };
            assert_eq!(u32::from_le_bytes(found), expected, "{op} {lane}");
        }
    }
}

/// s_getreg_b32 of XCC_ID, which the host has, and of what samplers leave.
#[test]
fn registers() {
    let mut wave = wave(1, !0);
    for number in 20..=24 {
        let word = 0xb << 28 | 17 << 23 | 8 << 16 | 31 << 11 | number;
        run942(&mut wave, [word, 0xbf80_0000]);
        assert_eq!(wave.sgpr[8], if number == 20 { XCC } else { 0 });
    }
}

/// Where a wave of each part finds its private memory and its packet.
#[test]
fn launches() {
    const BASE: u64 = 0x12_3456_0000;
    const PACKET: u32 = 0x11_2233;
    for (isa, flat, after_user, sixth, eleventh) in [
        (Isa::Gfx90a, 0, 0x5000, PACKET, 1),
        (Isa::Gfx942, BASE + 0x5000, 0, 0, PACKET << 6 | 1),
    ] {
        let launch = Launch {
            isa,
            pc: 0,
            rsrc1: 1,
            // Scratch, one user SGPR.
            rsrc2: 1 | 1 << 1,
            rsrc3: 0,
            user: [7; 16],
            size: [128, 1, 1],
            groups: [1; 3],
            last: [128, 1, 1],
            start: [3, 4, 5],
            lds: 0,
            apertures: Apertures {
                shared: 1,
                private: 2,
            },
            scratch: BASE,
            ttmps: Some(PACKET),
            debug: Default::default(),
        };
        let seat = Seat {
            scratch: 0x5000,
            ..Seat::default()
        };
        let group = launch.group(0, &[seat, seat], &());
        let wave = &group.waves[1];
        assert_eq!(wave.pair(sgpr::FLAT_SCRATCH), flat, "{isa:?}");
        assert_eq!(wave.sgpr[..2], [7, after_user], "{isa:?}");
        let ttmps = &wave.sgpr[sgpr::TTMP..][..12];
        assert_eq!(ttmps[6], sixth, "{isa:?}");
        assert_eq!(ttmps[8..], [3, 4, 5, eleventh], "{isa:?}");
    }
}

/// What one part has and the other has not.
#[test]
fn either() {
    let unknown =
        |isa, word, second| matches!(decode(isa, Words([word, second, 0])), Err(Lack::Unknown));
    // v_mac_f32, v_mad_f32.
    for word in [22 << 25 | V | 2, 0x34 << 26 | 449 << 16] {
        assert!(unknown(Isa::Gfx942, word, 0) && !unknown(Isa::Gfx90a, word, 0));
    }
    // v_mov_b64, v_lshl_add_u64, ds_pk_add_f16, flat_atomic_add_f32, global_atomic_pk_add_bf16.
    for word in [
        0x3f << 25 | 56 << 9 | V | 2,
        0x34 << 26 | 520 << 16,
        0x36 << 26 | 23 << 17,
        0x37 << 26 | 77 << 18,
        0x37 << 26 | 82 << 18 | 2 << 14,
    ] {
        assert!(
            unknown(Isa::Gfx90a, word, 0) && !unknown(Isa::Gfx942, word, 0),
            "{word:#x}"
        );
    }
}

/// The bytes and words that conversions take from a register.
#[test]
fn widening_selects() {
    const NUMBERS: u32 = 0x817f_4008;
    // Opcode, SDWA's selection of the source (or none), result.
    for (op, select, expected) in [
        (84, None, [0x3c00_0000, 1]),
        (84, Some(0), [0x3c00_0000, 1]),
        (84, Some(1), [0x3f80_0000, 1]),
        (84, Some(2), [0x4370_0000, 1]),
        (84, Some(3), [0xba80_0000, 1]),
        // A word is no byte.
        (84, Some(5), [0x3c00_0000, 1]),
        (86, None, [0x3c00_0000, 0x3f80_0000]),
        (86, Some(4), [0x3c00_0000, 0x3f80_0000]),
        (86, Some(5), [0x4370_0000, 0xba80_0000]),
        (87, Some(4), [0x3880_0000, 0x3f80_0000]),
        (87, Some(5), [0x4760_0000, 0xb700_0000]),
    ] {
        let mut wave = wave(1, !0);
        *wave.v_mut(2) = [NUMBERS; 64];
        *wave.v_mut(5) = [1; 64];
        let word = 0x3f << 25 | 4 << 17 | op << 9;
        let words = match select {
            Some(select) => [word | 249, 2 | 6 << 8 | select << 16],
            None => [word | V | 2, 0xbf80_0000],
        };
        run942(&mut wave, words);
        assert_eq!([wave.v(4)[7], wave.v(5)[7]], expected, "{op} {select:?}");
    }
}

/// The parts of a register that conversions write.
#[test]
fn narrowing_places() {
    let [one, half] = [1f32, -0.5].map(f32::to_bits);
    // Opcode, bits of the first word, of the second, second source, result.
    for (op, first, second, other, expected) in [
        (674, 0, 0, half, 0xaabb_b840),
        (674, 8 << 11, 0, half, 0xb840_ccdd),
        (674, 1 << 8, 1 << 29, half, 0xaabb_b8c0),
        (675, 0, 0, half, 0xaabb_bc40),
        (676, 0, 0, 0, 0xaabb_cc40),
        (676, 4 << 11, 0, 0, 0xaabb_40dd),
        (676, 8 << 11, 0, 0, 0xaa40_ccdd),
        (676, 12 << 11, 0, 0, 0x40bb_ccdd),
        (677, 12 << 11, 0, 0, 0x40bb_ccdd),
    ] {
        let mut wave = wave(1, !0);
        *wave.v_mut(2) = [one; 64];
        *wave.v_mut(8) = [other; 64];
        *wave.v_mut(4) = [0xaabb_ccdd; 64];
        let sources = V + 2 | (V + 8) << 9;
        run942(
            &mut wave,
            [0x34 << 26 | op << 16 | 4 | first, sources | second],
        );
        assert_eq!(wave.v(4)[7], expected, "{op} {first:#x}");
    }
}
