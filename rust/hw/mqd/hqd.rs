// SPDX-License-Identifier: GPL-2.0
//! The part of a compute descriptor that is the image of the HQD's registers: a direct load copies
//! it, and the CP saves it when it releases the queue.

use super::compute::{queue_size, HQD, QUEUE_SIZE};
use crate::bits::{hi, join, lo, Field};
use crate::queue::QueuePriority;
use crate::sdma::ring::RingSize;

/// Dwords of the image.
pub const DWORDS: usize = HQD.end - HQD.start;

const ACTIVE: usize = 130 - HQD.start;
const VMID: usize = 131 - HQD.start;
const PERSISTENT_STATE: usize = 132 - HQD.start;
const PIPE_PRIORITY: usize = 133 - HQD.start;
const PQ_BASE_LO: usize = 136 - HQD.start;
const PQ_BASE_HI: usize = 137 - HQD.start;
const PQ_RPTR: usize = 138 - HQD.start;
const WPTR_POLL_LO: usize = 141 - HQD.start;
const WPTR_POLL_HI: usize = 142 - HQD.start;
const DOORBELL_CONTROL: usize = 143 - HQD.start;
const PQ_CONTROL: usize = 145 - HQD.start;
const IB_CONTROL: usize = 149 - HQD.start;
const DEQUEUE_REQUEST: usize = 152 - HQD.start;
const EOP_RPTR: usize = 168 - HQD.start;
const CNTL_STACK_OFFSET: usize = 174 - HQD.start;
const CNTL_STACK_SIZE: usize = 175 - HQD.start;
const CTX_SAVE_SIZE: usize = 177 - HQD.start;
const WG_STATE_OFFSET: usize = 176 - HQD.start;
const PQ_WPTR_LO: usize = 182 - HQD.start;
const PQ_WPTR_HI: usize = 183 - HQD.start;

/// Dwords of a descriptor whose registers have an effect when they are written, or have bits that
/// the CP sets and does not save: CP_HQD_PERSISTENT_STATE, QUANTUM, PQ_RPTR, PQ_DOORBELL_CONTROL,
/// PQ_CONTROL, HQ_STATUS0, CP_MQD_CONTROL, EOP_CONTROL, EOP_RPTR, EOP_WPTR, PQ_WPTR. ACTIVE and
/// DEQUEUE_REQUEST are 0 when a queue has left.
const LIVE: [usize; 12] = [132, 135, 138, 143, 145, 160, 162, 167, 168, 169, 182, 183];

const DOORBELL_EN: Field = Field::bit(30);
const INIT_FETCHER: Field = Field::bit(31);
const PROCESSING_IB: Field = Field::bit(31);
/// In PERSISTENT_STATE: groups of a dispatch are still to be launched.
const DISPATCH_ACTIVE: Field = Field::bit(31);

/// Dwords 128 to 183 of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HqdImage([u32; DWORDS]);

/// The part of a queue's waves that the CP has saved, in bytes. The control stack grows downwards
/// from its end, the waves upwards from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaveState {
    /// Where the used part of the control stack begins.
    pub control_stack_offset: u32,
    /// Used bytes of the control stack.
    pub control_stack_used: u32,
    /// Where the saved waves end.
    pub waves_offset: u32,
    /// Bytes of saved waves.
    pub waves_used: u32,
}

impl WaveState {
    /// The words that describe it at the start of the user's area.
    #[inline]
    pub const fn header(&self) -> [u32; 4] {
        [
            self.control_stack_offset,
            self.control_stack_used,
            self.waves_offset,
            self.waves_used,
        ]
    }
}

impl HqdImage {
    /// Bytes of the save area.
    #[inline]
    pub const fn save_bytes(&self) -> u32 {
        self.0[CTX_SAVE_SIZE]
    }

    /// The image of those dwords.
    #[inline]
    pub const fn new(dwords: [u32; DWORDS]) -> Self {
        Self(dwords)
    }

    /// The dwords.
    #[inline]
    pub const fn dwords(&self) -> &[u32; DWORDS] {
        &self.0
    }

    /// Makes it an image that can be loaded, in address space `vmid`: whatever was saved with it,
    /// the queue is not active and there is no request to dequeue it.
    #[inline]
    pub fn prepare(&mut self, vmid: u8) {
        self.0[VMID] = vmid.into();
        self.0[ACTIVE] = 0;
        self.0[DEQUEUE_REQUEST] = 0;
    }

