// SPDX-License-Identifier: GPL-2.0
//! Loads and stores by all lanes that lie in order, as most do: one access of the host's. Others
//! use [`crate::vmem`].

use crate::decode::{flag, Inst, Src};
use crate::env::Env;
use crate::simd::{Body, Handler};
use crate::vmem::{data_row, extend, flat_places, store_half, Flat, Shape};
use crate::vmem_buffer::{Buffer, Resource};
use crate::wave::{sgpr, Flow, Reason, Row, Wave, LANES};
use crate::words::{are_same, in_order, Words};

/// Selects the handler for a number of dwords.
macro_rules! by_dwords {
    ($body:ident, $bytes:expr) => {
        match $bytes {
            4 => Handler::of::<$body<1>>(),
            8 => Handler::of::<$body<2>>(),
            12 => Handler::of::<$body<3>>(),
            16 => Handler::of::<$body<4>>(),
            _ => return None,
        }
    };
}

/// The handler of a FLAT, GLOBAL or SCRATCH instruction that loads or stores.
pub fn flat(shape: Shape) -> Option<Handler> {
    Some(match shape {
        Shape::Load(1, ..) => Handler::of::<FlatLoadPart<1>>(),
        Shape::Load(2, ..) => Handler::of::<FlatLoadPart<2>>(),
        Shape::Store(1, _) => Handler::of::<FlatStorePart<1>>(),
        Shape::Store(2, _) => Handler::of::<FlatStorePart<2>>(),
        Shape::Load(bytes, ..) => by_dwords!(FlatLoad, bytes),
        Shape::Store(bytes, _) => by_dwords!(FlatStore, bytes),
        Shape::Atomic(..) => return None,
    })
}

/// The same of MUBUF, for whole dwords.
pub fn buffer(shape: Shape) -> Option<Handler> {
    Some(match shape {
        Shape::Load(bytes, ..) => by_dwords!(BufferLoad, bytes),
        Shape::Store(bytes, _) => by_dwords!(BufferStore, bytes),
        Shape::Atomic(..) => return None,
    })
}

/// The layout of the lanes' dwords in memory, from an address on.
enum Order {
    /// A lane's behind those of the lane before.
    Lanes(u64),
    /// The first one of all lanes, then the second one of all, as private memory has them.
    Registers(u64),
}

/// Bytes of a dword of all lanes.
const ROW: usize = 4 * LANES;

struct FlatLoad<const N: usize>;

impl<const N: usize> Body for FlatLoad<N> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        match flat_order(inst, wave, env, 4 * N) {
            Some(order) => load::<N>(inst, wave, env, order),
            // A function of its own: its frame would cost the usual path time.
            None => Handler::of::<FlatLoadApart<N>>().call(inst, wave, env),
        }
    }
}

/// For lanes that are not in order.
struct FlatLoadApart<const N: usize>;

impl<const N: usize> Body for FlatLoadApart<N> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let mut words = Words::<N>::ZERO;
        if !read_apart(inst, wave, env, words.bytes_mut(), 4 * N) {
            return Flat::run(inst, wave, env);
        }
        let dst = data_row(inst, wave, inst.dst);
        for (n, row) in words.rows().iter().enumerate() {
            wave.put(dst + n, row);
        }
        Flow::Next
    }
}

struct FlatStore<const N: usize>;

impl<const N: usize> Body for FlatStore<N> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        match flat_order(inst, wave, env, 4 * N) {
            Some(order) => store::<N>(inst, wave, env, order),
            None => store_apart::<N>(inst, wave, env),
        }
    }
}

/// Bytes or words.
struct FlatLoadPart<const BYTES: usize>;

impl<const BYTES: usize> Body for FlatLoadPart<BYTES> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let mut bytes = [0; ROW / 2];
        let bytes = &mut bytes[..LANES * BYTES];
        match part_order(inst, wave, env, BYTES) {
            Some(at) => read(wave, env, at, bytes, BYTES),
            None if read_apart(inst, wave, env, bytes, BYTES) => {}
            None => return Flat::run(inst, wave, env),
        }
        let Some(Shape::Load(_, signed, half)) = Shape::of(inst.op.into()) else {
            return Reason::Unknown.into();
        };
        let mut row = Row::ZERO;
        for lane in 0..LANES {
            row.0[lane] = match BYTES {
                1 => bytes[lane].into(),
                _ => u16::from_le_bytes([bytes[2 * lane], bytes[2 * lane + 1]]).into(),
            };
        }
        let dst = data_row(inst, wave, inst.dst);
        store_half(wave, dst, extend(row, BYTES, signed), half);
        Flow::Next
    }
}

/// See above.
struct FlatStorePart<const BYTES: usize>;

