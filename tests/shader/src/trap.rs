// SPDX-License-Identifier: GPL-2.0
//! The ways of a wave into the trap handler and out of it.

use crate::env::Host;
use crate::hwreg::{status, DEBUG_EN, EXCP_EN, WATCH_EN};
use crate::wave::{sgpr, trapsts, State, Wave};

/// Bytes of s_barrier.
const BARRIER: u64 = 4;
/// Distance from the handler's start to the restore entry.
const RESTORE: u64 = 4;

/// Sign-extends an address of 48 bits.
pub fn extend(address: u64) -> u64 {
    ((address << 16) as i64 >> 16) as u64
}

/// The restore entry of the handler at `handler`.
pub fn restore_entry(handler: u64) -> u64 {
    handler.wrapping_add(RESTORE)
}

impl Wave {
    /// Returns STATUS.PRIV: it executes the trap handler.
    #[inline(always)]
    pub fn is_privileged(&self) -> bool {
        self.status & status::PRIV != 0
    }

    /// STATUS.TRAP_EN.
    pub fn has_handler(&self) -> bool {
        self.status & status::TRAP_EN != 0
    }

    /// Returns whether a part of its state has to be checked before its next instruction.
    #[inline(always)]
    pub(crate) fn has_alert(&self) -> bool {
        const TRAPS: u32 =
            trapsts::EXCP | trapsts::MEM_VIOL | trapsts::ILLEGAL_INST | trapsts::SAVECTX;
        self.hit || self.trapsts & TRAPS | self.status & status::HALT | self.mode & DEBUG_EN != 0
    }

    /// Enters the trap handler if there is a reason to. Returns false if the wave is halted.
    pub(crate) fn attend(&mut self, host: &dyn Host) -> bool {
        if !self.has_alert() || self.is_privileged() {
            return true;
        }
        let halted = self.status & status::HALT != 0;
        let saves = self.trapsts & trapsts::SAVECTX != 0;
        if self.has_handler() && (saves || !halted && self.is_excepted()) {
            self.enter_handler(host, 0);
            return true;
        }
        !halted
    }

    /// Returns whether there is a reason other than a save.
    fn is_excepted(&mut self) -> bool {
        let always = trapsts::MEM_VIOL | trapsts::ILLEGAL_INST;
        let enabled = (self.mode & EXCP_EN) >> 12 & self.trapsts & trapsts::EXCP;
        let hit = std::mem::replace(&mut self.hit, false);
        let watched = hit && self.mode & WATCH_EN != 0;
        let stepped = std::mem::replace(&mut self.stepped, self.mode & DEBUG_EN != 0);
        self.trapsts & always | enabled != 0 || watched || stepped
    }

    /// Continues with the trap handler, from the present PC.
    pub(crate) fn enter_handler(&mut self, host: &dyn Host, trap: u8) {
        self.sgpr[sgpr::TTMP] = self.pc as u32;
        self.sgpr[sgpr::TTMP + 1] = (self.pc >> 32) as u32 & 0xffff | u32::from(trap) << 16;
        self.status |= status::PRIV;
        self.stepped = false;
        self.pc = host.trap_handler();
    }

    /// s_rfe_b64.
    pub(crate) fn leave_handler(&mut self, pc: u64) {
        self.pc = extend(pc) & !3;
        self.status &= !status::PRIV;
        self.restoring = false;
    }

    /// Handles code at the PC that cannot be fetched. Returns true if the handler is entered,
    /// halted.
    pub(crate) fn misses_code(&mut self, host: &dyn Host) -> bool {
        if self.is_privileged() || !self.has_handler() {
            return false;
        }
        self.status |= status::HALT;
        self.enter_handler(host, 0);
        true
    }

    /// Handles an instruction at the PC that does not exist. Returns true if the handler is
    /// entered.
    pub(crate) fn is_illegal(&mut self, host: &dyn Host) -> bool {
        self.trapsts |= trapsts::ILLEGAL_INST;
        if self.is_privileged() || !self.has_handler() {
            host.illegal(self.hw_id);
            return false;
        }
        self.enter_handler(host, 0);
        true
    }

    /// Asks it to save itself. A wave that waits at a barrier has not arrived there yet.
    pub(crate) fn save(&mut self) {
        self.trapsts |= trapsts::SAVECTX;
        if self.state == State::Barrier && !self.is_privileged() && self.has_handler() {
            self.pc = self.pc.wrapping_sub(BARRIER);
            self.state = State::Running;
        }
    }
}
