// SPDX-License-Identifier: GPL-2.0
//! The v9 compute queue descriptor. Dwords 128 to 183 are the image of the `CP_MQD_*` and
//! `CP_HQD_*` registers in their order.

use super::hqd::{self, HqdImage};
use crate::bits::{hi, lo, Field};
use crate::doorbell::Doorbell;
use crate::queue::QueuePriority;
use crate::sdma::ring::RingSize;
use crate::va::PAGE_SIZE;

/// Dwords of the descriptor.
pub const DWORDS: usize = 512;
/// The descriptor dwords that a direct load copies to the registers.
pub const HQD: core::ops::Range<usize> = 128..184;

/// The parts of a descriptor that differ from chip to chip, and of the memory that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MqdInfo {
    /// The dwords with the CU masks of an XCC's shader engines, from engine 0 on.
    pub cu_masks: &'static [usize],
    /// Minimum bytes of the end-of-pipe buffer that users allocate.
    pub eop_bytes: u32,
    /// Queues may lack that buffer: libhsakmt gives AQL queues none.
    pub is_eop_optional: bool,
    /// PRELOAD_SIZE of CP_HQD_PERSISTENT_STATE.
    pub preload: u32,
    /// The dword of HIQ's descriptor in which the firmware names a queue that it has given up
    /// waiting for, by its doorbell. The firmware reports this nowhere else. The driver sets it to
    /// 0 (amdgpu: queue_doorbell_id0, check_preemption_failed).
    pub abandoned: usize,
    /// How XCCs share the workgroups of a queue, where a queue may have more than one of them.
    pub split: Option<XccSplit>,
}

/// Dwords that tell an XCC which workgroups of a queue are its own. They are where other chips have
/// CU masks (amdgpu: v9_structs.h, init_mqd_v9_4_3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XccSplit {
    /// The number of the XCC among those of the queue.
    pub xcc: usize,
    /// So many workgroups in a row go to one XCC; 0 where all of them do.
    pub chunk: usize,
    /// The dwords beside them, which have no meaning and are all ones, as are the two above in the
    /// driver's own queues.
    pub others: [usize; 2],
    /// Which of the queue's XCCs executes PM4 packets.
    pub target: usize,
    /// Bytes from the descriptor to that of the queue's next XCC.
    pub stride: usize,
}

/// The part of an XCC in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XccShare {
    /// The XCC's place among those that run the queue.
    pub place: u32,
    /// How many run it, at least one.
    pub count: u32,
    /// The place of the XCC that gets the first workgroups; it differs from queue to queue.
    pub first: u32,
    /// The place of the XCC that executes PM4 packets.
    pub target: u32,
    /// Bytes from its descriptor to that of the next one.
    pub stride: u32,
}

impl XccShare {
    /// That of the only one.
    pub const ALONE: Self = Self {
        place: 0,
        count: 1,
        first: 0,
        target: 0,
        stride: 0,
    };

    /// Which workgroups are its own, by the remainder of their numbers.
    #[inline]
    const fn remainder(&self) -> u32 {
        match (self.first.wrapping_add(self.place)).checked_rem(self.count) {
            Some(remainder) => remainder,
            None => 0,
        }
    }
}

impl MqdInfo {
    /// Byte of HIQ's descriptor that names the queue which the firmware has given up waiting for.
    #[inline]
    pub const fn abandoned_byte(&self) -> u64 {
        self.abandoned as u64 * 4
    }

    /// Bytes of a descriptor for one XCC, with a control stack of `control_stack` bytes behind it.
    #[inline]
    pub const fn stride(&self, control_stack: u32) -> u64 {
        PAGE_SIZE + (control_stack as u64).next_multiple_of(PAGE_SIZE)
    }

    /// Bytes of the descriptors of a queue that `xccs` XCCs run, one behind the other.
    #[inline]
    pub const fn bytes(&self, control_stack: u32, xccs: u32) -> u64 {
        self.stride(control_stack) * xccs as u64
    }
}