impl<const BYTES: usize> Body for FlatStorePart<BYTES> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        match (
            part_order(inst, wave, env, BYTES),
            Shape::of(inst.op.into()),
            inst.src[1],
        ) {
            (Some(at), Some(Shape::Store(_, high)), Src::V(source)) => {
                let row = &wave.rows[data_row(inst, wave, source)].0;
                let down = if high { 16 } else { 0 };
                let mut bytes = [0; ROW / 2];
                for lane in 0..LANES {
                    let word = row[lane] >> down;
                    match BYTES {
                        1 => bytes[lane] = word as u8,
                        _ => {
                            let [low, high] = (word as u16).to_le_bytes();
                            (bytes[2 * lane], bytes[2 * lane + 1]) = (low, high);
                        }
                    }
                }
                write(wave, env, at, &bytes[..LANES * BYTES], BYTES);
                Flow::Next
            }
            _ => Flat::run(inst, wave, env),
        }
    }
}

struct BufferLoad<const N: usize>;

impl<const N: usize> Body for BufferLoad<N> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        match buffer_order(inst, wave, env) {
            Some(order) => load::<N>(inst, wave, env, order),
            None => Buffer::run(inst, wave, env),
        }
    }
}

struct BufferStore<const N: usize>;

impl<const N: usize> Body for BufferStore<N> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        match buffer_order(inst, wave, env) {
            Some(order) => store::<N>(inst, wave, env, order),
            None => Buffer::run(inst, wave, env),
        }
    }
}

/// Returns whether all lanes are active, and their accesses need no retry.
#[inline(always)]
fn is_plain(wave: &Wave, env: &Env<'_>) -> bool {
    wave.exec() == !0 && !env.host.retries()
}

/// The layout of the lanes' `size` bytes.
#[inline(always)]
fn flat_order(inst: &Inst, wave: &Wave, env: &Env<'_>, size: usize) -> Option<Order> {
    if !is_plain(wave, env) {
        return None;
    }
    if inst.flags & flag::SCRATCH != 0 {
        return private(scratch_offset(inst, wave)?, wave.pair(sgpr::FLAT_SCRATCH));
    }
    linear(inst, wave, size).map(Order::Lanes)
}

/// The place of the first lane's `size` bytes, of less than a dword: in private memory those of the
/// lanes are apart.
#[inline(always)]
fn part_order(inst: &Inst, wave: &Wave, env: &Env<'_>, size: usize) -> Option<u64> {
    if !is_plain(wave, env) || inst.flags & flag::SCRATCH != 0 {
        return None;
    }
    linear(inst, wave, size)
}

/// The place of the first lane's `size` bytes, if those of the next one follow them.
#[inline(always)]
fn linear(inst: &Inst, wave: &Wave, size: usize) -> Option<u64> {
    let Src::V(row) = inst.src[0] else {
        return None;
    };
    let row = usize::from(row);
    let lo = &wave.rows[row].0;
    if !in_order(lo, size as u32) {
        return None;
    }
    let mut first = u64::from(lo[0]).wrapping_add_signed(inst.imm.into());
    if inst.flags & flag::SCALAR != 0 {
        first = first.wrapping_add(wave.scalar64(inst.src[2]));
    } else {
        let hi = &wave.rows[row + 1].0;
        if !are_same(hi) {
            return None;
        }
        first = first.wrapping_add(u64::from(hi[0]) << 32);
    }
    if inst.flags & flag::GENERIC != 0 {
        let last = first.wrapping_add((size * LANES) as u64 - 1);
        let apertures = [wave.apertures.shared, wave.apertures.private].map(u64::from);
        if apertures.contains(&(first >> 48)) || apertures.contains(&(last >> 48)) {
            return None;
        }
    }
    Some(first)
}

/// The common offset of all lanes.
#[inline(always)]
fn scratch_offset(inst: &Inst, wave: &Wave) -> Option<u64> {
    let mut base = 0u32;
    if inst.flags & flag::SCALAR != 0 {
        base = wave.scalar32(inst.src[2]);
    }
    if let Src::V(_) = inst.src[0] {
        base = base.wrapping_add(common(wave, inst.src[0])?);
    }
    Some(base.wrapping_add_signed(inst.imm).into())
}

/// The common value of all lanes in a register.
#[inline(always)]
fn common(wave: &Wave, src: Src) -> Option<u32> {
    let Src::V(row) = src else {
        return None;
    };
    let row = &wave.rows[usize::from(row)].0;
    are_same(row).then_some(row[0])
}

/// Private memory from an offset on that is a dword's.
#[inline(always)]
fn private(offset: u64, base: u64) -> Option<Order> {
    // With room for the next ones without a wrap to 0.
    let is_plain = offset % 4 == 0 && offset < 1 << 31;
    is_plain.then(|| Order::Registers(base.wrapping_add(offset / 4 * ROW as u64)))
}

#[inline(always)]
fn buffer_order(inst: &Inst, wave: &Wave, env: &Env<'_>) -> Option<Order> {
    if !is_plain(wave, env) || inst.flags & (flag::IDXEN | flag::LDS) != 0 {
        return None;
    }
    let resource = Resource::of(wave, inst.sdst);
    if !resource.swizzled || !resource.adds_lane {
        return None;
    }
    let mut offset = inst.imm as u64;
    if inst.flags & flag::OFFEN != 0 {
        offset += u64::from(common(wave, inst.src[0])?);
    }
    let scalar = u64::from(wave.scalar32(inst.src[2]));
    let end = scalar + offset / 4 * ROW as u64 + ROW as u64;
    if end > resource.records {
        return None;
    }
    private(offset, resource.base.wrapping_add(scalar))
}

