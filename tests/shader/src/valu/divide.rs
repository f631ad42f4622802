// SPDX-License-Identifier: GPL-2.0
//! The steps of a division (scale, fused steps, fix up), and the multiplications with a mask as
//! second result.

use super::{fetch, lane, Form, Spec};
use crate::decode::{Inst, Kind, Src};
use crate::env::Env;
use crate::simd::Body;
use crate::wave::{mask_of, Flow, Row, Wave, LANES};

fn exponent32(a: f32) -> i32 {
    (a.to_bits() >> 23 & 0xff) as i32
}

fn exponent64(a: f64) -> i32 {
    (a.to_bits() >> 52 & 0x7ff) as i32
}

/// 2^e.
fn power32(e: i32) -> f32 {
    f32::from_bits(((e + 127) as u32) << 23)
}

fn power64(e: i32) -> f64 {
    f64::from_bits(((e + 1023) as u64) << 52)
}

macro_rules! scale {
    (
        $name:ident, $ty:ty, $exponent:ident, $power:ident, $far:literal, $by:literal,
        $small:literal
    ) => {
        /// `s` scaled so that the quotient of `num` and `den` neither overflows nor becomes
        /// denormal on the way, and whether the quotient has to be scaled back.
        fn $name(s: $ty, den: $ty, num: $ty) -> ($ty, bool) {
            let is_den = s.to_bits() == den.to_bits();
            let is_num = s.to_bits() == num.to_bits();
            if num == 0.0 || den == 0.0 {
                return (<$ty>::NAN, false);
            }
            if $exponent(num) - $exponent(den) >= $far {
                let scaled = if is_den { s * $power($by) } else { s };
                return (scaled, true);
            }
            if den.is_subnormal() {
                return (s * $power($by), false);
            }
            let quotient = num / den;
            let quotient_is_small = quotient.is_subnormal() || quotient == 0.0;
            if (1.0 / den).is_subnormal() {
                return if quotient_is_small {
                    (if is_den { s * $power(-$by) } else { s }, true)
                } else {
                    (s * $power(-$by), false)
                };
            }
            if quotient_is_small {
                return (if is_num { s * $power($by) } else { s }, true);
            }
            if $exponent(num) <= $small {
                return (s * $power($by), false);
            }
            (s, false)
        }
    };
}
scale!(scaled32, f32, exponent32, power32, 96, 64, 23);
scale!(scaled64, f64, exponent64, power64, 768, 128, 53);

/// A function of three sources with a value and a bit as result.
trait WithMask {
    type A: super::types::Ty;
    type B: super::types::Ty;
    type D: super::types::Ty;
    fn lane(a: Self::A, b: Self::B, c: Self::D) -> (Self::D, bool);
}

struct Lanes<T>(std::marker::PhantomData<T>);

impl<T: WithMask> Body for Lanes<T> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        use super::types::Ty;
        let a = fetch::<T::A>(wave, inst.src[0], 0);
        let b = fetch::<T::B>(wave, inst.src[1], 1);
        let c = fetch::<T::D>(wave, inst.src[2], 2);
        let (mut lo, mut hi) = (Row::ZERO, Row::ZERO);
        let mut bits = [0; LANES];
        for n in 0..LANES {
            let rows = &wave.rows;
            let (value, bit) = T::lane(lane(rows, a, n), lane(rows, b, n), lane(rows, c, n));
            (lo.0[n], hi.0[n]) = value.put();
            bits[n] = u8::from(bit);
        }
        let mask = mask_of(&bits) & wave.exec();
        wave.put(inst.dst.into(), &lo);
        if T::D::KIND.is_wide() {
            wave.put(usize::from(inst.dst) + 1, &hi);
        }
        wave.set_pair(inst.sdst.into(), mask);
        Flow::Next
    }
}

