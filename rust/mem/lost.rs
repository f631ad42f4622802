// SPDX-License-Identifier: GPL-2.0
//! Memory that the GPU may still access because it has not answered a flush, or because an engine
//! that was at work there does not come to rest. It is kept until the device can access no memory
//! any more.

use core::mem;

use kernel::{
    alloc::flags::GFP_NOWAIT,
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex, UniqueArc},
};

/// The list of memory that is kept for a GPU. The items may themselves hold the GPU's
/// [`GpuMemory`](super::GpuMemory), which contains this list: [`LostMemory::close`] breaks that
/// cycle.
#[pin_data]
pub(crate) struct LostMemory {
    /// `None` once the device can access no memory any more. An innermost lock.
    #[pin]
    kept: Mutex<Option<KVec<Arc<dyn Send + Sync>>>>,
}

impl LostMemory {
    /// Creates an empty list.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            kept <- new_mutex!(Some(KVec::new()), "LostMemory::kept"),
        })
    }

    /// Keeps `item`; for ever, if there is no memory for a list entry. Does not wait for memory:
    /// another thread that allocates may wait for the caller, which waits for the GPU.
    pub(crate) fn keep<T: Send + Sync + 'static>(&self, item: T) {
        let mut kept = self.kept.lock();
        let Some(all) = &mut *kept else {
            drop(kept);
            drop(item);
            return;
        };
        let room = all
            .reserve(1, GFP_NOWAIT)
            .and_then(|()| UniqueArc::new_uninit(GFP_NOWAIT));
        match room {
            Ok(room) => {
                let item: Arc<T> = room.write(item).into();
                // There is room.
                let _ = all.push_within_capacity(item);
            }
            Err(_) => mem::forget(item),
        }
    }

    /// Drops the items: the device can access no memory any more. May sleep.
    pub(crate) fn close(&self) {
        let kept = self.kept.lock().take();
        drop(kept);
    }
}
