// SPDX-License-Identifier: GPL-2.0
//! The differences between versions of GC.

use kernel::device::Device;
use kernel::prelude::*;

use hw::asic::GfxGolden;
use hw::ip::{IpBlock, IpTable};

use super::super::version;
use super::golden;
use crate::regs::gc::SPI_GDBG_TRAP_DATA0;
use crate::regs::RegisterWindow;

/// A version of GC.
pub(super) trait GcHal: Send + Sync {
    /// Writes the golden settings of die `die` into the block `gc`, and sets the caches to
    /// distribute addresses over channels of memory as the fabric `df` does.
    fn apply_golden(&self, gc: &RegisterWindow, df: &RegisterWindow, golden: &GfxGolden, die: u32);

    /// Clears the data that waves may find in trap registers, where the block has such registers.
    fn clear_trap_data(&self, gc: &RegisterWindow);

    /// Has graphics slow down when the board signals that it takes too much power.
    fn heed_power_brake(&self, gc: &RegisterWindow);
}

/// GC 9.4.2.
struct GcV9_4_2;

impl GcHal for GcV9_4_2 {
    fn apply_golden(&self, gc: &RegisterWindow, df: &RegisterWindow, golden: &GfxGolden, die: u32) {
        golden::apply(gc, golden, die);
        golden::set_channels(gc, df);
    }

    fn clear_trap_data(&self, gc: &RegisterWindow) {
        for word in 0..2 {
            gc.write(SPI_GDBG_TRAP_DATA0.nth(word, 1), 0);
        }
    }

    fn heed_power_brake(&self, gc: &RegisterWindow) {
        golden::heed_power_brake(gc);
    }
}

/// The HAL of the GPU whose blocks are `ips`.
///
/// # Errors
///
/// `ENODEV` for a version that the driver does not know, which the log says.
pub(super) fn choose(dev: &Device, ips: IpTable<'_>) -> Result<&'static dyn GcHal> {
    let known = ips.version(IpBlock::Gc).ok_or(ENODEV)?;
    match (known.major, known.minor, known.rev) {
        (9, 4, 2) => Ok(&GcV9_4_2),
        _ => Err(version::refuse(dev, "GC", known)),
    }
}
