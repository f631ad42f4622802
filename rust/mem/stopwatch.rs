// SPDX-License-Identifier: GPL-2.0
//! A sum of times that is current also while something runs.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::SpinLock,
    time::{Delta, Instant, Monotonic},
};

/// Sums up the time for which something runs; if several run at once, the time counts for each. It
/// has a lock of its own, a spinlock, under which no other lock is taken.
#[pin_data]
pub(crate) struct Stopwatch {
    #[pin]
    state: SpinLock<StopwatchState>,
}

struct StopwatchState {
    /// The sum up to `at`, nanoseconds.
    total: u64,
    /// How many run since then.
    running: u32,
    at: Instant<Monotonic>,
}

impl StopwatchState {
    /// Updates the sum to now.
    fn advance(&mut self) {
        let now = Instant::now();
        let passed = u64::try_from((now - self.at).as_nanos()).unwrap_or(0);
        let more = passed.saturating_mul(self.running.into());
        self.total = self.total.saturating_add(more);
        self.at = now;
    }
}

impl Stopwatch {
    /// Creates a stopwatch at zero, with none running.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state <- new_spinlock!(
                StopwatchState { total: 0, running: 0, at: Instant::now() },
                "Stopwatch::state"
            ),
        })
    }

    /// Counts one more as running. Does not wait.
    pub(crate) fn start(&self) {
        let mut state = self.state.lock();
        state.advance();
        state.running = state.running.saturating_add(1);
    }

    /// Counts one less as running. Does not wait.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.advance();
        state.running = state.running.saturating_sub(1);
    }

    /// Returns the sum; it never decreases. Does not wait.
    pub(crate) fn total(&self) -> Delta {
        let mut state = self.state.lock();
        state.advance();
        Delta::from_nanos(i64::try_from(state.total).unwrap_or(i64::MAX))
    }
}
