// SPDX-License-Identifier: GPL-2.0
//! Interrupts of an SDMA engine: a TRAP packet, or a refusal.

use super::{source, IvEntry};
use crate::bits::Field;

const TRAP_CONTEXT: Field = Field::new(27, 0);

/// A TRAP packet was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdmaTrap {
    /// The engine.
    pub engine: u8,
    /// The engine's ring: 0 is the kernel's. The value for RLC queues is not verified on silicon.
    pub ring: u8,
    /// The queue's address space; 0 is that of the kernel.
    pub vmid: u8,
    /// The queue's process.
    pub pasid: u16,
    /// The packet's context: 28 bits.
    pub context: u32,
}

impl SdmaTrap {
    pub(super) const fn decode(engine: u8, entry: &IvEntry) -> Self {
        Self {
            engine,
            ring: entry.ring,
            vmid: entry.vmid,
            pasid: entry.pasid,
            context: TRAP_CONTEXT.get(entry.data[0]),
        }
    }
}

/// Errors of an SDMA engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SdmaErrorKind {
    /// An atomic operation that repeats did not finish.
    AtomicTimeout,
    /// Uncorrectable memory error.
    Ecc,
    /// A page fault.
    PageFault,
    /// Access to a null page.
    PageNull,
    /// Uncorrectable error in the engine's own memory.
    SramEcc,
    /// Address in the hole of the address space.
    VmHole,
    /// A doorbell value that cannot be a write pointer.
    DoorbellInvalid,
    /// POLL_REGMEM gave up.
    PollTimeout,
    /// SRBM_WRITE to a register that the queue may not write.
    SrbmWrite,
}

impl SdmaErrorKind {
    /// The error of `source`; `None` for sources that are no errors.
    #[inline]
    pub const fn new(source: u8) -> Option<Self> {
        Some(match source {
            source::SDMA_ATOMIC_TIMEOUT => Self::AtomicTimeout,
            source::SDMA_ECC => Self::Ecc,
            source::SDMA_PAGE_FAULT => Self::PageFault,
            source::SDMA_PAGE_NULL => Self::PageNull,
            source::SDMA_SRAM_ECC => Self::SramEcc,
            source::SDMA_VM_HOLE => Self::VmHole,
            source::SDMA_DOORBELL_INVALID => Self::DoorbellInvalid,
            source::SDMA_POLL_TIMEOUT => Self::PollTimeout,
            source::SDMA_SRBM_WRITE => Self::SrbmWrite,
            _ => return None,
        })
    }

    /// A short text for the log.
    #[inline]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AtomicTimeout => "atomic timeout",
            Self::Ecc => "memory error",
            Self::PageFault => "page fault",
            Self::PageNull => "null page",
            Self::SramEcc => "engine memory error",
            Self::VmHole => "address in the hole",
            Self::DoorbellInvalid => "invalid doorbell",
            Self::PollTimeout => "poll timeout",
            Self::SrbmWrite => "register write refused",
        }
    }
}

/// An SDMA engine's interrupt for an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdmaError {
    /// The engine.
    pub engine: u8,
    /// The error.
    pub kind: SdmaErrorKind,
    /// The engine's ring.
    pub ring: u8,
    /// The queue's address space.
    pub vmid: u8,
    /// The queue's process.
    pub pasid: u16,
}

impl SdmaError {
    pub(super) const fn decode(engine: u8, kind: SdmaErrorKind, entry: &IvEntry) -> Self {
        Self {
            engine,
            kind,
            ring: entry.ring,
            vmid: entry.vmid,
            pasid: entry.pasid,
        }
    }
}
