// SPDX-License-Identifier: GPL-2.0
//! The buffer objects of a device, wherever their references are; those of one owner together.

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

/// An object that exists as long as it is in the list.
struct ObjectEntry<T: GemDriverObject>(NonNull<GemObject<T>>);

// SAFETY: The list only names objects, which are `Send` and `Sync`.
unsafe impl<T: GemDriverObject> Send for ObjectEntry<T> {}

/// Where an object is in the list: its owner's number, and its address.
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
    /// None yet.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            entries <- kernel::new_mutex!(RBTree::new(), "Objects::entries"),
        })
    }

    /// Puts an object in, which takes itself out before it is freed. ENOMEM.
    pub(super) fn add(&self, object: &GemObject<T>) -> Result {
        let entry = NonNull::from(object);
        let node = RBTreeNode::new(key(object), ObjectEntry(entry), GFP_KERNEL_ACCOUNT)?;
        self.entries.lock().insert(node);
        Ok(())
    }

    /// Takes an object out, which nobody has any more.
    pub(super) fn remove(&self, object: NonNull<GemObject<T>>) {
        // SAFETY: The caller's alone, and whole.
        let key = key(unsafe { object.as_ref() });
        let node = self.entries.lock().remove_node(&key);
        drop(node);
    }

    /// Calls `f` with each object that somebody has, without a lock. Those that come meanwhile may be missed. It may be the
    /// last that has an object, which is then freed by the caller.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&ARef<GemObject<T>>)) {
        let mut from = (0, 0);
        while let Some(((owner, at), object)) = self.at_or_after(from, |_| true) {
            f(&object);
            from = (owner, at + 1);
        }
    }

    /// The first object of `owner` at address `at` or above that is not about to be freed, and its address. As in
    /// [`ObjectList::for_each`], the caller may be the last that has it; no other is touched.
    pub(crate) fn next_of(&self, owner: usize, at: usize) -> Option<(usize, ARef<GemObject<T>>)> {
        let ((_, at), object) = self.at_or_after((owner, at), |found| found == owner)?;
        Some((at, object))
    }

    /// The first object at `key` or after it that is not about to be freed, if its owner and those of all before it are meant.
    fn at_or_after(
        &self,
        mut key: Key,
        is_meant: impl Fn(usize) -> bool,
    ) -> Option<(Key, ARef<GemObject<T>>)> {
        let entries = self.entries.lock();
        loop {
            let cursor = entries.cursor_lower_bound(&key)?;
            let (&found, entry) = cursor.current();
            if !is_meant(found.0) {
                return None;
            }
            // SAFETY: Objects take themselves out before they are freed, for which they need the lock.
            let raw = unsafe { entry.0.as_ref() }.as_gem();
            // SAFETY: As above; the count may be zero, which this sees.
            if unsafe { ffi::rkfd_drm_gem_object_get_unless_zero(raw) } {
                // SAFETY: The reference was just taken.
                return Some((found, unsafe { ARef::from_raw(entry.0) }));
            }
            key = (found.0, found.1 + 1);
        }
    }
}
