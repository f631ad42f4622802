// SPDX-License-Identifier: GPL-2.0
//! What a process has unmapped of its memory since somebody last looked: what was said of it is no longer true.

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
    /// Nothing. ENOMEM.
    pub(super) fn new() -> Result<impl PinInit<Self>> {
        let list = SmallRangeList::new()?;
        Ok(pin_init!(Self {
            list <- kernel::new_mutex!(list, "Svm::unmapped"),
        }))
    }

    /// Takes what there is, and adds it to `all`. Where there was no room for it, that is what has no memory of `space`'s now:
    /// what has come in the place of other memory meanwhile is taken for that. ENOMEM, and see [`user_range::with_lock_soon`]:
    /// nothing is lost.
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
            // They are found again.
            all.truncate(before);
            self.list.lock().add_together(hull);
        })
    }
}

/// Adds to `all` what of `hull` has no memory of `space`'s. Errors as [`UnmappedRanges::drain`].
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

/// Hears of all memory that a process unmaps.
pub(super) struct UnmapListener(pub(super) Arc<Svm>);

impl RangeWatcher for UnmapListener {
    fn invalidate(&self, change: &RangeChange) {
        let unmapped = change.unmapped();
        let Some(range) = unmapped.and_then(|unmapped| VaRange::of_process(&unmapped)) else {
            return;
        };
        self.0.unmapped.list.lock().add(range);
        self.0.changed.store(true, Release);
        // If nobody looks before.
        self.0.catch_up_in(0);
    }

    const ALL_CHANGES: bool = false;
}
