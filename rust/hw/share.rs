// SPDX-License-Identifier: GPL-2.0
//! How much of something that all want one of them may take, so that there is some left for each of the others.

/// A number of things, of which a part is kept for those who have few.
///
/// Of what is beyond that part everybody takes as much as there is. Of the part itself takes only who then has no more than
/// its least: each of so many parties gets that, whatever the others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairShare {
    all: u64,
    kept: u64,
    least: u64,
}

impl FairShare {
    /// Of `all` things, `kept` (or all, if that is less) for `parties`: each has at least its part of them.
    #[inline]
    pub const fn new(all: u64, kept: u64, parties: u64) -> Self {
        let kept = if kept < all { kept } else { all };
        let least = if parties == 0 { 0 } else { kept / parties };
        Self { all, kept, least }
    }

    /// All that there is.
    #[inline]
    pub const fn all(&self) -> u64 {
        self.all
    }

    /// The most that may be taken by one who has `own`, while all together have taken `taken`, its own included.
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

    /// Whether one who has `own` may take `more`; the rest as [`FairShare::most`].
    #[inline]
    pub const fn allows(&self, taken: u64, own: u64, more: u64) -> bool {
        more <= self.most(taken, own)
    }
}
