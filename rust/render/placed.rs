// SPDX-License-Identifier: GPL-2.0
//! The mappings that GEM_VA has made in the address space of an open file.
//!
//! A mapping that is removed while jobs of the file are under way leaves when those are done, since
//! any of them may use it. The caller does not wait for that, unless it maps something else there.

use hw::va::VaRange;
use kernel::{
    new_mutex,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{aref::ARef, Arc, Mutex},
};

use crate::{
    kern::{drm::uapi::VmEntry, fence::Fence},
    mem::{
        bo::Bo,
        vm::{MappedPart, Vm},
    },
};

/// Identifies a part of a buffer that GEM_VA has mapped: the buffer, by its address, and the first
/// GPU address.
type Place = (usize, u64);

fn place(bo: &Bo, start: u64) -> Place {
    (bo.address(), start)
}

/// A part of a buffer that GEM_VA has mapped.
struct PlacedPart {
    range: VaRange,
    /// The first byte of the buffer, and the flags with which it was mapped.
    offset: u64,
    flags: u32,
    /// What it waits for before it leaves.
    after: KVec<ARef<Fence>>,
    _bo: ARef<Bo>,
}

impl PlacedPart {
    /// A fence that it still waits for.
    fn busy(&self) -> Option<&ARef<Fence>> {
        self.after.iter().find(|fence| fence.status().is_none())
    }
}

/// The parts of an address space.
struct Parts {
    placed: RBTree<Place, PlacedPart>,
    /// Those that wait for jobs to be done.
    leaving: RBTree<Place, PlacedPart>,
}

impl Parts {
    /// A part that leaves, and is still in `range`.
    fn leaving_in(&self, range: VaRange) -> Option<&PlacedPart> {
        let mut leaving = self.leaving.values();
        leaving.find(|part| part.range.overlaps(range))
    }

    /// Lets the part at `key` leave after `fences`, of which there are some.
    fn leave(&mut self, key: &Place, fences: KVec<ARef<Fence>>) {
        if let Some(node) = self.placed.remove_node(key) {
            // There is no other one with this key: its range is in use until it is gone.
            self.leaving.insert(node);
        }
        if let Some(part) = self.leaving.get_mut(key) {
            part.after = fences;
        }
    }
}

/// The mappings of GEM_VA.
#[pin_data]
pub(super) struct PlacedParts {
    /// This lock is outside the VM's.
    #[pin]
    parts: Mutex<Parts>,
}

impl PlacedParts {
    /// No mappings.
    pub(super) fn new() -> impl PinInit<Self> {
        let parts = Parts {
            placed: RBTree::new(),
            leaving: RBTree::new(),
        };
        pin_init!(Self {
            parts <- new_mutex!(parts, "PlacedParts::parts"),
        })
    }

    /// Maps a part of a buffer in `vm`; see [`Vm::map`]. The `flags` are told again. Returns a
    /// fence to wait for before another try if a part that leaves is still there.
    pub(super) fn map(
        &self,
        vm: &Arc<Vm>,
        range: VaRange,
        part: MappedPart,
        flags: u32,
    ) -> Result<Option<ARef<Fence>>> {
        let key = place(&part.bo, range.start());
        let new = PlacedPart {
            range,
            offset: part.offset,
            flags,
            after: KVec::new(),
            _bo: part.bo.clone(),
        };
        let node = RBTreeNode::new(key, new, GFP_KERNEL_ACCOUNT)?;
        let mut parts = loop {
            self.remove_done(vm);
            let parts = self.parts.lock();
            match parts.leaving_in(range).map(PlacedPart::busy) {
                None => break parts,
                Some(Some(fence)) => return Ok(Some(fence.clone())),
                // It is done by now.
                Some(None) => {}
            }
        };
        vm.map(range, part)?;
        let was = parts.placed.insert(node);
        drop(parts);
        // `None`: no other mapping was at that address.
        drop(was);
        Ok(None)
    }

    /// The mappings of `bo`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn of(&self, bo: &Bo) -> Result<KVVec<VmEntry>> {
        let first = place(bo, 0);
        let mut entries = KVVec::new();
        let mut parts = self.parts.lock();
        let mut at = parts.placed.cursor_lower_bound_mut(&first);
        while let Some(cursor) = at {
            let (key, part) = cursor.current();
            if key.0 != first.0 {
                break;
            }
            let entry = VmEntry {
                addr: part.range.start(),
                size: part.range.size(),
                offset: part.offset,
                flags: part.flags.into(),
            };
            entries.push(entry, GFP_KERNEL_ACCOUNT)?;
            at = cursor.move_next();
        }
        Ok(entries)
    }

    /// Unmaps the part of `bo` that is mapped at `start`, after `fences`. Returns whether it has to
    /// wait for them.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none; `EBUSY` while a queue uses it; see [`Vm::unmap`].
    pub(super) fn unmap(
        &self,
        vm: &Vm,
        bo: &ARef<Bo>,
        start: u64,
        fences: KVec<ARef<Fence>>,
    ) -> Result<bool> {
        let key = place(bo, start);
        let mut parts = self.parts.lock();
        let range = parts.placed.get(&key).ok_or(ENOENT)?.range;
        if !fences.is_empty() {
            parts.leave(&key, fences);
            return Ok(true);
        }
        vm.unmap(range)?;
        let gone = parts.placed.remove(&key);
        drop(parts);
        // This may drop the buffer too.
        drop(gone);
        Ok(false)
    }

    /// Unmaps all parts of `bo` after the fences that `fences` returns. A part that a queue uses
    /// stays until the queue goes, and one for which there is no memory as long as the address
    /// space. Returns whether one has to wait.
    pub(super) fn unmap_all(
        &self,
        vm: &Vm,
        bo: &Bo,
        fences: impl Fn() -> Result<KVec<ARef<Fence>>>,
    ) -> bool {
        let first = place(bo, 0);
        let mut waits = false;
        loop {
            let after = fences();
            let mut parts = self.parts.lock();
            let found = parts.placed.cursor_lower_bound(&first);
            let Some(key) = found
                .map(|at| *at.current().0)
                .filter(|key| key.0 == first.0)
            else {
                return waits;
            };
            let is_idle = match after {
                Ok(after) if !after.is_empty() => {
                    parts.leave(&key, after);
                    waits = true;
                    continue;
                }
                after => after.is_ok(),
            };
            let gone = parts.placed.remove(&key);
            if let Some(gone) = gone.as_ref().filter(|_| is_idle) {
                // After an error the GPU may still use it: it stays as long as the address space.
                let _ = vm.abandon(gone.range);
            }
            drop(parts);
            drop(gone);
        }
    }

    /// Unmaps the parts that leave and have nothing to wait for any more.
    pub(super) fn remove_done(&self, vm: &Vm) {
        loop {
            let mut parts = self.parts.lock();
            let mut leaving = parts.leaving.iter();
            let done = leaving.find(|(_, part)| part.busy().is_none());
            let Some(key) = done.map(|(key, _)| *key) else {
                return;
            };
            let gone = parts.leaving.remove(&key);
            if let Some(gone) = &gone {
                // As above.
                let _ = vm.abandon(gone.range);
            }
            drop(parts);
            drop(gone);
        }
    }

    /// A fence that a part waits for.
    pub(super) fn busy(&self) -> Option<ARef<Fence>> {
        let parts = self.parts.lock();
        let mut busy = parts.leaving.values().filter_map(PlacedPart::busy);
        busy.next().cloned()
    }
}
