// SPDX-License-Identifier: GPL-2.0
//! An address allocator on top of a maple tree.

use core::ops::Range;
use kernel::{
    maple_tree::{AllocErrorKind, MapleTreeAlloc},
    prelude::*,
};

/// Allocates address ranges out of one range, lowest free addresses first. Has a lock of its own, a
/// spinlock.
pub(crate) struct AddressAllocator {
    range: Range<usize>,
    taken: Pin<KBox<MapleTreeAlloc<()>>>,
}

// SAFETY: The tree has a lock of its own, and its entries are `()`, which no thread owns.
unsafe impl Send for AddressAllocator {}
// SAFETY: As above.
unsafe impl Sync for AddressAllocator {}

impl AddressAllocator {
    /// An allocator over `range` with all addresses free.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(range: Range<u64>) -> Result<Self> {
        Ok(Self {
            range: usize::try_from(range.start)?..usize::try_from(range.end)?,
            taken: KBox::pin_init(MapleTreeAlloc::new(), GFP_KERNEL)?,
        })
    }

    /// Allocates `size` consecutive addresses and returns the first. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `size` is 0; `ENOSPC` if no gap is large enough; `ENOMEM` if there is no memory.
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

    /// Allocates the `size` addresses from `start` on, inside the range or not. May sleep.
    ///
    /// # Errors
    ///
    /// `EEXIST` if any of them is in use; `EINVAL` if `size` is 0; `ENOMEM` if there is no memory.
    pub(crate) fn alloc_at(&self, start: u64, size: u64) -> Result {
        let start = usize::try_from(start)?;
        let end = start.checked_add(usize::try_from(size)?).ok_or(EINVAL)?;
        let taken = self.taken.insert_range(start..end, (), GFP_KERNEL);
        taken.map_err(|error| error.cause.into())
    }

    /// Frees the addresses that were allocated from `start` on.
    pub(crate) fn free(&self, start: u64) {
        self.taken.erase(start as usize);
    }
}
