// SPDX-License-Identifier: GPL-2.0
//! Interrupts of an SDMA engine: a TRAP packet, or a refusal.

use super::{source, IvEntry};
use crate::bits::Field;

const TRAP_CONTEXT: Field = Field::new(27, 0);
/// The ring id of the kernel's ring, and its address space.
const KERNEL_RING: u8 = 0;
const KERNEL_VMID: u8 = 0;

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
            source::SDMA_POLL_TIMEOUT => Self::PollTimeout,
            source::SDMA_SRBM_WRITE => Self::SrbmWrite,
            _ => return None,
        })
    }

    /// Whether a packet of the kernel's ring can cause it. That ring has copies, fills, FENCE, TRAP
    /// and NOP only: nothing in it polls, repeats an atomic operation or writes a register.
    const fn may_be_kernels(self) -> bool {
        match self {
            Self::Ecc | Self::SramEcc | Self::PageFault | Self::PageNull | Self::VmHole => true,
            Self::AtomicTimeout | Self::PollTimeout | Self::SrbmWrite => false,
        }
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
            Self::PollTimeout => "poll timeout",
            Self::SrbmWrite => "register write refused",
        }
    }
}

/// The origin of an engine's error, as far as its interrupt tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SdmaErrorOrigin {
    /// The kernel's ring.
    KernelRing,
    /// A queue of the process.
    Process,
    /// Neither: the interrupt names no process, and the kernel's ring has no such packet. A process
    /// may have caused it, so no queue can be held responsible.
    Unknown,
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
    /// Where it comes from. An interrupt of VMID 0 is the kernel's only if it names the kernel's
    /// ring, and an error that a packet of that ring can cause: what a process does may raise
    /// interrupts without a VMID, such as a store to its doorbells.
    #[inline]
    pub const fn origin(&self) -> SdmaErrorOrigin {
        if self.vmid != KERNEL_VMID {
            SdmaErrorOrigin::Process
        } else if self.ring == KERNEL_RING && self.kind.may_be_kernels() {
            SdmaErrorOrigin::KernelRing
        } else {
            SdmaErrorOrigin::Unknown
        }
    }
}
