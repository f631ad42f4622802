// SPDX-License-Identifier: GPL-2.0
//! VOP3P except matrices: two operations at once, mixed precision, dot products.

use half::f16;

use super::float as fp;
use super::halves::{narrow, Widen};
use super::types::{Ty, INPUT, OUTPUT};
use super::vop2::dot_i8;
use super::{packed16, saturate};
use crate::decode::{bits, Decoded, Inst, Kind, Unknown, Unsupported, Words};
use crate::env::Env;
use crate::isa::Isa;
use crate::simd::{Body, Handler};
use crate::wave::{Flow, Row, Wave, LANES};

/// The used parts of the sources, and their signs; a bit for each source.
#[derive(Debug, Clone, Copy)]
pub(super) struct Selection {
    /// For the low result: the high part.
    pub low: u32,
    /// For the high result: the high part.
    pub high: u32,
    pub neg_low: u32,
    pub neg_high: u32,
}

impl Selection {
    fn encode(self) -> i32 {
        (self.low | self.high << 3 | self.neg_low << 6 | self.neg_high << 9) as i32
    }

    #[inline(always)]
    pub fn of(imm: i32) -> Selection {
        let word = imm as u32;
        Selection {
            low: bits(word, 2, 0),
            high: bits(word, 5, 3),
            neg_low: bits(word, 8, 6),
            neg_high: bits(word, 11, 9),
        }
    }
}

/// Handler, type of the sources, their number, and whether these and the result are pairs.
type Plain = (Handler, Kind, usize, bool);

/// The instruction without clamp.
fn plain(isa: Isa, op: u32) -> Decoded<Plain> {
    Ok(match op {
        0 | 9 => (packed16::handler(op)?, Kind::Int16, 3, false),
        1..=8 | 10..=13 => (packed16::handler(op)?, Kind::Int16, 2, false),
        14 => (packed16::handler(op)?, Kind::F16, 3, false),
        15..=18 => (packed16::handler(op)?, Kind::F16, 2, false),
        32..=34 => (Handler::of::<Mix>(), Kind::F32, 3, false),
        35 if isa.is_gfx942() => (Handler::of::<WholeHalvesDot>(), Kind::F16, 3, false),
        35 => (Handler::of::<Dot>(), Kind::F16, 3, false),
        38..=43 => (Handler::of::<Dot>(), Kind::Int32, 3, false),
        48 => (Handler::of::<Pair<FMA>>(), Kind::F32, 3, true),
        49 => (Handler::of::<Pair<MUL>>(), Kind::F32, 2, true),
        50 => (Handler::of::<Pair<ADD>>(), Kind::F32, 2, true),
        51 => (Handler::of::<Move>(), Kind::Int32, 2, true),
        _ => return Err(Unknown),
    })
}

/// VOP3P below 64.
pub fn decode(isa: Isa, words: Words) -> Decoded<Inst> {
    let [word, second, _] = words.0;
    let op = bits(word, 22, 16);
    let (mut handler, kind, sources, wide) = plain(isa, op)?;
    if bits(word, 15, 15) == 1 {
        handler = match op {
            0..=3 | 9..=11 => Handler::of::<SaturatedHalves>(),
            38..=43 => Handler::of::<SaturatedDot>(),
            // Their results fit.
            4..=8 | 12 | 13 | 51 => handler,
            _ if isa.is_gfx942() => Handler::of::<Clamped<true>>(),
            _ => Handler::of::<Clamped<false>>(),
        };
    }
    let selection = Selection {
        low: bits(word, 13, 11),
        high: bits(second, 28, 27) | bits(word, 14, 14) << 2,
        neg_low: bits(second, 31, 29),
        neg_high: bits(word, 10, 8),
    };
    let integer = matches!(kind, Kind::Int16 | Kind::Int32);
    if integer && (selection.neg_low | selection.neg_high) & ((1 << sources) - 1) != 0 {
        return Err(Unsupported("the sign of a source that is no float"));
    }
    let mut inst = Inst::new(handler, op, 8);
    inst.indexed = true;
    inst.imm = selection.encode();
    inst.dst = inst.vgpr(bits(word, 7, 0), if wide { 2 } else { 1 });
    let codes = [
        bits(second, 8, 0),
        bits(second, 17, 9),
        bits(second, 26, 18),
    ];
    for n in 0..sources {
        let mut kind = kind;
        // Sources of mixed precision are f16 where op_sel_hi says so; the last one of a dot product
        // is a dword.
        if (32..=34).contains(&op) && selection.high >> n & 1 == 1 {
            kind = Kind::F16;
        }
        if op == 35 && n == 2 {
            kind = Kind::F32;
        }
        inst.src[n] = inst.source(codes[n], kind, None)?;
        if wide && codes[n] >= 256 {
            inst.vgpr(codes[n] - 256, 2);
        }
    }
    Ok(inst)
}

