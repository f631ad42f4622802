// SPDX-License-Identifier: GPL-2.0
//! Scalar instructions of one operand: SOP1.

use super::kind;
use crate::decode::{bits, signed_literal, Decoded, Inst, Unknown, Words};
use crate::env::Env;
use crate::image::SGPRS;
use crate::simd::{Body, Handler};
use crate::wave::{sgpr, Flow, Reason, Wave};

/// SOP1.
pub fn decode_sop1(words: Words) -> Decoded<Inst> {
    let word = words.0[0];
    let op = bits(word, 15, 8);
    let wide = match op {
        1 | 3 | 5 | 7 | 9 | 11 | 13 | 15 | 17 | 19 | 21 | 29..=39 | 41 | 43 | 45 | 51..=54 => true,
        0 | 2 | 4 | 6 | 8 | 10 | 12 | 14 | 16 | 18 | 20 | 22..=28 | 40 | 42 | 44 | 48 | 50 | 55 => {
            false
        }
        _ => return Err(Unknown),
    };
    let code = bits(word, 7, 0);
    let (literal, len) = words.literal(4, &[code]);
    let mut inst = Inst::new(Handler::of::<Sop1>(), op, len);
    if op != 28 {
        inst.src[0] = inst.source(code, kind(wide), literal)?;
    }
    // s_flbit_i32_i64.
    if let (19, 255, Some(literal)) = (op, code, literal) {
        inst.src[0] = signed_literal(literal);
    }
    inst.dst = inst.scalar(bits(word, 22, 16)).into();
    Ok(inst)
}

struct Sop1;

impl Body for Sop1 {
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let dst = usize::from(inst.dst);
        let src = inst.src[0];
        let logic32 = |wave: &mut Wave, value: u32| {
            wave.sgpr[dst] = value;
            wave.scc = value != 0;
        };
        let logic64 = |wave: &mut Wave, value: u64| {
            wave.set_pair(dst, value);
            wave.scc = value != 0;
        };
        // For searches that find nothing.
        let or_none = |found: u32, none: bool| if none { !0 } else { found };
        match inst.op {
            0 => wave.sgpr[dst] = wave.scalar32(src),
            1 => wave.set_pair(dst, wave.scalar64(src)),
            2 if wave.scc => wave.sgpr[dst] = wave.scalar32(src),
            3 if wave.scc => wave.set_pair(dst, wave.scalar64(src)),
            2 | 3 => {}
            4 => logic32(wave, !wave.scalar32(src)),
            5 => logic64(wave, !wave.scalar64(src)),
            6 => {
                let value = wave.scalar32(src);
                logic32(wave, whole_quads(value.into()) as u32);
            }
            7 => {
                let value = wave.scalar64(src);
                logic64(wave, whole_quads(value));
            }
            8 => wave.sgpr[dst] = wave.scalar32(src).reverse_bits(),
            9 => wave.set_pair(dst, wave.scalar64(src).reverse_bits()),
            10 => logic32(wave, wave.scalar32(src).count_zeros()),
            11 => logic32(wave, wave.scalar64(src).count_zeros()),
            12 => logic32(wave, wave.scalar32(src).count_ones()),
            13 => logic32(wave, wave.scalar64(src).count_ones()),
            14 => {
                let value = wave.scalar32(src);
                wave.sgpr[dst] = or_none(value.trailing_ones(), value == !0);
            }
            15 => {
                let value = wave.scalar64(src);
                wave.sgpr[dst] = or_none(value.trailing_ones(), value == !0);
            }
            16 => {
                let value = wave.scalar32(src);
                wave.sgpr[dst] = or_none(value.trailing_zeros(), value == 0);
            }
            17 => {
                let value = wave.scalar64(src);
                wave.sgpr[dst] = or_none(value.trailing_zeros(), value == 0);
            }
            18 => {
                let value = wave.scalar32(src);
                wave.sgpr[dst] = or_none(value.leading_zeros(), value == 0);
            }
            19 => {
                let value = wave.scalar64(src);
                wave.sgpr[dst] = or_none(value.leading_zeros(), value == 0);
            }
            20 => {
                let value = wave.scalar32(src) as i32;
                let rest = (value ^ value >> 31) as u32;
                wave.sgpr[dst] = or_none(rest.leading_zeros(), rest == 0);
            }
            21 => {
                let value = wave.scalar64(src) as i64;
                let rest = (value ^ value >> 63) as u64;
                wave.sgpr[dst] = or_none(rest.leading_zeros(), rest == 0);
            }
            22 => wave.sgpr[dst] = wave.scalar32(src) as i8 as u32,
            23 => wave.sgpr[dst] = wave.scalar32(src) as i16 as u32,
            24 => wave.sgpr[dst] &= !(1 << (wave.scalar32(src) & 31)),
            25 => {
                let bit = 1 << (wave.scalar32(src) & 63);
                wave.set_pair(dst, wave.pair(dst) & !bit);
            }
            26 => wave.sgpr[dst] |= 1 << (wave.scalar32(src) & 31),
            27 => {
                let bit = 1 << (wave.scalar32(src) & 63);
                wave.set_pair(dst, wave.pair(dst) | bit);
            }
            28 => wave.set_pair(dst, wave.pc),
            29 => wave.pc = wave.scalar64(src) & !3,
            30 => {
                let target = wave.scalar64(src);
                wave.set_pair(dst, wave.pc);
                wave.pc = target & !3;
            }
            32..=39 | 51..=54 => save_exec(inst, wave),
            40 => logic32(wave, quads(wave.scalar32(src).into()) as u32),
            41 => logic64(wave, quads(wave.scalar64(src))),
            42 | 43 => {
                let from = match moved(wave, wave_index(inst), inst.op == 43) {
                    Ok(from) => from,
                    Err(reason) => return reason.into(),
                };
                match from {
                    Some(from) if inst.op == 43 => wave.set_pair(dst, wave.pair(from)),
                    Some(from) => wave.sgpr[dst] = wave.sgpr[from],
                    None if inst.op == 43 => wave.set_pair(dst, 0),
                    None => wave.sgpr[dst] = 0,
                }
            }
            44 | 45 => match moved(wave, dst, inst.op == 45) {
                Ok(Some(to)) if inst.op == 45 => wave.set_pair(to, wave.scalar64(src)),
                Ok(Some(to)) => wave.sgpr[to] = wave.scalar32(src),
                Ok(None) => {}
                Err(reason) => return reason.into(),
            },
            48 => logic32(wave, (wave.scalar32(src) as i32).unsigned_abs()),
            // s_set_gpr_idx_idx.
            50 => {
                let index = wave.scalar32(src) & 0xff;
                let m0 = &mut wave.sgpr[sgpr::M0];
                *m0 = *m0 & !0xff | index;
            }
            55 => {
                let value = wave.scalar32(src);
                let spread = (0..32).fold(0u64, |all, n| {
                    all | (u64::from(value >> n & 1) * 3) << (2 * n)
                });
                wave.set_pair(dst, spread);
            }
            _ if wave.is_privileged() => wave.leave_handler(wave.scalar64(src)),
            _ => return Reason::Unsupported("s_rfe_b64 outside of a trap handler").into(),
        }
        Flow::Next
    }
}

