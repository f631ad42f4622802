// SPDX-License-Identifier: GPL-2.0
//! A queue's descriptor (MQD) in memory, with the control stack behind it, where the hardware looks
//! for it.

use crate::kern::pages::SystemPages;
use crate::mem::account::{MemoryClient, MemoryRegion, SystemShare};
use crate::mem::gart::GartBuffer;
use crate::mem::GpuMemory;
use crate::queue::spare::SpareMemory;
use hw::mqd::compute::{ComputeMqd, ComputeMqdConfig, MqdInfo, HQD};
use hw::mqd::cu_mask::MAX_WORDS;
use hw::mqd::hqd::{self, HqdImage};
use hw::va::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Byte of the HQD's image in the descriptor.
const IMAGE: u64 = HQD.start as u64 * 4;

/// Memory for a descriptor and a control stack, where the hardware finds it.
pub(crate) struct MqdMemory {
    memory: GartBuffer,
    _share: SystemShare,
    control_stack: u32,
}

impl MqdMemory {
    /// Allocates memory with `control_stack` bytes for a control stack. It counts as `client`'s.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` without room in the GART.
    fn new(gpu: &GpuMemory, client: &Arc<MemoryClient>, control_stack: u32) -> Result<Self> {
        let bytes = gpu.hw.asic.mqd.bytes(control_stack, gpu.hw.asic.gfx.xccs);
        let share = SystemShare::charge(client, MemoryRegion::Gtt, bytes)?;
        let pages = SystemPages::alloc(&gpu.hw.dev, bytes as usize)?;
        Ok(Self {
            memory: gpu.gart.bind_descriptor(pages)?,
            _share: share,
            control_stack,
        })
    }
}

/// A descriptor. While the queue is on the hardware the CP may write to it. Dropped once the
/// hardware has let go of the queue: the process's next queue can have its memory then.
pub(super) struct ComputeDescriptor {
    room: Arc<MqdMemory>,
    info: &'static MqdInfo,
    spare: Arc<SpareMemory<MqdMemory>>,
}

impl ComputeDescriptor {
    /// Returns the descriptor of `queue`, whose address is filled in here, with a control stack of
    /// `control_stack` bytes. Its memory is the one in `spare` if that fits, or else is allocated
    /// and counts as `client`'s.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` without room in the GART.
    pub(super) fn new(
        gpu: &GpuMemory,
        client: &Arc<MemoryClient>,
        spare: &Arc<SpareMemory<MqdMemory>>,
        mut queue: ComputeMqdConfig,
        control_stack: u32,
    ) -> Result<Self> {
        let fits = |room: &MqdMemory| room.control_stack == control_stack;
        let room = match spare.get(fits) {
            Some(room) => room,
            None => Arc::new(
                MqdMemory::new(gpu, client, control_stack)?,
                GFP_KERNEL_ACCOUNT,
            )?,
        };
        queue.mqd_address = room.memory.mc_addr();
        // All of the descriptor counts. Of the control stack only the part that this queue will
        // have saved counts.
        let info = &gpu.hw.asic.mqd;
        room.memory
            .write32s(0, ComputeMqd::new(info, &queue).dwords())?;
        Ok(Self {
            room,
            info,
            spare: spare.clone(),
        })
    }

    /// Its address in VMID 0.
    pub(super) fn address(&self) -> u64 {
        self.room.memory.mc_addr()
    }

    /// The HQD's image.
    pub(super) fn image(&self) -> Result<HqdImage> {
        let mut dwords = [0; hqd::DWORDS];
        self.room.memory.read32s(IMAGE, &mut dwords)?;
        Ok(HqdImage::new(dwords))
    }

    /// Changes the HQD's image of a queue that is not on the hardware, and returns it.
    pub(super) fn change(&self, change: impl FnOnce(&mut HqdImage)) -> Result<HqdImage> {
        let mut image = self.image()?;
        change(&mut image);
        self.room.memory.write32s(IMAGE, image.dwords())?;
        Ok(image)
    }

    /// Sets the CU masks of the shader engines. The queue is not on the hardware.
    pub(super) fn set_cu_masks(&self, masks: [u32; MAX_WORDS]) -> Result {
        for (&dword, mask) in self.info.cu_masks.iter().zip(masks) {
            self.room.memory.write32s(dword as u64 * 4, &[mask])?;
        }
        Ok(())
    }

    /// The CU masks of the shader engines.
    pub(super) fn cu_masks(&self) -> Result<[u32; MAX_WORDS]> {
        let mut masks = [0; MAX_WORDS];
        for (&dword, mask) in self.info.cu_masks.iter().zip(&mut masks) {
            let mut read = [0];
            self.room.memory.read32s(dword as u64 * 4, &mut read)?;
            [*mask] = read;
        }
        Ok(masks)
    }

    /// Dword `index` of the control stack.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside of it.
    pub(super) fn control_stack_dword(&self, index: u32) -> Result<u32> {
        let byte = u64::from(index) * 4;
        if byte >= self.room.control_stack.into() {
            return Err(EINVAL);
        }
        let mut dword = [0];
        self.room.memory.read32s(PAGE_SIZE + byte, &mut dword)?;
        Ok(dword[0])
    }
}

impl Drop for ComputeDescriptor {
    fn drop(&mut self) {
        self.spare.put(&self.room);
    }
}
