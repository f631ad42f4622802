// SPDX-License-Identifier: GPL-2.0
//! What a thread waits for that often comes at once: a thread that has just done something looks for a while before it sleeps, as waking takes
//! longer than most of what is to be done then.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::clock::wait_until;

/// How long it looks, from when it did something.
pub const LOOK: Duration = Duration::from_micros(50);

/// Rung when there may be something to do.
#[derive(Default)]
pub struct Bell {
    rings: AtomicU64,
    sleepers: Condvar,
}

impl Bell {
    /// Whoever waits looks again what there is to do.
    pub fn ring(&self) {
        self.rings.fetch_add(1, Ordering::Release);
        self.sleepers.notify_all();
    }

    /// How often it was rung. To be asked before one looks what there is to do.
    pub fn rings(&self) -> u64 {
        self.rings.load(Ordering::Acquire)
    }

    /// Waits until it was rung more often than `rings`, or `end` is reached; whether it was. Others have the processor meanwhile if they want it.
    pub fn comes(&self, rings: u64, end: Instant) -> bool {
        while self.rings() == rings {
            if Instant::now() >= end {
                return false;
            }
            thread::yield_now();
        }
        true
    }

    /// Sleeps without the lock until it is rung or `until` is reached.
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
