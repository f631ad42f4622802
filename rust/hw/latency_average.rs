// SPDX-License-Identifier: GPL-2.0
//! The average time of a hardware operation, so that quanta can be longer where the operation is
//! slow: in a virtual machine a register access may take a thousand times as long as on the bare
//! card.

/// The longest time that is counted in full, microseconds.
const MOST_US: i64 = 1_000_000;
/// A time that is always counted in full, microseconds: without this minimum, an average of zero
/// could never grow, as twice zero is zero.
const LEAST_US: i64 = 1000;

/// A time in microseconds: a mean of the last samples, because one sample alone says little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyAverage(i64);

impl LatencyAverage {
    /// The average before the first sample, which is zero.
    #[inline]
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds a sample of `us` microseconds. A thread that was delayed by something else says little
    /// about the hardware, so a sample counts with at most twice the average.
    #[inline]
    pub fn has_taken(&mut self, us: i64) {
        let most = (2 * self.0).clamp(LEAST_US, MOST_US);
        self.0 = (3 * self.0 + us.clamp(0, most)) / 4;
    }

    /// `times` times the average, in milliseconds.
    #[inline]
    pub fn times_ms(self, times: i64) -> i64 {
        self.0.saturating_mul(times) / 1000
    }
}
