// SPDX-License-Identifier: GPL-2.0
//! A GPU: the sum of its layers, brought up in the order in which each needs the other.
//!
//! Each layer holds the one below it: [`Queues`] on [`Rings`] on [`Memory`] on [`Hardware`]. What lives longer than the
//! device is bound, as buffers do, holds its own layer and thus only those below.

use core::ops::Deref;

use kernel::device::Core;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::ip::Hardware;
use crate::mem::Memory;
use crate::queue::Queues;
use crate::ring::{Engines, Rings};

/// A GPU, kept by the PCI driver while bound, and by the processes that use it.
pub(crate) struct Gpu {
    /// The uppermost layer.
    pub(crate) queues: Arc<Queues>,
}

impl Gpu {
    /// Brings the GPU at `pdev`, which is enabled, up as far as it needs no interrupt and no memory but its own. ENODEV for
    /// one that the driver does not know or whose firmware is not up; errors of the parts.
    pub(crate) fn new(pdev: &pci::Device<Core<'_>>) -> Result<Arc<Self>> {
        let hw = Hardware::new(pdev)?;
        let memory = Memory::new(&hw)?;
        hw.bring_up_engines();
        let rings = Rings::new(&memory)?;
        let queues = Queues::new(&rings)?;
        Ok(Arc::new(Self { queues }, GFP_KERNEL)?)
    }

    /// Starts what runs by itself: the driver's own rings, and the scheduler of compute queues.
    pub(crate) fn start(&self) -> Result {
        self.ih.start();
        let slots: Arc<dyn Engines> = self.slots.clone();
        self.rings.start(&slots)?;
        self.queues.start()
    }

    /// Stops what runs by itself; the device is about to go. Nobody uses it any more.
    pub(crate) fn stop(&self) {
        self.evictor.stop();
        self.rings.stop();
        self.ih.stop();
        for (number, engine) in self.sdma.iter().enumerate() {
            if engine.stop().is_err() {
                dev_err!(self.dev, "sdma{number}: the engine does not stop\n");
            }
        }
        self.compute.stop();
        self.gfx.stop();
        // What a queue that hung still had, the engines no longer reach.
        self.slots.close();
        self.compute.close();
        self.vmids.watch(None);
        self.gmc.stop();
    }
}

impl Deref for Gpu {
    type Target = Queues;

    fn deref(&self) -> &Queues {
        &self.queues
    }
}
