// SPDX-License-Identifier: GPL-2.0
//! Changes to the sources and results of instructions: signs, halves, clamp, SDWA,
//! [DPP](super::dpp).
//!
//! A modified instruction is an outer one that prepares sources in rows of its own, and an inner
//! one that computes with these.

use half::f16;

use super::dpp::{Dpp, Moves};
use super::{saturate, Form, Spec};
use crate::decode::{bits, Decoded, Inst, Kind, Src, Unknown, Unsupported};
use crate::env::Env;
use crate::simd::{Build, Handler, Tuned};
use crate::wave::{Flow, Row, Wave, LANES, MODIFIED, RESULT};

/// Selections of SDWA.
const DWORD: u32 = 6;

/// Sub-dword addressing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sdwa {
    select: [u32; 2],
    signed: [bool; 2],
    to: u32,
    unused: u32,
}

impl Sdwa {
    /// From its dword.
    pub fn of(word: u32) -> Sdwa {
        Sdwa {
            select: [bits(word, 18, 16), bits(word, 26, 24)],
            signed: [bits(word, 19, 19) == 1, bits(word, 27, 27) == 1],
            to: bits(word, 10, 8),
            unused: bits(word, 12, 11),
        }
    }
}

/// First bit and size of an SDWA selection.
fn selected(select: u32) -> (u32, u32) {
    match select {
        0..=3 => (8 * select, 8),
        4 | 5 => (16 * (select - 4), 16),
        _ => (0, 32),
    }
}

/// The modifiers of an encoding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    abs: [bool; 3],
    neg: [bool; 3],
    /// The source is the high half.
    high: [bool; 3],
    /// The result goes to the high half.
    high_result: bool,
    /// It goes to the low half, and the high one stays.
    low_result: bool,
    clamp: bool,
    omod: u32,
    sdwa: Option<Sdwa>,
    dpp: Option<Dpp>,
    no_result: bool,
}

fn flags(word: u32, lowest: u32) -> [bool; 3] {
    [0, 1, 2].map(|n| word >> (lowest + n) & 1 == 1)
}

impl Changes {
    /// Adds those of an SDWA dword.
    pub fn sdwa(&mut self, word: u32, sdwa: Sdwa) {
        self.neg = [bits(word, 20, 20) == 1, bits(word, 28, 28) == 1, false];
        self.abs = [bits(word, 21, 21) == 1, bits(word, 29, 29) == 1, false];
        self.clamp = bits(word, 13, 13) == 1;
        self.omod = bits(word, 15, 14);
        self.sdwa = Some(sdwa);
    }

    /// Replaces the selection of the only source, for an instruction with which SDWA has no other.
    pub fn select_first(&mut self, choose: impl Fn(u32) -> u32) {
        if let Some(sdwa) = &mut self.sdwa {
            sdwa.select = [choose(sdwa.select[0]), DWORD];
            sdwa.signed = [false; 2];
            sdwa.to = DWORD;
            (self.abs, self.neg) = ([false; 3], [false; 3]);
        }
    }

    /// It is a compare: a scalar register takes the place of the results' description.
    pub fn has_no_result(&mut self) {
        self.clamp = false;
        self.omod = 0;
        self.no_result = true;
    }

    /// Adds those of a DPP dword.
    pub fn dpp(&mut self, word: u32, dpp: Dpp) {
        self.neg = [bits(word, 20, 20) == 1, bits(word, 22, 22) == 1, false];
        self.abs = [bits(word, 21, 21) == 1, bits(word, 23, 23) == 1, false];
        self.dpp = Some(dpp);
    }

