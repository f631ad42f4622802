// SPDX-License-Identifier: GPL-2.0
//! Vector arithmetic. Tables of instructions define the work of one lane; [`Alu`] and similar
//! traits do it for 64.

pub mod carry;
pub mod compare;
pub mod cross;
pub mod divide;
pub mod dpp;
pub mod encode;
pub mod float;
mod fp8;
pub mod halves;
pub mod modify;
pub mod packed;
mod packed16;
mod sad;
pub(crate) mod saturate;
pub mod types;
pub mod vop1;
pub mod vop2;
pub mod vop3;

use std::marker::PhantomData;

use crate::decode::{Inst, Kind, Src};
use crate::env::Env;
use crate::simd::{Body, Build, Handler, Tuned};
use crate::wave::{Flow, Row, Wave, LANES};
use types::Ty;

/// The form of an instruction: the place of its results, and its inputs besides its sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A vector result.
    Plain,
    /// The result is the last source too.
    Accumulate,
    /// A constant between the two sources (madmk).
    MiddleLiteral,
    /// A constant behind the two sources (madak).
    LastLiteral,
    /// A mask.
    Compare,
    /// A vector and a mask of carries.
    CarryOut,
    /// And carries come in.
    CarryInOut,
    /// A mask selects.
    MaskIn,
    /// A scalar register.
    Scalar,
    /// A vector result, no modifiers; the second source is scalar.
    WriteLane,
}

/// Properties of an instruction apart from its encoding.
#[derive(Clone, Copy)]
pub struct Spec {
    /// Its mnemonic.
    pub name: &'static str,
    /// Its handler without modifiers.
    pub handler: Handler,
    /// Number of sources that are encoded or implied, without masks.
    pub sources: usize,
    /// Of the three sources and the result.
    pub kinds: [Kind; 4],
    /// See there.
    pub form: Form,
    /// Its result has 16 bits, and the register's other ones stay as they are.
    pub keeps_high: bool,
}

/// An instruction of up to three sources and one result, lane by lane.
pub trait Alu {
    /// Sources.
    const SOURCES: usize;
    /// Types of the sources and the result.
    type A: Ty;
    /// See above.
    type B: Ty;
    /// See above.
    type C: Ty;
    /// See above.
    type D: Ty;
    /// The lane's result.
    fn lane(a: Self::A, b: Self::B, c: Self::C) -> Self::D;
}

/// Up to this number of active lanes a loop over them is faster than vectors for all 64: a
/// transcendental is a call for each lane.
const FEW: u32 = 8;

/// [`Alu`] for 64 lanes.
struct Lanes<O>(PhantomData<O>);

/// The row of a source, with constants and scalars copied to all lanes.
#[inline(always)]
pub(crate) fn fetch<T: Ty>(wave: &mut Wave, src: Src, slot: usize) -> usize {
    if T::KIND.is_wide() {
        wave.wide(src, slot)
    } else {
        wave.narrow(src, slot)
    }
}

/// One source of one lane.
#[inline(always)]
pub(crate) fn lane<T: Ty>(rows: &[Row], row: usize, lane: usize) -> T {
    let hi = if T::KIND.is_wide() {
        rows[row + 1].0[lane]
    } else {
        0
    };
    T::get(rows[row].0[lane], hi)
}

impl<O: Alu> Tuned for Lanes<O> {
    #[inline(always)]
    fn run<B: Build>(_: B, inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        if B::IS_WIDE {
            Self::together(inst, wave)
        } else {
            one_by_one::<O>(inst, wave)
        }
    }
}

impl<O: Alu> Lanes<O> {
    /// MODE can flush an operand's denormals.
    const FLOATS: bool = O::A::KIND.is_float()
        || O::B::KIND.is_float()
        || O::C::KIND.is_float()
        || O::D::KIND.is_float();

