// SPDX-License-Identifier: GPL-2.0
//! The lanes' accesses to memory, private memory and LDS: one access of the host's for each run of
//! neighbours.

use crate::env::{Env, Need};
use crate::wave::{Active, Row, Wave, LANES};

/// The lanes' addresses.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// Of memory; for LDS and private memory the low 32 bits count.
    pub at: [u64; LANES],
    /// Lanes that access LDS.
    pub lds: u64,
    /// Lanes that access private memory.
    pub private: u64,
    /// Where private memory of lane 0 begins.
    pub private_base: u64,
}

impl Default for Addresses {
    fn default() -> Addresses {
        Addresses {
            at: [0; LANES],
            lds: 0,
            private: 0,
            private_base: 0,
        }
    }
}

impl Addresses {
    /// The address in memory of byte `more` of a lane's access. Private memory has its dwords 64
    /// lanes apart.
    #[inline(always)]
    pub fn memory(&self, lane: usize, more: u64) -> u64 {
        if self.private >> lane & 1 == 0 {
            return self.at[lane].wrapping_add(more);
        }
        let offset = u64::from((self.at[lane] as u32).wrapping_add(more as u32));
        self.private_base
            .wrapping_add(offset / 4 * 256 + 4 * lane as u64 + offset % 4)
    }

    /// Returns whether the access of `size` bytes of a lane of `lanes` is in two dwords of private
    /// memory, which are apart.
    #[inline(always)]
    fn is_split(&self, lanes: u64, size: usize) -> bool {
        let lanes = lanes & self.private;
        let mut split = false;
        if lanes != 0 {
            for lane in 0..LANES {
                split |= lanes >> lane & 1 == 1 && self.at[lane] % 4 + size as u64 > 4;
            }
        }
        split
    }

    /// The same for LDS.
    pub fn shared(&self, lane: usize, more: u64) -> u32 {
        (self.at[lane] as u32).wrapping_add(more as u32)
    }
}

/// Lanes whose addresses are checked together.
const CHUNK: usize = 16;

/// The end of the lanes from `first` on that are active and whose accesses of `size` bytes follow
/// each other.
#[inline(always)]
fn run(exec: u64, at: &[u64; LANES], first: usize, size: u64) -> usize {
    let mut end = first;
    let mut next = at[first];
    loop {
        while end < LANES && end % CHUNK == 0 && (exec >> end) as u16 == !0 {
            let mut differs = 0;
            for n in 0..CHUNK {
                differs |= at[end + n] ^ next.wrapping_add(n as u64 * size);
            }
            if differs != 0 {
                break;
            }
            end += CHUNK;
            next = next.wrapping_add(CHUNK as u64 * size);
        }
        if end == LANES || exec >> end & 1 == 0 || at[end] != next {
            return end;
        }
        end += 1;
        next = next.wrapping_add(size);
    }
}

/// The lanes of `mask` from `end` on.
#[inline(always)]
fn from(mask: u64, end: usize) -> u64 {
    mask & (!0u64).checked_shl(end as u32).unwrap_or(0)
}

fn load_one(wave: &mut Wave, env: &Env<'_>, at: u64, out: &mut [u8]) {
    if let Err(fault) = env.host.load(at, out) {
        wave.faulted(fault);
        out.fill(0);
    }
}

/// Reads `size` bytes (a divisor of `out`'s 64th) of memory for each active lane, in order, at
/// `at`.
#[inline(always)]
fn gather(wave: &mut Wave, env: &Env<'_>, at: &[u64; LANES], size: usize, out: &mut [u8]) {
    let mut left = wave.exec();
    while left != 0 {
        let first = left.trailing_zeros() as usize;
        let end = run(left, at, first, size as u64);
        if end - first < CHUNK {
            left = env.host.load_lanes(at, left, size, out);
            if left >> first & 1 == 0 {
                continue;
            }
        }
        left = from(left, end);
        let bytes = &mut out[first * size..end * size];
        if env.host.load(at[first], bytes).is_err() {
            for lane in first..end {
                load_one(
                    wave,
                    env,
                    at[lane],
                    &mut out[lane * size..(lane + 1) * size],
                );
            }
        }
    }
}