    /// Adds those of a VOP3.
    pub fn vop3(&mut self, word: u32, second: u32, has_scalar: bool) {
        self.neg = flags(second, 29);
        self.clamp = bits(word, 15, 15) == 1;
        self.omod = bits(second, 28, 27);
        if !has_scalar {
            self.abs = flags(word, 8);
            self.high = flags(word, 11);
            self.high_result = bits(word, 14, 14) == 1;
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Changes::default()
    }

    fn changes_source(&self, n: usize) -> bool {
        let moved = self.dpp.is_some() && n == 0;
        let selected = self
            .sdwa
            .is_some_and(|sdwa| n < 2 && sdwa.select[n] != DWORD);
        self.abs[n] || self.neg[n] || self.high[n] || moved || selected
    }

    fn changes_result(&self) -> bool {
        let placed = self
            .sdwa
            .is_some_and(|sdwa| sdwa.to != DWORD && !self.no_result);
        self.clamp || self.omod != 0 || self.high_result || self.low_result || placed
    }

    /// Decides what clamp and omod mean for a result that is no float, and what becomes of the half
    /// that is not written.
    fn result(&mut self, inst: &mut Inst, spec: &Spec) -> Decoded<()> {
        const FLOATS: &str = "clamp or omod of two halves";
        self.low_result = spec.keeps_high && !self.high_result && self.sdwa.is_none();
        if spec.kinds[3].is_float() || !(self.clamp || self.omod != 0) {
            return Ok(());
        }
        if matches!(
            spec.name,
            "v_cvt_pkrtz_f16_f32" | "v_pack_b32_f16" | "v_cndmask_b32"
        ) {
            return Err(Unsupported(FLOATS));
        }
        if matches!(spec.name, "v_cvt_pk_f32_fp8" | "v_cvt_pk_f32_bf8") {
            return Err(Unsupported("clamp or omod of two floats"));
        }
        let of_floats = spec.kinds[..spec.sources]
            .iter()
            .any(|kind| kind.is_float());
        match saturate::handler(spec.name) {
            Some((run, number)) if self.omod == 0 => (inst.run, inst.imm) = (run, number),
            // Conversions saturate in any case, and omod is for floats.
            _ if of_floats => {}
            _ if self.sdwa.is_some() && self.omod == 0 => {}
            _ if FIT.contains(&spec.name) && self.omod == 0 => {}
            _ => return Err(Unknown),
        }
        (self.clamp, self.omod) = (false, 0);
        Ok(())
    }

    /// `inst` with these modifiers.
    pub fn apply(mut self, mut inst: Inst, spec: &Spec) -> Decoded<Inst> {
        if self.is_empty() {
            return Ok(inst);
        }
        self.result(&mut inst, spec)?;
        if self.is_empty() {
            return Ok(inst);
        }
        let is_small = |kind: Kind| matches!(kind, Kind::F16 | Kind::Int16);
        let sources = spec.sources;
        let some = |of: fn(Kind) -> bool| spec.kinds[..sources].iter().any(|&kind| of(kind));
        // Integers have no signs to change; for v_mov_b32 and the like these would be those of an
        // f32. Beside floats the encoding has them.
        let signs = (0..3)
            .any(|n| (self.abs[n] || self.neg[n]) && (n >= sources || !spec.kinds[n].is_float()));
        let halves = (0..3).any(|n| self.high[n] && (n >= sources || !is_small(spec.kinds[n])))
            || self.high_result && !is_small(spec.kinds[3]);
        let scalar = matches!(spec.form, Form::Scalar | Form::WriteLane);
        // SDWA selects parts of a dword.
        let wide = self.sdwa.is_some() && spec.kinds[..sources].iter().any(|kind| kind.is_wide());
        if signs && some(Kind::is_float) {
            return Err(Unsupported("the sign of a source that is no float"));
        }
        if halves && some(is_small) {
            return Err(Unsupported("the half of an operand that is a dword"));
        }
        if signs || halves || scalar || wide {
            return Err(Unknown);
        }
        let mut inner = Inst::new(inst.run, inst.op.into(), inst.len);
        inner.sdst = inst.sdst;
        inner.src = inst.src;
        inner.imm = inst.imm;
        let changed = [0, 1, 2].map(|n| n < sources && self.changes_source(n));
        for n in (0..sources).filter(|&n| changed[n]) {
            inner.src[n] = Src::V((MODIFIED + 2 * n) as u16);
        }
        inner.dst = if self.changes_result() {
            RESULT as u16
        } else {
            inst.dst
        };
        let mods = Mods {
            inner,
            changes: self,
            moves: self.dpp.map(Dpp::moves),
            changed,
            kinds: spec.kinds,
        };
        Ok(Inst {
            run: Handler::tuned::<Modified>(),
            mods: Some(Box::new(mods)),
            ..inst
        })
    }
}

/// Integer instructions that may have clamp, and whose results always fit.
const FIT: [&str; 6] = [
    "v_min3_i16",
    "v_min3_u16",
    "v_max3_i16",
    "v_max3_u16",
    "v_med3_i16",
    "v_med3_u16",
];

/// A modified instruction's inner one, and its modifiers.
pub struct Mods {
    inner: Inst,
    changes: Changes,
    moves: Option<Moves>,
    /// The sources that the inner one takes from rows of its own.
    changed: [bool; 3],
    kinds: [Kind; 4],
}

struct Modified;

impl Tuned for Modified {
    #[inline(always)]
    fn run<B: Build>(build: B, inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let Some(mods) = &inst.mods else {
            return Flow::Next;
        };
        let changes = &mods.changes;
        let exec = wave.exec();
        // No closure, which would be compiled for the baseline.
        let mut moves = None;
        if let Some(dpp) = &mods.moves {
            moves = Some((dpp, dpp.reading(exec)));
        }
        for n in 0..3 {
            if !mods.changed[n] {
                continue;
            }
            let wide = mods.kinds[n].is_wide();
            let at = if wide {
                wave.wide(inst.src[n], n)
            } else {
                wave.narrow(inst.src[n], n)
            };
            for half in 0..=usize::from(wide) {
                let row = &wave.rows[at + half];
                let row = match moves {
                    Some((moves, reading)) if n == 0 => moves.permute(build, row, reading),
                    _ => selected_row(row, changes, n),
                };
                wave.rows[MODIFIED + 2 * n + half] = row;
            }
            if changes.abs[n] || changes.neg[n] {
                let kind = mods.kinds[n];
                let signs = &mut wave.rows[MODIFIED + 2 * n + usize::from(wide)];
                change_signs(signs, kind, changes.abs[n], changes.neg[n]);
            }
        }
        if let Some((moves, reading)) = moves {
            wave.set_exec(moves.enabled(exec, reading));
        }
        let flow = mods.inner.run.call(&mods.inner, wave, env);
        if changes.changes_result() {
            store_result(inst, mods, wave);
        }
        if moves.is_some() {
            wave.set_exec(exec);
        }
        flow
    }
}

/// The part of source `n` that SDWA or VOP3 selects.
#[inline(always)]
fn selected_row(row: &Row, changes: &Changes, n: usize) -> Row {
    if changes.high[n] {
        return select(row, 5, false);
    }
    match &changes.sdwa {
        Some(sdwa) if n < 2 => select(row, sdwa.select[n], sdwa.signed[n]),
        _ => *row,
    }
}

/// The bits of an SDWA selection, moved down.
#[inline(always)]
fn select(row: &Row, select: u32, signed: bool) -> Row {
    let (first, size) = selected(select);
    let (up, down) = (32 - size - first, 32 - size);
    let mut out = Row::ZERO;
    if signed {
        for lane in 0..LANES {
            out.0[lane] = ((row.0[lane] << up) as i32 >> down) as u32;
        }
    } else {
        for lane in 0..LANES {
            out.0[lane] = row.0[lane] << up >> down;
        }
    }
    out
}

#[inline(always)]
fn change_signs(row: &mut Row, kind: Kind, abs: bool, neg: bool) {
    let sign = match kind {
        Kind::F16 => 1 << 15,
        _ => 1 << 31,
    };
    let keep = if abs { !sign } else { !0 };
    let flip = if neg { sign } else { 0 };
    for word in &mut row.0 {
        *word = *word & keep ^ flip;
    }
}

/// Applies omod and clamp to a result.
#[inline(always)]
fn bounded(value: f64, changes: &Changes, dx10: bool) -> f64 {
    let scaled = match changes.omod {
        1 => value * 2.0,
        2 => value * 4.0,
        3 => value / 2.0,
        _ => value,
    };
    if !changes.clamp {
        scaled
    } else if scaled.is_nan() {
        if dx10 {
            0.0
        } else {
            scaled
        }
    } else {
        scaled.clamp(0.0, 1.0) + 0.0
    }
}

#[inline(always)]
fn store_result(inst: &Inst, mods: &Mods, wave: &mut Wave) {
    let dx10 = wave.mode >> 8 & 1 == 1;
    let changes = &mods.changes;
    let dst = usize::from(inst.dst);
    let wide = mods.kinds[3].is_wide();
    let mut lo = wave.rows[RESULT];
    let mut hi = if wide {
        wave.rows[RESULT + 1]
    } else {
        Row::ZERO
    };
    if changes.clamp || changes.omod != 0 {
        for lane in 0..LANES {
            let (lo, hi) = (&mut lo.0[lane], &mut hi.0[lane]);
            match mods.kinds[3] {
                Kind::F16 => {
                    let value = f16::from_bits(*lo as u16).to_f64();
                    *lo = f16::from_f64(bounded(value, changes, dx10))
                        .to_bits()
                        .into();
                }
                Kind::F64 => {
                    let value = f64::from_bits(u64::from(*lo) | u64::from(*hi) << 32);
                    let bits = bounded(value, changes, dx10).to_bits();
                    (*lo, *hi) = (bits as u32, (bits >> 32) as u32);
                }
                _ => {
                    let value = f64::from(f32::from_bits(*lo));
                    *lo = (bounded(value, changes, dx10) as f32).to_bits();
                }
            }
        }
    }
    let place = match changes.sdwa {
        Some(sdwa) => Some((sdwa.to, sdwa.unused)),
        None if changes.high_result => Some((5, 2)),
        None if changes.low_result => Some((4, 2)),
        None => None,
    };
    if let Some((to, unused)) = place {
        let (first, size) = selected(to);
        let mask = (!0u32 >> (32 - size)) << first;
        // The bits outside of the selection are 0, or have the sign, or stay.
        let above = match unused {
            1 => (!0u32).checked_shl(first + size).unwrap_or(0),
            _ => 0,
        };
        let stays = if unused == 2 { !mask } else { 0 };
        let old = &wave.rows[dst].0;
        for lane in 0..LANES {
            let value = lo.0[lane] << first & mask;
            let sign = 0u32.wrapping_sub(value >> (first + size - 1) & 1);
            lo.0[lane] = value | above & sign | old[lane] & stays;
        }
    }
    wave.put(dst, &lo);
    if wide {
        wave.put(dst + 1, &hi);
    }
}
