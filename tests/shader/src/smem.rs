// SPDX-License-Identifier: GPL-2.0
//! Scalar memory: SMEM.

use crate::atomic::{self, Operation};
use crate::decode::{bits, flag, Decoded, Inst, Kind, Src, Unknown, Words};
use crate::env::{Env, Need};
use crate::simd::{Body, Handler};
use crate::wave::{Flow, Wave};

/// SMEM.
pub fn decode(words: Words) -> Decoded<Inst> {
    let [word, second, _] = words.0;
    let op = bits(word, 25, 18);
    let handler = match op {
        0..=4 | 8..=12 => Handler::of::<Load>(),
        16..=18 | 24..=26 => Handler::of::<Store>(),
        // Caches are coherent, and so is what translations they have.
        32..=35 | 38..=41 => Handler::of::<Nothing>(),
        36 | 37 => Handler::of::<Clock>(),
        64..=76 | 96..=108 | 128..=140 | 160..=172 => Handler::of::<Atomic>(),
        _ => return Err(Unknown),
    };
    let mut inst = Inst::new(handler, op, 8);
    inst.dst = inst.scalar(bits(word, 12, 6)).into();
    inst.src[0] = Src::S(inst.scalar(bits(word, 5, 0) * 2));
    let glc = bits(word, 16, 16) == 1;
    inst.flags = if glc { flag::GLC } else { 0 };
    // An offset by an SGPR is in the offset's place, or with soffset_en in one of its own.
    let immediate = bits(word, 17, 17) == 1;
    let scalar = bits(word, 14, 14) == 1;
    if immediate {
        inst.imm = (bits(second, 20, 0) << 11) as i32 >> 11;
    }
    if scalar || !immediate {
        let code = if scalar {
            bits(second, 31, 25)
        } else {
            bits(second, 6, 0)
        };
        inst.src[1] = inst.source(code, Kind::Int32, None)?;
    }
    Ok(inst)
}

/// Address of the access. Buffers are their base here; their size is not checked.
fn address(inst: &Inst, wave: &Wave) -> u64 {
    let mut base = wave.scalar64(inst.src[0]);
    if matches!(inst.op, 8..=12 | 24..=26 | 64..=108) {
        base &= (1 << 48) - 1;
    }
    let offset = u64::from(wave.scalar32(inst.src[1]));
    base.wrapping_add(offset)
        .wrapping_add_signed(inst.imm.into())
        & !3
}

/// Returns whether `bytes` at `at` can be accessed now.
#[cold]
fn is_ready(env: &Env<'_>, at: u64, bytes: u64, need: Need) -> bool {
    const PAGE: u64 = 4096;
    let here = bytes.min(PAGE - at % PAGE);
    let ready = env.host.is_ready(at, here, need);
    // Checks all of it, whatever the first page lacks.
    ready & (here == bytes || env.host.is_ready(at.wrapping_add(here), bytes - here, need))
}

struct Load;

impl Body for Load {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let dwords = 1 << (inst.op & 7);
        let bytes = 4 * dwords as u64;
        if env.host.retries() && !is_ready(env, address(inst, wave), bytes, Need::LoadScalar) {
            return Flow::Replay;
        }
        let mut bytes = [0; 64];
        let bytes = &mut bytes[..4 * dwords];
        if let Err(fault) = env.host.load_scalar(address(inst, wave), bytes) {
            wave.faulted(fault);
            bytes.fill(0);
        }
        for (n, word) in bytes.chunks_exact(4).enumerate() {
            let at = (usize::from(inst.dst) + n) & 127;
            wave.sgpr[at] = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        }
        Flow::Next
    }
}

struct Store;

impl Body for Store {
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let dwords = 1 << (inst.op & 7);
        let len = 4 * dwords as u64;
        if env.host.retries() && !is_ready(env, address(inst, wave), len, Need::StoreScalar) {
            return Flow::Replay;
        }
        let mut bytes = Vec::with_capacity(16);
        for n in 0..dwords {
            let at = (usize::from(inst.dst) + n) & 127;
            bytes.extend(wave.sgpr[at].to_le_bytes());
        }
        if let Err(fault) = env.host.store_scalar(address(inst, wave), &bytes) {
            wave.faulted(fault);
        }
        Flow::Next
    }
}

struct Nothing;

impl Body for Nothing {
    fn run(_: &Inst, _: &mut Wave, _: &mut Env<'_>) -> Flow {
        Flow::Next
    }
}

struct Clock;

impl Body for Clock {
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let now = if inst.op == 36 {
            env.host.cycles()
        } else {
            env.host.realtime()
        };
        wave.set_pair(inst.dst.into(), now);
        Flow::Next
    }
}

struct Atomic;

impl Body for Atomic {
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let wide = inst.op & 32 != 0;
        let Some(operation) = Operation::by_number(u32::from(inst.op & 0x1f)) else {
            return crate::wave::Reason::Unknown.into();
        };
        let dst = usize::from(inst.dst);
        let at = address(inst, wave);
        let len = 4 << u64::from(wide);
        if env.host.retries() && !is_ready(env, at, len, Need::Atomic) {
            return Flow::Replay;
        }
        let old = if wide {
            let operands = (wave.pair(dst), wave.pair(dst + 2));
            atomic::global64(env.host, at, operation, operands)
        } else {
            let operands = (wave.sgpr[dst & 127], wave.sgpr[(dst + 1) & 127]);
            atomic::global32(env.host, at, operation, operands).map(u64::from)
        };
        match old {
            Ok(_) if inst.flags & flag::GLC == 0 => {}
            Ok(old) if wide => wave.set_pair(dst, old),
            Ok(old) => wave.sgpr[dst & 127] = old as u32,
            Err(fault) => wave.faulted(fault),
        }
        Flow::Next
    }
}
