// SPDX-License-Identifier: GPL-2.0
//! DS reads and writes of whole dwords: all lanes at once where they lie in order, and in any case
//! with one check of their places.

use crate::decode::{Inst, Src};
use crate::env::Env;
use crate::simd::{Body, Handler};
use crate::vmem::data_row;
use crate::wave::{mask_row, Active, Flow, Reason, Row, Wave, LANES};
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

#[inline(always)]
fn flow(done: Result<(), Reason>) -> Flow {
    match done {
        Ok(()) => Flow::Next,
        Err(reason) => reason.into(),
    }
}

struct Read<const N: usize>;

impl<const N: usize> Body for Read<N> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let at = usize::from(row_of(inst.src[0]));
        let dst = data_row(inst, wave, inst.dst);
        flow(read::<N>(wave, env, at, inst.imm as u32, dst))
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
        let done = read::<N>(wave, env, at, near, dst).and(second);
        flow(done.map(|rows| put(wave, dst + N, &rows)))
    }
}

struct Write<const N: usize>;

impl<const N: usize> Body for Write<N> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let at = usize::from(row_of(inst.src[0]));
        let src = data_row(inst, wave, row_of(inst.src[1]));
        flow(write::<N>(wave, env, at, inst.imm as u32, src))
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
        let done = write::<N>(wave, env, at, near, first);
        flow(done.and_then(|()| write::<N>(wave, env, at, far, second)))
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
fn read<const N: usize>(
    wave: &mut Wave,
    env: &Env<'_>,
    at: usize,
    offset: u32,
    dst: usize,
) -> Result<(), Reason> {
    let rows = load::<N>(wave, env, at, offset)?;
    put(wave, dst, &rows);
    Ok(())
}

#[inline(always)]
fn put<const N: usize>(wave: &mut Wave, dst: usize, rows: &[Row; N]) {
    for (n, row) in rows.iter().enumerate() {
        wave.put(dst + n, row);
    }
}

#[inline(always)]
fn load<const N: usize>(
    wave: &Wave,
    env: &Env<'_>,
    at: usize,
    offset: u32,
) -> Result<[Row; N], Reason> {
    let (exec, at, size) = (wave.exec(), &wave.rows[at].0, 4 * N);
    let bytes = env.lds.bytes();
    let mut words = Words::<N>::ZERO;
    if exec == !0 && in_order(at, size as u32) {
        let start = at[0].wrapping_add(offset) as usize;
        if let Some(bytes) = bytes.get(start..start + LANES * size) {
            words.bytes_mut().copy_from_slice(bytes);
            return Ok(words.rows());
        }
    }
    if exec != 0 {
        let places = places(exec, bytes.len(), at, offset, size)?;
        for lane in 0..LANES {
            let start = places[lane] as usize;
            words
                .lane_mut(lane)
                .copy_from_slice(&bytes[start..start + size]);
        }
    }
    Ok(words.rows())
}

/// Writes `N` dwords of each active lane, from the rows from `src` on.
#[inline(always)]
fn write<const N: usize>(
    wave: &Wave,
    env: &mut Env<'_>,
    at: usize,
    offset: u32,
    src: usize,
) -> Result<(), Reason> {
    let (exec, at, size) = (wave.exec(), &wave.rows[at].0, 4 * N);
    let bytes = env.lds.bytes_mut();
    let words = Words::<N>::of(&wave.rows[src..src + N]);
    if exec == !0 && in_order(at, size as u32) {
        let start = at[0].wrapping_add(offset) as usize;
        if let Some(bytes) = bytes.get_mut(start..start + LANES * size) {
            bytes.copy_from_slice(words.bytes());
            return Ok(());
        }
    }
    if exec != 0 {
        let places = places(exec, bytes.len(), at, offset, size)?;
        for lane in Active(exec) {
            let start = places[lane] as usize;
            bytes[start..start + size].copy_from_slice(words.lane(lane));
        }
    }
    Ok(())
}

/// The place of each lane's `size` bytes; for inactive lanes any place. There must be active lanes.
#[inline(always)]
pub fn places(
    exec: u64,
    len: usize,
    at: &[u32; LANES],
    offset: u32,
    size: usize,
) -> Result<[u32; LANES], Reason> {
    let Some(last) = len.checked_sub(size) else {
        return Err(outside(exec, 0, at, offset, true));
    };
    let (last, mask) = (last as u32, mask_row(exec));
    let mut places = [0; LANES];
    let mut beyond = 0;
    for lane in 0..LANES {
        let place = at[lane].wrapping_add(offset);
        beyond |= u32::from(place > last) & mask.0[lane];
        places[lane] = place.min(last);
    }
    if beyond != 0 {
        return Err(outside(exec, last, at, offset, false));
    }
    Ok(places)
}

/// The error of the first active lane whose access is outside; with `all` every access is.
#[cold]
fn outside(exec: u64, last: u32, at: &[u32; LANES], offset: u32, all: bool) -> Reason {
    let place = |lane: usize| at[lane].wrapping_add(offset);
    let first = Active(exec).map(place).find(|&at| all || at > last);
    Reason::Lds(first.unwrap_or(offset))
}
