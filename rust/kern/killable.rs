// SPDX-License-Identifier: GPL-2.0
//! A mutex whose waiters can be killed; the kernel crate's mutex has only the uninterruptible wait.

use core::{
    cell::UnsafeCell,
    ops::{Deref, DerefMut},
    pin::Pin,
};

use kernel::{
    error::to_result,
    prelude::*,
    sync::LockClassKey,
    types::{NotThreadSafe, Opaque},
};

use crate::ffi;

/// A mutex with the data that it guards.
#[pin_data]
pub(crate) struct KillableMutex<T> {
    #[pin]
    raw: Opaque<ffi::mutex>,
    data: UnsafeCell<T>,
}

// SAFETY: The mutex gives one thread at a time access to the data, which may be sent to it.
unsafe impl<T: Send> Send for KillableMutex<T> {}
// SAFETY: As above.
unsafe impl<T: Send> Sync for KillableMutex<T> {}

impl<T> KillableMutex<T> {
    /// A free mutex; lockdep knows it by `name` and `key`.
    pub(crate) fn new(
        data: T,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            raw <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is memory for a mutex, and name and key are static.
                unsafe { ffi::__mutex_init(slot, name.as_char_ptr(), key.as_ptr()) }
            }),
            data: UnsafeCell::new(data),
        })
    }

    /// Waits until the mutex is free, whatever signals come. May sleep.
    pub(crate) fn lock(&self) -> KillableGuard<'_, T> {
        // SAFETY: It was initialized, and is not moved.
        unsafe { ffi::mutex_lock(self.raw.get()) };
        KillableGuard(self, NotThreadSafe)
    }

    /// Waits until the mutex is free or the caller is killed. May sleep.
    ///
    /// # Errors
    ///
    /// `EINTR` if the caller is killed first.
    pub(crate) fn lock_killable(&self) -> Result<KillableGuard<'_, T>> {
        // SAFETY: It was initialized, and is not moved.
        to_result(unsafe { ffi::rkfd_mutex_lock_killable(self.raw.get()) })?;
        Ok(KillableGuard(self, NotThreadSafe))
    }
}

/// Guard of a [`KillableMutex`]; unlocks it when dropped.
pub(crate) struct KillableGuard<'a, T>(&'a KillableMutex<T>, NotThreadSafe);

impl<T> Deref for KillableGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: The mutex is held, so this thread has the data alone.
        unsafe { &*self.0.data.get() }
    }
}

impl<T> DerefMut for KillableGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: As above, and this guard is borrowed exclusively.
        unsafe { &mut *self.0.data.get() }
    }
}

impl<T> Drop for KillableGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: This thread holds it.
        unsafe { ffi::mutex_unlock(self.0.raw.get()) };
    }
}
