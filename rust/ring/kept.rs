// SPDX-License-Identifier: GPL-2.0
//! The memory that the jobs of one call use.

use crate::mem::gart::JobMemory;
use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

/// Holds [`JobMemory`] for jobs. A job lives on for a while after it is done, so its submitter
/// releases the memory as soon as the job is seen as done. The ring of an engine that may still be
/// at a job keeps it until the device can access no memory.
#[pin_data]
pub(super) struct KeptMemory {
    #[pin]
    memory: SpinLock<Option<JobMemory>>,
}

impl KeptMemory {
    pub(super) fn new(memory: JobMemory) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                memory <- new_spinlock!(Some(memory), "KeptMemory::memory"),
            }),
            GFP_KERNEL,
        )
    }

    /// Releases the memory, which no job uses any more.
    pub(super) fn release(&self) {
        let memory = self.memory.lock().take();
        drop(memory);
    }
}
