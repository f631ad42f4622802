// SPDX-License-Identifier: GPL-2.0
//! What instructions do to their sources and results on the way: signs, halves, clamp, SDWA, DPP.
//!
//! A modified instruction is an outer one that prepares sources in rows of its own, and an inner one that computes
//! with these.

use half::f16;

use super::{Form, Spec};
use crate::decode::{bits, Decoded, Inst, Kind, Src, Unknown};
use crate::env::Env;
use crate::simd::{Body, Handler};
use crate::wave::{mask_row, Flow, Row, Wave, LANES, MODIFIED, RESULT};

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

/// A permutation of the first source's lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dpp {
    control: u32,
    zero_outside: bool,
    banks: u32,
    rows: u32,
}

impl Dpp {
    /// From its dword. None: a reserved control.
    pub fn of(word: u32) -> Option<Dpp> {
        let control = bits(word, 16, 8);
        let known = matches!(
            control,
            0..=0xff | 0x101..=0x10f | 0x111..=0x11f | 0x121..=0x12f | 0x130 | 0x134 | 0x138 | 0x13c
                | 0x140..=0x143 | 0x150..=0x15f
        );
        known.then_some(Dpp {
            control,
            zero_outside: bits(word, 19, 19) == 1,
            banks: bits(word, 27, 24),
            rows: bits(word, 31, 28),
        })
    }

    /// The lane that `lane` reads; None if there is none.
    fn source(self, lane: usize) -> Option<usize> {
        let n = (self.control & 15) as usize;
        let (row, place) = (lane & !15, lane & 15);
        match self.control {
            0..=0xff => Some(lane & !3 | (self.control >> (2 * (lane & 3)) & 3) as usize),
            0x101..=0x10f => (place + n < 16).then_some(lane + n),
            0x111..=0x11f => place.checked_sub(n).map(|place| row | place),
            0x121..=0x12f => Some(row | place + 16 - n & 15),
            0x130 => (lane < 63).then_some(lane + 1),
            0x134 => Some(lane + 1 & 63),
            0x138 => lane.checked_sub(1),
            0x13c => Some(lane + 63 & 63),
            0x140 => Some(row | 15 - place),
            0x141 => Some(lane & !7 | 7 - (lane & 7)),
            0x142 => row.checked_sub(1),
            0x143 => (lane >= 32).then_some(31),
            _ => Some(row | n),
        }
    }

    /// What of it does not depend on the wave.
    fn moves(self) -> Moves {
        let mut moves = Moves {
            from: [0; LANES],
            some: 0,
            there: 0,
            zero_outside: self.zero_outside,
        };
        for lane in 0..LANES {
            if let Some(from) = self.source(lane) {
                moves.from[lane] = from as u8;
                moves.some |= 1 << lane;
            }
            let there = self.rows >> (lane / 16) & 1 == 1 && self.banks >> (lane % 16 / 4) & 1 == 1;
            moves.there |= u64::from(there) << lane;
        }
        moves
    }
}

/// A [`Dpp`], lane by lane.
#[derive(Debug, Clone, Copy)]
struct Moves {
    /// The lane that each reads, if there is one.
    from: [u8; LANES],
    /// The lanes for which there is.
    some: u64,
    /// The lanes of the rows and banks that are written.
    there: u64,
    zero_outside: bool,
}

impl Moves {
    /// The lanes that read an active one.
    #[inline(always)]
    fn reading(&self, exec: u64) -> u64 {
        if exec == !0 {
            return self.some;
        }
        let mut reading = 0;
        for lane in 0..LANES {
            reading |= (exec >> (self.from[lane] & 63) & 1) << lane;
        }
        reading & self.some
    }

    /// The lanes of `exec` that are written.
    #[inline(always)]
    fn enabled(&self, exec: u64, reading: u64) -> u64 {
        let reads = if self.zero_outside { !0 } else { reading };
        self.there & reads & exec
    }

    #[inline(always)]
    fn permute(&self, row: &Row, reading: u64) -> Row {
        let mut out = Row::ZERO;
        for lane in 0..LANES {
            out.0[lane] = row.0[usize::from(self.from[lane] & 63)];
        }
        let mask = mask_row(reading);
        for lane in 0..LANES {
            out.0[lane] &= mask.0[lane];
        }
        out
    }
}

