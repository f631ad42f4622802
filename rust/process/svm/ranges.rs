// SPDX-License-Identifier: GPL-2.0
//! What a process said of which range, in a tree of the kernel's.

use hw::svm::{AttributeMap, Attributes, Ranges};
use hw::va::VaRange;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNodeReservation};

/// Ranges by their last address. Each change finds the nodes that it needs made before.
pub(super) struct Tree {
    by_last: RBTree<u64, (VaRange, Attributes)>,
    spare: KVec<RBTreeNodeReservation<u64, (VaRange, Attributes)>>,
}

impl Tree {
    /// Nothing.
    pub(super) fn new() -> Self {
        Self {
            by_last: RBTree::new(),
            spare: KVec::new(),
        }
    }
}

impl Ranges for Tree {
    fn ending_after(&self, address: u64) -> Option<(VaRange, Attributes)> {
        let cursor = self.by_last.cursor_lower_bound(&address)?;
        Some(*cursor.current().1)
    }

    fn insert(&mut self, range: VaRange, attributes: Attributes) {
        // There is one: see `make_room`.
        if let Some(node) = self.spare.pop() {
            let node = node.into_node(range.end() - 1, (range, attributes));
            self.by_last.insert(node);
        }
    }

    fn remove(&mut self, range: VaRange) {
        if let Some(node) = self.by_last.remove_node(&(range.end() - 1)) {
            // There is room: see `make_room`.
            let _ = self.spare.push_within_capacity(node.into_reservation());
        }
    }
}

/// Sees to it that `range` of `map` can be set or forgotten. ENOMEM.
pub(super) fn make_room(map: &mut AttributeMap<Tree>, range: VaRange) -> Result {
    let nodes = map.room(range);
    let spare = &mut map.ranges().spare;
    spare.clear();
    // As many may be taken out as are put in.
    spare.reserve(2 * nodes, GFP_KERNEL_ACCOUNT)?;
    for _ in 0..nodes {
        spare.push(RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?, GFP_KERNEL)?;
    }
    Ok(())
}
