// SPDX-License-Identifier: GPL-2.0
//! The SDMA v4 queue descriptor, and the registers of an RLC queue that it is the image of.

use crate::bits::{hi, join, lo, Field};
use crate::doorbell::Doorbell;
use crate::sdma::ring::RingSize;

/// Dwords of the descriptor.
pub const DWORDS: usize = 128;

// Dwords of the descriptor, named as the registers.
const RB_CNTL: usize = 0;
const RB_BASE: usize = 1;
const RB_BASE_HI: usize = 2;
const RB_RPTR: usize = 3;
const RB_RPTR_HI: usize = 4;
const RB_WPTR: usize = 5;
const RB_WPTR_HI: usize = 6;
const RB_RPTR_ADDR_HI: usize = 8;
const RB_RPTR_ADDR_LO: usize = 9;
const IB_CNTL: usize = 10;
const DOORBELL: usize = 18;
const DOORBELL_OFFSET: usize = 22;
const DUMMY_REG: usize = 27;
const WPTR_POLL_ADDR_HI: usize = 28;
const WPTR_POLL_ADDR_LO: usize = 29;
const ENGINE_ID: usize = 126;
const QUEUE_ID: usize = 127;

const RB_ENABLE: Field = Field::bit(0);
const RB_SIZE: Field = Field::new(5, 1);
const RPTR_WRITEBACK_ENABLE: Field = Field::bit(12);
const RPTR_WRITEBACK_TIMER: Field = Field::new(20, 16);
const RB_PRIV: Field = Field::bit(23);
const RB_VMID: Field = Field::new(27, 24);
const IB_ENABLE: Field = Field::bit(0);
const SWITCH_INSIDE_IB: Field = Field::bit(8);
const DOORBELL_ENABLE: Field = Field::bit(28);
const DOORBELL_OFFSET_FIELD: Field = Field::new(27, 2);

/// Log2 of the clocks between two write-backs of the read pointer.
const WRITEBACK_TIMER: u32 = 6;
/// Value of DUMMY_REG that KFD's descriptors carry.
const DUMMY: u32 = 0xf;

/// What a user's SDMA queue is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdmaMqdConfig {
    /// Where the ring is in the VMID's address space; 256-byte aligned.
    pub ring_base: u64,
    /// The ring's size.
    pub ring_size: RingSize,
    /// Where the engine writes the read pointer, 64 bits; 4-byte aligned.
    pub read_pointer: u64,
    /// The queue's doorbell.
    pub doorbell: Doorbell,
    /// The address space; 0 where firmware assigns it.
    pub vmid: u8,
    /// The engine.
    pub engine: u8,
    /// The RLC queue of the engine.
    pub queue: u8,
}

/// The descriptor, 512 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct SdmaMqd([u32; DWORDS]);

const _: () = assert!(core::mem::size_of::<SdmaMqd>() == 512);

impl SdmaMqd {
    /// The descriptor of `queue`, with both pointers at 0 and the ring not enabled.
    pub const fn new(queue: &SdmaMqdConfig) -> Self {
        let mut dwords = [0; DWORDS];
        dwords[RB_CNTL] = rb_cntl(queue.ring_size, queue.vmid);
        dwords[RB_BASE] = lo(queue.ring_base >> 8);
        dwords[RB_BASE_HI] = hi(queue.ring_base >> 8);
        dwords[RB_RPTR_ADDR_HI] = hi(queue.read_pointer);
        dwords[RB_RPTR_ADDR_LO] = lo(queue.read_pointer);
        dwords[IB_CNTL] = SWITCH_INSIDE_IB.flag(true);
        dwords[DOORBELL_OFFSET] = doorbell_offset(queue.doorbell);
        dwords[DUMMY_REG] = DUMMY;
        dwords[ENGINE_ID] = queue.engine as u32;
        dwords[QUEUE_ID] = queue.queue as u32;
        Self(dwords)
    }

    /// The dwords that go to memory.
    #[inline]
    pub const fn dwords(&self) -> &[u32; DWORDS] {
        &self.0
    }

    /// The saved read pointer, bytes.
    #[inline]
    pub const fn read_pointer(&self) -> u64 {
        join(self.0[RB_RPTR], self.0[RB_RPTR_HI])
    }

    /// The saved write pointer, bytes.
    #[inline]
    pub const fn write_pointer(&self) -> u64 {
        join(self.0[RB_WPTR], self.0[RB_WPTR_HI])
    }

