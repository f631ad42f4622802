// SPDX-License-Identifier: GPL-2.0
//! HDP 4.4: the path of the CPU's accesses to VRAM, which holds stores back until it is flushed.

use kernel::device::{Bound, Device};
use kernel::prelude::*;
use kernel::sync::Arc;

use hw::ip::{Block, Ip};
use hw::va::PAGE_SIZE;

use super::nbio::HDP_PAGE;
use crate::kern::barrier;
use crate::kern::dma_resource::DmaResource;
use crate::kern::mmio::Mmio;
use crate::regs::hdp as regs;
use crate::regs::Window;

/// The block.
pub(crate) struct Hdp {
    mmio: Arc<Mmio>,
    page: Arc<DmaResource>,
    regs: Window,
}

impl Hdp {
    /// The block of the ASIC whose blocks are `ips`; ENODEV if it has none, ENOMEM.
    pub(crate) fn new(dev: &Device<Bound>, mmio: &Arc<Mmio>, ips: &'static [Ip]) -> Result<Self> {
        let page = DmaResource::new(dev, mmio.address(HDP_PAGE.into())?, PAGE_SIZE)?;
        Ok(Self {
            mmio: mmio.clone(),
            page: Arc::new(page, GFP_KERNEL)?,
            regs: Window::new(mmio, ips, Block::Hdp, 0)?,
        })
    }

    /// Earlier stores of the CPU to VRAM are visible to the GPU after it. Any context.
    pub(crate) fn flush(&self) {
        barrier::wmb();
        self.mmio.write(HDP_PAGE / 4, 0);
    }

    /// Loads of VRAM by the CPU after it see what the GPU has stored before. Any context.
    pub(crate) fn invalidate(&self) {
        self.regs.write(regs::HDP_READ_CACHE_INVALIDATE, 1);
    }

    /// The page of the flush registers as the GPU reaches it.
    pub(crate) fn page(&self) -> &Arc<DmaResource> {
        &self.page
    }

    /// The page frame of the flush registers, for user space (KFD's MMIO_REMAP): MEM flush at 0, REG flush
    /// at 4.
    pub(crate) fn remap_pfn(&self) -> Result<usize> {
        self.mmio.pfn(HDP_PAGE.into())
    }
}
