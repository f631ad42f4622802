// SPDX-License-Identifier: GPL-2.0
//! Single vector instructions with random operands, EXEC masks and registers, against an evaluator
//! that shares nothing with the core: it takes the encodings from here and computes with wide
//! integers.

#[path = "common/single.rs"]
mod single;

use std::cmp::Ordering;
use std::num::FpCategory;

use half::f16;
use proptest::prelude::*;
use rkfd_shader::code::Code;
use rkfd_shader::env::Env;
use rkfd_shader::isa::Isa;
use rkfd_shader::lds::Lds;
use rkfd_shader::wave::{sgpr, Wave};
use single::memory::Memory;
use single::{exec, run, wave, VGPRS};

/// A lane's result for up to three dwords. i128 holds every intermediate exactly.
type Rule = fn(i128, i128, i128) -> i128;

/// Name, VOP3 opcode, sources, rule.
const RULES: &[(&str, u32, usize, Rule)] = &[
    ("v_mov_b32", 0x141, 1, |a, _, _| a),
    ("v_not_b32", 0x16b, 1, |a, _, _| !a),
    ("v_bfrev_b32", 0x16c, 1, |a, _, _| {
        (0..32).map(|n| (a >> n & 1) << (31 - n)).sum()
    }),
    ("v_ffbh_u32", 0x16d, 1, |a, _, _| {
        (0..32).find(|n| a >> (31 - n) & 1 == 1).unwrap_or(-1)
    }),
    ("v_ffbl_b32", 0x16e, 1, |a, _, _| {
        (0..32).find(|n| a >> n & 1 == 1).unwrap_or(-1)
    }),
    ("v_add_u32", 0x134, 2, |a, b, _| a + b),
    ("v_sub_u32", 0x135, 2, |a, b, _| a - b),
    ("v_subrev_u32", 0x136, 2, |a, b, _| b - a),
    ("v_and_b32", 0x113, 2, |a, b, _| a & b),
    ("v_or_b32", 0x114, 2, |a, b, _| a | b),
    ("v_xor_b32", 0x115, 2, |a, b, _| a ^ b),
    ("v_lshrrev_b32", 0x110, 2, |a, b, _| b / (1 << (a % 32))),
    ("v_ashrrev_i32", 0x111, 2, |a, b, _| {
        signed(b).div_euclid(1 << (a % 32))
    }),
    ("v_lshlrev_b32", 0x112, 2, |a, b, _| b * (1 << (a % 32))),
    ("v_min_i32", 0x10c, 2, |a, b, _| {
        if signed(a) < signed(b) {
            a
        } else {
            b
        }
    }),
    ("v_max_i32", 0x10d, 2, |a, b, _| {
        if signed(a) > signed(b) {
            a
        } else {
            b
        }
    }),
    ("v_min_u32", 0x10e, 2, |a, b, _| if a < b { a } else { b }),
    ("v_max_u32", 0x10f, 2, |a, b, _| if a > b { a } else { b }),
    ("v_mul_u32_u24", 0x108, 2, |a, b, _| {
        a % (1 << 24) * (b % (1 << 24))
    }),
    ("v_mul_lo_u32", 0x285, 2, |a, b, _| a * b),
    ("v_mul_hi_u32", 0x286, 2, |a, b, _| a * b >> 32),
    ("v_mul_hi_i32", 0x287, 2, |a, b, _| {
        signed(a) * signed(b) >> 32
    }),
    ("v_bcnt_u32_b32", 0x28b, 2, |a, b, _| {
        (0..32).map(|n| a >> n & 1).sum::<i128>() + b
    }),
    ("v_bfe_u32", 0x1c8, 3, |a, b, c| {
        (a >> (b % 32)) % (1 << (c % 32))
    }),
    ("v_bfi_b32", 0x1ca, 3, |a, b, c| {
        (0..32)
            .map(|n| (if a >> n & 1 == 1 { b } else { c } >> n & 1) << n)
            .sum()
    }),
    ("v_alignbit_b32", 0x1ce, 3, |a, b, c| {
        (a * (1 << 32) + b) >> (c % 32)
    }),
    ("v_med3_i32", 0x1d7, 3, |a, b, c| {
        let mut all = [signed(a), signed(b), signed(c)];
        all.sort();
        all[1]
    }),
    ("v_sad_u32", 0x1dc, 3, |a, b, c| (a - b).abs() + c),
    ("v_mad_u32_u24", 0x1c3, 3, |a, b, c| {
        a % (1 << 24) * (b % (1 << 24)) + c
    }),
    ("v_xad_u32", 0x1f3, 3, |a, b, c| (a ^ b) + c),
    ("v_lshl_add_u32", 0x1fd, 3, |a, b, c| {
        a * (1 << (b % 32)) + c
    }),
    ("v_add_lshl_u32", 0x1fe, 3, |a, b, c| {
        (a + b) % (1 << 32) * (1 << (c % 32))
    }),
    ("v_add3_u32", 0x1ff, 3, |a, b, c| a + b + c),
    ("v_lshl_or_b32", 0x200, 3, |a, b, c| a * (1 << (b % 32)) | c),
    ("v_and_or_b32", 0x201, 3, |a, b, c| a & b | c),
    ("v_or3_b32", 0x202, 3, |a, b, c| a | b | c),
];

