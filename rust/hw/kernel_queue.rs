// SPDX-License-Identifier: GPL-2.0
//! The driver's compute queues of an XCC: KIQ and HIQ.

use crate::bits::Field;
use crate::doorbell::{DoorbellLayout, DoorbellSlot};
use crate::queue::{HqdLocation, MecInfo};

/// A compute queue of the driver.
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
    /// Its HQD.
    #[inline]
    pub const fn location(self, mec: &MecInfo) -> HqdLocation {
        match self {
            Self::Kiq => mec.kiq,
            Self::Hiq => mec.hiq,
        }
    }

    /// Its doorbell for XCC `xcc`, in the kernel's slice.
    #[inline]
    pub const fn doorbell(self, layout: &DoorbellLayout, xcc: u8) -> Option<DoorbellSlot> {
        match self {
            Self::Kiq => layout.kiq(xcc),
            Self::Hiq => layout.hiq(xcc),
        }
    }
}

/// The byte that names the queue in `hqd` in RLC_CP_SCHEDULERS.
#[inline]
pub const fn scheduler(hqd: HqdLocation) -> u32 {
    VALID.flag(true)
        | ME.put(hqd.me as u32)
        | PIPE.put(hqd.pipe as u32)
        | QUEUE.put(hqd.queue as u32)
}
