// SPDX-License-Identifier: GPL-2.0
//! Doorbells: slots of 8 bytes in BAR2, the slice that each process gets, and the offsets that name them to
//! user space.
//!
//! The low 12 bits of a doorbell's address decide which block gets it, so the same slots of every 4 KiB page
//! belong to SDMA, IH and VCN; all others belong to the CP.

use crate::bits::{Field, Field64};
use crate::ip::GFX90A_SDMA_ENGINES;

/// Bytes of a doorbell.
pub const SLOT_BYTES: u64 = 8;
/// Slots in a 4 KiB page.
pub const PAGE_SLOTS: u16 = 512;
/// Slots in a process's slice.
const SLICE_SLOTS: u16 = 1024;
/// Bytes of a process's slice.
pub const SLICE_BYTES: u64 = SLICE_SLOTS as u64 * SLOT_BYTES;

/// RLC queues of an SDMA engine.
pub const SDMA_QUEUES: u8 = 8;

/// Slots that an SDMA engine owns, starting at its base.
const SDMA_ENGINE_SLOTS: u16 = 10;
/// The first SDMA engine's base slot; those of the others follow.
const SDMA_FIRST_SLOT: u16 = 0x100;
/// Slots of a page that do not go to the CP.
const NON_CP: core::ops::Range<u16> = 0x100..0x190;

/// `SIZE` and `OFFSET` of NBIO's `BIF_*_DOORBELL_RANGE` registers.
const RANGE_SIZE: Field = Field::new(20, 16);
const RANGE_OFFSET: Field = Field::new(11, 2);

/// A doorbell within a process's slice (or within the kernel's 8 KiB).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DoorbellSlot(u16);

impl DoorbellSlot {
    /// KIQ's, in the kernel's slice.
    pub const KIQ: Self = Self(0);
    /// HIQ's, in the kernel's slice.
    pub const HIQ: Self = Self(1);
    /// The IH's ring 0 read pointer, in the kernel's slice.
    pub const IH_RING0: Self = Self(0x178);

    /// The IH's retry CAM's, behind its three rings', in the kernel's slice.
    pub const IH_RETRY_CAM: Self = Self(Self::IH_RING0.0 + 3);

    /// Slot `index`; `None` beyond the slice.
    #[inline]
    pub const fn new(index: u16) -> Option<Self> {
        if index < SLICE_SLOTS {
            Some(Self(index))
        } else {
            None
        }
    }

    /// The kernel ring's slot of SDMA `engine`, in the kernel's slice.
    #[inline]
    pub const fn sdma_kernel(engine: u8) -> Option<Self> {
        if (engine as usize) < GFX90A_SDMA_ENGINES {
            Some(Self(SDMA_FIRST_SLOT + SDMA_ENGINE_SLOTS * engine as u16))
        } else {
            None
        }
    }

    /// The slot of RLC queue `queue` of SDMA `engine`: fixed by the hardware. Odd queues are in the slice's
    /// second page.
    #[inline]
    pub const fn sdma(engine: u8, queue: u8) -> Option<Self> {
        match Self::sdma_kernel(engine) {
            Some(base) if queue < SDMA_QUEUES => Some(Self(
                base.0 + (queue as u16 % 2) * PAGE_SLOTS + queue as u16 / 2,
            )),
            _ => None,
        }
    }

    /// The slot of scheduled SDMA queue `index` of a process: the slice's second page, which is RAM for such a
    /// process, so that the hardware's routing does not bind it.
    #[inline]
    pub const fn scheduled(index: u16) -> Option<Self> {
        if index < PAGE_SLOTS {
            Some(Self(PAGE_SLOTS + index))
        } else {
            None
        }
    }

    /// The number within the slice.
    #[inline]
    pub const fn index(self) -> u16 {
        self.0
    }

    /// The byte within the slice.
    #[inline]
    pub const fn byte(self) -> u64 {
        self.0 as u64 * SLOT_BYTES
    }

    /// Whether the hardware routes the slot to the CP, so that a compute queue may have it.
    #[inline]
    pub const fn is_cp(self) -> bool {
        let in_page = self.0 % PAGE_SLOTS;
        in_page < NON_CP.start || in_page >= NON_CP.end
    }

    /// The slots of the slice's first page that compute queues may have, in ascending order.
    #[inline]
    pub fn cp_slots() -> impl Iterator<Item = Self> + Clone {
        (0..PAGE_SLOTS).map(Self).filter(|slot| slot.is_cp())
    }
}

