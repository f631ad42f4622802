// SPDX-License-Identifier: GPL-2.0
//! The queues of a process, on all GPUs.

use hw::doorbell::DoorbellSlot;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::context::GpuContext;
use super::exceptions::QueueListing;
use super::sysfs::QueueFolder;
use crate::kern::handles::HandleTable;
use crate::queue::request::{CreateQueue, UpdateQueue, UserQueue};

/// A queue, its context, its folder in sysfs, and its listing, until it is about to be destroyed.
/// Dropped outside the lock of [`ProcessQueues`].
pub(super) struct QueueEntry {
    pub(super) queue: Arc<dyn UserQueue>,
    pub(super) context: Arc<GpuContext>,
    /// What it was created or last updated with.
    pub(super) create: CreateQueue,
    pub(super) folder: Option<QueueFolder>,
    pub(super) listing: Option<QueueListing>,
}

/// The end of the numbers that a saved queue can have: `KFD_MAX_NUM_OF_QUEUES_PER_PROCESS` of
/// amdkfd.
const MOST_IDS: u32 = 1024;

/// A queue in a list of all.
pub(super) struct NumberedQueue {
    /// Its number.
    pub(super) id: u32,
    /// What it was created or last updated with.
    pub(super) create: CreateQueue,
    /// The queue.
    pub(super) queue: Arc<dyn UserQueue>,
    /// Its context.
    pub(super) context: Arc<GpuContext>,
}

/// A queue that is about to be destroyed, its context, and its listing.
type RetiringQueue = (Arc<dyn UserQueue>, Arc<GpuContext>, Option<QueueListing>);

/// The queues by id.
pub(super) struct ProcessQueues {
    entries: HandleTable<QueueEntry>,
}

impl ProcessQueues {
    /// An empty table.
    pub(super) const fn new() -> Self {
        Self {
            entries: HandleTable::new(),
        }
    }

    /// Reserves a number for a queue that is about to be created.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOSPC`.
    pub(super) fn reserve(&mut self) -> Result<u32> {
        self.entries.reserve()
    }

    /// As [`ProcessQueues::reserve`], of the number `id`.
    ///
    /// # Errors
    ///
    /// `EINVAL` beyond [`MOST_IDS`]; `ENOSPC` if it is taken; `ENOMEM`.
    pub(super) fn reserve_at(&mut self, id: u32) -> Result {
        if id >= MOST_IDS {
            return Err(EINVAL);
        }
        self.entries.reserve_at(id)
    }

    /// The queues with their numbers, what they are made of, and their contexts.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn list(&self) -> Result<KVVec<NumberedQueue>> {
        let mut all = KVVec::new();
        for (id, entry) in self.entries.numbered() {
            let queue = NumberedQueue {
                id,
                create: entry.create,
                queue: entry.queue.clone(),
                context: entry.context.clone(),
            };
            all.push(queue, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(all)
    }

    /// Ends the creation of the queue with number `id`; returns its outcome.
    pub(super) fn complete(&mut self, id: u32, entry: Result<QueueEntry>) -> Result<DoorbellSlot> {
        match entry {
            Ok(entry) => {
                let slot = entry.queue.doorbell();
                self.entries.fill(id, entry);
                Ok(slot)
            }
            Err(error) => {
                self.entries.release(id);
                Err(error)
            }
        }
    }

    /// The queue `id` and its context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown queue.
    pub(super) fn get(&mut self, id: u32) -> Result<(Arc<dyn UserQueue>, Arc<GpuContext>)> {
        let entry = self.entries.get_mut(id).ok_or(EINVAL)?;
        Ok((entry.queue.clone(), entry.context.clone()))
    }

    /// As [`ProcessQueues::get`] for a queue that is about to be destroyed, with its listing if it
    /// has one.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown queue.
    pub(super) fn retire(&mut self, id: u32) -> Result<RetiringQueue> {
        let entry = self.entries.get_mut(id).ok_or(EINVAL)?;
        let listing = entry.listing.take();
        Ok((entry.queue.clone(), entry.context.clone(), listing))
    }

    /// Whether the table is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Notes that `update` was made of queue `id`, which is `queue`. No effect if that is another
    /// queue by now.
    pub(super) fn updated(&mut self, id: u32, queue: &Arc<dyn UserQueue>, update: &UpdateQueue) {
        let entry = self.entries.get_mut(id);
        let Some(entry) = entry.filter(|entry| Arc::ptr_eq(&entry.queue, queue)) else {
            return;
        };
        entry.create.priority = update.priority;
        entry.create.percentage.percent = match update.is_active() {
            true => update.percentage.percent,
            false => 0,
        };
        let Some((ring, size)) = update.ring else {
            return;
        };
        (entry.create.ring, entry.create.size) = (ring, size);
        if let Some(folder) = &entry.folder {
            folder.resize(size.bytes());
        }
    }

    /// Removes queue `id`, which is `queue`. Its number is reused only after
    /// [`ProcessQueues::release`], when its folder is gone.
    ///
    /// # Errors
    ///
    /// `EINVAL` if that is another queue by now.
    pub(super) fn remove(&mut self, id: u32, queue: &Arc<dyn UserQueue>) -> Result<QueueEntry> {
        let entry = self.entries.get_mut(id).ok_or(EINVAL)?;
        if !Arc::ptr_eq(&entry.queue, queue) {
            return Err(EINVAL);
        }
        self.entries.remove_reserved(id).ok_or(EINVAL)
    }

    /// Removes a queue on `context`, if there is one, as [`ProcessQueues::remove`] does.
    pub(super) fn remove_on(&mut self, context: &Arc<GpuContext>) -> Option<(u32, QueueEntry)> {
        let id = self
            .entries
            .find(|entry| Arc::ptr_eq(&entry.context, context))?;
        Some((id, self.entries.remove_reserved(id)?))
    }

    /// Frees the number of queue `id`, which was removed and dropped.
    pub(super) fn release(&mut self, id: u32) {
        self.entries.release(id);
    }
}
