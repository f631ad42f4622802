// SPDX-License-Identifier: GPL-2.0
//! What atomic instructions do to a word of memory or LDS.

use half::f16;

use crate::env::{Fault, Host};

/// An atomic's operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The new value.
    Swap,
    /// The new value if the old one is the second operand.
    CompareSwap,
    /// Integer arithmetic.
    Add,
    /// See above.
    Sub,
    /// The operand less the old value.
    ReverseSub,
    /// Signed.
    MinI,
    /// See above.
    MinU,
    /// See above.
    MaxI,
    /// See above.
    MaxU,
    /// Bits.
    And,
    /// See above.
    Or,
    /// See above.
    Xor,
    /// Up to the operand, then 0.
    Inc,
    /// Down to 0, then the operand.
    Dec,
    /// Bits of the operand are cleared, those of the second one set.
    MaskOr,
    /// Floating point of the word's size.
    AddF,
    /// See above.
    MinF,
    /// See above.
    MaxF,
    /// Two f16.
    PkAddF16,
}

impl Operation {
    /// By the low five bits of the opcode in FLAT, MUBUF and SMEM, which is the same for both sizes.
    pub fn by_number(number: u32) -> Option<Operation> {
        use Operation::*;
        Some(match number {
            0 => Swap,
            1 => CompareSwap,
            2 => Add,
            3 => Sub,
            4 => MinI,
            5 => MinU,
            6 => MaxI,
            7 => MaxU,
            8 => And,
            9 => Or,
            10 => Xor,
            11 => Inc,
            12 => Dec,
            _ => return None,
        })
    }

    /// The new value of a dword.
    pub fn apply32(self, old: u32, (a, b): (u32, u32)) -> u32 {
        use Operation::*;
        let float = |f: fn(f32, f32) -> f32| f(f32::from_bits(old), f32::from_bits(a)).to_bits();
        match self {
            Swap => a,
            CompareSwap if old == b => a,
            CompareSwap => old,
            Add => old.wrapping_add(a),
            Sub => old.wrapping_sub(a),
            ReverseSub => a.wrapping_sub(old),
            MinI => (old as i32).min(a as i32) as u32,
            MinU => old.min(a),
            MaxI => (old as i32).max(a as i32) as u32,
            MaxU => old.max(a),
            And => old & a,
            Or => old | a,
            Xor => old ^ a,
            Inc if old >= a => 0,
            Inc => old + 1,
            Dec if old == 0 || old > a => a,
            Dec => old - 1,
            MaskOr => old & !a | b,
            AddF => float(|x, y| x + y),
            MinF => float(f32::min),
            MaxF => float(f32::max),
            PkAddF16 => {
                let half = |shift: u32| {
                    let x = f16::from_bits((old >> shift) as u16).to_f32();
                    let y = f16::from_bits((a >> shift) as u16).to_f32();
                    u32::from(f16::from_f32(x + y).to_bits()) << shift
                };
                half(0) | half(16)
            }
        }
    }

    /// The new value of a qword.
    pub fn apply64(self, old: u64, (a, b): (u64, u64)) -> u64 {
        use Operation::*;
        let float = |f: fn(f64, f64) -> f64| f(f64::from_bits(old), f64::from_bits(a)).to_bits();
        match self {
            Swap => a,
            CompareSwap if old == b => a,
            CompareSwap | PkAddF16 => old,
            Add => old.wrapping_add(a),
            Sub => old.wrapping_sub(a),
            ReverseSub => a.wrapping_sub(old),
            MinI => (old as i64).min(a as i64) as u64,
            MinU => old.min(a),
            MaxI => (old as i64).max(a as i64) as u64,
            MaxU => old.max(a),
            And => old & a,
            Or => old | a,
            Xor => old ^ a,
            Inc if old >= a => 0,
            Inc => old + 1,
            Dec if old == 0 || old > a => a,
            Dec => old - 1,
            MaskOr => old & !a | b,
            AddF => float(|x, y| x + y),
            MinF => float(f64::min),
            MaxF => float(f64::max),
        }
    }
}

/// Applies it to memory; gives the old value.
pub fn global32(
    host: &dyn Host,
    at: u64,
    operation: Operation,
    operands: (u32, u32),
) -> Result<u32, Fault> {
    host.atomic32(at, &mut |old| operation.apply32(old, operands))
}

/// See [`global32`].
pub fn global64(
    host: &dyn Host,
    at: u64,
    operation: Operation,
    operands: (u64, u64),
) -> Result<u64, Fault> {
    host.atomic64(at, &mut |old| operation.apply64(old, operands))
}
