// SPDX-License-Identifier: GPL-2.0
//! The board is pulled out, or its link fails for good, and nobody says so: registers and configuration space read as ones and take
//! nothing, and nothing of it does anything any more. When it is put in again it is as after power-up.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub struct Removal {
    /// Accesses to registers that still reach it, once that is counted.
    left: AtomicI64,
    counts: AtomicBool,
    gone: AtomicBool,
    /// The same, to be counted from a line of the firmware's trace on.
    later: AtomicI64,
}

impl Removal {
    /// It goes after `accesses` more to its registers.
    pub fn after(&self, accesses: u32) {
        self.left.store(accesses.into(), Ordering::Release);
        self.counts.store(true, Ordering::Release);
    }

    /// It goes after `accesses` more to its registers, counted from a line of the firmware's trace on that is waited for.
    pub fn after_line(&self, accesses: u32) {
        self.later.store(accesses.into(), Ordering::Release);
    }

    /// That line has come.
    pub fn line_came(&self) {
        let accesses = self.later.load(Ordering::Acquire);
        self.left.store(accesses, Ordering::Release);
        self.counts.store(true, Ordering::Release);
    }

    /// Somebody accesses a register: whether it goes now.
    pub fn happens(&self) -> bool {
        self.counts.load(Ordering::Acquire)
            && self.left.fetch_sub(1, Ordering::AcqRel) <= 0
            && self.counts.swap(false, Ordering::AcqRel)
            && !self.gone.swap(true, Ordering::AcqRel)
    }

    /// Whether it is gone.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// It is put in again, and stays.
    pub fn end(&self) {
        self.counts.store(false, Ordering::Release);
        self.gone.store(false, Ordering::Release);
    }
}