/// Defines a [`WithMask`] by its function of a lane.
macro_rules! with_mask {
    ($name:ident, ($a:ident: $ta:ty, $b:ident: $tb:ty, $c:ident: $tc:ty) => $lane:expr) => {
        struct $name;

        impl WithMask for $name {
            type A = $ta;
            type B = $tb;
            type D = $tc;
            #[inline(always)]
            fn lane($a: $ta, $b: $tb, $c: $tc) -> ($tc, bool) {
                $lane
            }
        }
    };
}
with_mask!(Scale32, (s: f32, den: f32, num: f32) => scaled32(s, den, num));
with_mask!(Scale64, (s: f64, den: f64, num: f64) => scaled64(s, den, num));
with_mask!(MadI, (a: i32, b: i32, c: i64) => (i64::from(a) * i64::from(b)).overflowing_add(c));

/// v_div_scale_f32.
pub fn scale32() -> Spec {
    Spec::of::<Lanes<Scale32>>("v_div_scale_f32", Form::CarryOut, 3, [Kind::F32; 4])
}

/// v_div_scale_f64.
pub fn scale64() -> Spec {
    Spec::of::<Lanes<Scale64>>("v_div_scale_f64", Form::CarryOut, 3, [Kind::F64; 4])
}

/// As [`Lanes`], but several lanes at once: compilers multiply addresses with it.
struct MadU;

impl Body for MadU {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let a = wave.narrow(inst.src[0], 0);
        let b = wave.narrow(inst.src[1], 1);
        let c = wave.wide(inst.src[2], 2);
        let (a, b) = (&wave.rows[a].0, &wave.rows[b].0);
        let (c_lo, c_hi) = (&wave.rows[c].0, &wave.rows[c + 1].0);
        let (mut lo, mut hi) = (Row::ZERO, Row::ZERO);
        let mut bits = [0; LANES];
        // In dwords: vectors hold twice as many of them as of pairs.
        for n in 0..LANES {
            let product = a[n].wrapping_mul(b[n]);
            let product_hi = (u64::from(a[n]) * u64::from(b[n]) >> 32) as u32;
            lo.0[n] = product.wrapping_add(c_lo[n]);
            let carry = u32::from(lo.0[n] < product);
            let part = product_hi.wrapping_add(c_hi[n]);
            hi.0[n] = part.wrapping_add(carry);
            bits[n] = u8::from((part < product_hi) | (hi.0[n] < part));
        }
        let mask = mask_of(&bits) & wave.exec();
        let dst = usize::from(inst.dst);
        wave.put(dst, &lo);
        wave.put(dst + 1, &hi);
        wave.set_pair(inst.sdst.into(), mask);
        Flow::Next
    }
}

const MAD: [Kind; 4] = [Kind::Int32, Kind::Int32, Kind::Int64, Kind::Int64];

/// v_mad_u64_u32.
pub fn mad_u64_u32() -> Spec {
    Spec::of::<MadU>("v_mad_u64_u32", Form::CarryOut, 3, MAD)
}

/// v_mad_i64_i32.
pub fn mad_i64_i32() -> Spec {
    Spec::of::<Lanes<MadI>>("v_mad_i64_i32", Form::CarryOut, 3, MAD)
}

/// a * b + c, times 2^e, rounded once: the product is scaled before the sum where that loses
/// nothing.
fn fma_scaled32(a: f32, b: f32, c: f32, e: i32) -> f32 {
    // A product of two f32 is exact in f64, and so is the sum except for its last bits, whose loss
    // is made odd.
    let product = f64::from(a) * f64::from(b);
    let sum = product + f64::from(c);
    let lost = {
        let back = sum - product;
        (product - (sum - back)) + (f64::from(c) - back)
    };
    let odd = if lost != 0.0 && sum.is_finite() && sum.to_bits() & 1 == 0 {
        let away = (lost > 0.0) == (sum > 0.0);
        f64::from_bits(if away {
            sum.to_bits() + 1
        } else {
            sum.to_bits() - 1
        })
    } else {
        sum
    };
    (odd * power64(e)) as f32
}

