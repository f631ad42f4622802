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

/// Every address space, from when it is made until nobody has it and nothing leads to it any more: user
/// memory and memory that others export lead to where they are mapped, and so could keep an address space for ever.
#[pin_data]
pub(crate) struct VmList {
    /// By address. Innermost.
    #[pin]
    list: Mutex<RBTree<usize, Arc<Vm>>>,
}

fn key(vm: &Vm) -> usize {
    core::ptr::from_ref(vm) as usize
}

impl VmList {
    /// None yet.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_mutex!(RBTree::new(), "Vms::list"),
        })
    }

    /// Puts one in, which takes itself out: see [`Vm::retire`]. ENOMEM.
    pub(crate) fn add(&self, vm: &Arc<Vm>) -> Result {
        let node = RBTreeNode::new(key(vm), vm.clone(), GFP_KERNEL_ACCOUNT)?;
        self.list.lock().insert(node);
        Ok(())
    }

    /// Takes one out that may go. It may be gone at the return, unless the caller has it.
    pub(super) fn remove(&self, vm: &Vm) {
        let node = self.list.lock().remove_node(&key(vm));
        drop(node);
    }

    /// Calls `f` with each, without the lock. Those that come meanwhile may be missed. It may be the last that has an address space.
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

    /// Keeps the queues of all of them off the hardware until what is returned is dropped. ENOMEM. Bounded by what the hardware may take; sleeps.
    pub(crate) fn quiesce(&self, why: EvictTrigger) -> Result<KVVec<QuiesceGuard>> {
        let mut quiesced = KVVec::new();
        let mut done = Ok(());
        self.for_each(|vm| {
            done = done.and_then(|()| Ok(quiesced.push(vm.group().quiesce(why), GFP_KERNEL)?));
        });
        done.map(|()| quiesced)
    }

    /// The GPU loses all memory that others may move: see [`Vm::let_go`].
    pub(crate) fn release_movable(&self) -> Result {
        let mut done = Ok(());
        self.for_each(|vm| done = done.and_then(|()| vm.evict_pages()));
        done
    }

    /// Nothing is mapped in any of them any more: the hardware is stopped, and about to go. Nobody maps anything meanwhile.
    /// Sleeps.
    pub(crate) fn close(&self) {
        self.for_each(|vm| vm.close());
    }
}
