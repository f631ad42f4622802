// SPDX-License-Identifier: GPL-2.0
//! How long a thing of the hardware's usually takes, so that turns can be made longer where it takes long: in a virtual machine an access
//! to a register may take a thousand times as long as on the card's own.

/// The longest time that is believed, microseconds.
const MOST_US: i64 = 1_000_000;
/// What is always believed, microseconds: less than twice nothing could never become more.
const LEAST_US: i64 = 1000;

/// A time in microseconds: a mean of the last ones, of which one alone tells little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyAverage(i64);

impl LatencyAverage {
    /// Not known yet, which is nothing.
    #[inline]
    pub const fn new() -> Self {
        Self(0)
    }

    /// It has taken `us` microseconds. Who was kept from it by something else tells little of the hardware: not more than twice
    /// as long as usual is believed.
    #[inline]
    pub fn has_taken(&mut self, us: i64) {
        let most = (2 * self.0).clamp(LEAST_US, MOST_US);
        self.0 = (3 * self.0 + us.clamp(0, most)) / 4;
    }

    /// So many times as long, in milliseconds.
    #[inline]
    pub fn times_ms(self, times: i64) -> i64 {
        self.0.saturating_mul(times) / 1000
    }
}
