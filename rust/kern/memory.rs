// SPDX-License-Identifier: GPL-2.0
//! The machine's memory as a whole.

use crate::ffi;
use kernel::page::PAGE_SIZE;

/// Bytes of memory that the kernel manages.
pub(crate) fn total() -> u64 {
    // SAFETY: Reads a counter.
    let pages = unsafe { ffi::rkfd_totalram_pages() };
    (pages as u64).saturating_mul(PAGE_SIZE as u64)
}

/// Bytes of memory that can be had without anybody's missing it, as the kernel guesses (MemAvailable).
pub(crate) fn available() -> u64 {
    // SAFETY: Reads counters.
    let pages = unsafe { ffi::rkfd_mem_available() };
    (pages as u64).saturating_mul(PAGE_SIZE as u64)
}
