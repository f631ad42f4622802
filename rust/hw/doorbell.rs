// SPDX-License-Identifier: GPL-2.0
//! Doorbells: slots of 8 bytes in BAR2, the slice that each process gets, and the offsets that name
//! them to user space.
//!
//! The low 12 bits of a doorbell's address decide which block gets it, so the same slots of every 4
//! KiB page belong to SDMA, IH and VCN; all others belong to the CP. Which slots those are differs
//! from chip to chip: [`DoorbellLayout`].

use crate::bits::{Field, Field64};

/// Bytes of a doorbell.
pub const SLOT_BYTES: u64 = 8;
/// Slots in a 4 KiB page.
pub const PAGE_SLOTS: u16 = 512;
/// Slots in a process's slice.
const SLICE_SLOTS: u16 = 1024;
/// Bytes of a process's slice.
pub const SLICE_BYTES: u64 = SLICE_SLOTS as u64 * SLOT_BYTES;

/// The most RLC queues of an SDMA engine: engines of version 4 have registers for so many. Chips
/// may have fewer, as [`DoorbellLayout::sdma_queues`] and `SdmaInfo::queues_per_engine` say.
pub const MAX_SDMA_QUEUES: u8 = 8;

/// `SIZE` and `OFFSET` of NBIO's `BIF_*_DOORBELL_RANGE` registers.
const RANGE_SIZE: Field = Field::new(20, 16);
const RANGE_OFFSET: Field = Field::new(11, 2);

/// Fields of NBIO 7.9's `DOORBELL0_CTRL_ENTRY_*` registers.
const ENTRY_OFFSET: Field = Field::new(9, 0);
const ENTRY_SIZE: Field = Field::new(14, 10);
/// Fields of its `S2A_DOORBELL_ENTRY_*_CTRL` registers.
const PORT_ENABLE: Field = Field::bit(0);
const PORT_AWID: Field = Field::new(5, 1);
const PORT_OFFSET: Field = Field::new(16, 7);
const PORT_SIZE: Field = Field::new(24, 17);
const PORT_ADDRESS: Field = Field::new(31, 28);

/// A doorbell within a process's slice (or within the kernel's 8 KiB).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DoorbellSlot(u16);

impl DoorbellSlot {
    /// Slot `index`; `None` beyond the slice.
    #[inline]
    pub const fn new(index: u16) -> Option<Self> {
        if index < SLICE_SLOTS {
            Some(Self(index))
        } else {
            None
        }
    }

    /// The slot of scheduled SDMA queue `index` of a process: the slice's second page, which is RAM
    /// for such a process, so that the hardware's routing does not bind it.
    #[inline]
    pub const fn scheduled(index: u16) -> Option<Self> {
        if index < PAGE_SLOTS {
            Some(Self(PAGE_SLOTS + index))
        } else {
            None
        }
    }

    /// The same, of the queue whose doorbell has byte `offset` of that page; `None` beyond it.
    #[inline]
    pub const fn scheduled_at(offset: usize) -> Option<Self> {
        match offset < PAGE_SLOTS as usize * SLOT_BYTES as usize {
            true => Self::scheduled(offset as u16 / SLOT_BYTES as u16),
            false => None,
        }
    }

    /// Whether it is in that page.
    #[inline]
    pub const fn is_scheduled(self) -> bool {
        self.0 >= PAGE_SLOTS
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
}

/// Which slots belong to which block. Slots are numbered within a 4 KiB page; the driver's own
/// queues and rings have theirs in the kernel's slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorbellLayout {
    /// XCCs, each with a KIQ and a HIQ.
    pub xccs: u8,
    /// KIQ's slot of XCC 0.
    pub kiq: u16,
    /// HIQ's slot of XCC 0.
    pub hiq: u16,
    /// Slots from one XCC's KIQ to that of the next one.
    pub xcc_slots: u16,
    /// SDMA engines.
    pub sdma_engines: u8,
    /// RLC queues of an SDMA engine.
    pub sdma_queues: u8,
    /// The first slot of SDMA engine 0; those of the other engines follow.
    pub sdma_first: u16,
    /// Slots that an SDMA engine owns. Its kernel ring has the first of them.
    pub sdma_slots: u16,
    /// RLC queues begin at a multiple of so many slots.
    pub sdma_user_align: u16,
    /// The slot of IH ring 0's read pointer.
    pub ih_first: u16,
    /// Slots of the IH: its rings, and the retry CAM.
    pub ih_slots: u16,
    /// The retry CAM's slot.
    pub ih_retry_cam: u16,
    /// The first slot that does not go to the CP.
    pub non_cp_first: u16,
    /// The last one.
    pub non_cp_last: u16,
}