/// A float instruction with clamp: the active lanes' results, then these from 0 to 1.
struct Clamped<const IS_GFX942: bool>;

impl<const IS_GFX942: bool> Body for Clamped<IS_GFX942> {
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let isa = if IS_GFX942 { Isa::Gfx942 } else { Isa::Gfx90a };
        let Ok((handler, ..)) = plain(isa, inst.op.into()) else {
            return Flow::Next;
        };
        let flow = handler.call(inst, wave, env);
        let dx10 = wave.mode >> 8 & 1 == 1;
        let single = |word: u32| bounded(f32::from_bits(word), dx10).to_bits();
        let half = |word: u32, shift: u32| {
            let value = bounded(f16::from_bits((word >> shift) as u16).widen(), dx10);
            word & !(0xffff << shift) | u32::from(narrow(value).to_bits()) << shift
        };
        let dst = usize::from(inst.dst);
        for n in 0..=usize::from(inst.op >= 48) {
            let mut row = wave.rows[dst + n];
            for word in &mut row.0 {
                *word = match inst.op {
                    14..=18 => half(half(*word, 0), 16),
                    33 => half(*word, 0),
                    34 => half(*word, 16),
                    _ => single(*word),
                };
            }
            wave.put(dst + n, &row);
        }
        flow
    }
}

/// From 0 to 1; a NaN is 0 if MODE says so (DX10_CLAMP).
fn bounded(value: f32, dx10: bool) -> f32 {
    match value.is_nan() {
        true if dx10 => 0.0,
        true => value,
        false => value.clamp(0.0, 1.0) + 0.0,
    }
}

/// An integer instruction on halves with clamp.
struct SaturatedHalves;

impl Body for SaturatedHalves {
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let selection = Selection::of(inst.imm);
        let rows = [0, 1, 2].map(|n| wave.narrow(inst.src[n], n));
        let mut out = Row::ZERO;
        for lane in 0..LANES {
            let part = |high: u32| {
                let half = |n: usize| {
                    let word = wave.rows[rows[n]].0[lane];
                    (word >> (16 * (high >> n & 1))) as u16
                };
                u32::from(saturate::packed(inst.op, half(0), half(1), half(2)))
            };
            out.0[lane] = part(selection.low) | part(selection.high) << 16;
        }
        wave.put(inst.dst.into(), &out);
        Flow::Next
    }
}

/// A dot product of integers with clamp.
struct SaturatedDot;

impl Body for SaturatedDot {
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let rows = [0, 1, 2].map(|n| wave.narrow(inst.src[n], n));
        let mut out = Row::ZERO;
        for lane in 0..LANES {
            let [a, b, c] = rows.map(|row| wave.rows[row].0[lane]);
            out.0[lane] = saturate::dot(inst.op, a, b, c);
        }
        wave.put(inst.dst.into(), &out);
        Flow::Next
    }
}

const FMA: u8 = 0;
const MUL: u8 = 1;
const ADD: u8 = 2;

/// Two f32 operations on pairs of registers.
struct Pair<const OP: u8>;

