// SPDX-License-Identifier: GPL-2.0
//! MUBUF: vector memory through a buffer resource.

use crate::decode::{bits, flag, Decoded, Inst, Kind, Src, Unknown, Words};
use crate::env::Env;
use crate::lanes::{self, Addresses};
use crate::simd::{Body, Handler};
use crate::vmem::{data, data_row, extend, finish, is_ready, store_half, Half, Shape};
use crate::vmem_words;
use crate::wave::{sgpr, Flow, Reason, Row, Wave, LANES};

/// The opcode of FLAT's pk_add_bf16, which MUBUF does not have.
const PK_ADD_BF16: u32 = 82;

/// MUBUF.
pub fn decode(words: Words) -> Decoded<Inst> {
    let [word, second, _] = words.0;
    let op = bits(word, 24, 18);
    // Caches are coherent: buffer_wbl2, buffer_invl2 (gfx942's buffer_inv), buffer_wbinvl1 and
    // buffer_wbinvl1_vol.
    if matches!(op, 40 | 41 | 62 | 63) {
        return Ok(Inst::new(Handler::of::<Fence>(), op, 8));
    }
    let shape = Shape::of(op).filter(|_| op != PK_ADD_BF16).ok_or(Unknown)?;
    let handler = vmem_words::buffer(shape).unwrap_or_else(Handler::of::<Buffer>);
    let mut inst = Inst::new(handler, op, 8);
    for (bit, flag) in [
        (14, flag::GLC),
        (13, flag::IDXEN),
        (12, flag::OFFEN),
        (16, flag::LDS),
    ] {
        if bits(word, bit, bit) == 1 {
            inst.flags |= flag;
        }
    }
    inst.imm = bits(word, 11, 0) as i32;
    inst.sdst = inst.scalar(bits(second, 20, 16) * 4);
    inst.src[2] = inst.source(bits(second, 31, 24), Kind::Int32, None)?;
    let vaddr = bits(second, 7, 0);
    let registers = (inst.flags & flag::IDXEN != 0) as u32 + (inst.flags & flag::OFFEN != 0) as u32;
    if registers > 0 {
        inst.src[0] = Src::V(inst.vgpr(vaddr, registers));
    }
    let vdata = bits(second, 15, 8);
    data(&mut inst, shape, (vdata, vdata), bits(second, 23, 23) == 1);
    Ok(inst)
}

struct Fence;

impl Body for Fence {
    fn run(_: &Inst, _: &mut Wave, _: &mut Env<'_>) -> Flow {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        Flow::Next
    }
}

pub(crate) struct Buffer;

impl Body for Buffer {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        match buffer_addresses(inst, wave) {
            Ok((addresses, room))
                if env.host.retries() && !is_ready(inst, wave, env, &addresses, room.as_ref()) =>
            {
                Flow::Replay
            }
            Ok((addresses, room)) if inst.flags & flag::LDS != 0 => {
                to_lds(inst, wave, env, &addresses, &room)
            }
            Ok((addresses, None)) => finish(inst, wave, env, &addresses),
            Ok((addresses, Some(room))) => finish_within(inst, wave, env, &addresses, &room),
            Err(reason) => reason.into(),
        }
    }
}

/// Bytes from each lane's address to the end of its buffer, where some lane's access goes beyond
/// that.
pub(crate) type Room = [u64; LANES];

/// The active lanes for which byte `at` of an access is in the buffer.
fn within(wave: &Wave, room: &Room, at: u64) -> u64 {
    let inside = |mask, lane: usize| mask | u64::from(room[lane] > at) << lane;
    wave.active().fold(0, inside)
}

/// Moves the data of accesses that are not all in their buffer, dword by dword: loads give 0
/// outside, other accesses do nothing.
fn finish_within(
    inst: &Inst,
    wave: &mut Wave,
    env: &mut Env<'_>,
    addresses: &Addresses,
    room: &Room,
) -> Flow {
    let exec = wave.exec();
    let (Some(shape), Src::V(source)) = (Shape::of(inst.op.into()), inst.src[1]) else {
        return Reason::Unknown.into();
    };
    let (dst, source) = (data_row(inst, wave, inst.dst), data_row(inst, wave, source));
    let (Shape::Load(bytes, ..) | Shape::Store(bytes, _)) = shape else {
        let inside = within(wave, room, 0);
        if inst.flags & flag::GLC != 0 {
            wave.set_exec(exec & !inside);
            for n in 0..shape.registers().0 as usize {
                wave.put(dst + n, &Row::ZERO);
            }
        }
        wave.set_exec(inside);
        let flow = finish(inst, wave, env, addresses);
        wave.set_exec(exec);
        return flow;
    };
    let mut part = *addresses;
    for n in 0..bytes.div_ceil(4) {
        let inside = within(wave, room, 4 * n as u64);
        if let Shape::Load(_, _, half) = shape {
            wave.set_exec(exec & !inside);
            store_half(wave, dst + n, Row::ZERO, half);
        }
        wave.set_exec(inside);
        match shape {
            Shape::Load(_, signed, half) => {
                let row = lanes::load(wave, env, &part, bytes.min(4));
                let row = match bytes {
                    1 | 2 => extend(row, bytes, signed),
                    _ => row,
                };
                store_half(wave, dst + n, row, half);
            }
            _ => {
                let mut row = wave.rows[source + n];
                if let Shape::Store(_, true) = shape {
                    row.0.iter_mut().for_each(|word| *word >>= 16);
                }
                lanes::store(wave, env, &part, &row, bytes.min(4));
            }
        }
        wave.set_exec(exec);
        part.at.iter_mut().for_each(|at| *at = at.wrapping_add(4));
    }
    Flow::Next
}

