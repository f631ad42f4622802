// SPDX-License-Identifier: GPL-2.0
//! Scalar arithmetic, branches and program control: SOP1, SOP2, SOPC, SOPK, SOPP.

use crate::decode::{bits, signed_literal, Decoded, Inst, Kind, Unknown, Words};
use crate::env::Env;
use crate::hwreg::{self, status};
use crate::isa::Isa;
use crate::simd::{Body, Handler};
use crate::wave::{sgpr, Flow, Reason, Saving, Wave};

mod sop1;

pub use sop1::decode_sop1;

fn kind(wide: bool) -> Kind {
    if wide {
        Kind::Int64
    } else {
        Kind::Int32
    }
}

/// SOP2.
pub fn decode_sop2(words: Words) -> Decoded<Inst> {
    let word = words.0[0];
    let op = bits(word, 29, 23);
    // The second operand of 64-bit shifts and fields is of 32 bits.
    let (wide0, wide1) = match op {
        11 | 13 | 15 | 17 | 19 | 21 | 23 | 25 | 27 => (true, true),
        29 | 31 | 33 | 39 | 40 => (true, false),
        0..=10 | 12 | 14 | 16 | 18 | 20 | 22 | 24 | 26 | 28 | 30 | 32 | 34..=38 | 42 | 44..=52 => {
            (false, false)
        }
        _ => return Err(Unknown),
    };
    let codes = [bits(word, 7, 0), bits(word, 15, 8)];
    let (literal, len) = words.literal(4, &codes);
    let mut inst = Inst::new(Handler::of::<Sop2>(), op, len);
    inst.src[0] = inst.source(codes[0], kind(wide0), literal)?;
    inst.src[1] = inst.source(codes[1], kind(wide1), literal)?;
    // s_ashr_i64 and s_bfe_i64.
    if let (33 | 40, 255, Some(literal)) = (op, codes[0], literal) {
        inst.src[0] = signed_literal(literal);
    }
    inst.dst = inst.scalar(bits(word, 22, 16)).into();
    Ok(inst)
}

struct Sop2;

impl Body for Sop2 {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let dst = usize::from(inst.dst);
        let wide = matches!(
            inst.op,
            11 | 13 | 15 | 17 | 19 | 21 | 23 | 25 | 27 | 29 | 31 | 33 | 35 | 39 | 40
        );
        if wide {
            let (value, scc) = wide2(inst, wave);
            wave.set_pair(dst, value);
            wave.scc = scc;
        } else {
            let a = wave.scalar32(inst.src[0]);
            let b = wave.scalar32(inst.src[1]);
            let (value, scc) = narrow2(inst.op, a, b, wave.scc);
            wave.sgpr[dst] = value;
            wave.scc = scc;
        }
        Flow::Next
    }
}