/// The condition of a compare.
type Condition = fn(i128, i128) -> bool;

/// A compare's name, VOP3 opcode and rule.
const COMPARES: &[(&str, u32, Condition)] = &[
    ("v_cmp_lt_i32", 0xc1, |a, b| signed(a) < signed(b)),
    ("v_cmp_ge_i32", 0xc6, |a, b| signed(a) >= signed(b)),
    ("v_cmp_eq_u32", 0xca, |a, b| a == b),
    ("v_cmp_gt_u32", 0xcc, |a, b| a > b),
    ("v_cmp_ne_u32", 0xcd, |a, b| a != b),
];

/// The order of two values of the type that a compare's opcode names.
fn order(op: u32, a: u64, b: u64, flushes: bool) -> Option<Ordering> {
    let half = |bits: u64| {
        let half = f16::from_bits(bits as u16);
        if flushes && half.classify() == FpCategory::Subnormal {
            f16::ZERO
        } else {
            half
        }
    };
    let single = |bits: u64| {
        let single = f32::from_bits(bits as u32);
        if flushes && single.is_subnormal() {
            0.0
        } else {
            single
        }
    };
    let double = |bits: u64| {
        let double = f64::from_bits(bits);
        if flushes && double.is_subnormal() {
            0.0
        } else {
            double
        }
    };
    let has_sign = op & 8 == 0;
    match op >> 5 {
        1 => half(a).partial_cmp(&half(b)),
        2 => single(a).partial_cmp(&single(b)),
        3 => double(a).partial_cmp(&double(b)),
        5 if has_sign => Some((a as i16).cmp(&(b as i16))),
        5 => Some((a as u16).cmp(&(b as u16))),
        6 if has_sign => Some((a as i32).cmp(&(b as i32))),
        6 => Some((a as u32).cmp(&(b as u32))),
        _ if has_sign => Some((a as i64).cmp(&(b as i64))),
        _ => Some(a.cmp(&b)),
    }
}

/// Returns whether the condition of a compare's opcode holds for that order. The opcode has a bit
/// for each order, and integers have no NaN and a number 7 that always holds.
fn holds(op: u32, order: Option<Ordering>) -> bool {
    let orders = match op {
        0xa0.. if op & 7 == 7 => 15,
        0xa0.. => op & 7,
        _ => op & 15,
    };
    let bit = match order {
        Some(Ordering::Less) => 1,
        Some(Ordering::Equal) => 2,
        Some(Ordering::Greater) => 4,
        None => 8,
    };
    orders & bit != 0
}

fn signed(a: i128) -> i128 {
    if a >= 1 << 31 {
        a - (1 << 32)
    } else {
        a
    }
}

/// A source operand: its code, and its value in a lane.
#[derive(Debug, Clone, Copy)]
enum Operand {
    Vgpr(u16),
    Sgpr(u16),
    Constant(i8),
}

impl Operand {
    fn code(self) -> u32 {
        match self {
            Operand::Vgpr(n) => 256 + u32::from(n),
            Operand::Sgpr(n) => n.into(),
            Operand::Constant(n @ 0..) => 128 + n as u32,
            Operand::Constant(n) => 192 + n.unsigned_abs() as u32,
        }
    }

