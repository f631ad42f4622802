// SPDX-License-Identifier: GPL-2.0
//! Whether the buffers of an address space are in VRAM, and for how long.

use super::AGAIN_MS;
use hw::vram_fairness::{turn_ms, VramWait};
use kernel::time::{Instant, Monotonic};

/// The most times that the delay doubles until importers are asked again for what they did not give
/// back.
const REFUSALS: u32 = 5;

/// Whether an address space is in VRAM, and since when.
#[derive(Clone, Copy)]
pub(super) struct Residency {
    /// Something of it is, or may be, in system memory, and its queues are evicted.
    pub(super) away: bool,
    /// The time of the last change.
    pub(super) since: Instant<Monotonic>,
    /// The duration of its last move in, milliseconds.
    took: i64,
    /// Something could not move in, because others have work on it.
    pub(super) refused: bool,
    /// In how many moves in a row that was so.
    refusals: u32,
}

impl Residency {
    /// All of it is in VRAM.
    pub(super) fn new() -> Self {
        Self {
            away: false,
            since: Instant::now(),
            took: 0,
            refused: false,
            refusals: 0,
        }
    }

    /// Milliseconds since the last change.
    pub(super) fn age_ms(&self) -> i64 {
        self.since.elapsed().as_millis()
    }

    /// Milliseconds for which it may not be asked to yield yet; not more than 0 if it may.
    pub(super) fn left_ms(&self, age_ms: i64) -> i64 {
        turn_ms(self.took) - age_ms
    }

    /// Makes it the last of those that wait.
    pub(super) fn requeue(&mut self) {
        self.since = Instant::now();
    }

    /// It is away from now on.
    pub(super) fn moved_out(&mut self) {
        self.away = true;
        self.since = Instant::now();
    }

    /// Records that all of it is in VRAM from now on, after a restore of `took` milliseconds.
    /// Returns whether a buffer was refused.
    pub(super) fn moved_in(&mut self, took: i64) -> bool {
        self.away = false;
        self.since = Instant::now();
        self.took = took;
        self.refusals = match self.refused {
            true => REFUSALS.min(self.refusals + 1),
            false => 0,
        };
        self.refused
    }

    /// Whether it may move out for buffers that can move in: not in its time slice, nor soon after
    /// importers did not give something back, each time less soon.
    pub(super) fn may_be_evicted(&self) -> bool {
        let age = self.age_ms();
        self.left_ms(age) <= 0 && (self.refusals == 0 || age >= AGAIN_MS << self.refusals)
    }

    /// Its wait, if it is away.
    pub(super) fn wait(&self) -> Option<VramWait> {
        self.away.then(|| VramWait::Home {
            away: self.age_ms(),
            took: self.took,
        })
    }
}