impl<const OP: u8> Body for Pair<OP> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let selection = Selection::of(inst.imm);
        let a = wave.wide(inst.src[0], 0);
        let b = wave.wide(inst.src[1], 1);
        let c = if OP == FMA {
            wave.wide(inst.src[2], 2)
        } else {
            a
        };
        let sources = [a, b, c];
        let low = pair_half::<OP>(wave, sources, selection.low, selection.neg_low);
        let high = pair_half::<OP>(wave, sources, selection.high, selection.neg_high);
        let dst = usize::from(inst.dst);
        wave.put(dst, &low);
        wave.put(dst + 1, &high);
        Flow::Next
    }
}

/// One of the two results: `high` has a bit for each pair whose second register is used. No
/// closures: they would be compiled for the baseline.
#[inline(always)]
fn pair_half<const OP: u8>(wave: &Wave, [a, b, c]: [usize; 3], high: u32, neg: u32) -> Row {
    let a = &wave.rows[a + (high & 1) as usize].0;
    let b = &wave.rows[b + (high >> 1 & 1) as usize].0;
    let c = &wave.rows[c + (high >> 2 & 1) as usize].0;
    let [x, y, z] = [(neg & 1) << 31, (neg >> 1 & 1) << 31, (neg >> 2 & 1) << 31];
    let mut out = Row::ZERO;
    if wave.keeps_f32_denormals() {
        for lane in 0..LANES {
            let (a, b, c) = (a[lane] ^ x, b[lane] ^ y, c[lane] ^ z);
            let value = pair_lane::<OP>(f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
            out.0[lane] = value.to_bits();
        }
    } else {
        for lane in 0..LANES {
            let (a, b, c) = (a[lane] ^ x, b[lane] ^ y, c[lane] ^ z);
            let [a, b, c] = [a, b, c].map(|word| f32::from_bits(word).flush(wave.mode, INPUT));
            let value = pair_lane::<OP>(a, b, c).flush(wave.mode, OUTPUT);
            out.0[lane] = value.to_bits();
        }
    }
    out
}

#[inline(always)]
fn pair_lane<const OP: u8>(x: f32, y: f32, z: f32) -> f32 {
    match OP {
        FMA => x.mul_add(y, z),
        MUL => x * y,
        _ => x + y,
    }
}

/// v_pk_mov_b32: a half of each source.
struct Move;

impl Body for Move {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let selection = Selection::of(inst.imm);
        let a = wave.wide(inst.src[0], 0) + (selection.low & 1) as usize;
        let b = wave.wide(inst.src[1], 1) + (selection.low >> 1 & 1) as usize;
        let (lo, hi) = (wave.rows[a], wave.rows[b]);
        let dst = usize::from(inst.dst);
        wave.put(dst, &lo);
        wave.put(dst + 1, &hi);
        Flow::Next
    }
}

/// v_fma_mix: sources are f32, or one half as f16; the result is f32 or goes to a half.
struct Mix;

impl Body for Mix {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let selection = Selection::of(inst.imm);
        let mut sources = [[0f32; LANES]; 3];
        for n in 0..3 {
            let row = wave.narrow(inst.src[n], n);
            let (row, shift) = (&wave.rows[row].0, 16 * (selection.low >> n & 1));
            // neg_hi is the absolute value here.
            let kept = if selection.neg_high >> n & 1 == 1 {
                !(1 << 31)
            } else {
                !0
            };
            let sign = (selection.neg_low >> n & 1) << 31;
            let half = selection.high >> n & 1 == 1;
            for lane in 0..LANES {
                let value = if half {
                    f16::from_bits((row[lane] >> shift) as u16).widen()
                } else {
                    f32::from_bits(row[lane])
                };
                sources[n][lane] = f32::from_bits(value.to_bits() & kept ^ sign);
            }
        }
        let [a, b, c] = &sources;
        let dst = usize::from(inst.dst);
        let old = &wave.rows[dst].0;
        let mut out = Row::ZERO;
        for lane in 0..LANES {
            let sum = a[lane].mul_add(b[lane], c[lane]);
            let half = u32::from(narrow(sum).to_bits());
            out.0[lane] = match inst.op {
                32 => sum.to_bits(),
                33 => old[lane] & 0xffff_0000 | half,
                _ => old[lane] & 0xffff | half << 16,
            };
        }
        wave.put(dst, &out);
        Flow::Next
    }
}

