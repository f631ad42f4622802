// SPDX-License-Identifier: GPL-2.0
//! The differences between versions of NBIO.

use kernel::device::Device;
use kernel::prelude::*;

use hw::doorbell::DoorbellLayout;
use hw::ip::{IpBlock, IpTable};

use super::super::version;
use crate::regs::nbio::{self as regs, rcc_dev0_epf0_strap0};
use crate::regs::{Register, RegisterWindow};

/// A version of NBIO.
pub(super) trait NbioHal: Send + Sync {
    /// Revision of the silicon (ATI_REV_ID).
    fn revision(&self, nbio: &RegisterWindow) -> u32;

    /// Routes the doorbells of SDMA engines and IH to them, as `layout` says; all others go to the
    /// CP.
    fn route_doorbells(&self, nbio: &RegisterWindow, layout: &DoorbellLayout);
}

/// NBIO 7.4.
struct NbioV7_4;

/// Doorbell ranges by SDMA engine.
const SDMA_RANGES: [Register; 5] = [
    regs::BIF_SDMA0_DOORBELL_RANGE,
    regs::BIF_SDMA1_DOORBELL_RANGE,
    regs::BIF_SDMA2_DOORBELL_RANGE,
    regs::BIF_SDMA3_DOORBELL_RANGE,
    regs::BIF_SDMA4_DOORBELL_RANGE,
];

impl NbioHal for NbioV7_4 {
    fn revision(&self, nbio: &RegisterWindow) -> u32 {
        rcc_dev0_epf0_strap0::ATI_REV_ID.get(nbio.read(regs::RCC_DEV0_EPF0_STRAP0))
    }

    fn route_doorbells(&self, nbio: &RegisterWindow, layout: &DoorbellLayout) {
        for (engine, reg) in (0..).zip(SDMA_RANGES) {
            if let Some(range) = layout.sdma_range(engine) {
                nbio.write(reg, range.bif());
            }
        }
        nbio.write(regs::BIF_IH_DOORBELL_RANGE, layout.ih_range().bif());
    }
}

/// The HAL of the GPU whose blocks are `ips`.
///
/// # Errors
///
/// `ENODEV` for a version that the driver does not know, which the log says.
pub(super) fn choose(dev: &Device, ips: IpTable<'_>) -> Result<&'static dyn NbioHal> {
    let known = ips.version(IpBlock::Nbio).ok_or(ENODEV)?;
    match (known.major, known.minor, known.rev) {
        (7, 4, 4) => Ok(&NbioV7_4),
        _ => Err(version::refuse(dev, "NBIO", known)),
    }
}
