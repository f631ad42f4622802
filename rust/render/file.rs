// SPDX-License-Identifier: GPL-2.0
//! An open file of a render node: an address space, which one process at a time may acquire through KFD.

use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

use crate::mem::vm::Vm;

/// An open file.
pub(crate) struct File {
    vm: Arc<Vm>,
    owned: Atomic<bool>,
}

/// The right of one process to the address space of a [`File`]; dropping it gives it back.
pub(crate) struct Owner(Arc<File>);

impl File {
    /// A file with the address space `vm`.
    pub(super) fn new(vm: Arc<Vm>) -> Result<Arc<Self>> {
        let file = Self {
            vm,
            owned: Atomic::new(false),
        };
        Ok(Arc::new(file, GFP_KERNEL)?)
    }

    /// The address space.
    pub(crate) fn vm(&self) -> &Arc<Vm> {
        &self.vm
    }

    /// Takes the address space for a process. EBUSY while another one has it.
    pub(crate) fn own(self: &Arc<Self>) -> Result<Owner> {
        // Who has it guards nothing by itself: the address space has a lock.
        self.owned
            .cmpxchg(false, true, Relaxed)
            .map_err(|_| EBUSY)?;
        Ok(Owner(self.clone()))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.owned.store(false, Relaxed);
    }
}
