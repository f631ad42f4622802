// SPDX-License-Identifier: GPL-2.0
//! Compares: a mask with a bit for each active lane, also into EXEC for v_cmpx.

use std::marker::PhantomData;

use half::f16;

use super::float::class;
use super::halves::Widen;
use super::types::{self, Ty};
use super::{fetch, lane, Form, Spec};
use crate::decode::{Inst, Kind};
use crate::env::Env;
use crate::simd::Body;
use crate::wave::{mask_of, Flow, Row, Wave, LANES, SPLAT};

/// The type in which integers and floats are compared.
trait Compared: Ty {
    fn is_less(self, other: Self) -> bool;
    fn is_equal(self, other: Self) -> bool;
    fn is_at_most(self, other: Self) -> bool;
}

macro_rules! compared {
    ($($ty:ty),*) => {$(
        impl Compared for $ty {
            #[inline(always)]
            fn is_less(self, other: $ty) -> bool {
                self < other
            }
            #[inline(always)]
            fn is_equal(self, other: $ty) -> bool {
                self == other
            }
            #[inline(always)]
            fn is_at_most(self, other: $ty) -> bool {
                self <= other
            }
        }
    )*};
}
compared!(u16, i16, u32, i32, u64, i64, f32, f64);

impl Compared for f16 {
    #[inline(always)]
    fn is_less(self, other: f16) -> bool {
        self.widen() < other.widen()
    }
    #[inline(always)]
    fn is_equal(self, other: f16) -> bool {
        self.widen() == other.widen()
    }
    #[inline(always)]
    fn is_at_most(self, other: f16) -> bool {
        self.widen() <= other.widen()
    }
}

/// The lanes' loops; the other conditions swap the sources, or negate the mask.
const LESS: u8 = 0;
const EQUAL: u8 = 1;
const AT_MOST: u8 = 2;

/// The low and the high dwords of a source.
type Source<'a> = [&'a [u32; LANES]; 2];

#[inline(always)]
fn source<T: Ty>(rows: &[Row], row: usize) -> Source<'_> {
    [&rows[row].0, &rows[row + usize::from(T::KIND.is_wide())].0]
}

/// The lanes for which the relation holds.
#[inline(always)]
fn related<T: Compared, const RELATION: u8>(a: Source<'_>, b: Source<'_>) -> u64 {
    let mut bytes = [0; LANES];
    for lane in 0..LANES {
        let (a, b) = (
            T::get(a[0][lane], a[1][lane]),
            T::get(b[0][lane], b[1][lane]),
        );
        bytes[lane] = u8::from(match RELATION {
            LESS => a.is_less(b),
            EQUAL => a.is_equal(b),
            _ => a.is_at_most(b),
        });
    }
    mask_of(&bytes)
}

/// Integers have eight conditions. These are their numbers among those of floats, without the ones
/// that NaNs make different.
const OF_INTEGERS: [u16; 8] = [0, 1, 2, 11, 4, 13, 14, 15];

/// A compare of 64 lanes. The condition is a part of the opcode, a set of three bits less, equal,
/// greater that make it true. Number 7 is true without a NaN, and numbers from 8 on are the
/// opposites of the others.
struct Compare<T>(PhantomData<T>);

impl<T: Compared> Body for Compare<T> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let mut a = fetch::<T>(wave, inst.src[0], 0);
        let mut b = fetch::<T>(wave, inst.src[1], 1);
        let number = if T::KIND.is_float() {
            if !types::keeps_denormals(wave.mode) {
                a = flushed::<T>(wave, a, 0);
                b = flushed::<T>(wave, b, 1);
            }
            inst.op & 15
        } else {
            OF_INTEGERS[usize::from(inst.op & 7)]
        };
        let opposite = number > 7;
        let number = if opposite { 15 - number } else { number };
        if number & 4 != 0 {
            (a, b) = (b, a);
        }
        let (a, b) = (source::<T>(&wave.rows, a), source::<T>(&wave.rows, b));
        let mut mask = match number {
            0 => 0,
            1 | 4 | 5 => related::<T, LESS>(a, b),
            2 => related::<T, EQUAL>(a, b),
            _ if T::KIND.is_float() => related::<T, AT_MOST>(a, b),
            _ => 0,
        };
        // Different, or without a NaN.
        if T::KIND.is_float() && (number == 5 || number == 7) {
            mask |= related::<T, LESS>(b, a);
        }
        if opposite {
            mask = !mask;
        }
        write(inst, wave, mask, inst.op & 16 != 0)
    }
}

