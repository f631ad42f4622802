// SPDX-License-Identifier: GPL-2.0
//! Interrupts of the CP for a compute queue: an end-of-pipe event, or a refusal.

use super::{source, IvEntry};
use crate::bits::Field;
use crate::doorbell::DoorbellSlot;
use crate::exceptions::QueueExceptions;

/// Fields of an event's ring id.
const PIPE: Field = Field::new(1, 0);
const ME: Field = Field::new(3, 2);
const QUEUE: Field = Field::new(6, 4);

/// A compute queue reached an end-of-pipe event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpEop {
    /// Micro engine: 1 is MEC1.
    pub me: u8,
    /// Its pipe.
    pub pipe: u8,
    /// The pipe's queue.
    pub queue: u8,
    /// The queue's address space.
    pub vmid: u8,
    /// The queue's process.
    pub pasid: u16,
    /// The event's context; firmware sends events of context 0 that mean nothing.
    pub context: u32,
}

impl CpEop {
    pub(super) const fn decode(entry: &IvEntry) -> Self {
        let ring = entry.ring as u32;
        Self {
            me: ME.get(ring) as u8,
            pipe: PIPE.get(ring) as u8,
            queue: QUEUE.get(ring) as u8,
            vmid: entry.vmid,
            pasid: entry.pasid,
            context: entry.data[0],
        }
    }
}

/// The CP refused something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpError {
    /// The reason: a CP number of [`source`](mod@super::source).
    pub source: u8,
    /// The queue's address space.
    pub vmid: u8,
    /// The queue's process.
    pub pasid: u16,
    /// Additional data of the CP.
    pub data: u32,
}

const ERROR_DOORBELL: Field = Field::new(9, 0);
const ERROR_CODE: Field = Field::new(25, 10);

impl CpError {
    pub(super) const fn decode(entry: &IvEntry) -> Self {
        Self {
            source: entry.source,
            vmid: entry.vmid,
            pasid: entry.pasid,
            data: entry.data[0],
        }
    }

    /// The queue's doorbell: its slot in the process's slice. Only for a bad opcode.
    #[inline]
    pub const fn doorbell(&self) -> Option<DoorbellSlot> {
        if self.source == source::CP_BAD_OPCODE {
            DoorbellSlot::new(ERROR_DOORBELL.get(self.data) as u16)
        } else {
            None
        }
    }

    /// The error: a code of `kfd_dbg_trap_exception_code`. Only for a bad opcode; 0 for none.
    #[inline]
    pub const fn code(&self) -> u32 {
        ERROR_CODE.get(self.data)
    }

    /// What the queue's runtime learns of it; `None` if the CP does not say which queue it was, or
    /// gives no code of packets.
    pub fn exceptions(&self) -> Option<QueueExceptions> {
        QueueExceptions::of_packet(self.doorbell()?, self.code())
    }

    /// Its name in messages.
    #[inline]
    pub const fn name(&self) -> &'static str {
        match self.source {
            source::CP_BAD_OPCODE => "illegal packet",
            source::CP_PRIV_REG => "privileged register",
            source::CP_PRIV_INSTRUCTION => "illegal instruction",
            _ => "doorbell of no queue",
        }
    }
}
