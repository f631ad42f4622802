// SPDX-License-Identifier: GPL-2.0
//! The driver's own compute queues, on MEC2: KIQ and HIQ.

use crate::bits::Field;
use crate::doorbell::DoorbellSlot;

/// A queue of the driver's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelQueue {
    /// The kernel's interface queue, loaded by registers; maps HIQ.
    Kiq,
    /// The interface queue of the hardware scheduler: runlists.
    Hiq,
}

/// A byte of RLC_CP_SCHEDULERS: in use, micro engine, pipe, queue.
const VALID: Field = Field::bit(7);
const ME: Field = Field::new(6, 5);
const PIPE: Field = Field::new(4, 3);
const QUEUE: Field = Field::new(2, 0);

impl KernelQueue {
    /// The micro engine.
    #[inline]
    pub const fn me(self) -> u8 {
        2
    }

    /// The pipe.
    #[inline]
    pub const fn pipe(self) -> u8 {
        match self {
            Self::Kiq => 1,
            Self::Hiq => 0,
        }
    }

    /// The queue of the pipe.
    #[inline]
    pub const fn queue(self) -> u8 {
        0
    }

    /// Its doorbell in the kernel's slice.
    #[inline]
    pub const fn doorbell(self) -> DoorbellSlot {
        match self {
            Self::Kiq => DoorbellSlot::KIQ,
            Self::Hiq => DoorbellSlot::HIQ,
        }
    }

    /// What a byte of RLC_CP_SCHEDULERS names it by.
    #[inline]
    pub const fn scheduler(self) -> u32 {
        VALID.flag(true)
            | ME.put(self.me() as u32)
            | PIPE.put(self.pipe() as u32)
            | QUEUE.put(self.queue() as u32)
    }
}