const HEADER: usize = 0;
const PIPELINESTAT_ENABLE: usize = 11;
const PGM_RSRC2: usize = 20;
const MQD_BASE_LO: usize = 128;
const MQD_BASE_HI: usize = 129;
const VMID: usize = 131;
pub(super) const PERSISTENT_STATE: usize = 132;
const PIPE_PRIORITY: usize = 133;
const QUANTUM: usize = 135;
const PQ_BASE_LO: usize = 136;
const PQ_BASE_HI: usize = 137;
pub(super) const PQ_RPTR: usize = 138;
const RPTR_REPORT_LO: usize = 139;
const RPTR_REPORT_HI: usize = 140;
const WPTR_POLL_LO: usize = 141;
const WPTR_POLL_HI: usize = 142;
const DOORBELL_CONTROL: usize = 143;
const PQ_CONTROL: usize = 145;
pub(super) const IB_CONTROL: usize = 149;
const HQ_STATUS0: usize = 160;
const MQD_CONTROL: usize = 162;
const EOP_BASE_LO: usize = 165;
const EOP_BASE_HI: usize = 166;
const EOP_CONTROL: usize = 167;
const CTX_SAVE_BASE_LO: usize = 171;
const CTX_SAVE_BASE_HI: usize = 172;
pub(super) const CNTL_STACK_OFFSET: usize = 174;
pub(super) const CNTL_STACK_SIZE: usize = 175;
pub(super) const WG_STATE_OFFSET: usize = 176;
pub(super) const CTX_SAVE_SIZE: usize = 177;
const AQL_CONTROL: usize = 181;

const HEADER_VALUE: u32 = 0xc031_0800;
/// In PGM_RSRC2: waves have a trap handler. The CP adds it to the flags of a dispatch.
const TRAP_PRESENT: Field = Field::bit(6);
pub(super) const PRELOAD_REQ: Field = Field::bit(0);
pub(super) const PRELOAD_SIZE: Field = Field::new(17, 8);
pub(super) const QSWITCH_MODE: Field = Field::bit(30);
const QUANTUM_EN: Field = Field::bit(0);
const QUANTUM_SCALE: Field = Field::bit(4);
const QUANTUM_DURATION: Field = Field::new(13, 8);
const DOORBELL_BIF_DROP: Field = Field::bit(1);
const DOORBELL_OFFSET: Field = Field::new(27, 2);
pub(super) const QUEUE_SIZE: Field = Field::new(5, 0);
const RPTR_BLOCK_SIZE: Field = Field::new(13, 8);
const QUEUE_FULL_EN: Field = Field::bit(14);
const WPP_CLAMP_EN: Field = Field::bit(16);
const SLOT_BASED_WPTR: Field = Field::new(26, 25);
const NO_UPDATE_RPTR: Field = Field::bit(27);
const UNORD_DISPATCH: Field = Field::bit(28);
const PRIV_STATE: Field = Field::bit(30);
const KMD_QUEUE: Field = Field::bit(31);
const MIN_IB_AVAIL: Field = Field::new(21, 20);
const IB_EXE_DISABLE: Field = Field::bit(23);
const DISPATCH_PTR: Field = Field::bit(14);
const MQD_PRIV_STATE: Field = Field::bit(8);
const EOP_SIZE: Field = Field::new(5, 0);

/// Largest EOP_SIZE that the hardware takes.
const EOP_SIZE_MAX: u32 = 0xa;

/// The packets that a compute queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketFormat {
    /// PM4 packets of a user.
    Pm4,
    /// AQL packets of a user.
    Aql,
    /// PM4 packets of the kernel: privileged, as in HIQ and KIQ.
    Kernel,
}

/// Where waves are saved when the queue is taken off the hardware (CWSR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextSaveArea {
    /// Start of the save area in the VMID's address space.
    pub base: u64,
    /// Bytes of the area.
    pub size: u32,
    /// Bytes of the control stack at its start.
    pub control_stack: u32,
    /// There is a trap handler that saves waves. Without one, waves are only ever drained or reset:
    /// the hardware must not switch queues by asking waves to save themselves.
    pub trap_handler: bool,
}

