// SPDX-License-Identifier: GPL-2.0
//! Vector instructions between lanes and scalars, and other special ones.

use super::{Form, Spec};
use crate::decode::{Inst, Kind, Src};
use crate::env::Env;
use crate::simd::Body;
use crate::wave::{Flow, Row, Wave, LANES};

const KINDS: [Kind; 4] = [Kind::Int32; 4];

struct Nop;

impl Body for Nop {
    fn run(_: &Inst, _: &mut Wave, _: &mut Env<'_>) -> Flow {
        Flow::Next
    }
}

/// v_nop.
pub fn nop() -> Spec {
    Spec::of::<Nop>("v_nop", Form::Plain, 0, KINDS)
}

/// v_clrexcp.
pub fn clrexcp() -> Spec {
    Spec::of::<Nop>("v_clrexcp", Form::Plain, 0, KINDS)
}

struct ReadFirstLane;

impl Body for ReadFirstLane {
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let value = match inst.src[0] {
            Src::V(row) => {
                let lane = wave.active().next().unwrap_or(0);
                wave.rows[usize::from(row)].0[lane]
            }
            other => wave.scalar32(other),
        };
        wave.sgpr[usize::from(inst.dst) & 127] = value;
        Flow::Next
    }
}

/// v_readfirstlane_b32.
pub fn readfirstlane() -> Spec {
    Spec::of::<ReadFirstLane>("v_readfirstlane_b32", Form::Scalar, 1, KINDS)
}

struct ReadLane;

impl Body for ReadLane {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let lane = wave.scalar32(inst.src[1]) as usize % LANES;
        let value = match inst.src[0] {
            Src::V(row) => wave.rows[usize::from(row)].0[lane],
            other => wave.scalar32(other),
        };
        wave.sgpr[usize::from(inst.dst) & 127] = value;
        Flow::Next
    }
}

/// v_readlane_b32.
pub fn readlane() -> Spec {
    Spec::of::<ReadLane>("v_readlane_b32", Form::Scalar, 2, KINDS)
}

struct WriteLane;

impl Body for WriteLane {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let lane = wave.scalar32(inst.src[1]) as usize % LANES;
        wave.rows[usize::from(inst.dst)].0[lane] = wave.scalar32(inst.src[0]);
        Flow::Next
    }
}

/// v_writelane_b32.
pub fn writelane() -> Spec {
    Spec::of::<WriteLane>("v_writelane_b32", Form::WriteLane, 2, KINDS)
}

/// The bits of a mask below each lane, counted in its low or high half, and added.
struct CountBelow<const HIGH: bool>;

impl<const HIGH: bool> Body for CountBelow<HIGH> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let mask = wave.narrow(inst.src[0], 0);
        let base = wave.narrow(inst.src[1], 1);
        let mut out = Row::ZERO;
        for lane in 0..LANES {
            let below = (1u64 << lane) - 1;
            let below = if HIGH {
                (below >> 32) as u32
            } else {
                below as u32
            };
            let count = (wave.rows[mask].0[lane] & below).count_ones();
            out.0[lane] = wave.rows[base].0[lane].wrapping_add(count);
        }
        wave.put(inst.dst.into(), &out);
        Flow::Next
    }
}

/// v_mbcnt_lo_u32_b32.
pub fn mbcnt_lo() -> Spec {
    Spec::of::<CountBelow<false>>("v_mbcnt_lo_u32_b32", Form::Plain, 2, KINDS)
}

/// v_mbcnt_hi_u32_b32.
pub fn mbcnt_hi() -> Spec {
    Spec::of::<CountBelow<true>>("v_mbcnt_hi_u32_b32", Form::Plain, 2, KINDS)
}

struct Swap;

impl Body for Swap {
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        if let Src::V(other) = inst.src[0] {
            let (dst, other) = (usize::from(inst.dst), usize::from(other));
            let (a, b) = (wave.rows[dst], wave.rows[other]);
            wave.put(dst, &b);
            wave.put(other, &a);
        }
        Flow::Next
    }
}

/// v_swap_b32.
pub fn swap() -> Spec {
    Spec::of::<Swap>("v_swap_b32", Form::Plain, 1, KINDS)
}
