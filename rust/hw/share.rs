// SPDX-License-Identifier: GPL-2.0
//! Limits on how much of a shared resource each of many users may take, so that some is left for
//! the others.

/// A number of things, a part of which is reserved for users that have few.
///
/// Anything beyond the reserved part is free for every user. From the reserved part a user may take
/// only as long as it then has no more than its least share. Each of a number of parties is sure of
/// that share, whatever the others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairShare {
    all: u64,
    kept: u64,
    least: u64,
}

impl FairShare {
    /// Of `all` things, `kept` (or all, if that is less) are reserved for `parties`, each of which
    /// has at least its part of them.
    #[inline]
    pub const fn new(all: u64, kept: u64, parties: u64) -> Self {
        let kept = if kept < all { kept } else { all };
        let least = if parties == 0 { 0 } else { kept / parties };
        Self { all, kept, least }
    }

    /// Number of all things.
    #[inline]
    pub const fn all(&self) -> u64 {
        self.all
    }

    /// The most that a user which has `own` may take, while all users together have taken `taken`,
    /// `own` included.
    #[inline]
    pub const fn most(&self, taken: u64, own: u64) -> u64 {
        let left = self.all.saturating_sub(taken);
        let common = left.saturating_sub(self.kept);
        let few = self.least.saturating_sub(own);
        let few = if few < left { few } else { left };
        if common > few {
            common
        } else {
            few
        }
    }

    /// Whether a user that has `own` may take `more`; the rest as [`FairShare::most`].
    #[inline]
    pub const fn allows(&self, taken: u64, own: u64, more: u64) -> bool {
        more <= self.most(taken, own)
    }
}
