// SPDX-License-Identifier: GPL-2.0
//! The doorbell BAR (BAR2).

use kernel::device::{Bound, Core};
use kernel::devres::Devres;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::bar::{BarCaching, BarMapping};
use super::dma_resource::DmaResource;

/// The index of the doorbell BAR.
pub(crate) const BAR: u32 = 2;

/// The doorbells, mapped uncached. After unbind, writes to doorbells are dropped. Any context.
pub(crate) struct DoorbellMap {
    bar: Devres<BarMapping>,
    start: u64,
    size: u64,
    dma: Arc<DmaResource>,
}

impl DoorbellMap {
    /// Maps the doorbells of `pdev`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if firmware has assigned no address to the BAR; `ENOMEM` if it cannot be mapped.
    pub(crate) fn new(pdev: &pci::Device<Core<'_>>) -> Result<Self> {
        let start = pdev.resource_start(BAR)?;
        let size = pdev.resource_len(BAR)?;
        let bound: &pci::Device<Bound> = pdev;
        let bar = BarMapping::new(bound, BAR, BarCaching::Uncached)?;
        let dma = Arc::new(DmaResource::new(bound.as_ref(), start, size)?, GFP_KERNEL)?;
        Ok(Self {
            bar,
            start,
            size,
            dma,
        })
    }

    /// Rings the doorbell at byte `offset` of the BAR with one 64-bit store. Earlier stores to
    /// memory are visible to the device before it. An offset that is outside the BAR or not aligned
    /// to 8 is ignored.
    pub(crate) fn ring(&self, offset: u32, value: u64) {
        if let Some(bar) = self.bar.try_access() {
            let _ = bar.write64(offset as usize, value);
        }
    }

    /// Rings the doorbell at byte `offset` with one 32-bit store, as the IH requires.
    pub(crate) fn ring32(&self, offset: u32, value: u32) {
        if let Some(bar) = self.bar.try_access() {
            let _ = bar.write32(offset as usize, value);
        }
    }

    /// The page frame at byte `offset`, for mapping into user space.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `offset` is outside the BAR.
    pub(crate) fn pfn(&self, offset: u32) -> Result<usize> {
        if u64::from(offset) >= self.size {
            return Err(EINVAL);
        }
        Ok(((self.start + u64::from(offset)) >> kernel::page::PAGE_SHIFT) as usize)
    }

    /// The BAR as the GPU reaches it.
    pub(crate) fn dma(&self) -> &Arc<DmaResource> {
        &self.dma
    }

    /// The BAR's address on the bus.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// The size of the BAR in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }
}
