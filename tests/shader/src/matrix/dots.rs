// SPDX-License-Identifier: GPL-2.0
//! The sums of products that gfx942 makes of small floats: groups of products are added to the sum
//! with bits cut off, and one rounding at the end of each. After MMA-Sim's model of an MI300X
//! (arXiv 2511.10909), which leaves NaN and infinity to do: these are what IEEE's sums would be.

use crate::valu::float as fp;

/// Format of a factor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// See there.
    F16,
    /// The upper half of an f32.
    Bf16,
    /// An f32 without its low 13 bits.
    Xf32,
    /// E4M3 with one NaN, and no infinity.
    Fp8,
    /// E5M2, the same.
    Bf8,
}

impl Format {
    /// Bits of an element in its register.
    pub fn bits(self) -> usize {
        match self {
            Format::Xf32 => 32,
            Format::F16 | Format::Bf16 => 16,
            Format::Fp8 | Format::Bf8 => 8,
        }
    }

    /// The number of products that are added at once, if there are so many.
    pub fn group(self) -> usize {
        match self {
            Format::Xf32 => 4,
            Format::F16 | Format::Bf16 => 8,
            Format::Fp8 | Format::Bf8 => 16,
        }
    }

    /// Products of even and of odd place are added apart at first.
    fn has_parity(self) -> bool {
        self.bits() == 8
    }

    /// Bits of mantissa and exponent, and the exponent's bias.
    #[inline(always)]
    fn layout(self) -> (u32, u32, i32) {
        match self {
            Format::F16 => (10, 5, 15),
            Format::Bf16 => (7, 8, 127),
            Format::Xf32 => (10, 8, 127),
            Format::Fp8 => (3, 4, 8),
            Format::Bf8 => (2, 5, 16),
        }
    }

    /// An element from the low bits of a register.
    #[inline(always)]
    fn unpack(self, register: u32) -> Number {
        let (mantissa, exponents, bias) = self.layout();
        let bits = match self {
            Format::Xf32 => register >> 13,
            _ => register,
        };
        let fraction = bits & ((1 << mantissa) - 1);
        let exponent = bits >> mantissa & ((1 << exponents) - 1);
        let negative = bits >> (mantissa + exponents) & 1 == 1;
        let signed = |value: u32| {
            if negative {
                -(value as i32)
            } else {
                value as i32
            }
        };
        let odd = |value: f32| Number {
            significand: 0,
            exponent: ZERO,
            odd: Some(if negative { -value } else { value }),
        };
        if self.has_parity() {
            if negative && fraction | exponent == 0 {
                return odd(f32::NAN);
            }
        } else if exponent == (1 << exponents) - 1 {
            return odd(if fraction == 0 {
                f32::INFINITY
            } else {
                f32::NAN
            });
        }
        let (hidden, exponent) = match (exponent, fraction) {
            (0, 0) => (0, ZERO),
            (0, _) => (0, 1 - bias),
            _ => (1 << mantissa, exponent as i32 - bias),
        };
        Number {
            significand: signed((hidden | fraction) << (PLACES - mantissa)),
            exponent,
            odd: None,
        }
    }
}

/// Bits of a significand behind the point.
const PLACES: u32 = 12;
/// The exponent of zero, of every format.
const ZERO: i32 = -126;
/// Products from this exponent on may be infinite.
const LARGE: i32 = 126;

/// An element.
#[derive(Clone, Copy)]
struct Number {
    significand: i32,
    exponent: i32,
    /// It is an infinity or NaN.
    odd: Option<f32>,
}

/// The elements of a factor: for each place in the sums' order those of all rows (of A) or columns
/// (of B).
pub struct Factor<const SIZE: usize, const DEPTH: usize> {
    significands: [[i32; SIZE]; DEPTH],
    exponents: [[i32; SIZE]; DEPTH],
    /// Infinities and NaNs; 0 for others.
    odd: [[f32; SIZE]; DEPTH],
    /// There are such.
    has_odd: bool,
    largest: i32,
}

impl<const SIZE: usize, const DEPTH: usize> Factor<SIZE, DEPTH> {
    /// Without elements.
    pub fn new() -> Self {
        Factor {
            significands: [[0; SIZE]; DEPTH],
            exponents: [[ZERO; SIZE]; DEPTH],
            odd: [[0.0; SIZE]; DEPTH],
            has_odd: false,
            largest: ZERO,
        }
    }

    /// Sets an element from the low bits of a register.
    #[inline(always)]
    pub fn set(&mut self, format: Format, k: usize, n: usize, register: u32) {
        let number = format.unpack(register);
        self.significands[k][n] = number.significand;
        self.exponents[k][n] = number.exponent;
        self.largest = self.largest.max(number.exponent);
        if let Some(value) = number.odd {
            self.odd[k][n] = value;
            self.has_odd = true;
        }
    }

    /// The value of an element.
    fn value(&self, k: usize, n: usize) -> f64 {
        let odd = f64::from(self.odd[k][n]);
        if odd != 0.0 {
            return odd;
        }
        f64::from(self.significands[k][n]) * power(self.exponents[k][n] - PLACES as i32)
    }
}

