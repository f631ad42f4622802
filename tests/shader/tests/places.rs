// SPDX-License-Identifier: GPL-2.0
//! Single loads, stores and atomics, of lanes in order, in one place and anywhere, against results
//! that are computed here lane by lane and byte by byte.

#[path = "common/single.rs"]
mod single;

use proptest::prelude::*;
use rkfd_shader::lds::Lds;
use rkfd_shader::wave::Wave;
use single::memory::DATA;
use single::{exec, run_with, wave};

/// Bytes of memory or LDS. Lanes' accesses begin before its end, or far away from any.
const SIZE: usize = 4096;
/// Bytes beyond the lanes' addresses.
const OFFSET: usize = 3;

/// The low dwords of lanes' addresses: in order, in one place, anywhere, each in a place of its
/// own; `size` bytes each or a factor of that apart.
fn places(size: u32) -> impl Strategy<Value = Vec<u32>> {
    prop_oneof![
        (0..64u32).prop_map(move |first| (0..64).map(|lane| (first + lane) * size).collect()),
        (0..64u32).prop_map(move |place| vec![place * size; 64]),
        prop::collection::vec((0..128u32).prop_map(move |place| place * size), 64),
        prop::collection::vec(0..128 * size, 64),
        (0..64u32, 0..32u32).prop_map(move |(first, factor)| {
            let place = |lane: u32| (lane * (2 * factor + 1) + first) % 64 * size;
            (0..64).map(place).collect()
        }),
    ]
}

/// A size of those that `bytes` gives, and places.
fn sized(bytes: impl Strategy<Value = usize>) -> impl Strategy<Value = (usize, Vec<u32>)> {
    bytes.prop_flat_map(|bytes| (Just(bytes), places(bytes as u32)))
}

/// Change of some lanes' addresses.
#[derive(Debug, Clone, Copy)]
enum Stray {
    NoLane,
    /// Inactive lanes have unmapped addresses.
    Inactive,
    /// So have those of a mask.
    Some(u64),
}

fn stray() -> impl Strategy<Value = Stray> {
    prop_oneof![
        Just(Stray::NoLane),
        Just(Stray::Inactive),
        (0..64u32).prop_map(|lane| Stray::Some(1 << lane)),
        any::<u64>().prop_map(Stray::Some),
    ]
}

/// A wave with addresses in v1 and of DATA in s\[8:9\].
fn addressing(seed: u64, exec: u64, places: &[u32], stray: Stray) -> Wave {
    let astray = match stray {
        Stray::NoLane => 0,
        Stray::Inactive => !exec,
        Stray::Some(lanes) => lanes,
    };
    let mut wave = wave(seed, exec);
    for (lane, at) in wave.v_mut(1).iter_mut().enumerate() {
        *at = if astray >> lane & 1 == 1 {
            0x7fff_fff8
        } else {
            places[lane]
        };
    }
    wave.set_pair(8, DATA);
    wave
}

