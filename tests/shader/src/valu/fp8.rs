// SPDX-License-Identifier: GPL-2.0
//! gfx942's floats of eight bits, fp8 (E4M3, bias 8) and bf8 (E5M2, bias 16): their only NaN is
//! 0x80, and there is no infinity and no -0 (PyTorch's and ml_dtypes' fnuz types;
//! SH_MEM_CONFIG.F8_MODE = 1, as the driver sets it). Rounding, saturation and stochastic rounding
//! are those that AMD's ISA text, HIP's headers and rocm-systems' rocjitsu have in common, or the
//! last two of them.

use super::modify::Changes;
use super::{fetch, lane, seldom, Form, Spec};
use crate::decode::{bits, Inst, Kind};
use crate::env::Env;
use crate::simd::Body;
use crate::wave::{Flow, Row, Wave};

/// The only NaN.
const NAN: u32 = 0x80;
/// The greatest number.
const MOST: u32 = 0x7f;
/// What becomes of a NaN as f32; its bits on a card are not known.
const WIDE_NAN: u32 = 0x7fc0_0000;
/// MODE.FP16_OVFL: too large numbers saturate.
const OVERFLOW: u32 = 1 << 23;

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Bits of the mantissa.
    mantissa: u32,
    /// Exponent of the least normal number.
    least: i32,
}

/// E4M3.
pub const FP8: Format = Format {
    mantissa: 3,
    least: -7,
};
/// E5M2.
pub const BF8: Format = Format {
    mantissa: 2,
    least: -15,
};

impl Format {
    /// The value of a byte.
    #[inline(always)]
    pub fn widen(self, byte: u32) -> f32 {
        let fraction = byte & ((1 << self.mantissa) - 1);
        let exponent = (byte & 0x7f) >> self.mantissa;
        let hidden = if exponent == 0 { 0 } else { 1 << self.mantissa };
        let place = exponent.max(1) as i32 - 1 + self.least - self.mantissa as i32;
        let unit = f32::from_bits(((place + 127) as u32) << 23);
        let sign = if byte & 0x80 == 0 { 1.0 } else { -1.0 };
        if byte == NAN {
            f32::from_bits(WIDE_NAN)
        } else {
            sign * (fraction + hidden) as f32 * unit
        }
    }

    /// The byte for a value, with the 24 bits of its significand, and their number behind the
    /// format's last place, rounded to an integer by `round`. Denormals of f32 are 0.
    #[inline(always)]
    fn narrow(self, value: f32, mode: u32, round: impl Fn(u32, u32, u32) -> u32) -> u32 {
        let bits = value.to_bits();
        let sign = bits >> 24 & 0x80;
        let too_large = if mode & OVERFLOW == 0 {
            NAN
        } else {
            sign | MOST
        };
        let exponent = bits >> 23 & 0xff;
        if exponent == 0xff {
            let is_nan = bits & 0x7f_ffff != 0;
            return if is_nan { NAN } else { too_large };
        }
        if exponent == 0 {
            return 0;
        }
        let exponent = exponent as i32 - 127;
        let significand = bits & 0x7f_ffff | 0x80_0000;
        let below = (self.least - exponent).max(0) as u32;
        let rounded = round(significand, 23 - self.mantissa, below);
        // A carry runs into the exponent by itself.
        let code = ((exponent.max(self.least) - self.least) as u32) << self.mantissa;
        match code + rounded {
            0 => 0,
            code if code > MOST => too_large,
            code => sign | code,
        }
    }

    /// The nearest byte, ties to even, whatever MODE says of rounding.
    #[inline(always)]
    pub fn nearest(self, value: f32, mode: u32) -> u32 {
        self.narrow(value, mode, |significand, shift, below| {
            let shift = shift + below;
            if shift > 25 {
                return 0;
            }
            let half = (1 << (shift - 1)) - 1 + (significand >> shift & 1);
            (significand + half) >> shift
        })
    }

    /// The byte below or above: the high bits of `seed` are added behind the last place. Of a
    /// denormal result bits are lost before that: gfx1201 does so, and HIP's host code.
    #[inline(always)]
    pub fn stochastic(self, value: f32, seed: u32, mode: u32) -> u32 {
        self.narrow(value, mode, |significand, shift, below| {
            let aligned = significand.checked_shr(below).unwrap_or(0);
            (aligned + (seed >> (32 - shift))) >> shift
        })
    }
}

/// Narrow floats that an instruction widens or makes.
trait Narrow {
    const FORMAT: Format;
}
struct Fp8;
struct Bf8;
impl Narrow for Fp8 {
    const FORMAT: Format = FP8;
}
impl Narrow for Bf8 {
    const FORMAT: Format = BF8;
}

/// Two f32, the low one first.
#[inline(always)]
fn two(low: f32, high: f32) -> u64 {
    u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32
}