/// Parameters of a compute queue's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputeMqdConfig {
    /// GPU address of the descriptor itself.
    pub mqd_address: u64,
    /// Where the ring is in the VMID's address space; 256-byte aligned.
    pub ring_base: u64,
    /// The ring's size.
    pub ring_size: RingSize,
    /// Where the CP writes the read pointer.
    pub read_pointer: u64,
    /// Where the CP polls the write pointer.
    pub write_pointer: u64,
    /// The end-of-pipe buffer; 256-byte aligned.
    pub eop_base: u64,
    /// Bytes of the end-of-pipe buffer; 0 for none.
    pub eop_bytes: u32,
    /// The queue's doorbell.
    pub doorbell: Doorbell,
    /// The address space; 0 where firmware assigns it.
    pub vmid: u8,
    /// The format of its packets.
    pub format: PacketFormat,
    /// Priority among the pipe's queues.
    pub priority: QueuePriority,
    /// The save area, if waves are saved: that of the first XCC, behind which are those of others.
    pub context_save: Option<ContextSaveArea>,
    /// The part of the XCC whose descriptor it is.
    pub share: XccShare,
}

/// The descriptor, 2 KiB.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct ComputeMqd([u32; DWORDS]);

const _: () = assert!(core::mem::size_of::<ComputeMqd>() == 2048);

impl ComputeMqd {
    /// The descriptor of `queue` in the form that `info` describes, with both pointers at 0 and the
    /// queue not active.
    pub fn new(info: &MqdInfo, queue: &ComputeMqdConfig) -> Self {
        let mut mqd = Self::zeroed();
        mqd.set(info, queue);
        mqd
    }

    /// Room for a descriptor.
    #[inline]
    pub const fn zeroed() -> Self {
        Self([0; DWORDS])
    }

    /// Makes zeroed room the descriptor that [`ComputeMqd::new`] returns, of which a caller that
    /// has little stack left would have two copies.
    pub fn set(&mut self, info: &MqdInfo, queue: &ComputeMqdConfig) {
        let dwords = &mut self.0;
        dwords[HEADER] = HEADER_VALUE;
        dwords[PIPELINESTAT_ENABLE] = 1;
        for &engine in info.cu_masks {
            if let Some(mask) = dwords.get_mut(engine) {
                *mask = u32::MAX;
            }
        }
        if let Some(split) = info.split {
            let is_user = queue.format != PacketFormat::Kernel;
            let is_aql = queue.format == PacketFormat::Aql;
            let [a, b] = split.others;
            let share = &queue.share;
            let remainder = if is_aql { share.remainder() } else { 0 };
            let target = if is_user && !is_aql { share.target } else { 0 };
            for (at, value) in [
                (a, u32::MAX),
                (b, u32::MAX),
                (split.xcc, if is_user { remainder } else { u32::MAX }),
                (split.chunk, if is_user { is_aql.into() } else { u32::MAX }),
                (split.target, target),
                (split.stride, share.stride),
            ] {
                if let Some(dword) = dwords.get_mut(at) {
                    *dword = value;
                }
            }
        }
        let saves_waves = matches!(queue.context_save, Some(save) if save.trap_handler);
        dwords[PGM_RSRC2] = TRAP_PRESENT.flag(saves_waves);
        dwords[MQD_BASE_LO] = lo(queue.mqd_address);
        dwords[MQD_BASE_HI] = hi(queue.mqd_address);
        dwords[VMID] = queue.vmid.into();
        dwords[PERSISTENT_STATE] = PRELOAD_REQ.flag(true)
            | PRELOAD_SIZE.put(info.preload)
            | QSWITCH_MODE.flag(saves_waves);
        dwords[PIPE_PRIORITY] = queue.priority.pipe();
        dwords[QUANTUM] =
            QUANTUM_EN.flag(true) | QUANTUM_SCALE.flag(true) | QUANTUM_DURATION.put(1);
        dwords[PQ_BASE_LO] = lo(queue.ring_base >> 8);
        dwords[PQ_BASE_HI] = hi(queue.ring_base >> 8);
        dwords[RPTR_REPORT_LO] = lo(queue.read_pointer);
        dwords[RPTR_REPORT_HI] = hi(queue.read_pointer);
        dwords[WPTR_POLL_LO] = lo(queue.write_pointer);
        dwords[WPTR_POLL_HI] = hi(queue.write_pointer);
        let aql = queue.format == PacketFormat::Aql;
        dwords[DOORBELL_CONTROL] =
            DOORBELL_OFFSET.put(queue.doorbell.dword()) | DOORBELL_BIF_DROP.flag(aql);
        dwords[PQ_CONTROL] = pq_control(info, queue);
        dwords[IB_CONTROL] = MIN_IB_AVAIL.put(3) | IB_EXE_DISABLE.flag(true);
        dwords[HQ_STATUS0] = DISPATCH_PTR.flag(true);
        dwords[MQD_CONTROL] = MQD_PRIV_STATE.flag(true);
        dwords[EOP_BASE_LO] = lo(queue.eop_base >> 8);
        dwords[EOP_BASE_HI] = hi(queue.eop_base >> 8);
        dwords[EOP_CONTROL] = eop_control(queue.eop_bytes);
        if let Some(save) = queue.context_save {
            let before = u64::from(save.size) * u64::from(queue.share.place);
            let base = save.base.wrapping_add(before);
            dwords[CTX_SAVE_BASE_LO] = lo(base);
            dwords[CTX_SAVE_BASE_HI] = hi(base);
            dwords[CNTL_STACK_OFFSET] = save.control_stack;
            dwords[CNTL_STACK_SIZE] = save.control_stack;
            dwords[WG_STATE_OFFSET] = save.control_stack;
            dwords[CTX_SAVE_SIZE] = save.size;
        }
        dwords[AQL_CONTROL] = aql.into();
    }