/// Memory or LDS with random content.
fn noise(seed: u64) -> Vec<u8> {
    let spread = |n: u64| n.wrapping_mul(seed | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (1..=SIZE as u64).map(|n| (spread(n) >> 56) as u8).collect()
}

/// The registers from `first` on of a lane, as bytes.
fn registers(wave: &Wave, first: usize, bytes: usize, lane: usize) -> Vec<u8> {
    let word = |n: usize| wave.v(first + n)[lane].to_le_bytes();
    (0..4).flat_map(word).take(bytes).collect()
}

/// Rounds once: a sum of two floats keeps all bits that count in an f64.
trait ToSingle {
    fn to_single(self) -> u32;
}

impl ToSingle for f64 {
    fn to_single(self) -> u32 {
        (self as f32).to_bits()
    }
}

fn qword(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// The new value for an old value and two operands.
type Rule = fn(u64, u64, u64) -> u64;

/// An atomic's opcode on dwords of LDS without return, and that on dwords of memory.
type Atomic = (u32, u32, Rule);

const ATOMICS: &[Atomic] = &[
    (0, 66, |old, a, _| old.wrapping_add(a)),
    (1, 67, |old, a, _| old.wrapping_sub(a)),
    (3, 75, |old, a, _| if old >= a { 0 } else { old + 1 }),
    (7, 69, |old, a, _| if old < a { old } else { a }),
    (8, 71, |old, a, _| if old > a { old } else { a }),
    (9, 72, |old, a, _| old & a),
    (10, 73, |old, a, _| old | a),
    (11, 74, |old, a, _| old ^ a),
    (16, 65, |old, a, b| if old == a { b } else { old }),
];

/// Does an atomic to `data` for each active lane, with operands in v2 and v4, or one behind the
/// other from v2 on. Returns the values of v6 and v7 after that.
fn expect_atomics(
    before: &Wave,
    data: &mut [u8],
    (rule, bytes, operands): (Rule, usize, [usize; 2]),
    (offset, returns): (usize, bool),
) -> Vec<[u32; 2]> {
    (0..64)
        .map(|lane| {
            let mut result = [before.v(6)[lane], before.v(7)[lane]];
            if before.exec() >> lane & 1 == 0 {
                return result;
            }
            let [a, b] = operands.map(|row| qword(&registers(before, row, bytes, lane)));
            let at = before.v(1)[lane] as usize + offset;
            let mut old = 0;
            if let Some(word) = data.get_mut(at..at + bytes) {
                old = qword(word);
                word.copy_from_slice(&rule(old, a, b).to_le_bytes()[..bytes]);
            }
            if returns {
                result[0] = old as u32;
                if bytes == 8 {
                    result[1] = (old >> 32) as u32;
                }
            }
            result
        })
        .collect()
}

/// The values of v6 and v7.
fn results(after: &Wave) -> Vec<[u32; 2]> {
    let pair = |lane: usize| [after.v(6)[lane], after.v(7)[lane]];
    (0..64).map(pair).collect()
}

/// The number of active lanes whose address is beyond LDS.
fn count_outside(wave: &Wave) -> u64 {
    let outside = |&lane: &usize| wave.exec() >> lane & 1 == 1 && wave.v(1)[lane] as usize >= SIZE;
    (0..64).filter(outside).count() as u64
}

/// Returns whether one of the active lanes has an unmapped address.
fn has_fault(wave: &Wave) -> bool {
    (0..64).any(|lane| wave.exec() >> lane & 1 == 1 && wave.v(1)[lane] as usize >= SIZE)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn lds_atomics(
        rule in 0..ATOMICS.len(), (bytes, places) in sized(prop_oneof![Just(4), Just(8)]),
        returns: bool,
        equal: bool, stray in stray(), offset in 0..3usize, seed: u64, exec in exec(),
    ) {
        let (op, _, rule) = ATOMICS[rule];
        let mut after = addressing(seed, exec, &places, stray);
        let mut data = if equal { vec![0; SIZE] } else { noise(seed) };
        let mut lds = Lds::new(SIZE as u32);
        lds.bytes_mut().copy_from_slice(&data);
        let op = op | u32::from(returns) << 5 | u32::from(bytes == 8) << 6;
        let before = addressing(seed, exec, &places, stray);
        run_with(
            &mut after,
            [0x36 << 26 | op << 17 | offset as u32, 1 | 2 << 8 | 4 << 16 | 6 << 24],
            &mut [],
            &mut lds,
        );
        let expected = expect_atomics(&before, &mut data, (rule, bytes, [2, 4]), (offset, returns));
        prop_assert_eq!(results(&after), expected);
        prop_assert_eq!(lds.bytes(), &data[..]);
        prop_assert_eq!(lds.outside(), count_outside(&before));
    }

    /// Sums, and the less and the greater of floats, with each mode of denormals. Of MODE's field
    /// bit 0 keeps denormals of sources, bit 1 those of results (LLVM's AMDGPUUsage,
    /// FLOAT_DENORM_MODE).
    #[test]
    fn lds_floats(
        op in prop::sample::select(vec![21u32, 18, 19]),
        mode in 0..4u32,
        small: bool,
        seed: u64,
    ) {
        let places: Vec<u32> = (0..64).map(|lane| 4 * lane).collect();
        let mut after = addressing(seed, !0, &places, Stray::NoLane);
        let mut lds = Lds::new(SIZE as u32);
        lds.bytes_mut().copy_from_slice(&noise(seed));
        if small {
            // Exponents 0 and 1.
            after.v_mut(2).iter_mut().for_each(|word| *word &= 0x80ff_ffff);
            lds.bytes_mut().iter_mut().skip(3).step_by(4).for_each(|byte| *byte &= 0x80);
        }
        after.mode = 0xc0 | mode << 4;
        let old = lds.clone();
        run_with(&mut after, [0x36 << 26 | op << 17, 1 | 2 << 8], &mut [], &mut lds);
        let word = |lds: &Lds, n: usize| {
            u32::from_le_bytes(lds.bytes()[4 * n..4 * n + 4].try_into().unwrap())
        };
        let kept = |bits: u32, keeps: bool| match bits & 0x7f80_0000 {
            0 if !keeps => bits & 1 << 31,
            _ => bits,
        };
        let signals = |bits: u32| f32::from_bits(bits).is_nan() && bits & 1 << 22 == 0;
        for lane in 0..64 {
            let (old, a, new) = (word(&old, lane), after.v(2)[lane], word(&lds, lane));
            if op == 21 {
                let [x, y] = [old, a].map(|bits| f32::from_bits(kept(bits, mode & 1 == 1)));
                let expected = kept((f64::from(x) + f64::from(y)).to_single(), mode & 2 == 2);
                let nan = f32::from_bits(expected).is_nan();
                let is_expected = new == expected || nan && f32::from_bits(new).is_nan();
                prop_assert!(is_expected, "{old:x} {a:x}");
                continue;
            }
            // The order of all floats, -0 below +0.
            let order = |bits: u32| {
                let magnitude = i64::from(bits & 0x7fff_ffff);
                if bits >> 31 == 1 { -1 - magnitude } else { magnitude }
            };
            let least = op == 18;
            let expected = match [old, a].map(|bits| f32::from_bits(bits).is_nan()) {
                // Either of two.
                [true, true] if new == a | 1 << 22 => new,
                _ if signals(old) => old | 1 << 22,
                _ if signals(a) => a | 1 << 22,
                [true, false] => a,
                [_, true] => old,
                _ if (order(old) < order(a)) == least => old,
                _ => a,
            };
            prop_assert_eq!(new, expected, "{:x} {:x}", old, a);
        }
    }

    /// What lies beyond LDS reads as 0.
    #[test]
    fn lds_reads(
        (bytes, places) in sized(prop::sample::select(vec![1, 2, 4, 8, 12, 16])), signed: bool,
        stray in stray(), seed: u64, exec in exec(),
    ) {
        let op = match bytes {
            1 => 58 - u32::from(signed),
            2 => 60 - u32::from(signed),
            4 => 54,
            8 => 118,
            12 => 254,
            _ => 255,
        };
        let before = addressing(seed, exec, &places, stray);
        let mut after = addressing(seed, exec, &places, stray);
        let mut lds = Lds::new(SIZE as u32);
        lds.bytes_mut().copy_from_slice(&noise(seed));
        let words = [0x36 << 26 | op << 17 | OFFSET as u32, 1 | 6 << 24];
        run_with(&mut after, words, &mut [], &mut lds);
        for lane in 0..64 {
            let mut expected = registers(&before, 6, 16, lane);
            if exec >> lane & 1 == 1 {
                let at = before.v(1)[lane] as usize + OFFSET;
                let read = lds.bytes().get(at..at + bytes).map_or(vec![0; bytes], <[u8]>::to_vec);
                let negative = signed && bytes < 4 && read[bytes - 1] >> 7 == 1;
                expected[..4].fill(if negative { 0xff } else { 0 });
                expected[..bytes].copy_from_slice(&read);
            }
            prop_assert_eq!(registers(&after, 6, 16, lane), expected, "lane {}", lane);
        }
        prop_assert_eq!(lds.outside(), count_outside(&before));
    }

    /// Writes beyond LDS do nothing.
    #[test]
    fn lds_writes(
        (bytes, places) in sized(prop::sample::select(vec![1, 2, 4, 8, 12, 16])), high: bool,
        stray in stray(), seed: u64, exec in exec(),
    ) {
        let high = high && bytes < 4;
        let op = match bytes {
            1 => if high { 84 } else { 30 },
            2 => if high { 85 } else { 31 },
            4 => 13,
            8 => 77,
            12 => 222,
            _ => 223,
        };
        let before = addressing(seed, exec, &places, stray);
        let mut after = addressing(seed, exec, &places, stray);
        let mut lds = Lds::new(SIZE as u32);
        let mut expected = noise(seed);
        lds.bytes_mut().copy_from_slice(&expected);
        let words = [0x36 << 26 | op << 17 | OFFSET as u32, 1 | 2 << 8];
        run_with(&mut after, words, &mut [], &mut lds);
        for lane in (0..64).filter(|lane| exec >> lane & 1 == 1) {
            let at = before.v(1)[lane] as usize + OFFSET;
            let skip = if high { 2 } else { 0 };
            if let Some(word) = expected.get_mut(at..at + bytes) {
                word.copy_from_slice(&registers(&before, 2, bytes + skip, lane)[skip..]);
            }
        }
        prop_assert_eq!(lds.bytes(), &expected[..]);
        prop_assert_eq!(lds.outside(), count_outside(&before));
    }

    #[test]
    fn atomics(
        rule in 0..ATOMICS.len(), (bytes, places) in sized(prop_oneof![Just(4), Just(8)]),
        returns: bool,
        equal: bool, stray in stray(), seed: u64, exec in exec(),
    ) {
        let (_, op, rule) = ATOMICS[rule];
        let before = addressing(seed, exec, &places, stray);
        let mut after = addressing(seed, exec, &places, stray);
        let mut expected = if equal { vec![0; SIZE] } else { noise(seed) };
        let mut data = expected.clone();
        let op = op + if bytes == 8 { 32 } else { 0 };
        // Compare and swap has the new value first here.
        let operands = if op % 32 == 1 { [2 + bytes / 4, 2] } else { [2, 2] };
        run_with(
            &mut after,
            [
                0x37 << 26 | op << 18 | u32::from(returns) << 16 | 2 << 14,
                1 | 2 << 8 | 8 << 16 | 6 << 24,
            ],
            &mut data,
            &mut Lds::new(0),
        );
        let old = expect_atomics(&before, &mut expected, (rule, bytes, operands), (0, returns));
        prop_assert_eq!(results(&after), old);
        prop_assert_eq!(data, expected);
        prop_assert_eq!(after.fault.is_some(), has_fault(&before));
    }

    #[test]
    fn loads(
        (bytes, places) in sized(prop::sample::select(vec![1, 2, 4, 8, 12, 16])), signed: bool,
        stray in stray(),
        seed: u64, exec in exec(),
    ) {
        let op = match bytes {
            1 => 16 + u32::from(signed),
            2 => 18 + u32::from(signed),
            _ => 19 + bytes as u32 / 4,
        };
        let before = addressing(seed, exec, &places, stray);
        let mut after = addressing(seed, exec, &places, stray);
        let mut data = noise(seed);
        // v[6:9] from v1 and s[8:9].
        run_with(
            &mut after,
            [0x37 << 26 | op << 18 | 2 << 14 | OFFSET as u32, 1 | 8 << 16 | 6 << 24],
            &mut data,
            &mut Lds::new(0),
        );
        for lane in 0..64 {
            let mut expected = registers(&before, 6, 16, lane);
            if exec >> lane & 1 == 1 {
                let at = before.v(1)[lane] as usize + OFFSET;
                let loaded = data.get(at..at + bytes).map_or(vec![0; bytes], <[u8]>::to_vec);
                let negative = signed && bytes < 4 && loaded[bytes - 1] >> 7 == 1;
                let sign = if negative { 0xff } else { 0 };
                expected[..4].fill(sign);
                expected[..bytes].copy_from_slice(&loaded);
            }
            prop_assert_eq!(registers(&after, 6, 16, lane), expected, "lane {}", lane);
        }
        prop_assert_eq!(after.fault.is_some(), has_fault(&before));
    }

    #[test]
    fn stores(
        (bytes, places) in sized(prop::sample::select(vec![1, 2, 4, 8, 12, 16])), high: bool,
        stray in stray(),
        seed: u64, exec in exec(),
    ) {
        let high = high && bytes < 4;
        let op = match bytes {
            1 => 24 + u32::from(high),
            2 => 26 + u32::from(high),
            _ => 27 + bytes as u32 / 4,
        };
        let before = addressing(seed, exec, &places, stray);
        let mut after = addressing(seed, exec, &places, stray);
        let mut expected = noise(seed);
        let mut data = expected.clone();
        for lane in (0..64).filter(|lane| exec >> lane & 1 == 1) {
            let at = before.v(1)[lane] as usize + OFFSET;
            let skip = if high { 2 } else { 0 };
            if let Some(word) = expected.get_mut(at..at + bytes) {
                word.copy_from_slice(&registers(&before, 2, bytes + skip, lane)[skip..]);
            }
        }
        run_with(
            &mut after,
            [0x37 << 26 | op << 18 | 2 << 14 | OFFSET as u32, 1 | 2 << 8 | 8 << 16],
            &mut data,
            &mut Lds::new(0),
        );
        prop_assert_eq!(data, expected);
        prop_assert_eq!(after.fault.is_some(), has_fault(&before));
    }
}
