// SPDX-License-Identifier: GPL-2.0
//! The queues of a process, on all GPUs.

use hw::doorbell::Slot;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::context::Context;
use super::handles::Handles;
use crate::queue::{self, CreateQueue, Owner, UserQueue};

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

    /// Makes a queue of the process `pid`, `pasid`, and gives its id and
    /// doorbell. ENODEV without an address space or at the end,
    /// and what [`queue::create`] says.
    pub(super) fn create(
        &mut self,
        context: &Arc<Context>,
        pid: i32,
        pasid: u16,
        create: CreateQueue,
    ) -> Result<(u32, Slot)> {
        let id = self.entries.next()?;
        let owner = Owner {
            pid,
            pasid,
            queue: id,
        };
        let (vm, slice) = (context.vm()?, context.slice()?);
        let queue = queue::create(context.gpu(), &vm, &slice, owner, create)?;
        let slot = queue.doorbell();
        let entry = Entry {
            queue,
            context: context.clone(),
        };
        self.entries.insert(entry)?;
        Ok((id, slot))
    }

    /// The queue `id`. EINVAL.
    pub(super) fn get(&mut self, id: u32) -> Result<&dyn UserQueue> {
        self.entries
            .get_mut(id)
            .map(|entry| &*entry.queue)
            .ok_or(EINVAL)
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

    /// Destroys queue `id`. EINVAL.
    pub(super) fn destroy(&mut self, id: u32) -> Result {
        let entry = self.entries.take(id).ok_or(EINVAL)?;
        entry.queue.destroy();
        Ok(())
    }

    /// Destroys the queues on `context`.
    pub(super) fn destroy_on(&mut self, context: &Arc<Context>) {
        while let Some(entry) = self
            .entries
            .take_if(|entry| Arc::ptr_eq(&entry.context, context))
        {
            entry.queue.destroy();
        }
    }
}