/// Result and SCC of a SOP2 of 32 bits.
fn narrow2(op: u16, a: u32, b: u32, scc: bool) -> (u32, bool) {
    let (sa, sb) = (a as i32, b as i32);
    let logic = |value: u32| (value, value != 0);
    let wrapped = |(value, carry): (u32, bool)| (value, carry);
    let signed = |(value, overflow): (i32, bool)| (value as u32, overflow);
    let shifted_add = |n: u32| {
        let sum = (u64::from(a) << n) + u64::from(b);
        (sum as u32, sum >> 32 != 0)
    };
    match op {
        0 => wrapped(a.overflowing_add(b)),
        1 => wrapped(a.overflowing_sub(b)),
        2 => signed(sa.overflowing_add(sb)),
        3 => signed(sa.overflowing_sub(sb)),
        4 => {
            let sum = u64::from(a) + u64::from(b) + u64::from(scc);
            (sum as u32, sum >> 32 != 0)
        }
        5 => {
            let borrow = u64::from(b) + u64::from(scc);
            (
                u64::from(a).wrapping_sub(borrow) as u32,
                borrow > u64::from(a),
            )
        }
        6 => (sa.min(sb) as u32, sa < sb),
        7 => (a.min(b), a < b),
        8 => (sa.max(sb) as u32, sa > sb),
        9 => (a.max(b), a > b),
        10 => (if scc { a } else { b }, scc),
        12 => logic(a & b),
        14 => logic(a | b),
        16 => logic(a ^ b),
        18 => logic(a & !b),
        20 => logic(a | !b),
        22 => logic(!(a & b)),
        24 => logic(!(a | b)),
        26 => logic(!(a ^ b)),
        28 => logic(a << (b & 31)),
        30 => logic(a >> (b & 31)),
        32 => logic((sa >> (b & 31)) as u32),
        34 => (((1u64 << (a & 31)) - 1 << (b & 31)) as u32, scc),
        36 => (a.wrapping_mul(b), scc),
        37 => logic(field_u64(a.into(), b & 31, bits(b, 22, 16)) as u32),
        38 => {
            let (offset, width) = (b & 31, bits(b, 22, 16));
            logic(if width == 0 {
                0
            } else if width + offset >= 32 {
                (sa >> offset) as u32
            } else {
                (sa << (32 - width - offset) >> (32 - width)) as u32
            })
        }
        42 => logic(sa.abs_diff(sb)),
        44 => ((u64::from(a) * u64::from(b) >> 32) as u32, scc),
        45 => ((i64::from(sa) * i64::from(sb) >> 32) as u32, scc),
        46..=49 => shifted_add(u32::from(op) - 45),
        50 => (a & 0xffff | b << 16, scc),
        51 => (a & 0xffff | b & 0xffff_0000, scc),
        _ => (a >> 16 | b & 0xffff_0000, scc),
    }
}

/// Result and SCC of a SOP2 of 64 bits.
fn wide2(inst: &Inst, wave: &Wave) -> (u64, bool) {
    let a = wave.scalar64(inst.src[0]);
    let b = wave.scalar64(inst.src[1]);
    let shift = wave.scalar32(inst.src[1]);
    let value = match inst.op {
        11 => return (if wave.scc { a } else { b }, wave.scc),
        13 => a & b,
        15 => a | b,
        17 => a ^ b,
        19 => a & !b,
        21 => a | !b,
        23 => !(a & b),
        25 => !(a | b),
        27 => !(a ^ b),
        29 => a << (shift & 63),
        31 => a >> (shift & 63),
        33 => (a as i64 >> (shift & 63)) as u64,
        35 => {
            let size = wave.scalar32(inst.src[0]) & 63;
            return (((1u64 << size) - 1) << (shift & 63), wave.scc);
        }
        39 => field_u64(a, shift & 63, bits(shift, 22, 16)),
        _ => {
            let (offset, width) = (shift & 63, bits(shift, 22, 16));
            if width == 0 {
                0
            } else if width + offset >= 64 {
                (a as i64 >> offset) as u64
            } else {
                ((a as i64) << (64 - width - offset) >> (64 - width)) as u64
            }
        }
    };
    (value, value != 0)
}

/// `width` bits from `offset` on.
fn field_u64(value: u64, offset: u32, width: u32) -> u64 {
    let mask = if width >= 64 { !0 } else { (1 << width) - 1 };
    value >> offset & mask
}

/// SOPC.
pub fn decode_sopc(words: Words) -> Decoded<Inst> {
    let word = words.0[0];
    let op = bits(word, 22, 16);
    let (wide0, wide1) = match op {
        0..=13 | SET_VSKIP => (false, false),
        14 | 15 => (true, false),
        SET_GPR_IDX_ON => (false, false),
        18 | 19 => (true, true),
        _ => return Err(Unknown),
    };
    let codes = [bits(word, 7, 0), bits(word, 15, 8)];
    let (literal, len) = words.literal(4, &codes);
    let mut inst = Inst::new(Handler::of::<Sopc>(), op, len);
    inst.src[0] = inst.source(codes[0], kind(wide0), literal)?;
    if op == SET_GPR_IDX_ON {
        // The second operand's code is the value.
        inst.imm = codes[1] as i32;
    } else {
        inst.src[1] = inst.source(codes[1], kind(wide1), literal)?;
    }
    Ok(inst)
}

