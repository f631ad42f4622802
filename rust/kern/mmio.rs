// SPDX-License-Identifier: GPL-2.0
//! The register BAR (BAR5): 32-bit accesses by dword index.

use kernel::device::{Bound, Core};
use kernel::devres::Devres;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, AtomicFlag, Release};

use super::bar::{BarCaching, BarMapping};

/// The index of the register BAR.
pub(crate) const BAR: u32 = 5;

/// The value that registers of a missing device read as.
pub(crate) const GONE: u32 = u32::MAX;

/// The registers, mapped uncached. After unbind or [`Mmio::cut_off`], and outside the BAR, reads
/// return [`GONE`] and writes are dropped, as the bus behaves when a device was pulled out. Any
/// context.
pub(crate) struct Mmio {
    bar: Devres<BarMapping>,
    start: u64,
    size: u64,
    /// Whether the connection to the device has failed.
    is_cut_off: AtomicFlag,
}

impl Mmio {
    /// Maps the registers of `pdev`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if firmware has assigned no address to the BAR; `ENOMEM` if it cannot be mapped.
    pub(crate) fn new(pdev: &pci::Device<Core<'_>>) -> Result<Self> {
        let start = pdev.resource_start(BAR)?;
        let size = pdev.resource_len(BAR)?;
        let bound: &pci::Device<Bound> = pdev;
        let bar = BarMapping::new(bound, BAR, BarCaching::Uncached)?;
        Ok(Self {
            bar,
            start,
            size,
            is_cut_off: AtomicFlag::new(false),
        })
    }

    /// Reads the register at `dword`.
    pub(crate) fn read(&self, dword: u32) -> u32 {
        if self.is_cut_off.load(Acquire) {
            return GONE;
        }
        let Some(bar) = self.bar.try_access() else {
            return GONE;
        };
        bar.read32(byte(dword)).unwrap_or(GONE)
    }

    /// Writes the register at `dword`. Earlier stores to memory are visible to the device before
    /// this one.
    pub(crate) fn write(&self, dword: u32, value: u32) {
        if self.is_cut_off.load(Acquire) {
            return;
        }
        if let Some(bar) = self.bar.try_access() {
            // Outside the BAR: dropped, as the bus would.
            let _ = bar.write32(byte(dword), value);
        }
    }

    /// The page frame of the registers' page at `byte`, for mapping into user space.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `byte` is outside the BAR.
    pub(crate) fn pfn(&self, byte: u64) -> Result<usize> {
        Ok((self.address(byte)? >> kernel::page::PAGE_SHIFT) as usize)
    }

    /// The CPU address of the register at `byte`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `byte` is outside the BAR.
    pub(crate) fn address(&self, byte: u64) -> Result<u64> {
        if byte >= self.size {
            return Err(EINVAL);
        }
        Ok(self.start + byte)
    }

    /// From now on registers behave as if the device had been pulled out, until [`Mmio::rejoin`].
    pub(crate) fn cut_off(&self) {
        self.is_cut_off.store(true, Release);
    }

    /// Ends [`Mmio::cut_off`]: the device responds again.
    pub(crate) fn rejoin(&self) {
        self.is_cut_off.store(false, Release);
    }

    /// Whether the device is still bound, and not cut off.
    pub(crate) fn is_present(&self) -> bool {
        !self.is_cut_off.load(Acquire) && self.bar.try_access().is_some()
    }
}

/// Every dword index has a byte offset, since `usize` has 64 bits here.
const fn byte(dword: u32) -> usize {
    dword as usize * 4
}
