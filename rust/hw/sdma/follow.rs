// SPDX-License-Identifier: GPL-2.0
//! Followed queues: the engine reads the process's own ring, the process rings the hardware's own
//! doorbell, and jobs are made after the fact.
//!
//! A look at such a queue reads its two pointers in memory, and makes jobs of the bytes between the
//! positions that it found and those of the look before. This file decides which bytes are a job:
//! each byte that the engine has done is in exactly one, in the order of the ring.
//!
//! # Why no doorbell is lost
//!
//! When to look, and when to take the page of doorbells away from the process, is the same as for
//! queues whose page is memory: [`crate::pump`] decides it, and (1) of its proof holds. Here a
//! store that goes unseen goes to the hardware. A process stores its write pointer before it stores
//! to the doorbell, as amdkfd's clients do: the hardware ignores the doorbell of a queue that is in
//! no slot in amdkfd, too, and reads the pointer when it loads the queue. So for each store to the
//! doorbell one of these holds:
//!
//! - *The queue is in a slot*: the engine has got the store.
//! - *The queue is being loaded*: the driver first enables the doorbell, and then reads the write
//!   pointer. A store that comes after the doorbell is enabled is latched by the engine. The
//!   pointer of any other store was in memory before, and is read.
//! - *The queue is out, and the store was seen*, that is, it has faulted: the fault has the queue
//!   stand in line for a slot (it *submits* it), and it is loaded later. The store itself comes
//!   after that, so its pointer is in memory long before.
//! - *The queue is out, and the store was not seen*: the page is mapped, so that a pass is due. It
//!   looks after the store, finds the pointer, and has the queue stand in line.
//! - *The queue leaves its slot between the fault's look and the store*: the same. As it comes out
//!   it also stands in line by itself if its pointer is ahead.
//!
//! A store that goes unseen while the queue is out has no effect before the next tick. So that this
//! is rare, the page is taken away as soon as a queue has left its slot
//! ([`crate::pump::PumpFlag::Left`]). A fault for another queue of the process maps it again; then
//! a pass comes sooner ([`crate::pump::PumpFindings::unheard`]).
//!
//! The page is taken away as ever: first [`crate::pump::PumpFlag::Open`] is cleared, then the page
//! is taken, and then comes the last look. A store before the end of the second step is either the
//! engine's, or its pointer is in memory for that look. A store after it faults.
//!
//! `tests/host/tests/follow.rs` explores all interleavings of these threads.
//!
//! | the queue is | event | action |
//! |---|---|---|
//! | any | a fault for its doorbell | submit |
//! | any | a look finds the write pointer ahead of the read pointer | submit |
//! | any | a look finds neither pointer moved, and them equal | nothing |
//!
//! To submit is [`crate::sdma::seat::SeatEvent::Work`]: a queue that is out stands in line, and one
//! in a slot needs nothing, as the engine has the doorbell.

use super::length::{self, PacketLength};
use super::ring::RingSize;

/// The most jobs that one look at a queue makes. Submissions beyond that share the last one: a
/// stream of small copies has thousands of them between two looks.
pub const JOBS_OF_LOOK: usize = 16;
/// The most packets of a submission that are looked at for its end.
const MOST_PACKETS: u32 = 256;

/// Positions of a queue in its ring, in bytes that never wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FollowedPositions {
    /// The engine has come so far.
    read: u64,
    /// Bytes that jobs were made of.
    taken: u64,
}

/// Findings of a look at a queue's pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FollowedBytes {
    /// The first byte of which no job was made.
    pub from: u64,
    /// The engine has come so far.
    pub read: u64,
    /// The byte after the last one that was announced.
    pub to: u64,
    /// The ring still has all of these bytes: the process may have written over others.
    pub intact: bool,
    /// A pointer has moved since the look before.
    pub moved: bool,
}

impl FollowedBytes {
    /// Whether the queue has work: [`crate::sdma::seat::SeatEvent::Work`].
    #[inline]
    pub const fn has_work(&self) -> bool {
        self.to > self.read
    }
}

impl FollowedPositions {
    /// A new queue.
    #[inline]
    pub const fn new() -> Self {
        Self::from(0)
    }

    /// A queue that begins at byte count `from`.
    #[inline]
    pub const fn from(from: u64) -> Self {
        Self {
            read: from,
            taken: from,
        }
    }

    /// A look at a ring of `size` has found `read` and `write` in memory, which the process may
    /// write: values that cannot be pointers of the ring count as not moved.
    pub fn look(&mut self, size: RingSize, read: u64, write: u64) -> FollowedBytes {
        let (read, to) = if read >= self.read && size.used(read, write).is_some() {
            (read, write)
        } else if size.used(self.read, write).is_some() {
            (self.read, write)
        } else {
            (self.read, self.taken)
        };
        // A write pointer that goes back announces nothing.
        let to = if to > self.taken { to } else { self.taken };
        let moved = read != self.read || to != self.taken;
        self.read = read;
        FollowedBytes {
            from: self.taken,
            read,
            to,
            intact: to - self.taken <= size.bytes(),
            moved,
        }
    }

    /// A job was made of the bytes up to `to`.
    #[inline]
    pub fn take(&mut self, to: u64) {
        if to > self.taken {
            self.taken = to;
        }
    }
}

/// The end of the submission that begins at byte `from`, at most `to`: behind the packets that tell
/// of its end (FENCE, ATOMIC, TRAP). `header` reads the first dwords of the packet at a byte, as
/// many as there are before `to`, and returns how many. `to` itself if the packets do not tell.
pub fn submission_end(
    from: u64,
    to: u64,
    mut header: impl FnMut(u64, &mut [u32; length::HEADER_DWORDS]) -> Option<usize>,
) -> u64 {
    let mut dwords = [0; length::HEADER_DWORDS];
    let mut at = from;
    let mut ended = false;
    for _ in 0..MOST_PACKETS {
        if at >= to {
            return to;
        }
        let count = header(at, &mut dwords).unwrap_or(0);
        let Some(packet) = dwords.get(..count) else {
            return to;
        };
        let ends = length::ends_submission(packet);
        if ended && !ends {
            return at;
        }
        ended = ends;
        match length::of(packet) {
            PacketLength::Dwords(dwords) => at += u64::from(dwords) * 4,
            PacketLength::Incomplete(_) | PacketLength::Unknown => return to,
        }
    }
    to
}
