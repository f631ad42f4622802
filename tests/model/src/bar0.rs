// SPDX-License-Identifier: GPL-2.0
//! BAR0: the driver's way to VRAM, which the HDP has to lead there.
//!
//! The client has mapped VRAM, so that nothing of what goes through the BAR is seen; where the registers lead
//! elsewhere is, and ends the run where it would matter.

use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::memory::{Phys, Space};
use crate::regs::{hdp, mmhub, Reg};

impl Gpu {
    /// Whether the HDP leads byte 0 of BAR0 to the first byte of VRAM.
    pub fn bar0_is_vram(&self) -> bool {
        let base = u64::from(self.regs.get(hdp::HDP_NONSURFACE_BASE)) << 8
            | u64::from(self.regs.get(hdp::HDP_NONSURFACE_BASE_HI)) << 40;
        base == u64::from(self.regs.get(mmhub::MC_VM_FB_LOCATION_BASE)) << 24
    }

    /// The PSP gets an address: of memory that the driver has written through BAR0, or that tables lead to which it has.
    pub fn check_bar0(&self) -> Result<()> {
        if self.bar0_is_vram() {
            return Ok(());
        }
        Err(ModelError::Other(
            "the PSP is given an address, but HDP_NONSURFACE_BASE does not lead BAR0 to VRAM"
                .into(),
        ))
    }

    /// `reg` was written: BAR0 goes on to lead to VRAM as long as tables there are in use.
    pub(crate) fn check_lead(&self, reg: Reg, value: u32) -> Result<()> {
        let leads = [hdp::HDP_NONSURFACE_BASE, hdp::HDP_NONSURFACE_BASE_HI].contains(&reg);
        let mut hubs = HubId::ALL.into_iter();
        if leads && !self.bar0_is_vram() && hubs.any(|id| self.hub(id).has_tables(&self.regs)) {
            let reason = "it leads BAR0 away from VRAM, where the tables of enabled contexts are";
            return Err(self.regs.refuse(reg, value, reason));
        }
        Ok(())
    }

    /// BAR0 without a mapping of the client: reads VRAM.
    pub fn read_vram(&self, addr: u64, data: &mut [u8]) -> Result<()> {
        self.bus.view().read(in_vram(addr), data)
    }

    /// BAR0 without a mapping of the client: writes VRAM.
    pub fn write_vram(&self, addr: u64, data: &[u8]) -> Result<()> {
        self.bus.view().write(in_vram(addr), data)
    }
}

fn in_vram(addr: u64) -> Phys {
    let space = Space::Vram;
    Phys { space, addr }
}
