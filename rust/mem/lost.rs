// SPDX-License-Identifier: GPL-2.0
//! Memory that the GPU may still reach because it has not answered a flush. It is kept until
//! nothing of the device reaches memory any more.

use core::mem;

use kernel::{
    alloc::flags::GFP_NOWAIT,
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex, UniqueArc},
};

/// Memory of a GPU that is kept. It may itself hold the GPU's memory: [`LostMemory::close`] ends
/// the circle.
#[pin_data]
pub(crate) struct LostMemory {
    /// `None` once the device reaches nothing any more. Innermost.
    #[pin]
    kept: Mutex<Option<KVec<Arc<dyn Send + Sync>>>>,
}

impl LostMemory {
    /// Nothing yet.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            kept <- new_mutex!(Some(KVec::new()), "Lost::kept"),
        })
    }

    /// Keeps `what`; for good, if there is no memory to remember it by. Waits for no memory: a
    /// thread that waits for the GPU may be waited for by reclaim.
    pub(super) fn keep<T: Send + Sync + 'static>(&self, what: T) {
        let mut kept = self.kept.lock();
        let Some(all) = &mut *kept else {
            drop(kept);
            drop(what);
            return;
        };
        let room = all
            .reserve(1, GFP_NOWAIT)
            .and_then(|()| UniqueArc::new_uninit(GFP_NOWAIT));
        match room {
            Ok(room) => {
                let what: Arc<T> = room.write(what).into();
                // There is room.
                let _ = all.push_within_capacity(what);
            }
            Err(_) => mem::forget(what),
        }
    }

    /// Drops all of it: the device reaches nothing any more. May sleep.
    pub(crate) fn close(&self) {
        let kept = self.kept.lock().take();
        drop(kept);
    }
}
