// SPDX-License-Identifier: GPL-2.0
//! The ranges of a process with attributes, in a red-black tree of the kernel.

use hw::svm::{AttributeMap, RangeStore, SvmAttributes};
use hw::va::VaRange;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNodeReservation};

/// The most ranges of a process. It limits the time that a pass over them takes, with the process's
/// lock held, and their memory, 96 bytes each.
const MOST: usize = 1 << 18;

/// Ranges by their last address. The nodes that a change needs are allocated before it. As long as
/// there is any node, there is room for a removed one, so that two ranges can always be merged.
pub(super) struct RangeTree {
    by_last: RBTree<u64, (VaRange, SvmAttributes)>,
    count: usize,
    spare: KVVec<RBTreeNodeReservation<u64, (VaRange, SvmAttributes)>>,
}

impl RangeTree {
    /// An empty tree.
    pub(super) fn new() -> Self {
        Self {
            by_last: RBTree::new(),
            count: 0,
            spare: KVVec::new(),
        }
    }

    /// Ensures that `more` ranges can be inserted beyond those that are removed.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    fn reserve(&mut self, more: usize) -> Result {
        self.spare.clear();
        // The first node that is removed comes back before any is inserted.
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
        // There is a node: see `reserve`.
        if let Some(node) = self.spare.pop() {
            let node = node.into_node(range.end() - 1, (range, attributes));
            self.by_last.insert(node);
            self.count += 1;
        }
    }

    fn remove(&mut self, range: VaRange) {
        if let Some(node) = self.by_last.remove_node(&(range.end() - 1)) {
            self.count -= 1;
            // If there is no room, there are enough nodes.
            let _ = self.spare.push_within_capacity(node.into_reservation());
        }
    }

    fn change_all(&mut self, change: impl Fn(SvmAttributes) -> SvmAttributes) {
        for (_, attributes) in self.by_last.values_mut() {
            *attributes = change(*attributes);
        }
    }
}

/// Ensures that `range` of `map` can be set.
///
/// # Errors
///
/// `ENOMEM` if there is no memory, or if there would be more than [`MOST`] ranges.
pub(super) fn make_room_to_set(map: &mut AttributeMap<RangeTree>, range: VaRange) -> Result {
    let more = map.room(range);
    let tree = map.ranges();
    if more > MOST.saturating_sub(tree.count) {
        return Err(ENOMEM);
    }
    tree.reserve(more)
}

/// Ensures that the attributes of `range` of `map`, which the process has unmapped, can be removed.
/// Returns the range to remove, which is larger if there would otherwise be more than [`MOST`]
/// ranges.
///
/// # Errors
///
/// `ENOMEM` if there is no memory.
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
