// SPDX-License-Identifier: GPL-2.0
//! Mappings of buffers that move: their removal from the page tables and their return. And the
//! removal of mappings after their last holder has released them.

use super::{
    mapping::{BoMapping, Key},
    table::{IdleTables, PageTableTree},
    write, Vm, VmState,
};
use crate::{
    ip::hub::TlbFlush,
    kern::{trace, workqueue},
    mem::bo::Bo,
};
use kernel::{
    prelude::*,
    rbtree::RBTree,
    sync::{
        atomic::{Full, Release},
        Arc, MutexGuard,
    },
};

/// Returns the mappings of a buffer.
fn mappings_of<'a>(
    by_buffer: &'a RBTree<Key, Arc<BoMapping>>,
    buffer: usize,
) -> impl Iterator<Item = Arc<BoMapping>> + 'a {
    let mut from = (buffer, 0);
    core::iter::from_fn(move || {
        let cursor = by_buffer.cursor_lower_bound(&from)?;
        let (&(found, start), mapping) = cursor.current();
        let mapping = (found == from.0).then(|| mapping.clone())?;
        from.1 = start + 1;
        Some(mapping)
    })
}

impl Vm {
    /// Makes the entries of every mapping of the buffers at these addresses invalid, until
    /// [`Vm::reveal`] or [`Vm::show`]. The mappings keep their page tables, so that no other client
    /// can take them meanwhile. No queue of the VM is on the hardware. Allocates no memory.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if the device does not answer a flush: it may still access the buffers.
    pub(crate) fn hide(&self, buffers: impl Iterator<Item = usize>) -> Result {
        self.hide_in(self.state.lock(), buffers)
    }

    /// Like [`Vm::hide`], with the lock.
    pub(super) fn hide_in(
        &self,
        mut state: MutexGuard<'_, VmState>,
        buffers: impl Iterator<Item = usize>,
    ) -> Result {
        let VmState {
            by_buffer, tree, ..
        } = &mut *state;
        let mut idle = IdleTables::default();
        for buffer in buffers {
            for mapping in mappings_of(by_buffer, buffer).filter(|mapping| mapping.is_shown()) {
                let (range, mut written) = (mapping.range(), 0);
                tree.hide(range, &mut idle, &mut written);
                mapping.set_shown(false);
                trace::unmap(self.group.pid(), range.start(), range.size(), written);
            }
        }
        let flushed = self.flush(TlbFlush::Heavyweight);
        drop(state);
        if flushed.is_err() {
            self.leak(idle);
        }
        flushed
    }

    /// Writes every mapping of `bo` that is missing in the page tables and can be mapped, without a
    /// flush: [`Vm::show`] does that.
    ///
    /// # Errors
    ///
    /// Those of [`Vm::show`].
    pub(crate) fn reveal(&self, bo: &Bo) -> Result {
        let mut state = self.state.lock();
        let VmState {
            by_buffer, tree, ..
        } = &mut *state;
        let mut mappings = mappings_of(by_buffer, bo.address());
        mappings.try_for_each(|mapping| mapping.show(tree, self.group.pid()))
    }

    /// Writes every mapping that is missing in the page tables and can be mapped.
    ///
    /// # Errors
    ///
    /// Some are still missing after an error. `ENOMEM`, `ENODEV`, `ETIMEDOUT`.
    pub(crate) fn show(&self) -> Result {
        let mut state = self.state.lock();
        let VmState { mappings, tree, .. } = &mut *state;
        let result = mappings
            .values()
            .try_for_each(|mapping| mapping.show(tree, self.group.pid()));
        result.and(self.flush(TlbFlush::Legacy))
    }

    /// Schedules the removal of mappings that their last holders have released. May be called where
    /// sleeping is allowed.
    pub(super) fn clean_up(self: &Arc<Self>) {
        self.has_released.store(true, Release);
        workqueue::run_in(workqueue::background(), self.clone(), 0);
    }

    /// Removes mappings that are to be removed and that nothing holds any more.
    pub(super) fn remove_released(&self) {
        if !self.has_released.xchg(false, Full) {
            return;
        }
        loop {
            let state = self.state.lock();
            let mut mappings = state.mappings.values();
            let Some(mapping) = mappings.find(|mapping| mapping.is_released()).cloned() else {
                return;
            };
            drop(mappings);
            if self.remove_unheld(state, &mapping).is_err() {
                // The GPU does not answer. The mapping stays until the address space is freed.
                return;
            }
        }
    }
}

impl BoMapping {
    /// Writes the entries if they are missing and can be written. After an error there are none,
    /// but the tables that were found stay for the next try. The VM's lock is held.
    fn show(&self, tree: &mut PageTableTree, pid: u32) -> Result {
        // USERPTR memory is mapped by code of its own.
        if self.is_shown() || self.userptr().is_some() || !self.bo().is_mappable() {
            return Ok(());
        }
        let range = self.range();
        let mut written = 0;
        if let Err(error) = write(tree, self, &mut written) {
            // The GPU has not used the tables that are freed here.
            tree.hide(range, &mut IdleTables::default(), &mut written);
            return Err(error);
        }
        self.set_shown(true);
        trace::map(pid, range.start(), range.size(), written);
        Ok(())
    }
}
