// SPDX-License-Identifier: GPL-2.0
//! Which pages of a mapping of shared virtual memory the process has unmapped: what comes in their place has none of what
//! was said of them.

use core::ops::Range;
use hw::va::{VaRange, LARGE_PAGE_SIZE, PAGE_SHIFT, PAGE_SIZE};

/// The pages of the largest such mapping.
const PAGES: usize = (LARGE_PAGE_SIZE / PAGE_SIZE) as usize;

/// One bit a page.
#[derive(Clone, Copy, Default)]
pub(super) struct Gone([u64; PAGES / 64]);

impl Gone {
    /// The pages of `range` at the process's addresses `unmapped` go too.
    pub(super) fn add(&mut self, range: VaRange, unmapped: Range<usize>) {
        let unmapped = VaRange::of_process(&unmapped);
        let Some(part) = unmapped.and_then(|unmapped| unmapped.intersection(range)) else {
            return;
        };
        let first = (part.start() - range.start()) >> PAGE_SHIFT;
        for page in first..first + part.pages() {
            if let Some(word) = self.0.get_mut(page as usize / 64) {
                *word |= 1 << (page % 64);
            }
        }
    }

    fn has(&self, page: usize) -> bool {
        self.0
            .get(page / 64)
            .is_some_and(|word| word >> (page % 64) & 1 != 0)
    }

    /// Whether one is gone.
    pub(super) fn any(&self) -> bool {
        self.0.iter().any(|word| *word != 0)
    }

    /// Whether all of `range` is gone.
    pub(super) fn is_all(&self, range: VaRange) -> bool {
        self.next_left(0, range.pages() as usize).is_none()
    }

    /// The first run of pages at or after `from`, and below `count`, that are still there.
    pub(super) fn next_left(&self, from: usize, count: usize) -> Option<Range<usize>> {
        if !self.any() {
            return (from < count).then_some(from..count);
        }
        let first = (from..count).find(|&page| !self.has(page))?;
        let end = (first..count).find(|&page| self.has(page));
        Some(first..end.unwrap_or(count))
    }
}
