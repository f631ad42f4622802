// SPDX-License-Identifier: GPL-2.0
//! Memory of a process, pinned for the kernel's own accesses. The limit of locked memory does not
//! apply: the caller bounds it.

use super::{mm_exit::AddressSpace, page_list::PageList, task};
use crate::ffi;
use core::{ops::Deref, ptr::NonNull};
use kernel::{page::PAGE_SIZE, prelude::*};

/// The number of pages that are pinned together: the caller can be killed between two batches.
const BATCH: usize = 512;

/// Pinned pages; unpinned when dropped, and marked dirty if they may have been written.
struct PinnedPages {
    list: PageList,
    writable: bool,
}

impl PinnedPages {
    fn pin(space: &AddressSpace, start: usize, pages: usize, writable: bool) -> Result<Self> {
        let mm = space.user().ok_or(ESRCH)?;
        let mut pinned = Self {
            list: PageList::with_capacity(pages, writable)?,
            writable,
        };
        let mut flags = ffi::FOLL_LONGTERM;
        if writable {
            flags |= ffi::FOLL_WRITE;
        }
        let mut batch = KVec::from_elem(core::ptr::null_mut::<ffi::page>(), BATCH, GFP_KERNEL)?;
        let mut done = 0;
        while done < pages {
            if task::is_killed() {
                return Err(EINTR);
            }
            let wanted = BATCH.min(pages - done);
            let address = done
                .checked_mul(PAGE_SIZE)
                .and_then(|offset| start.checked_add(offset))
                .ok_or(EFAULT)?;
            // SAFETY: `batch` has room for `wanted` pointers, and `mm` a user; this is process
            // context, without locks.
            let got = unsafe {
                ffi::rkfd_pin_killable(mm.as_raw(), address, wanted, flags, batch.as_mut_ptr())
            };
            let got = match got {
                0 => return Err(EFAULT),
                n if n < 0 => return Err(Error::from_errno(n as i32)),
                n => n as usize,
            };
            for page in batch.iter().take(got) {
                if let Some(page) = NonNull::new(*page) {
                    // SAFETY: The page is pinned until `pinned` is dropped; x86-64 has all memory
                    // in the direct map. There was room for all pages from the start, so this does
                    // not fail.
                    unsafe { pinned.list.push(page)? };
                }
            }
            done += got;
        }
        Ok(pinned)
    }
}

impl Drop for PinnedPages {
    fn drop(&mut self) {
        let pages = self.list.pages();
        // SAFETY: The list holds the pages that were pinned, each once; the function only reads the
        // array.
        unsafe {
            ffi::unpin_user_pages_dirty_lock(
                pages.as_ptr().cast::<*mut ffi::page>().cast_mut(),
                pages.len(),
                self.writable,
            )
        };
    }
}

/// Memory of a process for the driver's CPU accesses, whatever the process does with its mapping.
/// Its accessors are those of [`PageList`]: writes fail with `EPERM` if it was not pinned for
/// writing.
pub(crate) struct UserPages(PinnedPages);

impl UserPages {
    /// Pins the `size` bytes at `start` of `space`.
    ///
    /// # Errors
    ///
    /// `ESRCH` if the address space has ended;
    /// `EINVAL` if either is not a multiple of the page size; `EFAULT` if nothing is mapped, if the
    /// memory is not writable but `writable` is set, and for mappings that cannot be pinned for
    /// long (devices, files that track writes); `EINTR` if the caller is killed; `ENOMEM`.
    pub(crate) fn pin(
        space: &AddressSpace,
        start: u64,
        size: usize,
        writable: bool,
    ) -> Result<Self> {
        let start = usize::try_from(start).map_err(|_| EFAULT)?;
        if size == 0 || start % PAGE_SIZE != 0 || size % PAGE_SIZE != 0 {
            return Err(EINVAL);
        }
        start.checked_add(size).ok_or(EFAULT)?;
        PinnedPages::pin(space, start, size / PAGE_SIZE, writable).map(Self)
    }
}

impl Deref for UserPages {
    type Target = PageList;

    fn deref(&self) -> &PageList {
        &self.0.list
    }
}
