// SPDX-License-Identifier: GPL-2.0
//! Operations of atomic instructions on a word of memory or LDS.

use half::{bf16, f16};

use crate::env::{Fault, Host};
use crate::valu::float as fp;

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
    /// Two bf16, in a dword.
    PkAddBf16,
}

/// Defines operations on a word of one size, whose operands are the new value and another one.
macro_rules! word {
    ($name:ident, $unsigned:ty, $signed:ty, $float:ty, $least:path, $most:path, $doc:literal) => {
        #[doc = $doc]
        pub fn $name(self, old: $unsigned, (a, b): ($unsigned, $unsigned)) -> $unsigned {
            use Operation::*;
            let signed =
                |f: fn($signed, $signed) -> $signed| f(old as $signed, a as $signed) as $unsigned;
            let float = |f: fn($float, $float) -> $float| {
                f(<$float>::from_bits(old), <$float>::from_bits(a)).to_bits()
            };
            match self {
                Swap => a,
                CompareSwap if old == b => a,
                CompareSwap => old,
                Add => old.wrapping_add(a),
                Sub => old.wrapping_sub(a),
                ReverseSub => a.wrapping_sub(old),
                MinI => signed(Ord::min),
                MinU => old.min(a),
                MaxI => signed(Ord::max),
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
                MinF => float($least),
                MaxF => float($most),
                PkAddF16 => add_halves(old.into(), a.into()) as $unsigned,
                PkAddBf16 => add_bf16(old as u32, a as u32) as $unsigned,
            }
        }
    };
}

impl Operation {
    /// By the low five bits of the opcode in FLAT, MUBUF and SMEM, which is the same for both
    /// sizes.
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

    word!(
        apply32,
        u32,
        i32,
        f32,
        least32,
        most32,
        "The new value of a dword."
    );
    word!(
        apply64,
        u64,
        i64,
        f64,
        least64,
        most64,
        "The new value of a qword."
    );
}

/// Defines the less or the greater of two floats. A signalling NaN becomes the result, as a quiet
/// one; a quiet one loses to a number; -0 is less than +0 (the LDS and L2 tests of rocm-systems'
/// rocjitsu).
macro_rules! chosen {
    ($name:ident, $float:ty, $choose:path, $quiet:path, $bit:literal, $doc:literal) => {
        #[doc = $doc]
        fn $name(old: $float, a: $float) -> $float {
            let signals = |value: $float| value.is_nan() && value.to_bits() >> $bit & 1 == 0;
            if signals(old) {
                $quiet(old)
            } else if signals(a) {
                $quiet(a)
            } else {
                $choose(old, a)
            }
        }
    };
}
chosen!(
    least32,
    f32,
    fp::min32,
    fp::quiet32,
    22,
    "The less of two floats."
);
chosen!(
    most32,
    f32,
    fp::max32,
    fp::quiet32,
    22,
    "The greater of two floats."
);
chosen!(
    least64,
    f64,
    fp::min64,
    fp::quiet64,
    51,
    "The less of two floats."
);
chosen!(
    most64,
    f64,
    fp::max64,
    fp::quiet64,
    51,
    "The greater of two floats."
);

/// The sums of the f16 in two words.
fn add_halves(old: u64, a: u64) -> u64 {
    let half = |word: u64, shift: u32| f16::from_bits((word >> shift) as u16).to_f32();
    [0, 16, 32, 48].iter().fold(0, |sums, &shift| {
        let sum = f16::from_f32(half(old, shift) + half(a, shift));
        sums | u64::from(sum.to_bits()) << shift
    })
}

/// The sums of the bf16 in two dwords. They are rounded to f32 first, whose bits are enough for the
/// second rounding to find the nearest bf16.
pub fn add_bf16(old: u32, a: u32) -> u32 {
    let half = |word: u32, shift: u32| f32::from_bits(word >> shift << 16);
    [0, 16].iter().fold(0, |sums, &shift| {
        let sum = bf16::from_f32(half(old, shift) + half(a, shift));
        sums | u32::from(sum.to_bits()) << shift
    })
}

/// Applies it to memory. Returns the old value.
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
