// SPDX-License-Identifier: GPL-2.0
//! Whose turn it is with VRAM, when processes together want more than there is.
//!
//! Two kinds wait: processes that are away and have something to do, and allocations for which there is no room. An allocation goes
//! first for as long as the other one's turn lasts; from then on who waits longer does. So whoever waits is overtaken by those that
//! began before that, and by nobody twice, however often somebody allocates and frees.

/// How long a process may run, at least, before it yields to one that waits, milliseconds.
pub const TURN_MS: i64 = 250;

/// How long the turn of a process lasts that it took `took` milliseconds to bring home: it runs longer than it is moved.
#[inline]
pub const fn turn_ms(took: i64) -> i64 {
    let twice = took.saturating_mul(2);
    if twice > TURN_MS {
        twice
    } else {
        TURN_MS
    }
}

/// Who waits, for how many milliseconds so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VramWait {
    /// A process that is away and has something to do. It took `took` milliseconds to bring it home the last time.
    Home {
        /// So long it is away.
        away: i64,
        /// So long that took.
        took: i64,
    },
    /// An allocation.
    Room {
        /// So long it looks for room.
        asked: i64,
    },
}

impl VramWait {
    /// For how long it is to be served: who has the most goes first. Not yet if that is less than nothing.
    #[inline]
    pub const fn due(self) -> i64 {
        match self {
            Self::Home { away, took } => away.saturating_sub(turn_ms(took)),
            Self::Room { asked } => asked,
        }
    }

    /// Whether it goes before `other`, which is of the other kind. Of two that are due for the same time the allocation does.
    #[inline]
    pub const fn precedes(self, other: Self) -> bool {
        match self {
            Self::Home { .. } => self.due() > other.due(),
            Self::Room { .. } => self.due() >= other.due(),
        }
    }
}
