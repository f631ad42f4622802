// SPDX-License-Identifier: GPL-2.0
//! What a process said of which range, in a tree of the kernel's.

use hw::svm::{AttributeMap, RangeStore, SvmAttributes};
use hw::va::VaRange;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNodeReservation};

/// The most ranges of a process: what it takes to go through them, with its lock held, and 96 bytes each.
const MOST: usize = 1 << 18;

/// Ranges by their last address. Each change finds the nodes that it needs made before. As long as there is any there is room for one
/// that was taken out, so that two can be made one at any time.
pub(super) struct RangeTree {
    by_last: RBTree<u64, (VaRange, SvmAttributes)>,
    count: usize,
    spare: KVVec<RBTreeNodeReservation<u64, (VaRange, SvmAttributes)>>,
}

impl RangeTree {
    /// Nothing.
    pub(super) fn new() -> Self {
        Self {
            by_last: RBTree::new(),
            count: 0,
            spare: KVVec::new(),
        }
    }

    /// Sees to it that so many `more` can be inserted than are removed. ENOMEM.
    fn reserve(&mut self, more: usize) -> Result {
        self.spare.clear();
        // The first one that is removed comes back before any is inserted.
        self.spare.reserve(more + 1, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..more {
            let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
            self.spare.push(node, GFP_KERNEL)?;
        }
        Ok(())
    }
}

impl RangeStore for RangeTree {
    fn ending_after(&self, address: u64) -> Option<(VaRange, SvmAttributes)> {
        let cursor = self.by_last.cursor_lower_bound(&address)?;
        Some(*cursor.current().1)
    }

    fn insert(&mut self, range: VaRange, attributes: SvmAttributes) {
        // There is one: see `reserve`.
        if let Some(node) = self.spare.pop() {
            let node = node.into_node(range.end() - 1, (range, attributes));
            self.by_last.insert(node);
            self.count += 1;
        }
    }

    fn remove(&mut self, range: VaRange) {
        if let Some(node) = self.by_last.remove_node(&(range.end() - 1)) {
            self.count -= 1;
            // Without room there are enough.
            let _ = self.spare.push_within_capacity(node.into_reservation());
        }
    }

    fn change_all(&mut self, change: impl Fn(SvmAttributes) -> SvmAttributes) {
        for (_, attributes) in self.by_last.values_mut() {
            *attributes = change(*attributes);
        }
    }
}

/// Sees to it that `range` of `map` can be set. ENOMEM, also when there would be more than [`MOST`] ranges.
pub(super) fn make_room_to_set(map: &mut AttributeMap<RangeTree>, range: VaRange) -> Result {
    let more = map.room(range);
    let tree = map.ranges();
    if more > MOST.saturating_sub(tree.count) {
        return Err(ENOMEM);
    }
    tree.reserve(more)
}

/// Sees to it that what the process has unmapped, `range` of `map`, can be forgotten: what is to be, which is more where there would be more
/// than [`MOST`] ranges. ENOMEM.
pub(super) fn make_room_to_forget(
    map: &mut AttributeMap<RangeTree>,
    range: VaRange,
) -> Result<VaRange> {
    map.ranges().reserve(1)?;
    if map.ranges().count < MOST {
        return Ok(range);
    }
    Ok(map.with_smaller_rest(range))
}
