// SPDX-License-Identifier: GPL-2.0
//! HDP 4.4: the path of the CPU's accesses to VRAM, which holds stores back until it is flushed.

use kernel::device::{Bound, Device};
use kernel::prelude::*;
use kernel::sync::Arc;

use hw::bits::lo;
use hw::ip::{IpBlock, IpTable, IpVersion};
use hw::va::PAGE_SIZE;

use crate::kern::barrier;
use crate::kern::dma_resource::DmaResource;
use crate::kern::mmio::Mmio;
use crate::regs::hdp::{self as regs, hdp_misc_cntl as misc_cntl};
use crate::regs::nbio::RCC_CONFIG_MEMSIZE;
use crate::regs::RegisterWindow;

/// READ_BUFFER_WATERMARK that HDP of `version` wants, if it wants any (amdgpu:
/// hdp_v4_0_init_registers).
fn watermark(version: IpVersion) -> Option<u32> {
    match (version.major, version.minor, version.rev) {
        (4, 4, 0) => Some(2),
        _ => None,
    }
}

/// The block.
pub(crate) struct Hdp {
    mmio: Arc<Mmio>,
    /// Byte in BAR5 of the flush registers' page.
    place: u32,
    page: Arc<DmaResource>,
    regs: RegisterWindow,
    nbio: RegisterWindow,
}

impl Hdp {
    /// The block of the GPU whose blocks are `ips`, with the page of its flush registers at byte
    /// `place` of BAR5.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the GPU has none; `ENOMEM`.
    pub(crate) fn new(
        dev: &Device<Bound>,
        mmio: &Arc<Mmio>,
        ips: IpTable<'_>,
        place: u32,
    ) -> Result<Self> {
        let page = DmaResource::new(dev, mmio.address(place.into())?, PAGE_SIZE)?;
        Ok(Self {
            mmio: mmio.clone(),
            place,
            page: Arc::new(page, GFP_KERNEL)?,
            regs: RegisterWindow::new(mmio, ips, IpBlock::Hdp, 0)?,
            nbio: RegisterWindow::new(mmio, ips, IpBlock::Nbio, 0)?,
        })
    }

    /// Leads the VRAM BAR to VRAM, whose first byte is at MC address `vram`.
    pub(crate) fn bring_up(&self, vram: u64) {
        let flush = (misc_cntl::FLUSH_INVALIDATE_CACHE, 1);
        match watermark(self.regs.version()) {
            Some(mark) => self.regs.update(
                regs::HDP_MISC_CNTL,
                &[flush, (misc_cntl::READ_BUFFER_WATERMARK, mark)],
            ),
            None => self.regs.update(regs::HDP_MISC_CNTL, &[flush]),
        }
        self.regs.write(regs::HDP_NONSURFACE_BASE, lo(vram >> 8));
        self.regs
            .write(regs::HDP_NONSURFACE_BASE_HI, lo(vram >> 40));
    }

    /// Makes earlier stores of the CPU to VRAM visible to the GPU; loads after it see the GPU's
    /// earlier stores. Any context.
    pub(crate) fn flush(&self) {
        barrier::wmb();
        self.mmio.write(self.place / 4, 0);
        // The write has arrived when a read behind it is answered.
        self.nbio.read(RCC_CONFIG_MEMSIZE);
    }

    /// The page of the flush registers as the GPU reaches it.
    pub(crate) fn page(&self) -> &Arc<DmaResource> {
        &self.page
    }

    /// The page frame of the flush registers, for user space (KFD's MMIO_REMAP): MEM flush at 0,
    /// REG flush at 4.
    pub(crate) fn remap_pfn(&self) -> Result<usize> {
        self.mmio.pfn(self.place.into())
    }
}