/// Copies a source to its own row, with denormals flushed as MODE says.
#[cold]
#[inline(never)]
fn flushed<T: Ty>(wave: &mut Wave, row: usize, slot: usize) -> usize {
    let to = SPLAT + 2 * slot;
    for n in 0..LANES {
        let value = lane::<T>(&wave.rows, row, n).flush(wave.mode, types::INPUT);
        let (lo, hi) = value.put();
        wave.rows[to].0[n] = lo;
        if T::KIND.is_wide() {
            wave.rows[to + 1].0[n] = hi;
        }
    }
    to
}

/// Writes the mask, for v_cmpx to EXEC too.
#[inline(always)]
fn write(inst: &Inst, wave: &mut Wave, mask: u64, x: bool) -> Flow {
    let mask = mask & wave.exec();
    wave.set_pair(inst.sdst.into(), mask);
    if x {
        wave.set_exec(mask);
    }
    Flow::Next
}

fn compare<T: Compared>(name: &'static str) -> Spec {
    let kinds = [T::KIND, T::KIND, Kind::Int32, Kind::Int64];
    Spec::of::<Compare<T>>(name, Form::Compare, 2, kinds)
}

/// The names of the conditions.
const NAMES: [&str; 16] = [
    "v_cmp_f",
    "v_cmp_lt",
    "v_cmp_eq",
    "v_cmp_le",
    "v_cmp_gt",
    "v_cmp_lg",
    "v_cmp_ge",
    "v_cmp_o",
    "v_cmp_u",
    "v_cmp_nge",
    "v_cmp_nlg",
    "v_cmp_ngt",
    "v_cmp_nle",
    "v_cmp_neq",
    "v_cmp_nlt",
    "v_cmp_tru",
];

/// Classes of floats.
trait Classified: Ty {
    /// Returns whether the value is of one of the classes in the set `of`.
    fn is_one(self, of: u32) -> bool;
}

macro_rules! classified {
    ($($ty:ty, $quiet:literal);*) => {$(
        impl Classified for $ty {
            fn is_one(self, of: u32) -> bool {
                let quiet = self.to_bits() >> $quiet & 1 == 1;
                of >> class(self.classify(), self.is_sign_negative(), quiet) & 1 == 1
            }
        }
    )*};
}
classified!(f16, 9; f32, 22; f64, 51);

/// v_cmp_class, and with an odd opcode v_cmpx_class.
struct Class<T>(PhantomData<T>);

impl<T: Classified> Body for Class<T> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let mut a = fetch::<T>(wave, inst.src[0], 0);
        let b = fetch::<u32>(wave, inst.src[1], 1);
        if !types::keeps_denormals(wave.mode) {
            a = flushed::<T>(wave, a, 0);
        }
        let mut bytes = [0; LANES];
        for (n, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from(lane::<T>(&wave.rows, a, n).is_one(wave.rows[b].0[n]));
        }
        write(inst, wave, mask_of(&bytes), inst.op & 1 != 0)
    }
}

fn classes<T: Classified>(name: &'static str) -> Spec {
    let kinds = [T::KIND, Kind::Int32, Kind::Int32, Kind::Int64];
    Spec::of::<Class<T>>(name, Form::Compare, 2, kinds)
}

/// The VOPC instruction with that opcode.
pub fn vopc(op: u32) -> Option<Spec> {
    // Sixteen conditions of floats, eight of integers (signed, then unsigned); then the same for
    // v_cmpx.
    let number = (op & 15) as usize;
    // Integers: 5 is ne, which is lg; 7 is always true.
    let integer = if number & 7 == 7 { 15 } else { number & 7 };
    let (float, integer) = (NAMES[number], NAMES[integer]);
    let signed = op & 8 == 0;
    Some(match op {
        0x10 => classes::<f32>("v_cmp_class_f32"),
        0x11 => classes::<f32>("v_cmpx_class_f32"),
        0x12 => classes::<f64>("v_cmp_class_f64"),
        0x13 => classes::<f64>("v_cmpx_class_f64"),
        0x14 => classes::<f16>("v_cmp_class_f16"),
        0x15 => classes::<f16>("v_cmpx_class_f16"),
        0x20..=0x3f => compare::<f16>(float),
        0x40..=0x5f => compare::<f32>(float),
        0x60..=0x7f => compare::<f64>(float),
        0xa0..=0xbf if signed => compare::<i16>(integer),
        0xa0..=0xbf => compare::<u16>(integer),
        0xc0..=0xdf if signed => compare::<i32>(integer),
        0xc0..=0xdf => compare::<u32>(integer),
        0xe0..=0xff if signed => compare::<i64>(integer),
        0xe0..=0xff => compare::<u64>(integer),
        _ => return None,
    })
}
