// SPDX-License-Identifier: GPL-2.0
//! Vector memory: FLAT, GLOBAL and SCRATCH, and the common part of [MUBUF](crate::vmem_buffer).

use crate::atomic::Operation;
use crate::decode::{bits, flag, Decoded, Inst, Kind, Src, Unknown, Unsupported, Words};
use crate::env::{Env, Need};
use crate::isa::Isa;
use crate::lanes::{self, Addresses};
use crate::simd::{Body, Handler};
use crate::vmem_atomic;
use crate::vmem_buffer::Room;
use crate::vmem_words;
use crate::wave::{sgpr, Flow, Reason, Row, Wave, LANES, TEMPS};

/// The data that a memory instruction moves for each lane. The opcodes are the same in FLAT and
/// MUBUF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Bytes; signed; which half of the register, or all of it.
    Load(usize, bool, Half),
    /// Bytes; from the high half.
    Store(usize, bool),
    /// Eight bytes.
    Atomic(bool, Operation),
}

/// The part of a register that a load changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    /// All.
    Whole,
    /// Bits 15:0.
    Low,
    /// Bits 31:16.
    High,
}

impl Shape {
    /// Decodes opcode `op` of FLAT or MUBUF.
    pub fn of(op: u32) -> Option<Shape> {
        use Half::*;
        Some(match op {
            16 => Shape::Load(1, false, Whole),
            17 => Shape::Load(1, true, Whole),
            18 => Shape::Load(2, false, Whole),
            19 => Shape::Load(2, true, Whole),
            20..=23 => Shape::Load(4 * (op as usize - 19), false, Whole),
            24 | 25 => Shape::Store(1, op == 25),
            26 | 27 => Shape::Store(2, op == 27),
            28..=31 => Shape::Store(4 * (op as usize - 27), false),
            32 => Shape::Load(1, false, Low),
            33 => Shape::Load(1, false, High),
            34 => Shape::Load(1, true, Low),
            35 => Shape::Load(1, true, High),
            36 => Shape::Load(2, false, Low),
            37 => Shape::Load(2, false, High),
            77 => Shape::Atomic(false, Operation::AddF),
            78 => Shape::Atomic(false, Operation::PkAddF16),
            79 => Shape::Atomic(true, Operation::AddF),
            80 => Shape::Atomic(true, Operation::MinF),
            81 => Shape::Atomic(true, Operation::MaxF),
            // Of gfx942, and not in MUBUF.
            82 => Shape::Atomic(false, Operation::PkAddBf16),
            64..=76 => Shape::Atomic(false, Operation::by_number(op - 64)?),
            96..=108 => Shape::Atomic(true, Operation::by_number(op - 96)?),
            _ => return None,
        })
    }

    /// Bytes of memory in a lane's access.
    pub fn bytes(self) -> u64 {
        match self {
            Shape::Load(bytes, ..) | Shape::Store(bytes, _) => bytes as u64,
            Shape::Atomic(wide, _) => 4 << u32::from(wide),
        }
    }

    /// The number of registers that it loads and stores.
    pub fn registers(self) -> (u32, u32) {
        match self {
            Shape::Load(bytes, ..) => (bytes.div_ceil(4) as u32, 0),
            Shape::Store(bytes, _) => (0, bytes.div_ceil(4) as u32),
            Shape::Atomic(wide, operation) => {
                let words = 1 + u32::from(wide);
                let operands = 1 + u32::from(operation == Operation::CompareSwap);
                (words, words * operands)
            }
        }
    }
}

/// The data registers: of loaded or returned data, and of stored data.
pub(crate) fn data(inst: &mut Inst, shape: Shape, (dst, src): (u32, u32), acc: bool) {
    let (taken, given) = shape.registers();
    let taken = if matches!(shape, Shape::Atomic(..)) && inst.flags & flag::GLC == 0 {
        0
    } else {
        taken
    };
    let mut name = |first, count| {
        if acc {
            inst.accvgpr(first, count)
        } else {
            inst.vgpr(first, count)
        }
    };
    let dst = if taken > 0 { name(dst, taken) } else { 0 };
    let src = if given > 0 { name(src, given) } else { 0 };
    inst.dst = dst;
    inst.src[1] = Src::V(src);
    if acc {
        inst.flags |= flag::ACC;
    }
}

