// SPDX-License-Identifier: GPL-2.0
//! The differences between versions of the VM hubs.

use kernel::device::Device;
use kernel::prelude::*;

use hw::ih::HubKind;
use hw::ip::{IpBlock, IpTable};

use super::super::version;
use crate::regs::{gc, mmhub, Register, RegisterWindow};

/// A version of the hubs.
pub(super) trait HubHal: Send + Sync {
    /// The first register of hub `which`, VM_L2_CNTL: contexts, invalidation and faults.
    fn first(&self, which: HubKind) -> Register;

    /// The register of hub `which` from which the offsets of apertures count (MC_VM_*).
    fn apertures(&self, which: HubKind) -> Register;

    /// The register of the hub of graphics from which the offsets of MC_VM_XGMI_* count.
    fn xgmi(&self) -> Register;

    /// Sets up the hub of SDMA, `regs`, beyond translation: accesses of SDMA snoop.
    fn snoop_sdma(&self, regs: &RegisterWindow);
}

/// The hubs of gfx 9.4.2.
struct HubV9_4_2;

impl HubHal for HubV9_4_2 {
    fn first(&self, which: HubKind) -> Register {
        match which {
            HubKind::Gfx => gc::VM_L2_CNTL,
            HubKind::Mm => mmhub::VM_L2_CNTL,
        }
    }

    fn apertures(&self, which: HubKind) -> Register {
        self.first(which)
    }

    fn xgmi(&self) -> Register {
        self.apertures(HubKind::Gfx)
    }

    fn snoop_sdma(&self, regs: &RegisterWindow) {
        snoop_in_each_group(
            regs,
            [
                mmhub::DAGB0_WRCLI_GPU_SNOOP_OVERRIDE,
                mmhub::DAGB0_WRCLI_GPU_SNOOP_OVERRIDE_VALUE,
            ],
        );
    }
}

/// Sets SDMA's bit of the two registers of every group, of which `first` are those of group 0.
fn snoop_in_each_group(regs: &RegisterWindow, first: [Register; 2]) {
    for group in 0..mmhub::DAGBS {
        for reg in first {
            regs.update(
                reg.nth(group, mmhub::DAGB_STRIDE),
                &[(mmhub::dagb_snoop::SDMA, 1)],
            );
        }
    }
}

/// GFXHUB 1.2 and MMHUB 1.8, of gfx 9.4.3.
struct HubV1_8;

impl HubHal for HubV1_8 {
    fn first(&self, which: HubKind) -> Register {
        match which {
            HubKind::Gfx => gc::VM_L2_CNTL_9_4_3,
            HubKind::Mm => mmhub::VM_L2_CNTL_1_8,
        }
    }

    fn apertures(&self, which: HubKind) -> Register {
        self.first(which).before(4)
    }

    fn xgmi(&self) -> Register {
        self.first(HubKind::Gfx).before(1)
    }

    fn snoop_sdma(&self, regs: &RegisterWindow) {
        snoop_in_each_group(
            regs,
            [
                mmhub::DAGB0_WRCLI_GPU_SNOOP_OVERRIDE_1_8,
                mmhub::DAGB0_WRCLI_GPU_SNOOP_OVERRIDE_VALUE_1_8,
            ],
        );
    }
}

/// The HAL of the GPU whose blocks are `ips`.
///
/// # Errors
///
/// `ENODEV` for a version that the driver does not know, which the log says.
pub(super) fn choose(dev: &Device, ips: IpTable<'_>) -> Result<&'static dyn HubHal> {
    let known = ips.version(IpBlock::Mmhub).ok_or(ENODEV)?;
    match (known.major, known.minor, known.rev) {
        (9, 4, 2) => Ok(&HubV9_4_2),
        (1, 8, 0) => Ok(&HubV1_8),
        _ => Err(version::refuse(dev, "MMHUB", known)),
    }
}
