// SPDX-License-Identifier: GPL-2.0
//! A notification that a thread polls for a while before it sleeps. Most events come soon after the
//! thread's last action, and a wake-up takes longer than most of the work then.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::clock::wait_until;

/// Polling time after the thread's last action.
pub const LOOK: Duration = Duration::from_micros(50);

/// A bell that is rung when there may be work.
#[derive(Default)]
pub struct Bell {
    rings: AtomicU64,
    sleepers: Condvar,
}

impl Bell {
    /// Makes the waiters check again for work.
    pub fn ring(&self) {
        self.rings.fetch_add(1, Ordering::Release);
        self.sleepers.notify_all();
    }

    /// The number of rings so far. A waiter must read it before it checks for work.
    pub fn rings(&self) -> u64 {
        self.rings.load(Ordering::Acquire)
    }

    /// Waits until the bell was rung more often than `rings`, or `end` is reached. Returns whether
    /// it was rung. Yields the processor meanwhile.
    pub fn comes(&self, rings: u64, end: Instant) -> bool {
        while self.rings() == rings {
            if Instant::now() >= end {
                return false;
            }
            thread::yield_now();
        }
        true
    }

    /// Sleeps without the lock until the bell is rung or `until` is reached.
    pub fn sleep<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        until: Option<Instant>,
    ) -> MutexGuard<'a, T> {
        wait_until(&self.sleepers, guard, until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_heard() {
        let bell = Bell::default();
        let before = bell.rings();
        assert!(!bell.comes(before, Instant::now()));
        thread::scope(|scope| {
            scope.spawn(|| bell.ring());
            assert!(bell.comes(before, Instant::now() + Duration::from_secs(60)));
        });
        assert!(!bell.comes(bell.rings(), Instant::now() + LOOK));
    }
}
