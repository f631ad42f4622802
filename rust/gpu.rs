// SPDX-License-Identifier: GPL-2.0
//! A GPU: the sum of its layers, brought up in the order in which each needs the other.
//!
//! Each layer holds those below it: [`GpuQueues`] on [`KernelRings`] on [`GpuMemory`] on [`Hardware`]. What lives longer than the
//! device is bound, as buffers do, holds its own layer and thus only those below.

use kernel::device::Core;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::firmware::files::FirmwareFiles;
use crate::firmware::{self, LoadedFirmware};
use crate::health::{WedgeReport, WedgedPart};
use crate::ip::Hardware;
use crate::mem::vram_image::VramImage;
use crate::mem::GpuMemory;
use crate::queue::GpuQueues;
use crate::ring::{KernelRings, RingEngines};

/// A GPU, kept by the PCI driver while bound, and by the processes that use it.
pub(crate) struct Gpu {
    /// The queues of processes.
    pub(crate) queues: Arc<GpuQueues>,
    /// The driver's own rings.
    pub(crate) rings: Arc<KernelRings>,
    /// The memory.
    pub(crate) memory: Arc<GpuMemory>,
    /// The hardware.
    pub(crate) hw: Arc<Hardware>,
}

impl Gpu {
    /// Brings the GPU at `pdev`, which is enabled, up as far as it needs no interrupt and no memory but its own. With it the firmware that
    /// its engines run, to be dropped between [`Gpu::stop`] and [`Gpu::close`]. ENODEV for one that the driver does not know or
    /// cannot use; errors of the parts.
    pub(crate) fn new(pdev: &pci::Device<Core<'_>>) -> Result<(Arc<Self>, LoadedFirmware)> {
        let hw = Hardware::new(pdev)?;
        let memory = GpuMemory::new(&hw).inspect_err(|_| hw.close())?;
        // The firmware, which is still taken back by then, needs the hubs.
        Self::on(memory).inspect_err(|_| hw.close())
    }

    fn on(memory: Arc<GpuMemory>) -> Result<(Arc<Self>, LoadedFirmware)> {
        let hw = memory.hw.clone();
        let firmware = firmware::load(&memory)?;
        hw.bring_up_engines();
        firmware.check_clock()?;
        let rings = KernelRings::new(&memory)?;
        let queues = GpuQueues::new(&rings)?;
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
        let slots: Arc<dyn RingEngines> = self.queues.slots.clone();
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
        self.memory.bos.for_each(|bo| bo.revoke_all());
        self.memory.vram.scrubber().stop();
        self.rings.stop();
        self.hw.ih.stop();
        for (number, engine) in self.hw.sdma.iter().enumerate() {
            if engine.stop().is_err() {
                dev_err!(self.hw.dev, "sdma{number}: the engine does not stop\n");
                self.hw.health.wedge(WedgeReport {
                    part: WedgedPart::Sdma(number as u8),
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
        self.hw.faults.set_owner(None);
    }

    /// Saves what VRAM holds in `image`, and stops what runs by itself; then takes the `firmware` from it. Registers are not used from then on, and it may lose all that it has. Nobody uses
    /// it: all queues are quiesced, and no work item changes its memory. Errors of [`VramImage::save`]; EBUSY, if something runs all the same: all is as before then. Sleeps.
    pub(crate) fn suspend(&self, firmware: &mut LoadedFirmware, image: &mut VramImage) -> Result {
        image.save(&self.memory, &mut firmware.memory())?;
        if let Err(error) = self.queues.compute.pause() {
            image.discard();
            return Err(error);
        }
        // Nothing of the driver's own is in the GART after it, but for what it is given anew.
        self.rings.stop();
        self.hw.ih.stop();
        // Of a GPU that is gone nothing comes back.
        let _ = image.save_table(&self.memory);
        firmware.stop();
        self.hw.close();
        self.hw.mmio.cut_off();
        Ok(())
    }

    /// Brings it up as [`Gpu::new`] does, after [`Gpu::suspend`]: with the `firmware` of `files`, and of what `image` has what it needs. Errors as there, and EIO for one that
    /// is not the same. Sleeps.
    pub(crate) fn resume_blocks(
        &self,
        firmware: &mut LoadedFirmware,
        files: &FirmwareFiles,
        image: &VramImage,
    ) -> Result {
        self.hw.mmio.rejoin();
        let state = self.hw.resume()?;
        image.restore_table(&self.memory)?;
        self.memory.enable_gart()?;
        firmware.reload(files, state)?;
        self.hw.bring_up_engines();
        firmware.check_clock()
    }

    /// Starts what runs by itself again, and brings back what `image` has; it may be bus master. Errors as [`Gpu::start`], and of [`VramImage::restore`]. Sleeps.
    pub(crate) fn restart(&self, image: &mut VramImage) -> Result {
        if let Some(dispatch) = self.queues.interrupts.as_ref() {
            self.hw.ih.listen(dispatch.clone());
        }
        self.hw.ih.start();
        let slots: Arc<dyn RingEngines> = self.queues.slots.clone();
        self.rings.start(&slots)?;
        image.restore(&self.memory)?;
        self.queues.compute.start(&self.memory)
    }

    /// The way to it has failed: registers are not used any more, the driver's own jobs fail, and so who waits for either comes to an end. Nobody
    /// resets it. Bounded; sleeps.
    pub(crate) fn cut_off(&self) {
        self.hw.health.listen(None);
        self.hw.health.set_lost();
        self.hw.mmio.cut_off();
        self.rings.stop();
    }

    /// Turns translation off. Nothing of the device looks at memory any more.
    pub(crate) fn close(&self) {
        self.hw.close();
    }
}