/// As [`fma_scaled32`]. Scaling down rounds again only if the result is denormal, where the sum is
/// redone exactly.
#[inline(always)]
fn fma_scaled64(a: f64, b: f64, c: f64, e: i32) -> f64 {
    let sum = a.mul_add(b, c);
    let scaled = sum * power64(e);
    if e > 0 || !scaled.is_subnormal() {
        return scaled;
    }
    // Addends scaled first: exact, as both are far above the denormals where the sum is not.
    (a * power64(e)).mul_add(b, c * power64(e))
}

struct Fmas32;

impl Body for Fmas32 {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let rows = inst.src.map(|src| src_row::<f32>(wave, src, &inst.src));
        let vcc = wave.vcc();
        let mut out = Row::ZERO;
        for n in 0..LANES {
            let [a, b, c] = rows.map(|row| lane::<f32>(&wave.rows, row, n));
            let value = if vcc >> n & 1 == 1 {
                let e = if exponent32(c) > 127 { 64 } else { -64 };
                fma_scaled32(a, b, c, e)
            } else {
                a.mul_add(b, c)
            };
            out.0[n] = value.to_bits();
        }
        wave.put(inst.dst.into(), &out);
        Flow::Next
    }
}

struct Fmas64;

impl Body for Fmas64 {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let rows = inst.src.map(|src| src_row::<f64>(wave, src, &inst.src));
        let vcc = wave.vcc();
        let (mut lo, mut hi) = (Row::ZERO, Row::ZERO);
        for n in 0..LANES {
            let [a, b, c] = rows.map(|row| lane::<f64>(&wave.rows, row, n));
            let value = if vcc >> n & 1 == 1 {
                let e = if exponent64(c) > 1023 { 128 } else { -128 };
                fma_scaled64(a, b, c, e)
            } else {
                a.mul_add(b, c)
            };
            lo.0[n] = value.to_bits() as u32;
            hi.0[n] = (value.to_bits() >> 32) as u32;
        }
        wave.put(inst.dst.into(), &lo);
        wave.put(usize::from(inst.dst) + 1, &hi);
        Flow::Next
    }
}

/// The row of a source, in the slot of its own.
fn src_row<T: super::types::Ty>(wave: &mut Wave, src: Src, all: &[Src; 3]) -> usize {
    let slot = all.iter().position(|&other| other == src).unwrap_or(0);
    fetch::<T>(wave, src, slot)
}

/// v_div_fmas_f32.
pub fn fmas32() -> Spec {
    Spec::of::<Fmas32>("v_div_fmas_f32", Form::Plain, 3, [Kind::F32; 4])
}

/// v_div_fmas_f64.
pub fn fmas64() -> Spec {
    Spec::of::<Fmas64>("v_div_fmas_f64", Form::Plain, 3, [Kind::F64; 4])
}

macro_rules! fixup {
    ($name:ident, $ty:ty) => {
        /// The quotient `q` of `num` and `den`, with its sign, or the result of the special cases.
        pub fn $name(q: $ty, den: $ty, num: $ty) -> $ty {
            let sign = den.is_sign_negative() ^ num.is_sign_negative();
            let signed = |value: $ty| if sign { -value } else { value };
            if num.is_nan() {
                num
            } else if den.is_nan() {
                den
            } else if num == 0.0 && den == 0.0 || num.is_infinite() && den.is_infinite() {
                <$ty>::NAN
            } else if den == 0.0 || num.is_infinite() {
                signed(<$ty>::INFINITY)
            } else if den.is_infinite() || num == 0.0 {
                signed(0.0)
            } else if q.is_nan() {
                signed(<$ty>::INFINITY)
            } else {
                signed(q.abs())
            }
        }
    };
}
fixup!(fixup32, f32);
fixup!(fixup64, f64);
