// SPDX-License-Identifier: GPL-2.0
//! DS instructions: LDS, and the lane permutations in the same format.

use crate::atomic::Operation;
use crate::decode::{bits, flag, Decoded, Inst, Src, Unknown, Words};
use crate::env::Env;
use crate::isa::Isa;
use crate::lds_atomic;
use crate::lds_seldom;
use crate::lds_words::{self, row_of};
use crate::simd::{permuted_row, Body, Build, Handler, Tuned};
use crate::vmem::{self, Half};
use crate::wave::{mask_row, Flow, Row, Wave, LANES};

/// The operation of a DS instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Bytes; signed; half of the register.
    Read(usize, bool, Half),
    /// Bytes of each of the two; offsets count 64 of them.
    Read2(usize, bool),
    /// Bytes; from the high half.
    Write(usize, bool),
    /// See Read2.
    Write2(usize, bool),
    /// Eight bytes; returns the old value.
    Atomic(bool, bool, Operation),
    Swizzle,
    Permute,
    BackwardPermute,
    Nothing,
    Seldom(lds_seldom::Seldom),
}

fn shape(op: u32) -> Option<Shape> {
    use Half::*;
    use Operation::*;
    use Shape::*;
    // The four blocks of atomics: dword, dword returning, qword, qword returning.
    let (wide, returns) = (op & 64 != 0, op & 32 != 0);
    let atomic = |operation| Some(Atomic(wide, returns, operation));
    Some(match op {
        0..=12 | 32..=44 | 64..=76 | 96..=108 => {
            let operations = [
                Add, Sub, ReverseSub, Inc, Dec, MinI, MaxI, MinU, MaxU, And, Or, Xor, MaskOr,
            ];
            return atomic(operations[(op & 31) as usize]);
        }
        13 => Write(4, false),
        14 => Write2(4, false),
        15 => Write2(4, true),
        16 | 48 | 80 | 112 => return atomic(CompareSwap),
        18 | 50 | 82 | 114 => return atomic(MinF),
        19 | 51 | 83 | 115 => return atomic(MaxF),
        20 => Nothing,
        21 | 53 | 92 | 124 => return atomic(AddF),
        // Of gfx942.
        23 | 24 | 183 | 184 => {
            let operation = if op & 1 == 1 { PkAddF16 } else { PkAddBf16 };
            return Some(Atomic(false, op >= 128, operation));
        }
        30 => Write(1, false),
        31 => Write(2, false),
        45 | 109 => return atomic(Swap),
        54 => Read(4, false, Whole),
        55 => Read2(4, false),
        56 => Read2(4, true),
        57 => Read(1, true, Whole),
        58 => Read(1, false, Whole),
        59 => Read(2, true, Whole),
        60 => Read(2, false, Whole),
        61 => Swizzle,
        62 => Permute,
        63 => BackwardPermute,
        77 => Write(8, false),
        78 => Write2(8, false),
        79 => Write2(8, true),
        84 => Write(1, true),
        85 => Write(2, true),
        86 => Read(1, false, Low),
        87 => Read(1, false, High),
        88 => Read(1, true, Low),
        89 => Read(1, true, High),
        90 => Read(2, false, Low),
        91 => Read(2, false, High),
        118 => Read(8, false, Whole),
        119 => Read2(8, false),
        120 => Read2(8, true),
        222 => Write(12, false),
        223 => Write(16, false),
        254 => Read(12, false, Whole),
        255 => Read(16, false, Whole),
        _ => return lds_seldom::Seldom::of(op).map(Seldom),
    })
}

/// The operation of an atomic.
pub fn atomic(op: u32) -> Option<Operation> {
    match shape(op)? {
        Shape::Atomic(_, _, operation) => Some(operation),
        _ => None,
    }
}

/// DS. There is no GDS but for global wave sync.
pub fn decode(isa: Isa, words: Words) -> Decoded<Inst> {
    let [word, second, _] = words.0;
    let op = bits(word, 24, 17);
    let shape = shape(op).ok_or(Unknown)?;
    let is_new = matches!(op, 23 | 24 | 183 | 184);
    if bits(word, 16, 16) == 1 || is_new && !isa.is_gfx942() {
        return Err(Unknown);
    }
    let handler = match shape {
        Shape::Read(bytes, ..) if bytes >= 4 => lds_words::read_handler(bytes / 4),
        Shape::Read2(bytes, far_apart) => lds_words::read2_handler(bytes / 4, far_apart),
        Shape::Write(bytes, _) if bytes >= 4 => lds_words::write_handler(bytes / 4),
        Shape::Write2(bytes, far_apart) => lds_words::write2_handler(bytes / 4, far_apart),
        Shape::Atomic(wide, returns, _) => lds_atomic::handler(wide, returns),
        Shape::BackwardPermute => Handler::tuned::<BackwardPermute>(),
        Shape::Seldom(_) => lds_seldom::handler(),
        _ => Handler::of::<Ds>(),
    };
    let mut inst = Inst::new(handler, op, 8);
    inst.imm = bits(word, 15, 0) as i32;
    if bits(word, 25, 25) == 1 {
        inst.flags |= flag::ACC;
    }
    let (address, dst) = (bits(second, 7, 0), bits(second, 31, 24));
    let data = [bits(second, 15, 8), bits(second, 23, 16)];
    let dwords = |bytes: usize| bytes.div_ceil(4) as u32;
    let (result, first, other) = match shape {
        Shape::Read(bytes, ..) => (dwords(bytes), 0, 0),
        Shape::Read2(bytes, _) => (2 * dwords(bytes), 0, 0),
        Shape::Write(bytes, _) => (0, dwords(bytes), 0),
        Shape::Write2(bytes, _) => (0, dwords(bytes), dwords(bytes)),
        Shape::Atomic(wide, returns, operation) => {
            let words = 1 + u32::from(wide);
            let two = matches!(operation, Operation::CompareSwap | Operation::MaskOr);
            (
                if returns { words } else { 0 },
                words,
                if two { words } else { 0 },
            )
        }
        Shape::Swizzle => (1, 0, 0),
        Shape::Permute | Shape::BackwardPermute => (1, 1, 0),
        Shape::Nothing => (0, 0, 0),
        Shape::Seldom(seldom) => seldom.registers(),
    };
    inst.src[0] = Src::V(inst.vgpr(address, 1));
    let acc = inst.flags & flag::ACC != 0;
    let mut name = |first: u32, count: u32| match (count, acc) {
        (0, _) => 0,
        (_, true) => inst.accvgpr(first, count),
        (_, false) => inst.vgpr(first, count),
    };
    let rows = (
        name(dst, result),
        name(data[0], first),
        name(data[1], other),
    );
    inst.dst = rows.0;
    inst.src[1] = Src::V(rows.1);
    inst.src[2] = Src::V(rows.2);
    Ok(inst)
}

