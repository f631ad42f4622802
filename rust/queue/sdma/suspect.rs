// SPDX-License-Identifier: GPL-2.0
//! An SDMA queue of a process whose access has faulted, with the packet that it may have been.

use super::direct::DirectQueue;
use super::hw_queue::{PacketSource, SdmaHwQueue};
use crate::queue::pointers::QueuePointers;
use core::fmt;
use hw::sdma::described::{self, DescribedPacket, MOST_DWORDS};

/// The most packets that are looked at.
const MOST_PACKETS: usize = 64;
/// Dwords before the read pointer that are looked at: an engine may be ahead of its accesses.
const DWORDS_BEFORE: usize = 64;

/// A queue that may have caused a fault.
#[derive(Clone, Copy)]
pub(crate) struct SdmaSuspect {
    queue: u32,
    engine: u8,
    /// Bytes of the process's ring that are done, and that there are.
    pointers: (u64, u64),
    /// The first packet behind those that are done that reads or writes in the page, or the last
    /// one before, or the first one at all, with its place.
    packet: Option<(u64, DescribedPacket)>,
    /// Whether that reads or writes in the page.
    touches: bool,
}

impl SdmaSuspect {
    /// `rlc` as the suspect for a fault in the page at `page`.
    pub(super) fn new(rlc: &SdmaHwQueue, page: u64) -> Self {
        let of_own = |direct: &DirectQueue| {
            let pointers = &direct.pointers;
            (pointers.read_pointer(), pointers.write_pointer())
        };
        let (ring, pointers) = match &rlc.source {
            PacketSource::Direct(direct) => (&direct.pointers, of_own(direct)),
            PacketSource::Followed(followed) => {
                (&followed.direct.pointers, of_own(&followed.direct))
            }
            PacketSource::Feed(feed) => (&feed.pointers, feed.progress()),
            // Its packets are in indirect buffers, which have no pointers.
            PacketSource::Jobs(jobs) => {
                return Self {
                    queue: rlc.owner.queue,
                    engine: rlc.engine,
                    pointers: jobs.position(),
                    packet: None,
                    touches: false,
                }
            }
        };
        let mut packets = Packets::new(ring, pointers);
        let first = packets.next();
        let touching = first
            .into_iter()
            .chain(packets)
            .take(MOST_PACKETS)
            .find(|(_, packet)| packet.touches(page))
            .or_else(|| last_before(ring, pointers, page));
        Self {
            queue: rlc.owner.queue,
            engine: rlc.engine,
            pointers,
            packet: touching.or(first),
            touches: touching.is_some(),
        }
    }

    /// Whether it has packets that are not done.
    pub(crate) fn is_busy(&self) -> bool {
        self.packet.is_some()
    }

    /// Whether one of its packets reads or writes in the page.
    pub(crate) fn touches(&self) -> bool {
        self.touches
    }
}

/// The last packet before the read pointer that reads or writes in the page, as far as the ring
/// still has it.
fn last_before(
    ring: &QueuePointers,
    (read, write): (u64, u64),
    page: u64,
) -> Option<(u64, DescribedPacket)> {
    let kept = ring.size().bytes() - ring.size().used(read, write)?;
    let count = (kept.min(read) / 4).min(DWORDS_BEFORE as u64);
    let start = read - count * 4;
    let mut dwords = [0; DWORDS_BEFORE];
    let dwords = dwords.get_mut(..count as usize)?;
    ring.read_ring(start, dwords).ok()?;
    let (at, packet) = described::last_before(dwords, page)?;
    Some((start + at as u64 * 4, packet))
}

/// The packets of a ring from the first that is not done on, up to one of unknown length.
struct Packets<'a> {
    ring: &'a QueuePointers,
    at: u64,
    end: u64,
}

impl<'a> Packets<'a> {
    /// Those between the pointers; none if these make no sense.
    fn new(ring: &'a QueuePointers, (at, end): (u64, u64)) -> Self {
        let end = ring.size().used(at, end).map_or(at, |_| end);
        Self { ring, at, end }
    }
}

impl Iterator for Packets<'_> {
    type Item = (u64, DescribedPacket);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let left = (self.end.checked_sub(at)? / 4).min(MOST_DWORDS as u64) as usize;
        let mut dwords = [0; MOST_DWORDS];
        let dwords = dwords.get_mut(..left).filter(|dwords| !dwords.is_empty())?;
        self.ring.read_ring(at, dwords).ok()?;
        let packet = DescribedPacket::decode(dwords);
        self.at = match packet.dwords() {
            Some(dwords) => at.saturating_add(u64::from(dwords) * 4),
            None => self.end,
        };
        Some((at, packet))
    }
}

impl fmt::Display for SdmaSuspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (read, write) = self.pointers;
        write!(
            f,
            "queue {} (SDMA, engine {}) has done {read} of {write} bytes",
            self.queue, self.engine
        )?;
        match &self.packet {
            Some((at, packet)) => write!(f, "; at {at}: {packet}"),
            None => Ok(()),
        }
    }
}
