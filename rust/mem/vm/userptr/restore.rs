// SPDX-License-Identifier: GPL-2.0
//! What a process has where its memory changed is mapped anew, by a work item, and its queues go on.

use super::{GpuBinding, LeastRun, LockWait, MissingPages, PageRequest};
use crate::{
    kern::{errno, ratelimit::dev_warn_ratelimited, workqueue},
    mem::vm::{
        backoff::{RetryBackoff, RUN, SOON_MS},
        mapping::BoMapping,
        Vm,
    },
};
use kernel::{
    error::code::*,
    prelude::*,
    sync::{atomic::Acquire, Arc},
    time::Instant,
    workqueue::WorkItem,
};

/// How long after a try during which there were changes it is looked what there is now, milliseconds.
const CHANGED_MS: u32 = 4;

impl Vm {
    /// A range that waits for its pages; it is not found again before it is put down again.
    fn next_invalid(&self) -> Option<Arc<BoMapping>> {
        let waits = |mapping: &BoMapping| mapping.userptr().is_some_and(|own| own.is_invalid());
        loop {
            let start = self.evicted.lock().waiting.pop();
            let Some(start) = start else { break };
            let found = self.state.lock().at_or_above(start);
            let found = found.filter(|mapping| mapping.range().start() == start);
            // Who is just putting it down has its lock until it does wait.
            if let Some(mapping) = found.filter(|mapping| waits(mapping)) {
                return Some(mapping);
            }
        }
        if !self.evicted.lock().waiting.take_overflow() {
            return None;
        }
        let state = self.state.lock();
        let mut found = state.mappings.values().filter(|mapping| waits(mapping));
        let first = found.next().cloned();
        // Each range's own lock, by which the next one is found, is outside of this.
        found.for_each(|other| self.evicted.lock().waiting.push(other.range().start()));
        first
    }

    /// Restores what is invalid, and lets the queues go on when nothing is left. Otherwise it is tried again: soon when
    /// the process has changed something meanwhile, later and later when pages cannot be had.
    fn restore(self: &Arc<Self>) {
        let mut failed = false;
        for _ in 0..RUN {
            let Some(mapping) = self.next_invalid() else {
                break;
            };
            let validated = self.validate(&mapping, false, LockWait::Short, &|| Ok(()));
            if validated.is_err() {
                let start = mapping.range().start();
                self.evicted.lock().waiting.push(start);
            }
            match validated {
                Ok(()) => {}
                // The process is being ended, which destroys its queues: they stay off until then.
                Err(error) if error == ESRCH => return,
                Err(error) if error == errno::in_progress() && self.is_brought(&mapping) => {
                    self.map_remaining(&mapping);
                }
                Err(error) if error != EAGAIN && self.evicted.lock().retry.is_enough() => {
                    self.resume_without(&mapping, error);
                }
                Err(error) => {
                    failed = error != EAGAIN;
                    break;
                }
            }
        }
        let mut evicted = self.evicted.lock();
        if evicted.invalid == 0 {
            evicted.retry = RetryBackoff::default();
            evicted.quiesced = None;
            evicted.run = Some(LeastRun::new(Instant::now()));
            return;
        }
        let delay = if failed {
            evicted.retry.fail()
        } else {
            CHANGED_MS
        };
        drop(evicted);
        self.restore_in(delay);
    }

    /// Lets the queues go on without pages that cannot be had: they fault where they come to them.
    fn resume_without(&self, mapping: &Arc<BoMapping>, error: Error) {
        let Some(userptr) = mapping.userptr() else {
            return;
        };
        let start = userptr.range.start();
        dev_warn_ratelimited!(
            self.gpu.hw.dev,
            "memory at {start:#x} of process {} cannot be had: {error:?}\n",
            self.group.pid()
        );
        if error == errno::in_progress() {
            // The next range's programs are asked from now on.
            self.evicted.lock().retry = RetryBackoff::default();
        }
        self.map_remaining(mapping);
    }

    /// Whether programs have brought what they have of a range. If not, somebody waits for them.
    fn is_brought(&self, mapping: &BoMapping) -> bool {
        let Some(userptr) = mapping.userptr() else {
            return false;
        };
        let last = self
            .evicted
            .lock()
            .bringer
            .as_ref()
            .map(|(_, last)| last.by().clone());
        if let Some(last) = last {
            let own = userptr.state.lock();
            let brought = userptr.is_brought(&last);
            drop(own);
            if brought || !last.is_done() {
                return brought;
            }
        }
        // Without memory the next run does it.
        if let Ok(bringer) = userptr.fetch(mapping.bo().access().write) {
            let start = userptr.range.start();
            let own = userptr.state.lock();
            let unneeded = if own.now == GpuBinding::Invalid {
                let last = self.evicted.lock().bringer.replace((start, bringer));
                last.map(|(_, last)| last)
            } else {
                Some(bringer)
            };
            drop(own);
            drop(unneeded);
        }
        false
    }

    /// Maps what there is of a range without what cannot be had.
    fn map_remaining(&self, mapping: &Arc<BoMapping>) {
        let Some(userptr) = mapping.userptr() else {
            return;
        };
        let (asked, stamp) = (Instant::now(), userptr.read_begin());
        let memory = userptr.memory();
        // What else there is of the range, or nothing.
        let request = PageRequest {
            stamp,
            write: mapping.bo().access().write,
            missing: MissingPages::IsLeftOut,
            memory: memory.as_ref(),
            lock_wait: LockWait::Short,
            go_on: &|| Ok(()),
        };
        let pages = match userptr.pages(&request) {
            Err(error) if error == EAGAIN => return,
            pages => pages.unwrap_or_default(),
        };
        // When it has just changed, or this fails, the next run comes here again.
        let _ = self.attach(mapping, userptr, (stamp, pages), asked);
    }

    /// The process has lost the address space, of which its ranges are taken out. What the file itself has mapped of imports
    /// is still to be mapped where it is by now, before there are queues here again, and what was left is to be taken out. Sleeps.
    pub(crate) fn forget_range(self: &Arc<Self>) {
        self.stop_restoring();
        if self.is_moved() || self.left.load(Acquire) {
            self.restore_in(SOON_MS);
        }
    }

    /// No range is watched any more, and the queues, if there are any, need not wait for one. Sleeps.
    pub(in crate::mem::vm) fn stop_restoring(self: &Arc<Self>) {
        workqueue::cancel(self);
        let mut evicted = self.evicted.lock();
        evicted.quiesced = None;
        let bringer = evicted.bringer.take();
        drop(evicted);
        drop(bringer);
    }
}

impl WorkItem for Vm {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.remove_left();
        this.restore_moved();
        this.restore();
    }
}
