// SPDX-License-Identifier: GPL-2.0
//! An open file of a render node: an address space, which one process at a time may acquire through KFD.

use hw::va::VaRange;
use kernel::{
    new_mutex,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

use crate::mem::{
    bo::Bo,
    evict::EvictMembership,
    vm::{MappedPart, Vm},
};

/// What tells parts of buffers apart that GEM_VA has mapped: the buffer, by its address, and the first address.
type Place = (usize, u64);

/// A part of a buffer that GEM_VA has mapped.
struct PlacedPart {
    range: VaRange,
    _bo: ARef<Bo>,
}

fn place(bo: &Bo, start: u64) -> Place {
    (bo.address(), start)
}

/// An open file.
#[pin_data(PinnedDrop)]
pub(crate) struct RenderFile {
    /// That it takes part in sharing VRAM, from its first buffer on. Outside the evictor's lock.
    #[pin]
    membership: Mutex<Option<EvictMembership>>,
    vm: Arc<Vm>,
    owned: Atomic<bool>,
    /// What GEM_VA has mapped. Outside the VM's lock.
    #[pin]
    placed: Mutex<RBTree<Place, PlacedPart>>,
}

/// The right of one process to the address space of a [`RenderFile`]; dropping it gives it back.
pub(crate) struct VmOwner(Arc<RenderFile>);

impl RenderFile {
    /// A file with the address space `vm`. `ENOMEM`.
    pub(super) fn new(vm: Arc<Vm>) -> Result<Arc<Self>> {
        let file = Arc::pin_init(
            pin_init!(Self {
                membership <- new_mutex!(None, "File::membership"),
                vm,
                owned: Atomic::new(false),
                placed <- new_mutex!(RBTree::new(), "File::placed"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        file.vm.gpu().vms.add(&file.vm)?;
        Ok(file)
    }

    /// Maps a part of a buffer for GEM_VA; see [`Vm::map`].
    pub(super) fn map(&self, range: VaRange, part: MappedPart) -> Result {
        let key = place(&part.bo, range.start());
        let new = PlacedPart {
            range,
            _bo: part.bo.clone(),
        };
        let node = RBTreeNode::new(key, new, GFP_KERNEL_ACCOUNT)?;
        let mut placed = self.placed.lock();
        self.vm.map(range, part)?;
        let was = placed.insert(node);
        drop(placed);
        // There is none: nothing else was mapped at that address.
        drop(was);
        Ok(())
    }

    /// Takes out the part of `bo` that GEM_VA has mapped at `start`. ENOENT if there is none, EBUSY while a queue uses
    /// it; see [`Vm::unmap`].
    pub(super) fn unmap(&self, bo: &ARef<Bo>, start: u64) -> Result {
        let key = place(bo, start);
        let mut placed = self.placed.lock();
        let range = placed.get(&key).ok_or(ENOENT)?.range;
        self.vm.unmap(range)?;
        let gone = placed.remove(&key);
        drop(placed);
        // The buffer goes with it, maybe.
        drop(gone);
        Ok(())
    }

    /// Takes out what GEM_VA has mapped of `bo`, to which the file has no handle any more. What a queue uses goes with
    /// that.
    pub(super) fn unmap_all(&self, bo: &Bo) {
        loop {
            let mut placed = self.placed.lock();
            let first = place(bo, 0);
            let found = placed.cursor_lower_bound(&first);
            let Some(key) = found
                .map(|at| *at.current().0)
                .filter(|key| key.0 == first.0)
            else {
                return;
            };
            let gone = placed.remove(&key);
            drop(placed);
            if let Some(gone) = gone {
                // After an error the GPU may still use it: it stays in the address space until that goes.
                let _ = self.vm.abandon(gone.range);
            }
        }
    }

    /// What it has in VRAM may be moved for others from now on. ENODEV when the device goes, ENOMEM.
    pub(crate) fn join_evictor(&self) -> Result {
        let mut membership = self.membership.lock();
        if membership.is_none() {
            *membership = Some(self.vm.gpu().evictor.join(&self.vm)?);
        }
        Ok(())
    }

    /// The address space.
    pub(crate) fn vm(&self) -> &Arc<Vm> {
        &self.vm
    }

    /// Takes the address space for a process. EBUSY while another one has it.
    pub(crate) fn own(self: &Arc<Self>) -> Result<VmOwner> {
        // Who has it guards nothing by itself: the address space has a lock.
        self.owned
            .cmpxchg(false, true, Relaxed)
            .map_err(|_| EBUSY)?;
        Ok(VmOwner(self.clone()))
    }
}

#[pinned_drop]
impl PinnedDrop for RenderFile {
    fn drop(self: Pin<&mut Self>) {
        self.vm.retire();
    }
}

impl Drop for VmOwner {
    fn drop(&mut self) {
        self.0.owned.store(false, Relaxed);
    }
}
