// SPDX-License-Identifier: GPL-2.0
//! Imported memory that its exporter moves, in an address space that maps it: as with lent memory the queues are halted and the entries
//! cleared before it goes, and a work item maps what there is then.

use super::{
    retry::{Retry, RUN, SOON_MS},
    Vm,
};
use crate::{
    ip::gmc::Flush,
    kern::ratelimit::dev_warn_ratelimited,
    mem::{
        bo::Bo,
        group::{Halt, HaltGuard},
        import::Import,
    },
};
use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};

/// What keeps the queues off while imported memory moves.
#[derive(Default)]
pub(super) struct Moved {
    halt: Option<HaltGuard>,
    /// How often something has moved.
    count: u64,
    /// Runs of the work item in a row that could not restore everything.
    retry: Retry,
}

impl Vm {
    /// The imported buffer at address `buffer` is about to move: from the return on the GPU does not reach it here. Bounded; sleeps.
    pub(in crate::mem) fn lose_import(self: &Arc<Self>, buffer: usize) {
        self.await_moved();
        if self.hide(core::iter::once(buffer)).is_err() {
            dev_err!(
                self.gpu.hw.dev,
                "the GPU does not answer a flush: it may use memory that another device has moved\n"
            );
        }
    }

    /// The queues are off from the return on until every import is mapped again.
    pub(super) fn await_moved(self: &Arc<Self>) {
        let mut moved = self.moved.lock();
        moved.count += 1;
        if moved.halt.is_none() {
            moved.halt = Some(self.group.halt(Halt::Eviction));
        }
        drop(moved);
        self.restore_in(SOON_MS);
    }

    /// Maps imports that have moved, and lets the queues go on when none is left. Otherwise it is tried again, later and later.
    pub(super) fn restore_moved(self: &Arc<Self>) {
        let (count, is_enough) = {
            let moved = self.moved.lock();
            if moved.halt.is_none() {
                return;
            }
            (moved.count, moved.retry.is_enough())
        };
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
            dev_warn_ratelimited!(
                self.gpu.hw.dev,
                "memory that process {pid} imports cannot be had: {error:?}\n"
            );
            import.lose();
        }
        let done = done && self.flush(Flush::Lightweight).is_ok();
        let mut moved = self.moved.lock();
        if done && moved.count == count {
            moved.halt = None;
            moved.retry = Retry::default();
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
        let waits = |import: &Import| !import.is_lost();
        let found = mappings
            .find(|mapping| !mapping.is_shown() && mapping.bo().import().is_some_and(waits))?;
        Some(found.bo().clone())
    }

    /// The queues, if there are any, need not wait for imports.
    pub(super) fn settle_moved(&self) {
        self.moved.lock().halt = None;
    }
}
