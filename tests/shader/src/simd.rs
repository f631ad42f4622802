// SPDX-License-Identifier: GPL-2.0
//! Which build of an instruction's lane loop runs: with AVX2 and FMA where the machine has them, else the baseline.
//!
//! The only module with `unsafe`: a function that was compiled for more than the baseline must not be called on a
//! machine that has less.

use std::sync::LazyLock;

use crate::decode::Inst;
use crate::env::Env;
use crate::wave::{Flow, Wave};

/// What an instruction does. `run` and what it calls for each lane have to be `#[inline(always)]` and no closures, or
/// they are compiled for the baseline only, where a fused multiplication is a call.
pub trait Body {
    /// Executes `inst` for `wave`, whose PC is behind the instruction already.
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow;
}

/// A [`Body`], compiled for this machine.
#[derive(Clone, Copy)]
pub struct Handler(unsafe fn(&Inst, &mut Wave, &mut Env<'_>) -> Flow);

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn wide<B: Body>(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    B::run(inst, wave, env)
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
    /// The fastest build of `B` that this machine can run. With `RKFD_SHADER_BASELINE` in the environment the
    /// baseline.
    pub fn of<B: Body>() -> Handler {
        #[cfg(target_arch = "x86_64")]
        if *WIDE {
            return Handler(wide::<B>);
        }
        Handler(baseline::<B>)
    }

    /// Executes it.
    #[inline(always)]
    pub fn call(self, inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        // SAFETY: `of` took the wide build only after the machine was found to have all that it was compiled for.
        unsafe { (self.0)(inst, wave, env) }
    }
}
