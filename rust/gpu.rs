// SPDX-License-Identifier: GPL-2.0
//! A GPU: the sum of its layers, brought up in the order in which they depend on each other.
//!
//! Each layer holds those below it: [`GpuQueues`] on [`KernelRings`] on [`GpuMemory`] on
//! [`Hardware`]. An object that outlives the bound device, such as a buffer, holds its own layer
//! and thus only those below.

use kernel::device::Core;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::firmware::files::FirmwareFiles;
use crate::firmware::{self, LoadedFirmware};
use crate::health::{WedgeReport, WedgedPart};
use crate::ip::Hardware;
use crate::mem::pasid::PasidPool;
use crate::mem::vram_image::VramImage;
use crate::mem::GpuMemory;
use crate::queue::GpuQueues;
use crate::ring::{KernelRings, RingEngines};

/// A GPU, held by the PCI driver while bound, and by the processes that use it.
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
    /// Brings up the GPU at `pdev`, which is enabled, as far as that needs no interrupt and no
    /// memory but its own. The firmware that its engines run is returned beside it, to be dropped
    /// between [`Gpu::stop`] and [`Gpu::close`].
    ///
    /// # Errors
    ///
    /// `ENODEV` for a GPU that the driver does not know or cannot use; errors of the parts.
    pub(crate) fn new(pdev: &pci::Device<Core<'_>>) -> Result<(Arc<Self>, LoadedFirmware)> {
        let hw = Hardware::new(pdev)?;
        let memory = GpuMemory::new(&hw).inspect_err(|_| hw.close())?;
        // The hubs stay until the firmware, which needs them, is unloaded.
        Self::on(memory).inspect_err(|_| hw.close())
    }

    fn on(memory: Arc<GpuMemory>) -> Result<(Arc<Self>, LoadedFirmware)> {
        let hw = memory.hw.clone();
        let firmware = firmware::load(&memory)?;
        hw.gfx.set_firmware_version(firmware.versions()?.0);
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

    /// Starts the parts that run by themselves: the driver's own rings, and the scheduler of
    /// compute queues.
    ///
    /// Address spaces that no process has acquired get one of `pasids` for their jobs.
    pub(crate) fn start(&self, pasids: &Arc<PasidPool>) -> Result {
        self.hw.ih.start();
        let slots: Arc<dyn RingEngines> = self.queues.slots.clone();
        self.rings.start(&slots)?;
        self.memory.start_scrubbing()?;
        self.queues.start(pasids)
    }

    /// Stops the parts that run by themselves; the device is about to go. The GPU has no users any
    /// more.
    pub(crate) fn stop(&self) {
        self.queues.stop_jobs();
        self.memory.evictor.stop();
        // While there are engines to copy the memory of processes, and no process has the GPU.
        self.memory.shared_vram.close(&self.memory);
        // Other devices lose what they have mapped in VRAM.
        self.memory.bos.for_each(|bo| {
            bo.revoke_all();
            bo.leave_hive();
        });
        self.memory.vram.scrubber().stop();
        self.rings.stop();
        self.hw.ih.stop();
        self.queues.faults.close();
        for (number, engine) in self.hw.sdma.iter().enumerate() {
            if engine.stop().is_err() {
                dev_err!(
                    self.hw.dev,
                    "sdma{number}: the engine does not stop: bus mastering is taken from the GPU\n"
                );
                self.hw.health.wedge(WedgeReport {
                    part: WedgedPart::Sdma(number as u8),
                    suspect: None,
                });
            }
        }
        self.queues.compute.stop();
        self.hw.gfx.stop();
        // The engines no longer reach the memory of queues that hung.
        self.queues.slots.close();
        self.queues.compute.close();
        self.hw.vmids.set_user(None);
        self.hw.faults.set_owner(None);
    }

    /// Saves the contents of VRAM in `image`, stops the parts that run by themselves, then unloads
    /// the `firmware`. From then on registers are not used, and the GPU may lose all its state. The
    /// GPU has no users meanwhile: all queues are evicted, and no work item changes its memory. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// Those of [`VramImage::save`]; `EBUSY` if something runs nevertheless. The GPU is then as
    /// before.
    pub(crate) fn suspend(&self, firmware: &mut LoadedFirmware, image: &mut VramImage) -> Result {
        image.save(&self.memory, &mut firmware.memory())?;
        if let Err(error) = self.queues.compute.pause() {
            image.discard();
            return Err(error);
        }
        self.queues.slots.wait_settled(None);
        // After this, the GART holds nothing of the driver's own but what is added anew.
        self.rings.stop();
        self.hw.ih.stop();
        // A GPU that is gone has nothing to save.
        let _ = image.save_table(&self.memory);
        firmware.stop();
        self.hw.close();
        self.hw.mmio.cut_off();
        Ok(())
    }

    /// Brings up the GPU as [`Gpu::new`] does, after [`Gpu::suspend`]: with the `firmware` of
    /// `files`, and with what it needs of `image`. May sleep.
    ///
    /// # Errors
    ///
    /// As [`Gpu::new`]; `EIO` for a GPU that is not the same.
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

    /// Starts the parts that run by themselves again, and restores the rest of `image`. The GPU may
    /// be a bus master. May sleep.
    ///
    /// # Errors
    ///
    /// As [`Gpu::start`]; those of [`VramImage::restore`].
    pub(crate) fn restart(&self, image: &mut VramImage) -> Result {
        self.hw.ih.start();
        if let Some(dispatch) = self.queues.interrupts.as_ref() {
            self.hw.ih.listen(dispatch.clone());
        }
        let slots: Arc<dyn RingEngines> = self.queues.slots.clone();
        self.rings.start(&slots)?;
        image.restore(&self.memory)?;
        self.queues.compute.start(&self.memory)
    }

    /// Gives the GPU up after its bus failed: registers are not used any more and the driver's own
    /// jobs fail, so that their waiters return. No reset follows. Bounded; may sleep.
    pub(crate) fn cut_off(&self) {
        self.hw.health.listen(None);
        self.hw.health.set_lost();
        self.hw.mmio.cut_off();
        self.rings.stop();
    }

    /// Turns translation off. The device does not access memory any more.
    pub(crate) fn close(&self) {
        self.hw.close();
    }
}