/// s_setvskip.
const SET_VSKIP: u32 = 16;
/// s_set_gpr_idx_on.
const SET_GPR_IDX_ON: u32 = 17;

struct Sopc;

impl Body for Sopc {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let [s0, s1, _] = inst.src;
        if u32::from(inst.op) == SET_GPR_IDX_ON {
            wave.mode |= hwreg::GPR_IDX_EN;
            let enables = (inst.imm as u32 & 0xf) << 12;
            // Which may be M0.
            let index = wave.scalar32(s0) & 0xff;
            let m0 = &mut wave.sgpr[sgpr::M0];
            *m0 = *m0 & !0xf0ff | enables | index;
            return Flow::Next;
        }
        if u32::from(inst.op) == SET_VSKIP {
            let skips = wave.scalar32(s0) >> (wave.scalar32(s1) & 31) & 1;
            return match hwreg::set_vskip(wave, skips == 1) {
                Ok(()) => Flow::Next,
                Err(reason) => reason.into(),
            };
        }
        wave.scc = match inst.op {
            14 => wave.scalar64(s0) >> (wave.scalar32(s1) & 63) & 1 == 0,
            15 => wave.scalar64(s0) >> (wave.scalar32(s1) & 63) & 1 == 1,
            18 => wave.scalar64(s0) == wave.scalar64(s1),
            19 => wave.scalar64(s0) != wave.scalar64(s1),
            op => compare32(op, wave.scalar32(s0), wave.scalar32(s1)),
        };
        Flow::Next
    }
}

/// SOPC 0 to 13.
fn compare32(op: u16, a: u32, b: u32) -> bool {
    let (sa, sb) = (a as i32, b as i32);
    match op {
        0 | 6 => a == b,
        1 | 7 => a != b,
        2 => sa > sb,
        3 => sa >= sb,
        4 => sa < sb,
        5 => sa <= sb,
        8 => a > b,
        9 => a >= b,
        10 => a < b,
        11 => a <= b,
        12 => a >> (b & 31) & 1 == 0,
        _ => a >> (b & 31) & 1 == 1,
    }
}

/// SOPK.
pub fn decode_sopk(isa: Isa, words: Words) -> Decoded<Inst> {
    let word = words.0[0];
    let op = bits(word, 27, 23);
    if !matches!(op, 0..=15 | 17 | 18 | 20 | 21) {
        return Err(Unknown);
    }
    let len = if op == 20 { 8 } else { 4 };
    let handler = if op == 17 && isa.is_gfx942() && hwreg::is_of_gfx942(word) {
        Handler::of::<GetNew>()
    } else {
        Handler::of::<Sopk>()
    };
    let mut inst = Inst::new(handler, op, len);
    inst.dst = inst.scalar(bits(word, 22, 16)).into();
    inst.imm = i32::from(word as i16);
    if op == 20 {
        inst.src[0] = crate::decode::Src::K(words.0[1].into());
    }
    Ok(inst)
}

/// s_getreg_b32 of a register that only gfx942 has.
struct GetNew;

impl Body for GetNew {
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        wave.sgpr[usize::from(inst.dst)] = hwreg::read_of_gfx942(env.host, inst.imm as u32);
        Flow::Next
    }
}

struct Sopk;

impl Body for Sopk {
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let dst = usize::from(inst.dst);
        let (old, imm) = (wave.sgpr[dst], inst.imm);
        match inst.op {
            0 => wave.sgpr[dst] = imm as u32,
            1 => {
                if wave.scc {
                    wave.sgpr[dst] = imm as u32;
                }
            }
            2..=7 => wave.scc = compare32(inst.op - 2, old, imm as u32),
            8..=13 => wave.scc = compare32(inst.op - 2, old, imm as u32 & 0xffff),
            14 => {
                let (sum, overflow) = (old as i32).overflowing_add(imm);
                wave.sgpr[dst] = sum as u32;
                wave.scc = overflow;
            }
            15 => wave.sgpr[dst] = old.wrapping_mul(imm as u32),
            17 => match hwreg::read(wave, env.host, imm as u32) {
                Ok(value) => wave.sgpr[dst] = value,
                Err(reason) => return reason.into(),
            },
            18 | 20 => {
                let value = if inst.op == 18 {
                    old
                } else {
                    wave.scalar32(inst.src[0])
                };
                if let Err(reason) = hwreg::write(wave, imm as u32, value) {
                    return reason.into();
                }
            }
            _ => {
                wave.set_pair(dst, wave.pc);
                wave.pc = wave.pc.wrapping_add_signed(i64::from(imm) * 4);
            }
        }
        Flow::Next
    }
}

