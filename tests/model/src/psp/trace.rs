// SPDX-License-Identifier: GPL-2.0
//! The commands of a driver to the firmware, in order, for the comparison of two drivers.
//!
//! One line each: `bl COMMAND BYTES HASH CODE`, `ring make SIZE CODE`, `ring gone`, `psp COMMAND
//! [TYPE BYTES HASH] STATUS`, `tmr BYTES ALIGNED-TO`, `engine NAME start`, `engine NAME stop`, `reg
//! NAME OLD->NEW`. No line has an address of the driver's choice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::regs::{gc, hdp, osssys, Reg};

/// A driver that loads without end must not fill memory.
const MOST: usize = 4096;

/// Registers whose changes are lines: those written around the load, and the engines' own switches.
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
pub struct Trace {
    lines: Mutex<Vec<String>>,
    /// Beginning of the awaited line.
    awaited: Mutex<Option<String>>,
    /// Such a line has come.
    came: AtomicBool,
}

impl Trace {
    /// Adds a line.
    pub fn add(&self, line: String) {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        if awaited
            .take_if(|start| line.starts_with(start.as_str()))
            .is_some()
        {
            self.came.store(true, Ordering::Release);
        }
        drop(awaited);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < MOST {
            lines.push(line);
        }
    }

    /// All lines.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.clone()
    }

    /// Begins to wait for a line that begins with `start`.
    pub fn wait_for(&self, start: String) {
        self.came.store(false, Ordering::Release);
        *self.awaited.lock().unwrap_or_else(PoisonError::into_inner) = Some(start);
    }

    /// Returns whether it has come. True only once.
    pub fn has_come(&self) -> bool {
        self.came.load(Ordering::Relaxed) && self.came.swap(false, Ordering::AcqRel)
    }

    /// Returns whether changes of `reg` are lines.
    pub fn has(reg: Reg) -> bool {
        REGISTERS.contains(&reg)
    }
}
