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
