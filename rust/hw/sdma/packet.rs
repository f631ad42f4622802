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
    /// Signals or waits on a semaphore.
    pub const SEMAPHORE: u32 = 7;
    /// Waits for memory or a register.
    pub const POLL_REGMEM: u32 = 8;
    /// Executes what follows under a condition.
    pub const COND_EXE: u32 = 9;
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
    /// Pre-execution marker.
    pub const PRE_EXE: u32 = 15;
    /// Trap that raises no interrupt.
    pub const DUMMY_TRAP: u32 = 16;
}

/// Sub-opcodes, in bits 15:8 of the first dword.
pub mod sub {
    /// COPY: linear to linear.
    pub const COPY_LINEAR: u32 = 0;
    /// COPY: a window of a linear image.
    pub const COPY_LINEAR_SUBWIN: u32 = 4;
    /// CONST_FILL: the plain form.
    pub const FILL: u32 = 0;
    /// CONST_FILL: strided.
    pub const DATA_FILL_MULTI: u32 = 1;
    /// PTEPDE: entries from a start and a step.
    pub const PTEPDE_GEN: u32 = 0;
    /// PTEPDE: entries from memory.
    pub const PTEPDE_COPY: u32 = 1;
    /// PTEPDE: read, modify, write.
    pub const PTEPDE_RMW: u32 = 2;
    /// TIMESTAMP: set the engine's own.
    pub const TIMESTAMP_SET: u32 = 0;
    /// TIMESTAMP: write the engine's own to memory.
    pub const TIMESTAMP_GET: u32 = 1;
    /// TIMESTAMP: write the GPU's clock to memory.
    pub const TIMESTAMP_GET_GLOBAL: u32 = 2;
}

/// Longest copy or fill of one packet: the count fields of SDMA 4.4 have 30 bits.
pub const MAX_BYTES: u32 = 1 << 30;
/// Most dwords of one WRITE packet.
pub const MAX_WRITE_DWORDS: u32 = 1 << 20;
/// Most entries of one PTEPDE_GEN packet.
pub const MAX_GEN_ENTRIES: u32 = 1 << 19;
/// Longest indirect buffer, dwords.
pub const MAX_INDIRECT_DWORDS: u32 = (1 << 20) - 1;
/// Longest NOP burst, its own dword included.
pub const MAX_NOP_DWORDS: u32 = 1 << 14;

pub(crate) const NOP_COUNT: Field = Field::new(29, 16);
pub(crate) const WRITE_COUNT: Field = Field::new(19, 0);
pub(crate) const COPY_BROADCAST: Field = Field::bit(27);
const BYTE_COUNT: Field = Field::new(29, 0);
const TRAP_CONTEXT: Field = Field::new(27, 0);
const FILL_SIZE: Field = Field::new(31, 30);
const FILL_SIZE_DWORD: u32 = 2;
const IB_VMID: Field = Field::new(19, 16);
const IB_SIZE: Field = Field::new(19, 0);
const POLL_HDP_FLUSH: Field = Field::bit(26);
const POLL_FUNCTION: Field = Field::new(30, 28);
const POLL_MEMORY: Field = Field::bit(31);
const POLL_INTERVAL: Field = Field::new(15, 0);
const POLL_RETRY: Field = Field::new(27, 16);
const ATOMIC_OP: Field = Field::new(31, 25);
const ATOMIC_ADD_RTN_64: u32 = 0x2f;
const GEN_COUNT: Field = Field::new(18, 0);
const SRBM_BYTE_ENABLE: Field = Field::new(31, 28);
const SRBM_REGISTER: Field = Field::new(17, 0);

#[inline]
const fn header(op: u32, sub_op: u32) -> u32 {
    OP.put(op) | SUB_OP.put(sub_op)
}

/// One NOP.
pub const NOP: u32 = header(op::NOP, 0);

/// The first dword of a NOP burst of `dwords` dwords, which the engine skips as one; `None` unless
/// it is 1 to [`MAX_NOP_DWORDS`]. What the other dwords hold does not matter.
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

/// Bytes of a COPY_LINEAR: 1 to [`MAX_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyBytes(u32);

