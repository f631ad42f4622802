// SPDX-License-Identifier: GPL-2.0
//! BAR0: the driver's path to VRAM, which the HDP has to route there.
//!
//! The client has mapped VRAM, so accesses through the BAR are invisible here. Registers that route
//! them elsewhere are visible, and end the run where it would matter.

use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::memory::{Phys, Space};
use crate::regs::{hdp, mmhub, Reg};

impl Gpu {
    /// Returns whether the HDP routes byte 0 of BAR0 to the first byte of VRAM.
    pub fn bar0_is_vram(&self) -> bool {
        let base = u64::from(self.regs.get(hdp::HDP_NONSURFACE_BASE)) << 8
            | u64::from(self.regs.get(hdp::HDP_NONSURFACE_BASE_HI)) << 40;
        base == self.vram_base()
    }

    /// MC address of the first byte of this GPU's own VRAM.
    pub fn vram_base(&self) -> u64 {
        let first = u64::from(self.regs.get(mmhub::MC_VM_FB_LOCATION_BASE)) << 24;
        first + self.hive.start()
    }

    /// Checks BAR0 when the PSP gets an address: the driver has written the memory there, or the
    /// tables that lead to it, through BAR0.
    pub fn check_bar0(&self) -> Result<()> {
        if self.bar0_is_vram() {
            return Ok(());
        }
        Err(ModelError::Other(
            "the PSP is given an address, but HDP_NONSURFACE_BASE does not lead BAR0 to VRAM"
                .into(),
        ))
    }

    /// Checks a write to `reg`: BAR0 must continue to lead to VRAM as long as tables there are in
    /// use.
    pub(crate) fn check_lead(&self, reg: Reg, value: u32) -> Result<()> {
        let leads = [hdp::HDP_NONSURFACE_BASE, hdp::HDP_NONSURFACE_BASE_HI].contains(&reg);
        let mut hubs = HubId::ALL.into_iter();
        if leads && !self.bar0_is_vram() && hubs.any(|id| self.hub(id).has_tables(&self.regs)) {
            let reason = "it leads BAR0 away from VRAM, where the tables of enabled contexts are";
            return Err(self.regs.refuse(reg, value, reason));
        }
        Ok(())
    }

    /// Reads VRAM, for BAR0 without a mapping of the client.
    pub fn read_vram(&self, addr: u64, data: &mut [u8]) -> Result<()> {
        self.bus.view().read(in_vram(addr), data)
    }

    /// Writes VRAM, for BAR0 without a mapping of the client.
    pub fn write_vram(&self, addr: u64, data: &[u8]) -> Result<()> {
        self.bus.view().write(in_vram(addr), data)
    }
}

fn in_vram(addr: u64) -> Phys {
    let space = Space::Vram;
    Phys { space, addr }
}