/// The row of a data register that was named by [`data`].
pub(crate) fn data_row(inst: &Inst, wave: &Wave, register: u16) -> usize {
    let first = if inst.flags & flag::ACC != 0 {
        TEMPS + usize::from(wave.arch)
    } else {
        0
    };
    first + usize::from(register)
}

/// From the opcodes of gfx942's loads to LDS to those of the same loads.
const LOADS_TO_LDS: u32 = 38 - 16;

/// FLAT, GLOBAL and SCRATCH. gfx942 has opcodes for loads to LDS; the bit that says so on gfx90a is
/// SVE there: a VGPR is part of the address of private memory, with or without an SGPR.
pub fn decode_flat(isa: Isa, words: Words) -> Decoded<Inst> {
    const FLAT: u32 = 0;
    const SCRATCH: u32 = 1;
    const NO_SADDR: u32 = 0x7f;
    let [word, second, _] = words.0;
    let bit13 = bits(word, 13, 13) == 1;
    let segment = bits(word, 15, 14);
    let mut op = bits(word, 24, 18);
    let to_lds = match isa {
        Isa::Gfx90a => bit13,
        Isa::Gfx942 => (38..=42).contains(&op),
    };
    if isa.is_gfx942() {
        if bit13 && segment != SCRATCH {
            return Err(Unknown);
        }
        op -= if to_lds { LOADS_TO_LDS } else { 0 };
    }
    let shape = Shape::of(op).ok_or(Unknown)?;
    // Nothing is atomic in private memory, and gfx90a adds floats in global memory only.
    let exists = match (segment, shape) {
        (SCRATCH, Shape::Atomic(..)) => false,
        (FLAT, Shape::Atomic(false, Operation::AddF | Operation::PkAddF16))
        | (_, Shape::Atomic(false, Operation::PkAddBf16)) => segment != 3 && isa.is_gfx942(),
        _ => segment != 3,
    };
    if !exists {
        return Err(Unknown);
    }
    let handler = match (to_lds, shape) {
        _ if to_lds && segment == FLAT => return Err(Unknown),
        (false, _) => vmem_words::flat(shape).unwrap_or_else(Handler::of::<Flat>),
        _ if to_lds && isa.is_gfx942() => Handler::of::<PartToLds>(),
        (true, Shape::Load(4, ..)) => Handler::of::<ToLds>(),
        (true, Shape::Load(1 | 2, _, Half::Whole)) => {
            return Err(Unsupported("a load to LDS but that of a dword"))
        }
        (true, _) => return Err(Unknown),
    };
    let mut inst = Inst::new(handler, op, 8);
    if bits(word, 16, 16) == 1 {
        inst.flags |= flag::GLC;
    }
    inst.imm = if segment == FLAT {
        bits(word, 11, 0) as i32
    } else {
        (bits(word, 12, 0) << 19) as i32 >> 19
    };
    let saddr = bits(second, 22, 16);
    let address = bits(second, 7, 0);
    match segment {
        FLAT => {
            inst.flags |= flag::GENERIC;
            inst.src[0] = Src::V(inst.vgpr(address, 2));
        }
        SCRATCH => {
            inst.flags |= flag::SCRATCH;
            let has_vgpr = match isa {
                Isa::Gfx90a => saddr == NO_SADDR,
                Isa::Gfx942 => bit13,
            };
            if has_vgpr {
                inst.src[0] = Src::V(inst.vgpr(address, 1));
            }
            if saddr != NO_SADDR {
                inst.flags |= flag::SCALAR;
                inst.src[2] = inst.source(saddr, Kind::Int32, None)?;
            }
        }
        _ if saddr == NO_SADDR => inst.src[0] = Src::V(inst.vgpr(address, 2)),
        _ => {
            inst.flags |= flag::SCALAR;
            inst.src[0] = Src::V(inst.vgpr(address, 1));
            inst.src[2] = Src::S(inst.scalar(saddr));
        }
    }
    if to_lds {
        return Ok(inst);
    }
    let registers = (bits(second, 31, 24), bits(second, 15, 8));
    data(&mut inst, shape, registers, bits(second, 23, 23) == 1);
    Ok(inst)
}

