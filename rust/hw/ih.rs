// SPDX-License-Identifier: GPL-2.0
//! Interrupt vectors: the 32-byte entries of the IH ring, and what they announce.

mod shader;

pub use shader::{ShaderCause, ShaderMessage};

use crate::bits::{join, Field};
use crate::doorbell::Slot;

/// Dwords of an entry.
pub const ENTRY_DWORDS: usize = 8;
/// Bytes of an entry.
pub const ENTRY_BYTES: u32 = 32;

const CLIENT: Field = Field::new(7, 0);
const SOURCE: Field = Field::new(15, 8);
const RING: Field = Field::new(23, 16);
const VMID: Field = Field::new(27, 24);
const VMID_TYPE: Field = Field::bit(31);
const TIMESTAMP_HI: Field = Field::new(15, 0);
const PASID: Field = Field::new(15, 0);
const NODE: Field = Field::new(23, 16);

/// Blocks that raise interrupts, by `client_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// The IH itself.
    Ih,
    /// An SDMA engine, by number.
    Sdma(u8),
    /// The run-list controller.
    Rlc,
    /// A shader engine's sequencer, by number.
    Shader(u8),
    /// MMHUB's translation.
    Vmc,
    /// The command processor.
    Cp,
    /// GFXHUB's translation.
    Utcl2,
    /// Security processor.
    Mp0,
    /// System-management processor.
    Mp1,
    /// One that this list does not have.
    Other(u8),
}

impl Client {
    /// The number of the client, as entries carry it.
    #[inline]
    pub const fn id(self) -> u8 {
        match self {
            Self::Ih => 0x00,
            Self::Sdma(0) => 0x08,
            Self::Sdma(1) => 0x09,
            Self::Sdma(2) => 0x01,
            Self::Sdma(engine) => engine.saturating_add(1),
            Self::Rlc => 0x07,
            Self::Shader(engine) => engine.saturating_add(0x0a),
            Self::Vmc => 0x12,
            Self::Cp => 0x14,
            Self::Utcl2 => 0x1b,
            Self::Mp0 => 0x1e,
            Self::Mp1 => 0x1f,
            Self::Other(id) => id,
        }
    }

    /// The client of number `id`.
    #[inline]
    pub const fn new(id: u8) -> Self {
        match id {
            0x00 => Self::Ih,
            0x08 => Self::Sdma(0),
            0x09 => Self::Sdma(1),
            0x01 => Self::Sdma(2),
            0x04 => Self::Sdma(3),
            0x05 => Self::Sdma(4),
            0x07 => Self::Rlc,
            0x0a..=0x0d => Self::Shader(id - 0x0a),
            0x12 => Self::Vmc,
            0x14 => Self::Cp,
            0x1b => Self::Utcl2,
            0x1e => Self::Mp0,
            0x1f => Self::Mp1,
            other => Self::Other(other),
        }
    }
}

/// Numbers of `source_id`.
pub mod source {
    /// UTCL2, VMC: a translation failed.
    pub const VM_FAULT: u8 = 0;
    /// CP: end of pipe.
    pub const CP_EOP: u8 = 181;
    /// CP: bad opcode.
    pub const CP_BAD_OPCODE: u8 = 183;
    /// CP: access to a privileged register.
    pub const CP_PRIV_REG: u8 = 184;
    /// CP: privileged instruction.
    pub const CP_PRIV_INSTRUCTION: u8 = 185;
    /// CP: a doorbell that belongs to no queue.
    pub const CP_UNATTACHED_DOORBELL: u8 = 200;
    /// Shader: a message.
    pub const SQ_MESSAGE: u8 = 239;
    /// SDMA: an atomic operation that repeats did not finish.
    pub const SDMA_ATOMIC_TIMEOUT: u8 = 218;
    /// SDMA: uncorrectable memory error.
    pub const SDMA_ECC: u8 = 220;
    /// SDMA: a page fault that the engine itself reports.
    pub const SDMA_PAGE_FAULT: u8 = 221;
    /// SDMA: access to a null page.
    pub const SDMA_PAGE_NULL: u8 = 222;
    /// SDMA: TRAP packet.
    pub const SDMA_TRAP: u8 = 224;
    /// SDMA: uncorrectable error in the engine's own memory.
    pub const SDMA_SRAM_ECC: u8 = 228;
    /// SDMA: a queue was preempted.
    pub const SDMA_PREEMPT: u8 = 240;
    /// SDMA: address in the hole of the address space.
    pub const SDMA_VM_HOLE: u8 = 242;
    /// SDMA: a context is empty.
    pub const SDMA_CONTEXT_EMPTY: u8 = 243;
    /// SDMA: doorbell value that cannot be a write pointer.
    pub const SDMA_DOORBELL_INVALID: u8 = 244;
    /// SDMA: the engine is frozen.
    pub const SDMA_FROZEN: u8 = 245;
    /// SDMA: POLL_REGMEM gave up.
    pub const SDMA_POLL_TIMEOUT: u8 = 246;
    /// SDMA: SRBM_WRITE to a register that the queue may not write.
    pub const SDMA_SRBM_WRITE: u8 = 247;
}

