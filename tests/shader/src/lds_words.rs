// SPDX-License-Identifier: GPL-2.0
//! DS reads and writes of whole dwords: all lanes at once where they lie in order, and in any case
//! with one check of their places.

use crate::decode::{Inst, Src};
use crate::env::Env;
use crate::simd::{Body, Handler};
use crate::vmem::data_row;
use crate::wave::{mask_row, Active, Flow, Row, Wave, LANES};
use crate::words::{in_order, Words};

/// The handler that reads `dwords` (1 to 4) for each lane.
pub fn read_handler(dwords: usize) -> Handler {
    match dwords {
        1 => Handler::of::<Read<1>>(),
        2 => Handler::of::<Read<2>>(),
        3 => Handler::of::<Read<3>>(),
        _ => Handler::of::<Read<4>>(),
    }
}

/// The handler that reads `dwords` (1 or 2) from two places. Their offsets count as many dwords, or
/// `far_apart` 64 times as many.
pub fn read2_handler(dwords: usize, far_apart: bool) -> Handler {
    match (dwords, far_apart) {
        (1, false) => Handler::of::<Read2<1, 4>>(),
        (1, true) => Handler::of::<Read2<1, 256>>(),
        (_, false) => Handler::of::<Read2<2, 8>>(),
        (_, true) => Handler::of::<Read2<2, 512>>(),
    }
}

/// See [`read_handler`].
pub fn write_handler(dwords: usize) -> Handler {
    match dwords {
        1 => Handler::of::<Write<1>>(),
        2 => Handler::of::<Write<2>>(),
        3 => Handler::of::<Write<3>>(),
        _ => Handler::of::<Write<4>>(),
    }
}

/// See [`read2_handler`].
pub fn write2_handler(dwords: usize, far_apart: bool) -> Handler {
    match (dwords, far_apart) {
        (1, false) => Handler::of::<Write2<1, 4>>(),
        (1, true) => Handler::of::<Write2<1, 256>>(),
        (_, false) => Handler::of::<Write2<2, 8>>(),
        (_, true) => Handler::of::<Write2<2, 512>>(),
    }
}

/// The row of a register that is no accumulation VGPR.
#[inline(always)]
pub fn row_of(src: Src) -> u16 {
    match src {
        Src::V(row) => row,
        _ => 0,
    }
}

struct Read<const N: usize>;

impl<const N: usize> Body for Read<N> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let at = usize::from(row_of(inst.src[0]));
        let dst = data_row(inst, wave, inst.dst);
        read::<N>(wave, env, at, inst.imm as u32, dst);
        Flow::Next
    }
}

struct Read2<const N: usize, const UNIT: u32>;

impl<const N: usize, const UNIT: u32> Body for Read2<N, UNIT> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let at = usize::from(row_of(inst.src[0]));
        let dst = data_row(inst, wave, inst.dst);
        let [near, far] = offsets(inst, UNIT);
        // The first result may overwrite the addresses.
        let second = load::<N>(wave, env, at, far);
        read::<N>(wave, env, at, near, dst);
        put(wave, dst + N, &second);
        Flow::Next
    }
}

struct Write<const N: usize>;

impl<const N: usize> Body for Write<N> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let at = usize::from(row_of(inst.src[0]));
        let src = data_row(inst, wave, row_of(inst.src[1]));
        write::<N>(wave, env, at, inst.imm as u32, src);
        Flow::Next
    }
}

struct Write2<const N: usize, const UNIT: u32>;

impl<const N: usize, const UNIT: u32> Body for Write2<N, UNIT> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let at = usize::from(row_of(inst.src[0]));
        let first = data_row(inst, wave, row_of(inst.src[1]));
        let second = data_row(inst, wave, row_of(inst.src[2]));
        let [near, far] = offsets(inst, UNIT);
        write::<N>(wave, env, at, near, first);
        write::<N>(wave, env, at, far, second);
        Flow::Next
    }
}

/// The two offsets, which count `unit` bytes.
#[inline(always)]
fn offsets(inst: &Inst, unit: u32) -> [u32; 2] {
    let both = inst.imm as u32;
    [(both & 0xff) * unit, (both >> 8) * unit]
}

/// Reads `N` dwords from `offset` on for each active lane, to the rows from `dst` on; addresses are
/// in row `at`.
#[inline(always)]
fn read<const N: usize>(wave: &mut Wave, env: &Env<'_>, at: usize, offset: u32, dst: usize) {
    let rows = load::<N>(wave, env, at, offset);
    put(wave, dst, &rows);
}

#[inline(always)]
fn put<const N: usize>(wave: &mut Wave, dst: usize, rows: &[Row; N]) {
    for (n, row) in rows.iter().enumerate() {
        wave.put(dst + n, row);
    }
}

#[inline(always)]
fn load<const N: usize>(wave: &Wave, env: &Env<'_>, at: usize, offset: u32) -> [Row; N] {
    let (exec, at, size) = (wave.exec(), &wave.rows[at].0, 4 * N);
    let bytes = env.lds.bytes();
    let mut words = Words::<N>::ZERO;
    if exec == !0 && in_order(at, size as u32) {
        let start = at[0].wrapping_add(offset) as usize;
        if let Some(bytes) = bytes.get(start..start + LANES * size) {
            words.bytes_mut().copy_from_slice(bytes);
            return words.rows();
        }
    }
    if exec != 0 {
        let Some(places) = places(exec, bytes.len(), at, offset, size) else {
            for lane in Active(exec) {
                env.lds
                    .read(at[lane].wrapping_add(offset), words.lane_mut(lane));
            }
            return words.rows();
        };
        for lane in 0..LANES {
            let start = places[lane] as usize;
            words
                .lane_mut(lane)
                .copy_from_slice(&bytes[start..start + size]);
        }
    }
    words.rows()
}

/// Writes `N` dwords of each active lane, from the rows from `src` on.
#[inline(always)]
fn write<const N: usize>(wave: &Wave, env: &mut Env<'_>, at: usize, offset: u32, src: usize) {
    let (exec, at, size) = (wave.exec(), &wave.rows[at].0, 4 * N);
    let bytes = env.lds.bytes_mut();
    let words = Words::<N>::of(&wave.rows[src..src + N]);
    if exec == !0 && in_order(at, size as u32) {
        let start = at[0].wrapping_add(offset) as usize;
        if let Some(bytes) = bytes.get_mut(start..start + LANES * size) {
            bytes.copy_from_slice(words.bytes());
            return;
        }
    }
    if exec != 0 {
        let Some(places) = places(exec, bytes.len(), at, offset, size) else {
            for lane in Active(exec) {
                env.lds
                    .write(at[lane].wrapping_add(offset), words.lane(lane));
            }
            return;
        };
        for lane in Active(exec) {
            let start = places[lane] as usize;
            bytes[start..start + size].copy_from_slice(words.lane(lane));
        }
    }
}

/// The place of each lane's `size` bytes; for inactive lanes any place. There must be active lanes.
/// None: not all of these are in LDS.
#[inline(always)]
pub fn places(
    exec: u64,
    len: usize,
    at: &[u32; LANES],
    offset: u32,
    size: usize,
) -> Option<[u32; LANES]> {
    let last = len.checked_sub(size)? as u32;
    let mask = mask_row(exec);
    let mut places = [0; LANES];
    let mut beyond = 0;
    for lane in 0..LANES {
        let place = at[lane].wrapping_add(offset);
        beyond |= u32::from(place > last) & mask.0[lane];
        places[lane] = place.min(last);
    }
    (beyond == 0).then_some(places)
}
