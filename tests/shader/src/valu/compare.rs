// SPDX-License-Identifier: GPL-2.0
//! Compares: a mask with a bit for each active lane, also into EXEC for v_cmpx.

use std::cmp::Ordering;
use std::marker::PhantomData;

use half::f16;

use super::float::class;
use super::halves::Widen;
use super::types::{self, Ty};
use super::{fetch, lane, Form, Spec};
use crate::decode::{Inst, Kind};
use crate::env::Env;
use crate::simd::Body;
use crate::wave::{mask_of, Flow, Wave, LANES};

/// A condition on the sources of one lane.
trait Test {
    type A: Ty;
    type B: Ty;
    fn holds(a: Self::A, b: Self::B) -> bool;
}

/// A [`Test`] for 64 lanes.
struct Lanes<T, const X: bool>(PhantomData<T>);

impl<T: Test, const X: bool> Body for Lanes<T, X> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let a = fetch::<T::A>(wave, inst.src[0], 0);
        let b = fetch::<T::B>(wave, inst.src[1], 1);
        let mut bytes = [0; LANES];
        let rows = &wave.rows;
        let mode = wave.mode;
        let (a0, a1) = (&rows[a].0, &rows[a + usize::from(T::A::KIND.is_wide())].0);
        let (b0, b1) = (&rows[b].0, &rows[b + usize::from(T::B::KIND.is_wide())].0);
        let float = matches!(T::A::KIND, Kind::F16 | Kind::F32 | Kind::F64);
        if !float || types::keeps_denormals(mode) {
            for lane in 0..LANES {
                let (a, b) = (T::A::get(a0[lane], a1[lane]), T::B::get(b0[lane], b1[lane]));
                bytes[lane] = u8::from(T::holds(a, b));
            }
        } else {
            for (n, byte) in bytes.iter_mut().enumerate() {
                let a = lane::<T::A>(rows, a, n).flush(mode, types::INPUT);
                let b = lane::<T::B>(rows, b, n).flush(mode, types::INPUT);
                *byte = u8::from(T::holds(a, b));
            }
        }
        let mask = mask_of(&bytes) & wave.exec();
        wave.set_pair(inst.sdst.into(), mask);
        if X {
            wave.set_exec(mask);
        }
        Flow::Next
    }
}

fn spec<T: Test + 'static>(name: &'static str, x: bool) -> Spec {
    let kinds = [T::A::KIND, T::B::KIND, Kind::Int32, Kind::Int64];
    if x {
        Spec::of::<Lanes<T, true>>(name, Form::Compare, 2, kinds)
    } else {
        Spec::of::<Lanes<T, false>>(name, Form::Compare, 2, kinds)
    }
}

/// The type in which integers and floats are compared.
trait Compared: Ty {
    fn order(self, other: Self) -> Option<Ordering>;
}

macro_rules! compared {
    ($($ty:ty),*) => {$(
        impl Compared for $ty {
            #[inline(always)]
            fn order(self, other: $ty) -> Option<Ordering> {
                self.partial_cmp(&other)
            }
        }
    )*};
}
compared!(u16, i16, u32, i32, u64, i64, f32, f64);

impl Compared for f16 {
    #[inline(always)]
    fn order(self, other: f16) -> Option<Ordering> {
        self.widen().partial_cmp(&other.widen())
    }
}

/// A condition as a set of the three bits less, equal, greater that make it true; bit 3 is for
/// NaNs.
struct Condition<T, const C: u32>(PhantomData<T>);

impl<T: Compared, const C: u32> Test for Condition<T, C> {
    type A = T;
    type B = T;
    #[inline(always)]
    fn holds(a: T, b: T) -> bool {
        let order = a.order(b);
        (C & 1 != 0) & (order == Some(Ordering::Less))
            | (C & 2 != 0) & (order == Some(Ordering::Equal))
            | (C & 4 != 0) & (order == Some(Ordering::Greater))
            | (C & 8 != 0) & order.is_none()
    }
}

/// The condition with number 0 to 15.
fn condition<T: Compared + 'static>(number: u32, x: bool) -> Spec {
    match number {
        0 => spec::<Condition<T, 0>>("v_cmp_f", x),
        1 => spec::<Condition<T, 1>>("v_cmp_lt", x),
        2 => spec::<Condition<T, 2>>("v_cmp_eq", x),
        3 => spec::<Condition<T, 3>>("v_cmp_le", x),
        4 => spec::<Condition<T, 4>>("v_cmp_gt", x),
        5 => spec::<Condition<T, 5>>("v_cmp_lg", x),
        6 => spec::<Condition<T, 6>>("v_cmp_ge", x),
        7 => spec::<Condition<T, 7>>("v_cmp_o", x),
        8 => spec::<Condition<T, 8>>("v_cmp_u", x),
        9 => spec::<Condition<T, 9>>("v_cmp_nge", x),
        10 => spec::<Condition<T, 10>>("v_cmp_nlg", x),
        11 => spec::<Condition<T, 11>>("v_cmp_ngt", x),
        12 => spec::<Condition<T, 12>>("v_cmp_nle", x),
        13 => spec::<Condition<T, 13>>("v_cmp_neq", x),
        14 => spec::<Condition<T, 14>>("v_cmp_nlt", x),
        _ => spec::<Condition<T, 15>>("v_cmp_tru", x),
    }
}

struct Class<T>(PhantomData<T>);

macro_rules! class_test {
    ($ty:ty, $quiet:expr) => {
        impl Test for Class<$ty> {
            type A = $ty;
            type B = u32;
            fn holds(a: $ty, b: u32) -> bool {
                let quiet = a.to_bits() >> $quiet & 1 == 1;
                b >> class(a.classify(), a.is_sign_negative(), quiet) & 1 == 1
            }
        }
    };
}
class_test!(f16, 9);
class_test!(f32, 22);
class_test!(f64, 51);

/// The VOPC instruction with that opcode.
pub fn vopc(op: u32) -> Option<Spec> {
    // Sixteen conditions of floats, eight of integers (signed, then unsigned); then the same for
    // v_cmpx.
    let x = op & 0x10 != 0;
    let number = op & 0xf;
    let integer = number & 7;
    // Integers: 5 is ne, which is lg; 7 is always true.
    let integer = if integer == 7 { 15 } else { integer };
    let signed = op & 8 == 0;
    Some(match op {
        0x10 => spec::<Class<f32>>("v_cmp_class_f32", false),
        0x11 => spec::<Class<f32>>("v_cmpx_class_f32", true),
        0x12 => spec::<Class<f64>>("v_cmp_class_f64", false),
        0x13 => spec::<Class<f64>>("v_cmpx_class_f64", true),
        0x14 => spec::<Class<f16>>("v_cmp_class_f16", false),
        0x15 => spec::<Class<f16>>("v_cmpx_class_f16", true),
        0x20..=0x3f => condition::<f16>(number, x),
        0x40..=0x5f => condition::<f32>(number, x),
        0x60..=0x7f => condition::<f64>(number, x),
        0xa0..=0xbf if signed => condition::<i16>(integer, x),
        0xa0..=0xbf => condition::<u16>(integer, x),
        0xc0..=0xdf if signed => condition::<i32>(integer, x),
        0xc0..=0xdf => condition::<u32>(integer, x),
        0xe0..=0xff if signed => condition::<i64>(integer, x),
        0xe0..=0xff => condition::<u64>(integer, x),
        _ => return None,
    })
}