    /// Sets another ring, with packets of the same format.
    #[inline]
    pub fn set_ring(&mut self, base: u64, size: RingSize) {
        self.0[PQ_BASE_LO] = lo(base >> 8);
        self.0[PQ_BASE_HI] = hi(base >> 8);
        let others = self.0[PQ_CONTROL] & !QUEUE_SIZE.put(QUEUE_SIZE.max());
        self.0[PQ_CONTROL] = others | queue_size(size);
    }

    /// Sets another priority.
    #[inline]
    pub fn set_priority(&mut self, priority: QueuePriority) {
        self.0[PIPE_PRIORITY] = priority.pipe();
    }

    /// CP_HQD_PQ_DOORBELL_CONTROL with the doorbell enabled.
    #[inline]
    pub const fn doorbell_enabled(&self) -> u32 {
        self.0[DOORBELL_CONTROL] | DOORBELL_EN.flag(true)
    }

    /// The contents of the registers when the queue is activated: its doorbell enabled, and the
    /// write pointer of [`HqdImage::resume_write_pointer`].
    #[inline]
    pub fn started(&self) -> Self {
        let mut started = *self;
        let pointer = self.resume_write_pointer();
        started.0[DOORBELL_CONTROL] = self.doorbell_enabled();
        started.0[PQ_WPTR_LO] = lo(pointer);
        started.0[PQ_WPTR_HI] = hi(pointer);
        started
    }

    /// The writes to the registers of an HQD without a queue, by place and value. If the last queue
    /// there has left by itself, `before` is its image as the CP has saved it, which is the
    /// contents of the registers. Equal values are then skipped: a write may take long, and queues
    /// may change often.
    #[inline]
    pub fn writes<'a>(&'a self, before: Option<&'a Self>) -> impl Iterator<Item = (u32, u32)> + 'a {
        let is_held = move |&(n, value): &(usize, u32)| {
            before.is_some_and(|before| before.0[n] == value) && !LIVE.contains(&(HQD.start + n))
        };
        let all = self.0.iter().copied().enumerate();
        all.filter(move |dword| !is_held(dword))
            .map(|(n, value)| (n as u32, value))
    }

    /// CP_HQD_EOP_RPTR with the bit that starts the fetcher.
    #[inline]
    pub const fn eop_started(&self) -> u32 {
        self.0[EOP_RPTR] | INIT_FETCHER.flag(true)
    }

    /// Where the CP polls the write pointer.
    #[inline]
    pub const fn write_pointer_address(&self) -> u64 {
        join(self.0[WPTR_POLL_LO], self.0[WPTR_POLL_HI])
    }

    /// Whether the CP was in an indirect buffer, or in a dispatch that has not finished. In that
    /// case there is more work, whatever the pointers say.
    #[inline]
    pub const fn is_midway(&self) -> bool {
        PROCESSING_IB.is_set(self.0[IB_CONTROL])
            || DISPATCH_ACTIVE.is_set(self.0[PERSISTENT_STATE])
            || self.wave_state().control_stack_used != 0
    }

    /// The 64-bit write pointer, dwords, that equals the read pointer: where the CP continues
    /// before it has polled the real one. The saved read pointer has the ring's bits only. The bits
    /// above are those of the saved write pointer, less a carry if the ring wrapped in between.
    #[inline]
    pub const fn resume_write_pointer(&self) -> u64 {
        // As a mask: a size that no ring has, which only a broken CP saves, leaves all bits to the
        // ring.
        let within = (2u64 << QUEUE_SIZE.get(self.0[PQ_CONTROL])).wrapping_sub(1);
        let saved = join(self.0[PQ_WPTR_LO], self.0[PQ_WPTR_HI]);
        let read = self.0[PQ_RPTR] as u64 & within;
        let above = saved & !within;
        if read > saved & within && above > within {
            // The write pointer has begun a round that the read pointer has not.
            above - within - 1 + read
        } else {
            above | read
        }
    }

    /// The saved part of the queue's waves. Zero if the figures make no sense.
    #[inline]
    pub const fn wave_state(&self) -> WaveState {
        let stack = self.0[CNTL_STACK_SIZE];
        let offset = self.0[CNTL_STACK_OFFSET];
        let waves = self.0[WG_STATE_OFFSET];
        WaveState {
            control_stack_offset: offset,
            control_stack_used: stack.saturating_sub(offset),
            waves_offset: waves,
            waves_used: waves.saturating_sub(stack),
        }
    }
}
