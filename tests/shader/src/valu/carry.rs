// SPDX-License-Identifier: GPL-2.0
//! Sums with carries in masks, and selection by a mask.

use super::{Form, Spec};
use crate::decode::{Inst, Kind};
use crate::env::Env;
use crate::simd::Body;
use crate::wave::{mask_of, mask_row, Flow, Row, Wave, LANES};

const ADD: u8 = 0;
const SUB: u8 = 1;
const SUBREV: u8 = 2;

/// The sum or difference; with `IN` a carry comes in from the mask in source 2.
struct Sum<const OP: u8, const IN: bool>;

impl<const OP: u8, const IN: bool> Body for Sum<OP, IN> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let a = wave.narrow(inst.src[0], 0);
        let b = wave.narrow(inst.src[1], 1);
        let carries = if IN {
            mask_row(wave.scalar64(inst.src[2]))
        } else {
            Row::ZERO
        };
        let (a, b) = (&wave.rows[a].0, &wave.rows[b].0);
        let mut sum = Row::ZERO;
        let mut out = [0; LANES];
        for lane in 0..LANES {
            let (a, b, carry) = (a[lane], b[lane], carries.0[lane] & 1);
            let (value, carries) = match OP {
                ADD => {
                    let part = a.wrapping_add(b);
                    let all = part.wrapping_add(carry);
                    (all, (part < a) | (all < part))
                }
                SUB => difference(a, b, carry),
                _ => difference(b, a, carry),
            };
            sum.0[lane] = value;
            out[lane] = u8::from(carries);
        }
        let mask = mask_of(&out) & wave.exec();
        wave.put(inst.dst.into(), &sum);
        wave.set_pair(inst.sdst.into(), mask);
        Flow::Next
    }
}

#[inline(always)]
fn difference(a: u32, b: u32, borrow: u32) -> (u32, bool) {
    let part = a.wrapping_sub(b);
    (part.wrapping_sub(borrow), (a < b) | (part < borrow))
}

const KINDS: [Kind; 4] = [Kind::Int32, Kind::Int32, Kind::Int64, Kind::Int32];

/// v_add_co_u32.
pub fn add() -> Spec {
    Spec::of::<Sum<ADD, false>>("v_add_co_u32", Form::CarryOut, 2, KINDS)
}

/// v_sub_co_u32.
pub fn sub() -> Spec {
    Spec::of::<Sum<SUB, false>>("v_sub_co_u32", Form::CarryOut, 2, KINDS)
}

/// v_subrev_co_u32.
pub fn subrev() -> Spec {
    Spec::of::<Sum<SUBREV, false>>("v_subrev_co_u32", Form::CarryOut, 2, KINDS)
}

/// v_addc_co_u32.
pub fn addc() -> Spec {
    Spec::of::<Sum<ADD, true>>("v_addc_co_u32", Form::CarryInOut, 2, KINDS)
}

/// v_subb_co_u32.
pub fn subb() -> Spec {
    Spec::of::<Sum<SUB, true>>("v_subb_co_u32", Form::CarryInOut, 2, KINDS)
}

/// v_subbrev_co_u32.
pub fn subbrev() -> Spec {
    Spec::of::<Sum<SUBREV, true>>("v_subbrev_co_u32", Form::CarryInOut, 2, KINDS)
}

struct Choose;

impl Body for Choose {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let a = wave.narrow(inst.src[0], 0);
        let b = wave.narrow(inst.src[1], 1);
        let mask = mask_row(wave.scalar64(inst.src[2]));
        let (a, b) = (&wave.rows[a].0, &wave.rows[b].0);
        let mut chosen = Row::ZERO;
        for lane in 0..LANES {
            let mask = mask.0[lane];
            chosen.0[lane] = a[lane] & !mask | b[lane] & mask;
        }
        wave.put(inst.dst.into(), &chosen);
        Flow::Next
    }
}

/// v_cndmask_b32. Its modifiers are those of floats.
pub fn cndmask() -> Spec {
    let kinds = [Kind::F32, Kind::F32, Kind::Int64, Kind::Int32];
    Spec::of::<Choose>("v_cndmask_b32", Form::MaskIn, 2, kinds)
}
