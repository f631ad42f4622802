// SPDX-License-Identifier: GPL-2.0
//! Atomics of FLAT, GLOBAL and MUBUF: on memory for all lanes at once if the host can do that, else
//! lane by lane, as on private memory and LDS.

use crate::atomic::{self, Operation};
use crate::env::Env;
use crate::lanes::Addresses;
use crate::lds_atomic;
use crate::wave::{Active, Row, Wave, LANES};

/// An atomic of each active lane, in lane order. Operands are in the rows from `src` on: the new
/// value, then for a compare and swap the expected one. The old values go to the rows from `dst`
/// on, if there is one.
pub fn atomic(
    wave: &mut Wave,
    env: &mut Env<'_>,
    addresses: &Addresses,
    (wide, operation): (bool, Operation),
    src: usize,
    dst: Option<usize>,
) {
    let mut old = [Row::ZERO; 2];
    let mut left = wave.exec();
    if left != 0 && left & (addresses.lds | addresses.private) == 0 {
        left = if wide {
            at_once64(wave, env, addresses, operation, src, &mut old)
        } else {
            at_once32(wave, env, addresses, operation, src, &mut old[0])
        };
    }
    for lane in Active(left) {
        let is_lds = addresses.lds >> lane & 1 == 1;
        let at = addresses.memory(lane, 0);
        let value = if wide {
            let operands = operands64(wave, operation, src, lane);
            if is_lds {
                lds64(env, addresses.shared(lane, 0), operation, operands)
            } else {
                let old = atomic::global64(env.host, at, operation, operands);
                old.unwrap_or_else(|fault| {
                    wave.faulted(fault);
                    0
                })
            }
        } else {
            let operands = operands32(wave, operation, src, lane);
            if is_lds {
                let at = addresses.shared(lane, 0);
                lds32(env, at, operation, operands, wave.mode).into()
            } else {
                let old = atomic::global32(env.host, at, operation, operands);
                u64::from(old.unwrap_or_else(|fault| {
                    wave.faulted(fault);
                    0
                }))
            }
        };
        (old[0].0[lane], old[1].0[lane]) = (value as u32, (value >> 32) as u32);
    }
    if let Some(dst) = dst {
        wave.put(dst, &old[0]);
        if wide {
            wave.put(dst + 1, &old[1]);
        }
    }
}

fn operands32(wave: &Wave, operation: Operation, src: usize, lane: usize) -> (u32, u32) {
    let register = |n: usize| wave.rows[src + n].0[lane];
    match operation {
        Operation::CompareSwap => (register(0), register(1)),
        _ => (register(0), 0),
    }
}

fn operands64(wave: &Wave, operation: Operation, src: usize, lane: usize) -> (u64, u64) {
    let register = |n: usize| u64::from(wave.rows[src + n].0[lane]);
    let double = |n: usize| register(n) | register(n + 1) << 32;
    match operation {
        Operation::CompareSwap => (double(0), double(2)),
        _ => (double(0), 0),
    }
}

/// Lets the host do it for all lanes. Returns those that are left.
fn at_once32(
    wave: &Wave,
    env: &Env<'_>,
    addresses: &Addresses,
    operation: Operation,
    src: usize,
    old: &mut Row,
) -> u64 {
    let mut change =
        |lane: usize, word: u32| operation.apply32(word, operands32(wave, operation, src, lane));
    env.host
        .atomic32_lanes(&addresses.at, wave.exec(), &mut change, &mut old.0)
}

/// See above.
fn at_once64(
    wave: &Wave,
    env: &Env<'_>,
    addresses: &Addresses,
    operation: Operation,
    src: usize,
    old: &mut [Row; 2],
) -> u64 {
    let mut change =
        |lane: usize, word: u64| operation.apply64(word, operands64(wave, operation, src, lane));
    let mut words = [0; LANES];
    let left = env
        .host
        .atomic64_lanes(&addresses.at, wave.exec(), &mut change, &mut words);
    for (lane, word) in words.iter().enumerate() {
        (old[0].0[lane], old[1].0[lane]) = (*word as u32, (*word >> 32) as u32);
    }
    left
}

/// An atomic on a dword of LDS; gives the old value.
fn lds32(env: &mut Env<'_>, at: u32, operation: Operation, operands: (u32, u32), mode: u32) -> u32 {
    let old = env.lds.change(at, |old| {
        lds_atomic::in_lds(u32::from_le_bytes(old), operation, operands, mode).to_le_bytes()
    });
    u32::from_le_bytes(old)
}

/// An atomic on a qword of LDS; gives the old value.
fn lds64(env: &mut Env<'_>, at: u32, operation: Operation, operands: (u64, u64)) -> u64 {
    let old = env.lds.change(at, |old| {
        operation
            .apply64(u64::from_le_bytes(old), operands)
            .to_le_bytes()
    });
    u64::from_le_bytes(old)
}
