// SPDX-License-Identifier: GPL-2.0
//! A compute queue of a process whose access has faulted, with its packets.

use super::scheduler::QueuePlacement;
use crate::mem::bo::Bo;
use core::fmt;
use hw::aql::{AqlPacket, PACKET_DWORDS};
use hw::sdma::ring::RingSize;
use kernel::sync::aref::ARef;

/// Bytes of a packet.
const PACKET_BYTES: u64 = PACKET_DWORDS as u64 * 4;

/// A queue, before its packets are read. It holds the ring's buffer.
pub(crate) struct UnreadSuspect {
    queue: u32,
    is_aql: bool,
    pointers: (u64, u64),
    ring: ARef<Bo>,
    size: RingSize,
}

impl QueuePlacement<'_> {
    /// The queue as the suspect for a fault.
    pub(crate) fn suspect(&self) -> UnreadSuspect {
        let (ring, size) = self.queue.memory.ring();
        UnreadSuspect {
            queue: self.queue.owner.queue,
            is_aql: self.is_aql(),
            pointers: self.pointers(),
            ring,
            size,
        }
    }

    /// Whether it has packets that are not done, as far as that is known.
    pub(crate) fn is_busy(&self) -> bool {
        let midway = || self.queue.descriptor.is_midway();
        self.queue.memory.has_work() || self.seat.is_out() && midway()
    }
}

/// A queue that may have caused a fault.
#[derive(Clone, Copy)]
pub(crate) struct ComputeSuspect {
    queue: u32,
    is_aql: bool,
    pointers: (u64, u64),
    /// The packet at the read pointer, and the one before.
    packets: [Option<AqlPacket>; 2],
}

impl UnreadSuspect {
    /// Reads its packets. May sleep.
    pub(crate) fn read(&self) -> ComputeSuspect {
        let (read, write) = self.pointers;
        let next = (read != write).then(|| self.packet(read)).flatten();
        let before = read.checked_sub(1).and_then(|number| self.packet(number));
        ComputeSuspect {
            queue: self.queue,
            is_aql: self.is_aql,
            pointers: self.pointers,
            packets: [next, before],
        }
    }

    /// Packet `number`; `None` if it cannot be read.
    fn packet(&self, number: u64) -> Option<AqlPacket> {
        if !self.is_aql {
            return None;
        }
        let place = self.size.dword_at(number.wrapping_mul(PACKET_BYTES));
        let mut dwords = [0; PACKET_DWORDS];
        self.ring
            .read32s_present(place as u64 * 4, &mut dwords)
            .ok()?;
        Some(AqlPacket::decode(&dwords))
    }
}

impl fmt::Display for ComputeSuspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (read, write) = self.pointers;
        let (format, unit) = match self.is_aql {
            true => ("AQL", "packets"),
            false => ("PM4", "dwords"),
        };
        write!(
            f,
            "queue {} ({format}) has read {read} of {write} {unit}",
            self.queue
        )?;
        let [next, before] = &self.packets;
        if let Some(next) = next {
            write!(f, "; next: {next}")?;
        }
        if let Some(before) = before {
            write!(f, "; before that: {before}")?;
        }
        Ok(())
    }
}
