// SPDX-License-Identifier: GPL-2.0
//! The interface of the schedulers of compute queues.

use super::change::QueueChange;
use super::hws::pace::ListCosts;
use super::queue::{ComputeFailure, ComputeQueue};
use crate::mem::queue_group::QuiesceTimeout;
use crate::mem::GpuMemory;
use crate::queue::request::QueueOwner;
use core::fmt;
use hw::doorbell::DoorbellSlot;
use hw::seat::Seat;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A scheduler, which decides which queues are on the hardware. All functions may sleep, are
/// bounded by the time that the hardware may take, and take no lock under which memory is
/// allocated, apart from [`ComputeScheduler::add`].
pub(crate) trait ComputeScheduler: Send + Sync {
    /// Sets the hardware up, once everything else of `gpu` is; queues come later.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ETIMEDOUT` when the hardware does not answer.
    fn start(&self, _gpu: &GpuMemory) -> Result {
        Ok(())
    }

    /// Prepares for a stop of the hardware, until [`ComputeScheduler::start`]: no queue may run
    /// meanwhile. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY`, and nothing has happened, while a queue is on the hardware.
    fn pause(&self) -> Result {
        Ok(())
    }

    /// Takes all queues off the hardware, for good. Bounded; may sleep. For unbind, before the
    /// hardware is stopped.
    fn stop(&self) {}

    /// Takes `queue` over: it is on the hardware as soon and as long as it may and there is room.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the device goes, `ENOSPC` when there are too many queues, `ENOMEM`.
    fn add(&self, queue: Arc<ComputeQueue>) -> Result;

    /// Takes `queue` off the hardware for good.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if it does not leave: it is kept, with all that the hardware may still reach.
    fn remove(&self, queue: &ComputeQueue) -> Result;

    /// Announces that all queues of process `pasid` are about to be removed: where it makes a
    /// difference, they leave the hardware together. Waits for nothing.
    fn dismiss(&self, _pasid: u16) {}

    /// Makes `change` while `queue` is not on the hardware, and has it go on after that if it may
    /// run then.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if it does not leave; errors of [`QueueChange::make`].
    fn update(&self, queue: &ComputeQueue, change: QueueChange) -> Result;

    /// Takes `queue`, which its group has just quiesced, off the hardware. It is off at the return
    /// in any case: a queue that does not leave has failed. Allocates nothing.
    fn quiesce(&self, queue: &ComputeQueue, patience: &QuiesceTimeout);

    /// Allows the queue to run again if its process wants it to. Waits for nothing.
    fn resume(&self, queue: &ComputeQueue);

    /// Looks at all queues, as VMIDs are free, wanted or recalled: see [`crate::ip::vmid`]. Any
    /// context; waits for nothing.
    fn vmids_changed(&self) {}

    /// Stops the queues for which `which` holds. They are taken off soon, or at once if they do
    /// harm, and not run again. Returns the owner of one of them that had not failed before. Does
    /// not wait for the hardware.
    fn fail(
        &self,
        why: ComputeFailure,
        which: &dyn Fn(&QueuePlacement<'_>) -> bool,
    ) -> Option<QueueOwner>;

    /// Has one process at a time on the compute units, which finds nothing of others in registers
    /// and LDS, or (`false`) does not. It is so at the return. May sleep.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if this scheduler or the firmware cannot do that.
    fn isolate(&self, on: bool) -> Result {
        match on {
            true => Err(EOPNOTSUPP),
            false => Ok(()),
        }
    }

    /// Whether it does, see [`ComputeScheduler::isolate`].
    fn is_isolating(&self) -> bool {
        false
    }

    /// Shows every queue, for debugfs.
    fn states(&self, show: &mut dyn FnMut(&QueuePlacement<'_>) -> fmt::Result) -> fmt::Result;

    /// The costs of the lists of the hardware's own scheduler, if that is used.
    fn lists(&self) -> Option<ListCosts> {
        None
    }

    /// Forgets the queues that are left, and runs none any more. For unbind, after every process
    /// has lost its queues and the hardware was stopped.
    fn close(&self);
}

/// The place of a queue on the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComputePlace {
    /// The runlist. The hardware's scheduler knows which HQD the queue has, if any. The list is as
    /// long as it needs to be, and is preempted as a whole: the driver has no slots to give away
    /// there, and its entries have no movers.
    Runlist,
    /// An HQD.
    Hqd(hw::queue::Hqd),
}

/// A queue and where it is.
pub(crate) struct QueuePlacement<'a> {
    pub(super) queue: &'a ComputeQueue,
    /// Where it is.
    pub(crate) seat: Seat<ComputePlace>,
    /// The VMID of its address space, while it has one.
    pub(crate) vmid: Option<u8>,
    /// The number of times that it has come to the hardware with work, if the driver knows.
    pub(crate) turns: Option<u64>,
}

impl QueuePlacement<'_> {
    /// Its process and number.
    pub(crate) fn owner(&self) -> QueueOwner {
        self.queue.owner
    }

    /// Its doorbell in the process's slice.
    pub(crate) fn doorbell(&self) -> DoorbellSlot {
        self.queue.doorbell()
    }

    /// Read and write pointer as the process knows them: packets for AQL, dwords for PM4.
    pub(crate) fn pointers(&self) -> (u64, u64) {
        self.queue.memory.pointers()
    }

    /// Bytes of its saved waves; `None` while it is on the hardware, or the device is gone.
    pub(crate) fn saved_waves(&self) -> Option<u32> {
        if !self.seat.is_out() {
            return None;
        }
        let mut used = 0u32;
        for image in self.queue.descriptor.images() {
            used = used.saturating_add(image.ok()?.wave_state().waves_used);
        }
        Some(used)
    }

    /// Whether it holds AQL packets.
    pub(crate) fn is_aql(&self) -> bool {
        self.queue.memory.format() == hw::mqd::compute::PacketFormat::Aql
    }
}
