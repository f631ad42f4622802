// SPDX-License-Identifier: GPL-2.0
//! A thread that waits for events. The lock of the process's events guards its contents.

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::lock::{Backend, Guard};
use kernel::sync::{Arc, CondVar, CondVarTimeoutResult};
use kernel::time::Jiffies;

/// A waiting thread.
#[pin_data]
pub(super) struct EventWaiter {
    #[pin]
    wake: CondVar,
    /// Events that are still missing before it is woken.
    missing: Atomic<usize>,
    /// One of its events was destroyed.
    lost: Atomic<bool>,
}

impl EventWaiter {
    /// A waiter for `missing` events.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(missing: usize) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                wake <- kernel::new_condvar!("EventWaiter::wake"),
                missing: Atomic::new(missing),
                lost: Atomic::new(false),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// One of its events was set, which it names `count` times.
    pub(super) fn activate(&self, count: usize) {
        let missing = self.missing.load(Relaxed);
        self.missing.store(missing.saturating_sub(count), Relaxed);
        if missing != 0 && missing <= count {
            self.wake.notify_all();
        }
    }

    /// One of its events was destroyed.
    pub(super) fn event_destroyed(&self) {
        self.lost.store(true, Relaxed);
        self.wake.notify_all();
    }

    /// Whether the wait is over.
    ///
    /// # Errors
    ///
    /// `EIO` if one of its events was destroyed.
    pub(super) fn is_done(&self) -> Result<bool> {
        if self.lost.load(Relaxed) {
            return Err(EIO);
        }
        Ok(self.missing.load(Relaxed) == 0)
    }

    /// Sleeps without the lock, until woken, for `most` jiffies, or until there is a signal.
    /// Returns whether the time is over.
    pub(super) fn sleep<T, B: Backend>(&self, lock: &mut Guard<'_, T, B>, most: Jiffies) -> bool {
        let result = self.wake.wait_interruptible_timeout(lock, most);
        matches!(result, CondVarTimeoutResult::Timeout)
    }
}
