// SPDX-License-Identifier: GPL-2.0
//! The VRAM BAR (BAR0), mapped write-combining.

use kernel::device::{Bound, Core};
use kernel::devres::Devres;
use kernel::pci;
use kernel::prelude::*;

use super::bar::{BarCaching, BarMapping};
use crate::ffi;

/// The index of the VRAM BAR.
pub(crate) const BAR: u32 = 0;

/// The most bytes that one access to the mapping moves: unbind waits for its end, and it delays an
/// RCU grace period.
const CHUNK: usize = 64 << 10;

/// VRAM through the CPU's mapping. Stores are combined: before the GPU may rely on them, the HDP
/// has to be flushed (`ip::hdp::Hdp::flush`). Any context, but long copies take their time.
///
/// Every access fails with `ENODEV` after unbind, and with `EINVAL` if it is outside the BAR or not
/// aligned to its size.
pub(crate) struct VramMap {
    mapping: Devres<BarMapping>,
    start: u64,
    size: u64,
}

impl VramMap {
    /// Maps all of BAR0 of `pdev`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if firmware has assigned no address to it; `ENOMEM` if it cannot be mapped.
    pub(crate) fn new(pdev: &pci::Device<Core<'_>>) -> Result<Self> {
        let start = pdev.resource_start(BAR)?;
        let size = pdev.resource_len(BAR)?;
        let bound: &pci::Device<Bound> = pdev;
        let mapping = BarMapping::new(bound, BAR, BarCaching::WriteCombining)?;
        Ok(Self {
            mapping,
            start,
            size,
        })
    }

    /// The size of the VRAM that the CPU can reach, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The page frame at VRAM offset `offset`, for mapping into user space.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `offset` is outside the BAR.
    pub(crate) fn pfn(&self, offset: u64) -> Result<usize> {
        Ok((self.cpu_address(offset)? >> kernel::page::PAGE_SHIFT) as usize)
    }

    /// The CPU address of VRAM offset `offset`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `offset` is outside the BAR.
    pub(crate) fn cpu_address(&self, offset: u64) -> Result<u64> {
        self.check(offset, 1, 1)?;
        Ok(self.start + offset)
    }

    /// Checks that `bytes` bytes from `offset` on are in the BAR, and that `offset` is a multiple
    /// of `align`; returns `offset`.
    fn check(&self, offset: u64, bytes: usize, align: u64) -> Result<usize> {
        let end = offset.checked_add(bytes as u64).ok_or(EINVAL)?;
        if end > self.size || offset % align != 0 {
            return Err(EINVAL);
        }
        Ok(offset as usize)
    }

    /// Calls `access` for each piece of the range, with its address and its byte positions in the
    /// range.
    fn pieces(
        &self,
        offset: u64,
        bytes: usize,
        align: u64,
        mut access: impl FnMut(*mut u8, core::ops::Range<usize>),
    ) -> Result {
        let offset = self.check(offset, bytes, align)?;
        let mut done = 0;
        while done < bytes {
            let end = bytes.min(done + CHUNK);
            let mapping = self.mapping.try_access().ok_or(ENODEV)?;
            access(mapping.base().wrapping_add(offset + done), done..end);
            done = end;
        }
        Ok(())
    }

    /// Reads the 64-bit word at `offset` in one access.
    pub(crate) fn read64(&self, offset: u64) -> Result<u64> {
        let at = self.check(offset, 8, 8)?;
        let mapping = self.mapping.try_access().ok_or(ENODEV)?;
        // SAFETY: Checked to be in the mapping, which lives as long as the guard.
        Ok(unsafe { ffi::readq(mapping.base().wrapping_add(at).cast()) })
    }

    /// Writes the 64-bit word at `offset` in one access.
    pub(crate) fn write64(&self, offset: u64, value: u64) -> Result {
        let at = self.check(offset, 8, 8)?;
        let mapping = self.mapping.try_access().ok_or(ENODEV)?;
        // SAFETY: Checked to be in the mapping, which lives as long as the guard.
        unsafe { ffi::writeq(value, mapping.base().wrapping_add(at).cast()) };
        Ok(())
    }

    /// Writes `values` from `offset` on; each word is written whole.
    pub(crate) fn write64s(
        &self,
        offset: u64,
        mut values: impl ExactSizeIterator<Item = u64>,
    ) -> Result {
        let bytes = values.len().checked_mul(8).ok_or(EINVAL)?;
        self.pieces(offset, bytes, 8, |at, range| {
            for (n, value) in (0..range.len() / 8).zip(values.by_ref()) {
                // SAFETY: `pieces` passes addresses in the mapping, for the length of the range.
                unsafe { ffi::writeq(value, at.wrapping_add(n * 8).cast()) };
            }
        })
    }

    /// Writes `value` `count` times from `offset` on; each word is written whole.
    pub(crate) fn fill64(&self, offset: u64, value: u64, count: usize) -> Result {
        let bytes = count.checked_mul(8).ok_or(EINVAL)?;
        self.pieces(offset, bytes, 8, |at, range| {
            for n in 0..range.len() / 8 {
                // SAFETY: `pieces` passes addresses in the mapping, for the length of the range.
                unsafe { ffi::writeq(value, at.wrapping_add(n * 8).cast()) };
            }
        })
    }

    /// Writes `bytes` from `offset` on, in accesses of any size.
    pub(crate) fn write_bytes(&self, offset: u64, bytes: &[u8]) -> Result {
        self.pieces(offset, bytes.len(), 1, |at, range| {
            let piece = &bytes[range];
            // SAFETY: The piece of the mapping and `piece` both have the length of the range.
            unsafe { ffi::memcpy_toio(at.cast(), piece.as_ptr().cast(), piece.len()) };
        })
    }

    /// Writes dwords from `offset` on.
    pub(crate) fn write32s(&self, offset: u64, values: &[u32]) -> Result {
        let from = values.as_ptr().cast::<u8>();
        self.pieces(offset, size_of_val(values), 4, |at, range| {
            // SAFETY: The piece is in the mapping, and its range in `values`.
            unsafe {
                ffi::memcpy_toio(
                    at.cast(),
                    from.wrapping_add(range.start).cast(),
                    range.len(),
                )
            };
        })
    }

    /// Reads dwords from `offset` on.
    pub(crate) fn read32s(&self, offset: u64, out: &mut [u32]) -> Result {
        let to = out.as_mut_ptr().cast::<u8>();
        self.pieces(offset, size_of_val(out), 4, |at, range| {
            // SAFETY: The piece is in the mapping, and its range in `out`, whose bytes may all be
            // written.
            unsafe {
                ffi::memcpy_fromio(to.wrapping_add(range.start).cast(), at.cast(), range.len())
            };
        })
    }
}