    /// The descriptor of those dwords.
    #[inline]
    pub(super) const fn from_dwords(dwords: [u32; DWORDS]) -> Self {
        Self(dwords)
    }

    /// The dwords that are written to memory.
    #[inline]
    pub const fn dwords(&self) -> &[u32; DWORDS] {
        &self.0
    }

    /// The part that is loaded to the HQD's registers.
    #[inline]
    pub fn hqd(&self) -> HqdImage {
        let mut image = [0; hqd::DWORDS];
        image.copy_from_slice(&self.0[HQD]);
        HqdImage::new(image)
    }
}

/// The field of CP_HQD_PQ_CONTROL for a ring of that size.
#[inline]
pub(super) fn queue_size(size: RingSize) -> u32 {
    QUEUE_SIZE.put(size.order() - 1)
}

/// CP_HQD_PQ_CONTROL.
#[inline]
fn pq_control(info: &MqdInfo, queue: &ComputeMqdConfig) -> u32 {
    let size = queue_size(queue.ring_size);
    let common = size | RPTR_BLOCK_SIZE.put(5) | UNORD_DISPATCH.flag(true);
    // Where XCCs share a queue, the first of them reports the read pointer (init_mqd_v9_4_3 of
    // amdgpu).
    let is_first = queue.share.place == 0;
    common
        | match queue.format {
            PacketFormat::Pm4 => 0,
            PacketFormat::Aql => {
                NO_UPDATE_RPTR.flag(info.split.is_none() || !is_first)
                    | SLOT_BASED_WPTR.put(2)
                    | QUEUE_FULL_EN.flag(true)
                    | WPP_CLAMP_EN.flag(true)
            }
            PacketFormat::Kernel => {
                NO_UPDATE_RPTR.flag(!is_first) | PRIV_STATE.flag(true) | KMD_QUEUE.flag(true)
            }
        }
}

/// CP_HQD_EOP_CONTROL: the ring has 2^(EOP_SIZE + 1) dwords.
#[inline]
fn eop_control(bytes: u32) -> u32 {
    match (bytes / 8).checked_ilog2() {
        Some(order) => EOP_SIZE.put(order.min(EOP_SIZE_MAX)),
        None => 0,
    }
}
