// SPDX-License-Identifier: GPL-2.0
//! Pages of system memory as an array of bytes that the CPU reaches through the direct map.

use crate::ffi;
use core::ptr::NonNull;
use kernel::{page::PAGE_SIZE, prelude::*};

/// Pages in the order of a buffer. They are shared with a device and maybe with user space, so each
/// access is a single volatile load or store of its width, and a value may have changed since it
/// was read.
///
/// The maker of the list keeps the pages allocated as long as the list exists.
pub(crate) struct PageList {
    pages: KVVec<NonNull<ffi::page>>,
    writable: bool,
}

// SAFETY: The list only points to pages that its maker keeps; their content is accessed as
// described above.
unsafe impl Send for PageList {}
// SAFETY: As above.
unsafe impl Sync for PageList {}

impl PageList {
    /// An empty list with room for `pages` pages; `writable` tells whether the kernel may write to
    /// them.
    pub(super) fn with_capacity(pages: usize, writable: bool) -> Result<Self> {
        Ok(Self {
            pages: KVVec::with_capacity(pages, GFP_KERNEL_ACCOUNT | __GFP_NOWARN)?,
            writable,
        })
    }

    /// Adds a page.
    ///
    /// # Safety
    ///
    /// `page` must be a page with an address in the direct map, and stay allocated as long as the
    /// list.
    pub(super) unsafe fn push(&mut self, page: NonNull<ffi::page>) -> Result {
        Ok(self.pages.push(page, GFP_KERNEL_ACCOUNT)?)
    }

    /// Adds `count` consecutive pages.
    ///
    /// # Safety
    ///
    /// As for [`PageList::push`], for each page from `first` on, whose structures are consecutive
    /// too.
    pub(super) unsafe fn push_piece(&mut self, first: NonNull<ffi::page>, count: usize) -> Result {
        self.pages.reserve(count, GFP_KERNEL_ACCOUNT)?;
        for index in 0..count {
            // SAFETY: By this function's contract.
            let page = unsafe { first.add(index) };
            // The reservation above made room for it.
            let _ = self.pages.push_within_capacity(page);
        }
        Ok(())
    }

    /// The pages.
    pub(super) fn pages(&self) -> &[NonNull<ffi::page>] {
        &self.pages
    }

    /// The size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.pages.len() as u64 * PAGE_SIZE as u64
    }

    /// The page frame number of the page at `index`, counted from the start.
    ///
    /// # Errors
    ///
    /// `EINVAL` past the end.
    pub(crate) fn pfn(&self, index: usize) -> Result<usize> {
        let page = self.pages.get(index).ok_or(EINVAL)?;
        // SAFETY: The list holds valid pages.
        Ok(unsafe { ffi::rkfd_page_to_pfn(page.as_ptr()) })
    }

    /// The address of the byte at `offset`, if it is a multiple of `WIDTH`, a power of two up to a
    /// page.
    fn at<const WIDTH: u64>(&self, offset: u64) -> Result<*mut u8> {
        if offset % WIDTH != 0 {
            return Err(EINVAL);
        }
        let index = usize::try_from(offset / PAGE_SIZE as u64).map_err(|_| EINVAL)?;
        let page = self.pages.get(index).ok_or(EINVAL)?;
        // SAFETY: The list holds valid pages of the direct map; the sum stays in the page.
        Ok(unsafe {
            ffi::rkfd_page_address(page.as_ptr())
                .cast::<u8>()
                .add(offset as usize % PAGE_SIZE)
        })
    }

    fn at_writable<const WIDTH: u64>(&self, offset: u64) -> Result<*mut u8> {
        if self.writable {
            self.at::<WIDTH>(offset)
        } else {
            Err(EPERM)
        }
    }

    /// Checks that `count` dwords at byte `offset` are inside; returns the offset of the first byte
    /// after them.
    fn dwords_end(&self, offset: u64, count: usize) -> Result<u64> {
        let bytes = (count as u64).checked_mul(4).ok_or(EINVAL)?;
        let end = offset.checked_add(bytes).ok_or(EINVAL)?;
        if offset % 4 == 0 && end <= self.size() {
            Ok(end)
        } else {
            Err(EINVAL)
        }
    }

    /// Reads dwords from byte `offset` on, a multiple of 4.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they are not all inside.
    pub(crate) fn read32s(&self, offset: u64, to: &mut [u32]) -> Result {
        self.dwords_end(offset, to.len())?;
        let mut offset = offset;
        let mut rest = to;
        while !rest.is_empty() {
            let in_page = (PAGE_SIZE - offset as usize % PAGE_SIZE) / 4;
            let (part, after) = rest.split_at_mut(in_page.min(rest.len()));
            let from = self.at::<4>(offset)?.cast::<u32>();
            for (index, dword) in part.iter_mut().enumerate() {
                // SAFETY: `from` is aligned, and the part does not leave its page.
                *dword = unsafe { from.add(index).read_volatile() };
            }
            offset += part.len() as u64 * 4;
            rest = after;
        }
        Ok(())
    }

    /// Writes dwords from byte `offset` on, a multiple of 4.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they are not all inside; `EPERM` if the pages are read-only.
    pub(crate) fn write32s(&self, offset: u64, from: &[u32]) -> Result {
        self.dwords_end(offset, from.len())?;
        let mut offset = offset;
        let mut rest = from;
        while !rest.is_empty() {
            let in_page = (PAGE_SIZE - offset as usize % PAGE_SIZE) / 4;
            let (part, after) = rest.split_at(in_page.min(rest.len()));
            let to = self.at_writable::<4>(offset)?.cast::<u32>();
            // SAFETY: `to` is aligned, and the part does not leave its page.
            unsafe { store(to, part) };
            offset += part.len() as u64 * 4;
            rest = after;
        }
        Ok(())
    }

    /// Reads the 64-bit value at byte `offset`, a multiple of 8, in one load.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `offset` is not a multiple of 8, or is not inside.
    pub(crate) fn read64(&self, offset: u64) -> Result<u64> {
        let from = self.at::<8>(offset)?.cast::<u64>();
        // SAFETY: The address is aligned and inside a page of the list.
        Ok(unsafe { from.read_volatile() })
    }

    /// Writes the 64-bit value at byte `offset`, a multiple of 8, in one store.
    ///
    /// # Errors
    ///
    /// `EPERM` if the pages are read-only; `EINVAL` if `offset` is not a multiple of 8, or is not
    /// inside.
    pub(crate) fn write64(&self, offset: u64, value: u64) -> Result {
        let to = self.at_writable::<8>(offset)?.cast::<u64>();
        // SAFETY: The address is aligned and inside a page of the list.
        unsafe { to.write_volatile(value) };
        Ok(())
    }
}

/// Stores `dwords` from `to` on, each in one store.
///
/// # Safety
///
/// `to` is aligned, and there is room for all of them.
unsafe fn store(to: *mut u32, dwords: &[u32]) {
    // A loop over single dwords has four times as many instructions: a seventh of CREATE_QUEUE's.
    const STEP: usize = 8;
    let mut to = to;
    let mut steps = dwords.chunks_exact(STEP);
    for step in steps.by_ref() {
        for (index, dword) in step.iter().enumerate() {
            // SAFETY: As the caller says.
            unsafe { to.add(index).write_volatile(*dword) };
        }
        to = to.wrapping_add(STEP);
    }
    for (index, dword) in steps.remainder().iter().enumerate() {
        // SAFETY: As above.
        unsafe { to.add(index).write_volatile(*dword) };
    }
}
