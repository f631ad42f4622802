// SPDX-License-Identifier: GPL-2.0
//! Halts everything that a previous driver has left running, before the GPU's path to memory
//! changes in any way. Engines and the interrupt ring would otherwise continue with the previous
//! driver's addresses, which new tables, or bus mastering, would lead to memory of another owner.
//!
//! amdgpu halts its engines when it is unbound (sdma_v4_0_hw_fini, gfx_v9_0_hw_fini,
//! vega20_ih_irq_disable). If a driver ended without that, amdgpu halts them before it starts them
//! again, which is after it has set up its hubs and its GART; it resets such a GPU first in virtual
//! machines only (soc15_need_reset_on_init). With GC 9.4.2 it leaves the RLC running when it is
//! unbound.

use kernel::device::Device;
use kernel::prelude::*;
use kernel::sync::Arc;

use hw::firmware::state::RunningEngines;
use hw::ip::{IpBlock, IpTable};

use super::gfx::Gfx;
use super::ih::registers;
use super::rlc::Rlc;
use super::sdma::Sdma;
use crate::kern::mmio::Mmio;
use crate::regs::RegisterWindow;

/// A GPU whose engines are all halted, and stay so until they are started. Code that changes the
/// GPU's path to memory reaches the registers through this.
pub(super) struct HaltedGpu<'a> {
    mmio: &'a Arc<Mmio>,
    ips: IpTable<'a>,
}

/// The engines that may be at work.
pub(super) struct EngineSet<'a> {
    /// The SDMA engines.
    pub(super) sdma: &'a [Arc<Sdma>],
    /// The command processor.
    pub(super) gfx: &'a Gfx,
    /// The block that keeps its clocks.
    pub(super) rlc: &'a Rlc,
}

impl<'a> HaltedGpu<'a> {
    /// Halts the `engines` and turns the interrupt ring off, if any of that is `running`; nothing
    /// is written otherwise. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the GPU whose blocks are `ips` has no interrupt ring; `EIO` for an engine that
    /// does not stop: the log says so.
    pub(super) fn halt(
        dev: &Device,
        mmio: &'a Arc<Mmio>,
        ips: IpTable<'a>,
        running: &RunningEngines,
        engines: &EngineSet<'_>,
    ) -> Result<Self> {
        let rest = Self { mmio, ips };
        if !running.any() {
            return Ok(rest);
        }
        dev_warn!(
            dev,
            "a driver went and left running: {}\n",
            format_args!("{running}")
        );
        // All engines are halted, even if one of them does not stop.
        let stuck = engines
            .sdma
            .iter()
            .enumerate()
            .filter(|(_, engine)| engine.stop().is_err())
            .fold(None, |first, (number, _)| first.or(Some(number)));
        engines.gfx.stop();
        engines.gfx.drop_queues();
        engines.rlc.stop();
        registers::turn_off(&RegisterWindow::new(mmio, ips, IpBlock::Osssys, 0)?);
        match stuck {
            None => Ok(rest),
            Some(number) => {
                dev_err!(
                    dev,
                    "sdma{number}, which a driver has left running, does not stop: \
                     reset the device, or switch the machine off and on\n"
                );
                Err(EIO)
            }
        }
    }
    /// Its registers, and the blocks of its ASIC.
    pub(super) fn registers(&self) -> (&'a Arc<Mmio>, IpTable<'a>) {
        (self.mmio, self.ips)
    }
}
