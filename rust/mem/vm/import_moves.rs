// SPDX-License-Identifier: GPL-2.0
//! Imported memory that its exporter moves, in an address space that maps it: as with USERPTR memory the queues are quiesced and the entries
//! cleared before it goes, and a work item maps what there is then.

use super::{
    backoff::{RetryBackoff, RUN, SOON_MS},
    Vm,
};
use crate::{
    ip::hub::TlbFlush,
    kern::ratelimit::dev_warn_ratelimited,
    mem::{
        bo::Bo,
        import::ImportedMemory,
        queue_group::{EvictTrigger, QuiesceGuard},
    },
};
use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};

/// What keeps the queues off while imported memory moves.
#[derive(Default)]
pub(super) struct ImportMoves {
    quiesced: Option<QuiesceGuard>,
    /// How often something has moved.
    count: u64,
    /// How much is just being taken out of the tables.
    leaving: usize,
    /// Entries lead to where something was before it moved.
    stale: bool,
    /// Runs of the work item in a row that could not restore everything.
    retry: RetryBackoff,
}

impl Vm {
    /// The imported buffer at address `buffer` is about to move: from the return on the GPU does not reach it here. The
    /// exporter may do that to find memory, for somebody who has the VM's lock: then the queues are off, and the entries,
    /// which nothing uses any more, are cleared by the work item. Bounded; sleeps.
    pub(in crate::mem) fn evict_import(self: &Arc<Self>, buffer: usize) {
        self.quiesce_for_moves(|moved| moved.leaving += 1);
        let hidden = self
            .state
            .try_lock()
            .map(|state| self.hide_in(state, core::iter::once(buffer)));
        {
            let mut moved = self.moved.lock();
            moved.leaving -= 1;
            moved.stale |= hidden.is_none();
        }
        self.restore_in(SOON_MS);
        if hidden.is_some_and(|hidden| hidden.is_err()) {
            dev_err!(
                self.gpu.hw.dev,
                "the GPU does not answer a flush: it may use memory that another device has moved\n"
            );
        }
    }

    /// Clears the entries of all imports, as some of them are stale, or may be soon. They are written again as after a move.
    pub(super) fn hide_imports(&self) -> Result {
        let mut buffers = KVVec::new();
        {
            let state = self.state.lock();
            for mapping in state.mappings.values() {
                if mapping.is_shown() && mapping.bo().import().is_some() {
                    buffers.push(mapping.bo().address(), GFP_KERNEL)?;
                }
            }
        }
        self.hide(buffers.iter().copied())
    }

    /// The queues are off from the return on until every import is mapped again.
    pub(super) fn wait_for_moved(self: &Arc<Self>) {
        self.quiesce_for_moves(|_| ());
        self.restore_in(SOON_MS);
    }

    /// Something moves, as `change` says: the queues are off from the return on.
    fn quiesce_for_moves(&self, change: impl FnOnce(&mut ImportMoves)) {
        let mut moved = self.moved.lock();
        moved.count += 1;
        change(&mut moved);
        if moved.quiesced.is_none() {
            moved.quiesced = Some(self.group.quiesce(EvictTrigger::Eviction));
        }
    }

    /// Maps imports that have moved, and lets the queues go on when none is left. Otherwise it is tried again, later and later.
    pub(super) fn restore_moved(self: &Arc<Self>) {
        let (count, is_enough, stale) = {
            let mut moved = self.moved.lock();
            if moved.quiesced.is_none() {
                return;
            }
            let stale = core::mem::take(&mut moved.stale);
            (moved.count, moved.retry.is_enough(), stale)
        };
        if stale && self.hide_imports().is_err() {
            let mut moved = self.moved.lock();
            moved.stale = true;
            let delay = moved.retry.fail();
            drop(moved);
            return self.restore_in(delay);
        }
        let mut done = false;
        for _ in 0..RUN {
            let Some(bo) = self.first_moved() else {
                done = true;
                break;
            };
            let Some(import) = bo.import() else { break };
            let Err(error) = import.validate(|| self.reveal(&bo)) else {
                continue;
            };
            let passing = [ENOMEM, EINTR, EAGAIN, EBUSY, ETIMEDOUT].contains(&error);
            if passing && !is_enough {
                break;
            }
            let pid = self.group.pid();
            // Whose device went is no news.
            if error != ENODEV {
                dev_warn_ratelimited!(
                    self.gpu.hw.dev,
                    "memory that process {pid} imports cannot be had: {error:?}\n"
                );
            }
            import.set_unavailable();
        }
        let done = done && self.flush(TlbFlush::Legacy).is_ok();
        let mut moved = self.moved.lock();
        if done && moved.count == count && moved.leaving == 0 && !moved.stale {
            moved.quiesced = None;
            moved.retry = RetryBackoff::default();
            return;
        }
        let delay = if done { SOON_MS } else { moved.retry.fail() };
        drop(moved);
        self.restore_in(delay);
    }

    /// Imported memory that is mapped and not in the page tables, and may be had.
    fn first_moved(&self) -> Option<ARef<Bo>> {
        let state = self.state.lock();
        let mut mappings = state.mappings.values();
        let waits = |import: &ImportedMemory| !import.is_lost();
        let found = mappings
            .find(|mapping| !mapping.is_shown() && mapping.bo().import().is_some_and(waits))?;
        Some(found.bo().clone())
    }

    /// Whether the queues, if there are any, wait for imports.
    pub(super) fn is_moved(&self) -> bool {
        self.moved.lock().quiesced.is_some()
    }

    /// They need not wait: nothing is mapped any more.
    pub(super) fn clear_moved(&self) {
        self.moved.lock().quiesced = None;
    }
}
