// SPDX-License-Identifier: GPL-2.0
//! The list of a device's buffer objects, wherever their references are; objects of one owner are
//! adjacent.

use core::ptr::NonNull;

use kernel::{
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{aref::ARef, Mutex},
};

use crate::{
    ffi,
    kern::drm::gem::{GemDriverObject, GemObject},
};

/// An object, which exists as long as it is in the list.
struct ObjectEntry<T: GemDriverObject>(NonNull<GemObject<T>>);

// SAFETY: The list only points to objects, which are `Send` and `Sync`.
unsafe impl<T: GemDriverObject> Send for ObjectEntry<T> {}

/// The position of an object in the list: its owner's number, and its address.
type Key = (usize, usize);

/// All objects of a device. Its lock, a mutex, is innermost.
#[pin_data]
pub(crate) struct ObjectList<T: GemDriverObject> {
    #[pin]
    entries: Mutex<RBTree<Key, ObjectEntry<T>>>,
}

/// The key of an object.
fn key<T: GemDriverObject>(object: &GemObject<T>) -> Key {
    (object.owner(), core::ptr::from_ref(object) as usize)
}

impl<T: GemDriverObject> ObjectList<T> {
    /// An empty list.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            entries <- kernel::new_mutex!(RBTree::new(), "ObjectList::entries"),
        })
    }

    /// Adds an object, which removes itself before it is freed.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn add(&self, object: &GemObject<T>) -> Result {
        let entry = NonNull::from(object);
        let node = RBTreeNode::new(key(object), ObjectEntry(entry), GFP_KERNEL_ACCOUNT)?;
        self.entries.lock().insert(node);
        Ok(())
    }

    /// Removes an object without references.
    pub(super) fn remove(&self, object: NonNull<GemObject<T>>) {
        // SAFETY: The object belongs to the caller alone, and is still complete.
        let key = key(unsafe { object.as_ref() });
        let node = self.entries.lock().remove_node(&key);
        drop(node);
    }

    /// Calls `f` without a lock for each object that has references. Objects that are added during
    /// the walk may be missed. The reference for `f` may become the last: then the caller frees the
    /// object.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&ARef<GemObject<T>>)) {
        let mut from = (0, 0);
        while let Some(((owner, at), object)) = self.at_or_after(from, |_| true) {
            f(&object);
            from = (owner, at + 1);
        }
    }

    /// The first object of `owner` at address `at` or above that is not about to be freed, and its
    /// address. As in [`ObjectList::for_each`], the caller may get the last reference to it; no
    /// other object is touched.
    pub(crate) fn next_of(&self, owner: usize, at: usize) -> Option<(usize, ARef<GemObject<T>>)> {
        let ((_, at), object) = self.at_or_after((owner, at), |found| found == owner)?;
        Some((at, object))
    }

    /// The first object at or after `key` that is not about to be freed, provided that `accept`
    /// holds for its owner and the owners of all objects before it.
    fn at_or_after(
        &self,
        mut key: Key,
        accept: impl Fn(usize) -> bool,
    ) -> Option<(Key, ARef<GemObject<T>>)> {
        let entries = self.entries.lock();
        loop {
            let cursor = entries.cursor_lower_bound(&key)?;
            let (&found, entry) = cursor.current();
            if !accept(found.0) {
                return None;
            }
            // SAFETY: Objects remove themselves before they are freed, for which they need the
            // lock.
            let raw = unsafe { entry.0.as_ref() }.as_gem();
            // SAFETY: As above; the call detects a count of zero.
            if unsafe { ffi::rkfd_drm_gem_object_get_unless_zero(raw) } {
                // SAFETY: The reference was just taken.
                return Some((found, unsafe { ARef::from_raw(entry.0) }));
            }
            key = (found.0, found.1 + 1);
        }
    }
}