/// 2^e.
#[inline(always)]
fn power(e: i32) -> f64 {
    f64::from_bits(((e + 1023) as u64) << 52)
}

/// Adds the products of row `i` of A and all columns of B to `sums`: those of A's element `k` and
/// of B's with the place `order[k]`.
#[inline(always)]
pub fn add_row<const SIZE: usize, const A: usize, const B: usize>(
    format: Format,
    a: &Factor<SIZE, A>,
    b: &Factor<SIZE, B>,
    i: usize,
    order: &[u8],
    sums: &mut [f32; SIZE],
) {
    let may_be_odd = a.has_odd || b.has_odd || a.largest + b.largest >= LARGE;
    for (n, group) in order.chunks(format.group()).enumerate() {
        let first = n * format.group();
        let before = *sums;
        if format.has_parity() {
            let (even, e0) = products::<SIZE, A, B>(a, b, i, first, group, 0, 2);
            let (odd, e1) = products::<SIZE, A, B>(a, b, i, first, group, 1, 2);
            let (mut all, mut e) = (even, e0);
            for j in 0..SIZE {
                e[j] = e0[j].max(e1[j]);
                all[j] = (even[j] >> (e[j] - e0[j]).min(31)) + (odd[j] >> (e[j] - e1[j]).min(31));
            }
            round::<SIZE, true>(&all, &e, sums);
        } else {
            let (all, e) = products::<SIZE, A, B>(a, b, i, first, group, 0, 1);
            round::<SIZE, false>(&all, &e, sums);
        }
        if may_be_odd {
            odd_sums(a, b, i, first, group, &before, sums);
        }
    }
    for sum in sums {
        // The bits of a NaN are not known.
        let bits = fp::select32(sum.is_nan(), 0x7fc0_0000, sum.to_bits());
        *sum = f32::from_bits(bits);
    }
}

/// The sums of the products of every `step`th place from `start` on, with 24 bits behind the point,
/// and their exponents, the greatest of the products'. Each is cut toward zero.
#[inline(always)]
fn products<const SIZE: usize, const A: usize, const B: usize>(
    a: &Factor<SIZE, A>,
    b: &Factor<SIZE, B>,
    i: usize,
    first: usize,
    group: &[u8],
    start: usize,
    step: usize,
) -> ([i32; SIZE], [i32; SIZE]) {
    let mut greatest = [i32::MIN; SIZE];
    let mut n = start;
    while n < group.len() {
        let (k, from) = (first + n, usize::from(group[n]));
        let exponent = a.exponents[k][i];
        let others = &b.exponents[from];
        for j in 0..SIZE {
            greatest[j] = greatest[j].max(exponent + others[j]);
        }
        n += step;
    }
    let mut sums = [0; SIZE];
    let mut n = start;
    while n < group.len() {
        let (k, from) = (first + n, usize::from(group[n]));
        let (significand, exponent) = (a.significands[k][i], a.exponents[k][i]);
        let (significands, exponents) = (&b.significands[from], &b.exponents[from]);
        for j in 0..SIZE {
            // Less than 2^26.
            let product = significand * significands[j];
            let shift = (greatest[j] - exponent - exponents[j]).min(31);
            let sign = product >> 31;
            let cut = ((product ^ sign) - sign) >> shift;
            sums[j] += (cut ^ sign) - sign;
        }
        n += step;
    }
    (sums, greatest)
}

/// Adds a group's sums, to the unit that the greater exponent gives, downward; then to nearest
/// even. With `DROPS` a sum so far that is too small is no part of it. All of it is exact in f64
/// but for the last step.
#[inline(always)]
fn round<const SIZE: usize, const DROPS: bool>(
    group: &[i32; SIZE],
    exponents: &[i32; SIZE],
    sums: &mut [f32; SIZE],
) {
    for j in 0..SIZE {
        let field = (sums[j].to_bits() >> 23 & 0xff) as i32;
        let own = field.max(1) - 127;
        let greater = exponents[j].max(own);
        let added = (f64::from(group[j]) * power(7 + exponents[j] - greater)).floor();
        let mut sum = (f64::from(sums[j]) * power(24 - greater)).floor();
        if DROPS && own < greater - 25 {
            sum = 0.0;
        }
        sums[j] = ((added + 128.0 * sum) * power(greater - 31)) as f32;
    }
}

/// Puts right the sums of products of which some are infinite or NaN.
#[cold]
#[inline(never)]
fn odd_sums<const SIZE: usize, const A: usize, const B: usize>(
    a: &Factor<SIZE, A>,
    b: &Factor<SIZE, B>,
    i: usize,
    first: usize,
    group: &[u8],
    before: &[f32; SIZE],
    sums: &mut [f32; SIZE],
) {
    let infinite = power(128);
    for j in 0..SIZE {
        let mut odd = 0.0;
        for (n, &from) in group.iter().enumerate() {
            let product = a.value(first + n, i) * b.value(from.into(), j);
            // Products that no f32 holds count as infinite.
            if product.is_finite() && product.abs() >= infinite {
                odd += f64::INFINITY.copysign(product);
            } else if !product.is_finite() {
                odd += product;
            }
        }
        if odd != 0.0 {
            sums[j] = (odd + f64::from(before[j])) as f32;
        }
    }
}
