// SPDX-License-Identifier: GPL-2.0
//! Packets of users as a report shows them. They are the memory of a process, which may hold
//! anything.

use core::fmt;

use super::length::{self, PacketLength};
use super::packet::{op, sub, BYTE_COUNT, COPY_BROADCAST, OP, SUB_OP, WRITE_COUNT};
use crate::bits::join;
use crate::va::PAGE_SIZE;

/// Dwords that tell all that is shown of a packet, at most.
pub const MOST_DWORDS: usize = 9;

/// Addresses that a packet reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Touched {
    start: u64,
    /// Bytes; `None` if that is not known.
    bytes: Option<u64>,
}

impl Touched {
    /// Whether one of them is in the page at `page`.
    fn is_in(&self, page: u64) -> bool {
        let first = self.start - self.start % PAGE_SIZE;
        let last = self
            .start
            .saturating_add(self.bytes.unwrap_or(1).saturating_sub(1));
        first <= page && page <= last
    }
}

/// A packet: its kind, what it reads and what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescribedPacket {
    kind: &'static str,
    reads: Option<Touched>,
    writes: [Option<Touched>; 2],
    length: PacketLength,
}

impl DescribedPacket {
    /// The packet that begins at `dwords[0]`. The first [`MOST_DWORDS`] of it tell all, fewer tell
    /// less.
    pub fn decode(dwords: &[u32]) -> Self {
        let dword = |at: usize| dwords.get(at).copied();
        let address = |at: usize| Some(join(dword(at)?, dword(at + 1)?));
        let touched =
            |at: usize, bytes: Option<u64>| address(at).map(|start| Touched { start, bytes });
        let count = |at: usize| dword(at).map(|count| u64::from(BYTE_COUNT.get(count)) + 1);
        let small = |at: usize, bytes: u64| touched(at, Some(bytes));
        let first = dword(0).unwrap_or(0);
        let (kind, reads, writes) = match (OP.get(first), SUB_OP.get(first)) {
            (op::NOP, _) => ("NOP", None, [None; 2]),
            (op::COPY, sub::COPY_LINEAR) => {
                let bytes = count(1);
                let second = match COPY_BROADCAST.is_set(first) {
                    true => touched(7, bytes),
                    false => None,
                };
                ("copy", touched(3, bytes), [touched(5, bytes), second])
            }
            (op::COPY, sub::COPY_LINEAR_SUBWIN) => (
                "copy of a window",
                touched(1, None),
                [touched(6, None), None],
            ),
            (op::WRITE, 0) => {
                let bytes = dword(3).map(|count| (u64::from(WRITE_COUNT.get(count)) + 1) * 4);
                ("write", None, [touched(1, bytes), None])
            }
            (op::INDIRECT, 0) => ("indirect buffer", touched(1, None), [None; 2]),
            (op::FENCE, 0) => ("fence", None, [small(1, 4), None]),
            (op::TRAP, 0) => ("trap", None, [None; 2]),
            (op::POLL_REGMEM, 0) => ("poll", small(1, 4), [None; 2]),
            (op::ATOMIC, 0) => ("atomic", None, [small(1, 8), None]),
            (op::CONST_FILL, sub::FILL) => {
                // The count is that of the bytes before the last unit, of at most a dword.
                let bytes = count(4).map(|bytes| bytes.next_multiple_of(4));
                ("fill", None, [touched(1, bytes), None])
            }
            (op::PTEPDE, sub::PTEPDE_GEN) => ("page-table entries", None, [touched(1, None), None]),
            (op::TIMESTAMP, sub::TIMESTAMP_GET | sub::TIMESTAMP_GET_GLOBAL) => {
                ("time stamp", None, [small(1, 8), None])
            }
            (op::TIMESTAMP, sub::TIMESTAMP_SET) => ("time stamp", None, [None; 2]),
            (op::SRBM_WRITE, 0) => ("register write", None, [None; 2]),
            _ => ("packet of an unknown kind", None, [None; 2]),
        };
        Self {
            kind,
            reads,
            writes,
            length: length::of(dwords),
        }
    }

    /// Its dwords, if they are known.
    pub const fn dwords(&self) -> Option<u32> {
        match self.length {
            PacketLength::Dwords(dwords) => Some(dwords),
            PacketLength::Incomplete(_) | PacketLength::Unknown => None,
        }
    }

    /// Whether it reads or writes in the page at `page`, as far as that is known.
    pub fn touches(&self, page: u64) -> bool {
        let all = self.reads.iter().chain(self.writes.iter().flatten());
        all.into_iter().any(|touched| touched.is_in(page))
    }
}

/// The last packet that may have read or written in the page at `page`, and its place, in dwords of
/// a ring that end where another packet begins. The place of packets is not known there: one counts
/// if packets of known lengths lead from it to the end.
pub fn last_before(dwords: &[u32], page: u64) -> Option<(usize, DescribedPacket)> {
    let packet_at = |at: usize| dwords.get(at..).map(DescribedPacket::decode);
    let leads_to_end = |mut at: usize| {
        while at < dwords.len() {
            let length = packet_at(at).and_then(|packet| packet.dwords());
            match length {
                Some(length) => at = at.saturating_add(length as usize),
                None => return false,
            }
        }
        at == dwords.len()
    };
    let mut places = (0..dwords.len()).rev();
    places.find_map(|at| {
        let packet = packet_at(at).filter(|packet| packet.touches(page))?;
        leads_to_end(at).then_some((at, packet))
    })
}

impl fmt::Display for DescribedPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)?;
        let all = || self.reads.iter().chain(self.writes.iter().flatten());
        if let Some(bytes) = all().find_map(|touched| touched.bytes) {
            write!(f, " of {bytes} bytes")?;
        }
        if let Some(reads) = &self.reads {
            write!(f, " from {:#x}", reads.start)?;
        }
        let writes = self.writes.iter().flatten();
        writes
            .into_iter()
            .try_for_each(|writes| write!(f, " to {:#x}", writes.start))
    }
}
