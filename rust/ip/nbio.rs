// SPDX-License-Identifier: GPL-2.0
//! NBIO 7: the PCI side of the chip. Doorbell routing, the VRAM BAR's enables, the HDP's flush
//! page.

mod hal;

use kernel::device::Device;
use kernel::prelude::*;
use kernel::sync::Arc;

use hw::asic::Asic;
use hw::bits::{hi, lo};
use hw::ip::{IpBlock, IpTable};

use super::halted::HaltedGpu;
use crate::kern::mmio::{Mmio, GONE};
use crate::regs::nbio::{
    self as regs, baco_cntl, doorbell_selfring_gpa_aper_cntl as selfring, interrupt_cntl,
    rcc_doorbell_aper_en,
};
use crate::regs::{bit, RegisterWindow};
use hal::NbioHal;

/// The block.
pub(crate) struct Nbio {
    regs: RegisterWindow,
    hal: &'static dyn NbioHal,
    asic: &'static Asic,
    /// The XCCs by their numbers on the chip, a bit each.
    xccs: u32,
}

impl Nbio {
    /// The block of the GPU whose blocks are `ips`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the GPU has none, or one of a version that the driver does not know.
    pub(crate) fn new(
        dev: &Device,
        mmio: &Arc<Mmio>,
        ips: IpTable<'_>,
        asic: &'static Asic,
    ) -> Result<Self> {
        Ok(Self {
            hal: hal::choose(dev, ips)?,
            asic,
            xccs: ips
                .of(IpBlock::Gc)
                .fold(0, |xccs, gc| xccs | bit(gc.number.into())),
            regs: RegisterWindow::new(mmio, ips, IpBlock::Nbio, 0)?,
        })
    }

    /// Bytes of VRAM (RCC_CONFIG_MEMSIZE).
    ///
    /// # Errors
    ///
    /// `ENODEV` if the register does not say, as on a card whose firmware is not up.
    pub(crate) fn vram_size(&self) -> Result<u64> {
        match self.regs.read(regs::RCC_CONFIG_MEMSIZE) {
            0 | GONE => Err(ENODEV),
            mib => Ok(u64::from(mib) << 20),
        }
    }

    /// Revision of the silicon (ATI_REV_ID).
    pub(crate) fn revision(&self) -> u32 {
        self.hal.revision(&self.regs)
    }

    /// Checks that the GPU is one, with one memory.
    ///
    /// # Errors
    ///
    /// `ENODEV` for one that is partitioned, which the log says.
    pub(super) fn check_partitioning(&self, dev: &Device) -> Result {
        let found = self.hal.partitioning(&self.regs);
        if found.is_whole() {
            return Ok(());
        }
        dev_err!(
            dev,
            "the GPU is partitioned ({}): this driver drives it as a whole (SPX, NPS1)\n",
            format_args!("{found}")
        );
        Err(ENODEV)
    }

    /// Opens the doorbell BAR and places the HDP's flush page. `doorbells` is the bus address of
    /// the doorbell BAR: the GPU's own stores to it reach the doorbells without leaving the chip.
    /// No part of the GPU does that yet.
    pub(super) fn bring_up(&self, _: &HaltedGpu<'_>, doorbells: u64) {
        let r = &self.regs;
        r.update(
            regs::BACO_CNTL,
            &[(baco_cntl::BACO_EN, 0), (baco_cntl::BACO_DUMMY_EN, 0)],
        );
        r.write(regs::REMAP_HDP_MEM_FLUSH_CNTL, self.asic.hdp_page);
        r.write(regs::REMAP_HDP_REG_FLUSH_CNTL, self.asic.hdp_page + 4);
        self.hal.route_doorbells(r, &self.asic.doorbells, self.xccs);
        r.write(
            regs::RCC_DOORBELL_APER_EN,
            rcc_doorbell_aper_en::BIF_DOORBELL_APER_EN.flag(true),
        );
        r.write(regs::DOORBELL_SELFRING_GPA_APER_BASE_LOW, lo(doorbells));
        r.write(regs::DOORBELL_SELFRING_GPA_APER_BASE_HIGH, hi(doorbells));
        r.write(
            regs::DOORBELL_SELFRING_GPA_APER_CNTL,
            selfring::EN.flag(true) | selfring::MODE.flag(true),
        );
    }

    /// Closes the doorbell BAR, as the next driver expects it (amdgpu: soc15_common_hw_fini).
    pub(crate) fn close_doorbells(&self) {
        self.regs.write(regs::DOORBELL_SELFRING_GPA_APER_CNTL, 0);
        self.regs.write(regs::RCC_DOORBELL_APER_EN, 0);
    }

    /// Sends interrupts without the dummy read that chips without MSI need; `dummy` is the bus
    /// address of a page to which that read could go.
    pub(crate) fn setup_interrupts(&self, dummy: u64) {
        self.regs.write(regs::INTERRUPT_CNTL2, (dummy >> 8) as u32);
        self.regs.update(
            regs::INTERRUPT_CNTL,
            &[
                (interrupt_cntl::IH_DUMMY_RD_OVERRIDE, 0),
                (interrupt_cntl::IH_REQ_NONSNOOP_EN, 0),
            ],
        );
    }
}
