// SPDX-License-Identifier: GPL-2.0
//! Surprise removal: the board is pulled out, or its link fails for good, without notice. Registers
//! and configuration space read as ones and ignore writes, and no part of it works any more. When
//! it is put in again it is as after power-up.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub struct Removal {
    /// Accesses to registers that still reach it, once they are counted.
    left: AtomicI64,
    counts: AtomicBool,
    gone: AtomicBool,
    /// The same, to be counted from a line of the firmware's trace on.
    later: AtomicI64,
}

impl Removal {
    /// Removes it after `accesses` more to its registers.
    pub fn after(&self, accesses: u32) {
        self.left.store(accesses.into(), Ordering::Release);
        self.counts.store(true, Ordering::Release);
    }

    /// Removes it after `accesses` more to its registers, counted from an expected line of the
    /// firmware's trace on.
    pub fn after_line(&self, accesses: u32) {
        self.later.store(accesses.into(), Ordering::Release);
    }

    /// That line has come.
    pub fn line_came(&self) {
        let accesses = self.later.load(Ordering::Acquire);
        self.left.store(accesses, Ordering::Release);
        self.counts.store(true, Ordering::Release);
    }

    /// Counts an access to a register. Returns whether the board is removed by then.
    pub fn happens(&self) -> bool {
        self.counts.load(Ordering::Acquire)
            && self.left.fetch_sub(1, Ordering::AcqRel) <= 0
            && self.counts.swap(false, Ordering::AcqRel)
            && !self.gone.swap(true, Ordering::AcqRel)
    }

    /// Returns whether it is removed.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Puts it in again, to stay.
    pub fn end(&self) {
        self.counts.store(false, Ordering::Release);
        self.gone.store(false, Ordering::Release);
    }
}