/// SOPP.
pub fn decode_sopp(words: Words) -> Decoded<Inst> {
    let word = words.0[0];
    let op = bits(word, 22, 16);
    if !matches!(op, 0..=10 | 12..=29) {
        return Err(Unknown);
    }
    let mut inst = Inst::new(Handler::of::<Sopp>(), op, 4);
    inst.imm = i32::from(word as i16);
    Ok(inst)
}

/// Messages of s_sendmsg.
mod message {
    pub const INTERRUPT: i32 = 1;
    pub const SAVE_WAVE: i32 = 4;
    pub const GET_DOORBELL: i32 = 10;
}

struct Sopp;

impl Body for Sopp {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let taken = match inst.op {
            // The wait counters are always 0: memory is done when the instruction is.
            // Nothing counts performance or traces.
            0 | 3 | 12 | 15 | 20..=22 => return Flow::Next,
            1 => return Flow::End,
            27 if wave.saving == Saving::No => return Flow::End,
            27 => return Flow::Saved,
            2 => true,
            4 => !wave.scc,
            5 => wave.scc,
            6 => wave.vcc() == 0,
            7 => wave.vcc() != 0,
            8 => wave.exec() == 0,
            9 => wave.exec() != 0,
            23 => wave.status & status::COND_DBG_SYS != 0,
            24 => wave.status & status::COND_DBG_USER != 0,
            25 => wave.status & (status::COND_DBG_SYS | status::COND_DBG_USER) != 0,
            26 => {
                let both = status::COND_DBG_SYS | status::COND_DBG_USER;
                wave.status & both == both
            }
            10 => return Flow::Barrier,
            13 => {
                halt(wave, inst.imm & 1 == 1);
                return Flow::Next;
            }
            14 => return Flow::Yield,
            16 | 17 => return send(inst, wave, env),
            18 => {
                if wave.has_handler() && !wave.is_privileged() {
                    wave.pc = wave.pc.wrapping_sub(u64::from(inst.len));
                    wave.enter_handler(env.host, inst.imm as u8);
                }
                return Flow::Next;
            }
            28 => {
                wave.mode &= !hwreg::GPR_IDX_EN;
                return Flow::Next;
            }
            29 => {
                let m0 = &mut wave.sgpr[sgpr::M0];
                *m0 = *m0 & !0xf000 | (inst.imm as u32 & 0xf) << 12;
                return Flow::Next;
            }
            _ => return Flow::Refetch,
        };
        if taken {
            wave.pc = wave.pc.wrapping_add_signed(i64::from(inst.imm) * 4);
        }
        Flow::Next
    }
}

/// Sets STATUS.HALT, which stops the wave when it is not in the trap handler.
fn halt(wave: &mut Wave, halts: bool) {
    wave.status &= !status::HALT;
    if halts {
        wave.status |= status::HALT;
    }
}

/// s_sendmsg and s_sendmsghalt.
fn send(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    match inst.imm & 0xf {
        message::INTERRUPT => {
            let data = wave.sgpr[sgpr::M0] & 0xff_ffff;
            env.host.interrupt(wave.hw_id, data, wave.is_privileged());
        }
        message::GET_DOORBELL => wave.set_exec(u64::from(env.host.doorbell() & 0x3ff)),
        message::SAVE_WAVE if wave.is_privileged() => wave.saving = Saving::Asked,
        _ => return Reason::Unsupported("this s_sendmsg").into(),
    }
    if inst.op == SENDMSGHALT {
        halt(wave, true);
    }
    Flow::Next
}

/// s_sendmsghalt.
const SENDMSGHALT: u16 = 17;
