// SPDX-License-Identifier: GPL-2.0
//! Floating-point functions without a single operation of the host.
//!
//! Where the bits of an approximation are not public (reciprocals, roots, exponentials, sines)
//! results are the correctly rounded ones.

use half::f16;

use super::halves::{narrow, Widen};

/// Bits of 2 / pi behind the binary point, most significant first.
const TWO_OVER_PI: [u64; 20] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
    0xf0cf_bc20_9af4_361d,
];

/// `a` if `holds`, otherwise `b`. An `if` would become a branch.
#[inline(always)]
pub fn select32(holds: bool, a: u32, b: u32) -> u32 {
    let mask = 0u32.wrapping_sub(holds.into());
    a & mask | b & !mask
}

/// See [`select32`].
#[inline(always)]
fn select64(holds: bool, a: u64, b: u64) -> u64 {
    let mask = 0u64.wrapping_sub(holds.into());
    a & mask | b & !mask
}

/// The less of two; the number if one is a NaN; -0 is less than +0.
#[inline(always)]
pub fn min32(a: f32, b: f32) -> f32 {
    let first = (a < b) | b.is_nan();
    let second = (b < a) | a.is_nan();
    let both = a.to_bits() | b.to_bits();
    let other = select32(second, b.to_bits(), both);
    f32::from_bits(select32(first, quiet32(a).to_bits(), other))
}

/// The greater of two; see [`min32`].
#[inline(always)]
pub fn max32(a: f32, b: f32) -> f32 {
    let first = (a > b) | b.is_nan();
    let second = (b > a) | a.is_nan();
    let both = a.to_bits() & b.to_bits();
    let other = select32(second, b.to_bits(), both);
    f32::from_bits(select32(first, quiet32(a).to_bits(), other))
}

/// A NaN made quiet.
#[inline(always)]
pub fn quiet32(a: f32) -> f32 {
    f32::from_bits(a.to_bits() | select32(a.is_nan(), 1 << 22, 0))
}

/// See [`min32`].
#[inline(always)]
pub fn min64(a: f64, b: f64) -> f64 {
    let first = (a < b) | b.is_nan();
    let second = (b < a) | a.is_nan();
    let both = a.to_bits() | b.to_bits();
    let other = select64(second, b.to_bits(), both);
    f64::from_bits(select64(first, quiet64(a).to_bits(), other))
}

/// See [`max32`].
#[inline(always)]
pub fn max64(a: f64, b: f64) -> f64 {
    let first = (a > b) | b.is_nan();
    let second = (b > a) | a.is_nan();
    let both = a.to_bits() & b.to_bits();
    let other = select64(second, b.to_bits(), both);
    f64::from_bits(select64(first, quiet64(a).to_bits(), other))
}

/// See [`quiet32`].
#[inline(always)]
pub fn quiet64(a: f64) -> f64 {
    f64::from_bits(a.to_bits() | select64(a.is_nan(), 1 << 51, 0))
}

/// See [`min32`].
#[inline(always)]
pub fn min16(a: f16, b: f16) -> f16 {
    let less = order16(a) < order16(b);
    chosen16(less & !is_nan16(a) | is_nan16(b), a, b)
}

/// See [`max32`].
#[inline(always)]
pub fn max16(a: f16, b: f16) -> f16 {
    let more = order16(a) > order16(b);
    chosen16(more & !is_nan16(a) | is_nan16(b), a, b)
}

/// A number with the order of the half, -0 less than +0.
#[inline(always)]
fn order16(a: f16) -> i16 {
    let bits = a.to_bits() as i16;
    bits ^ (bits >> 15 & 0x7fff)
}

#[inline(always)]
fn is_nan16(a: f16) -> bool {
    a.to_bits() & 0x7fff > 0x7c00
}

/// The first or the second one; a NaN becomes quiet.
#[inline(always)]
fn chosen16(first: bool, a: f16, b: f16) -> f16 {
    let chosen = if first { a } else { b };
    let quiet = if is_nan16(chosen) { 1 << 9 } else { 0 };
    f16::from_bits(chosen.to_bits() | quiet)
}

/// The middle one of three.
pub fn med32(a: f32, b: f32, c: f32) -> f32 {
    if a.is_nan() || b.is_nan() || c.is_nan() {
        return min32(min32(a, b), c);
    }
    max32(min32(a, b), min32(max32(a, b), c))
}

