// SPDX-License-Identifier: GPL-2.0
//! ATHUB: which process (PASID) a VMID belongs to.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::Delta;

use hw::ip::{IpBlock, IpTable};

use super::vmid::Vmid;
use crate::kern::mmio::Mmio;
use crate::regs::athub::{atc_vmid0_pasid_mapping as mapping, MappingPlaces};
use crate::regs::hub::VMIDS;
use crate::regs::{bit, Register, RegisterWindow};

/// The block. Mappings of different VMIDs are independent of each other: each has registers of its
/// own, and bits of the status, which are cleared one by one. The owner of a VMID serialises its
/// mappings.
pub(crate) struct Athub {
    regs: RegisterWindow,
    places: &'static MappingPlaces,
}

impl Athub {
    /// The block of the GPU whose blocks are `ips`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the GPU has none.
    pub(crate) fn new(mmio: &Arc<Mmio>, ips: IpTable<'_>) -> Result<Self> {
        let regs = RegisterWindow::new(mmio, ips, IpBlock::Athub, 0)?;
        Ok(Self {
            places: MappingPlaces::of(regs.version()),
            regs,
        })
    }

    /// Maps `vmid` to `pasid` for the clients of both hubs, or to no process. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if the block does not take the mapping within 100 ms.
    pub(crate) fn map(&self, vmid: Vmid, pasid: Option<u16>) -> Result {
        let value = pasid.map_or(0, |pasid| {
            mapping::PASID.put(pasid.into()) | mapping::VALID.flag(true)
        });
        let n = u32::from(vmid.get());
        self.set(self.places.first.nth(n, 1), value, bit(n))?;
        match self.places.first_of_mmhub {
            Some(first) => self.set(first.nth(n, 1), value, bit(VMIDS + n)),
            None => Ok(()),
        }
    }

    /// The process that `vmid` is mapped to for GFXHUB's clients.
    pub(crate) fn process(&self, vmid: Vmid) -> Option<u16> {
        let n = u32::from(vmid.get());
        let value = self.regs.read(self.places.first.nth(n, 1));
        let is_mapped = mapping::VALID.is_set(value) && self.regs.is_present();
        is_mapped.then(|| mapping::PASID.get(value) as u16)
    }

    fn set(&self, reg: Register, value: u32, finished: u32) -> Result {
        let status = self.places.status;
        self.regs.write(reg, value);
        kernel::io::poll::read_poll_timeout(
            || Ok(self.regs.read(status)),
            |status| status & finished != 0,
            Delta::ZERO,
            Delta::from_millis(100),
        )?;
        self.regs.write(status, finished);
        Ok(())
    }
}
