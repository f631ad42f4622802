// SPDX-License-Identifier: GPL-2.0
//! The pages of a mapping of shared virtual memory that the process has unmapped. Memory that is
//! mapped in their place has none of the attributes that were set for them.

use core::ops::Range;
use hw::va::{VaRange, PAGE_SHIFT};
use kernel::{bitmap::BitmapVec, prelude::*};

/// One bit per page; no bits for memory of which pages cannot be unmapped separately.
pub(super) struct GonePages(BitmapVec);

impl GonePages {
    /// Creates the set for this many pages, with none unmapped.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(pages: u64) -> Result<Self> {
        let pages = usize::try_from(pages).map_err(|_| ENOMEM)?;
        Ok(Self(BitmapVec::new(pages, GFP_KERNEL_ACCOUNT)?))
    }

    /// Adds the pages of `range` at the process's addresses `unmapped`. Allocates no memory.
    pub(super) fn add(&mut self, range: VaRange, unmapped: Range<usize>) {
        let unmapped = VaRange::of_process(&unmapped);
        let Some(part) = unmapped.and_then(|unmapped| unmapped.intersection(range)) else {
            return;
        };
        let first = ((part.start() - range.start()) >> PAGE_SHIFT) as usize;
        let end = (first + part.pages() as usize).min(self.0.len());
        (first..end).for_each(|page| self.0.set_bit(page));
    }

    /// Whether a page is unmapped.
    pub(super) fn any(&self) -> bool {
        self.0.last_bit().is_some()
    }

    /// Whether all pages are unmapped; false for memory without bits.
    pub(super) fn is_all(&self) -> bool {
        self.0.len() > 0 && self.0.next_zero_bit(0).is_none()
    }

    /// Returns the first run of pages at or after `from`, and below `count`, that are still mapped.
    pub(super) fn next_mapped(&self, from: usize, count: usize) -> Option<Range<usize>> {
        if from >= count || self.0.len() == 0 {
            return (from < count).then_some(from..count);
        }
        let first = self.0.next_zero_bit(from)?;
        let end = self.0.next_bit(first);
        (first < count).then_some(first..end.map_or(count, |end| end.min(count)))
    }
}
