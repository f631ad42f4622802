// SPDX-License-Identifier: GPL-2.0
//! Objects of an open file that its process names by number: contexts and lists of buffers.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};

use crate::kern::handles::HandleTable;

/// The most objects of a kind that an open file has.
const MOST: usize = 4096;

/// The objects of a kind, by number.
#[pin_data]
pub(super) struct FileObjects<T> {
    /// Nothing is waited for under it.
    #[pin]
    objects: Mutex<HandleTable<Arc<T>>>,
}

impl<T> FileObjects<T> {
    /// No objects.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            objects <- new_mutex!(HandleTable::new(), "FileObjects::objects"),
        })
    }

    /// Adds an object and returns its number, 1 or more.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are too many; `ENOMEM`.
    pub(super) fn add(&self, object: Arc<T>) -> Result<u32> {
        let mut objects = self.objects.lock();
        if objects.len() >= MOST {
            return Err(ENOSPC);
        }
        objects.insert(object)
    }

    /// The object with this number.
    pub(super) fn get(&self, number: u32) -> Option<Arc<T>> {
        self.objects.lock().get(number).cloned()
    }

    /// Puts `object` in the place of the one with this number, if there is one, and returns that.
    pub(super) fn replace(&self, number: u32, object: Arc<T>) -> Option<Arc<T>> {
        let mut objects = self.objects.lock();
        let place = objects.get_mut(number)?;
        Some(core::mem::replace(place, object))
    }

    /// All objects.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn all(&self) -> Result<KVVec<Arc<T>>> {
        let objects = self.objects.lock();
        let mut all = KVVec::with_capacity(objects.len(), GFP_KERNEL_ACCOUNT)?;
        for object in objects.iter() {
            all.push(object.clone(), GFP_KERNEL_ACCOUNT)?;
        }
        Ok(all)
    }

    /// Calls `f` for all objects, under the lock.
    pub(super) fn each(&self, f: impl FnMut(&Arc<T>)) {
        self.objects.lock().iter().for_each(f);
    }

    /// Takes out all objects.
    pub(super) fn clear(&self) {
        let all = core::mem::replace(&mut *self.objects.lock(), HandleTable::new());
        drop(all);
    }

    /// Takes out the object with this number.
    pub(super) fn remove(&self, number: u32) -> Option<Arc<T>> {
        self.objects.lock().remove(number)
    }
}