/// Sets the destination to what `dot` makes of three dwords.
#[inline(always)]
fn dots(inst: &Inst, wave: &mut Wave, dot: impl Fn(u32, u32, u32) -> u32) -> Flow {
    let mut rows = [0; 3];
    for n in 0..3 {
        rows[n] = wave.narrow(inst.src[n], n);
    }
    let [a, b, c] = rows.map(|row| &wave.rows[row].0);
    let mut out = Row::ZERO;
    for lane in 0..LANES {
        out.0[lane] = dot(a[lane], b[lane], c[lane]);
    }
    wave.put(inst.dst.into(), &out);
    Flow::Next
}

/// Dot products of the parts of dwords, added to a dword.
struct Dot;

impl Body for Dot {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        match inst.op {
            35 => dots(inst, wave, |a, b, c| {
                dot_halves(a, b, f32::from_bits(c)).to_bits()
            }),
            40 => dots(inst, wave, |a, b, c| c.wrapping_add(dot_i8(a, b) as u32)),
            op => dots(inst, wave, |a, b, c| dot_lane(op, a, b, c)),
        }
    }
}

/// v_dot2_f32_f16 of gfx942.
struct WholeHalvesDot;

impl Body for WholeHalvesDot {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        dots(inst, wave, |a, b, c| {
            dot_whole_halves(a, b, f32::from_bits(c)).to_bits()
        })
    }
}

/// The sum of the products of the halves. Denormal halves are 0 on gfx90a, whatever MODE says (LLVM
/// pull request 205101).
#[inline(always)]
pub fn dot_halves(a: u32, b: u32, c: f32) -> f32 {
    let low = |word: u32| fp::flush16(f16::from_bits(word as u16)).widen();
    let high = |word: u32| fp::flush16(f16::from_bits((word >> 16) as u16)).widen();
    let sum = low(a).mul_add(low(b), c);
    high(a).mul_add(high(b), sum)
}

/// As [`dot_halves`] with the denormal halves, which the parts that LLVM's pull request 205101
/// names keep. It does not name gfx942, whose ISA text flushes: an open fact.
#[inline(always)]
pub fn dot_whole_halves(a: u32, b: u32, c: f32) -> f32 {
    let low = |word: u32| f16::from_bits(word as u16).widen();
    let high = |word: u32| f16::from_bits((word >> 16) as u16).widen();
    let sum = low(a).mul_add(low(b), c);
    high(a).mul_add(high(b), sum)
}

fn dot_lane(op: u16, a: u32, b: u32, c: u32) -> u32 {
    let sum = |parts: u32, product: &dyn Fn(u32) -> i32| {
        (0..parts).fold(c, |sum, n| sum.wrapping_add(product(n) as u32))
    };
    match op {
        38 => sum(2, &|n| {
            let half = |word: u32| i32::from((word >> (16 * n)) as i16);
            half(a).wrapping_mul(half(b))
        }),
        39 => sum(2, &|n| {
            let half = |word: u32| word >> (16 * n) & 0xffff;
            half(a).wrapping_mul(half(b)) as i32
        }),
        41 => sum(4, &|n| {
            let byte = |word: u32| word >> (8 * n) & 0xff;
            (byte(a) * byte(b)) as i32
        }),
        42 => sum(8, &|n| {
            let nibble = |word: u32| (word << (28 - 4 * n)) as i32 >> 28;
            nibble(a) * nibble(b)
        }),
        _ => sum(8, &|n| {
            let nibble = |word: u32| word >> (4 * n) & 0xf;
            (nibble(a) * nibble(b)) as i32
        }),
    }
}
