// SPDX-License-Identifier: GPL-2.0
//! A GPU: the sum of its layers, brought up in the order in which each needs the other.
//!
//! Each layer holds those below it: [`Queues`] on [`Rings`] on [`Memory`] on [`Hardware`]. What lives longer than the
//! device is bound, as buffers do, holds its own layer and thus only those below.

use kernel::device::Core;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::firmware::{self, Loaded};
use crate::health::{Part, Wedged};
use crate::ip::Hardware;
use crate::mem::Memory;
use crate::queue::Queues;
use crate::ring::{Engines, Rings};

/// A GPU, kept by the PCI driver while bound, and by the processes that use it.
pub(crate) struct Gpu {
    /// The queues of processes.
    pub(crate) queues: Arc<Queues>,
    /// The driver's own rings.
    pub(crate) rings: Arc<Rings>,
    /// The memory.
    pub(crate) memory: Arc<Memory>,
    /// The hardware.
    pub(crate) hw: Arc<Hardware>,
}

impl Gpu {
    /// Brings the GPU at `pdev`, which is enabled, up as far as it needs no interrupt and no memory but its own. With it the firmware that
    /// its engines run, to be dropped between [`Gpu::stop`] and [`Gpu::close`]. ENODEV for one that the driver does not know or
    /// cannot use; errors of the parts.
    pub(crate) fn new(pdev: &pci::Device<Core<'_>>) -> Result<(Arc<Self>, Loaded)> {
        let hw = Hardware::new(pdev)?;
        let memory = Memory::new(&hw).inspect_err(|_| hw.close())?;
        // The firmware, which is still taken back by then, needs the hubs.
        Self::on(memory).inspect_err(|_| hw.close())
    }

    fn on(memory: Arc<Memory>) -> Result<(Arc<Self>, Loaded)> {
        let hw = memory.hw.clone();
        let firmware = firmware::load(&memory)?;
        hw.bring_up_engines();
        firmware.check_clock()?;
        let rings = Rings::new(&memory)?;
        let queues = Queues::new(&rings)?;
        let gpu = Self {
            queues,
            rings,
            memory,
            hw,
        };
        Ok((Arc::new(gpu, GFP_KERNEL)?, firmware))
    }

    /// Starts what runs by itself: the driver's own rings, and the scheduler of compute queues.
    pub(crate) fn start(&self) -> Result {
        self.hw.ih.start();
        let slots: Arc<dyn Engines> = self.queues.slots.clone();
        self.rings.start(&slots)?;
        self.memory.start_scrubbing()?;
        self.queues.start()
    }

    /// Stops what runs by itself; the device is about to go. Nobody uses it any more.
    pub(crate) fn stop(&self) {
        self.memory.evictor.stop();
        // As long as there are engines to copy what processes have there, and no process has the GPU.
        self.memory.shared_vram.close(&self.memory);
        // What other devices have in VRAM they cannot have any more.
        self.memory.bos.for_each(|bo| bo.take_back());
        self.memory.vram.scrubber().stop();
        self.rings.stop();
        self.hw.ih.stop();
        for (number, engine) in self.hw.sdma.iter().enumerate() {
            if engine.stop().is_err() {
                dev_err!(self.hw.dev, "sdma{number}: the engine does not stop\n");
                self.hw.health.wedge(Wedged {
                    part: Part::Sdma(number as u8),
                    suspect: None,
                });
            }
        }
        self.queues.compute.stop();
        self.hw.gfx.stop();
        // What a queue that hung still had, the engines no longer reach.
        self.queues.slots.close();
        self.queues.compute.close();
        self.hw.vmids.watch(None);
    }

    /// The way to it has failed: registers are not used any more, the driver's own jobs fail, and so who waits for either comes to an end. Nobody
    /// resets it. Bounded; sleeps.
    pub(crate) fn cut_off(&self) {
        self.hw.health.listen(None);
        self.hw.health.lose();
        self.hw.mmio.cut_off();
        self.rings.stop();
    }

    /// Turns translation off. Nothing of the device looks at memory any more.
    pub(crate) fn close(&self) {
        self.hw.close();
    }
}
