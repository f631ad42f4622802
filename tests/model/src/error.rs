// SPDX-License-Identifier: GPL-2.0
//! Errors that stop a run: an action of the driver for which the hardware has no defined result.

use thiserror::Error;

/// An error of the driver (or a gap of the model) that ends the run with exit status 2.
///
/// Errors that a user of the GPU may cause by itself (a fault in its own address space, a packet
/// that the engine refuses) are not of this kind: those are interrupts.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ModelError {
    /// A register that the table does not have.
    #[error("{access} of unknown register at byte {byte:#07x} (dword {dword:#07x})")]
    UnknownRegister {
        /// "read" or "write".
        access: &'static str,
        /// Offset in BAR5.
        byte: u64,
        /// The same as dword index.
        dword: u32,
    },
    /// An access of a BAR with a width or alignment that the device does not have.
    #[error("{access} of {size} bytes at {offset:#x} of {region} is not supported")]
    Access {
        /// "read" or "write".
        access: &'static str,
        /// The region's name.
        region: &'static str,
        /// Offset in the region.
        offset: u64,
        /// Bytes.
        size: usize,
    },
    /// A value written to a register that requests an unsupported or undefined function.
    #[error("{register} = {value:#010x}: {reason}")]
    Register {
        /// The register's name.
        register: String,
        /// The value written.
        value: u32,
        /// The reason.
        reason: String,
    },
    /// DMA to a bus address that no DMA mapping covers.
    #[error("DMA {access} at bus address {address:#x}, which is not mapped for the device")]
    BusAddress {
        /// "read" or "write".
        access: &'static str,
        /// The bus address.
        address: u64,
    },
    /// An access past the end of VRAM.
    #[error("{access} at VRAM offset {address:#x}, past the end of VRAM ({size:#x} bytes)")]
    VramAddress {
        /// "read" or "write".
        access: &'static str,
        /// Offset in VRAM.
        address: u64,
        /// Size of VRAM.
        size: u64,
    },
    /// DMA or an MSI while the command register forbids it.
    #[error("{what} while PCI_COMMAND bus master enable is off")]
    NotMaster {
        /// The attempted access.
        what: &'static str,
    },
    /// VMID 0 belongs to the kernel: a fault there is an error of the driver.
    #[error("{hub}: VMID 0 {access} fault at {va:#x}: {reason}")]
    KernelFault {
        /// Name of the hub.
        hub: &'static str,
        /// "read", "write" or "atomic".
        access: &'static str,
        /// GPU virtual address.
        va: u64,
        /// Kind of fault.
        reason: String,
    },
    /// Undefined page tables or contexts.
    #[error("{hub}: VMID {vmid} at {va:#x}: {reason}")]
    Context {
        /// Name of the hub.
        hub: &'static str,
        /// The address space.
        vmid: u8,
        /// GPU virtual address.
        va: u64,
        /// The reason.
        reason: String,
    },
    /// A packet of the kernel (VMID 0) that the engine refuses.
    #[error("SDMA{engine} {queue} at ring offset {rptr:#x}: packet {header:#010x}: {reason}")]
    Packet {
        /// SDMA engine.
        engine: usize,
        /// Queue, "GFX" or "RLCn".
        queue: String,
        /// Read pointer, bytes.
        rptr: u64,
        /// First dword.
        header: u32,
        /// The reason.
        reason: String,
    },
    /// A packet of the kernel (VMID 0) that the command processor refuses.
    #[error("{queue} at ring dword {rptr:#x}: packet {header:#010x}: {reason}")]
    CpPacket {
        /// MEC, pipe and queue.
        queue: String,
        /// Read pointer, dwords.
        rptr: u64,
        /// First dword.
        header: u32,
        /// The reason.
        reason: String,
    },
    /// An access to the PSP's trusted memory region.
    #[error("{access} at VRAM offset {address:#x}, which is of the PSP's trusted memory region")]
    Trusted {
        /// "read" or "write".
        access: &'static str,
        /// Offset in VRAM.
        address: u64,
    },
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// Result of anything that the driver can get wrong.
pub type Result<T> = std::result::Result<T, ModelError>;