impl CopyBytes {
    /// `bytes`, if one packet can copy so many.
    #[inline]
    pub const fn new(bytes: u64) -> Option<Self> {
        if 0 < bytes && bytes <= MAX_BYTES as u64 {
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
}

/// COPY_LINEAR: copies `bytes` from `source` to `destination`.
#[inline]
pub const fn copy_linear(source: u64, destination: u64, bytes: CopyBytes) -> [u32; 7] {
    [
        header(op::COPY, sub::COPY_LINEAR),
        BYTE_COUNT.put(bytes.0 - 1),
        0,
        lo(source),
        hi(source),
        lo(destination),
        hi(destination),
    ]
}

/// Bytes of a CONST_FILL of dwords: 4 to [`MAX_BYTES`], a multiple of 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillBytes(u32);

impl FillBytes {
    /// `bytes`, if one packet can fill so many.
    #[inline]
    pub const fn new(bytes: u64) -> Option<Self> {
        if 0 < bytes && bytes <= MAX_BYTES as u64 && bytes % 4 == 0 {
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
}

/// CONST_FILL: fills `bytes` from `destination` (4-byte aligned) on with `value`.
#[inline]
pub const fn const_fill(destination: u64, value: u32, bytes: FillBytes) -> [u32; 5] {
    [
        header(op::CONST_FILL, sub::FILL) | FILL_SIZE.put(FILL_SIZE_DWORD),
        lo(destination),
        hi(destination),
        value,
        // The length is the count plus one element.
        BYTE_COUNT.put(bytes.0 - 4),
    ]
}

/// The first four dwords of a WRITE of `dwords` dwords to `destination` (4-byte aligned), which follow it in
/// the ring; `None` unless it is 1 to [`MAX_WRITE_DWORDS`].
#[inline]
pub const fn write_header(destination: u64, dwords: u32) -> Option<[u32; 4]> {
    match dwords.checked_sub(1) {
        Some(count) if count <= WRITE_COUNT.max() => Some([
            header(op::WRITE, 0),
            lo(destination),
            hi(destination),
            WRITE_COUNT.put(count),
        ]),
        _ => None,
    }
}

/// WRITE of one dword.
#[inline]
pub const fn write_dword(destination: u64, value: u32) -> [u32; 5] {
    [
        header(op::WRITE, 0),
        lo(destination),
        hi(destination),
        WRITE_COUNT.put(0),
        value,
    ]
}

/// WRITE of one 64-bit value.
#[inline]
pub const fn write_qword(destination: u64, value: u64) -> [u32; 6] {
    [
        header(op::WRITE, 0),
        lo(destination),
        hi(destination),
        WRITE_COUNT.put(1),
        lo(value),
        hi(value),
    ]
}

/// FENCE: writes `value` to `address` (4-byte aligned) when everything before it is done.
#[inline]
pub const fn fence(address: u64, value: u32) -> [u32; 4] {
    [header(op::FENCE, 0), lo(address), hi(address), value]
}

/// TRAP: raises an interrupt whose first data dword is `context`, cut to 28 bits.
#[inline]
pub const fn trap(context: u32) -> [u32; 2] {
    [header(op::TRAP, 0), TRAP_CONTEXT.put(context)]
}

/// The comparison that ends a POLL_REGMEM: value, masked, against the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PollCompare {
    /// At once.
    Always = 0,
    /// Less.
    Less = 1,
    /// Less or equal.
    LessEqual = 2,
    /// Equal.
    Equal = 3,
    /// Not equal.
    NotEqual = 4,
    /// Greater or equal.
    GreaterEqual = 5,
    /// Greater.
    Greater = 6,
}

/// How a POLL_REGMEM repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollPace {
    /// Clocks between two reads, 16 bits.
    pub interval: u16,
    /// Reads before it gives up, 12 bits; [`PollPace::FOREVER`] never does.
    pub retries: u16,
}

impl PollPace {
    /// The retry count that means no limit.
    pub const FOREVER: u16 = 0xfff;

    /// A read every 10 clocks, without limit.
    pub const STEADY: Self = Self {
        interval: 10,
        retries: Self::FOREVER,
    };

    #[inline]
    const fn dword(self) -> u32 {
        POLL_INTERVAL.put(self.interval as u32) | POLL_RETRY.put(self.retries as u32)
    }
}

/// POLL_REGMEM on memory: waits until the dword at `address` (4-byte aligned), under `mask`, compares with
/// `reference`.
#[inline]
pub const fn poll_memory(
    address: u64,
    compare: PollCompare,
    reference: u32,
    mask: u32,
    pace: PollPace,
) -> [u32; 6] {
    [
        header(op::POLL_REGMEM, 0) | POLL_MEMORY.flag(true) | POLL_FUNCTION.put(compare as u32),
        lo(address),
        hi(address),
        reference,
        mask,
        pace.dword(),
    ]
}

/// POLL_REGMEM on a register, named by its dword index in BAR5.
#[inline]
pub const fn poll_register(
    register: u32,
    compare: PollCompare,
    reference: u32,
    mask: u32,
    pace: PollPace,
) -> [u32; 6] {
    [
        header(op::POLL_REGMEM, 0) | POLL_FUNCTION.put(compare as u32),
        register << 2,
        0,
        reference,
        mask,
        pace.dword(),
    ]
}

/// POLL_REGMEM in its HDP form: writes the engine's bit (`bit`, in place) to the request register and waits
/// until the done register has it. Both registers are dword indices in BAR5.
#[inline]
pub const fn hdp_flush(request: u32, done: u32, bit: u32) -> [u32; 6] {
    [
        header(op::POLL_REGMEM, 0)
            | POLL_HDP_FLUSH.flag(true)
            | POLL_FUNCTION.put(PollCompare::Equal as u32),
        done << 2,
        request << 2,
        bit,
        bit,
        PollPace::STEADY.dword(),
    ]
}

/// INDIRECT: runs `dwords` dwords at `base` (32-byte aligned) in the address space of `vmid`. The packet must
/// end on an 8-dword boundary of the ring: see [`RingSize::indirect_pad`](super::ring::RingSize::indirect_pad).
#[inline]
pub const fn indirect(vmid: u8, base: u64, dwords: u32) -> [u32; 6] {
    [
        header(op::INDIRECT, 0) | IB_VMID.put(vmid as u32),
        lo(base) & !0x1f,
        hi(base),
        IB_SIZE.put(dwords),
        0,
        0,
    ]
}

/// PTEPDE in its generating form: writes `entries` 64-bit values to `destination`; value `i` is
/// `(first + i * step) | flags`. `None` unless `entries` is 1 to [`MAX_GEN_ENTRIES`].
#[inline]
pub const fn ptepde_gen(
    destination: u64,
    flags: u64,
    first: u64,
    step: u64,
    entries: u32,
) -> Option<[u32; 10]> {
    match entries.checked_sub(1) {
        Some(count) if count <= GEN_COUNT.max() => Some([
            header(op::PTEPDE, sub::PTEPDE_GEN),
            lo(destination),
            hi(destination),
            lo(flags),
            hi(flags),
            lo(first),
            hi(first),
            lo(step),
            hi(step),
            GEN_COUNT.put(count),
        ]),
        _ => None,
    }
}

/// SRBM_WRITE: writes all four bytes of the register at dword index `register` of BAR5.
#[inline]
pub const fn srbm_write(register: u32, value: u32) -> [u32; 3] {
    [
        header(op::SRBM_WRITE, 0) | SRBM_BYTE_ENABLE.put(0xf),
        SRBM_REGISTER.put(register),
        value,
    ]
}

/// TIMESTAMP GET_GLOBAL: writes the GPU's clock, 64 bits, to `address` (8-byte aligned).
#[inline]
pub const fn timestamp(address: u64) -> [u32; 3] {
    [
        header(op::TIMESTAMP, sub::TIMESTAMP_GET_GLOBAL),
        lo(address) & !0x7,
        hi(address),
    ]
}

/// ATOMIC: adds `value` to the 64 bits at `address` (8-byte aligned).
#[inline]
pub const fn atomic_add64(address: u64, value: u64) -> [u32; 8] {
    [
        header(op::ATOMIC, 0) | ATOMIC_OP.put(ATOMIC_ADD_RTN_64),
        lo(address),
        hi(address),
        lo(value),
        hi(value),
        0,
        0,
        0,
    ]
}
