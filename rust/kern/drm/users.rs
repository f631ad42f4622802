// SPDX-License-Identifier: GPL-2.0
//! The users of buffer objects: the fences of those that are at work on them, in the reservations
//! of the objects. Jobs wait for them, and others wait for jobs, as with amdgpu (implicit
//! synchronization).

use core::{marker::PhantomData, mem::MaybeUninit};

use kernel::{error::to_result, prelude::*, sync::aref::ARef};

use crate::{
    ffi,
    kern::{
        drm::gem::{GemDriverObject, GemObject},
        fence::Fence,
    },
};

/// Objects that jobs use together, of which each is there once.
pub(crate) struct SharedObjects<T: GemDriverObject> {
    /// The objects, one for each reservation: those of several objects may be the same.
    raw: KVVec<*mut ffi::drm_gem_object>,
    /// For each of them, whether its users synchronize by themselves.
    explicit: KVVec<bool>,
    _objects: KVVec<ARef<GemObject<T>>>,
}

// SAFETY: The pointers are those of the objects, which may be used from any thread.
unsafe impl<T: GemDriverObject> Send for SharedObjects<T> {}
// SAFETY: As above.
unsafe impl<T: GemDriverObject> Sync for SharedObjects<T> {}

/// The reservation of an object.
///
/// # Safety
///
/// `object` must be a valid object.
unsafe fn resv(object: *mut ffi::drm_gem_object) -> *mut ffi::dma_resv {
    // SAFETY: By this function's contract; it is set before the object has users.
    unsafe { (*object).resv }
}

impl<T: GemDriverObject> SharedObjects<T> {
    /// The objects in `objects`, in which one may be more than once.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(objects: KVVec<ARef<GemObject<T>>>) -> Result<Self> {
        let mut raw = KVVec::with_capacity(objects.len(), GFP_KERNEL_ACCOUNT)?;
        for object in &objects {
            raw.push(object.as_gem(), GFP_KERNEL_ACCOUNT)?;
        }
        // SAFETY: The array has that many valid objects.
        unsafe { ffi::rkfd_gem_sort(raw.as_mut_ptr(), raw.len()) };
        let mut last = core::ptr::null_mut();
        raw.retain(|object| {
            // SAFETY: The objects are valid.
            let of = unsafe { resv(*object) };
            core::mem::replace(&mut last, of) != of
        });
        let mut explicit = KVVec::with_capacity(raw.len(), GFP_KERNEL_ACCOUNT)?;
        for object in &raw {
            // SAFETY: They are in objects of this type, which `objects` keeps.
            let object = unsafe { &*GemObject::<T>::container(*object) };
            explicit.push(T::is_explicit(object), GFP_KERNEL_ACCOUNT)?;
        }
        Ok(Self {
            raw,
            explicit,
            _objects: objects,
        })
    }

    /// Runs `f` with the reservations of all objects locked, and room for another user of each.
    /// Nothing that it waits for may need one of the locks.
    ///
    /// # Errors
    ///
    /// `EINTR` if a signal for the task comes first; `ENOMEM`; those of `f`.
    pub(crate) fn locked<R>(&self, f: impl FnOnce(&LockedObjects<'_>) -> Result<R>) -> Result<R> {
        let count = c_int::try_from(self.raw.len()).map_err(|_| EINVAL)?;
        let mut ctx = MaybeUninit::<ffi::ww_acquire_ctx>::uninit();
        let all = self.raw.as_ptr().cast_mut();
        // SAFETY: The objects are valid, and have different reservations. The call initializes the
        // context, which stays in its place; it only reads the array.
        to_result(unsafe { ffi::drm_gem_lock_reservations(all, count, ctx.as_mut_ptr()) })?;
        let locked = LockedObjects {
            raw: &self.raw,
            explicit: &self.explicit,
            _locked: PhantomData,
        };
        let done = locked.make_room().and_then(|()| f(&locked));
        // SAFETY: They were locked with this context.
        unsafe { ffi::drm_gem_unlock_reservations(all, count, ctx.as_mut_ptr()) };
        done
    }
}

/// Objects whose reservations are locked.
pub(crate) struct LockedObjects<'a> {
    raw: &'a [*mut ffi::drm_gem_object],
    explicit: &'a [bool],
    // Locks belong to a thread.
    _locked: PhantomData<*mut ()>,
}

impl LockedObjects<'_> {
    /// The reservation of each, and whether its users synchronize by themselves.
    fn each(&self) -> impl Iterator<Item = (*mut ffi::dma_resv, bool)> + '_ {
        let each = self.raw.iter().zip(self.explicit);
        // SAFETY: The objects are valid, as `SharedObjects` holds them.
        each.map(|(object, explicit)| (unsafe { resv(*object) }, *explicit))
    }

    fn make_room(&self) -> Result {
        for (resv, _) in self.each() {
            // SAFETY: The reservation is valid, and locked.
            to_result(unsafe { ffi::dma_resv_reserve_fences(resv, 1) })?;
        }
        Ok(())
    }

    /// Lets `job`, which is `owner`'s, wait for all users but jobs of the same owner. Where users
    /// synchronize by themselves, it waits for moves of the memory alone.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    ///
    /// # Safety
    ///
    /// `job` must be initialized, and not armed.
    pub(in crate::kern) unsafe fn add_dependencies(
        &self,
        job: *mut ffi::drm_sched_job,
        owner: *mut c_void,
    ) -> Result {
        for (resv, explicit) in self.each() {
            // SAFETY: By this function's contract; the reservation is valid, and locked.
            to_result(unsafe { ffi::rkfd_sched_job_add_users(job, resv, owner, explicit) })?;
        }
        Ok(())
    }

    /// Makes the job whose end `fence` is a user of all objects, which may write them. Once.
    pub(in crate::kern) fn add_user(&self, fence: &Fence) {
        for (resv, _) in self.each() {
            let usage = ffi::dma_resv_usage_DMA_RESV_USAGE_WRITE;
            // SAFETY: The reservation is valid, locked, and has room; it takes a reference.
            unsafe { ffi::dma_resv_add_fence(resv, fence.as_raw(), usage) };
        }
    }
}

impl<T: GemDriverObject> GemObject<T> {
    /// Waits at most `timeout` for all that read, write or move the object; returns whether they
    /// are done.
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS` if a signal for the task comes first.
    pub(crate) fn wait_users(&self, timeout: kernel::time::Jiffies) -> Result<bool> {
        let usage = ffi::dma_resv_usage_DMA_RESV_USAGE_READ;
        // SAFETY: Valid by the type invariant, and the reservation lives as long as the object.
        match unsafe { ffi::dma_resv_wait_timeout(resv(self.as_gem()), usage, true, timeout) } {
            error if error < 0 => Err(Error::from_errno(error as c_int)),
            left => Ok(left > 0),
        }
    }
}
