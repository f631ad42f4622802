// SPDX-License-Identifier: GPL-2.0
//! The machine's memory as a whole.

use crate::ffi;
use kernel::page::PAGE_SIZE;

/// The memory that the kernel manages, in bytes.
pub(crate) fn total() -> u64 {
    // SAFETY: Reads a counter.
    let pages = unsafe { ffi::rkfd_totalram_pages() };
    (pages as u64).saturating_mul(PAGE_SIZE as u64)
}

/// The kernel's estimate of the memory that can be allocated without harm to its present users
/// (MemAvailable), in bytes.
pub(crate) fn available() -> u64 {
    // SAFETY: Reads counters.
    let pages = unsafe { ffi::rkfd_mem_available() };
    (pages as u64).saturating_mul(PAGE_SIZE as u64)
}
