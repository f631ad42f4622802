// SPDX-License-Identifier: GPL-2.0
//! Selection of the build of an instruction's lane loop: with AVX2 and FMA where the machine has
//! them, else the baseline. Arithmetic of the baseline goes lane by lane, in the functions that
//! masked and denormal operands need anyway: a second set of loops over all lanes was a third of
//! the time that this crate takes to compile.
//!
//! The only module with `unsafe`: a function that was compiled for more than the baseline must not
//! be called on a machine that has less.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64 as x86;
#[cfg(target_arch = "x86_64")]
use std::mem::transmute;
use std::sync::LazyLock;

use half::f16;
use zerocopy::transmute_ref;

use crate::decode::Inst;
use crate::env::Env;
use crate::valu::halves::{self, Widen};
use crate::wave::{Flow, Row, Wave};

/// The body of an instruction. `run` and the functions that it calls for each lane have to be
/// `#[inline(always)]` and no closures, or they are compiled for the baseline only, where a fused
/// multiplication is a call.
pub trait Body {
    /// Executes `inst` for `wave`, whose PC is behind the instruction already.
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow;
}

/// A [`Body`] that uses its build for operations that the compiler does not turn into instructions.
pub trait Tuned {
    /// See [`Body::run`].
    fn run<B: Build>(build: B, inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow;
}

/// Operations that builds implement in their own ways, with the same results.
pub trait Build: Copy {
    /// Loops over all lanes are worth their size.
    const IS_WIDE: bool;
    /// See [`Widen`].
    fn widen(self, from: &[u16; 8]) -> [f32; 8];
    /// See [`halves::narrow`].
    fn narrow(self, from: &[[f32; 8]; 2]) -> [u16; 16];
    /// For each place in `from`, of which the low four bits count, the value there in `row`.
    fn permute(self, row: &[u32; 16], from: &[u32; 16]) -> [u32; 16];
}

/// For each lane the value in `row` of the lane in `from`, of which the low six bits count.
#[inline(always)]
pub fn permuted_row(build: impl Build, row: &Row, from: &Row) -> Row {
    let row: &[[u32; 16]; 4] = transmute_ref!(&row.0);
    let from: &[[u32; 16]; 4] = transmute_ref!(&from.0);
    let mut out = [[0; 16]; 4];
    for (out, from) in out.iter_mut().zip(from) {
        for (quarter, row) in (0..).zip(row) {
            let values = build.permute(row, from);
            for n in 0..16 {
                let here = 0u32.wrapping_sub(u32::from(from[n] >> 4 & 3 == quarter));
                out[n] |= values[n] & here;
            }
        }
    }
    Row(zerocopy::transmute!(out))
}

/// The build that runs on any machine.
#[derive(Clone, Copy)]
pub struct Baseline;

impl Build for Baseline {
    const IS_WIDE: bool = false;

    #[inline(always)]
    fn widen(self, from: &[u16; 8]) -> [f32; 8] {
        from.map(|half| f16::from_bits(half).widen())
    }

    #[inline(always)]
    fn narrow(self, from: &[[f32; 8]; 2]) -> [u16; 16] {
        let from: &[f32; 16] = transmute_ref!(from);
        from.map(|float| halves::narrow(float).to_bits())
    }

    #[inline(always)]
    fn permute(self, row: &[u32; 16], from: &[u32; 16]) -> [u32; 16] {
        from.map(|place| row[place as usize & 15])
    }
}

/// The build with AVX2, FMA and F16C. There is one only where the machine has these.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub struct Wide(());

#[cfg(target_arch = "x86_64")]
impl Wide {
    /// Returns it if the machine can run it.
    pub fn new() -> Option<Wide> {
        (*WIDE).then_some(Wide(()))
    }
}

#[cfg(target_arch = "x86_64")]
impl Build for Wide {
    const IS_WIDE: bool = true;

    #[inline(always)]
    fn widen(self, from: &[u16; 8]) -> [f32; 8] {
        // SAFETY: the machine has F16C, or there would be no `self`. Vectors and arrays have the
        // same size, and any bits are a value of either.
        unsafe {
            let from = transmute::<[u16; 8], x86::__m128i>(*from);
            transmute::<x86::__m256, [f32; 8]>(x86::_mm256_cvtph_ps(from))
        }
    }

