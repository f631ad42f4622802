// SPDX-License-Identifier: GPL-2.0
//! Memory of a process's last queue, kept for its next one: to get it, and to have the GPU find it, is most of what it takes to
//! make a queue.

use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};

/// Where a process keeps one `T`, memory that no queue has, on a GPU.
#[pin_data]
pub(super) struct SpareMemory<T> {
    /// `Err` when the process keeps none any more. Innermost.
    #[pin]
    kept: Mutex<Result<Option<Arc<T>>, SpareClosed>>,
}

/// The process is at its end.
struct SpareClosed;

impl<T> SpareMemory<T> {
    /// Nothing.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            kept <- new_mutex!(Ok(None), "Spare::kept"),
        })
    }

    /// Gives back what is kept, and keeps nothing from now on. Sleeps.
    pub(super) fn close(&self) {
        let kept = core::mem::replace(&mut *self.kept.lock(), Err(SpareClosed));
        drop(kept);
    }

    /// What is kept, if it `fits`.
    pub(super) fn get(&self, fits: impl FnOnce(&T) -> bool) -> Option<Arc<T>> {
        match &mut *self.kept.lock() {
            Ok(place) => place.take_if(|kept| fits(kept)),
            Err(SpareClosed) => None,
        }
    }

    /// Keeps `memory`, which no queue has any more, if there is none yet.
    pub(super) fn put(&self, memory: &Arc<T>) {
        if let Ok(place @ None) = &mut *self.kept.lock() {
            *place = Some(memory.clone());
        }
    }
}
