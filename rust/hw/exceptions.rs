// SPDX-License-Identifier: GPL-2.0
//! Exceptions of queues: what goes wrong with a wave or a packet, as the runtime of its process
//! learns of it. The codes are those of `kfd_dbg_trap_exception_code` in linux/kfd_ioctl.h.

use core::ops::{BitOr, BitOrAssign};

use crate::bits::Field;
use crate::doorbell::DoorbellSlot;

/// The codes of refused packets: `KFD_DBG_EC_TYPE_IS_PACKET`.
const PACKET_CODES: core::ops::RangeInclusive<u32> = 16..=23;
/// The codes of waves: an abort to an aperture violation.
const WAVE_CODES: core::ops::RangeInclusive<u32> = 1..=6;

/// A queue that its debugger does not know yet.
const QUEUE_NEW: u32 = 31;
/// A queue of the GPU was destroyed.
const QUEUE_DELETED: u32 = 32;
/// An access to memory of the GPU's waves was refused.
const MEMORY_VIOLATION: u32 = 33;
/// The runtime of the process registers or unregisters.
const RUNTIME: u32 = 48;

/// Fields of the message that a trap handler sends for its wave: the queue's doorbell, and a bit
/// for each of the first nine codes.
const MESSAGE_DOORBELL: Field = Field::new(9, 0);
const MESSAGE_CODES: Field = Field::new(18, 10);

/// Exceptions of a queue, each a bit: that of code N is N - 1 (`KFD_EC_MASK`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExceptionSet(u64);

impl ExceptionSet {
    /// A queue that its debugger does not know yet.
    pub const QUEUE_NEW: Self = Self::of(QUEUE_NEW);
    /// A queue of the GPU was destroyed.
    pub const QUEUE_DELETED: Self = Self::of(QUEUE_DELETED);
    /// An access to memory of the GPU's waves was refused.
    pub const MEMORY_VIOLATION: Self = Self::of(MEMORY_VIOLATION);
    /// The runtime of the process registers or unregisters.
    pub const RUNTIME: Self = Self::of(RUNTIME);

    /// The exception `code`, which is not 0.
    const fn of(code: u32) -> Self {
        Self(1 << (code - 1))
    }

    /// Those of `bits`, which may have bits of no code.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Whether it has any of `others`.
    #[inline]
    pub const fn intersects(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// All but `others`.
    #[inline]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// The bits.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn has_any(self, codes: core::ops::RangeInclusive<u32>) -> bool {
        codes.into_iter().any(|code| self.0 & Self::of(code).0 != 0)
    }
}

/// What has an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceptionOwner {
    /// A queue.
    Queue,
    /// A GPU, as the process has it.
    Device,
    /// The process.
    Process,
}

/// A code of exceptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExceptionCode {
    code: u32,
    owner: ExceptionOwner,
}

impl ExceptionCode {
    /// The code `code`, if it is one (`KFD_EC_MASK_QUEUE`, `_DEVICE`, `_PROCESS`).
    pub const fn new(code: u32) -> Option<Self> {
        let owner = match code {
            1..=6 | 16..=23 | 30 | QUEUE_NEW => ExceptionOwner::Queue,
            QUEUE_DELETED..=36 => ExceptionOwner::Device,
            RUNTIME | 49 => ExceptionOwner::Process,
            _ => return None,
        };
        Some(Self { code, owner })
    }

    /// What has such exceptions.
    pub const fn owner(self) -> ExceptionOwner {
        self.owner
    }

    /// The exception alone.
    pub const fn set(self) -> ExceptionSet {
        ExceptionSet::of(self.code)
    }
}

impl BitOr for ExceptionSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for ExceptionSet {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

/// Exceptions of the queue that has a doorbell, which is a slot of the process's slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueExceptions {
    /// The doorbell.
    pub doorbell: DoorbellSlot,
    /// What went wrong.
    pub raised: ExceptionSet,
}

impl QueueExceptions {
    /// Those that a trap handler reports by `message`, 24 bits. `None` if that is an ordinary
    /// message: it has no bit of an exception of waves. Bits of other codes are kept beside these,
    /// as amdkfd does.
    pub fn of_wave(message: u32) -> Option<Self> {
        let raised = ExceptionSet(MESSAGE_CODES.get(message).into());
        let doorbell = DoorbellSlot::new(MESSAGE_DOORBELL.get(message) as u16)?;
        raised
            .has_any(WAVE_CODES)
            .then_some(Self { doorbell, raised })
    }

    /// That of a packet which the CP has refused with `code`; `None` if that is no code of packets.
    pub fn of_packet(doorbell: DoorbellSlot, code: u32) -> Option<Self> {
        PACKET_CODES.contains(&code).then(|| Self {
            doorbell,
            raised: ExceptionSet::of(code),
        })
    }
}