    fn value(self, wave: &Wave, lane: usize) -> i128 {
        let word = match self {
            Operand::Vgpr(n) => wave.v(n.into())[lane],
            Operand::Sgpr(n) => wave.sgpr[usize::from(n)],
            Operand::Constant(n) => n as u32,
        };
        word.into()
    }
}

fn operand() -> impl Strategy<Value = Operand> {
    prop_oneof![
        3 => (0..VGPRS).prop_map(Operand::Vgpr),
        1 => (0..100u16).prop_map(Operand::Sgpr),
        1 => (-16..=64i8).prop_map(Operand::Constant),
    ]
}

fn vop3(op: u32, dst: u32, sources: [Operand; 3]) -> [u32; 2] {
    let [a, b, c] = sources.map(Operand::code);
    [0x34 << 26 | op << 16 | dst, a | b << 9 | c << 18]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn integers(
        rule in 0..RULES.len(), sources in [operand(), operand(), operand()], dst in 0..VGPRS,
        seed: u64,
        exec in exec(),
    ) {
        let (name, op, count, rule) = RULES[rule];
        let mut sources = sources;
        sources[count..].fill(Operand::Constant(0));
        let before = wave(seed, exec);
        let mut after = wave(seed, exec);
        run(&mut after, vop3(op, dst.into(), sources));
        for lane in 0..64 {
            let [a, b, c] = sources.map(|source| source.value(&before, lane));
            let expected = if exec >> lane & 1 == 1 {
                rule(a, b, c) as u32
            } else {
                before.v(dst.into())[lane]
            };
            prop_assert_eq!(
                after.v(dst.into())[lane],
                expected,
                "{} lane {}: {:x} {:x} {:x}",
                name,
                lane,
                a,
                b,
                c,
            );
        }
        // Nothing else changed.
        for n in (0..VGPRS).filter(|&n| n != dst) {
            prop_assert_eq!(after.v(n.into()), before.v(n.into()));
        }
        prop_assert_eq!(&after.sgpr[..], &before.sgpr[..]);
    }

    #[test]
    fn compares(
        rule in 0..COMPARES.len(),
        sources in [operand(), operand()],
        seed: u64,
        exec in exec(),
    ) {
        let (name, op, rule) = COMPARES[rule];
        let before = wave(seed, exec);
        let mut after = wave(seed, exec);
        run(&mut after, vop3(op, 20, [sources[0], sources[1], Operand::Constant(0)]));
        let expected = (0..64).filter(|&lane| {
            let [a, b] = sources.map(|source| source.value(&before, lane));
            exec >> lane & 1 == 1 && rule(a, b)
        }).fold(0u64, |mask, lane| mask | 1 << lane);
        prop_assert_eq!(after.pair(20), expected, "{}", name);
    }

    /// Every condition of every type.
    #[test]
    fn conditions(
        op in prop_oneof![0x20..0x80u32, 0xa0..0x100u32],
        other in prop_oneof![Just(0u16), Just(2)],
        flushes: bool,
        seed: u64,
        exec in exec(),
    ) {
        let before = wave(seed, exec);
        let mut after = wave(seed, exec);
        if flushes {
            after.mode = 0;
        }
        let sources = [Operand::Vgpr(0), Operand::Vgpr(other), Operand::Constant(0)];
        run(&mut after, vop3(op, 20, sources));
        let value = |n: usize, lane: usize| {
            u64::from(before.v(n)[lane]) | u64::from(before.v(n + 1)[lane]) << 32
        };
        let expected = (0..64).filter(|&lane| {
            let order = order(op, value(0, lane), value(other.into(), lane), flushes);
            exec >> lane & 1 == 1 && holds(op, order)
        }).fold(0u64, |mask, lane| mask | 1 << lane);
        prop_assert_eq!(after.pair(20), expected, "{:x}", op);
        // v_cmpx.
        let left = if op & 16 == 0 { exec } else { expected };
        prop_assert_eq!(after.exec(), left, "{:x}", op);
    }

    /// v_add_f32 and v_mul_f32 with each value of MODE's field for denormals of f32: bit 0 keeps
    /// those of sources, bit 1 those of results (FLOAT_DENORM_MODE in LLVM's AMDGPUUsage).
    #[test]
    fn denormals(multiplies: bool, field in 0..4u32, seed: u64, exec in exec()) {
        let small = || {
            let mut wave = wave(seed, exec);
            // Denormals and the least of the others; the square root of these to multiply.
            for word in wave.v_mut(0) {
                *word &= 0x80ff_ffff;
            }
            for word in wave.v_mut(2) {
                *word = *word & 0x80ff_ffff | if multiplies { 0x3f00_0000 } else { 0 };
            }
            wave.mode = 0xc0 | field << 4;
            wave
        };
        let (before, mut after) = (small(), small());
        let op = if multiplies { 0x105 } else { 0x101 };
        run(&mut after, vop3(op, 8, [Operand::Vgpr(0), Operand::Vgpr(2), Operand::Constant(0)]));
        let kept = |value: f32, keeps: bool| {
            let gone = value.is_subnormal() && !keeps;
            if gone { 0f32.copysign(value) } else { value }
        };
        for lane in (0..64).filter(|lane| exec >> lane & 1 == 1) {
            let source = |n: usize| kept(f32::from_bits(before.v(n)[lane]), field & 1 == 1);
            let (a, b) = (source(0), source(2));
            let exact = if multiplies { a * b } else { a + b };
            let expected = kept(exact, field & 2 == 2);
            prop_assert_eq!(after.v(8)[lane], expected.to_bits(), "{} {}", a, b);
        }
    }

    /// v_add_co_u32 and v_addc_co_u32 one after the other add 64 bits.
    #[test]
    fn carries(seed: u64, exec in exec()) {
        let before = wave(seed, exec);
        let mut low = wave(seed, exec);
        // v8 = v0 + v2, carries to s[20:21]; then v9 = v1 + v3 with them.
        run(&mut low, [0x34 << 26 | 0x119 << 16 | 20 << 8 | 8, 256 | 258 << 9]);
        let mut high = wave(seed, exec);
        high.set_pair(20, low.pair(20));
        run(&mut high, [0x34 << 26 | 0x11c << 16 | 22 << 8 | 9, 257 | 259 << 9 | 20 << 18]);
        for lane in (0..64).filter(|lane| exec >> lane & 1 == 1) {
            let wide = |n: usize| {
                u64::from(before.v(n)[lane]) | u64::from(before.v(n + 1)[lane]) << 32
            };
            let (sum, carry) = wide(0).overflowing_add(wide(2));
            prop_assert_eq!(low.v(8)[lane], sum as u32);
            prop_assert_eq!(high.v(9)[lane], (sum >> 32) as u32);
            prop_assert_eq!(high.pair(22) >> lane & 1 == 1, carry);
        }
        prop_assert_eq!((low.pair(20) | high.pair(22)) & !exec, 0);
        prop_assert_eq!(high.pair(sgpr::EXEC), exec);
    }

    /// s_set_gpr_idx_idx s2.
    #[test]
    fn index_of_registers(seed: u64, m0: u32) {
        let mut wave = wave(seed, !0);
        wave.sgpr[sgpr::M0] = m0;
        let index = wave.sgpr[2] & 0xff;
        run(&mut wave, [0xbe80_3202, 0xbf81_0000]);
        prop_assert_eq!(wave.sgpr[sgpr::M0], m0 & !0xff | index);
    }

    /// Any words are an instruction, or an error, never a panic.
    #[test]
    fn any_words(words: [u32; 3], seed: u64, exec in exec(), new: bool) {
        let isa = if new { Isa::Gfx942 } else { Isa::Gfx90a };
        let mut wave = wave(seed, exec);
        let code = words.iter().flat_map(|word| word.to_le_bytes());
        let code: Vec<u8> = code.cycle().take(4096).collect();
        let memory = Memory::new(code, 4096, 4096);
        let mut lds = Lds::new(1024);
        let mut env = Env {
            host: &memory,
            lds: &mut lds,
        };
        Code::new(isa).run(&mut wave, &mut env, 3);
    }
}
