// SPDX-License-Identifier: GPL-2.0
//! The queues of a process, on all GPUs.

use hw::doorbell::DoorbellSlot;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::context::GpuContext;
use super::handles::HandleTable;
use super::sysfs::QueueFolder;
use crate::queue::request::UserQueue;

/// A queue, what it is on, and where it is shown. Dropped without the lock of [`ProcessQueues`].
pub(super) struct QueueEntry {
    pub(super) queue: Arc<dyn UserQueue>,
    pub(super) context: Arc<GpuContext>,
    pub(super) folder: Option<QueueFolder>,
}

/// The queues by id.
pub(super) struct ProcessQueues {
    entries: HandleTable<QueueEntry>,
    /// Whether the ROCm runtime has announced itself, which it does before it has queues.
    runtime: bool,
}

impl ProcessQueues {
    /// No queues.
    pub(super) const fn new() -> Self {
        Self {
            entries: HandleTable::new(),
            runtime: false,
        }
    }

    /// A number for a queue that is about to be made. ENOMEM, ENOSPC.
    pub(super) fn reserve(&mut self) -> Result<u32> {
        self.entries.reserve()
    }

    /// The queue of number `id` was made, or was not; how that went.
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

    /// The queue `id`, and what it is on. EINVAL.
    pub(super) fn get(&mut self, id: u32) -> Result<(Arc<dyn UserQueue>, Arc<GpuContext>)> {
        let entry = self.entries.get_mut(id).ok_or(EINVAL)?;
        Ok((entry.queue.clone(), entry.context.clone()))
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// See [`super::Process::enable_runtime`].
    pub(super) fn enable_runtime(&mut self) -> Result {
        if self.runtime {
            return Err(EBUSY);
        }
        if !self.is_empty() {
            return Err(EEXIST);
        }
        self.runtime = true;
        Ok(())
    }

    /// See [`super::Process::disable_runtime`].
    pub(super) fn disable_runtime(&mut self) {
        self.runtime = false;
    }

    /// The ring of queue `id`, which is `queue`, has `size` bytes now. Nothing happens if it is not any more.
    pub(super) fn resized(&mut self, id: u32, queue: &Arc<dyn UserQueue>, size: u64) {
        let entry = self.entries.get_mut(id);
        let entry = entry.filter(|entry| Arc::ptr_eq(&entry.queue, queue));
        if let Some(folder) = entry.and_then(|entry| entry.folder.as_ref()) {
            folder.resize(size);
        }
    }

    /// Takes queue `id` out, which is `queue`. EINVAL if it is not any more. Its number is another's only after
    /// [`ProcessQueues::release`], when its folder is not there any more.
    pub(super) fn remove(&mut self, id: u32, queue: &Arc<dyn UserQueue>) -> Result<QueueEntry> {
        let entry = self.entries.get_mut(id).ok_or(EINVAL)?;
        if !Arc::ptr_eq(&entry.queue, queue) {
            return Err(EINVAL);
        }
        self.entries.remove_reserved(id).ok_or(EINVAL)
    }

    /// Takes a queue on `context` out, if there is one, as [`ProcessQueues::remove`] does.
    pub(super) fn remove_on(&mut self, context: &Arc<GpuContext>) -> Option<(u32, QueueEntry)> {
        let id = self
            .entries
            .find(|entry| Arc::ptr_eq(&entry.context, context))?;
        Some((id, self.entries.remove_reserved(id)?))
    }

    /// Queue `id`, which was taken out, is dropped.
    pub(super) fn release(&mut self, id: u32) {
        self.entries.release(id);
    }
}
