// SPDX-License-Identifier: GPL-2.0
//! Scalar arithmetic, branches and program control: SOP1, SOP2, SOPC, SOPK, SOPP.

use crate::decode::{bits, Decoded, Inst, Kind, Unknown, Words};
use crate::env::Env;
use crate::hwreg::{self, status};
use crate::image::SGPRS;
use crate::simd::{Body, Handler};
use crate::wave::{sgpr, Flow, Reason, Saving, Wave};

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

/// SOP1.
pub fn decode_sop1(words: Words) -> Decoded<Inst> {
    let word = words.0[0];
    let op = bits(word, 15, 8);
    let wide = match op {
        1 | 3 | 5 | 7 | 9 | 11 | 13 | 15 | 17 | 19 | 21 | 29..=39 | 41 | 43 | 45 | 51..=54 => true,
        0 | 2 | 4 | 6 | 8 | 10 | 12 | 14 | 16 | 18 | 20 | 22..=28 | 40 | 42 | 44 | 48 | 55 => false,
        _ => return Err(Unknown),
    };
    let code = bits(word, 7, 0);
    let (literal, len) = words.literal(4, &[code]);
    let mut inst = Inst::new(Handler::of::<Sop1>(), op, len);
    if op != 28 {
        inst.src[0] = inst.source(code, kind(wide), literal)?;
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
        // For what finds nothing.
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

/// The number of an SGPR, or TTMP, with M0 added. None: one of the four SGPRs that are allocated and have no name.
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

/// Of a relative move.
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
pub fn decode_sopk(words: Words) -> Decoded<Inst> {
    let word = words.0[0];
    let op = bits(word, 27, 23);
    if !matches!(op, 0..=15 | 17 | 18 | 20 | 21) {
        return Err(Unknown);
    }
    let len = if op == 20 { 8 } else { 4 };
    let mut inst = Inst::new(Handler::of::<Sopk>(), op, len);
    inst.dst = inst.scalar(bits(word, 22, 16)).into();
    inst.imm = i32::from(word as i16);
    if op == 20 {
        inst.src[0] = crate::decode::Src::K(words.0[1].into());
    }
    Ok(inst)
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
    if !matches!(op, 0..=10 | 12..=19 | 27..=29) {
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
            0 | 3 | 12 | 15 => return Flow::Next,
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

/// STATUS.HALT, which stops the wave when it is not in the trap handler.
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