struct Ds;

impl Body for Ds {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        access(inst, wave, env);
        Flow::Next
    }
}

#[inline(always)]
fn access(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) {
    let Some(shape) = shape(inst.op.into()) else {
        return;
    };
    let at = wave.rows[usize::from(row_of(inst.src[0]))];
    let dst = vmem::data_row(inst, wave, inst.dst);
    let first = vmem::data_row(inst, wave, row_of(inst.src[1]));
    let offset = inst.imm as u32;
    match shape {
        Shape::Read(bytes, signed, half) => {
            let mut row = Row::ZERO;
            for lane in wave.active() {
                let mut word = [0; 4];
                let at = at.0[lane].wrapping_add(offset);
                env.lds.read(at, &mut word[..bytes]);
                row.0[lane] = u32::from_le_bytes(word);
            }
            vmem::store_half(wave, dst, vmem::extend(row, bytes, signed), half);
        }
        Shape::Write(bytes, high) => {
            for lane in wave.active() {
                let value = wave.rows[first].0[lane] >> if high { 16 } else { 0 };
                let at = at.0[lane].wrapping_add(offset);
                env.lds.write(at, &value.to_le_bytes()[..bytes]);
            }
        }
        Shape::Swizzle => {
            let data = at;
            let exec = wave.exec();
            let row = permuted(exec, |lane| {
                (data.0[swizzled(lane, offset)], swizzled(lane, offset))
            });
            wave.put(dst, &row);
        }
        Shape::Permute => {
            let data = wave.rows[first];
            let mut row = Row::ZERO;
            for lane in wave.active() {
                let to = (at.0[lane].wrapping_add(offset) / 4) as usize % LANES;
                row.0[to] = data.0[lane];
            }
            wave.put(dst, &row);
        }
        // Those with handlers of their own.
        Shape::Read2(..)
        | Shape::Write2(..)
        | Shape::Atomic(..)
        | Shape::BackwardPermute
        | Shape::Seldom(_)
        | Shape::Nothing => {}
    }
}

/// ds_bpermute_b32: each lane reads the one in its address.
struct BackwardPermute;

impl Tuned for BackwardPermute {
    #[inline(always)]
    fn run<B: Build>(build: B, inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let exec = wave.exec();
        let at = &wave.rows[usize::from(row_of(inst.src[0]))].0;
        let mut from = Row::ZERO;
        for lane in 0..LANES {
            from.0[lane] = at[lane].wrapping_add(inst.imm as u32) / 4;
        }
        let data = vmem::data_row(inst, wave, row_of(inst.src[1]));
        let mut data = wave.rows[data];
        if exec != !0 {
            let mask = mask_row(exec);
            for lane in 0..LANES {
                data.0[lane] &= mask.0[lane];
            }
        }
        let row = permuted_row(build, &data, &from);
        wave.put(vmem::data_row(inst, wave, inst.dst), &row);
        Flow::Next
    }
}

/// For each lane the value that `source` finds, or 0 where that comes from an inactive lane.
fn permuted(exec: u64, source: impl Fn(usize) -> (u32, usize)) -> Row {
    let mut row = Row::ZERO;
    for lane in 0..LANES {
        let (value, from) = source(lane);
        row.0[lane] = if exec >> from & 1 == 1 { value } else { 0 };
    }
    row
}

/// The lane that a swizzle reads: a quad's, or one of 32 by and, or and xor masks.
fn swizzled(lane: usize, pattern: u32) -> usize {
    if pattern & 0x8000 != 0 {
        return lane & !3 | (pattern >> (2 * (lane & 3)) & 3) as usize;
    }
    let mask = |shift: u32| (pattern >> shift & 0x1f) as usize;
    lane & 32 | ((lane & 31 & mask(0)) | mask(5)) ^ mask(10)
}
