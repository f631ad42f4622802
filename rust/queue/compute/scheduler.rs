// SPDX-License-Identifier: GPL-2.0
//! What every scheduler of compute queues can do.

use super::super::queue_group::QuiesceTimeout;
use super::change::QueueChange;
use super::hws::pace::ListCosts;
use super::queue::ComputeQueue;
use crate::mem::GpuMemory;
use crate::queue::request::QueueOwner;
use core::fmt;
use hw::doorbell::DoorbellSlot;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Decides which queues are on the hardware. Everything here may sleep, is bounded by what the hardware may take, and
/// takes no lock under which memory is allocated, apart from [`ComputeScheduler::add`].
pub(crate) trait ComputeScheduler: Send + Sync {
    /// Sets the hardware up, once everything else of `gpu` is; queues come later. ENOMEM; ETIMEDOUT when the hardware
    /// does not answer.
    fn start(&self, _gpu: &GpuMemory) -> Result {
        Ok(())
    }

    /// The hardware is about to be stopped, until [`ComputeScheduler::start`]: no queue may run meanwhile. EBUSY, and nothing has happened, while one is on the hardware.
    /// Sleeps.
    fn pause(&self) -> Result {
        Ok(())
    }

    /// Nothing is on the hardware any more, and nothing gets there. Bounded; sleeps. For unbind, before the hardware is
    /// stopped.
    fn stop(&self) {}

    /// Takes `queue` over: it is on the hardware as soon and as long as it may and there is room. ENODEV when the
    /// device goes, ENOSPC when there are too many queues, ENOMEM.
    fn add(&self, queue: Arc<ComputeQueue>) -> Result;

    /// Takes `queue` off the hardware for good. ETIMEDOUT for one that cannot be got off: it is kept, with all that
    /// the hardware may still reach.
    fn remove(&self, queue: &ComputeQueue) -> Result;

    /// All queues of process `pasid` are about to be removed: where it makes a difference, they leave the hardware together.
    /// Waits for nothing.
    fn dismiss(&self, _pasid: u16) {}

    /// Makes `change` while `queue` is not on the hardware, and has it go on after that if it may run then.
    /// ETIMEDOUT when it cannot be got off; errors of [`QueueChange::make`].
    fn update(&self, queue: &ComputeQueue, change: QueueChange) -> Result;

    /// Takes `queue`, which its group has just quiesced, off the hardware. Whatever it does, it is off at the return:
    /// one that cannot be got off has failed. Allocates nothing.
    fn quiesce(&self, queue: &ComputeQueue, patience: &QuiesceTimeout);

    /// The queue may run again if its process wants it to. Waits for nothing.
    fn resume(&self, queue: &ComputeQueue);

    /// VMIDs are free, wanted or recalled, see [`crate::ip::vmid`]. Any context; waits for nothing.
    fn vmids_changed(&self) {}

    /// Stops the queues that `which` says. They are taken off soon, and not run again. Gives the owner of one of them that
    /// had not failed before. Does not wait for the hardware.
    fn fail(&self, which: &dyn Fn(&QueuePlacement<'_>) -> bool) -> Option<QueueOwner>;

    /// Shows every queue, for debugfs.
    fn states(&self, show: &mut dyn FnMut(&QueuePlacement<'_>) -> fmt::Result) -> fmt::Result;

    /// What the lists of the hardware's own scheduler have cost, if that is used.
    fn lists(&self) -> Option<ListCosts> {
        None
    }

    /// Forgets what is left, and has nothing run any more. For unbind, after every process has lost its queues and
    /// the hardware was stopped.
    fn close(&self);
}

/// Where a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedulerPlace {
    /// Not on the hardware.
    Out,
    /// On the list of the hardware's scheduler, which knows where.
    Listed,
    /// In this HQD.
    In(hw::queue::Hqd),
    /// It was asked to leave this HQD.
    Leaving(hw::queue::Hqd),
    /// It does not leave this HQD.
    Stuck(hw::queue::Hqd),
}

/// A queue and where it is.
pub(crate) struct QueuePlacement<'a> {
    pub(super) queue: &'a ComputeQueue,
    /// Where it is.
    pub(crate) place: SchedulerPlace,
    /// Its address space's VMID, while it has one.
    pub(crate) vmid: Option<u8>,
    /// How often it has come to the hardware with work, if the driver knows.
    pub(crate) turns: Option<u64>,
}

impl QueuePlacement<'_> {
    /// Whose it is.
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

    /// Bytes of its saved waves; None while the hardware has it, or the device is gone.
    pub(crate) fn saved_waves(&self) -> Option<u32> {
        if self.place != SchedulerPlace::Out {
            return None;
        }
        let image = self.queue.descriptor.image().ok()?;
        Some(image.wave_state().waves_used)
    }

    /// It holds AQL packets.
    pub(crate) fn is_aql(&self) -> bool {
        self.queue.memory.format() == hw::mqd::compute::PacketFormat::Aql
    }
}
