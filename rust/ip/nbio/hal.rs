// SPDX-License-Identifier: GPL-2.0
//! The differences between versions of NBIO.

use kernel::device::Device;
use kernel::prelude::*;

use hw::doorbell::{DoorbellLayout, DoorbellPort};
use hw::ip::{IpBlock, IpTable};
use hw::partition::Partitioning;

use super::super::version;
use crate::regs::nbio::{
    self as regs, partition_compute_status, partition_mem_status, rcc_dev0_epf0_strap0,
    xcc_doorbell_fence,
};
use crate::regs::{Register, RegisterWindow};

/// A version of NBIO.
pub(super) trait NbioHal: Send + Sync {
    /// Revision of the silicon (ATI_REV_ID).
    fn revision(&self, nbio: &RegisterWindow) -> u32;

    /// The partitions that the card has been divided into.
    fn partitioning(&self, nbio: &RegisterWindow) -> Partitioning;

    /// Routes the doorbells of SDMA engines and IH to them, as `layout` says; all others go to the
    /// CPs of `xccs`, a bit for each by its number on the chip.
    fn route_doorbells(&self, nbio: &RegisterWindow, layout: &DoorbellLayout, xccs: u32);
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

    // It has one XCC.
    fn partitioning(&self, _: &RegisterWindow) -> Partitioning {
        Partitioning::default()
    }

    fn route_doorbells(&self, nbio: &RegisterWindow, layout: &DoorbellLayout, _: u32) {
        for (engine, reg) in (0..).zip(SDMA_RANGES) {
            if let Some(range) = layout.sdma_range(engine) {
                nbio.write(reg, range.bif());
            }
        }
        nbio.write(regs::BIF_IH_DOORBELL_RANGE, layout.ih_range().bif());
    }
}

/// NBIO 7.9, of all AIDs: the first one's is the only one in the register BAR.
struct NbioV7_9;

/// The ports of an AID's SDMA engines, by their distance from port 1, and that of the IH.
const SDMA_PORTS: [u32; 4] = [0, 1, 4, 5];
const IH_PORT: u32 = 2;
/// All blocks, and all interrupts (nbio_v7_9.c).
const ALL_BLOCKS: u32 = 0xf_ffff;
const ALL_INTERRUPTS: u32 = 0x7ff;

/// Bits 39:32 of an address on AID `aid` of the chip's own network
/// (aqua_vanjaram_encode_ext_smn_addressing of amdgpu).
const fn far_die(aid: u32) -> u32 {
    match aid {
        0 => 0,
        _ => 4 | aid,
    }
}

/// Writes `reg` of AID `aid`, which is outside of the register BAR: over the chip's own network, as
/// bytes (amdgpu: amdgpu_device_indirect_wreg_ext).
fn write_far(nbio: &RegisterWindow, aid: u32, reg: Register, value: u32) {
    if let Some(byte) = nbio.dword(reg).and_then(|dword| dword.checked_mul(4)) {
        nbio.write(regs::PCIE_INDEX2, byte);
        if aid != 0 {
            nbio.write(regs::PCIE_INDEX2_HI, far_die(aid));
        }
        nbio.write(regs::PCIE_DATA2, value);
        if aid != 0 {
            nbio.write(regs::PCIE_INDEX2_HI, 0);
        }
    }
}

impl NbioHal for NbioV7_9 {
    fn revision(&self, nbio: &RegisterWindow) -> u32 {
        rcc_dev0_epf0_strap0::ATI_REV_ID.get(nbio.read(regs::RCC_DEV0_EPF0_STRAP0_7_9))
    }

    fn partitioning(&self, nbio: &RegisterWindow) -> Partitioning {
        use {partition_compute_status as compute, partition_mem_status as memory};
        Partitioning {
            compute: compute::PARTITION_MODE.get(nbio.read(regs::PARTITION_COMPUTE_STATUS)),
            memory: memory::NPS_MODE.get(nbio.read(regs::PARTITION_MEM_STATUS)),
        }
    }

    fn route_doorbells(&self, nbio: &RegisterWindow, layout: &DoorbellLayout, xccs: u32) {
        let fenced = xcc_doorbell_fence::XCCS.put(!xccs & xcc_doorbell_fence::XCCS.max());
        write_far(nbio, 0, regs::XCC_DOORBELL_FENCE, fenced);
        write_far(nbio, 0, regs::BIFC_GFX_INT_MONITOR_MASK, ALL_INTERRUPTS);
        write_far(nbio, 0, regs::BIFC_DOORBELL_ACCESS_EN_PF, ALL_BLOCKS);
        let of_aid = SDMA_PORTS.len() as u8;
        for aid in 1..u32::from(layout.sdma_engines.div_ceil(of_aid)) {
            let slave = xcc_doorbell_fence::SHUB_SLV_MODE.flag(true);
            write_far(nbio, aid, regs::XCC_DOORBELL_FENCE, slave);
        }
        let entry = |n| regs::DOORBELL0_CTRL_ENTRY_0.nth(n, 1);
        let port = |n| regs::S2A_DOORBELL_ENTRY_1_CTRL.nth(n, 1);
        let ports = DoorbellPort::SDMA.into_iter().zip(SDMA_PORTS).cycle();
        for (engine, (of_engine, n)) in (0..layout.sdma_engines).zip(ports) {
            if let Some(range) = layout.sdma_range(engine) {
                let aid = u32::from(engine / of_aid);
                write_far(nbio, 0, entry(1 + u32::from(engine)), range.entry());
                write_far(nbio, aid, port(n), of_engine.control(range));
            }
        }
        let range = layout.ih_range();
        write_far(nbio, 0, entry(0), range.entry());
        write_far(nbio, 0, port(IH_PORT), DoorbellPort::IH.control(range));
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
        (7, 9, 0) => Ok(&NbioV7_9),
        _ => Err(version::refuse(dev, "NBIO", known)),
    }
}