/// Writes; see [`gather`].
#[inline(always)]
fn scatter(wave: &mut Wave, env: &Env<'_>, at: &[u64; LANES], size: usize, data: &[u8]) {
    let mut left = wave.exec();
    while left != 0 {
        let first = left.trailing_zeros() as usize;
        let end = run(left, at, first, size as u64);
        if end - first < CHUNK {
            left = env.host.store_lanes(at, left, size, data);
            if left >> first & 1 == 0 {
                continue;
            }
        }
        left = from(left, end);
        if env
            .host
            .store(at[first], &data[first * size..end * size])
            .is_err()
        {
            for lane in first..end {
                let data = &data[lane * size..(lane + 1) * size];
                if let Err(fault) = env.host.store(at[lane], data) {
                    wave.faulted(fault);
                }
            }
        }
    }
}

/// Each page is checked once.
const PAGE: u64 = 4096;

/// Returns whether the next access of each active lane, `size` bytes of it, can be done now. It
/// checks all of them, whatever the first ones lack.
pub fn are_ready(
    wave: &Wave,
    env: &Env<'_>,
    addresses: &Addresses,
    need: Need,
    size: impl Fn(usize) -> u64,
) -> bool {
    let mut seen = None;
    let mut ready = true;
    for lane in Active(wave.exec() & !addresses.lds) {
        let mut done = 0;
        while done < size(lane) {
            let at = addresses.memory(lane, done);
            // Private memory is contiguous up to a dword's end.
            let piece = if addresses.private >> lane & 1 == 0 {
                PAGE - at % PAGE
            } else {
                4 - at % 4
            };
            let len = piece.min(size(lane) - done);
            if seen.replace(at / PAGE) != Some(at / PAGE) {
                ready &= env.host.is_ready(at, len, need);
            }
            done += len;
        }
    }
    ready
}

/// The one address that all active lanes have, if there are several.
#[inline(always)]
fn uniform(exec: u64, at: &[u64; LANES]) -> Option<u64> {
    let (first, last) = (exec.trailing_zeros(), 63 - exec.leading_zeros());
    let address = at[first as usize];
    if first == last || at[last as usize] != address {
        return None;
    }
    let mut differs = 0;
    for lane in 0..LANES {
        differs |= (at[lane] ^ address) & 0u64.wrapping_sub(exec >> lane & 1);
    }
    (differs == 0).then_some(address)
}

/// Reads up to four bytes for each active lane, zero-extended.
#[inline(always)]
pub fn load(wave: &mut Wave, env: &mut Env<'_>, addresses: &Addresses, size: usize) -> Row {
    load_part(wave, env, addresses, size, 0)
}

#[inline(always)]
fn load_part(
    wave: &mut Wave,
    env: &mut Env<'_>,
    addresses: &Addresses,
    size: usize,
    more: u64,
) -> Row {
    let mut row = Row::ZERO;
    let exec = wave.exec();
    if exec & addresses.lds != 0 || addresses.is_split(exec, size) {
        for lane in Active(exec) {
            let mut bytes = [0; 4];
            if addresses.lds >> lane & 1 == 1 {
                let at = addresses.shared(lane, more);
                env.lds.read(at, &mut bytes[..size]);
            } else {
                for (n, byte) in bytes[..size].iter_mut().enumerate() {
                    let at = addresses.memory(lane, more + n as u64);
                    load_one(wave, env, at, std::slice::from_mut(byte));
                }
            }
            row.0[lane] = u32::from_le_bytes(bytes);
        }
        return row;
    }
    if exec == 0 {
        return row;
    }
    let at = memory_addresses(addresses, exec, more);
    if let Some(at) = uniform(exec, &at) {
        let mut bytes = [0; 4];
        load_one(wave, env, at, &mut bytes[..size]);
        return Row([u32::from_le_bytes(bytes); LANES]);
    }
    let mut bytes = [0; 4 * LANES];
    gather(wave, env, &at, size, &mut bytes);
    match size {
        1 => {
            for lane in 0..LANES {
                row.0[lane] = bytes[lane].into();
            }
        }
        2 => {
            for lane in 0..LANES {
                row.0[lane] = u16::from_le_bytes([bytes[2 * lane], bytes[2 * lane + 1]]).into();
            }
        }
        _ => {
            for lane in 0..LANES {
                row.0[lane] = word(&bytes, lane);
            }
        }
    }
    row
}

#[inline(always)]
fn memory_addresses(addresses: &Addresses, exec: u64, more: u64) -> [u64; LANES] {
    let mut at = addresses.at;
    if exec & addresses.private != 0 {
        for (lane, at) in at.iter_mut().enumerate() {
            *at = addresses.memory(lane, more);
        }
    } else if more != 0 {
        at.iter_mut().for_each(|at| *at = at.wrapping_add(more));
    }
    at
}

