// SPDX-License-Identifier: GPL-2.0
//! Room in an address range: spans that are taken, and gaps between them.

use core::ops::Range;
use kernel::{prelude::*, rbtree::RBTree};

/// Spans taken out of a range of addresses, first fit. The user locks it.
pub(super) struct Spans {
    range: Range<u64>,
    /// The size of each span by its start.
    taken: RBTree<u64, u64>,
}

impl Spans {
    /// Nothing taken out of `range`.
    pub(super) fn new(range: Range<u64>) -> Self {
        Self {
            range,
            taken: RBTree::new(),
        }
    }

    /// Takes the first free `size` addresses. `EINVAL` for none, `ENOSPC` when no gap is large enough, `ENOMEM`.
    pub(super) fn take(&mut self, size: u64) -> Result<u64> {
        if size == 0 {
            return Err(EINVAL);
        }
        let mut start = self.range.start;
        for (&taken, &length) in &self.taken {
            if taken.saturating_sub(start) >= size {
                break;
            }
            start = taken.saturating_add(length);
        }
        match start.checked_add(size) {
            Some(end) if end <= self.range.end => {
                self.taken.try_create_and_insert(start, size, GFP_KERNEL)?;
                Ok(start)
            }
            _ => Err(ENOSPC),
        }
    }

    /// Gives the span at `start` back.
    pub(super) fn give_back(&mut self, start: u64) {
        self.taken.remove(&start);
    }
}