    #[inline(always)]
    fn narrow(self, from: &[[f32; 8]; 2]) -> [u16; 16] {
        // SAFETY: as in `widen`.
        unsafe {
            const NEAREST: i32 = x86::_MM_FROUND_TO_NEAREST_INT;
            let [low, high] = transmute::<[[f32; 8]; 2], [x86::__m256; 2]>(*from);
            let low = x86::_mm256_cvtps_ph::<NEAREST>(low);
            let high = x86::_mm256_cvtps_ph::<NEAREST>(high);
            // One store for both: after two stores, a load of 32 bytes would have to wait until
            // they are in the cache.
            transmute::<x86::__m256i, [u16; 16]>(x86::_mm256_set_m128i(high, low))
        }
    }

    #[inline(always)]
    fn permute(self, row: &[u32; 16], from: &[u32; 16]) -> [u32; 16] {
        // SAFETY: as in `widen`, with AVX2.
        unsafe {
            let [low, high] = transmute::<[u32; 16], [x86::__m256i; 2]>(*row);
            let mut out = transmute::<[u32; 16], [x86::__m256i; 2]>(*from);
            for out in &mut out {
                let from = *out;
                let low = x86::_mm256_permutevar8x32_epi32(low, from);
                let high = x86::_mm256_permutevar8x32_epi32(high, from);
                // The bit above the place in a half of the row goes to the top, where a blend reads
                // it.
                let which = x86::_mm256_castsi256_ps(x86::_mm256_slli_epi32::<28>(from));
                let (low, high) = (
                    x86::_mm256_castsi256_ps(low),
                    x86::_mm256_castsi256_ps(high),
                );
                *out = x86::_mm256_castps_si256(x86::_mm256_blendv_ps(low, high, which));
            }
            transmute::<[x86::__m256i; 2], [u32; 16]>(out)
        }
    }
}

/// A [`Body`], compiled for this machine.
#[derive(Clone, Copy)]
pub struct Handler(unsafe fn(&Inst, &mut Wave, &mut Env<'_>) -> Flow);

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn wide<B: Body>(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    B::run(inst, wave, env)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn wide_tuned<T: Tuned>(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    T::run(Wide(()), inst, wave, env)
}

fn baseline_tuned<T: Tuned>(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    T::run(Baseline, inst, wave, env)
}

fn baseline<B: Body>(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    B::run(inst, wave, env)
}

#[cfg(target_arch = "x86_64")]
static WIDE: LazyLock<bool> = LazyLock::new(|| {
    std::env::var_os("RKFD_SHADER_BASELINE").is_none()
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
});

impl Handler {
    /// The fastest build of `B` that this machine can run. With `RKFD_SHADER_BASELINE` in the
    /// environment the baseline.
    pub fn of<B: Body>() -> Handler {
        #[cfg(target_arch = "x86_64")]
        if *WIDE {
            return Handler(wide::<B>);
        }
        Handler(baseline::<B>)
    }

    /// See [`Handler::of`].
    pub fn tuned<T: Tuned>() -> Handler {
        #[cfg(target_arch = "x86_64")]
        if *WIDE {
            return Handler(wide_tuned::<T>);
        }
        Handler(baseline_tuned::<T>)
    }

    /// Executes it.
    #[inline(always)]
    pub fn call(self, inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        // SAFETY: `of` and `tuned` took the wide build only after the machine was found to have all
        // that it was compiled for.
        unsafe { (self.0)(inst, wave, env) }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn builds_do_the_same() {
        let Some(wide) = Wide::new() else {
            return;
        };
        for first in (0..=u16::MAX).step_by(8) {
            let from = std::array::from_fn(|n| first + n as u16);
            let bits = |floats: [f32; 8]| floats.map(f32::to_bits);
            assert_eq!(bits(wide.widen(&from)), bits(Baseline.widen(&from)));
        }
        let check = |floats: [f32; 16]| {
            let from = transmute_ref!(&floats);
            assert_eq!(wide.narrow(from), Baseline.narrow(from), "{from:?}");
        };
        for first in (0..=u32::MAX).step_by(4001) {
            let float = |n: usize| f32::from_bits(first.wrapping_add(999 * n as u32));
            check(std::array::from_fn(float));
        }
        // The neighbourhood of all halves, and the points half way between.
        for half in 0..=u16::MAX {
            let bits = f16::from_bits(half).to_f32().to_bits();
            check(std::array::from_fn(|n| {
                let middle = bits + if n < 8 { 0 } else { 0x1000 };
                f32::from_bits(middle.wrapping_add(n as u32 % 8).wrapping_sub(4))
            }));
        }
        let row = std::array::from_fn(|n| 100 + n as u32);
        for step in 0..32 {
            let from = std::array::from_fn(|n| n as u32 * step + step / 2);
            assert_eq!(wide.permute(&row, &from), Baseline.permute(&row, &from));
        }
    }
}