/// The number of the scalar register that is the source.
fn wave_index(inst: &Inst) -> usize {
    match inst.src[0] {
        crate::decode::Src::S(n) => n.into(),
        _ => 0,
    }
}

/// The number of an SGPR, or TTMP, with M0 added. None: one of the four SGPRs that are allocated
/// and have no name.
fn moved(wave: &Wave, number: usize, wide: bool) -> Result<Option<usize>, Reason> {
    let to = number.wrapping_add(wave.sgpr[sgpr::M0] as usize);
    let last = to.wrapping_add(usize::from(wide));
    if (sgpr::TTMP..sgpr::M0).contains(&number) {
        let inside = to >= sgpr::TTMP && last < sgpr::M0;
        return inside.then_some(Some(to)).ok_or(OUTSIDE);
    }
    match last {
        _ if to < sgpr::TTMP && last < sgpr::TTMP => Ok(Some(to)),
        _ if to >= sgpr::TTMP && last < SGPRS as usize => Ok(None),
        _ => Err(OUTSIDE),
    }
}

/// The error of a relative move.
const OUTSIDE: Reason = Reason::Register("behind M0");

/// All bits of each group of four in which one is set.
fn whole_quads(value: u64) -> u64 {
    (0..16).fold(0, |all, n| {
        let quad = 0xf << (4 * n);
        if value & quad != 0 {
            all | quad
        } else {
            all
        }
    })
}

/// One bit for each group of four.
fn quads(value: u64) -> u64 {
    (0..16).fold(0, |all, n| {
        all | u64::from(value >> (4 * n) & 0xf != 0) << n
    })
}

fn save_exec(inst: &Inst, wave: &mut Wave) {
    let (exec, s0) = (wave.exec(), wave.scalar64(inst.src[0]));
    let new = match inst.op {
        32 => s0 & exec,
        33 => s0 | exec,
        34 => s0 ^ exec,
        35 => s0 & !exec,
        36 => s0 | !exec,
        37 => !(s0 & exec),
        38 => !(s0 | exec),
        39 => !(s0 ^ exec),
        51 => !s0 & exec,
        52 => !s0 | exec,
        53 => !s0 & exec,
        _ => s0 & !exec,
    };
    // The last two keep the new value, not the old one.
    let kept = if inst.op >= 53 { new } else { exec };
    wave.set_pair(inst.dst.into(), kept);
    wave.set_exec(new);
    wave.scc = new != 0;
}
