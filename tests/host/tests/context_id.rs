// SPDX-License-Identifier: GPL-2.0
//! Secondary processes of an address space have the lowest free number.

use std::collections::BTreeSet;

use hw::context_id::ContextId;
use proptest::prelude::*;

proptest! {
    /// Processes come and go in any order, beside the primary one.
    #[test]
    fn lowest_free(steps in prop::collection::vec(prop::option::of(0usize..40), 0..200)) {
        let mut there = BTreeSet::from([ContextId::PRIMARY]);
        for step in steps {
            match step {
                None => {
                    let free = ContextId::free(there.iter().copied());
                    let expected = (0..ContextId::MOST)
                        .find(|number| there.iter().all(|id| id.get() != *number));
                    prop_assert_eq!(free.map(ContextId::get), expected);
                    there.extend(free);
                }
                Some(index) => {
                    let gone = there.iter().nth(index).copied();
                    if let Some(gone) = gone.filter(|id| *id != ContextId::PRIMARY) {
                        there.remove(&gone);
                    }
                }
            }
        }
    }
}

/// The primary process comes last, so that what ends them in their order ends it last.
#[test]
fn primary_is_last() {
    let mut there = vec![ContextId::PRIMARY];
    while let Some(id) = ContextId::free(there.iter().copied()) {
        assert!(id < ContextId::PRIMARY);
        there.insert(there.len() - 1, id);
    }
    assert_eq!(there.len(), usize::from(ContextId::MOST) + 1);
}
