// SPDX-License-Identifier: GPL-2.0
//! f16 to and from other floats without a branch, so that a loop over lanes does several at once.

use half::f16;

use super::float::select32;

/// A value of more bits.
pub trait Widen {
    /// The same as f32. A NaN becomes a quiet one.
    fn widen(self) -> f32;
}

impl Widen for f16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        /// From an exponent of f16 to the same of f32, in its place.
        const REBIAS: u32 = (127 - 15) << 23;
        const QUIET: u32 = 1 << 22;
        let bits = u32::from(self.to_bits());
        let sign = (bits & 0x8000) << 16;
        let magnitude = (bits & 0x7fff) << 13;
        let exponent = magnitude & 0x7c00 << 13;
        let normal = magnitude + REBIAS;
        // Denormals of f16 are fractions of the least normal value.
        let denormal = f32::from_bits(normal + (1 << 23)) - f32::from_bits(REBIAS + (1 << 23));
        let special = (normal + REBIAS) | select32(magnitude > 0x7c00 << 13, QUIET, 0);
        let value = select32(exponent == 0, denormal.to_bits(), normal);
        let value = select32(exponent == 0x7c00 << 13, special, value);
        f32::from_bits(value | sign)
    }
}

/// The nearest f16, ties to even. A NaN stays one, and becomes quiet.
#[inline(always)]
pub fn narrow(value: f32) -> f16 {
    /// From an exponent of f32 to the same of f16, in its place.
    const REBIAS: u32 = (127 - 15) << 23;
    const INFINITY: u32 = 0x7f80_0000;
    /// The least that is infinite as f16 in any rounding, and the least that is normal.
    const LARGE: u32 = (127 + 16) << 23;
    const NORMAL: u32 = (127 - 14) << 23;
    /// Added to a denormal, it leaves that in its lowest bits, rounded.
    const DENORMAL: u32 = (127 - 15 + 23 - 10 + 1) << 23;
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let odd = magnitude >> 13 & 1;
    let normal = magnitude.wrapping_sub(REBIAS).wrapping_add(0xfff + odd) >> 13;
    let denormal = (f32::from_bits(magnitude) + f32::from_bits(DENORMAL)).to_bits();
    let denormal = denormal.wrapping_sub(DENORMAL);
    let nan = 0x7e00 | magnitude >> 13 & 0x3ff;
    let special = select32(magnitude > INFINITY, nan, 0x7c00);
    let rounded = select32(magnitude < NORMAL, denormal, normal);
    let rounded = select32(magnitude >= LARGE, special, rounded);
    f16::from_bits((rounded | bits >> 16 & 0x8000) as u16)
}

/// a * b + c, rounded once.
#[inline(always)]
pub fn fma(a: f16, b: f16, c: f16) -> f16 {
    narrow(fma_to_odd(a.widen(), b.widen(), c.widen()))
}

/// a * b + c of halves as floats, rounded to odd: if the sum lies between two floats, it is the one
/// with an odd last bit.
///
/// [`narrow`] of it is the half nearest the exact sum. A float has more than two bits beyond those
/// of a half, so no odd one is a half or half way between two, and the half nearest the sum is also
/// nearest its odd neighbour.
#[inline(always)]
pub fn fma_to_odd(a: f32, b: f32, c: f32) -> f32 {
    // Products have 22 bits, and no exponent that f32 lacks: they are exact. So is the rounding
    // error of the sum.
    let product = a * b;
    let sum = product + c;
    let part = sum - product;
    let lost = (product - (sum - part)) + (c - part);
    // Neither holds for a NaN, which is the rounding error of an infinity.
    let inexact = u32::from((lost < 0.0) | (lost > 0.0));
    // The neighbour toward zero, and the bit.
    let bits = sum.to_bits();
    let beyond = (lost.to_bits() ^ bits) >> 31 & inexact;
    f32::from_bits(bits.wrapping_sub(beyond) | inexact)
}