/// Loads a dword for each active lane to LDS, from M0\[15:0\] and the offset on.
fn to_lds(
    inst: &Inst,
    wave: &mut Wave,
    env: &mut Env<'_>,
    addresses: &Addresses,
    room: &Option<Room>,
) -> Flow {
    let Some(Shape::Load(4, false, Half::Whole)) = Shape::of(inst.op.into()) else {
        return Reason::Unsupported("a buffer load to LDS but that of a dword").into();
    };
    let first = (wave.sgpr[sgpr::M0] & 0xffff).wrapping_add_signed(inst.imm);
    let exec = wave.exec();
    if let Some(room) = room {
        wave.set_exec(within(wave, room, 0));
    }
    let inside = wave.exec();
    let mut row = lanes::load(wave, env, addresses, 4);
    wave.set_exec(exec);
    for lane in wave.active() {
        if inside >> lane & 1 == 0 {
            row.0[lane] = 0;
        }
        let at = first.wrapping_add(4 * lane as u32);
        env.lds.write(at, &row.0[lane].to_le_bytes());
    }
    Flow::Next
}

/// A buffer resource: the used parts of its four dwords.
pub(crate) struct Resource {
    pub base: u64,
    stride: u64,
    pub swizzled: bool,
    pub records: u64,
    pub adds_lane: bool,
}

impl Resource {
    #[inline(always)]
    pub fn of(wave: &Wave, first: u8) -> Resource {
        let word = |n: u8| wave.sgpr[usize::from(first + n) & 127];
        Resource {
            base: u64::from(word(0)) | u64::from(bits(word(1), 15, 0)) << 32,
            stride: bits(word(1), 29, 16).into(),
            swizzled: bits(word(1), 31, 31) == 1,
            records: word(2).into(),
            adds_lane: bits(word(3), 23, 23) == 1,
        }
    }
}

/// Private memory is a swizzled buffer with an index stride of 64 and elements of four bytes, whose
/// index is the lane; others are linear. Of these NUM_RECORDS is checked: with IDXEN it counts
/// indices, otherwise bytes, of which the scalar offset takes some.
fn buffer_addresses(inst: &Inst, wave: &mut Wave) -> Result<(Addresses, Option<Room>), Reason> {
    let resource = Resource::of(wave, inst.sdst);
    let scalar = u64::from(wave.scalar32(inst.src[2]));
    let row = match inst.src[0] {
        Src::V(row) => usize::from(row),
        _ => 0,
    };
    let (indexed, offset_row) = match (inst.flags & flag::IDXEN != 0, inst.flags & flag::OFFEN != 0)
    {
        (false, false) => (false, None),
        (false, true) => (false, Some(row)),
        (true, false) => (true, None),
        (true, true) => (true, Some(row + 1)),
    };
    let mut at = [inst.imm as u64; LANES];
    if let Some(row) = offset_row {
        for (at, &offset) in at.iter_mut().zip(&wave.rows[row].0) {
            *at += u64::from(offset);
        }
    }
    if resource.swizzled && resource.adds_lane && !indexed {
        for lane in wave.active() {
            if scalar + at[lane] / 4 * 256 + 256 > resource.records {
                return Err(Reason::Scratch(at[lane]));
            }
        }
        let addresses = Addresses {
            at,
            lds: 0,
            private: !0,
            private_base: resource.base.wrapping_add(scalar),
        };
        return Ok((addresses, None));
    }
    if resource.swizzled {
        return Err(Reason::Unsupported("this kind of swizzled buffer"));
    }
    let size = Shape::of(inst.op.into()).map_or(0, Shape::bytes);
    let bytes = resource.records.saturating_sub(scalar);
    let mut room = [0; LANES];
    let mut fits = true;
    for (lane, at) in at.iter_mut().enumerate() {
        let mut index = if resource.adds_lane { lane as u64 } else { 0 };
        if indexed {
            index += u64::from(wave.rows[row].0[lane]);
        }
        room[lane] = match indexed {
            true if index < resource.records => u64::MAX,
            true => 0,
            false => bytes.saturating_sub(*at),
        };
        fits &= room[lane] >= size || wave.exec() >> lane & 1 == 0;
        let linear = resource.base.wrapping_add(scalar).wrapping_add(*at);
        *at = linear.wrapping_add(index * resource.stride);
    }
    let addresses = Addresses {
        at,
        ..Addresses::default()
    };
    Ok((addresses, (!fits).then_some(room)))
}
