// SPDX-License-Identifier: GPL-2.0
//! The order of users of VRAM, when processes together want more than there is.
//!
//! There are two kinds of waiters: evicted processes that have work to do, and allocations for
//! which there is no room. A new allocation has priority over an evicted process for one time slice
//! of that process. After that, the longest waiter wins. So a waiter is overtaken only by waiters
//! that began before that, and by none of them twice, however often a process allocates and frees.

/// Minimum time slice of a process before it yields to a waiter, milliseconds.
pub const TURN_MS: i64 = 250;

/// The time slice of a process that took `took` milliseconds to restore: it runs longer than it is
/// moved.
#[inline]
pub const fn turn_ms(took: i64) -> i64 {
    let twice = took.saturating_mul(2);
    if twice > TURN_MS {
        twice
    } else {
        TURN_MS
    }
}

/// A waiter, with its waiting time so far in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VramWait {
    /// An evicted process that has work to do.
    Home {
        /// Time since its eviction.
        away: i64,
        /// Time that its last restore took.
        took: i64,
    },
    /// An allocation.
    Room {
        /// Time for which it has been looking for room.
        asked: i64,
    },
}

impl VramWait {
    /// How long it has been due, milliseconds: the waiter with the largest value is served first.
    /// It is not due yet if this is negative.
    #[inline]
    pub const fn due(self) -> i64 {
        match self {
            Self::Home { away, took } => away.saturating_sub(turn_ms(took)),
            Self::Room { asked } => asked,
        }
    }

    /// Whether it is served before `other`, which is of the other kind. If both have been due for
    /// the same time, the allocation is.
    #[inline]
    pub const fn precedes(self, other: Self) -> bool {
        match self {
            Self::Home { .. } => self.due() > other.due(),
            Self::Room { .. } => self.due() >= other.due(),
        }
    }
}
