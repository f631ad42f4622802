// SPDX-License-Identifier: GPL-2.0
//! Accesses whose address could not be translated: the interrupt of such an access, and the hub's
//! latched status of the first one.

use core::fmt;

use super::{HubKind, IhInfo, IvEntry};
use crate::bits::{join, Field};

const PAGE_HI: Field = Field::new(3, 0);
const EXECUTE: Field = Field::bit(4);
const WRITE: Field = Field::bit(5);
const READ: Field = Field::bit(6);
const RETRY: Field = Field::bit(7);
/// In a fault's third word: the place in the CAM.
const CAM: Field = Field::new(9, 0);
/// The number of places that the field can name.
const CAM_PLACES: u16 = 1 << 10;
/// In a fault's ring id, from `PERMISSION_FAULTS` of the fault's status: the page is not valid, or
/// may not be written.
const RING_INVALID: Field = Field::bit(3);
const RING_WRITE: Field = Field::bit(5);

/// An address could not be translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmFault {
    /// The hub that walked the tables.
    pub hub: HubKind,
    /// The node of the hub: which of its kind it is.
    pub node: u8,
    /// The address space.
    pub vmid: u8,
    /// The process.
    pub pasid: u16,
    /// The ring id of the entry.
    pub ring: u8,
    /// Whether the page is present, and the access is not permitted.
    pub present: bool,
    /// Whether the page may not be written, which is also true for a page that is not present.
    pub unwritable: bool,
    /// The virtual page: address bits 47:12.
    pub page: u64,
    /// Whether it was a load.
    pub read: bool,
    /// Whether it was a store.
    pub write: bool,
    /// Whether it was an instruction fetch.
    pub execute: bool,
    /// Set if the access is tried again until it succeeds or is ended: its place in the retry CAM.
    /// The CAM raises nothing more for the same page and process before that place is acknowledged.
    pub retry: Option<CamEntry>,
}

/// A place of the IH's retry CAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CamEntry(u16);

impl CamEntry {
    /// Number of places.
    pub const COUNT: usize = CAM_PLACES as usize;

    /// All places.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..CAM_PLACES).map(Self)
    }

    /// Its number, below [`CamEntry::COUNT`].
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The value that is written to the CAM's doorbell to acknowledge this place.
    #[inline]
    pub const fn acknowledgement(self) -> u32 {
        self.0 as u32
    }
}

impl VmFault {
    pub(super) const fn decode(hub: HubKind, entry: &IvEntry) -> Self {
        let attributes = entry.data[1];
        Self {
            hub,
            node: entry.node,
            vmid: entry.vmid,
            pasid: entry.pasid,
            ring: entry.ring,
            present: !RING_INVALID.is_set(entry.ring as u32),
            unwritable: RING_WRITE.is_set(entry.ring as u32),
            page: join(entry.data[0], PAGE_HI.get(attributes)),
            read: READ.is_set(attributes),
            write: WRITE.is_set(attributes),
            execute: EXECUTE.is_set(attributes),
            retry: if RETRY.is_set(attributes) {
                Some(CamEntry(CAM.get(entry.data[2]) as u16))
            } else {
                None
            },
        }
    }

    /// The first address of the page.
    #[inline]
    pub const fn address(&self) -> u64 {
        self.page << crate::va::PAGE_SHIFT
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
    /// Whether other faults came before the register was cleared.
    pub more: bool,
    /// The error that the walker met; 0 for none.
    pub walker_error: u8,
    /// The permissions that the page lacks, a bit each.
    pub permission: u8,
    /// Whether the mapping itself is wrong.
    pub mapping_error: bool,
    /// The client of the hub.
    pub client: u16,
    /// Whether it was a store.
    pub write: bool,
    /// Whether it was an atomic operation.
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

/// The clients of GFXHUB of gfx9, by their numbers in a fault's status.
const GFX_CLIENTS: [&str; 13] = [
    "CB",
    "DB",
    "IA",
    "WD",
    "CPF",
    "CPC",
    "CPG",
    "RLC",
    "TCP",
    "SQC (inst)",
    "SQC (data)",
    "SQG",
    "PA",
];

impl VmFault {
    /// The hub and the client of the IH, as amdgpu names them in its log: people's tools know these
    /// names.
    pub const fn names(&self) -> (&'static str, &'static str) {
        match self.hub {
            HubKind::Gfx => ("gfxhub0", "0x1b (UTCL2)"),
            HubKind::Mm => ("mmhub0", "0x12 (VMC)"),
        }
    }
}

/// A status as text: the fields, and their names, that amdgpu prints. Nothing if there is no
/// status: the register holds the first fault until it is cleared.
#[derive(Clone, Copy, Debug)]
pub struct FaultDetails {
    /// The status, if the register had one.
    pub status: Option<FaultStatus>,
    /// The hub that has the register.
    pub hub: HubKind,
    /// The names of MMHUB's clients.
    pub interrupts: &'static IhInfo,
}

impl FaultDetails {
    fn client_name(&self, client: u16) -> &'static str {
        let name = match self.hub {
            HubKind::Gfx => GFX_CLIENTS.get(client as usize).copied(),
            HubKind::Mm => {
                let mut clients = self.interrupts.mm_clients.iter();
                clients.find(|known| known.0 == client).map(|known| known.1)
            }
        };
        name.unwrap_or("unknown")
    }
}

impl fmt::Display for FaultDetails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(status) = &self.status else {
            return Ok(());
        };
        let name = self.client_name(status.client);
        write!(
            f,
            ", VM_L2_PROTECTION_FAULT_STATUS:{:#010X}, Faulty UTCL2 client ID: {name} ({:#x}), \
             MORE_FAULTS: {:#x}, WALKER_ERROR: {:#x}, PERMISSION_FAULTS: {:#x}, \
             MAPPING_ERROR: {:#x}, RW: {:#x}",
            status.encode(),
            status.client,
            u8::from(status.more),
            status.walker_error,
            status.permission,
            u8::from(status.mapping_error),
            u8::from(status.write),
        )
    }
}
