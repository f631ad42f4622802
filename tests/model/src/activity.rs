// SPDX-License-Identifier: GPL-2.0
//! How busy the engines are, for who measures that.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What was long ago counts little: after so long, a third of what it did.
const MEMORY: Duration = Duration::from_millis(100);

struct State {
    /// Who is at work.
    workers: u64,
    /// Up to when the rest counts.
    until: Instant,
    /// 0 idle, 1 busy, as a moving average.
    level: f64,
    busy: Duration,
}

/// How much of the time somebody is at work.
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

    /// It has ended.
    pub fn end(&self) {
        let mut state = self.now();
        state.workers = state.workers.saturating_sub(1);
    }

    /// How much of the time there was work lately.
    pub fn percent(&self) -> u16 {
        (self.now().level * 100.0).round() as u16
    }

    /// For how long there was work, ever.
    pub fn busy(&self) -> Duration {
        self.now().busy
    }
}

/// What is measured.
#[derive(Default)]
pub struct Activity {
    /// Waves.
    pub gfx: Meter,
    /// Waves, and packets of SDMA: what reads and writes memory.
    pub memory: Meter,
}

impl Activity {
    /// A group of waves begins.
    pub fn begin_waves(&self) {
        self.gfx.begin();
        self.memory.begin();
    }

    /// It has ended.
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
