// SPDX-License-Identifier: GPL-2.0
//! User memory (USERPTR) that the GPU uses. Its pages are not pinned: code that maps it watches it.

use crate::kern::{mm_exit::AddressSpace, user_range};
use hw::va::{VaRange, PAGE_SIZE};
use kernel::prelude::*;

/// When a process has the memory that it gives to a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserMemoryTime {
    /// It has the memory.
    Now,
    /// The process is being restored (CRIU): its memory is laid out later, before RESUME.
    AtResume,
}

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
    /// Creates the memory for the `size` bytes at `start` of the calling process, which the GPU may
    /// write if `write`. See [`user_range::with_lock_soon`].
    ///
    /// # Errors
    ///
    /// `EINVAL` if they are not whole pages; `EFAULT` if a part of it is not memory that the
    /// process may use that way, though it has it by that `time`.
    pub(super) fn new(start: u64, size: usize, write: bool, time: UserMemoryTime) -> Result<Self> {
        if start % PAGE_SIZE != 0 {
            return Err(EINVAL);
        }
        let start = usize::try_from(start).map_err(|_| EFAULT)?;
        let space = AddressSpace::current()?;
        let is_there = match time {
            UserMemoryTime::Now => user_range::is_memory(&space, start, size, write)?,
            UserMemoryTime::AtResume => true,
        };
        if !is_there {
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

    /// Creates the memory for all that the process of `space` has in `range`, now and later, shared
    /// with the GPU. If `always`, it is to be mapped for the GPU at all times, also if the GPU
    /// retries page faults.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(super) fn shared(space: &AddressSpace, range: VaRange, always: bool) -> Result<Self> {
        Ok(Self {
            space: space.clone(),
            start: usize::try_from(range.start()).map_err(|_| EFAULT)?,
            size: usize::try_from(range.size()).map_err(|_| EFAULT)?,
            shared: true,
            always,
        })
    }

    /// Whether the process, the calling one, has no memory of files or devices in it.
    ///
    /// # Errors
    ///
    /// `EINTR` if the caller is killed; see [`user_range::with_lock_soon`].
    pub(super) fn is_anonymous(&self) -> Result<bool> {
        user_range::is_anonymous(&self.space, self.start, self.size)
    }

    /// Whether it is shared: then a page that the process unmaps is no longer the GPU's, whatever
    /// is mapped in its place. Otherwise the GPU uses any memory at these addresses.
    pub(super) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Whether the memory is to be mapped before the GPU accesses it, also if the GPU retries page
    /// faults.
    pub(super) fn is_always_mapped(&self) -> bool {
        self.always
    }

    /// Returns the process's address space.
    pub(super) fn space(&self) -> &AddressSpace {
        &self.space
    }

    /// Returns the process's address of the first byte.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// Reads dwords from byte `offset` on, if their pages are there: see
    /// [`AddressSpace::read_present`].
    pub(super) fn read_present(&self, offset: u64, to: &mut [u32]) -> Result {
        let offset = usize::try_from(offset).map_err(|_| EFAULT)?;
        let end = offset.checked_add(core::mem::size_of_val(to));
        if end.is_none_or(|end| end > self.size) {
            return Err(EFAULT);
        }
        self.space.read_present(self.start + offset, to)
    }

    /// Returns the address in `space` of the `size` bytes at `offset`.
    ///
    /// # Errors
    ///
    /// `EFAULT` if they are not all inside, or are memory of another address space.
    pub(super) fn address_in(&self, space: &AddressSpace, offset: u64, size: u64) -> Result<u64> {
        let end = offset.checked_add(size).ok_or(EFAULT)?;
        if end > self.size as u64 || self.space.id() != space.id() {
            return Err(EFAULT);
        }
        Ok(self.start as u64 + offset)
    }
}
