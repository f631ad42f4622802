// SPDX-License-Identifier: GPL-2.0
//! Interrupt vectors: the 32-byte entries of the IH ring, and the events that they report.

mod cp;
mod fault;
mod owners;
mod ring;
mod sdma;
mod shader;

pub use cp::{CpEop, CpError};
pub use fault::{CamEntry, FaultDetails, FaultStatus, VmFault};
pub use owners::{VmidBinding, VmidOwners, VMID_BINDINGS};
pub use ring::{IhRing, IhWritePointer};
pub use sdma::{SdmaError, SdmaErrorKind, SdmaErrorOrigin, SdmaTrap};
pub use shader::{ShaderCause, ShaderMessage};

use crate::bits::{join, Field};

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
pub enum IhClient {
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
    /// A client that this list does not have.
    Other(u8),
}

/// How a chip's interrupts identify blocks that exist more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IhInfo {
    /// The `client_id`s of the SDMA engines of a die, from its first engine on.
    pub sdma_clients: &'static [u8],
    /// Nodes of a die, where dies use the same clients and the node tells the die; 0 where the node
    /// tells nothing.
    pub nodes_per_die: u8,
    /// The clients of MMHUB by their numbers in a fault's status.
    pub mm_clients: &'static [(u16, &'static str)],
}

impl IhInfo {
    /// Whether clients name `engines` SDMA engines: those of whole dies, and of one die if nodes do
    /// not tell dies apart.
    pub(crate) const fn are_sdma_engines(&self, engines: u8) -> bool {
        let (clients, engines) = (self.sdma_clients.len(), engines as usize);
        match self.nodes_per_die {
            0 => engines == clients,
            _ => clients != 0 && engines % clients == 0,
        }
    }

    /// The nodes of XCC `number` of the chip and of the die that it is on, by which the IH's PASIDs
    /// of both are told apart; `None` where nodes tell nothing. A die has the first of its nodes,
    /// and two XCCs the next ones (amdgpu: kgd_gfx_v9_4_3_set_pasid_vmid_mapping).
    #[inline]
    pub const fn nodes_of_xcc(&self, number: u8) -> Option<[u32; 2]> {
        if self.nodes_per_die == 0 {
            return None;
        }
        let die = (number / 2) as u32 * self.nodes_per_die as u32;
        Some([die + (number % 2) as u32 + 1, die])
    }

    /// The die that node `node` is on or of; 0 where nodes tell nothing.
    #[inline]
    pub const fn die(&self, node: u8) -> u8 {
        match node.checked_div(self.nodes_per_die) {
            Some(die) => die,
            None => 0,
        }
    }

    /// The client that an entry of `client_id` `id` and node `node` comes from.
    #[inline]
    pub const fn client(&self, id: u8, node: u8) -> IhClient {
        let mut engine = 0;
        while engine < self.sdma_clients.len() {
            if self.sdma_clients[engine] == id {
                let die = self.die(node);
                let first = die.saturating_mul(self.sdma_clients.len() as u8);
                return IhClient::Sdma(first.saturating_add(engine as u8));
            }
            engine += 1;
        }
        match id {
            0x00 => IhClient::Ih,
            0x07 => IhClient::Rlc,
            0x0a..=0x0d => IhClient::Shader(id - 0x0a),
            0x12 => IhClient::Vmc,
            0x14 => IhClient::Cp,
            0x1b => IhClient::Utcl2,
            0x1e => IhClient::Mp0,
            0x1f => IhClient::Mp1,
            other => IhClient::Other(other),
        }
    }
}

/// Numbers of `source_id`.
pub mod source {
    /// UTCL2, VMC: a translation failed.
    pub(super) const VM_FAULT: u8 = 0;
    /// CP: end of pipe.
    pub(super) const CP_EOP: u8 = 181;
    /// CP: bad opcode.
    pub const CP_BAD_OPCODE: u8 = 183;
    /// CP: access to a privileged register.
    pub const CP_PRIV_REG: u8 = 184;
    /// CP: privileged instruction.
    pub const CP_PRIV_INSTRUCTION: u8 = 185;
    /// CP: a doorbell that belongs to no queue.
    pub(super) const CP_UNATTACHED_DOORBELL: u8 = 200;
    /// Shader: a message.
    pub(super) const SQ_MESSAGE: u8 = 239;
    /// SDMA: an atomic operation that repeats did not finish.
    pub const SDMA_ATOMIC_TIMEOUT: u8 = 218;
    /// SDMA: uncorrectable memory error.
    pub const SDMA_ECC: u8 = 220;
    /// SDMA: a page fault that the engine itself reports.
    pub const SDMA_PAGE_FAULT: u8 = 221;
    /// SDMA: access to a null page.
    pub const SDMA_PAGE_NULL: u8 = 222;
    /// SDMA: TRAP packet.
    pub(super) const SDMA_TRAP: u8 = 224;
    /// SDMA: uncorrectable error in the engine's own memory.
    pub const SDMA_SRAM_ECC: u8 = 228;
    /// SDMA: address in the hole of the address space.
    pub const SDMA_VM_HOLE: u8 = 242;
    /// SDMA: a store to a doorbell without all of its eight bytes ("BE invalid" in amdgpu's
    /// irqsrcs_sdma0_4_0.h: byte enables).
    pub(super) const SDMA_DOORBELL_INVALID: u8 = 244;
    /// SDMA: POLL_REGMEM gave up.
    pub const SDMA_POLL_TIMEOUT: u8 = 246;
    /// SDMA: SRBM_WRITE to a register that the queue may not write.
    pub const SDMA_SRBM_WRITE: u8 = 247;
}

