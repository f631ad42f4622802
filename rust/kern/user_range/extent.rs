// SPDX-License-Identifier: GPL-2.0
//! The kinds of memory that a process has at its addresses (VMAs).

use super::slow::{lock_soon, lock_within, LockWait};
use crate::{ffi, kern::mm_exit::AddressSpace};
use core::ops::Range;
use kernel::{
    mm::{
        virt::{flags, VmaRef},
        MmWithUser,
    },
    prelude::*,
};

/// The part of a VMA that lies in a range.
pub(super) struct VmaExtent {
    pub(super) from: usize,
    pub(super) to: usize,
    flags: usize,
    pub(super) anonymous: bool,
    /// Whether a fault in it may have to wait for a program.
    pub(super) may_wait: bool,
    heap_or_stack: bool,
}

impl VmaExtent {
    /// The extent of the first VMA of `mm` with an address between `at` and `end`.
    ///
    /// # Safety
    ///
    /// The caller holds the mmap lock of `mm`.
    pub(super) unsafe fn next(mm: &MmWithUser, at: usize, end: usize) -> Option<Self> {
        // SAFETY: By this function's contract.
        let raw = unsafe { ffi::find_vma(mm.as_raw(), at) };
        if raw.is_null() || at >= end {
            return None;
        }
        // SAFETY: It does not change under the mmap lock.
        let (vma, anonymous) = unsafe { (VmaRef::from_raw(raw), (*raw).vm_ops.is_null()) };
        // SAFETY: As above.
        let (may_wait, heap_or_stack) = unsafe {
            (
                ffi::rkfd_vma_may_wait(raw),
                ffi::rkfd_vma_is_heap_or_stack(raw),
            )
        };
        let extent = Self {
            from: vma.start().max(at),
            to: vma.end().min(end),
            flags: vma.flags(),
            anonymous,
            may_wait,
            heap_or_stack,
        };
        (extent.from < end).then_some(extent)
    }

    /// Whether it is memory that the process may read.
    pub(super) fn is_readable(&self) -> bool {
        self.flags & ALLOWED == flags::READ
    }

    /// Whether its pages may move to the memory of a device and still be the process's own.
    ///
    /// Pages that the kernel may merge (KSM) may not. While a page is being merged, no reverse
    /// mapping finds it. `migrate_vma_setup`, which does not need a reverse mapping, would remove
    /// it from the page table, and it would never be put back.
    pub(super) fn can_move(&self) -> bool {
        self.anonymous && self.is_readable() && !self.may_wait && self.flags & flags::MERGEABLE == 0
    }

    /// Whether the process may write it.
    pub(super) fn is_writable(&self) -> bool {
        self.flags & flags::WRITE != 0
    }
}

/// The flags that decide whether a device may use the memory at all.
const ALLOWED: usize = flags::READ | flags::IO | flags::PFNMAP;

/// Whether all of the `size` bytes at `start` of the calling process, whose address space is
/// `space`, are memory that it may read, and also write if `write`. See
/// [`with_lock_soon`](super::with_lock_soon).
pub(crate) fn is_memory(
    space: &AddressSpace,
    start: usize,
    size: usize,
    write: bool,
) -> Result<bool> {
    let write = if write { flags::WRITE } else { 0 };
    is_whole(space, start, size, |vma| {
        vma.is_readable() && vma.flags & write == write
    })
}

/// Whether the `size` bytes at `start` of `space` are all memory without a file behind it. See
/// [`with_lock_soon`](super::with_lock_soon).
pub(crate) fn is_anonymous(space: &AddressSpace, start: usize, size: usize) -> Result<bool> {
    is_whole(space, start, size, |vma| vma.anonymous)
}

/// Whether the `size` bytes at `start` of `space` are all in VMAs for which `fits` holds.
fn is_whole(
    space: &AddressSpace,
    start: usize,
    size: usize,
    fits: impl Fn(&VmaExtent) -> bool,
) -> Result<bool> {
    let (Some(mm), Some(end)) = (space.user(), start.checked_add(size)) else {
        return Ok(false);
    };
    let _lock = lock_soon(&mm)?;
    let mut at = start;
    while at < end {
        // SAFETY: The mmap lock is held.
        match unsafe { VmaExtent::next(&mm, at, end) } {
            Some(vma) if vma.from == at && fits(&vma) => at = vma.to,
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// The flags of memory that belongs to a device, not to a process.
const DEVICE: usize = flags::IO | flags::PFNMAP | flags::MIXEDMAP;

/// Whether the `size` bytes at `start` of `space` are all the process's own memory, whatever its
/// permissions. See [`with_lock_soon`](super::with_lock_soon).
pub(crate) fn is_own(space: &AddressSpace, start: usize, size: usize) -> Result<bool> {
    is_whole(space, start, size, |vma| vma.flags & DEVICE == 0)
}

/// The first part of the addresses from `start` to `end` of `space` without memory. See
/// [`with_lock_soon`](super::with_lock_soon).
pub(crate) fn first_hole(
    space: &AddressSpace,
    start: usize,
    end: usize,
) -> Result<Option<Range<usize>>> {
    let Some(mm) = space.user() else {
        return Ok((start < end).then_some(start..end));
    };
    let _lock = lock_soon(&mm)?;
    let mut at = start;
    while at < end {
        // SAFETY: The mmap lock is held.
        match unsafe { VmaExtent::next(&mm, at, end) } {
            Some(vma) if vma.from == at => at = vma.to,
            Some(vma) => return Ok(Some(at..vma.from)),
            None => return Ok(Some(at..end)),
        }
    }
    Ok(None)
}

/// The memory of a process around an address.
pub(crate) struct MemoryAround {
    /// Its addresses.
    pub(crate) range: Range<usize>,
    /// Whether it is memory that the process may read.
    pub(crate) readable: bool,
    /// Whether the process may also write it.
    pub(crate) writable: bool,
    /// Whether it is the initial heap or stack of the process, which the process itself uses all
    /// the time.
    pub(crate) heap_or_stack: bool,
}

/// The memory that the process of `space` has at address `at`, as far as it is one VMA, limited to
/// `within`. `None` if there is no memory.
///
/// # Errors
///
/// `ESRCH` if the address space has ended; [`errno::in_progress`](crate::kern::errno::in_progress)
/// if the mmap lock is not available within `lock_wait`.
pub(crate) fn around(
    space: &AddressSpace,
    at: usize,
    within: Range<usize>,
    lock_wait: LockWait,
) -> Result<Option<MemoryAround>> {
    let mm = space.user().ok_or(ESRCH)?;
    let _lock = lock_within(&mm, lock_wait)?;
    let mut from = within.start;
    // SAFETY: The mmap lock is held.
    while let Some(vma) = unsafe { VmaExtent::next(&mm, from, within.end) } {
        if vma.from > at {
            break;
        }
        if vma.to > at {
            return Ok(Some(MemoryAround {
                range: vma.from..vma.to,
                readable: vma.is_readable(),
                writable: vma.is_readable() && vma.is_writable(),
                heap_or_stack: vma.heap_or_stack,
            }));
        }
        from = vma.to;
    }
    Ok(None)
}
