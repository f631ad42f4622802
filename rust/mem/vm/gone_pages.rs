// SPDX-License-Identifier: GPL-2.0
//! Which pages of a mapping of shared virtual memory the process has unmapped: what comes in their place has none of what
//! was said of them.

use core::ops::Range;
use hw::va::{VaRange, PAGE_SHIFT};
use kernel::{bitmap::BitmapVec, prelude::*};

/// One bit a page; of memory of which nothing can go, none.
pub(super) struct GonePages(BitmapVec);

impl GonePages {
    /// Nothing is gone of so many pages. ENOMEM.
    pub(super) fn new(pages: u64) -> Result<Self> {
        let pages = usize::try_from(pages).map_err(|_| ENOMEM)?;
        Ok(Self(BitmapVec::new(pages, GFP_KERNEL_ACCOUNT)?))
    }

    /// The pages of `range` at the process's addresses `unmapped` go too. Allocates nothing.
    pub(super) fn add(&mut self, range: VaRange, unmapped: Range<usize>) {
        let unmapped = VaRange::of_process(&unmapped);
        let Some(part) = unmapped.and_then(|unmapped| unmapped.intersection(range)) else {
            return;
        };
        let first = ((part.start() - range.start()) >> PAGE_SHIFT) as usize;
        let end = (first + part.pages() as usize).min(self.0.len());
        (first..end).for_each(|page| self.0.set_bit(page));
    }

    /// Whether one is gone.
    pub(super) fn any(&self) -> bool {
        self.0.last_bit().is_some()
    }

    /// Whether all is gone, of memory of which something can.
    pub(super) fn is_all(&self) -> bool {
        self.0.len() > 0 && self.0.next_zero_bit(0).is_none()
    }

    /// The first run of pages at or after `from`, and below `count`, that are still there.
    pub(super) fn next_left(&self, from: usize, count: usize) -> Option<Range<usize>> {
        if from >= count || self.0.len() == 0 {
            return (from < count).then_some(from..count);
        }
        let first = self.0.next_zero_bit(from)?;
        let end = self.0.next_bit(first);
        (first < count).then_some(first..end.map_or(count, |end| end.min(count)))
    }
}
