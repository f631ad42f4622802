// SPDX-License-Identifier: GPL-2.0
//! A line of jobs that run in order.

use kernel::{
    error::to_result,
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
    types::Opaque,
};

use super::{Backend, Scheduler};
use crate::ffi;

/// A line of jobs of a scheduler. Dropping it kills what waits in it; what is on the hardware goes on.
#[pin_data(PinnedDrop)]
pub(crate) struct Entity<B: Backend> {
    #[pin]
    raw: Opaque<ffi::drm_sched_entity>,
    /// May jobs be pushed? Held from giving a job its number to putting it in the line, so that the order of
    /// both is the same.
    #[pin]
    pub(super) open: Mutex<bool>,
    // Last: the entity is finished first.
    sched: Arc<Scheduler<B>>,
}

// SAFETY: C's structure may be used from any thread, pushes are under the lock.
unsafe impl<B: Backend> Send for Entity<B> {}

// SAFETY: As above.
unsafe impl<B: Backend> Sync for Entity<B> {}

impl<B: Backend> Entity<B> {
    /// Makes a line of `sched`.
    pub(crate) fn new(sched: &Arc<Scheduler<B>>) -> Result<Pin<KBox<Self>>> {
        let sched = sched.clone();
        let raw = sched.as_raw();
        KBox::try_pin_init(
            try_pin_init!(Self {
                raw <- Opaque::try_ffi_init(move |entity: *mut ffi::drm_sched_entity| {
                    let mut list = [raw];
                    // SAFETY: The memory is the entity's and does not move; the scheduler is initialized, and
                    // held; a list of one is not looked at again.
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
                open <- new_mutex!(true, "Entity::open"),
                sched,
            }),
            GFP_KERNEL,
        )
    }

    /// The scheduler.
    pub(super) fn sched(&self) -> &Scheduler<B> {
        &self.sched
    }

    pub(super) fn as_raw(&self) -> *mut ffi::drm_sched_entity {
        self.raw.get()
    }

    /// Ends the line: later pushes fail with `ECANCELED`, and what waits in it is never run (its fences are
    /// signalled with `ESRCH`, after those of the jobs before). Waits for a job that is just being given to
    /// the hardware, not for the hardware.
    pub(crate) fn kill(&self) {
        *self.open.lock() = false;
        // SAFETY: Initialized, and no more pushes come.
        unsafe { ffi::drm_sched_entity_kill(self.as_raw()) };
    }
}

#[pinned_drop]
impl<B: Backend> PinnedDrop for Entity<B> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Initialized; jobs that are not pushed borrow the entity, so there are none.
        unsafe { ffi::drm_sched_entity_fini(self.as_raw()) };
    }
}
