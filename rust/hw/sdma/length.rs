// SPDX-License-Identifier: GPL-2.0
//! Lengths of packets of users: the facts that are needed to find where a packet ends, and how much
//! work it is.

use super::packet::{op, sub, BYTE_COUNT, COPY_BROADCAST, NOP_COUNT, OP, SUB_OP, WRITE_COUNT};

/// Dwords of a packet that tell its length, at most.
pub const HEADER_DWORDS: usize = 4;

/// What the dwords at hand say about the packet that they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketLength {
    /// The packet's dwords.
    Dwords(u32),
    /// Its length is in a dword further on: so many must be at hand.
    Incomplete(u32),
    /// No packet of SDMA v4 that a user's queue may hold begins so; the engine would refuse it or
    /// stop.
    Unknown,
}

/// The length of the packet that begins at `dwords[0]`.
#[inline]
pub fn of(dwords: &[u32]) -> PacketLength {
    let Some(&first) = dwords.first() else {
        return PacketLength::Incomplete(1);
    };
    let dwords = match (OP.get(first), SUB_OP.get(first)) {
        (op::NOP, _) => 1 + NOP_COUNT.get(first),
        (op::COPY, sub::COPY_LINEAR) if COPY_BROADCAST.is_set(first) => 9,
        (op::COPY, sub::COPY_LINEAR) => 7,
        (op::COPY, sub::COPY_LINEAR_SUBWIN) => 13,
        (op::WRITE, 0) => match dwords.get(3) {
            Some(&count) => 5 + WRITE_COUNT.get(count),
            None => return PacketLength::Incomplete(4),
        },
        (op::INDIRECT, 0) => 6,
        (op::FENCE, 0) => 4,
        (op::TRAP, 0) => TRAP_DWORDS,
        (op::POLL_REGMEM, 0) => 6,
        (op::ATOMIC, 0) => 8,
        (op::CONST_FILL, sub::FILL) => 5,
        (op::PTEPDE, sub::PTEPDE_GEN) => 10,
        (op::TIMESTAMP, sub::TIMESTAMP_SET | sub::TIMESTAMP_GET | sub::TIMESTAMP_GET_GLOBAL) => 3,
        (op::SRBM_WRITE, 0) => 3,
        _ => return PacketLength::Unknown,
    };
    PacketLength::Dwords(dwords)
}

/// Dwords of a TRAP.
pub const TRAP_DWORDS: u32 = 2;

/// Whether a TRAP begins with `dword`.
#[inline]
pub const fn is_trap(dword: u32) -> bool {
    OP.get(dword) == op::TRAP && SUB_OP.get(dword) == 0
}

/// Whether the packet that begins at `dwords[0]` tells others that those before it are done: such
/// packets end a submission.
#[inline]
pub fn ends_submission(dwords: &[u32]) -> bool {
    let first = dwords.first().copied();
    first.is_some_and(|first| matches!(OP.get(first), op::FENCE | op::ATOMIC | op::TRAP))
}

/// The bytes that the engine moves for the packet that begins at `dwords[0]`, as far as these tell;
/// `None` if the packet may keep the engine for any time: it waits, or its length is not known.
#[inline]
pub fn work(dwords: &[u32]) -> Option<u64> {
    let first = *dwords.first()?;
    match (OP.get(first), SUB_OP.get(first)) {
        (op::COPY, sub::COPY_LINEAR) => Some(u64::from(BYTE_COUNT.get(*dwords.get(1)?)) + 1),
        (op::NOP | op::WRITE | op::FENCE | op::TRAP | op::ATOMIC | op::TIMESTAMP, _)
        | (op::SRBM_WRITE, _) => Some(0),
        _ => None,
    }
}
