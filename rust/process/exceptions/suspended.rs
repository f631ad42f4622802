// SPDX-License-Identifier: GPL-2.0
//! Queues that the debugger keeps off the hardware.

use kernel::prelude::*;

use super::ProcessExceptions;
use hw::exceptions::ExceptionSet;

/// What SUSPEND_QUEUES may do with a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspension {
    /// Nothing: there is no such queue, the debugger has not been told of it, or it is being
    /// destroyed.
    Refused,
    /// It is suspended already.
    Already,
    /// It is marked, and has to leave the hardware.
    Marked,
}

impl ProcessExceptions {
    /// Marks queue `id` as suspended.
    pub(crate) fn suspend(&self, id: u32) -> Suspension {
        let mut state = self.state.lock();
        match state.queue(id) {
            Some(queue) if queue.suspended => Suspension::Already,
            Some(queue) if queue.leaving => Suspension::Refused,
            Some(queue) if !queue.status.intersects(ExceptionSet::QUEUE_NEW) => {
                queue.suspended = true;
                Suspension::Marked
            }
            _ => Suspension::Refused,
        }
    }

    /// Takes the exceptions `clear` of queue `id`.
    pub(crate) fn take(&self, id: u32, clear: ExceptionSet) {
        if let Some(queue) = self.state.lock().queue(id) {
            queue.status = queue.status.without(clear);
        }
    }

    /// Unmarks queue `id`; `None` for an unknown one, else whether it was suspended.
    pub(crate) fn resume(&self, id: u32) -> Option<bool> {
        let mut state = self.state.lock();
        let was = core::mem::replace(&mut state.queue(id)?.suspended, false);
        drop(state);
        if was {
            self.changed.notify_all();
        }
        Some(was)
    }

    /// The first queue that has a larger number than `id`.
    pub(crate) fn queue_after(&self, id: u32) -> Option<u32> {
        let state = self.state.lock();
        let ids = state.queues.values().map(|queue| queue.id);
        ids.filter(|&other| other > id).min()
    }

    /// The first queue that has waves, is suspended and has a larger number than `id`, and the
    /// address of its save area.
    pub(crate) fn suspended_after(&self, id: u32) -> Option<(u32, u64)> {
        let state = self.state.lock();
        let queues = state.queues.values();
        let suspended =
            queues.filter(|queue| queue.suspended && queue.has_waves() && queue.id > id);
        let places = suspended.map(|queue| (queue.id, queue.save));
        places.min()
    }

    /// Waits, before queue `id` is destroyed, until the debugger has resumed it or has gone. From
    /// then on it is not suspended any more.
    ///
    /// # Errors
    ///
    /// `EBUSY` if another thread waits for the same; `ERESTARTSYS` for a signal.
    pub(crate) fn wait_resumed(&self, id: u32) -> Result {
        let mut state = self.state.lock();
        let Some(queue) = state.queue(id) else {
            return Ok(());
        };
        if core::mem::replace(&mut queue.leaving, true) && queue.suspended {
            return Err(EBUSY);
        }
        while state.debugger.is_some() && state.queue(id).is_some_and(|queue| queue.suspended) {
            if self.changed.wait_interruptible(&mut state) {
                if let Some(queue) = state.queue(id) {
                    queue.leaving = false;
                }
                return Err(ERESTARTSYS);
            }
        }
        Ok(())
    }
}
