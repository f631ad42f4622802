// SPDX-License-Identifier: GPL-2.0
//! The ranges that a process has unmapped from its memory since the last check. Their attributes
//! are no longer valid.

use hw::va::VaRange;
use kernel::prelude::*;
use kernel::sync::atomic::Release;
use kernel::sync::{Arc, Mutex};

use super::small_range_list::{SmallRangeList, MOST};
use super::Svm;
use crate::kern::mm_exit::AddressSpace;
use crate::kern::user_range::{self, RangeChange, RangeWatcher};

/// The list. Its lock is taken in the MMU notifier: nothing is allocated under it.
#[pin_data]
pub(super) struct UnmappedRanges {
    #[pin]
    list: Mutex<SmallRangeList>,
}

impl UnmappedRanges {
    /// An empty list.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new() -> Result<impl PinInit<Self>> {
        let list = SmallRangeList::new()?;
        Ok(pin_init!(Self {
            list <- kernel::new_mutex!(list, "UnmappedRanges::list"),
        }))
    }

    /// Moves the unmapped ranges to `all`. Ranges for which there was no room are replaced by the
    /// addresses between them that have no memory of `space` now. New memory that has taken the
    /// place of unmapped memory there is mistaken for the old memory. After an error, no range is
    /// lost.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; those of [`user_range::with_lock_soon`].
    pub(super) fn drain(&self, space: &AddressSpace, all: &mut KVVec<VaRange>) -> Result {
        let fresh = SmallRangeList::new()?;
        all.reserve(MOST, GFP_KERNEL_ACCOUNT)?;
        let taken = core::mem::replace(&mut *self.list.lock(), fresh);
        for range in taken.apart() {
            all.push(*range, GFP_KERNEL_ACCOUNT)?;
        }
        let Some(hull) = taken.together() else {
            return Ok(());
        };
        let before = all.len();
        add_holes(space, hull, all).inspect_err(|_| {
            // The next call finds them again.
            all.truncate(before);
            self.list.lock().add_together(hull);
        })
    }
}

/// Adds to `all` the parts of `hull` that have no memory of `space`.
///
/// # Errors
///
/// Those of [`UnmappedRanges::drain`].
fn add_holes(space: &AddressSpace, hull: VaRange, all: &mut KVVec<VaRange>) -> Result {
    let mut at = hull.start();
    while let Some(hole) = user_range::first_hole(space, at as usize, hull.end() as usize)? {
        at = hole.end as u64;
        if let Some(hole) = VaRange::between(hole.start as u64, at) {
            all.push(hole, GFP_KERNEL_ACCOUNT)?;
        }
    }
    Ok(())
}

/// A watcher of all memory that a process unmaps.
pub(super) struct UnmapListener(pub(super) Arc<Svm>);

impl RangeWatcher for UnmapListener {
    fn invalidate(&self, change: &RangeChange) {
        let unmapped = change.unmapped();
        let Some(range) = unmapped.and_then(|unmapped| VaRange::of_process(&unmapped)) else {
            return;
        };
        self.0.unmapped.list.lock().add(range);
        self.0.changed.store(true, Release);
        // In case no operation checks the list before.
        self.0.schedule_cleanup(0);
    }

    const ALL_CHANGES: bool = false;
}
