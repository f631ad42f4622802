// SPDX-License-Identifier: GPL-2.0
//! The address spaces of a GPU.

use super::queue_group::{EvictTrigger, QuiesceGuard};
use super::vm::Vm;
use kernel::{
    new_mutex,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{Arc, Mutex},
};

/// All address spaces. Each is in the list from its creation until its owner has released it and no
/// other object refers to it: user memory and memory of other exporters refer to the address spaces
/// that map them, and so could keep an address space for ever.
#[pin_data]
pub(crate) struct VmList {
    /// By address. An innermost lock.
    #[pin]
    list: Mutex<RBTree<usize, Arc<Vm>>>,
}

fn key(vm: &Vm) -> usize {
    core::ptr::from_ref(vm) as usize
}

impl VmList {
    /// Creates an empty list.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_mutex!(RBTree::new(), "VmList::list"),
        })
    }

    /// Adds an address space, which removes itself: see [`Vm::retire`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn add(&self, vm: &Arc<Vm>) -> Result {
        let node = RBTreeNode::new(key(vm), vm.clone(), GFP_KERNEL_ACCOUNT)?;
        self.list.lock().insert(node);
        Ok(())
    }

    /// Removes an address space that may be freed. It may be freed at the return, unless the caller
    /// has a reference.
    pub(super) fn remove(&self, vm: &Vm) {
        let node = self.list.lock().remove_node(&key(vm));
        drop(node);
    }

    /// Returns the address space of process `pasid`, which has not ended.
    pub(crate) fn of_process(&self, pasid: u16) -> Option<Arc<Vm>> {
        let list = self.list.lock();
        let found = list.values().find(|vm| vm.is_of(pasid));
        found.cloned()
    }

    /// Calls `f` for each, without the lock. It may miss address spaces that are added meanwhile.
    /// It may drop the last reference to an address space.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Arc<Vm>)) {
        let mut from = 0;
        loop {
            let next = {
                let list = self.list.lock();
                let found = list.cursor_lower_bound(&from);
                found.map(|at| (*at.current().0, at.current().1.clone()))
            };
            let Some((at, vm)) = next else { return };
            f(&vm);
            from = at + 1;
        }
    }

    /// Keeps the queues of all address spaces off the hardware until the returned value is dropped.
    /// Takes as long as the hardware may take. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn quiesce(&self, why: EvictTrigger) -> Result<KVVec<QuiesceGuard>> {
        let mut quiesced = KVVec::new();
        let mut done = Ok(());
        self.for_each(|vm| {
            done = done.and_then(|()| Ok(quiesced.push(vm.group().quiesce(why), GFP_KERNEL)?));
        });
        done.map(|()| quiesced)
    }

    /// Unmaps all memory that others may move from the GPU: see [`Vm::evict_pages`].
    pub(crate) fn release_movable(&self) -> Result {
        let mut done = Ok(());
        self.for_each(|vm| done = done.and_then(|()| vm.evict_pages()));
        done
    }

    /// Removes all mappings in all of them: the hardware is stopped, and about to be removed. No
    /// mapping is added meanwhile. May sleep.
    pub(crate) fn close(&self) {
        self.for_each(|vm| vm.close());
    }
}