/// Zero of the same sign for a denormal.
#[inline(always)]
pub fn flush32(a: f32) -> f32 {
    let bits = a.to_bits();
    let zero = bits & 0x7f80_0000 == 0;
    f32::from_bits(bits & select32(zero, 1 << 31, !0))
}

/// a * b + c with two roundings, and without denormals (v_mad_f32, v_mac_f32).
#[inline(always)]
pub fn mad32(a: f32, b: f32, c: f32) -> f32 {
    flush32(flush32(flush32(a) * flush32(b)) + flush32(c))
}

/// As [`mad32`] for f16 (v_mad_f16, v_mac_f16): LLVM takes these only where denormals are flushed.
#[inline(always)]
pub fn mad16(a: f16, b: f16, c: f16) -> f16 {
    let product = flush16(narrow(flush16(a).widen() * flush16(b).widen()));
    flush16(narrow(product.widen() + flush16(c).widen()))
}

/// See [`flush32`].
#[inline(always)]
pub fn flush16(a: f16) -> f16 {
    let bits = a.to_bits();
    let zero = bits & 0x7c00 == 0;
    f16::from_bits(if zero { bits & 0x8000 } else { bits })
}

/// a * b, and 0 if one is that, whatever the other is.
#[inline(always)]
pub fn mul_legacy32(a: f32, b: f32) -> f32 {
    if a == 0.0 || b == 0.0 {
        0.0
    } else {
        a * b
    }
}

/// [`mad32`] of [`mul_legacy32`].
#[inline(always)]
pub fn mad_legacy32(a: f32, b: f32, c: f32) -> f32 {
    flush32(flush32(mul_legacy32(flush32(a), flush32(b))) + flush32(c))
}

/// From -1 to 1 as a signed number of 16 bits, to nearest even; 0 for a NaN.
pub fn signed_norm(a: f32) -> u16 {
    (f64::from(a.clamp(-1.0, 1.0)) * 32767.0).round_ties_even() as i16 as u16
}

/// From 0 to 1, see [`signed_norm`].
pub fn unsigned_norm(a: f32) -> u16 {
    (f64::from(a.clamp(0.0, 1.0)) * 65535.0).round_ties_even() as u16
}

/// The largest coordinate of a cube map's direction: 0 to 2 for x, y, z. Of equal ones it is the
/// last.
fn cube_axis(x: f32, y: f32, z: f32) -> usize {
    let (ax, ay, az) = (x.abs(), y.abs(), z.abs());
    if az >= ax && az >= ay {
        2
    } else if ay >= ax {
        1
    } else {
        0
    }
}

/// The face that a direction meets.
pub fn cube_face(x: f32, y: f32, z: f32) -> f32 {
    let axis = cube_axis(x, y, z);
    let negative = [x, y, z][axis] < 0.0;
    (2 * axis + usize::from(negative)) as f32
}

/// The first coordinate on the face.
pub fn cube_s(x: f32, y: f32, z: f32) -> f32 {
    match cube_axis(x, y, z) {
        2 if z < 0.0 => -x,
        2 | 1 => x,
        _ if x < 0.0 => z,
        _ => -z,
    }
}

/// The second coordinate on the face.
pub fn cube_t(x: f32, y: f32, z: f32) -> f32 {
    match cube_axis(x, y, z) {
        1 if y < 0.0 => -z,
        1 => z,
        _ => -y,
    }
}

/// Twice the largest coordinate.
pub fn cube_major(x: f32, y: f32, z: f32) -> f32 {
    2.0 * [x, y, z][cube_axis(x, y, z)]
}

/// a - floor(a), less than 1.
#[inline(always)]
pub fn fract32(a: f32) -> f32 {
    (a - a.floor()).min(f32::from_bits(0x3f7f_ffff))
}

/// See [`fract32`].
#[inline(always)]
pub fn fract64(a: f64) -> f64 {
    (a - a.floor()).min(f64::from_bits(0x3fef_ffff_ffff_ffff))
}

/// a * 2^e, rounded once.
#[inline(always)]
pub fn ldexp32(a: f32, e: i32) -> f32 {
    // No f32 needs an exponent beyond these, and a double holds the product exactly or it is 0.
    let e = e.clamp(-600, 600);
    (f64::from(a) * power(e)) as f32
}