    #[inline(always)]
    fn together(inst: &Inst, wave: &mut Wave) -> Flow {
        let few = wave.exec().count_ones() <= FEW;
        if few || Self::FLOATS && !types::keeps_denormals(wave.mode) {
            return one_by_one::<O>(inst, wave);
        }
        let a = fetch::<O::A>(wave, inst.src[0], 0);
        let b = if O::SOURCES > 1 {
            fetch::<O::B>(wave, inst.src[1], 1)
        } else {
            a
        };
        let c = if O::SOURCES > 2 {
            fetch::<O::C>(wave, inst.src[2], 2)
        } else {
            a
        };
        let mut lo = Row::ZERO;
        let mut hi = Row::ZERO;
        let wide = |wide: bool, row: usize| if wide { row + 1 } else { row };
        let rows = &wave.rows;
        let (a0, a1) = (&rows[a].0, &rows[wide(O::A::KIND.is_wide(), a)].0);
        let (b0, b1) = (
            &rows[b].0,
            &rows[wide(O::B::KIND.is_wide() && O::SOURCES > 1, b)].0,
        );
        let (c0, c1) = (
            &rows[c].0,
            &rows[wide(O::C::KIND.is_wide() && O::SOURCES > 2, c)].0,
        );
        for lane in 0..LANES {
            let a = O::A::get(a0[lane], a1[lane]);
            let b = O::B::get(b0[lane], b1[lane]);
            let c = O::C::get(c0[lane], c1[lane]);
            let (x, y) = O::lane(a, b, c).put();
            lo.0[lane] = x;
            if O::D::KIND.is_wide() {
                hi.0[lane] = y;
            }
        }
        let dst = usize::from(inst.dst);
        if O::D::KEEPS_HIGH {
            keep_high(wave, dst, &mut lo);
        }
        wave.put(dst, &lo);
        if O::D::KIND.is_wide() {
            wave.put(dst + 1, &hi);
        }
        Flow::Next
    }
}

/// Adds the high halves that the register has.
#[inline(always)]
fn keep_high(wave: &Wave, dst: usize, lo: &mut Row) {
    let old = &wave.rows[dst].0;
    for lane in 0..LANES {
        lo.0[lane] = lo.0[lane] & 0xffff | old[lane] & 0xffff_0000;
    }
}

/// As [`Lanes`], for what compilers seldom emit: one loop for all machines takes half the time to
/// compile.
struct Seldom<O>(PhantomData<O>);

impl<O: Alu> Body for Seldom<O> {
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        one_by_one::<O>(inst, wave)
    }
}

/// As [`Lanes::together`], only for the active lanes, with any MODE, and on any machine.
#[cold]
#[inline(never)]
fn one_by_one<O: Alu>(inst: &Inst, wave: &mut Wave) -> Flow {
    let [a, b, c] = sources(
        inst,
        wave,
        &[O::A::KIND, O::B::KIND, O::C::KIND][..O::SOURCES],
    );
    let (mut lo, mut hi) = (Row::ZERO, Row::ZERO);
    let (mode, rows) = (wave.mode, &wave.rows);
    let (a0, a1) = (&rows[a[0]].0, &rows[a[1]].0);
    let (b0, b1) = (&rows[b[0]].0, &rows[b[1]].0);
    let (c0, c1) = (&rows[c[0]].0, &rows[c[1]].0);
    for lane in wave.active() {
        let a = O::A::get(a0[lane], a1[lane]).flush(mode, types::INPUT);
        let b = O::B::get(b0[lane], b1[lane]).flush(mode, types::INPUT);
        let c = O::C::get(c0[lane], c1[lane]).flush(mode, types::INPUT);
        let result = O::lane(a, b, c).flush(mode, types::OUTPUT);
        (lo.0[lane], hi.0[lane]) = result.put();
    }
    if O::D::KEEPS_HIGH {
        keep_high(wave, inst.dst.into(), &mut lo);
    }
    write(
        wave,
        inst.dst.into(),
        &lo,
        O::D::KIND.is_wide().then_some(&hi),
    )
}

/// The rows of the sources' low and high dwords. The first source stands for those that there are
/// not.
#[inline(never)]
fn sources(inst: &Inst, wave: &mut Wave, kinds: &[Kind]) -> [[usize; 2]; 3] {
    let mut out = [[0; 2]; 3];
    for (n, kind) in kinds.iter().enumerate() {
        out[n] = if kind.is_wide() {
            let row = wave.wide(inst.src[n], n);
            [row, row + 1]
        } else {
            [wave.narrow(inst.src[n], n); 2]
        };
    }
    for n in kinds.len()..3 {
        out[n] = out[0];
    }
    out
}

