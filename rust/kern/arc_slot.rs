// SPDX-License-Identifier: GPL-2.0
//! A static slot for the one object of the module that callbacks without an argument need.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

use kernel::prelude::*;
use kernel::sync::atomic::{ordering, Atomic};
use kernel::sync::{Arc, Mutex};

const UNINIT: i32 = 0;
const BUSY: i32 = 1;
const READY: i32 = 2;

/// Holds an `Arc`, or nothing. Statics are not dropped when the module is unloaded, so the
/// [`FilledSlot`] guard in the module's own object empties it.
pub(crate) struct ArcSlot<T: 'static> {
    state: Atomic<i32>,
    value: UnsafeCell<MaybeUninit<Mutex<Option<Arc<T>>>>>,
}

// SAFETY: The value is initialised once, by the caller that `state` selects, and is a mutex from
// then on.
unsafe impl<T: Send + Sync> Sync for ArcSlot<T> {}

impl<T: Send + Sync> ArcSlot<T> {
    /// An empty slot.
    pub(crate) const fn new() -> Self {
        Self {
            state: Atomic::new(UNINIT),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// The mutex of the slot. A static cannot hold an initialised kernel mutex, so the first user
    /// makes it.
    fn mutex(&'static self) -> &'static Mutex<Option<Arc<T>>> {
        if self.state.load(ordering::Acquire) != READY {
            if self.state.cmpxchg(UNINIT, BUSY, ordering::Full).is_ok() {
                // SAFETY: The slot is static, and this caller has it alone: only one caller has
                // seen UNINIT.
                let place: &'static mut MaybeUninit<_> = unsafe { &mut *self.value.get() };
                let Ok(_) = place.write_pin_init(kernel::new_mutex!(None, "ArcSlot::value"));
                self.state.store(READY, ordering::Release);
            }
            while self.state.load(ordering::Acquire) != READY {
                core::hint::spin_loop();
            }
        }
        // SAFETY: READY means that the value is initialised; it is never moved or dropped.
        unsafe { (*self.value.get()).assume_init_ref() }
    }

    /// Stores `value` until the guard is dropped.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the slot is full.
    pub(crate) fn fill(&'static self, value: Arc<T>) -> Result<FilledSlot<T>> {
        let mut place = self.mutex().lock();
        if place.is_some() {
            return Err(EBUSY);
        }
        *place = Some(value);
        Ok(FilledSlot(self))
    }

    /// The stored object.
    pub(crate) fn get(&'static self) -> Option<Arc<T>> {
        self.mutex().lock().clone()
    }
}

/// Guard of a filled [`ArcSlot`]; empties it when dropped.
pub(crate) struct FilledSlot<T: Send + Sync + 'static>(&'static ArcSlot<T>);

impl<T: Send + Sync> Drop for FilledSlot<T> {
    fn drop(&mut self) {
        let value = self.0.mutex().lock().take();
        // The destructor of the object may use the slot, so it runs without the lock.
        drop(value);
    }
}
