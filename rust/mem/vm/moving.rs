// SPDX-License-Identifier: GPL-2.0
//! Mappings of buffers that move: out of the page tables and back. And those that go once nothing holds them.

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

/// The mappings of a buffer.
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
    /// Takes every mapping of the buffers at these addresses out of the page tables, until [`Vm::reveal`] or [`Vm::show`]. No queue of the VM is on
    /// the hardware. `ETIMEDOUT` when the device does not answer a flush: it may still reach the buffers. Allocates nothing.
    pub(crate) fn hide(&self, buffers: impl Iterator<Item = usize>) -> Result {
        self.hide_in(self.state.lock(), buffers)
    }

    /// As [`Vm::hide`], with the lock.
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
                idle.append(tree.clear(range, &mut written));
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

    /// Puts every mapping of `bo` into the page tables that is not in them and can be, without telling the GPU:
    /// [`Vm::show`] does that. The rest as there.
    pub(crate) fn reveal(&self, bo: &Bo) -> Result {
        let mut state = self.state.lock();
        let VmState {
            by_buffer, tree, ..
        } = &mut *state;
        let mut mappings = mappings_of(by_buffer, bo.address());
        mappings.try_for_each(|mapping| mapping.show(tree, self.group.pid()))
    }

    /// Puts every mapping into the page tables that is not in them and can be. `ENOMEM`, `ENODEV`, `ETIMEDOUT`: some
    /// are still missing then.
    pub(crate) fn show(&self) -> Result {
        let mut state = self.state.lock();
        let VmState { mappings, tree, .. } = &mut *state;
        let result = mappings
            .values()
            .try_for_each(|mapping| mapping.show(tree, self.group.pid()));
        result.and(self.flush(TlbFlush::Legacy))
    }

    /// What is mapped and left by all is taken out soon. Any context that may sleep.
    pub(super) fn clean_up(self: &Arc<Self>) {
        self.left.store(true, Release);
        workqueue::run_in(workqueue::background(), self.clone(), 0);
    }

    /// Takes out what is to go and what nothing holds any more.
    pub(super) fn remove_left(&self) {
        if !self.left.xchg(false, Full) {
            return;
        }
        loop {
            let state = self.state.lock();
            let mut mappings = state.mappings.values();
            let Some(mapping) = mappings.find(|mapping| mapping.is_left()).cloned() else {
                return;
            };
            drop(mappings);
            if self.remove_unheld(state, &mapping).is_err() {
                // The GPU does not answer. It stays until the address space goes.
                return;
            }
        }
    }
}

impl BoMapping {
    /// Writes the entries if they are not there and can be. After an error none are. The VM's lock is held.
    fn show(&self, tree: &mut PageTableTree, pid: u32) -> Result {
        // USERPTR memory has its own ways.
        if self.is_shown() || self.userptr().is_some() || !self.bo().is_mappable() {
            return Ok(());
        }
        let range = self.range();
        let mut written = 0;
        if let Err(error) = write(tree, self, &mut written) {
            // Nothing has used these tables.
            drop(tree.clear(range, &mut written));
            return Err(error);
        }
        self.set_shown(true);
        trace::map(pid, range.start(), range.size(), written);
        Ok(())
    }
}