#[inline(always)]
fn word(bytes: &[u8], n: usize) -> u32 {
    u32::from_le_bytes([
        bytes[4 * n],
        bytes[4 * n + 1],
        bytes[4 * n + 2],
        bytes[4 * n + 3],
    ])
}

/// The rows of lanes' `N` dwords each.
#[inline(always)]
fn part<const N: usize>(bytes: &[u8; 16 * LANES], rows: &mut [Row; 4]) {
    for n in 0..N {
        for lane in 0..LANES {
            rows[n].0[lane] = word(bytes, lane * N + n);
        }
    }
}

/// Reads `count` dwords (two to four) for each active lane to the rows from `dst` on.
#[inline(always)]
pub fn load_rows(
    wave: &mut Wave,
    env: &mut Env<'_>,
    addresses: &Addresses,
    dst: usize,
    count: usize,
) {
    let exec = wave.exec();
    let mut rows = [Row::ZERO; 4];
    if exec & (addresses.lds | addresses.private) != 0 {
        for (n, row) in rows[..count].iter_mut().enumerate() {
            *row = load_part(wave, env, addresses, 4, 4 * n as u64);
        }
    } else {
        let mut bytes = [0; 16 * LANES];
        gather(wave, env, &addresses.at, 4 * count, &mut bytes);
        match count {
            2 => part::<2>(&bytes, &mut rows),
            3 => part::<3>(&bytes, &mut rows),
            _ => part::<4>(&bytes, &mut rows),
        }
    }
    for (n, row) in rows[..count].iter().enumerate() {
        wave.put(dst + n, row);
    }
}

/// Writes up to four bytes of `row` for each active lane.
#[inline(always)]
pub fn store(wave: &mut Wave, env: &mut Env<'_>, addresses: &Addresses, row: &Row, size: usize) {
    store_part(wave, env, addresses, row, size, 0)
}

#[inline(always)]
fn store_part(
    wave: &mut Wave,
    env: &mut Env<'_>,
    addresses: &Addresses,
    row: &Row,
    size: usize,
    more: u64,
) {
    let exec = wave.exec();
    if exec & addresses.lds != 0 || addresses.is_split(exec, size) {
        for lane in Active(exec) {
            let bytes = row.0[lane].to_le_bytes();
            if addresses.lds >> lane & 1 == 1 {
                env.lds.write(addresses.shared(lane, more), &bytes[..size]);
                continue;
            }
            for (n, byte) in bytes[..size].iter().enumerate() {
                let at = addresses.memory(lane, more + n as u64);
                if let Err(fault) = env.host.store(at, &[*byte]) {
                    wave.faulted(fault);
                }
            }
        }
        return;
    }
    let at = memory_addresses(addresses, exec, more);
    let mut bytes = [0; 4 * LANES];
    match size {
        1 => {
            for lane in 0..LANES {
                bytes[lane] = row.0[lane] as u8;
            }
        }
        2 => {
            for lane in 0..LANES {
                bytes[2 * lane..2 * lane + 2].copy_from_slice(&(row.0[lane] as u16).to_le_bytes());
            }
        }
        _ => {
            for lane in 0..LANES {
                bytes[4 * lane..4 * lane + 4].copy_from_slice(&row.0[lane].to_le_bytes());
            }
        }
    }
    scatter(wave, env, &at, size, &bytes);
}

/// Writes `count` dwords for each active lane from the rows from `src` on.
#[inline(always)]
pub fn store_rows(
    wave: &mut Wave,
    env: &mut Env<'_>,
    addresses: &Addresses,
    src: usize,
    count: usize,
) {
    if wave.exec() & (addresses.lds | addresses.private) != 0 {
        for n in 0..count {
            let row = wave.rows[src + n];
            store_part(wave, env, addresses, &row, 4, 4 * n as u64);
        }
        return;
    }
    let mut bytes = [0; 16 * LANES];
    for n in 0..count {
        let row = &wave.rows[src + n].0;
        for lane in 0..LANES {
            let at = 4 * (lane * count + n);
            bytes[at..at + 4].copy_from_slice(&row[lane].to_le_bytes());
        }
    }
    scatter(wave, env, &addresses.at, 4 * count, &bytes);
}
