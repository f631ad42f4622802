// SPDX-License-Identifier: GPL-2.0
//! Mappings of buffers that move: out of the page tables and back.

use super::{current_pid, mapping::Mapping, write, State, Vm};
use crate::{ip::gmc::Flush, kern::trace, mem::bo::Bo};
use kernel::{prelude::*, sync::Arc};

impl Vm {
    /// Takes every mapping of `bo` out of the page tables, until [`Vm::show`]. No queue of the VM is on the hardware.
    /// `ETIMEDOUT` when the device does not answer a flush: it may still reach the buffer. `ENOMEM`.
    pub(crate) fn hide(&self, bo: &Bo) -> Result {
        let mut state = self.state.lock();
        let State { mappings, tree, .. } = &mut *state;
        let shown =
            |mapping: &&Arc<Mapping>| core::ptr::eq(&**mapping.bo(), bo) && mapping.is_shown();
        let count = mappings.values().filter(shown).count();
        // Tables are freed after the flush, so the place for them comes first.
        let mut idle = KVVec::with_capacity(count, GFP_KERNEL)?;
        let mut written = 0;
        for mapping in mappings.values().filter(shown) {
            let tables = tree.clear(mapping.range(), &mut written);
            mapping.set_shown(false);
            if idle.push_within_capacity(tables).is_err() {
                return Err(ENOMEM);
            }
        }
        let flushed = self.flush(Flush::Heavyweight);
        drop(state);
        if flushed.is_err() {
            self.lose(idle, ());
        }
        flushed
    }

    /// Puts every mapping into the page tables that is not in them and can be. `ENOMEM`, `ENODEV`, `ETIMEDOUT`: some
    /// are still missing then.
    pub(crate) fn show(&self) -> Result {
        let mut state = self.state.lock();
        let State { mappings, tree, .. } = &mut *state;
        let mut result = Ok(());
        for mapping in mappings.values() {
            // Lent memory has its own ways.
            let left = mapping.is_shown() || mapping.lent().is_some();
            if left || !mapping.bo().is_mappable() {
                continue;
            }
            let range = mapping.range();
            let mut written = 0;
            result = write(tree, mapping, &mut written);
            if result.is_err() {
                // Nothing has used these tables.
                drop(tree.clear(range, &mut written));
                break;
            }
            mapping.set_shown(true);
            trace::map(current_pid(), range.start(), range.size(), written);
        }
        result.and(self.flush(Flush::Lightweight))
    }
}
