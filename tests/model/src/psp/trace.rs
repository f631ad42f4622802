// SPDX-License-Identifier: GPL-2.0
//! What a driver has the firmware do, in order: what two drivers are compared by.
//!
//! One line each: `bl COMMAND BYTES HASH CODE`, `ring make SIZE CODE`, `ring gone`, `psp COMMAND [TYPE BYTES HASH] STATUS`,
//! `tmr BYTES ALIGNED-TO`, `engine NAME start`, `engine NAME stop`, `reg NAME OLD->NEW`. No line has an address of the
//! driver's choice.

use std::sync::{Mutex, PoisonError};

use crate::regs::{gc, hdp, osssys, Reg};

/// A driver that does not stop loading fills no memory.
const MOST: usize = 4096;

/// Registers whose changes are lines: what is set around the load, and the engines' own switches.
const REGISTERS: &[Reg] = &[
    hdp::HDP_MISC_CNTL,
    hdp::HDP_NONSURFACE_BASE,
    hdp::HDP_NONSURFACE_BASE_HI,
    osssys::IH_CHICKEN,
    gc::GB_ADDR_CONFIG,
    gc::TA_CNTL_AUX,
    gc::TCP_UTCL1_CNTL1,
    gc::TCI_CNTL_3,
    gc::TCP_ADDR_CONFIG,
    gc::TCP_CHAN_STEER_0,
    gc::TCP_CHAN_STEER_1,
    gc::TCP_CHAN_STEER_2,
    gc::TCP_CHAN_STEER_3,
    gc::TCP_CHAN_STEER_4,
    gc::TCP_CHAN_STEER_5,
    gc::CP_MEC_CNTL,
    gc::RLC_CNTL,
    gc::RLC_SRM_CNTL,
    gc::RLC_SPM_MC_CNTL,
    gc::RLC_CGCG_CGLS_CTRL,
];

/// The lines so far.
#[derive(Default)]
pub struct Trace(Mutex<Vec<String>>);

impl Trace {
    /// Adds a line.
    pub fn add(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < MOST {
            lines.push(line);
        }
    }

    /// All of them.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.clone()
    }

    /// Whether changes of `reg` are lines.
    pub fn has(reg: Reg) -> bool {
        REGISTERS.contains(&reg)
    }
}
