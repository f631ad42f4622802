// SPDX-License-Identifier: GPL-2.0
//! The buffer objects of a device, wherever their references are.

use core::ptr::NonNull;

use kernel::{
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{aref::ARef, Mutex},
};

use crate::{
    ffi,
    kern::drm::gem::{DriverObject, Object},
};

/// An object that exists as long as it is in the list.
struct Entry<T: DriverObject>(NonNull<Object<T>>);

// SAFETY: The list only names objects, which are `Send` and `Sync`.
unsafe impl<T: DriverObject> Send for Entry<T> {}

/// All objects of a device. Its lock, a mutex, is innermost.
#[pin_data]
pub(crate) struct Objects<T: DriverObject> {
    #[pin]
    entries: Mutex<RBTree<usize, Entry<T>>>,
}

impl<T: DriverObject> Objects<T> {
    /// None yet.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            entries <- kernel::new_mutex!(RBTree::new(), "Objects::entries"),
        })
    }

    /// Puts an object in, which takes itself out before it is freed. ENOMEM.
    pub(super) fn add(&self, object: &Object<T>) -> Result {
        let entry = NonNull::from(object);
        let node = RBTreeNode::new(entry.as_ptr() as usize, Entry(entry), GFP_KERNEL_ACCOUNT)?;
        self.entries.lock().insert(node);
        Ok(())
    }

    /// Takes an object out, which nobody has any more.
    pub(super) fn remove(&self, object: NonNull<Object<T>>) {
        let node = self.entries.lock().remove_node(&(object.as_ptr() as usize));
        drop(node);
    }

    /// Calls `f` with each object that somebody has, without a lock. Those that come meanwhile may be missed. It may be the
    /// last that has an object, which is then freed by the caller.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&ARef<Object<T>>)) {
        let mut from = 0;
        while let Some((key, object)) = self.at_or_after(from, |_| true) {
            f(&object);
            from = key + 1;
        }
    }

    /// The first object at address `key` or above that is meant and not about to be freed, and its address. As in
    /// [`Objects::for_each`], the caller may be the last that has it; no other is touched. `is_meant` takes no lock.
    pub(crate) fn at_or_after(
        &self,
        mut key: usize,
        is_meant: impl Fn(&Object<T>) -> bool,
    ) -> Option<(usize, ARef<Object<T>>)> {
        let entries = self.entries.lock();
        loop {
            let cursor = entries.cursor_lower_bound(&key)?;
            let (&found, entry) = cursor.current();
            // SAFETY: Objects take themselves out before they are freed, for which they need the lock.
            let object = unsafe { entry.0.as_ref() };
            // SAFETY: As above; the count may be zero, which this sees.
            if is_meant(object)
                && unsafe { ffi::rkfd_drm_gem_object_get_unless_zero(object.as_gem()) }
            {
                // SAFETY: The reference was just taken.
                return Some((found, unsafe { ARef::from_raw(entry.0) }));
            }
            key = found + 1;
        }
    }
}
