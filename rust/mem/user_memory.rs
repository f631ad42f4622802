// SPDX-License-Identifier: GPL-2.0
//! User memory (USERPTR) that the GPU uses. Nothing holds its pages: who maps it watches it.

use crate::kern::{mm_exit::AddressSpace, user_range};
use hw::va::{VaRange, PAGE_SIZE};
use kernel::prelude::*;

/// A range of a process's memory.
#[derive(Clone)]
pub(crate) struct UserMemory {
    space: AddressSpace,
    start: usize,
    size: usize,
    shared: bool,
    always: bool,
}

impl UserMemory {
    /// The `size` bytes at `start` of the calling process, to be written if `write` is asked. `EINVAL` when they are
    /// not whole pages, `EFAULT` when not all of it is memory that the process may use that way. See [`user_range::with_lock_soon`].
    pub(super) fn new(start: u64, size: usize, write: bool) -> Result<Self> {
        if start % PAGE_SIZE != 0 {
            return Err(EINVAL);
        }
        let start = usize::try_from(start).map_err(|_| EFAULT)?;
        let space = AddressSpace::current()?;
        if !user_range::is_memory(&space, start, size, write)? {
            return Err(EFAULT);
        }
        Ok(Self {
            space,
            start,
            size,
            shared: false,
            always: true,
        })
    }

    /// What the process of `space` has in `range`, which it shares with the GPU: whatever that is. The GPU is to find it there `always`, also if it
    /// retries page faults. `EFAULT`.
    pub(super) fn shared(space: &AddressSpace, range: VaRange, always: bool) -> Result<Self> {
        Ok(Self {
            space: space.clone(),
            start: usize::try_from(range.start()).map_err(|_| EFAULT)?,
            size: usize::try_from(range.size()).map_err(|_| EFAULT)?,
            shared: true,
            always,
        })
    }

    /// Whether it is shared: what the process unmaps of it is the GPU's no more, whatever comes in its place. Otherwise
    /// the GPU has what is at these addresses.
    pub(super) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Whether the GPU is to find it there before it comes to it, also if it retries page faults.
    pub(super) fn is_always_mapped(&self) -> bool {
        self.always
    }

    /// The process's memory.
    pub(super) fn space(&self) -> &AddressSpace {
        &self.space
    }

    /// The process's address of the first byte.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// The process's address of the `size` bytes at `offset`. `EFAULT` when they are not all inside, or the process is
    /// not the calling one.
    pub(super) fn address(&self, offset: u64, size: u64) -> Result<u64> {
        let end = offset.checked_add(size).ok_or(EFAULT)?;
        if end > self.size as u64 || !self.space.is_current() {
            return Err(EFAULT);
        }
        Ok(self.start as u64 + offset)
    }
}