/// A hub that translates addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hub {
    /// The hub of CP and shaders.
    Gfx,
    /// The hub of SDMA.
    Mm,
}

/// An entry of the IH ring, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IvEntry {
    /// Who raised it.
    pub client: Client,
    /// Why: see [`source`].
    pub source: u8,
    /// The client's ring; its meaning is the client's.
    pub ring: u8,
    /// The address space that was active.
    pub vmid: u8,
    /// The hub whose VMID that is.
    pub hub: Hub,
    /// GPU clock, 48 bits.
    pub timestamp: u64,
    /// The process; 0 where the hardware does not know it.
    pub pasid: u16,
    /// The node, on parts with more than one.
    pub node: u8,
    /// What the client adds.
    pub data: [u32; 4],
}

impl IvEntry {
    /// Decodes the dwords of an entry (little-endian already undone). Every content is an entry.
    #[inline]
    pub const fn decode(dwords: &[u32; ENTRY_DWORDS]) -> Self {
        let [first, ts_lo, ts_hi, process, d0, d1, d2, d3] = *dwords;
        Self {
            client: Client::new(CLIENT.get(first) as u8),
            source: SOURCE.get(first) as u8,
            ring: RING.get(first) as u8,
            vmid: VMID.get(first) as u8,
            hub: if VMID_TYPE.is_set(first) {
                Hub::Mm
            } else {
                Hub::Gfx
            },
            timestamp: join(ts_lo, TIMESTAMP_HI.get(ts_hi)),
            pasid: PASID.get(process) as u16,
            node: NODE.get(process) as u8,
            data: [d0, d1, d2, d3],
        }
    }

    /// What the entry announces.
    #[inline]
    pub const fn event(&self) -> Event {
        match (self.client, self.source) {
            (Client::Sdma(engine), source::SDMA_TRAP) => Event::SdmaTrap(SdmaTrap {
                engine,
                ring: self.ring,
                vmid: self.vmid,
                pasid: self.pasid,
                context: TRAP_CONTEXT.get(self.data[0]),
            }),
            (Client::Sdma(engine), source) => match SdmaErrorKind::new(source) {
                Some(kind) => Event::SdmaError(SdmaError {
                    engine,
                    kind,
                    ring: self.ring,
                    vmid: self.vmid,
                    pasid: self.pasid,
                }),
                None => Event::Unknown,
            },
            (Client::Vmc, source::VM_FAULT) => Event::VmFault(self.vm_fault(Hub::Mm)),
            (Client::Utcl2, source::VM_FAULT) => Event::VmFault(self.vm_fault(Hub::Gfx)),
            (Client::Cp, source::CP_EOP) => Event::CpEop(CpEop {
                me: CP_ME.get(self.ring as u32) as u8,
                pipe: CP_PIPE.get(self.ring as u32) as u8,
                queue: CP_QUEUE.get(self.ring as u32) as u8,
                vmid: self.vmid,
                pasid: self.pasid,
                context: self.data[0],
            }),
            (
                Client::Cp,
                source::CP_BAD_OPCODE
                | source::CP_PRIV_REG
                | source::CP_PRIV_INSTRUCTION
                | source::CP_UNATTACHED_DOORBELL,
            ) => Event::CpError(CpError {
                source: self.source,
                vmid: self.vmid,
                pasid: self.pasid,
                data: self.data[0],
            }),
            (Client::Shader(engine), source::SQ_MESSAGE) => {
                Event::ShaderMessage(ShaderMessage::decode(engine, self))
            }
            _ => Event::Unknown,
        }
    }

