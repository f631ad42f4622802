// SPDX-License-Identifier: GPL-2.0
//! The GPU's reference clock.

use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Instant;

/// Ticks a second of the reference clock.
pub const HZ: u64 = 100_000_000;

/// Counts from the device's creation.
pub struct Clock {
    begun: Instant,
    first: u64,
}

impl Clock {
    /// Starts at `first` ticks.
    pub fn new(first: u64) -> Clock {
        Clock {
            begun: Instant::now(),
            first,
        }
    }

    /// Ticks since the start.
    pub fn now(&self) -> u64 {
        let ticks = self.begun.elapsed().as_nanos() / (1_000_000_000 / u128::from(HZ));
        self.first.wrapping_add(ticks as u64)
    }
}

/// Releases the lock until `work` is notified or `until` is reached; None is no limit.
pub fn wait_until<'a, T>(
    work: &Condvar,
    guard: MutexGuard<'a, T>,
    until: Option<Instant>,
) -> MutexGuard<'a, T> {
    let Some(until) = until else {
        return work.wait(guard).unwrap_or_else(PoisonError::into_inner);
    };
    let left = until.saturating_duration_since(Instant::now());
    work.wait_timeout(guard, left)
        .unwrap_or_else(PoisonError::into_inner)
        .0
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new(0)
    }
}
