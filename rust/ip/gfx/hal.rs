// SPDX-License-Identifier: GPL-2.0
//! The differences between versions of GC.

use kernel::device::Device;
use kernel::prelude::*;

use hw::asic::GfxGolden;
use hw::ip::{IpBlock, IpTable};

use super::super::version;
use super::golden;
use crate::regs::gc::{cp_hyp_xcp_ctl, CP_HYP_XCP_CTL, SPI_GDBG_TRAP_DATA0};
use crate::regs::RegisterWindow;

/// A version of GC.
pub(super) trait GcHal: Send + Sync {
    /// Writes the golden settings of die `die` into the block `gc`, and sets the caches to
    /// distribute addresses over channels of memory as the fabric `df` does.
    fn apply_golden(
        &self,
        gc: &RegisterWindow,
        df: Option<&RegisterWindow>,
        golden: &GfxGolden,
        die: u32,
    );

    /// Has the XCC run its queues together with others: it is at `place` among `xccs` of them.
    fn work_together(&self, gc: &RegisterWindow, place: u32, xccs: u32);

    /// Clears the data that waves may find in trap registers, where the block has such registers.
    fn clear_trap_data(&self, gc: &RegisterWindow);

    /// Has graphics slow down when the board signals that it takes too much power.
    fn heed_power_brake(&self, gc: &RegisterWindow);
}

/// GC 9.4.2.
struct GcV9_4_2;

impl GcHal for GcV9_4_2 {
    fn apply_golden(
        &self,
        gc: &RegisterWindow,
        df: Option<&RegisterWindow>,
        golden: &GfxGolden,
        die: u32,
    ) {
        golden::apply(gc, golden, die);
        if let Some(df) = df {
            golden::set_channels(gc, df);
        }
    }

    // It has one.
    fn work_together(&self, _: &RegisterWindow, _: u32, _: u32) {}

    fn clear_trap_data(&self, gc: &RegisterWindow) {
        for word in 0..2 {
            gc.write(SPI_GDBG_TRAP_DATA0.nth(word, 1), 0);
        }
    }

    fn heed_power_brake(&self, gc: &RegisterWindow) {
        golden::heed_power_brake(gc);
    }
}

/// GC 9.4.3. Its caches know the channels of memory, it has no trap data, and the SMU brakes it.
struct GcV9_4_3;

impl GcHal for GcV9_4_3 {
    fn apply_golden(
        &self,
        gc: &RegisterWindow,
        _: Option<&RegisterWindow>,
        golden: &GfxGolden,
        die: u32,
    ) {
        golden::apply(gc, golden, die);
    }

    // gfx_v9_4_3_switch_compute_partition, where no PSP does it.
    fn work_together(&self, gc: &RegisterWindow, place: u32, xccs: u32) {
        gc.update(
            CP_HYP_XCP_CTL,
            &[
                (cp_hyp_xcp_ctl::VIRTUAL_XCC_ID, place),
                (cp_hyp_xcp_ctl::NUM_XCC_IN_XCP, xccs),
            ],
        );
    }

    fn clear_trap_data(&self, _: &RegisterWindow) {}

    fn heed_power_brake(&self, _: &RegisterWindow) {}
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
        (9, 4, 3) => Ok(&GcV9_4_3),
        _ => Err(version::refuse(dev, "GC", known)),
    }
}