/// Returns whether a float may be half way between two halves, or is in the range where halves have
/// few bits. For any other one the nearest half is also that of the value which was rounded to it.
#[inline(always)]
pub fn is_halfway(bits: u32) -> bool {
    /// The least that is normal as f16.
    const NORMAL: u32 = (127 - 14) << 23;
    let denormal = (bits & 0x7fff_ffff).wrapping_sub(1) < NORMAL - 1;
    (bits & 0x1fff == 0x1000) | denormal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_widen() {
        for bits in 0..=u16::MAX {
            let half = f16::from_bits(bits);
            assert_eq!(half.widen().to_bits(), half.to_f32().to_bits(), "{bits:#x}");
        }
    }

    #[test]
    fn many_narrow() {
        let check = |bits: u32| {
            let value = f32::from_bits(bits);
            assert_eq!(
                narrow(value).to_bits(),
                f16::from_f32(value).to_bits(),
                "{bits:#x}"
            );
        };
        (0..=u32::MAX).step_by(1009).for_each(check);
        // The neighbourhood of all f16, and the points half way between.
        for bits in 0..=u16::MAX {
            let value = f16::from_bits(bits).to_f32().to_bits();
            (-2i32..=2).for_each(|n| check(value.wrapping_add_signed(n)));
            (-2i32..=2).for_each(|n| check((value + 0x1000).wrapping_add_signed(n)));
        }
    }

    /// The half nearest so many 2^-48, ties to even.
    fn nearest(sum: i128) -> u16 {
        let magnitude = sum.unsigned_abs();
        // The unit of the result's last place; that of denormals is 2^-24.
        let place = (u128::BITS - magnitude.leading_zeros())
            .saturating_sub(11)
            .max(24);
        let (whole, rest) = (magnitude >> place, magnitude & ((1 << place) - 1));
        let half = 1 << (place - 1);
        let up = rest > half || rest == half && whole & 1 == 1;
        // With a carry into the exponent, up to infinity.
        let bits = (u128::from(place - 24) << 10) + whole + u128::from(up);
        bits.min(0x7c00) as u16 | if sum < 0 { 0x8000 } else { 0 }
    }

    /// So many 2^-24.
    fn exact(half: f16) -> i128 {
        (half.to_f64() * f64::from(1 << 24)) as i128
    }

    #[test]
    fn sums_are_rounded_once() {
        let mut state = 1u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            f16::from_bits((state >> 24) as u16)
        };
        for _ in 0..4_000_000 {
            let (a, b, c) = (next(), next(), next());
            let sum = fma(a, b, c);
            let rounded = a.widen() * b.widen() + c.widen();
            let same = narrow(rounded).to_bits() == sum.to_bits();
            assert!(same || sum.is_nan() || is_halfway(rounded.to_bits()));
            if a.is_finite() && b.is_finite() && c.is_finite() {
                let exact = exact(a) * exact(b) + (exact(c) << 24);
                let same =
                    sum.to_bits() == nearest(exact) || exact == 0 && sum.to_bits() & 0x7fff == 0;
                assert!(same, "{a} {b} {c}: {sum}");
            } else {
                let about = a.to_f32() * b.to_f32() + c.to_f32();
                let same = sum.to_f32() == about || sum.is_nan() && about.is_nan();
                assert!(same, "{a} {b} {c}: {sum}");
            }
        }
    }

    #[test]
    fn little_decides_between_two() {
        let half = |bits| f16::from_bits(bits);
        for (a, b, c, sum) in [
            // 1.5 (1 + 2^-10) is half way between two, of which the even one is above.
            (0x3c01, 0x3e00, 0x0000, 0x3e02),
            // The least amount less or more. As a float the sum is half way again.
            (0x3c01, 0x3e00, 0x8001, 0x3e01),
            (0x3c01, 0x3e00, 0x0001, 0x3e02),
            // 1 + 2^-10 + 2^-11, and 2^-31 less.
            (0x1000, 0x3c00, 0x3c01, 0x3c02),
            (0x1001, 0x3bfe, 0x3c01, 0x3c01),
            // A denormal and half of the least, and 2^-45 less.
            (0x0800, 0x0c00, 0x0201, 0x0202),
            (0x0801, 0x0bfe, 0x0201, 0x0201),
        ] {
            let (a, b, c) = (half(a), half(b), half(c));
            let exact = exact(a) * exact(b) + (exact(c) << 24);
            assert_eq!(nearest(exact), sum, "{a} {b} {c}");
            assert_eq!(fma(a, b, c).to_bits(), sum, "{a} {b} {c}");
        }
    }
}
