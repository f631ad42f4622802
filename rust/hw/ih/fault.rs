// SPDX-License-Identifier: GPL-2.0
//! Accesses that could not be translated: the entry of one, and what the hub latches of the first.

use super::{HubKind, IvEntry};
use crate::bits::{join, Field};

const PAGE_HI: Field = Field::new(3, 0);
const EXECUTE: Field = Field::bit(4);
const WRITE: Field = Field::bit(5);
const READ: Field = Field::bit(6);
const RETRY: Field = Field::bit(7);
/// In a fault's third word.
const CAM: Field = Field::new(9, 0);
/// The places that it can name.
const CAM_PLACES: u16 = 1 << 10;
/// In a fault's ring, `PERMISSION_FAULTS` of the fault's status: the page is not valid, it may not be written.
const RING_INVALID: Field = Field::bit(3);
const RING_WRITE: Field = Field::bit(5);

/// An address could not be translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmFault {
    /// The hub that walked.
    pub hub: HubKind,
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
    pub retry: Option<CamEntry>,
}

/// A place of the IH's retry CAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CamEntry(u16);

impl CamEntry {
    /// So many there are.
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

    /// What the CAM's doorbell is rung with, to acknowledge what is there.
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
            vmid: entry.vmid,
            pasid: entry.pasid,
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