impl DoorbellLayout {
    /// KIQ's slot of XCC `xcc`.
    #[inline]
    pub const fn kiq(&self, xcc: u8) -> Option<DoorbellSlot> {
        self.kernel_queue(xcc, self.kiq)
    }

    /// HIQ's slot of XCC `xcc`.
    #[inline]
    pub const fn hiq(&self, xcc: u8) -> Option<DoorbellSlot> {
        self.kernel_queue(xcc, self.hiq)
    }

    const fn kernel_queue(&self, xcc: u8, first: u16) -> Option<DoorbellSlot> {
        if xcc < self.xccs {
            DoorbellSlot::new(first + xcc as u16 * self.xcc_slots)
        } else {
            None
        }
    }

    /// The slot of the kernel ring of SDMA engine `engine`.
    #[inline]
    pub const fn sdma_kernel(&self, engine: u8) -> Option<DoorbellSlot> {
        if engine < self.sdma_engines {
            DoorbellSlot::new(self.sdma_first + self.sdma_slots * engine as u16)
        } else {
            None
        }
    }

    /// The slot of RLC queue `queue` of SDMA engine `engine`: fixed by the hardware. Odd queues are
    /// in the slice's second page.
    #[inline]
    pub const fn sdma(&self, engine: u8, queue: u8) -> Option<DoorbellSlot> {
        match self.sdma_kernel(engine) {
            Some(base) if queue < self.sdma_queues => DoorbellSlot::new(
                base.0.next_multiple_of(self.sdma_user_align)
                    + (queue as u16 % 2) * PAGE_SLOTS
                    + queue as u16 / 2,
            ),
            _ => None,
        }
    }

    /// The engine and the RLC queue whose slot is `slot`, if it is one of SDMA.
    pub fn sdma_at(&self, slot: DoorbellSlot) -> Option<(u8, u8)> {
        let queues = move |engine| (0..self.sdma_queues).map(move |queue| (engine, queue));
        let mut all = (0..self.sdma_engines).flat_map(queues);
        all.find(|&(engine, queue)| self.sdma(engine, queue) == Some(slot))
    }

    /// The slot of IH ring 0's read pointer.
    #[inline]
    pub const fn ih_ring0(&self) -> DoorbellSlot {
        DoorbellSlot(self.ih_first)
    }

    /// The slot of the IH's retry CAM.
    #[inline]
    pub const fn ih_retry_cam(&self) -> DoorbellSlot {
        DoorbellSlot(self.ih_retry_cam)
    }

    /// The slots of every page that NBIO routes to SDMA engine `engine`.
    #[inline]
    pub const fn sdma_range(&self, engine: u8) -> Option<DoorbellRange> {
        match self.sdma_kernel(engine) {
            Some(first) => Some(DoorbellRange {
                first,
                slots: self.sdma_slots,
            }),
            None => None,
        }
    }

    /// The slots of every page that NBIO routes to the IH.
    #[inline]
    pub const fn ih_range(&self) -> DoorbellRange {
        DoorbellRange {
            first: self.ih_ring0(),
            slots: self.ih_slots,
        }
    }

    /// Whether the hardware routes `slot` to the CP, so that a compute queue may have it.
    #[inline]
    pub const fn is_cp(&self, slot: DoorbellSlot) -> bool {
        let in_page = slot.0 % PAGE_SLOTS;
        in_page < self.non_cp_first || in_page > self.non_cp_last
    }

