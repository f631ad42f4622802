// SPDX-License-Identifier: GPL-2.0
//! A list of ranges that keeps only a few of them apart.

use hw::va::VaRange;
use kernel::prelude::*;

/// The number of ranges that are kept apart.
pub(super) const MOST: usize = 64;

/// The list. It allocates nothing after its creation.
pub(super) struct SmallRangeList {
    apart: KVec<VaRange>,
    /// From the first to the last of the ranges for which there was no room.
    together: Option<VaRange>,
}

impl SmallRangeList {
    /// An empty list with room for [`MOST`] ranges.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            apart: KVec::with_capacity(MOST, GFP_KERNEL_ACCOUNT)?,
            together: None,
        })
    }

    /// Adds `range`, to the last one if there is nothing between them.
    pub(super) fn add(&mut self, range: VaRange) {
        let last = self.apart.last_mut().map(|last| (last.hull(range), last));
        if let Some((joined, last)) = last {
            if joined.size() <= last.size() + range.size() {
                *last = joined;
                return;
            }
        }
        if self.apart.push_within_capacity(range).is_err() {
            self.add_together(range);
        }
    }

    /// Adds `range` to those that are not kept apart.
    pub(super) fn add_together(&mut self, range: VaRange) {
        self.together = Some(self.together.map_or(range, |hull| hull.hull(range)));
    }

    /// The ranges that are kept apart.
    pub(super) fn apart(&self) -> &[VaRange] {
        &self.apart
    }

    /// The range that contains the others.
    pub(super) fn together(&self) -> Option<VaRange> {
        self.together
    }

    /// The next range to remove.
    pub(super) fn last(&self) -> Option<VaRange> {
        self.apart.last().copied().or(self.together)
    }

    /// Removes [`SmallRangeList::last`].
    pub(super) fn pop(&mut self) {
        if self.apart.pop().is_none() {
            self.together = None;
        }
    }

    /// Removes all ranges.
    pub(super) fn clear(&mut self) {
        self.apart.clear();
        self.together = None;
    }
}
