// SPDX-License-Identifier: GPL-2.0
//! The fabric behind the windows PCIE_INDEX and PCIE_INDEX2, as far as it has no place in BAR5.

use std::sync::atomic::Ordering;

use crate::asic::Ranges;
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::nbio::fabric::Registers;
use crate::regs::Store;
use crate::smu::v13_0_6;

/// MP1_FIRMWARE_FLAGS, MI210's and MI300X's: INTERRUPTS_ENABLED in bit 0.
const FIRMWARE_FLAGS: u64 = 0x03b1_0024;
const FIRMWARE_FLAGS_13_0_6: u64 = 0x03b1_0028;
/// MP1_PUB_SCRATCH0, where MI300X's SMU has its version.
const SMU_VERSION_PLACE: u64 = 0x03b1_0090;
/// PCIE_LC_LINK_WIDTH_CNTL, with LC_LINK_WIDTH_RD in bits 6:4: x16.
const LINK_WIDTH: u64 = 0x1114_0288;
const X16: u32 = 6 << 4;
/// PCIE_LC_SPEED_CNTL, with the current rate in bits 7:5: 16 GT/s.
const LINK_SPEED: u64 = 0x1114_0290;
const GEN4: u32 = 3 << 5;
/// PCIE_ESM_CTRL: no extended speeds.
const EXTENDED_SPEED: u64 = 0x1110_03d0;

/// Returns whether the address exists.
pub fn exists(regs: &Store, address: u64) -> bool {
    match regs.asic.ranges {
        Ranges::Bif => matches!(
            address,
            FIRMWARE_FLAGS | LINK_WIDTH | LINK_SPEED | EXTENDED_SPEED
        ),
        Ranges::Fabric => {
            let aids = regs.layout().aids();
            matches!(address, FIRMWARE_FLAGS_13_0_6 | SMU_VERSION_PLACE)
                || Registers::has(address, aids)
        }
    }
}

/// Reads an address that exists.
pub fn read(gpu: &Gpu, address: u64) -> Result<u32> {
    match address {
        FIRMWARE_FLAGS | FIRMWARE_FLAGS_13_0_6 => Ok(gpu.smu.flags()),
        SMU_VERSION_PLACE => Ok(v13_0_6::VERSION),
        LINK_WIDTH => Ok(X16),
        LINK_SPEED => Ok(GEN4),
        EXTENDED_SPEED => Ok(0),
        _ => match gpu.nbio.fabric.at(address) {
            Some(register) => Ok(register.load(Ordering::Acquire)),
            None => Err(unknown("read", address)),
        },
    }
}

/// Writes an address that exists.
pub fn write(gpu: &Gpu, address: u64, value: u32) -> Result<()> {
    match gpu.nbio.fabric.at(address) {
        Some(register) => {
            register.store(value, Ordering::Release);
            Ok(())
        }
        None => Err(unknown("write", address)),
    }
}

/// The error for an access that is not supported.
fn unknown(access: &'static str, address: u64) -> ModelError {
    ModelError::Other(format!("{access} of the fabric at {address:#x}"))
}
