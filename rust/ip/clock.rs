// SPDX-License-Identifier: GPL-2.0
//! The GPU's reference clock, latched by the RLC.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use hw::bits::join;
use hw::ip::{IpBlock, IpTable};

use crate::kern::mmio::Mmio;
use crate::regs::gc::{self as regs, rlc_capture_gpu_clock_count as capture};
use crate::regs::RegisterWindow;

/// The clock. The lock keeps one latch and its two reads together.
#[pin_data]
pub(crate) struct ReferenceClock {
    #[pin]
    regs: SpinLock<RegisterWindow>,
}

impl ReferenceClock {
    /// The clock of the GPU whose blocks are `ips`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the GPU has none.
    pub(crate) fn new(
        mmio: &Arc<Mmio>,
        ips: IpTable<'_>,
    ) -> Result<impl PinInit<Self, core::convert::Infallible>> {
        let window = RegisterWindow::new(mmio, ips, IpBlock::Gc, 0)?;
        Ok(pin_init!(Self {
            regs <- new_spinlock!(window, "ReferenceClock::regs"),
        }))
    }

    /// Ticks since reset, of the ASIC's reference clock.
    pub(crate) fn now(&self) -> u64 {
        let regs = self.regs.lock();
        regs.write(
            regs::RLC_CAPTURE_GPU_CLOCK_COUNT,
            capture::CAPTURE.flag(true),
        );
        let low = regs.read(regs::RLC_GPU_CLOCK_COUNT_LSB);
        join(low, regs.read(regs::RLC_GPU_CLOCK_COUNT_MSB))
    }
}
