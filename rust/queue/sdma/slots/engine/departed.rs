// SPDX-License-Identifier: GPL-2.0
//! What is left to do for queues that have left their slots: their VMIDs are given up, jobs that
//! ended just before are seen to, and the pump of a followed queue takes the page of doorbells
//! away, as stores to the queue's doorbell would go unheard.
//!
//! None of it can be done under the engine's spinlock, and none is left to the thread that has a
//! queue leave: a thread that has lost its processor would keep the VMID from other processes. So
//! the engine's work item does it.
//!
//! The work item must not drop the last reference to an address space: to free page tables takes
//! locks under which memory is allocated. So a process that gives its address space up waits for
//! the work item before ([`super::EngineSlots::wait_settled`]).

use super::super::super::hw_queue::SdmaHwQueue;
use super::entry::{QueueKey, SlotEntry};
use super::MAX_SLOTS;
use crate::mem::vm::VmidUse;
use kernel::sync::Arc;

/// A queue that has left its slot.
struct DepartedQueue {
    pasid: u16,
    vmid: Option<VmidUse>,
    /// The queue, if it had jobs that were not seen to have ended, or is followed. The interrupt
    /// thread only looks at queues that are in a slot.
    unseen: Option<QueueKey>,
}

/// The queues that have left each slot since the work item last cleared up, which it does before it
/// loads any.
#[derive(Default)]
pub(super) struct DepartedQueues([Option<DepartedQueue>; MAX_SLOTS]);

impl DepartedQueues {
    /// Adds the queue of `entry`, which has just left `slot`.
    pub(super) fn add(&mut self, slot: u8, entry: &mut SlotEntry) {
        let Some(place) = self.0.get_mut(usize::from(slot)) else {
            return;
        };
        let rlc = &entry.rlc;
        let unseen = rlc.has_jobs() || rlc.followed().is_some();
        let unseen = unseen.then(|| QueueKey::of(rlc));
        if entry.vmid.is_some() || unseen.is_some() {
            *place = Some(DepartedQueue {
                pasid: entry.rlc.owner.pasid,
                vmid: entry.vmid.take(),
                unseen,
            });
        }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Whether there is one of process `pasid`, or any.
    pub(super) fn has(&self, pasid: Option<u16>) -> bool {
        let mut all = self.0.iter().flatten();
        all.any(|departed| pasid.is_none_or(|pasid| pasid == departed.pasid))
    }

    /// Takes all. `find` returns a reference to a queue, if the engine still has it.
    pub(super) fn take(
        &mut self,
        find: impl Fn(&QueueKey) -> Option<Arc<SdmaHwQueue>>,
    ) -> Settlement {
        let mut settlement = Settlement::default();
        let Settlement { vmids, unseen } = &mut settlement;
        for ((place, vmid), queue) in self.0.iter_mut().zip(vmids).zip(unseen) {
            if let Some(departed) = place.take() {
                *vmid = departed.vmid;
                *queue = departed.unseen.as_ref().and_then(&find);
            }
        }
        settlement
    }
}

/// What the work item does for queues that have left.
#[derive(Default)]
pub(super) struct Settlement {
    /// Dropped without the engine's spinlock.
    vmids: [Option<VmidUse>; MAX_SLOTS],
    /// Dropped with it.
    unseen: [Option<Arc<SdmaHwQueue>>; MAX_SLOTS],
}

impl Settlement {
    /// Whether there are references to queues.
    pub(super) fn has_queues(&self) -> bool {
        self.unseen.iter().any(Option::is_some)
    }

    /// Ends the jobs that are done, and tells pumps.
    pub(super) fn check(&self) {
        for rlc in self.unseen.iter().flatten() {
            rlc.check();
            rlc.has_left();
        }
    }

    /// Drops the references to queues.
    pub(super) fn drop_queues(&mut self) {
        self.unseen = Default::default();
    }

    /// Gives the VMIDs up. May sleep.
    pub(super) fn give_up_vmids(self) {
        drop(self.vmids);
    }
}
