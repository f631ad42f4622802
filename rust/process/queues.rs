// SPDX-License-Identifier: GPL-2.0
//! The queues of a process, on all GPUs.

use hw::doorbell::Slot;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::context::Context;
use super::handles::Handles;
use crate::queue::UserQueue;

/// A queue, and what it is on.
struct Entry {
    queue: Arc<dyn UserQueue>,
    context: Arc<Context>,
}

/// The queues by id.
pub(super) struct Queues {
    entries: Handles<Entry>,
    /// Whether the ROCm runtime has announced itself, which it does before it has queues.
    runtime: bool,
}

impl Queues {
    /// No queues.
    pub(super) const fn new() -> Self {
        Self {
            entries: Handles::new(),
            runtime: false,
        }
    }

    /// A number for a queue that is about to be made. ENOMEM, ENOSPC.
    pub(super) fn reserve(&mut self) -> Result<u32> {
        self.entries.reserve()
    }

    /// The queue of number `id` was made on `context`, or was not; how that went.
    pub(super) fn made(
        &mut self,
        id: u32,
        context: &Arc<Context>,
        queue: Result<Arc<dyn UserQueue>>,
    ) -> Result<Slot> {
        match queue {
            Ok(queue) => {
                let slot = queue.doorbell();
                let context = context.clone();
                self.entries.fill(id, Entry { queue, context });
                Ok(slot)
            }
            Err(error) => {
                self.entries.give_back(id);
                Err(error)
            }
        }
    }

    /// The queue `id`, and what it is on. EINVAL.
    pub(super) fn get(&mut self, id: u32) -> Result<(Arc<dyn UserQueue>, Arc<Context>)> {
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

    /// Forgets queue `id`, which is `queue`. EINVAL if it is not any more.
    pub(super) fn forget(&mut self, id: u32, queue: &Arc<dyn UserQueue>) -> Result {
        let entry = self.entries.get_mut(id).ok_or(EINVAL)?;
        if !Arc::ptr_eq(&entry.queue, queue) {
            return Err(EINVAL);
        }
        drop(self.entries.take(id));
        Ok(())
    }

    /// Takes a queue on `context` out, if there is one.
    pub(super) fn take_on(&mut self, context: &Arc<Context>) -> Option<Arc<dyn UserQueue>> {
        let entry = self
            .entries
            .take_if(|entry| Arc::ptr_eq(&entry.context, context))?;
        Some(entry.queue)
    }
}
