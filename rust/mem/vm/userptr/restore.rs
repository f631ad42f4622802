// SPDX-License-Identifier: GPL-2.0
//! The work item that maps a process's current pages where its memory has changed, and resumes its
//! queues.

use super::{DevicePages, GpuBinding, LeastRun, LockWait, MissingPages, PageRequest};
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

/// The delay after a try during which there were changes, milliseconds.
const CHANGED_MS: u32 = 4;

impl Vm {
    /// Returns a range that waits for its pages; it is not returned again before it is pushed
    /// again.
    fn next_invalid(&self) -> Option<Arc<BoMapping>> {
        let waits = |mapping: &BoMapping| {
            mapping
                .userptr()
                .is_some_and(|userptr| userptr.is_invalid())
        };
        loop {
            let start = self.evicted.lock().waiting.pop();
            let Some(start) = start else { break };
            let found = self.state.lock().at_or_above(start);
            let found = found.filter(|mapping| mapping.range().start() == start);
            // A thread that is just pushing it holds its lock until it does wait.
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
        // The lock of each range, needed to find the next one, is outside of this lock.
        found.for_each(|other| self.evicted.lock().waiting.push(other.range().start()));
        first
    }

    /// Restores the invalid ranges, and resumes the queues if none is left. Otherwise it schedules
    /// another try: soon if the process has changed its memory meanwhile, with a growing delay if
    /// pages are not available.
    fn restore(self: &Arc<Self>) {
        let mut failed = false;
        for _ in 0..RUN {
            let Some(mapping) = self.next_invalid() else {
                break;
            };
            let error = match self.validate(&mapping, false, LockWait::Short, &|| Ok(())) {
                Ok(()) => continue,
                // The process is being ended, which destroys its queues: they stay off the hardware
                // until then.
                Err(error) if error == ESRCH => return,
                Err(error) => error,
            };
            let mapped = if error == errno::in_progress() && self.is_brought(&mapping) {
                self.map_remaining(&mapping)
            } else if error != EAGAIN && self.evicted.lock().retry.is_enough() {
                self.resume_without(&mapping, error)
            } else {
                Err(error)
            };
            if let Err(error) = mapped {
                // The same range would be next.
                self.evicted.lock().waiting.push(mapping.range().start());
                failed = error != EAGAIN;
                break;
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

    /// Resumes the queues without pages that are not available: they fault where they access them.
    ///
    /// # Errors
    ///
    /// Those of [`Vm::map_remaining`].
    fn resume_without(&self, mapping: &Arc<BoMapping>, error: Error) -> Result {
        let userptr = mapping.userptr().ok_or(EINVAL)?;
        let start = userptr.range.start();
        dev_warn_ratelimited!(
            process self.group.pid(),
            self.gpu.hw.dev,
            "memory at {start:#x} of process {} cannot be had: {error:?}\n",
            self.group.pid()
        );
        if error == errno::in_progress() {
            // From now on the next range's programs are asked.
            self.evicted.lock().retry = RetryBackoff::default();
        }
        self.map_remaining(mapping)
    }

    /// Whether programs have provided their pages of a range. If not, a request to them is under
    /// way.
    fn is_brought(&self, mapping: &BoMapping) -> bool {
        let Some(userptr) = mapping.userptr() else {
            return false;
        };
        let last = self
            .evicted
            .lock()
            .fetch
            .as_ref()
            .map(|(_, last)| last.by().clone());
        if let Some(last) = last {
            let state = userptr.state.lock();
            let brought = userptr.is_brought(&last);
            drop(state);
            if brought || !last.is_done() {
                return brought;
            }
        }
        // If there is no memory, the next run does it.
        if let Ok(fetch) = userptr.fetch(mapping.bo().access().write) {
            let start = userptr.range.start();
            let state = userptr.state.lock();
            let unneeded = if state.binding == GpuBinding::Invalid {
                let last = self.evicted.lock().fetch.replace((start, fetch));
                last.map(|(_, last)| last)
            } else {
                Some(fetch)
            };
            drop(state);
            drop(unneeded);
        }
        false
    }

    /// Maps the available pages of a range, without the others. Where there are no page tables for
    /// them, it maps none.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if the range has just changed; `ENODEV`, `ETIMEDOUT`. Then the queues still wait
    /// for it.
    fn map_remaining(&self, mapping: &Arc<BoMapping>) -> Result {
        let userptr = mapping.userptr().ok_or(EINVAL)?;
        let (asked, stamp) = (Instant::now(), userptr.read_begin());
        let memory = userptr.memory();
        // This finds the other pages of the range, or none.
        let request = PageRequest {
            stamp,
            write: mapping.bo().access().write,
            missing: MissingPages::IsLeftOut,
            memory: memory.as_ref(),
            lock_wait: LockWait::Short,
            go_on: &|| Ok(()),
        };
        let pages = match userptr.pages(&request) {
            Err(error) if error == EAGAIN => return Err(EAGAIN),
            pages => pages.unwrap_or_default(),
        };
        let attach = |pages| self.attach(mapping, userptr, (stamp, pages), asked);
        let attached = match attach(pages) {
            Err(error) if error == ENOMEM => attach(DevicePages::default()),
            attached => attached,
        };
        attached?.then_some(()).ok_or(EAGAIN)
    }

    /// Ends the restores after the process has lost the address space, with its ranges removed.
    /// Imports that the file itself has mapped still have to be mapped at their current places
    /// before there are queues here again, and released mappings still have to be removed. May
    /// sleep.
    pub(crate) fn forget_range(self: &Arc<Self>) {
        self.stop_restoring();
        if self.is_moved() || self.has_released.load(Acquire) {
            self.restore_in(SOON_MS);
        }
    }

    /// Ends the restores of ranges: no range is watched any more, and the queues, if there are any,
    /// need not wait for one. May sleep.
    pub(in crate::mem::vm) fn stop_restoring(self: &Arc<Self>) {
        workqueue::cancel(self);
        let mut evicted = self.evicted.lock();
        evicted.quiesced = None;
        let fetch = evicted.fetch.take();
        drop(evicted);
        drop(fetch);
    }
}

impl WorkItem for Vm {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.remove_released();
        this.restore_moved();
        this.restore();
    }
}
