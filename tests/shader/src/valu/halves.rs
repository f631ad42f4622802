// SPDX-License-Identifier: GPL-2.0
//! f16 to and from other floats without a branch, so that a loop over lanes does several at once.

use half::f16;

/// `a` where that holds, otherwise `b`. An `if` would be made a branch.
#[inline(always)]
fn select(holds: bool, a: u32, b: u32) -> u32 {
    let mask = 0u32.wrapping_sub(holds.into());
    a & mask | b & !mask
}

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
        let special = (normal + REBIAS) | select(magnitude > 0x7c00 << 13, QUIET, 0);
        let value = select(exponent == 0, denormal.to_bits(), normal);
        let value = select(exponent == 0x7c00 << 13, special, value);
        f32::from_bits(value | sign)
    }
}

/// The nearest f16, the even one of two. A NaN stays one, and becomes quiet.
#[inline(always)]
pub fn narrow(value: f32) -> f16 {
    /// From an exponent of f32 to the same of f16, in its place.
    const REBIAS: u32 = (127 - 15) << 23;
    const INFINITY: u32 = 0x7f80_0000;
    /// The least that is infinite as f16 whatever is rounded, and the least that is normal.
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
    let special = select(magnitude > INFINITY, nan, 0x7c00);
    let rounded = select(magnitude < NORMAL, denormal, normal);
    let rounded = select(magnitude >= LARGE, special, rounded);
    f16::from_bits((rounded | bits >> 16 & 0x8000) as u16)
}

/// a * b + c, rounded once.
#[inline(always)]
pub fn fma(a: f16, b: f16, c: f16) -> f16 {
    const INFINITY: u32 = 0x7f80_0000;
    let c = c.widen();
    // Products are exact in f32. What the sum has lost is exact, too.
    let product = a.widen() * b.widen();
    let sum = product + c;
    let part = sum - product;
    let lost = (product - (sum - part)) + (c - part);
    // The sum's last bit is made odd then, on the side where the exact one is, so that it is rounded only once.
    let bits = sum.to_bits();
    let even = (bits & 1 == 0) & (lost != 0.0) & (bits & INFINITY != INFINITY);
    let away = (lost.to_bits() ^ bits) >> 31 == 0;
    let step = select(away, 1, u32::MAX);
    narrow(f32::from_bits(bits.wrapping_add(select(even, step, 0))))
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
        // Around all that f16 has, and half way between.
        for bits in 0..=u16::MAX {
            let value = f16::from_bits(bits).to_f32().to_bits();
            (-2i32..=2).for_each(|n| check(value.wrapping_add_signed(n)));
            (-2i32..=2).for_each(|n| check((value + 0x1000).wrapping_add_signed(n)));
        }
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
        for _ in 0..1_000_000 {
            let (a, b, c) = (next(), next(), next());
            // By way of f32 it may have become a neighbour of what is nearest.
            let exact = a.to_f64().mul_add(b.to_f64(), c.to_f64());
            let about = f16::from_f64(exact).to_bits();
            let apart = |bits: &u16| (f16::from_bits(*bits).to_f64() - exact).abs();
            let near = [about, about.wrapping_sub(1), about.wrapping_add(1)];
            let nearest = near.into_iter().min_by(|x, y| {
                let order = apart(x).total_cmp(&apart(y));
                order.then((x & 1).cmp(&(y & 1)))
            });
            let sum = fma(a, b, c);
            let large = exact.abs() >= 65504.0 || exact.is_nan();
            let same = if large {
                sum.is_nan() == exact.is_nan() && (exact.is_nan() || sum.to_bits() == about)
            } else {
                Some(sum.to_bits()) == nearest || sum == f16::from_bits(nearest.unwrap())
            };
            assert!(same, "{a} {b} {c}: {sum}, not {exact}");
        }
    }
}