/// A slice of 8 KiB of the doorbell BAR. Slice 0 is the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SliceIndex(u16);

impl SliceIndex {
    /// The kernel's slice.
    pub const KERNEL: Self = Self(0);

    /// Slice `index` of a BAR of `bar_bytes`; `None` beyond its end.
    #[inline]
    pub const fn new(index: u16, bar_bytes: u64) -> Option<Self> {
        if (index as u64) < bar_bytes / SLICE_BYTES {
            Some(Self(index))
        } else {
            None
        }
    }

    /// How many slices a BAR of `bar_bytes` has, the kernel's among them.
    #[inline]
    pub const fn count(bar_bytes: u64) -> u64 {
        bar_bytes / SLICE_BYTES
    }

    /// The number.
    #[inline]
    pub const fn index(self) -> u16 {
        self.0
    }

    /// The slice's first byte in the BAR.
    #[inline]
    pub const fn byte(self) -> u64 {
        self.0 as u64 * SLICE_BYTES
    }

    /// The doorbell of `slot` in this slice.
    #[inline]
    pub const fn doorbell(self, slot: DoorbellSlot) -> Doorbell {
        Doorbell(self.0 as u32 * SLICE_SLOTS as u32 + slot.0 as u32)
    }
}

/// A doorbell of the device: its slot counted from the BAR's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Doorbell(u32);

impl Doorbell {
    /// Its first byte in the BAR.
    #[inline]
    pub const fn byte(self) -> u64 {
        self.0 as u64 * SLOT_BYTES
    }

    /// Its index in dwords of the BAR, the unit of MQDs, packets and doorbell-offset registers.
    #[inline]
    pub const fn dword(self) -> u32 {
        self.0 * 2
    }
}

/// Value of a `BIF_*_DOORBELL_RANGE` register: `dwords` dwords of each page from `slot` on.
#[inline]
const fn range(slot: DoorbellSlot, dwords: u32) -> u32 {
    RANGE_OFFSET.put(slot.0 as u32 * 2) | RANGE_SIZE.put(dwords)
}

/// Value of NBIO's `BIF_SDMAn_DOORBELL_RANGE` for `engine`.
#[inline]
pub const fn sdma_range(engine: u8) -> Option<u32> {
    match DoorbellSlot::sdma_kernel(engine) {
        Some(slot) => Some(range(slot, SDMA_ENGINE_SLOTS as u32 * 2)),
        None => None,
    }
}

/// Value of NBIO's `BIF_IH_DOORBELL_RANGE`: rings 0 to 2 and the retry CAM.
pub const IH_RANGE: u32 = range(DoorbellSlot::IH_RING0, 8);

/// What an offset of `mmap` on the KFD file names, in its two top bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MmapKind {
    /// The page of HDP flush registers.
    Mmio = 0,
    /// Reserved memory: nothing that user space may map.
    Reserved = 1,
    /// The event page of clients without a discrete GPU.
    Events = 2,
    /// The process's doorbell slice.
    Doorbell = 3,
}

const MMAP_KIND: Field64 = Field64::new(63, 62);
const MMAP_GPU: Field64 = Field64::new(61, 46);

/// A byte offset of `mmap` on the KFD file. The bits below the GPU's id are ignored when read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmapOffset {
    /// What is mapped.
    pub kind: MmapKind,
    /// The GPU's id.
    pub gpu_id: u16,
}

impl MmapOffset {
    /// The offset in bytes.
    #[inline]
    pub const fn encode(self) -> u64 {
        MMAP_KIND.put(self.kind as u64) | MMAP_GPU.put(self.gpu_id as u64)
    }

    /// What the offset `bytes` names.
    #[inline]
    pub const fn decode(bytes: u64) -> Self {
        let kind = match MMAP_KIND.get(bytes) {
            0 => MmapKind::Mmio,
            1 => MmapKind::Reserved,
            2 => MmapKind::Events,
            _ => MmapKind::Doorbell,
        };
        Self {
            kind,
            gpu_id: MMAP_GPU.get(bytes) as u16,
        }
    }

    /// `doorbell_offset` of CREATE_QUEUE: the slice's mmap offset with the byte of `slot` in the low bits.
    #[inline]
    pub const fn doorbell(gpu_id: u16, slot: DoorbellSlot) -> u64 {
        let slice = Self {
            kind: MmapKind::Doorbell,
            gpu_id,
        };
        slice.encode() | slot.byte()
    }
}