/// Writes a result.
#[inline(never)]
fn write(wave: &mut Wave, dst: usize, lo: &Row, hi: Option<&Row>) -> Flow {
    wave.put(dst, lo);
    if let Some(hi) = hi {
        wave.put(dst + 1, hi);
    }
    Flow::Next
}

impl Spec {
    /// The [`Spec`] of an instruction that is [`Alu`].
    pub fn alu<O: Alu>(name: &'static str, form: Form) -> Spec {
        Spec {
            handler: Handler::tuned::<Lanes<O>>(),
            ..Spec::seldom::<O>(name, form)
        }
    }

    /// The same, if speed does not matter.
    pub fn seldom<O: Alu>(name: &'static str, form: Form) -> Spec {
        Spec {
            name,
            handler: Handler::of::<Seldom<O>>(),
            sources: O::SOURCES,
            kinds: [O::A::KIND, O::B::KIND, O::C::KIND, O::D::KIND],
            form,
            keeps_high: O::D::KEEPS_HIGH,
        }
    }

    /// The [`Spec`] of an instruction with a body of its own.
    pub fn of<B: Body>(name: &'static str, form: Form, sources: usize, kinds: [Kind; 4]) -> Spec {
        Spec {
            name,
            handler: Handler::of::<B>(),
            sources,
            kinds,
            form,
            keeps_high: false,
        }
    }
}

/// The [`Spec`] of a lane's function, which the first word makes of it.
macro_rules! lanes {
    ($make:ident $name:literal ($($arg:ident : $ty:ty),+) -> $d:ty $body:block) => {
        $crate::valu::lanes!($make $name, Plain ($($arg: $ty),+) -> $d $body)
    };
    ($make:ident $name:literal, $form:ident ($a:ident : $at:ty) -> $d:ty $body:block) => {
        $crate::valu::lanes!(@ $make $name, $form, 1, ($a: $at, _b: u32, _c: u32) -> $d $body)
    };
    (
        $make:ident $name:literal, $form:ident ($a:ident : $at:ty, $b:ident : $bt:ty)
        -> $d:ty $body:block
    ) => {
        $crate::valu::lanes!(@ $make $name, $form, 2, ($a: $at, $b: $bt, _c: u32) -> $d $body)
    };
    (
        $make:ident $name:literal, $form:ident
        ($a:ident : $at:ty, $b:ident : $bt:ty, $c:ident : $ct:ty) -> $d:ty $body:block
    ) => {
        $crate::valu::lanes!(@ $make $name, $form, 3, ($a: $at, $b: $bt, $c: $ct) -> $d $body)
    };
    (@ $make:ident $name:literal, $form:ident, $n:literal,
     ($a:ident : $at:ty, $b:ident : $bt:ty, $c:ident : $ct:ty) -> $d:ty $body:block) => {{
        struct Op;
        impl $crate::valu::Alu for Op {
            const SOURCES: usize = $n;
            type A = $at;
            type B = $bt;
            type C = $ct;
            type D = $d;
            #[inline(always)]
            fn lane($a: $at, $b: $bt, $c: $ct) -> $d $body
        }
        $crate::valu::Spec::$make::<Op>($name, $crate::valu::Form::$form)
    }};
}
pub(crate) use lanes;

/// The [`Spec`] of a lane's function: `alu!("v_add_f32" (a: f32, b: f32) -> f32 { a + b })`, with a
/// [`Form`] behind the name unless it is plain.
macro_rules! alu {
    ($($all:tt)*) => {
        $crate::valu::lanes!(alu $($all)*)
    };
}
pub(crate) use alu;

/// As [`alu`], for what compilers seldom emit.
macro_rules! seldom {
    ($($all:tt)*) => {
        $crate::valu::lanes!(seldom $($all)*)
    };
}
pub(crate) use seldom;
