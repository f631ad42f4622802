// SPDX-License-Identifier: GPL-2.0
//! The types of lanes' operands, and their layout in registers.

use half::f16;

use crate::decode::Kind;

/// The side of an instruction's sources.
pub const INPUT: u32 = 0;
/// The side of its result.
pub const OUTPUT: u32 = 1;

/// Returns whether no denormals are flushed.
#[inline(always)]
pub fn keeps_denormals(mode: u32) -> bool {
    mode >> 4 & 0xf == 0xf
}

/// Returns whether no denormals of f32 are flushed.
#[inline(always)]
pub fn keeps_f32_denormals(mode: u32) -> bool {
    mode >> 4 & 3 == 3
}

/// Returns whether no denormals of halves are flushed.
#[inline(always)]
pub fn keeps_f16_denormals(mode: u32) -> bool {
    mode >> 6 & 3 == 3
}

/// Returns whether those of halves are flushed on that side.
#[inline(always)]
pub fn flushes_f16(mode: u32, side: u32) -> bool {
    flushes(mode, 6, side)
}

/// The type of an operand.
pub trait Ty: Copy {
    /// Its kind.
    const KIND: Kind;
    /// Reads it from its registers; narrow types have one.
    fn get(lo: u32, hi: u32) -> Self;
    /// Writes it to its registers. The upper half of one is zero for types of 16 bits.
    fn put(self) -> (u32, u32);
    /// As a result it leaves the upper half of its register as it is.
    const KEEPS_HIGH: bool = false;
    /// Zero of the same sign for a denormal, if MODE flushes those of this side ([`INPUT`],
    /// [`OUTPUT`]).
    #[inline(always)]
    fn flush(self, _mode: u32, _side: u32) -> Self {
        self
    }
}

/// Returns whether MODE flushes on that side; `shift` is the field's place. 0 flushes both, 1
/// results, 2 sources (FLOAT_DENORM_MODE in LLVM's AMDGPUUsage).
#[inline(always)]
fn flushes(mode: u32, shift: u32, side: u32) -> bool {
    let field = mode >> shift & 3;
    match side {
        INPUT => field & 1 == 0,
        _ => field & 2 == 0,
    }
}

macro_rules! narrow {
    ($($ty:ty, $kind:ident, $bits:ty);*) => {$(
        impl Ty for $ty {
            const KIND: Kind = Kind::$kind;
            #[inline(always)]
            fn get(lo: u32, _: u32) -> $ty {
                lo as $ty
            }
            #[inline(always)]
            fn put(self) -> (u32, u32) {
                (u32::from(self as $bits), 0)
            }
        }
    )*};
}
narrow!(u32, Int32, u32; i32, Int32, u32; u16, Int16, u16; i16, Int16, u16);

macro_rules! wide {
    ($($ty:ty),*) => {$(
        impl Ty for $ty {
            const KIND: Kind = Kind::Int64;
            #[inline(always)]
            fn get(lo: u32, hi: u32) -> $ty {
                (u64::from(lo) | u64::from(hi) << 32) as $ty
            }
            #[inline(always)]
            fn put(self) -> (u32, u32) {
                (self as u32, (self as u64 >> 32) as u32)
            }
        }
    )*};
}
wide!(u64, i64);

impl Ty for f32 {
    const KIND: Kind = Kind::F32;
    #[inline(always)]
    fn get(lo: u32, _: u32) -> f32 {
        f32::from_bits(lo)
    }
    #[inline(always)]
    fn put(self) -> (u32, u32) {
        (self.to_bits(), 0)
    }
    #[inline(always)]
    fn flush(self, mode: u32, side: u32) -> f32 {
        if flushes(mode, 4, side) && self.is_subnormal() {
            0f32.copysign(self)
        } else {
            self
        }
    }
}

impl Ty for f64 {
    const KIND: Kind = Kind::F64;
    #[inline(always)]
    fn get(lo: u32, hi: u32) -> f64 {
        f64::from_bits(u64::from(lo) | u64::from(hi) << 32)
    }
    #[inline(always)]
    fn put(self) -> (u32, u32) {
        (self.to_bits() as u32, (self.to_bits() >> 32) as u32)
    }
    #[inline(always)]
    fn flush(self, mode: u32, side: u32) -> f64 {
        if flushes(mode, 6, side) && self.is_subnormal() {
            0f64.copysign(self)
        } else {
            self
        }
    }
}

impl Ty for f16 {
    const KIND: Kind = Kind::F16;
    #[inline(always)]
    fn get(lo: u32, _: u32) -> f16 {
        f16::from_bits(lo as u16)
    }
    #[inline(always)]
    fn put(self) -> (u32, u32) {
        (self.to_bits().into(), 0)
    }
    #[inline(always)]
    fn flush(self, mode: u32, side: u32) -> f16 {
        if flushes(mode, 6, side) && self.classify() == std::num::FpCategory::Subnormal {
            f16::from_bits(self.to_bits() & 0x8000)
        } else {
            self
        }
    }
}

/// 16 bits that leave the upper half of their register as it is: results of the instructions that
/// gfx9 has beside older ones of the same arithmetic, and of v_mac_f16, v_madmk_f16, v_madak_f16
/// (LLVM's `zeroesHigh16BitsOfDest`).
#[derive(Debug, Clone, Copy)]
pub struct Low<T>(pub T);

impl<T: Ty> Ty for Low<T> {
    const KIND: Kind = T::KIND;
    const KEEPS_HIGH: bool = true;
    #[inline(always)]
    fn get(lo: u32, hi: u32) -> Low<T> {
        Low(T::get(lo, hi))
    }
    #[inline(always)]
    fn put(self) -> (u32, u32) {
        self.0.put()
    }
    #[inline(always)]
    fn flush(self, mode: u32, side: u32) -> Low<T> {
        Low(self.0.flush(mode, side))
    }
}
