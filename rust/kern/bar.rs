// SPDX-License-Identifier: GPL-2.0
//! A BAR of a PCI device, mapped for the driver. It is not requested, as amdgpu requests none: a
//! requested BAR cannot be mapped through sysfs (`resource0`), where tools that look into a GPU
//! expect it. No other driver takes it, since only one is bound to a device.

use core::ffi::c_void;

use kernel::device::Bound;
use kernel::devres::Devres;
use kernel::pci;
use kernel::prelude::*;

use crate::ffi;

/// How the CPU accesses a BAR.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum BarCaching {
    /// Each access by itself.
    Uncached,
    /// Stores may be combined.
    WriteCombining,
}

/// A mapped BAR.
///
/// # Invariants
///
/// `base` is the address of a mapping of `size` bytes.
pub(super) struct BarMapping {
    base: *mut u8,
    size: usize,
}

// SAFETY: The mapping is global; its address is valid in every context.
unsafe impl Send for BarMapping {}
// SAFETY: As above; the memory behind it is only accessed by the I/O accessors, which allow races.
unsafe impl Sync for BarMapping {}

impl BarMapping {
    /// Maps BAR `bar` of `pdev` until it is unbound.
    ///
    /// # Errors
    ///
    /// `ENODEV` if firmware has assigned no address to it; `ENOMEM` if it cannot be mapped.
    pub(super) fn new(
        pdev: &pci::Device<Bound>,
        bar: u32,
        caching: BarCaching,
    ) -> Result<Devres<Self>> {
        let (start, size) = (pdev.resource_start(bar)?, pdev.resource_len(bar)?);
        let size = usize::try_from(size)?;
        if start == 0 || size == 0 {
            return Err(ENODEV);
        }
        // SAFETY: The range is a BAR of the device, whose driver this is.
        let base = unsafe {
            match caching {
                BarCaching::Uncached => ffi::ioremap(start, size),
                BarCaching::WriteCombining => ffi::ioremap_wc(start, size),
            }
        };
        if base.is_null() {
            return Err(ENOMEM);
        }
        // INVARIANT: Mapped above.
        let mapping = Self {
            base: base.cast(),
            size,
        };
        Devres::new(pdev.as_ref(), mapping)
    }

    /// The address of byte 0.
    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }

    /// The address of the `bytes` bytes at `offset`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they are not all in the BAR, or `offset` is not a multiple of `bytes`.
    fn at(&self, offset: usize, bytes: usize) -> Result<*mut c_void> {
        let end = offset.checked_add(bytes).ok_or(EINVAL)?;
        if end > self.size || offset % bytes != 0 {
            return Err(EINVAL);
        }
        Ok(self.base.wrapping_add(offset).cast())
    }

    /// Reads the dword at byte `offset`. Any context, like the other accessors.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not in the BAR, or not aligned.
    pub(super) fn read32(&self, offset: usize) -> Result<u32> {
        let at = self.at(offset, 4)?;
        // SAFETY: `at` returned an address in the mapping.
        Ok(unsafe { ffi::readl(at) })
    }

    /// Writes the dword at byte `offset`. Earlier stores to memory are visible to the device before
    /// this one.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not in the BAR, or not aligned.
    pub(super) fn write32(&self, offset: usize, value: u32) -> Result {
        let at = self.at(offset, 4)?;
        // SAFETY: As in `read32`.
        unsafe { ffi::writel(value, at) };
        Ok(())
    }

    /// Writes the 64-bit word at byte `offset` with one store. Earlier stores to memory are visible
    /// to the device before it.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not in the BAR, or not aligned.
    pub(super) fn write64(&self, offset: usize, value: u64) -> Result {
        let at = self.at(offset, 8)?;
        // SAFETY: As in `read32`.
        unsafe { ffi::writeq(value, at) };
        Ok(())
    }
}

impl Drop for BarMapping {
    fn drop(&mut self) {
        // SAFETY: By the type's invariant; `Devres` has ended all accesses.
        unsafe { ffi::iounmap(self.base.cast()) };
    }
}
