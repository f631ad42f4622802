// SPDX-License-Identifier: GPL-2.0
//! Load of the engines, for readers that measure it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time constant of the average: after so long, the past counts for a third.
const MEMORY: Duration = Duration::from_millis(100);

struct State {
    /// Number of active workers.
    workers: u64,
    /// Time up to which the rest has been accounted.
    until: Instant,
    /// 0 idle, 1 busy, as a moving average.
    level: f64,
    busy: Duration,
}

/// The part of the time with at least one active worker.
pub struct Meter(Mutex<State>);

impl Default for Meter {
    fn default() -> Self {
        Meter(Mutex::new(State {
            workers: 0,
            until: Instant::now(),
            level: 0.0,
            busy: Duration::ZERO,
        }))
    }
}

impl Meter {
    /// The state, as it is now.
    fn now(&self) -> MutexGuard<'_, State> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let passed = now.saturating_duration_since(state.until);
        let target = if state.workers > 0 { 1.0 } else { 0.0 };
        let left = (-passed.as_secs_f64() / MEMORY.as_secs_f64()).exp();
        state.level = target + (state.level - target) * left;
        if state.workers > 0 {
            state.busy += passed;
        }
        state.until = now;
        state
    }

    /// Work begins.
    pub fn begin(&self) {
        self.now().workers += 1;
    }

    /// Work ends.
    pub fn end(&self) {
        let mut state = self.now();
        state.workers = state.workers.saturating_sub(1);
    }

    /// The load of the recent past, in percent.
    pub fn percent(&self) -> u16 {
        (self.now().level * 100.0).round() as u16
    }

    /// Percent in each millisecond, added up: the SMU's count, in an undocumented unit.
    pub fn count(&self) -> u64 {
        (self.busy().as_micros() / 10) as u64
    }

    /// The total time with work.
    pub fn busy(&self) -> Duration {
        self.now().busy
    }
}

/// The measured loads.
#[derive(Default)]
pub struct Activity {
    /// Waves.
    pub gfx: Meter,
    /// Waves, and packets of SDMA: the users of memory.
    pub memory: Meter,
}

impl Activity {
    /// A group of waves begins.
    pub fn begin_waves(&self) {
        self.gfx.begin();
        self.memory.begin();
    }

    /// A group of waves ends.
    pub fn end_waves(&self) {
        self.gfx.end();
        self.memory.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_and_falls() {
        let meter = Meter::default();
        assert_eq!(meter.percent(), 0);
        meter.begin();
        meter.begin();
        std::thread::sleep(7 * MEMORY);
        assert!(meter.percent() >= 99);
        meter.end();
        assert!(meter.percent() >= 99, "the other is at work");
        meter.end();
        let busy = meter.busy();
        assert!(busy >= 7 * MEMORY);
        std::thread::sleep(7 * MEMORY);
        assert!(meter.percent() <= 1);
        assert_eq!(meter.busy(), busy);
    }
}
