// SPDX-License-Identifier: GPL-2.0
//! A queue of an engine, and its places: among all of them, and in the line of the queues that wait
//! for a slot.

use super::super::super::hw_queue::SdmaHwQueue;
use crate::ip::retries::UrgentFaults;
use crate::kern::host;
use crate::mem::vm::VmidUse;
use hw::sdma::seat::{LateReason, SeatState, UNLOAD_MS};
use kernel::prelude::*;
use kernel::rbtree::RBTreeNodeReservation;
use kernel::sync::Arc;
use kernel::time::{Delta, Instant, Monotonic};

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

/// A place in the line. The queues of a process are next to each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReadyPlace {
    pub(super) pasid: u16,
    /// The sooner the queue has come out, the smaller.
    pub(super) turn: u64,
}

impl ReadyPlace {
    /// The first place of all.
    pub(super) const FIRST: Self = Self { pasid: 0, turn: 0 };

    /// The first place of process `pasid`.
    pub(super) const fn first_of(pasid: u16) -> Self {
        Self {
            pasid,
            ..Self::FIRST
        }
    }

    /// The next place after it.
    pub(super) const fn next(self) -> Self {
        Self {
            turn: self.turn.wrapping_add(1),
            ..self
        }
    }

    /// A place behind the last queue of the same process.
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

/// The request that a queue leave its slot.
pub(super) struct LeaveRequest {
    /// When the queue was asked, or was last given more time.
    since: Instant<Monotonic>,
    /// The same by the clock of page faults.
    since_ms: u64,
    /// The packet under way may wait for a page: until it has ended, whichever threads wait for
    /// that, such pages come first.
    _urgent: UrgentFaults,
}

/// A queue of an engine.
pub(super) struct SlotEntry {
    pub(super) rlc: Arc<SdmaHwQueue>,
    /// Where it is, and what is wanted of it.
    pub(super) state: SeatState,
    /// Its VMID, unless it is out.
    pub(super) vmid: Option<VmidUse>,
    /// The request to leave, while the hardware has yet to let go of it.
    request: Option<LeaveRequest>,
    /// When it got the slot.
    pub(super) since: Instant<Monotonic>,
    /// See [`ReadyPlace::turn`].
    pub(super) turn: u64,
    /// The memory of a place in line; none while it stands there.
    pub(super) room: Option<RBTreeNodeReservation<ReadyPlace, QueueKey>>,
}

impl SlotEntry {
    /// A queue that is in no slot. `room` is the memory of a place in line.
    pub(super) fn new(
        rlc: Arc<SdmaHwQueue>,
        turn: u64,
        room: RBTreeNodeReservation<ReadyPlace, QueueKey>,
    ) -> Self {
        Self {
            state: SeatState::new(!rlc.is_runnable()),
            rlc,
            vmid: None,
            request: None,
            since: Instant::now(),
            turn,
            room: Some(room),
        }
    }

    /// Turns its ring in `slot` off: it leaves. A piece.
    pub(super) fn turn_off(&mut self, slot: u8) {
        let rlc = &self.rlc;
        self.request = Some(LeaveRequest {
            since: Instant::now(),
            since_ms: host::boot_ms(),
            _urgent: rlc.gpu.hw.faults.set_urgent(rlc.owner.pasid),
        });
        rlc.sdma().turn_off(slot);
    }

    /// Whether the hardware is through with it in `slot`, where its ring was turned off. Then its
    /// position is saved. A piece.
    pub(super) fn has_left(&mut self, slot: u8) -> bool {
        match self.rlc.sdma().unload(slot) {
            Some(rptr) => {
                self.rlc.save(rptr);
                true
            }
            None => false,
        }
    }

    /// The same, polled for `time`.
    pub(super) fn leaves_within(&mut self, slot: u8, time: Delta) -> bool {
        let began = Instant::<Monotonic>::now();
        while !self.has_left(slot) {
            if began.elapsed() >= time {
                return false;
            }
            core::hint::spin_loop();
        }
        true
    }

    /// The request to leave is over.
    pub(super) fn end_request(&mut self) {
        self.request = None;
    }

    /// How long ago it was asked to leave, milliseconds, if the hardware has yet to let go of it.
    pub(super) fn asked_ms(&self) -> Option<i64> {
        self.state.asked()?;
        let request = self.request.as_ref()?;
        Some(request.since.elapsed().as_millis())
    }

    /// Why it has not left, if it should have by now. If page faults are the reason, it gets more
    /// time. Entries of the interrupt ring that the driver has yet to handle may be about these.
    pub(super) fn late(&mut self) -> Option<LateReason> {
        self.asked_ms().filter(|&ms| ms >= UNLOAD_MS)?;
        let (rlc, request) = (&self.rlc, self.request.as_mut()?);
        let hw = &rlc.gpu.hw;
        let known = hw.faults.are_under_way(rlc.owner.pasid, request.since_ms);
        if !known && hw.ih.is_empty() {
            return Some(LateReason::Hangs);
        }
        request.since = Instant::now();
        request.since_ms = host::boot_ms();
        Some(LateReason::PageFaults)
    }

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
            turn: self.turn,
        }
    }

    /// Its key.
    pub(super) fn key(&self) -> QueueKey {
        QueueKey::of(&self.rlc)
    }

    fn pasid(&self) -> u16 {
        self.rlc.owner.pasid
    }
}
