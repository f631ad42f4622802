// SPDX-License-Identifier: GPL-2.0
//! The queues of a process, on all GPUs.

use hw::doorbell::DoorbellSlot;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::context::GpuContext;
use super::exceptions::QueueListing;
use super::sysfs::QueueFolder;
use crate::kern::handles::HandleTable;
use crate::queue::request::UserQueue;

/// A queue, its context, its folder in sysfs, and its listing, until it is about to be destroyed.
/// Dropped outside the lock of [`ProcessQueues`].
pub(super) struct QueueEntry {
    pub(super) queue: Arc<dyn UserQueue>,
    pub(super) context: Arc<GpuContext>,
    pub(super) folder: Option<QueueFolder>,
    pub(super) listing: Option<QueueListing>,
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

    /// Notes that the ring of queue `id`, which is `queue`, now has `size` bytes. No effect if that
    /// is another queue by now.
    pub(super) fn resized(&mut self, id: u32, queue: &Arc<dyn UserQueue>, size: u64) {
        let entry = self.entries.get_mut(id);
        let entry = entry.filter(|entry| Arc::ptr_eq(&entry.queue, queue));
        if let Some(folder) = entry.and_then(|entry| entry.folder.as_ref()) {
            folder.resize(size);
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
