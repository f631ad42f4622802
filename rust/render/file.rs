// SPDX-License-Identifier: GPL-2.0
//! An open file of a render node: an address space, which one process at a time may acquire through KFD.

use hw::va::VaRange;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

use crate::mem::{
    bo::Bo,
    vm::{Part, Vm},
};

/// A part of a buffer that GEM_VA has mapped.
struct Placed {
    range: VaRange,
    bo: ARef<Bo>,
}

/// An open file.
#[pin_data]
pub(crate) struct File {
    vm: Arc<Vm>,
    owned: Atomic<bool>,
    /// What GEM_VA has mapped. Outside the VM's lock.
    #[pin]
    placed: Mutex<KVec<Placed>>,
}

/// The right of one process to the address space of a [`File`]; dropping it gives it back.
pub(crate) struct Owner(Arc<File>);

impl File {
    /// A file with the address space `vm`.
    pub(super) fn new(vm: Arc<Vm>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                vm,
                owned: Atomic::new(false),
                placed <- new_mutex!(KVec::new(), "File::placed"),
            }),
            GFP_KERNEL,
        )
    }

    /// Maps a part of a buffer for GEM_VA; see [`Vm::map`].
    pub(super) fn map(&self, range: VaRange, part: Part) -> Result {
        let bo = part.bo.clone();
        let mut placed = self.placed.lock();
        placed.reserve(1, GFP_KERNEL)?;
        self.vm.map(range, part)?;
        placed.push(Placed { range, bo }, GFP_KERNEL)?;
        Ok(())
    }

    /// Takes out the part of `bo` that GEM_VA has mapped at `start`. ENOENT if there is none, EBUSY while a queue uses
    /// it; see [`Vm::unmap`].
    pub(super) fn unmap(&self, bo: &ARef<Bo>, start: u64) -> Result {
        let mut placed = self.placed.lock();
        let index = placed
            .iter()
            .position(|place| place.range.start() == start && place.is_of(bo))
            .ok_or(ENOENT)?;
        let range = placed.get(index).ok_or(ENOENT)?.range;
        self.vm.unmap(range)?;
        let gone = placed.remove(index);
        drop(placed);
        // The buffer goes with it, maybe.
        drop(gone);
        Ok(())
    }

    /// Takes out what GEM_VA has mapped of `bo`, to which the file has no handle any more. What a queue uses stays in
    /// the address space as long as that.
    pub(super) fn unmap_all(&self, bo: &Bo) {
        loop {
            let mut placed = self.placed.lock();
            let Some(index) = placed.iter().position(|place| place.is_of(bo)) else {
                return;
            };
            let gone = placed.remove(index);
            drop(placed);
            if let Ok(gone) = gone {
                let _ = self.vm.unmap(gone.range);
            }
        }
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

impl Placed {
    fn is_of(&self, bo: &Bo) -> bool {
        core::ptr::eq(&*self.bo, bo)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.owned.store(false, Relaxed);
    }
}
