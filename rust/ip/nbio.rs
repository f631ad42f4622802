// SPDX-License-Identifier: GPL-2.0
//! NBIO 7.4: the PCI side of the chip. Doorbell routing, the VRAM BAR's enables, the HDP's flush page.

use kernel::prelude::*;
use kernel::sync::Arc;

use hw::bits::{hi, lo};
use hw::doorbell::{sdma_range, IH_RANGE};
use hw::ip::{IpBlock, IpInfo, GFX90A_SDMA_ENGINES};

use super::halted::HaltedGpu;
use crate::kern::mmio::{Mmio, GONE};
use crate::regs::nbio::{
    self as regs, baco_cntl, doorbell_selfring_gpa_aper_cntl as selfring, interrupt_cntl,
    rcc_dev0_epf0_strap0, rcc_doorbell_aper_en,
};
use crate::regs::{Register, RegisterWindow};

/// Where in BAR5 the HDP's flush registers are made to appear: a page of its own, which user space may map.
pub(crate) const HDP_PAGE: u32 = 0x7_f000;

const SDMA_RANGES: [Register; GFX90A_SDMA_ENGINES] = [
    regs::BIF_SDMA0_DOORBELL_RANGE,
    regs::BIF_SDMA1_DOORBELL_RANGE,
    regs::BIF_SDMA2_DOORBELL_RANGE,
    regs::BIF_SDMA3_DOORBELL_RANGE,
    regs::BIF_SDMA4_DOORBELL_RANGE,
];

/// The block.
pub(crate) struct Nbio {
    regs: RegisterWindow,
}

impl Nbio {
    /// The block of the ASIC whose blocks are `ips`; ENODEV if it has none.
    pub(crate) fn new(mmio: &Arc<Mmio>, ips: &'static [IpInfo]) -> Result<Self> {
        Ok(Self {
            regs: RegisterWindow::new(mmio, ips, IpBlock::Nbio, 0)?,
        })
    }

    /// Bytes of VRAM (RCC_CONFIG_MEMSIZE); ENODEV if the card does not say, as one whose firmware is not up.
    pub(crate) fn vram_size(&self) -> Result<u64> {
        match self.regs.read(regs::RCC_CONFIG_MEMSIZE) {
            0 | GONE => Err(ENODEV),
            mib => Ok(u64::from(mib) << 20),
        }
    }

    /// Revision of the silicon (ATI_REV_ID).
    pub(crate) fn revision(&self) -> u32 {
        rcc_dev0_epf0_strap0::ATI_REV_ID.get(self.regs.read(regs::RCC_DEV0_EPF0_STRAP0))
    }

    /// Opens the doorbell BAR and places the HDP's flush page. `doorbells` is the bus address of the doorbell
    /// BAR: what the GPU itself stores there goes to the doorbells without leaving the chip. Nothing of it does that yet.
    pub(super) fn bring_up(&self, _: &HaltedGpu<'_>, doorbells: u64) {
        let r = &self.regs;
        r.update(
            regs::BACO_CNTL,
            &[(baco_cntl::BACO_EN, 0), (baco_cntl::BACO_DUMMY_EN, 0)],
        );
        r.write(regs::REMAP_HDP_MEM_FLUSH_CNTL, HDP_PAGE);
        r.write(regs::REMAP_HDP_REG_FLUSH_CNTL, HDP_PAGE + 4);
        for (engine, reg) in SDMA_RANGES.into_iter().enumerate() {
            if let Some(range) = sdma_range(engine as u8) {
                r.write(reg, range);
            }
        }
        r.write(regs::BIF_IH_DOORBELL_RANGE, IH_RANGE);
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

    /// Interrupts go without the dummy read that chips without MSI need; `dummy` is the bus address of a page
    /// that it could go to.
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
