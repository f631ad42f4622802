// SPDX-License-Identifier: GPL-2.0
//! Imported memory that its exporter moves, in an address space that maps it. As for USERPTR
//! memory, the queues are quiesced and the entries cleared before the move, and a work item maps
//! the memory at its new place.

use super::{
    backoff::{RetryBackoff, RUN, SOON_MS},
    Vm,
};
use crate::{
    ip::hub::TlbFlush,
    kern::ratelimit::dev_warn_ratelimited,
    mem::{
        bo::Bo,
        import::MovingMemory,
        queue_group::{EvictTrigger, QuiesceGuard},
    },
};
use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};

/// Keeps the queues off the hardware while imported memory moves.
#[derive(Default)]
pub(super) struct ImportMoves {
    quiesced: Option<QuiesceGuard>,
    /// How often memory has moved.
    count: u64,
    /// How many buffers are being removed from the tables.
    leaving: usize,
    /// Some entries lead to the place of a buffer before its move.
    stale: bool,
    /// Runs of the work item in a row that could not restore all buffers.
    retry: RetryBackoff,
}

impl Vm {
    /// Handles the move of the imported buffer at address `buffer`: from the return on the GPU does
    /// not access it here. The exporter may move it to find memory for a thread that holds the VM's
    /// lock. Then the queues are off the hardware, so the entries are not used, and the work item
    /// clears them. Takes a bounded time. May sleep.
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

    /// Clears the entries of all imports, since some of them are stale, or may be soon. They are
    /// written again as after a move.
    pub(super) fn hide_imports(&self) -> Result {
        let mut buffers = KVVec::new();
        {
            let state = self.state.lock();
            for mapping in state.mappings.values() {
                if mapping.is_shown() && mapping.bo().moving().is_some() {
                    buffers.push(mapping.bo().address(), GFP_KERNEL)?;
                }
            }
        }
        self.hide(buffers.iter().copied())
    }

    /// Keeps the queues off the hardware, from the return on, until every import is mapped again.
    pub(super) fn wait_for_moved(self: &Arc<Self>) {
        self.quiesce_for_moves(|_| ());
        self.restore_in(SOON_MS);
    }

    /// Keeps the queues off the hardware, from the return on, for a move that `change` records.
    fn quiesce_for_moves(&self, change: impl FnOnce(&mut ImportMoves)) {
        let mut moved = self.moved.lock();
        moved.count += 1;
        change(&mut moved);
        if moved.quiesced.is_none() {
            moved.quiesced = Some(self.group.quiesce(EvictTrigger::Eviction));
        }
    }

    /// Maps imports that have moved, and resumes the queues if none is left. Otherwise it schedules
    /// another try, with a growing delay.
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
            let Some(import) = bo.moving() else { break };
            let Err(error) = import.validate(|| self.reveal(&bo)) else {
                continue;
            };
            let passing = [ENOMEM, EINTR, EAGAIN, EBUSY, ETIMEDOUT].contains(&error);
            if passing && !is_enough {
                break;
            }
            let pid = self.group.pid();
            // The removal of a device is not worth a message.
            if error != ENODEV {
                dev_warn_ratelimited!(
                    process pid,
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

    /// Returns imported memory that is mapped, is not in the page tables, and is not known to be
    /// unavailable.
    fn first_moved(&self) -> Option<ARef<Bo>> {
        let state = self.state.lock();
        let mut mappings = state.mappings.values();
        let waits = |import: MovingMemory<'_>| !import.is_unavailable();
        let found = mappings
            .find(|mapping| !mapping.is_shown() && mapping.bo().moving().is_some_and(waits))?;
        Some(found.bo().clone())
    }

    /// Whether the queues, if there are any, wait for imports.
    pub(super) fn is_moved(&self) -> bool {
        self.moved.lock().quiesced.is_some()
    }

    /// Lets the queues go on: no import is mapped any more.
    pub(super) fn clear_moved(&self) {
        self.moved.lock().quiesced = None;
    }
}