pub(crate) struct Flat;

impl Body for Flat {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let Some(addresses) = ready_addresses(inst, wave, env) else {
            return Flow::Replay;
        };
        finish(inst, wave, env, &addresses)
    }
}

/// GLOBAL and SCRATCH loads of a dword to LDS, from M0\[15:0\] and the offset on.
struct ToLds;

impl Body for ToLds {
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let Some(addresses) = ready_addresses(inst, wave, env) else {
            return Flow::Replay;
        };
        let row = lanes::load(wave, env, &addresses, 4);
        let first = (wave.sgpr[sgpr::M0] & 0xffff).wrapping_add_signed(inst.imm);
        store_in_lds(wave, env, first, &row)
    }
}

/// Loads to LDS of gfx942, of dwords and of what becomes one, from M0\[17:2\] and the offset on.
struct PartToLds;

impl Body for PartToLds {
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let Some(Shape::Load(bytes, signed, _)) = Shape::of(inst.op.into()) else {
            return Reason::Unknown.into();
        };
        let Some(addresses) = ready_addresses(inst, wave, env) else {
            return Flow::Replay;
        };
        let row = extend(lanes::load(wave, env, &addresses, bytes), bytes, signed);
        let first = (wave.sgpr[sgpr::M0] & 0x3_fffc).wrapping_add_signed(inst.imm);
        store_in_lds(wave, env, first, &row)
    }
}

