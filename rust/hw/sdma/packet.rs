// SPDX-License-Identifier: GPL-2.0
//! Encoders of SDMA v4 packets. Each returns the packet's dwords; the first holds opcode and
//! sub-opcode.

use crate::bits::{hi, lo, Field};

pub(crate) const OP: Field = Field::new(7, 0);
pub(crate) const SUB_OP: Field = Field::new(15, 8);

/// Opcodes, in bits 7:0 of the first dword.
pub mod op {
    /// Does nothing.
    pub const NOP: u32 = 0;
    /// Copies memory.
    pub const COPY: u32 = 1;
    /// Writes dwords out of the packet.
    pub const WRITE: u32 = 2;
    /// Runs an indirect buffer.
    pub const INDIRECT: u32 = 4;
    /// Writes one dword after all that came before.
    pub const FENCE: u32 = 5;
    /// Raises an interrupt.
    pub const TRAP: u32 = 6;
    /// Waits for memory or a register.
    pub const POLL_REGMEM: u32 = 8;
    /// Atomic operation on memory.
    pub const ATOMIC: u32 = 10;
    /// Fills memory with a constant.
    pub const CONST_FILL: u32 = 11;
    /// Page-table entries.
    pub const PTEPDE: u32 = 12;
    /// Reads or sets the clock.
    pub const TIMESTAMP: u32 = 13;
    /// Writes a register.
    pub const SRBM_WRITE: u32 = 14;
}

/// Sub-opcodes, in bits 15:8 of the first dword.
pub mod sub {
    /// COPY: linear to linear.
    pub const COPY_LINEAR: u32 = 0;
    /// COPY: a window of a linear image.
    pub const COPY_LINEAR_SUBWIN: u32 = 4;
    /// CONST_FILL: the plain form.
    pub const FILL: u32 = 0;
    /// PTEPDE: entries from a start and a step.
    pub const PTEPDE_GEN: u32 = 0;
    /// TIMESTAMP: set the engine's own.
    pub const TIMESTAMP_SET: u32 = 0;
    /// TIMESTAMP: write the engine's own to memory.
    pub const TIMESTAMP_GET: u32 = 1;
    /// TIMESTAMP: write the GPU's clock to memory.
    pub const TIMESTAMP_GET_GLOBAL: u32 = 2;
}

/// Longest copy or fill of one packet: the count fields of SDMA 4.4 have 30 bits.
pub const MAX_BYTES: u32 = 1 << 30;
/// Longest NOP burst, its own dword included.
const MAX_NOP_DWORDS: u32 = 1 << 14;

pub(crate) const NOP_COUNT: Field = Field::new(29, 16);
pub(crate) const WRITE_COUNT: Field = Field::new(19, 0);
pub(crate) const COPY_BROADCAST: Field = Field::bit(27);
pub(crate) const BYTE_COUNT: Field = Field::new(29, 0);
const IB_DWORDS: Field = Field::new(19, 0);
const TRAP_CONTEXT: Field = Field::new(27, 0);
const FILL_SIZE: Field = Field::new(31, 30);
const FILL_SIZE_DWORD: u32 = 2;

#[inline]
const fn header(op: u32, sub_op: u32) -> u32 {
    OP.put(op) | SUB_OP.put(sub_op)
}

/// One NOP.
pub const NOP: u32 = header(op::NOP, 0);

/// The first dword of a NOP burst of `dwords` dwords, which the engine skips as one; `None` unless
/// it is 1 to `MAX_NOP_DWORDS`. What the other dwords hold does not matter.
#[inline]
pub const fn nop_burst(dwords: u32) -> Option<u32> {
    match dwords.checked_sub(1) {
        Some(skipped) if skipped <= NOP_COUNT.max() => Some(NOP | NOP_COUNT.put(skipped)),
        _ => None,
    }
}

/// Fills `ring` with NOPs, as bursts.
#[inline]
pub fn pad(ring: &mut [u32]) {
    ring.fill(NOP);
    for burst in ring.chunks_mut(MAX_NOP_DWORDS as usize) {
        let dwords = burst.len() as u32;
        if let (Some(first), Some(header)) = (burst.first_mut(), nop_burst(dwords)) {
            *first = header;
        }
    }
}

/// Bytes that one packet can move, in units of `UNIT` bytes: `UNIT` to [`MAX_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketBytes<const UNIT: u32>(u32);

/// Bytes of a COPY_LINEAR.
pub type CopyBytes = PacketBytes<1>;
/// Bytes of a CONST_FILL of dwords.
pub type FillBytes = PacketBytes<4>;

impl<const UNIT: u32> PacketBytes<UNIT> {
    /// `bytes`, if one packet can have so many.
    #[inline]
    pub const fn new(bytes: u64) -> Option<Self> {
        if 0 < bytes && bytes <= MAX_BYTES as u64 && bytes % UNIT as u64 == 0 {
            Some(Self(bytes as u32))
        } else {
            None
        }
    }

    /// The bytes.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The count of the packet: the length is the count plus one unit.
    #[inline]
    const fn count(self) -> u32 {
        BYTE_COUNT.put(self.0 - UNIT)
    }
}

/// COPY_LINEAR: copies `bytes` from `source` to `destination`.
#[inline]
pub const fn copy_linear(source: u64, destination: u64, bytes: CopyBytes) -> [u32; 7] {
    [
        header(op::COPY, sub::COPY_LINEAR),
        bytes.count(),
        0,
        lo(source),
        hi(source),
        lo(destination),
        hi(destination),
    ]
}

/// CONST_FILL: fills `bytes` from `destination` (4-byte aligned) on with `value`.
#[inline]
pub const fn const_fill(destination: u64, value: u32, bytes: FillBytes) -> [u32; 5] {
    [
        header(op::CONST_FILL, sub::FILL) | FILL_SIZE.put(FILL_SIZE_DWORD),
        lo(destination),
        hi(destination),
        value,
        bytes.count(),
    ]
}

/// FENCE: writes `value` to `address` (4-byte aligned) when everything before it is done.
#[inline]
pub const fn fence(address: u64, value: u32) -> [u32; 4] {
    [header(op::FENCE, 0), lo(address), hi(address), value]
}

/// How many dwords past a fetch boundary INDIRECT begins, so that it ends on one.
pub const INDIRECT_PHASE: u64 = 2;
/// Bytes to which indirect buffers are aligned: the engine ignores lower bits of the address.
const IB_ALIGNMENT: u64 = 32;

/// Dwords of packets in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndirectBuffer {
    address: u64,
    dwords: u32,
}

impl IndirectBuffer {
    /// `dwords` dwords at `address`, whose low bits are ignored; `None` for more than a packet can
    /// have.
    #[inline]
    pub const fn new(address: u64, dwords: u32) -> Option<Self> {
        if dwords > IB_DWORDS.max() {
            return None;
        }
        Some(Self {
            address: address & !(IB_ALIGNMENT - 1),
            dwords,
        })
    }
}

/// INDIRECT: executes the packets of `buffer`, in the address space of the ring unless that is the
/// kernel's.
#[inline]
pub const fn indirect(buffer: IndirectBuffer) -> [u32; 6] {
    [
        header(op::INDIRECT, 0),
        lo(buffer.address),
        hi(buffer.address),
        IB_DWORDS.put(buffer.dwords),
        0,
        0,
    ]
}

/// TRAP: raises an interrupt whose first data dword is `context`, cut to 28 bits.
#[inline]
pub const fn trap(context: u32) -> [u32; 2] {
    [header(op::TRAP, 0), TRAP_CONTEXT.put(context)]
}
