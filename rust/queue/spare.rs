// SPDX-License-Identifier: GPL-2.0
//! Memory of a process's last queue, kept for its next one. Most of the time that it takes to make
//! a queue goes into allocating this memory and mapping it for the GPU.

use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};

/// The place where a process keeps one unused `T` on a GPU.
#[pin_data]
pub(super) struct SpareMemory<T> {
    /// `Err` once the process keeps nothing any more. Innermost.
    #[pin]
    kept: Mutex<Result<Option<Arc<T>>, SpareClosed>>,
}

/// The process is at its end.
struct SpareClosed;

impl<T> SpareMemory<T> {
    /// Returns an empty place.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                kept <- new_mutex!(Ok(None), "SpareMemory::kept"),
            }),
            GFP_KERNEL,
        )
    }

    /// Frees the kept memory, and keeps nothing from now on. May sleep.
    pub(super) fn close(&self) {
        let kept = core::mem::replace(&mut *self.kept.lock(), Err(SpareClosed));
        drop(kept);
    }

    /// Takes the kept memory if it `fits`.
    pub(super) fn get(&self, fits: impl FnOnce(&T) -> bool) -> Option<Arc<T>> {
        match &mut *self.kept.lock() {
            Ok(place) => place.take_if(|kept| fits(kept)),
            Err(SpareClosed) => None,
        }
    }

    /// Keeps `memory`, which no queue uses any more, if nothing is kept yet.
    pub(super) fn put(&self, memory: &Arc<T>) {
        if let Ok(place @ None) = &mut *self.kept.lock() {
            *place = Some(memory.clone());
        }
    }
}