    const fn vm_fault(&self, hub: Hub) -> VmFault {
        let attributes = self.data[1];
        VmFault {
            hub,
            vmid: self.vmid,
            pasid: self.pasid,
            present: !FAULT_RING_INVALID.is_set(self.ring as u32),
            unwritable: FAULT_RING_WRITE.is_set(self.ring as u32),
            page: join(self.data[0], FAULT_PAGE_HI.get(attributes)),
            read: FAULT_READ.is_set(attributes),
            write: FAULT_WRITE.is_set(attributes),
            execute: FAULT_EXECUTE.is_set(attributes),
            retry: if FAULT_RETRY.is_set(attributes) {
                Some(CamPlace(FAULT_CAM.get(self.data[2]) as u16))
            } else {
                None
            },
        }
    }
}

const TRAP_CONTEXT: Field = Field::new(27, 0);
const FAULT_PAGE_HI: Field = Field::new(3, 0);
const FAULT_EXECUTE: Field = Field::bit(4);
const FAULT_WRITE: Field = Field::bit(5);
const FAULT_READ: Field = Field::bit(6);
const FAULT_RETRY: Field = Field::bit(7);
/// In a fault's third word.
const FAULT_CAM: Field = Field::new(9, 0);
/// The places that it can name.
const CAM_PLACES: u16 = 1 << 10;
/// In a fault's ring, `PERMISSION_FAULTS` of the fault's status: the page is not valid, it may not be written.
const FAULT_RING_INVALID: Field = Field::bit(3);
const FAULT_RING_WRITE: Field = Field::bit(5);
const CP_PIPE: Field = Field::new(1, 0);
const CP_ME: Field = Field::new(3, 2);
const CP_QUEUE: Field = Field::new(6, 4);

/// What an entry announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A TRAP packet was reached.
    SdmaTrap(SdmaTrap),
    /// An SDMA engine refused something.
    SdmaError(SdmaError),
    /// An address could not be translated.
    VmFault(VmFault),
    /// A compute queue reached an end-of-pipe event.
    CpEop(CpEop),
    /// The CP refused something.
    CpError(CpError),
    /// A wave sent a message, or has an error.
    ShaderMessage(ShaderMessage),
    /// Nothing that a driver of compute acts on.
    Unknown,
}

/// A TRAP packet was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdmaTrap {
    /// The engine.
    pub engine: u8,
    /// The engine's ring: 0 is the kernel's. The value for RLC queues is not sure on silicon.
    pub ring: u8,
    /// The queue's address space; 0 is the kernel's.
    pub vmid: u8,
    /// The queue's process.
    pub pasid: u16,
    /// The packet's context: 28 bits.
    pub context: u32,
}

/// What an SDMA engine refused.
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
    /// The error that `source` stands for; `None` for sources that are no errors.
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

    /// A few words for the log.
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

/// An SDMA engine refused something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdmaError {
    /// The engine.
    pub engine: u8,
    /// What it refused.
    pub kind: SdmaErrorKind,
    /// The engine's ring.
    pub ring: u8,
    /// The queue's address space.
    pub vmid: u8,
    /// The queue's process.
    pub pasid: u16,
}

/// An address could not be translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmFault {
    /// The hub that walked.
    pub hub: Hub,
    /// The address space.
    pub vmid: u8,
    /// The process.
    pub pasid: u16,
    /// The page is there, and may not be used so.
    pub present: bool,
    /// It may not be written; so is one that is not there.
    pub unwritable: bool,
    /// The virtual page: address bits 47:12.
    pub page: u64,
    /// It was a load.
    pub read: bool,
    /// It was a store.
    pub write: bool,
    /// It was an instruction fetch.
    pub execute: bool,
    /// The access is tried again until it can be done, or is told not to; its place in the retry CAM, which raises nothing
    /// of the same page and process before that is acknowledged.
    pub retry: Option<CamPlace>,
}