/// Reads a stretch of memory; if not all of it can be read, in parts of `part` bytes.
#[inline(always)]
fn read(wave: &mut Wave, env: &Env<'_>, at: u64, out: &mut [u8], part: usize) {
    if env.host.load(at, out).is_err() {
        read_parts(wave, env, at, out, part);
    }
}

#[cold]
fn read_parts(wave: &mut Wave, env: &Env<'_>, at: u64, out: &mut [u8], part: usize) {
    for (n, out) in out.chunks_exact_mut(part).enumerate() {
        if let Err(fault) = env.host.load(at.wrapping_add((n * part) as u64), out) {
            wave.faulted(fault);
            out.fill(0);
        }
    }
}

/// Writes; see [`read`].
#[inline(always)]
fn write(wave: &mut Wave, env: &Env<'_>, at: u64, data: &[u8], part: usize) {
    if env.host.store(at, data).is_err() {
        write_parts(wave, env, at, data, part);
    }
}

#[cold]
fn write_parts(wave: &mut Wave, env: &Env<'_>, at: u64, data: &[u8], part: usize) {
    for (n, data) in data.chunks_exact(part).enumerate() {
        if let Err(fault) = env.host.store(at.wrapping_add((n * part) as u64), data) {
            wave.faulted(fault);
        }
    }
}

#[inline(always)]
fn load<const N: usize>(inst: &Inst, wave: &mut Wave, env: &Env<'_>, order: Order) -> Flow {
    let dst = data_row(inst, wave, inst.dst);
    match order {
        Order::Lanes(at) => {
            let mut words = Words::<N>::ZERO;
            read(wave, env, at, words.bytes_mut(), 4 * N);
            for (n, row) in words.rows().iter().enumerate() {
                wave.put(dst + n, row);
            }
        }
        Order::Registers(at) => {
            for n in 0..N {
                let mut words = Words::<1>::ZERO;
                let at = at.wrapping_add((n * ROW) as u64);
                read(wave, env, at, words.bytes_mut(), 4);
                wave.put(dst + n, &words.rows()[0]);
            }
        }
    }
    Flow::Next
}

/// Returns whether the host should get the addresses of all lanes, as these are scattered.
#[inline(always)]
fn are_apart(inst: &Inst, wave: &Wave, env: &Env<'_>, size: usize) -> bool {
    let special = inst.flags & (flag::SCRATCH | flag::GENERIC) != 0;
    let (false, false, Src::V(row)) = (special, env.host.retries(), inst.src[0]) else {
        return false;
    };
    // Many in order are one access, and so are all in one place.
    let places = &wave.rows[usize::from(row)].0;
    let first = places.first_chunk::<16>();
    let near = first.is_none_or(|first| in_order(first, size as u32)) || are_same(places);
    wave.exec() != 0 && !near
}

/// Reads the data of scattered lanes, `size` bytes each. Returns false if not all of it was read.
#[inline(always)]
fn read_apart(inst: &Inst, wave: &Wave, env: &Env<'_>, out: &mut [u8], size: usize) -> bool {
    are_apart(inst, wave, env, size) && {
        let at = flat_places(inst, wave);
        env.host.load_lanes(&at, wave.exec(), size, out) == 0
    }
}

/// Stores of such lanes.
#[inline(always)]
fn store_apart<const N: usize>(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (true, Src::V(source)) = (are_apart(inst, wave, env, 4 * N), inst.src[1]) else {
        return Flat::run(inst, wave, env);
    };
    let at = flat_places(inst, wave);
    let words = Words::<N>::of(&wave.rows[data_row(inst, wave, source)..]);
    let exec = wave.exec();
    let left = env.host.store_lanes(&at, exec, 4 * N, words.bytes());
    if left == 0 {
        return Flow::Next;
    }
    wave.set_exec(left);
    let flow = Flat::run(inst, wave, env);
    wave.set_exec(exec);
    flow
}

#[inline(always)]
fn store<const N: usize>(inst: &Inst, wave: &mut Wave, env: &Env<'_>, order: Order) -> Flow {
    let Src::V(source) = inst.src[1] else {
        return Reason::Unknown.into();
    };
    let source = data_row(inst, wave, source);
    let rows: &[Row] = &wave.rows[source..source + N];
    match order {
        Order::Lanes(at) => {
            let words = Words::<N>::of(rows);
            write(wave, env, at, words.bytes(), 4 * N);
        }
        Order::Registers(at) => {
            for n in 0..N {
                let words = Words::<1>::of(&wave.rows[source + n..]);
                let at = at.wrapping_add((n * ROW) as u64);
                write(wave, env, at, words.bytes(), 4);
            }
        }
    }
    Flow::Next
}