/// The conversion of VOP1 with that opcode.
pub fn widening(op: u32) -> Spec {
    match op {
        84 => seldom!("v_cvt_f32_fp8" (a: u32) -> f32 { FP8.widen(a & 0xff) }),
        85 => seldom!("v_cvt_f32_bf8" (a: u32) -> f32 { BF8.widen(a & 0xff) }),
        86 => seldom!("v_cvt_pk_f32_fp8" (a: u32) -> u64 {
            two(FP8.widen(a & 0xff), FP8.widen(a >> 8 & 0xff))
        }),
        _ => seldom!("v_cvt_pk_f32_bf8" (a: u32) -> u64 {
            two(BF8.widen(a & 0xff), BF8.widen(a >> 8 & 0xff))
        }),
    }
}

/// The conversion of VOP3 with that opcode.
pub fn narrowing(op: u32) -> Spec {
    const PAIR: [Kind; 4] = [Kind::F32, Kind::F32, Kind::Int32, Kind::Int32];
    const SEEDED: [Kind; 4] = [Kind::F32, Kind::Int32, Kind::Int32, Kind::Int32];
    let plain = Form::Plain;
    match op {
        674 => Spec::of::<ToPair<Fp8>>("v_cvt_pk_fp8_f32", plain, 2, PAIR),
        675 => Spec::of::<ToPair<Bf8>>("v_cvt_pk_bf8_f32", plain, 2, PAIR),
        676 => Spec::of::<Stochastic<Fp8>>("v_cvt_sr_fp8_f32", plain, 2, SEEDED),
        _ => Spec::of::<Stochastic<Bf8>>("v_cvt_sr_bf8_f32", plain, 2, SEEDED),
    }
}

/// Returns whether the VOP1 opcode is a [`widening`] conversion.
pub fn is_widening(op: u32) -> bool {
    (84..=87).contains(&op)
}

/// Returns whether the VOP3 opcode is a [`narrowing`] conversion.
pub fn is_narrowing(op: u32) -> bool {
    (674..=677).contains(&op)
}

/// SDWA of a widening conversion selects a byte, or for two of them a word, and nothing else.
pub fn selected(op: u32, changes: &mut Changes) {
    changes.select_first(|select| match (op, select) {
        (84 | 85, 0..=3) => select,
        (86 | 87, _) if select & 3 == 1 => WORD_1,
        _ => DWORD,
    });
}

/// Selections of SDWA.
const WORD_1: u32 = 5;
const DWORD: u32 = 6;

/// Names the part of the result's register that a narrowing conversion writes, from the op_sel that
/// it takes out of its first word.
pub fn placed(op: u32, word: u32, inst: &mut Inst) -> u32 {
    const OP_SEL: u32 = 0xf << 11;
    inst.imm = match op {
        674 | 675 => 16 * bits(word, 14, 14),
        _ => 8 * bits(word, 14, 13),
    } as i32;
    word & !OP_SEL
}

/// Writes `size` bits of the result's register from `inst.imm` on.
#[inline(always)]
fn insert(inst: &Inst, wave: &mut Wave, values: &Row, size: u32) -> Flow {
    let mask = ((1u32 << size) - 1) << inst.imm;
    let dst = usize::from(inst.dst);
    let mut row = wave.rows[dst];
    for (word, value) in row.0.iter_mut().zip(&values.0) {
        *word = *word & !mask | value << inst.imm;
    }
    wave.put(dst, &row);
    Flow::Next
}

/// v_cvt_pk_fp8_f32, v_cvt_pk_bf8_f32.
struct ToPair<N>(std::marker::PhantomData<N>);

impl<N: Narrow> Body for ToPair<N> {
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let rows = [0, 1].map(|n| fetch::<f32>(wave, inst.src[n], n));
        let mut out = Row::ZERO;
        for at in wave.active() {
            let [low, high] = rows.map(|row| {
                let value = lane::<f32>(&wave.rows, row, at);
                N::FORMAT.nearest(value, wave.mode)
            });
            out.0[at] = low | high << 8;
        }
        insert(inst, wave, &out, 16)
    }
}

/// v_cvt_sr_fp8_f32, v_cvt_sr_bf8_f32.
struct Stochastic<N>(std::marker::PhantomData<N>);