/// The addresses of each lane; `None` if the access has to wait for a page.
#[inline(always)]
fn ready_addresses(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Option<Addresses> {
    let addresses = if inst.flags & flag::SCRATCH != 0 {
        scratch_addresses(inst, wave)
    } else {
        flat_addresses(inst, wave)
    };
    let waits = env.host.retries() && !is_ready(inst, wave, env, &addresses, None);
    (!waits).then_some(addresses)
}

/// Stores a dword of each lane in LDS, one behind the other from `first` on.
fn store_in_lds(wave: &Wave, env: &mut Env<'_>, first: u32, row: &Row) -> Flow {
    for lane in wave.active() {
        let at = first.wrapping_add(4 * lane as u32);
        env.lds.write(at, &row.0[lane].to_le_bytes());
    }
    Flow::Next
}

#[inline(always)]
fn flat_addresses(inst: &Inst, wave: &Wave) -> Addresses {
    let at = flat_places(inst, wave);
    if inst.flags & flag::GENERIC == 0 {
        return Addresses {
            at,
            ..Addresses::default()
        };
    }
    generic(at, wave)
}

/// The lanes' addresses, of a FLAT or GLOBAL instruction.
#[inline(always)]
pub(crate) fn flat_places(inst: &Inst, wave: &Wave) -> [u64; LANES] {
    let mut at = [0; LANES];
    let Src::V(row) = inst.src[0] else {
        return at;
    };
    let row = usize::from(row);
    let offset = i64::from(inst.imm);
    let lo = &wave.rows[row].0;
    if inst.flags & flag::SCALAR != 0 {
        let base = wave.scalar64(inst.src[2]).wrapping_add_signed(offset);
        for lane in 0..LANES {
            at[lane] = base.wrapping_add(u64::from(lo[lane]));
        }
    } else {
        let hi = &wave.rows[row + 1].0;
        for lane in 0..LANES {
            let address = u64::from(lo[lane]) | u64::from(hi[lane]) << 32;
            at[lane] = address.wrapping_add_signed(offset);
        }
    }
    at
}

/// Checks each lane's address for apertures.
#[inline(always)]
fn generic(at: [u64; LANES], wave: &Wave) -> Addresses {
    let shared = u64::from(wave.apertures.shared);
    let private = u64::from(wave.apertures.private);
    let mut addresses = Addresses {
        at,
        private_base: wave.pair(sgpr::FLAT_SCRATCH),
        ..Addresses::default()
    };
    let mut some = false;
    for lane in 0..LANES {
        let top = at[lane] >> 48;
        some |= (top == shared) | (top == private);
    }
    if !some {
        return addresses;
    }
    for lane in wave.active() {
        let top = at[lane] >> 48;
        if top == shared {
            addresses.lds |= 1 << lane;
        } else if top == private {
            addresses.private |= 1 << lane;
        }
    }
    addresses
}

fn scratch_addresses(inst: &Inst, wave: &mut Wave) -> Addresses {
    let scalar = if inst.flags & flag::SCALAR != 0 {
        wave.scalar32(inst.src[2])
    } else {
        0
    };
    let common = scalar.wrapping_add_signed(inst.imm);
    let mut at = [u64::from(common); LANES];
    if let Src::V(row) = inst.src[0] {
        for (at, &offset) in at.iter_mut().zip(&wave.rows[usize::from(row)].0) {
            *at = u64::from(offset.wrapping_add(common));
        }
    }
    Addresses {
        at,
        lds: 0,
        private: !0,
        private_base: wave.pair(sgpr::FLAT_SCRATCH),
    }
}

/// Returns whether the instruction's next access can be done now, of each lane as far as there is
/// `room`.
#[cold]
pub(crate) fn is_ready(
    inst: &Inst,
    wave: &Wave,
    env: &Env<'_>,
    addresses: &Addresses,
    room: Option<&Room>,
) -> bool {
    let Some(shape) = Shape::of(inst.op.into()) else {
        return true;
    };
    let need = match shape {
        Shape::Load(..) => Need::Load,
        Shape::Store(..) => Need::Store,
        Shape::Atomic(..) => Need::Atomic,
    };
    let within = |lane: usize| room.map_or(u64::MAX, |room| room[lane]);
    lanes::are_ready(wave, env, addresses, need, |lane| {
        shape.bytes().min(within(lane))
    })
}

/// Moves the data.
#[inline(always)]
pub(crate) fn finish(
    inst: &Inst,
    wave: &mut Wave,
    env: &mut Env<'_>,
    addresses: &Addresses,
) -> Flow {
    let Some(shape) = Shape::of(inst.op.into()) else {
        return Reason::Unknown.into();
    };
    let Src::V(source) = inst.src[1] else {
        return Reason::Unknown.into();
    };
    let dst = data_row(inst, wave, inst.dst);
    let source = data_row(inst, wave, source);
    match shape {
        Shape::Load(bytes, signed, half) if bytes <= 4 => {
            let row = extend(lanes::load(wave, env, addresses, bytes), bytes, signed);
            store_half(wave, dst, row, half);
        }
        Shape::Load(bytes, ..) => lanes::load_rows(wave, env, addresses, dst, bytes / 4),
        Shape::Store(bytes, high) if bytes <= 4 => {
            let mut row = wave.rows[source];
            if high {
                row.0.iter_mut().for_each(|word| *word >>= 16);
            }
            lanes::store(wave, env, addresses, &row, bytes);
        }
        Shape::Store(bytes, _) => lanes::store_rows(wave, env, addresses, source, bytes / 4),
        Shape::Atomic(wide, operation) => {
            let result = (inst.flags & flag::GLC != 0).then_some(dst);
            vmem_atomic::atomic(wave, env, addresses, (wide, operation), source, result);
        }
    }
    Flow::Next
}

/// Sign-extends signed values.
#[inline(always)]
pub(crate) fn extend(mut row: Row, bytes: usize, signed: bool) -> Row {
    if signed {
        let shift = 32 - 8 * bytes as u32;
        for word in &mut row.0 {
            *word = ((*word << shift) as i32 >> shift) as u32;
        }
    }
    row
}

/// Stores a row, or 16 bits of it in one half of the register.
#[inline(always)]
pub(crate) fn store_half(wave: &mut Wave, dst: usize, mut row: Row, half: Half) {
    let old = &wave.rows[dst].0;
    match half {
        Half::Whole => {}
        Half::Low => {
            for lane in 0..LANES {
                row.0[lane] = old[lane] & 0xffff_0000 | row.0[lane] & 0xffff;
            }
        }
        Half::High => {
            for lane in 0..LANES {
                row.0[lane] = old[lane] & 0xffff | row.0[lane] << 16;
            }
        }
    }
    wave.put(dst, &row);
}
