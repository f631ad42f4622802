// SPDX-License-Identifier: GPL-2.0
//! Addresses that are taken and given back, by a maple tree.

use core::ops::Range;
use kernel::{
    maple_tree::{AllocErrorKind, MapleTreeAlloc},
    prelude::*,
};

/// A range of addresses of which some are taken, the lowest free ones first. It has a lock of its own, a spinlock.
pub(crate) struct AddressAllocator {
    range: Range<usize>,
    taken: Pin<KBox<MapleTreeAlloc<()>>>,
}

// SAFETY: The tree has a lock of its own, and its entries are nothing that a thread could own.
unsafe impl Send for AddressAllocator {}
// SAFETY: As above.
unsafe impl Sync for AddressAllocator {}

impl AddressAllocator {
    /// Nothing taken out of `range`. `ENOMEM`.
    pub(crate) fn new(range: Range<u64>) -> Result<Self> {
        Ok(Self {
            range: usize::try_from(range.start)?..usize::try_from(range.end)?,
            taken: KBox::pin_init(MapleTreeAlloc::new(), GFP_KERNEL)?,
        })
    }

    /// Takes `size` addresses in a row, the first of which is returned. `EINVAL` for none, `ENOSPC` when no gap is large
    /// enough, `ENOMEM`. Sleeps.
    pub(crate) fn alloc(&self, size: u64) -> Result<u64> {
        let size = usize::try_from(size)?;
        let first = self
            .taken
            .alloc_range(size, (), self.range.clone(), GFP_KERNEL)
            .map_err(|error| match error.cause {
                AllocErrorKind::Busy => ENOSPC,
                cause => cause.into(),
            })?;
        Ok(first as u64)
    }

    /// Takes the `size` addresses from `start` on, inside the range or not. `EEXIST` when any of them is taken, `EINVAL` for
    /// none, `ENOMEM`. Sleeps.
    pub(crate) fn alloc_at(&self, start: u64, size: u64) -> Result {
        let start = usize::try_from(start)?;
        let end = start.checked_add(usize::try_from(size)?).ok_or(EINVAL)?;
        let taken = self.taken.insert_range(start..end, (), GFP_KERNEL);
        taken.map_err(|error| error.cause.into())
    }

    /// Gives back the addresses that were taken from `start` on.
    pub(crate) fn free(&self, start: u64) {
        self.taken.erase(start as usize);
    }
}