/// A hub that translates addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HubKind {
    /// The hub of CP and shaders.
    Gfx,
    /// The hub of SDMA.
    Mm,
}

/// An entry of the IH ring, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IvEntry {
    /// The block that raised it.
    pub client: IhClient,
    /// The client's number in the entry.
    pub client_id: u8,
    /// The reason: see [`source`].
    pub source: u8,
    /// The client's ring; each client defines its meaning.
    pub ring: u8,
    /// The address space that was active.
    pub vmid: u8,
    /// The hub that the VMID belongs to.
    pub hub: HubKind,
    /// GPU clock, 48 bits.
    pub timestamp: u64,
    /// The process; 0 where the hardware does not know it.
    pub pasid: u16,
    /// The node: which die, and which XCC of it, on chips with more than one.
    pub node: u8,
    /// Data of the client.
    pub data: [u32; 4],
}

impl IvEntry {
    /// Decodes the dwords of an entry (little-endian already undone) of a chip whose entries `info`
    /// describes. Every content is an entry.
    #[inline]
    pub const fn decode(dwords: &[u32; ENTRY_DWORDS], info: &IhInfo) -> Self {
        let [first, ts_lo, ts_hi, process, d0, d1, d2, d3] = *dwords;
        Self {
            client: info.client(CLIENT.get(first) as u8, NODE.get(process) as u8),
            client_id: CLIENT.get(first) as u8,
            source: SOURCE.get(first) as u8,
            ring: RING.get(first) as u8,
            vmid: VMID.get(first) as u8,
            hub: if VMID_TYPE.is_set(first) {
                HubKind::Mm
            } else {
                HubKind::Gfx
            },
            timestamp: join(ts_lo, TIMESTAMP_HI.get(ts_hi)),
            pasid: PASID.get(process) as u16,
            node: NODE.get(process) as u8,
            data: [d0, d1, d2, d3],
        }
    }

    /// The event of the entry.
    #[inline]
    pub const fn event(&self) -> IvEvent {
        match (self.client, self.source) {
            (IhClient::Sdma(engine), source::SDMA_TRAP) => {
                IvEvent::SdmaTrap(SdmaTrap::decode(engine, self))
            }
            (IhClient::Sdma(engine), source::SDMA_DOORBELL_INVALID) => {
                IvEvent::SdmaPartialDoorbell(engine)
            }
            (IhClient::Sdma(engine), source) => match SdmaErrorKind::new(source) {
                Some(kind) => IvEvent::SdmaError(SdmaError::decode(engine, kind, self)),
                None => IvEvent::Unknown,
            },
            (IhClient::Vmc, source::VM_FAULT) => {
                IvEvent::VmFault(VmFault::decode(HubKind::Mm, self))
            }
            (IhClient::Utcl2, source::VM_FAULT) => {
                IvEvent::VmFault(VmFault::decode(HubKind::Gfx, self))
            }
            (IhClient::Cp, source::CP_EOP) => IvEvent::CpEop(CpEop::decode(self)),
            (
                IhClient::Cp,
                source::CP_BAD_OPCODE
                | source::CP_PRIV_REG
                | source::CP_PRIV_INSTRUCTION
                | source::CP_UNATTACHED_DOORBELL,
            ) => IvEvent::CpError(CpError::decode(self)),
            (IhClient::Shader(engine), source::SQ_MESSAGE) => {
                IvEvent::ShaderMessage(ShaderMessage::decode(engine, self))
            }
            _ => IvEvent::Unknown,
        }
    }
}

/// The event of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IvEvent {
    /// A TRAP packet was reached.
    SdmaTrap(SdmaTrap),
    /// A store to the doorbells of this SDMA engine was not of one whole doorbell. It is no error
    /// of a queue: a process stores to its pages of doorbells as it likes, the store need not be
    /// meant for a queue, and it has no VMID.
    SdmaPartialDoorbell(u8),
    /// An SDMA engine reported an error.
    SdmaError(SdmaError),
    /// An address could not be translated.
    VmFault(VmFault),
    /// A compute queue reached an end-of-pipe event.
    CpEop(CpEop),
    /// The CP reported an error.
    CpError(CpError),
    /// A wave sent a message, or has an error.
    ShaderMessage(ShaderMessage),
    /// Nothing that a driver of compute acts on.
    Unknown,
}