/// 2^e for a normal double.
#[inline(always)]
fn power(e: i32) -> f64 {
    f64::from_bits(((e + 1023) as u64) << 52)
}

/// See [`ldexp32`].
pub fn ldexp64(mut a: f64, e: i32) -> f64 {
    let mut e = e.clamp(-4000, 4000);
    while e > 1023 {
        a *= power(1023);
        e -= 1023;
    }
    // Steps that keep enough bits above the denormals for the last one to round alone.
    while e < -1022 {
        a *= power(-1022 + 53);
        e += 1022 - 53;
    }
    a * power(e)
}

/// The exponent of `a` for a mantissa in [0.5, 1); 0 for zero, infinity and NaN.
pub fn frexp_exponent(a: f64) -> i32 {
    if a == 0.0 || !a.is_finite() {
        return 0;
    }
    if a.is_subnormal() {
        return frexp_exponent(a * power(64)) - 64;
    }
    (a.to_bits() >> 52 & 0x7ff) as i32 - 1022
}

/// The mantissa in [0.5, 1) with the sign of `a`; zero, infinity and NaN are themselves.
pub fn frexp_mantissa(a: f64) -> f64 {
    if a == 0.0 || !a.is_finite() {
        return a;
    }
    ldexp64(a, -frexp_exponent(a))
}

/// sin(2 pi a).
pub fn sin_turns(a: f64) -> f64 {
    ((a - a.trunc()) * std::f64::consts::TAU).sin()
}

/// cos(2 pi a).
pub fn cos_turns(a: f64) -> f64 {
    ((a - a.trunc()) * std::f64::consts::TAU).cos()
}

/// 53 bits of 2 / pi, from 53 times the segment number on and further for a large exponent of `a`,
/// in their place (v_trig_preop_f64).
pub fn trig_preop(a: f64, segment: u32) -> f64 {
    let exponent = (a.to_bits() >> 52 & 0x7ff) as i32;
    let mut shift = (segment & 0x1f) as i32 * 53;
    if exponent > 1077 {
        shift += exponent - 1077;
    }
    let bit = |n: usize| {
        TWO_OVER_PI
            .get(n / 64)
            .map_or(0, |word| word >> (63 - n % 64) & 1)
    };
    // There are 1201 bits.
    let bits = (0..53usize)
        .map(|n| n + shift as usize)
        .fold(0, |all, n| all << 1 | if n <= 1200 { bit(n) } else { 0 });
    let mut scale = -53 - shift;
    if exponent >= 1968 {
        scale += 128;
    }
    ldexp64(bits as f64, scale)
}

/// Bit number of the class of a float, in the order of v_cmp_class: signalling NaN, quiet NaN,
/// -infinity, -normal, -denormal, -0, +0, +denormal, +normal, +infinity.
#[inline(always)]
pub fn class(category: std::num::FpCategory, negative: bool, quiet: bool) -> u32 {
    use std::num::FpCategory::*;
    match (category, negative) {
        (Nan, _) => u32::from(quiet),
        (Infinite, true) => 2,
        (Normal, true) => 3,
        (Subnormal, true) => 4,
        (Zero, true) => 5,
        (Zero, false) => 6,
        (Subnormal, false) => 7,
        (Normal, false) => 8,
        (Infinite, false) => 9,
    }
}

/// f32 to f16, toward zero.
pub fn f16_toward_zero(a: f32) -> u16 {
    let nearest = f16::from_f32(a);
    let back = nearest.to_f32();
    if back.abs() > a.abs() && !(a.is_infinite()) {
        // One step back, which from infinity is the largest finite number.
        nearest.to_bits() - 1
    } else {
        nearest.to_bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_chosen_as_floats_are() {
        for other in [
            0, 1, 0x3ff, 0x400, 0x3c00, 0x7bff, 0x7c00, 0x7c01, 0x7d55, 0x7e00, 0x7fff,
        ] {
            for half in 0..=u16::MAX {
                for (a, b) in [(half, other), (half, other | 1 << 15), (other, half)] {
                    let (a, b) = (f16::from_bits(a), f16::from_bits(b));
                    let [min, max] = [min32, max32].map(|f| narrow(f(a.widen(), b.widen())));
                    assert_eq!(min16(a, b).to_bits(), min.to_bits(), "{a} {b}");
                    assert_eq!(max16(a, b).to_bits(), max.to_bits(), "{a} {b}");
                }
            }
        }
    }
}