    /// The slots of the slice's first page that compute queues may have, in ascending order.
    #[inline]
    pub fn cp_slots(&self) -> impl Iterator<Item = DoorbellSlot> + Clone + '_ {
        (0..PAGE_SLOTS)
            .map(DoorbellSlot)
            .filter(|&slot| self.is_cp(slot))
    }

    /// Whether no slot has two owners: SDMA engines and IH lie side by side among the slots that do
    /// not go to the CP, each engine has room for its queues, and KIQs and HIQs are the CP's.
    pub const fn is_consistent(&self) -> bool {
        let sdma_end = self.sdma_first as u32 + self.sdma_slots as u32 * self.sdma_engines as u32;
        let ih_end = self.ih_first as u32 + self.ih_slots as u32;
        let non_cp_end = self.non_cp_last as u32 + 1;
        if self.sdma_user_align == 0
            || self.sdma_queues > MAX_SDMA_QUEUES
            || self.sdma_first < self.non_cp_first
            || self.ih_first < self.non_cp_first
            || sdma_end > non_cp_end
            || ih_end > non_cp_end
            || non_cp_end > PAGE_SLOTS as u32
            || sdma_end > self.ih_first as u32 && ih_end > self.sdma_first as u32
            || self.ih_retry_cam < self.ih_first
            || self.ih_retry_cam as u32 >= ih_end
        {
            return false;
        }
        let mut engine = 0;
        while engine < self.sdma_engines {
            let end = self.sdma_first + self.sdma_slots * (engine as u16 + 1);
            match self.sdma(engine, self.sdma_queues.saturating_sub(2)) {
                Some(slot) if slot.0 < end => {}
                _ => return false,
            }
            engine += 1;
        }
        let mut xcc = 0;
        while xcc < self.xccs {
            match (self.kiq(xcc), self.hiq(xcc)) {
                (Some(kiq), Some(hiq)) if self.is_cp(kiq) && self.is_cp(hiq) && kiq.0 != hiq.0 => {}
                _ => return false,
            }
            xcc += 1;
        }
        self.xccs == 1 || self.xcc_slots > self.kiq.abs_diff(self.hiq)
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

/// Neighbouring slots of every page that belong to one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorbellRange {
    /// The first one.
    pub first: DoorbellSlot,
    /// How many there are.
    pub slots: u16,
}

impl DoorbellRange {
    /// Value of a `BIF_*_DOORBELL_RANGE` register of NBIO 7.4, which counts dwords.
    #[inline]
    pub const fn bif(self) -> u32 {
        RANGE_OFFSET.put(self.first.0 as u32 * 2) | RANGE_SIZE.put(self.slots as u32 * 2)
    }

    /// Value of a `DOORBELL0_CTRL_ENTRY_*` register of NBIO 7.9, which counts dwords.
    #[inline]
    pub const fn entry(self) -> u32 {
        ENTRY_OFFSET.put(self.first.0 as u32 * 2) | ENTRY_SIZE.put(self.slots as u32 * 2)
    }
}

/// The port of NBIO 7.9 through which a block of an AID gets its doorbells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorbellPort {
    /// The block's number on the fabric, also where its slots begin.
    pub id: u32,
    /// Bits 31:28 of the addresses there.
    pub address: u32,
}

impl DoorbellPort {
    /// The port of the IH.
    pub const IH: Self = Self { id: 0, address: 0 };
    /// The ports of an AID's SDMA engines (nbio_v7_9_sdma_doorbell_range of amdgpu).
    pub const SDMA: [Self; 4] = [
        Self {
            id: 0xe,
            address: 1,
        },
        Self {
            id: 0x8,
            address: 2,
        },
        Self {
            id: 0x9,
            address: 8,
        },
        Self {
            id: 0xa,
            address: 9,
        },
    ];

    /// Value of the `S2A_DOORBELL_ENTRY_*_CTRL` register for the slots of `range`.
    #[inline]
    pub const fn control(self, range: DoorbellRange) -> u32 {
        PORT_ENABLE.flag(true)
            | PORT_AWID.put(self.id)
            | PORT_OFFSET.put(self.id)
            | PORT_SIZE.put(range.slots as u32 * 2)
            | PORT_ADDRESS.put(self.address)
    }
}

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

    /// `doorbell_offset` of CREATE_QUEUE: the slice's mmap offset with the byte of `slot` in the
    /// low bits.
    #[inline]
    pub const fn doorbell(gpu_id: u16, slot: DoorbellSlot) -> u64 {
        let slice = Self {
            kind: MmapKind::Doorbell,
            gpu_id,
        };
        slice.encode() | slot.byte()
    }
}
