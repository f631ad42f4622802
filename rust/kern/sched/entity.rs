// SPDX-License-Identifier: GPL-2.0
//! A queue of jobs that run in order.

use kernel::{
    error::to_result,
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
    types::Opaque,
};

use super::{DrmScheduler, SchedBackend};
use crate::ffi;

/// A queue of jobs of a scheduler. Dropping it kills the waiting jobs; jobs on the hardware
/// continue.
#[pin_data(PinnedDrop)]
pub(crate) struct SchedEntity<B: SchedBackend> {
    #[pin]
    raw: Opaque<ffi::drm_sched_entity>,
    /// Held from the assignment of a job's number until the job is queued, so that both have the
    /// same order.
    #[pin]
    pub(super) pushing: Mutex<()>,
    // Last: the entity is finished first.
    sched: Arc<DrmScheduler<B>>,
}

// SAFETY: C's structure may be used from any thread, and pushes are under the lock.
unsafe impl<B: SchedBackend> Send for SchedEntity<B> {}

// SAFETY: As above.
unsafe impl<B: SchedBackend> Sync for SchedEntity<B> {}

impl<B: SchedBackend> SchedEntity<B> {
    /// Makes a queue of `sched`.
    pub(crate) fn new(sched: &Arc<DrmScheduler<B>>) -> Result<Pin<KBox<Self>>> {
        let sched = sched.clone();
        let raw = sched.as_raw();
        KBox::try_pin_init(
            try_pin_init!(Self {
                raw <- Opaque::try_ffi_init(move |entity: *mut ffi::drm_sched_entity| {
                    let mut list = [raw];
                    // SAFETY: The memory belongs to the entity and does not move. The scheduler is
                    // initialized, and referenced. A list of one scheduler is not used after the
                    // call.
                    to_result(unsafe {
                        ffi::drm_sched_entity_init(
                            entity,
                            ffi::drm_sched_priority_DRM_SCHED_PRIORITY_KERNEL,
                            list.as_mut_ptr(),
                            1,
                            core::ptr::null_mut(),
                        )
                    })
                }),
                pushing <- new_mutex!((), "SchedEntity::pushing"),
                sched,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// The scheduler.
    pub(super) fn sched(&self) -> &DrmScheduler<B> {
        &self.sched
    }

    pub(super) fn as_raw(&self) -> *mut ffi::drm_sched_entity {
        self.raw.get()
    }
}

#[pinned_drop]
impl<B: SchedBackend> PinnedDrop for SchedEntity<B> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Initialized. Jobs that are not pushed borrow the entity, so there are none.
        unsafe { ffi::drm_sched_entity_fini(self.as_raw()) };
    }
}
