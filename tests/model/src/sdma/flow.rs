// SPDX-License-Identifier: GPL-2.0
//! Packets that wait, branch, or touch registers.

use super::execute::{Executor, Work};
use super::packet::{Polled, Refusal};
use crate::condition::Condition;
use crate::error::{ModelError, Result};
use crate::indirect::Ib;
use crate::regs::{nbio, Field};

/// The place in a group of eight dwords at which INDIRECT has to begin, so that it ends with the
/// group.
const INDIRECT_PHASE: u64 = 2;

impl Executor<'_> {
    /// POLL_REGMEM: one try.
    pub(super) fn poll(
        &self,
        what: Polled,
        until: Condition,
        retries: Option<u32>,
    ) -> Result<std::result::Result<Work, Refusal>> {
        let register = |byte: u64| match u32::try_from(byte / 4) {
            Ok(dword) if self.gpu.regs.is_inside(dword) && byte % 4 == 0 => Ok(dword),
            _ => Err(ModelError::UnknownRegister {
                access: "poll",
                byte,
                dword: (byte / 4) as u32,
            }),
        };
        let value = match what {
            Polled::Nothing => return Ok(Ok(Work::Done)),
            Polled::Memory(addr) => self.vm.load32(addr)?,
            Polled::Register(byte) if self.privileged() => self.gpu.read_at(register(byte)?)?,
            Polled::Register(_) => return Ok(Err("registers are the kernel's")),
            Polled::Hdp {
                request,
                done,
                value,
            } => {
                let byte = |reg| u64::from(self.gpu.regs.dword(reg)) * 4;
                let flush = byte(nbio::GPU_HDP_FLUSH_REQ);
                let flushed = byte(nbio::GPU_HDP_FLUSH_DONE);
                if (request, done) != (flush, flushed) {
                    return Ok(Err("not the HDP flush registers"));
                }
                if self.job.tries == 0 {
                    self.gpu.write_at(register(request)?, value)?;
                }
                self.gpu.read_at(register(done)?)?
            }
        };
        Ok(Ok(if until.holds(value) {
            Work::Done
        } else if retries.is_some_and(|retries| self.job.tries >= retries) {
            Work::TimedOut
        } else {
            Work::Blocked
        }))
    }

    /// INDIRECT: the next buffer.
    pub(super) fn indirect(
        &self,
        vmid: u8,
        base: u64,
        dwords: u64,
    ) -> std::result::Result<Work, Refusal> {
        if self.job.ib.is_some() {
            return Err("an indirect buffer cannot contain another");
        }
        if !self.job.ib_enable {
            return Err("IB_CNTL.IB_ENABLE is clear");
        }
        if self.job.rptr / 4 % 8 != INDIRECT_PHASE {
            return Err("the packet does not end on a boundary of 8 dwords");
        }
        if dwords == 0 {
            return Ok(Work::Done);
        }
        // Only the kernel may choose an address space.
        let vmid = if self.job.vmid == 0 {
            vmid
        } else {
            self.job.vmid
        };
        Ok(Work::Enter(Ib {
            base,
            vmid,
            dwords,
            at: 0,
        }))
    }

    /// SRBM_WRITE: a register, by byte enables.
    pub(super) fn srbm_write(
        &self,
        dword: u32,
        value: u32,
        bytes: u32,
    ) -> Result<std::result::Result<Work, Refusal>> {
        if !self.privileged() {
            return Ok(Err("registers are the kernel's"));
        }
        let mut mask = 0;
        for byte in (0..4).filter(|byte| bytes >> byte & 1 == 1) {
            mask = Field::new(byte * 8 + 7, byte * 8).put(mask, 0xff);
        }
        let merged = if mask == u32::MAX {
            value
        } else {
            self.gpu.read_at(dword)? & !mask | value & mask
        };
        self.gpu.write_at(dword, merged)?;
        Ok(Ok(Work::Done))
    }
}
