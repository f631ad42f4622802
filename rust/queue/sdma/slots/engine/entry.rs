// SPDX-License-Identifier: GPL-2.0
//! A queue of an engine, and its places: among all of them, and in the line of the queues that wait
//! for a slot.

use super::super::super::hw_queue::SdmaHwQueue;
use crate::mem::vm::VmidUse;
use hw::sdma::seat::SeatState;
use kernel::prelude::*;
use kernel::rbtree::RBTreeNodeReservation;
use kernel::sync::Arc;
use kernel::time::{Instant, Monotonic};

/// The key of a queue among those of an engine: its process, and which queue of that process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct QueueKey {
    pub(super) pasid: u16,
    address: usize,
}

impl QueueKey {
    /// A key that is not behind any queue of process `pasid`, nor of processes with larger numbers.
    pub(in super::super) const fn first_of(pasid: u16) -> Self {
        Self { pasid, address: 0 }
    }

    /// The key of a queue.
    pub(super) fn of(rlc: &SdmaHwQueue) -> Self {
        Self {
            pasid: rlc.owner.pasid,
            address: core::ptr::from_ref(rlc) as usize,
        }
    }

    /// The next larger key.
    pub(in super::super) const fn next(self) -> Self {
        Self {
            pasid: self.pasid,
            address: self.address.wrapping_add(1),
        }
    }
}

/// A place in the line. Queues of a process that can do with the same slots are next to each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReadyPlace {
    pub(super) pasid: u16,
    own: Option<u8>,
    /// The sooner the queue has come out, the smaller.
    pub(super) turn: u64,
}

impl ReadyPlace {
    /// The first place of all.
    pub(super) const FIRST: Self = Self {
        pasid: 0,
        own: None,
        turn: 0,
    };

    /// The first place of process `pasid`.
    pub(super) const fn first_of(pasid: u16) -> Self {
        Self {
            pasid,
            ..Self::FIRST
        }
    }

    /// A place behind the last queue of the same kind.
    pub(super) const fn behind(self) -> Self {
        Self {
            turn: u64::MAX,
            ..self
        }
    }
}

/// The memory that an entry needs besides itself, allocated without the lock.
pub(super) struct EntryMemory {
    pub(super) entry: RBTreeNodeReservation<QueueKey, SlotEntry>,
    pub(super) place: RBTreeNodeReservation<ReadyPlace, QueueKey>,
}

impl EntryMemory {
    /// Memory for one queue.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            entry: RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?,
            place: RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?,
        })
    }
}

/// A queue of an engine.
pub(super) struct SlotEntry {
    pub(super) rlc: Arc<SdmaHwQueue>,
    /// Where it is, and what is wanted of it.
    pub(super) state: SeatState,
    /// Its VMID, unless it is out.
    pub(super) vmid: Option<VmidUse>,
    /// When it got the slot.
    pub(super) since: Instant<Monotonic>,
    /// The only slot that a direct queue can be in: the one that its doorbell goes to.
    pub(super) own: Option<u8>,
    /// See [`ReadyPlace::turn`].
    pub(super) turn: u64,
    /// The memory of a place in line; none while it stands there.
    pub(super) room: Option<RBTreeNodeReservation<ReadyPlace, QueueKey>>,
}

impl SlotEntry {
    /// Whether it may be on the hardware.
    pub(super) fn is_runnable(&self) -> bool {
        !self.state.is_evicted() && self.rlc.is_runnable()
    }

    /// Whether it has something to do, as far as its pointers tell.
    pub(super) fn has_work(&self) -> bool {
        self.rlc.has_work(self.state.seat().is_out())
    }

    /// Whether it is not on the hardware, and may be.
    fn waits(&self) -> bool {
        self.state.seat().is_out() && self.is_runnable()
    }

    /// Whether it must stand in line.
    pub(super) fn belongs_in_line(&self) -> bool {
        self.waits() && (self.rlc.is_direct() || self.has_work())
    }

    /// Its place in line, if it stands there.
    pub(super) fn place(&self) -> ReadyPlace {
        ReadyPlace {
            pasid: self.pasid(),
            own: self.own,
            turn: self.turn,
        }
    }

    fn pasid(&self) -> u16 {
        self.rlc.owner.pasid
    }
}