    /// The values to load the RLC queue's registers with.
    #[inline]
    pub const fn rlc(&self) -> RlcQueueImage {
        RlcQueueImage {
            rb_cntl: self.0[RB_CNTL],
            rb_base: self.0[RB_BASE],
            rb_base_hi: self.0[RB_BASE_HI],
            rptr: self.read_pointer(),
            wptr: self.write_pointer(),
            rptr_addr_hi: self.0[RB_RPTR_ADDR_HI],
            rptr_addr_lo: self.0[RB_RPTR_ADDR_LO],
            ib_cntl: self.0[IB_CNTL] | IB_ENABLE.flag(true),
            doorbell: self.0[DOORBELL] | DOORBELL_ENABLE.flag(true),
            doorbell_offset: self.0[DOORBELL_OFFSET],
            dummy_reg: self.0[DUMMY_REG],
            wptr_poll_addr_hi: self.0[WPTR_POLL_ADDR_HI],
            wptr_poll_addr_lo: self.0[WPTR_POLL_ADDR_LO],
        }
    }
}

/// Register values of an RLC queue, ready to be written; registers are named as in the headers
/// (`SDMAn_RLCq_*`). The pointers are byte counts for the LO and HI register of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RlcQueueImage {
    /// RB_CNTL with the ring not enabled.
    pub rb_cntl: u32,
    /// RB_BASE.
    pub rb_base: u32,
    /// RB_BASE_HI.
    pub rb_base_hi: u32,
    /// RB_RPTR and RB_RPTR_HI.
    pub rptr: u64,
    /// RB_WPTR and RB_WPTR_HI.
    pub wptr: u64,
    /// RB_RPTR_ADDR_HI.
    pub rptr_addr_hi: u32,
    /// RB_RPTR_ADDR_LO.
    pub rptr_addr_lo: u32,
    /// IB_CNTL with indirect buffers enabled.
    pub ib_cntl: u32,
    /// DOORBELL with the doorbell enabled.
    pub doorbell: u32,
    /// DOORBELL_OFFSET.
    pub doorbell_offset: u32,
    /// DUMMY_REG.
    pub dummy_reg: u32,
    /// RB_WPTR_POLL_ADDR_HI.
    pub wptr_poll_addr_hi: u32,
    /// RB_WPTR_POLL_ADDR_LO.
    pub wptr_poll_addr_lo: u32,
}

impl RlcQueueImage {
    /// RB_CNTL with the ring enabled: the last register to be written.
    #[inline]
    pub const fn rb_cntl_enabled(&self) -> u32 {
        self.rb_cntl | RB_ENABLE.flag(true)
    }
}

/// RB_CNTL of a user's ring: not enabled, read pointer written back.
#[inline]
pub const fn rb_cntl(size: RingSize, vmid: u8) -> u32 {
    RB_SIZE.put(size.order())
        | RPTR_WRITEBACK_ENABLE.flag(true)
        | RPTR_WRITEBACK_TIMER.put(WRITEBACK_TIMER)
        | RB_VMID.put(vmid as u32)
}

/// RB_CNTL of an engine's kernel ring (VMID 0, privileged): not enabled, read pointer written back.
#[inline]
pub const fn kernel_rb_cntl(size: RingSize) -> u32 {
    rb_cntl(size, 0) | RB_PRIV.flag(true)
}

/// Value of a DOORBELL_OFFSET register.
#[inline]
pub const fn doorbell_offset(doorbell: Doorbell) -> u32 {
    DOORBELL_OFFSET_FIELD.put(doorbell.dword())
}

/// The register of which descriptor dword `dword` is the image, as offset in dwords from the
/// queue's first register; `None` for those that have no register (mid-command state, identifiers).
#[inline]
pub const fn register_of(dword: usize) -> Option<u32> {
    match dword {
        0..=18 => Some(dword as u32),
        19..=24 => Some(dword as u32 - 19 + 0x28),
        25..=31 => Some(dword as u32 - 25 + 0x2f),
        _ => None,
    }
}

// The descriptor's order of registers and the register file's agree where both are known.
const _: () = {
    assert!(matches!(register_of(DOORBELL), Some(0x12)));
    assert!(matches!(register_of(DOORBELL_OFFSET), Some(0x2b)));
    assert!(matches!(register_of(DUMMY_REG), Some(0x31)));
    assert!(matches!(register_of(WPTR_POLL_ADDR_LO), Some(0x33)));
};