/// A place of the IH's retry CAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CamPlace(u16);

impl CamPlace {
    /// All places.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..CAM_PLACES).map(Self)
    }

    /// What the CAM's doorbell is rung with, to acknowledge what is there.
    #[inline]
    pub const fn acknowledgement(self) -> u32 {
        self.0 as u32
    }
}

impl VmFault {
    /// The first address of the page.
    #[inline]
    pub const fn address(&self) -> u64 {
        self.page << crate::va::PAGE_SHIFT
    }
}

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

/// The CP refused something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpError {
    /// Why: a CP number of [`source`].
    pub source: u8,
    /// The queue's address space.
    pub vmid: u8,
    /// The queue's process.
    pub pasid: u16,
    /// What the CP adds.
    pub data: u32,
}

const CP_ERROR_DOORBELL: Field = Field::new(9, 0);
const CP_ERROR_CODE: Field = Field::new(25, 10);

impl CpError {
    /// The queue's doorbell: its slot in the process's slice. Of a bad opcode only.
    #[inline]
    pub const fn doorbell(&self) -> Option<Slot> {
        if self.source == source::CP_BAD_OPCODE {
            Slot::new(CP_ERROR_DOORBELL.get(self.data) as u16)
        } else {
            None
        }
    }

    /// What is wrong: a code of `kfd_dbg_trap_exception_code`. Of a bad opcode only; 0 for none.
    #[inline]
    pub const fn code(&self) -> u32 {
        CP_ERROR_CODE.get(self.data)
    }

    /// For messages.
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

const STATUS_MORE: Field = Field::bit(0);
const STATUS_WALKER: Field = Field::new(3, 1);
const STATUS_PERMISSION: Field = Field::new(7, 4);
const STATUS_MAPPING: Field = Field::bit(8);
const STATUS_CID: Field = Field::new(17, 9);
const STATUS_RW: Field = Field::bit(18);
const STATUS_ATOMIC: Field = Field::bit(19);
const STATUS_VMID: Field = Field::new(23, 20);

/// `VM_L2_PROTECTION_FAULT_STATUS` of a hub, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultStatus {
    /// Other faults came before the register was cleared.
    pub more: bool,
    /// What the walker stumbled on; 0 for nothing.
    pub walker_error: u8,
    /// The permissions that the page lacks, a bit each.
    pub permission: u8,
    /// The mapping itself is wrong.
    pub mapping_error: bool,
    /// The client of the hub.
    pub client: u16,
    /// It was a store.
    pub write: bool,
    /// It was an atomic operation.
    pub atomic: bool,
    /// The address space.
    pub vmid: u8,
}

impl FaultStatus {
    /// Decodes the register; `None` when it holds no fault.
    #[inline]
    pub const fn decode(status: u32) -> Option<Self> {
        if status == 0 {
            return None;
        }
        Some(Self {
            more: STATUS_MORE.is_set(status),
            walker_error: STATUS_WALKER.get(status) as u8,
            permission: STATUS_PERMISSION.get(status) as u8,
            mapping_error: STATUS_MAPPING.is_set(status),
            client: STATUS_CID.get(status) as u16,
            write: STATUS_RW.is_set(status),
            atomic: STATUS_ATOMIC.is_set(status),
            vmid: STATUS_VMID.get(status) as u8,
        })
    }

    /// The register that decodes to this.
    #[inline]
    pub const fn encode(&self) -> u32 {
        STATUS_MORE.flag(self.more)
            | STATUS_WALKER.put(self.walker_error as u32)
            | STATUS_PERMISSION.put(self.permission as u32)
            | STATUS_MAPPING.flag(self.mapping_error)
            | STATUS_CID.put(self.client as u32)
            | STATUS_RW.flag(self.write)
            | STATUS_ATOMIC.flag(self.atomic)
            | STATUS_VMID.put(self.vmid as u32)
    }
}
