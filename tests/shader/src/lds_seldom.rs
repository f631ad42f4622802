// SPDX-License-Identifier: GPL-2.0
//! DS instructions that compilers seldom emit, lane by lane.

use crate::decode::Inst;
use crate::env::Env;
use crate::lds_words::row_of;
use crate::simd::{Body, Handler};
use crate::vmem::data_row;
use crate::wave::{sgpr, Flow, Reason, Row, Wave};

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seldom {
    /// Compare as floats, and swap: eight bytes; returns the old value.
    CompareSwapFloat(bool, bool),
    /// Swaps at two places: eight bytes; offsets count 64 of them.
    Swap2(bool, bool),
    /// Less the first operand, or if that is more than the old value, plus the second one.
    Wrap,
    /// Swaps those of two dwords whose operands have bit 31, which is not stored.
    SwapMarked,
    /// Writes a dword at M0 and four times the lane.
    WriteByLane,
    /// Reads it.
    ReadByLane,
    /// Adds the number of active lanes to a dword at M0, or subtracts it.
    Append,
    /// See above.
    Consume,
}

impl Seldom {
    /// By the opcode.
    pub fn of(op: u32) -> Option<Seldom> {
        use Seldom::*;
        Some(match op {
            17 => CompareSwapFloat(false, false),
            49 => CompareSwapFloat(false, true),
            81 => CompareSwapFloat(true, false),
            113 => CompareSwapFloat(true, true),
            46 => Swap2(false, false),
            47 => Swap2(false, true),
            110 => Swap2(true, false),
            111 => Swap2(true, true),
            52 => Wrap,
            126 => SwapMarked,
            29 => WriteByLane,
            182 => ReadByLane,
            189 => Consume,
            190 => Append,
            _ => return None,
        })
    }

    /// Registers of the result and of the two operands.
    pub fn registers(self) -> (u32, u32, u32) {
        match self {
            Seldom::CompareSwapFloat(wide, returns) => {
                let words = 1 + u32::from(wide);
                (if returns { words } else { 0 }, words, words)
            }
            Seldom::Swap2(wide, _) => {
                let words = 1 + u32::from(wide);
                (2 * words, words, words)
            }
            Seldom::Wrap => (1, 1, 1),
            Seldom::SwapMarked => (2, 2, 0),
            Seldom::WriteByLane => (0, 1, 0),
            Seldom::ReadByLane | Seldom::Append | Seldom::Consume => (1, 0, 0),
        }
    }
}

/// The handler of all of them.
pub fn handler() -> Handler {
    Handler::of::<Seldoms>()
}

struct Seldoms;

impl Body for Seldoms {
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let Some(seldom) = Seldom::of(inst.op.into()) else {
            return Reason::Unknown.into();
        };
        let operands = [inst.src[1], inst.src[2]].map(|src| data_row(inst, wave, row_of(src)));
        let addresses = wave.rows[usize::from(row_of(inst.src[0]))];
        let offset = inst.imm as u32;
        let base = wave.sgpr[sgpr::M0] & 0xffff;
        let mut results = [Row::ZERO; 4];
        let mut set = |lane: usize, first: usize, value: u64, words: usize| {
            for n in 0..words {
                results[first + n].0[lane] = (value >> (32 * n)) as u32;
            }
        };
        if matches!(seldom, Seldom::Append | Seldom::Consume) {
            let lanes = wave.exec().count_ones();
            let old = env.lds.change(base.wrapping_add(offset), |old| {
                let old = u32::from_le_bytes(old);
                let new = match seldom {
                    Seldom::Append => old.wrapping_add(lanes),
                    _ => old.wrapping_sub(lanes),
                };
                new.to_le_bytes()
            });
            wave.active()
                .for_each(|lane| set(lane, 0, u32::from_le_bytes(old).into(), 1));
        }
        for lane in wave.active() {
            let at = addresses.0[lane];
            let word = |row: usize| wave.rows[row].0[lane];
            let both = |row: usize| u64::from(word(row)) | u64::from(word(row + 1)) << 32;
            let by_lane = base.wrapping_add(offset).wrapping_add(4 * lane as u32);
            match seldom {
                Seldom::CompareSwapFloat(true, _) => {
                    let (expected, new) = (both(operands[0]), both(operands[1]));
                    let old = env.lds.change(at.wrapping_add(offset), |old| {
                        let same = f64::from_le_bytes(old) == f64::from_bits(expected);
                        if same {
                            new.to_le_bytes()
                        } else {
                            old
                        }
                    });
                    set(lane, 0, u64::from_le_bytes(old), 2);
                }
                Seldom::CompareSwapFloat(false, _) => {
                    let (expected, new) = (word(operands[0]), word(operands[1]));
                    let old = env.lds.change(at.wrapping_add(offset), |old| {
                        let same = f32::from_le_bytes(old) == f32::from_bits(expected);
                        if same {
                            new.to_le_bytes()
                        } else {
                            old
                        }
                    });
                    set(lane, 0, u32::from_le_bytes(old).into(), 1);
                }
                Seldom::Swap2(wide, far_apart) => {
                    let words = 1 + usize::from(wide);
                    let unit = 4 * words as u32 * if far_apart { 64 } else { 1 };
                    for (n, offset) in [offset & 0xff, offset >> 8].into_iter().enumerate() {
                        let at = at.wrapping_add(offset * unit);
                        let old = if wide {
                            let new = both(operands[n]).to_le_bytes();
                            u64::from_le_bytes(env.lds.change(at, |_| new))
                        } else {
                            let new = word(operands[n]).to_le_bytes();
                            u32::from_le_bytes(env.lds.change(at, |_| new)).into()
                        };
                        set(lane, n * words, old, words);
                    }
                }
                Seldom::Wrap => {
                    let (less, more) = (word(operands[0]), word(operands[1]));
                    let old = env.lds.change(at.wrapping_add(offset), |old| {
                        let old = u32::from_le_bytes(old);
                        let new = match old.checked_sub(less) {
                            Some(rest) => rest,
                            None => old.wrapping_add(more),
                        };
                        new.to_le_bytes()
                    });
                    set(lane, 0, u32::from_le_bytes(old).into(), 1);
                }
                Seldom::SwapMarked => {
                    let at = at.wrapping_add(offset) & !7;
                    for n in 0..2 {
                        let new = word(operands[0] + n);
                        let old = env.lds.change(at.wrapping_add(4 * n as u32), |old| {
                            if new >> 31 == 1 {
                                (new & !(1 << 31)).to_le_bytes()
                            } else {
                                old
                            }
                        });
                        set(lane, n, u32::from_le_bytes(old).into(), 1);
                    }
                }
                Seldom::WriteByLane => {
                    env.lds.write(by_lane, &word(operands[0]).to_le_bytes());
                }
                Seldom::ReadByLane => {
                    let mut out = [0; 4];
                    env.lds.read(by_lane, &mut out);
                    set(lane, 0, u32::from_le_bytes(out).into(), 1);
                }
                Seldom::Append | Seldom::Consume => {}
            }
        }
        let dst = data_row(inst, wave, inst.dst);
        for n in 0..seldom.registers().0 as usize {
            wave.put(dst + n, &results[n]);
        }
        Flow::Next
    }
}
