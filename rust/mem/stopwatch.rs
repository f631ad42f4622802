// SPDX-License-Identifier: GPL-2.0
//! For how long something has gone on, known also while it does.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::SpinLock,
    time::{Delta, Instant, Monotonic},
};

/// Sums up the time for which something goes on; what goes on several times at once counts as often. It has a lock of its
/// own, a spinlock, under which nothing else is taken.
#[pin_data]
pub(crate) struct Stopwatch {
    #[pin]
    state: SpinLock<StopwatchState>,
}

struct StopwatchState {
    /// Up to `at`, nanoseconds.
    total: u64,
    /// How often it goes on since then.
    running: u32,
    at: Instant<Monotonic>,
}

impl StopwatchState {
    /// Brings the sum up to now.
    fn advance(&mut self) {
        let now = Instant::now();
        let passed = u64::try_from((now - self.at).as_nanos()).unwrap_or(0);
        let more = passed.saturating_mul(self.running.into());
        self.total = self.total.saturating_add(more);
        self.at = now;
    }
}

impl Stopwatch {
    /// Nothing has gone on so far.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state <- new_spinlock!(
                StopwatchState { total: 0, running: 0, at: Instant::now() },
                "Stopwatch::state"
            ),
        })
    }

    /// It goes on, or does so once more. Waits for nothing.
    pub(crate) fn start(&self) {
        let mut state = self.state.lock();
        state.advance();
        state.running = state.running.saturating_add(1);
    }

    /// It goes on once less. Waits for nothing.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.advance();
        state.running = state.running.saturating_sub(1);
    }

    /// For how long it has gone on; never less than before. Waits for nothing.
    pub(crate) fn total(&self) -> Delta {
        let mut state = self.state.lock();
        state.advance();
        Delta::from_nanos(i64::try_from(state.total).unwrap_or(i64::MAX))
    }
}