/// The modifiers that an encoding has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    abs: [bool; 3],
    neg: [bool; 3],
    /// The source is the high half.
    high: [bool; 3],
    /// The result goes to the high half.
    high_result: bool,
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
    /// Takes those of an SDWA dword.
    pub fn sdwa(&mut self, word: u32, sdwa: Sdwa) {
        self.neg = [bits(word, 20, 20) == 1, bits(word, 28, 28) == 1, false];
        self.abs = [bits(word, 21, 21) == 1, bits(word, 29, 29) == 1, false];
        self.clamp = bits(word, 13, 13) == 1;
        self.omod = bits(word, 15, 14);
        self.sdwa = Some(sdwa);
    }

    /// It is a compare: where results would be described is a scalar register.
    pub fn has_no_result(&mut self) {
        self.clamp = false;
        self.omod = 0;
        self.no_result = true;
    }

    /// Takes those of a DPP dword.
    pub fn dpp(&mut self, word: u32, dpp: Dpp) {
        self.neg = [bits(word, 20, 20) == 1, bits(word, 22, 22) == 1, false];
        self.abs = [bits(word, 21, 21) == 1, bits(word, 23, 23) == 1, false];
        self.dpp = Some(dpp);
    }

    /// Takes those of a VOP3.
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

    /// There are none.
    pub fn is_empty(&self) -> bool {
        *self == Changes::default()
    }

    fn changes_result(&self) -> bool {
        let placed = self
            .sdwa
            .is_some_and(|sdwa| sdwa.to != DWORD && !self.no_result);
        self.clamp || self.omod != 0 || self.high_result || placed
    }

    /// `inst` with these modifiers.
    pub fn apply(self, inst: Inst, spec: &Spec) -> Decoded<Inst> {
        if self.is_empty() {
            return Ok(inst);
        }
        let is_float = |kind: Kind| matches!(kind, Kind::F16 | Kind::F32 | Kind::F64);
        let is_small = |kind: Kind| matches!(kind, Kind::F16 | Kind::Int16);
        let sources = spec.sources;
        // Integers have no signs to change; for v_mov_b32 and the like these would be those of an f32.
        let signs = (0..3)
            .any(|n| (self.abs[n] || self.neg[n]) && (n >= sources || !is_float(spec.kinds[n])));
        let halves = (0..3).any(|n| self.high[n] && (n >= sources || !is_small(spec.kinds[n])))
            || self.high_result && !is_small(spec.kinds[3]);
        let result = (self.clamp || self.omod != 0) && !is_float(spec.kinds[3]);
        let scalar = matches!(spec.form, Form::Scalar | Form::WriteLane);
        if signs || halves || result || scalar {
            return Err(Unknown);
        }
        let mut inner = Inst::new(inst.run, inst.op.into(), inst.len);
        inner.sdst = inst.sdst;
        inner.src = inst.src;
        for (n, src) in inner.src.iter_mut().enumerate().take(sources) {
            *src = Src::V((MODIFIED + 2 * n) as u16);
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
            sources,
            kinds: spec.kinds,
        };
        Ok(Inst {
            run: Handler::of::<Modified>(),
            mods: Some(Box::new(mods)),
            ..inst
        })
    }
}

/// A modified instruction's inner one, and how it is modified.
pub struct Mods {
    inner: Inst,
    changes: Changes,
    moves: Option<Moves>,
    sources: usize,
    kinds: [Kind; 4],
}

struct Modified;

impl Body for Modified {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
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
        for n in 0..mods.sources {
            let kind = mods.kinds[n];
            let at = if kind.is_wide() {
                wave.wide(inst.src[n], n)
            } else {
                wave.narrow(inst.src[n], n)
            };
            let mut lo = wave.rows[at];
            let mut hi = if kind.is_wide() {
                wave.rows[at + 1]
            } else {
                Row::ZERO
            };
            if let (0, Some((moves, reading))) = (n, moves) {
                lo = moves.permute(&lo, reading);
                if kind.is_wide() {
                    hi = moves.permute(&hi, reading);
                }
            }
            if let Some(sdwa) = changes.sdwa.filter(|_| n < 2) {
                select(&mut lo, sdwa.select[n], sdwa.signed[n]);
            }
            if changes.high[n] {
                select(&mut lo, 5, false);
            }
            let signs = if kind.is_wide() { &mut hi } else { &mut lo };
            change_signs(signs, kind, changes.abs[n], changes.neg[n]);
            wave.rows[MODIFIED + 2 * n] = lo;
            if kind.is_wide() {
                wave.rows[MODIFIED + 2 * n + 1] = hi;
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

/// The bits of an SDWA selection, moved down.
#[inline(always)]
fn select(row: &mut Row, select: u32, signed: bool) {
    let (first, size) = selected(select);
    let up = 32 - size - first;
    for word in &mut row.0 {
        let top = *word << up;
        *word = if signed {
            (top as i32 >> (32 - size)) as u32
        } else {
            top >> (32 - size)
        };
    }
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

/// What omod and clamp make of a result.
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

fn store_result(inst: &Inst, mods: &Mods, wave: &mut Wave) {
    let dx10 = wave.mode >> 8 & 1 == 1;
    let changes = &mods.changes;
    let dst = usize::from(inst.dst);
    let mut lo = wave.rows[RESULT];
    let mut hi = wave.rows[RESULT + 1];
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
        None => None,
    };
    if let Some((to, unused)) = place {
        let (first, size) = selected(to);
        let mask = (!0u32 >> (32 - size)) << first;
        let old = &wave.rows[dst].0;
        for lane in 0..LANES {
            let value = lo.0[lane] << first & mask;
            let rest = match unused {
                1 => {
                    let sign = value >> (first + size - 1) & 1;
                    let above = (!0u32).checked_shl(first + size).unwrap_or(0);
                    if sign == 1 {
                        above
                    } else {
                        0
                    }
                }
                2 => old[lane] & !mask,
                _ => 0,
            };
            lo.0[lane] = value | rest;
        }
    }
    wave.put(dst, &lo);
    if mods.kinds[3].is_wide() {
        wave.put(dst + 1, &hi);
    }
}