impl<N: Narrow> Body for Stochastic<N> {
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let values = fetch::<f32>(wave, inst.src[0], 0);
        let seeds = fetch::<u32>(wave, inst.src[1], 1);
        let mut out = Row::ZERO;
        for at in wave.active() {
            let value = lane::<f32>(&wave.rows, values, at);
            let seed = lane::<u32>(&wave.rows, seeds, at);
            out.0[at] = N::FORMAT.stochastic(value, seed, wave.mode);
        }
        insert(inst, wave, &out, 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a code by the formats' definition.
    fn value(format: Format, code: u32) -> f64 {
        let (mantissa, bias) = if format == FP8 { (3, 8) } else { (2, 16) };
        let (exponent, fraction) = (
            code >> mantissa & 0x1f & (0x7f >> mantissa),
            code & 7 & ((1 << mantissa) - 1),
        );
        let scale = f64::from(1 << mantissa);
        let magnitude = if exponent == 0 {
            f64::from(fraction) / scale * 2f64.powi(1 - bias)
        } else {
            (1.0 + f64::from(fraction) / scale) * 2f64.powi(exponent as i32 - bias)
        };
        if code & 0x80 == 0 {
            magnitude
        } else {
            -magnitude
        }
    }

    #[test]
    fn all_widen() {
        for format in [FP8, BF8] {
            for code in 0..=0xff {
                let wide = format.widen(code);
                match code {
                    NAN => assert!(wide.is_nan()),
                    _ => assert_eq!(f64::from(wide), value(format, code), "{code:#x}"),
                }
            }
        }
        for (code, fp8, bf8) in [
            (0x01u32, 0x3a80_0000, 0x3700_0000),
            (0x07, 0x3be0_0000, 0x3860_0000),
            (0x08, 0x3c00_0000, 0x3880_0000),
            (0x41, 0x3f90_0000, 0x3fa0_0000),
            (0x7f, 0x4370_0000, 0x4760_0000),
            (0x81, 0xba80_0000, 0xb700_0000),
        ] {
            assert_eq!(FP8.widen(code).to_bits(), fp8, "{code:#x}");
            assert_eq!(BF8.widen(code).to_bits(), bf8, "{code:#x}");
        }
    }

    /// Each code is the nearest of its value, and each middle between two goes to the even one,
    /// from one last place of f32 on to the next one.
    #[test]
    fn nearest_of_all() {
        for format in [FP8, BF8] {
            for code in 1..=MOST {
                for (sign, bit) in [(1.0f32, 0), (-1.0, 0x80)] {
                    let nearest = |value: f32| format.nearest(sign * value, 0);
                    let wide = format.widen(code);
                    assert_eq!(nearest(wide), bit | code);
                    let below = format.widen(code - 1);
                    let middle = (below + wide) / 2.0;
                    let even = if code & 1 == 0 { code } else { code - 1 };
                    let signed = |code: u32| if code == 0 { 0 } else { bit | code };
                    assert_eq!(nearest(middle), signed(even), "{code:#x}");
                    let next = f32::from_bits(middle.to_bits() + 1);
                    assert_eq!(nearest(next), signed(code));
                    let last = f32::from_bits(middle.to_bits() - 1);
                    assert_eq!(nearest(last), signed(code - 1));
                }
            }
            // Half a unit beyond the greatest.
            let step = format.widen(MOST) - format.widen(MOST - 1);
            let end = format.widen(MOST) + step / 2.0;
            for (mode, up, down) in [(0, NAN, NAN), (OVERFLOW, 0x7f, 0xff)] {
                for value in [end, 2.0 * end, f32::MAX, f32::INFINITY] {
                    assert_eq!(format.nearest(value, mode), up);
                    assert_eq!(format.nearest(-value, mode), down);
                    assert_eq!(format.stochastic(value, !0, mode), up);
                    assert_eq!(format.stochastic(-value, !0, mode), down);
                }
                let last = f32::from_bits(end.to_bits() - 1);
                assert_eq!(format.nearest(last, mode), MOST);
                assert_eq!(format.nearest(f32::NAN, mode), NAN);
                for zero in [0.0, -0.0, f32::from_bits(1), -1e-30] {
                    assert_eq!(format.nearest(zero, mode), 0);
                    assert_eq!(format.stochastic(zero, !0, mode), 0);
                }
            }
        }
    }

    /// The results that two independent programs give, for normal results.
    #[test]
    fn stochastic_rounding() {
        for (value, seed, code) in [
            (0x3f80_0000, 0xffff_ffff, 0x40),
            (0x3f80_0001, 0xffff_efff, 0x40),
            (0x3f80_0001, 0xffff_f000, 0x41),
            (0x3f84_0000, 0xbfff_ffff, 0x40),
            (0x3f84_0000, 0xc000_0000, 0x41),
            (0xbf88_0000, 0x8000_0000, 0xc1),
            (0x3ff8_0000, 0x8000_0000, 0x48),
            (0x4372_0000, 0xdfff_ffff, 0x7f),
            (0x4372_0000, 0xe000_0000, 0x80),
            (0x4380_0000, 0, 0x80),
            (0x7fc0_0000, 0, 0x80),
        ] {
            assert_eq!(
                FP8.stochastic(f32::from_bits(value), seed, 0),
                code,
                "{value:x} {seed:x}"
            );
        }
        for (value, seed, code) in [
            (0x3f80_0001, 0xffff_f7ff, 0x40),
            (0x3f80_0001, 0xffff_f800, 0x41),
            (0x3f88_0000, 0xbfff_ffff, 0x40),
            (0x3f88_0000, 0xc000_0000, 0x41),
            (0x3fff_ffff, 0x0000_0800, 0x44),
            (0x4762_0000, 0xefff_ffff, 0x7f),
            (0x4762_0000, 0xf000_0000, 0x80),
        ] {
            assert_eq!(
                BF8.stochastic(f32::from_bits(value), seed, 0),
                code,
                "{value:x} {seed:x}"
            );
        }
        // A seed of 0 cuts.
        for code in 1..MOST {
            let next = FP8.widen(code + 1).to_bits() - 1;
            assert_eq!(FP8.stochastic(f32::from_bits(next), 0, 0), code);
        }
    }
}
