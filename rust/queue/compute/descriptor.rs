// SPDX-License-Identifier: GPL-2.0
//! A queue's descriptors (MQDs) in memory, one for each XCC, each with a control stack behind it,
//! where the hardware looks for it.

use crate::kern::pages::SystemPages;
use crate::mem::account::{MemoryClient, MemoryRegion, SystemShare};
use crate::mem::gart::GartBuffer;
use crate::mem::GpuMemory;
use crate::queue::spare::SpareMemory;
use hw::mqd::compute::{ComputeMqd, ComputeMqdConfig, MqdInfo, HQD};
use hw::mqd::cu_mask::CuMasks;
use hw::mqd::hqd::{self, HqdImage};
use hw::mqd::saved::{SavedXccs, SAVED};
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
    /// Bytes from one XCC's descriptor to the next one.
    stride: u64,
    xccs: u32,
}

impl MqdMemory {
    /// Allocates memory with `control_stack` bytes for a control stack. It counts as `client`'s.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` without room in the GART.
    fn new(gpu: &GpuMemory, client: &Arc<MemoryClient>, control_stack: u32) -> Result<Self> {
        let (mqd, xccs) = (&gpu.hw.asic.mqd, gpu.hw.asic.gfx.xccs);
        let (stride, bytes) = (mqd.stride(control_stack), mqd.bytes(control_stack, xccs));
        let share = SystemShare::charge(client, MemoryRegion::Gtt, bytes)?;
        let pages = SystemPages::alloc(&gpu.hw.dev, bytes as usize)?;
        Ok(Self {
            memory: gpu.gart.bind_descriptors(pages, stride)?,
            _share: share,
            control_stack,
            stride,
            xccs,
        })
    }

    /// Byte at which each XCC's descriptor begins.
    fn starts(&self) -> impl Iterator<Item = u64> {
        let stride = self.stride;
        (0..u64::from(self.xccs)).map(move |place| place * stride)
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
    /// and counts as `client`'s. The queue goes on as `saved`, or is a new one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` without room in the GART; `EINVAL` for saved descriptors that are not
    /// those of such a queue.
    pub(super) fn new(
        gpu: &GpuMemory,
        client: &Arc<MemoryClient>,
        spare: &Arc<SpareMemory<MqdMemory>>,
        mut queue: ComputeMqdConfig,
        control_stack: u32,
        saved: Option<SavedXccs<'_>>,
    ) -> Result<Self> {
        let fits = |room: &MqdMemory| room.control_stack == control_stack;
        let room = match spare.get(fits) {
            Some(room) => room,
            None => Arc::new(
                MqdMemory::new(gpu, client, control_stack)?,
                GFP_KERNEL_ACCOUNT,
            )?,
        };
        queue.share.count = room.xccs;
        queue.share.stride = room.stride as u32;
        // All of the descriptor counts. Of the control stack only the part that this queue will
        // have saved counts.
        let info = &gpu.hw.asic.mqd;
        if saved.is_some_and(|saved| saved.count() != room.xccs as usize) {
            return Err(EINVAL);
        }
        let mut saved = saved.iter().flat_map(SavedXccs::iter);
        for (place, start) in (0..).zip(room.starts()) {
            queue.share.place = place;
            queue.mqd_address = room.memory.mc_addr() + start;
            let mut mqd = ComputeMqd::new(info, &queue);
            if let Some(saved) = saved.next() {
                let resumed = mqd.resumed(info, queue.ring_size, &saved);
                mqd = resumed.ok_or(EINVAL)?;
                let used = saved.stack().len() as u64 * 4;
                let stack = u64::from(control_stack).checked_sub(used).ok_or(EINVAL)?;
                room.memory
                    .write32s(start + PAGE_SIZE + stack, saved.stack())?;
            }
            room.memory.write32s(start, mqd.dwords())?;
        }
        Ok(Self {
            room,
            info,
            spare: spare.clone(),
        })
    }

    /// The address in VMID 0 of the first XCC's.
    pub(super) fn address(&self) -> u64 {
        self.room.memory.mc_addr()
    }

    /// The HQD's image of the first XCC.
    pub(super) fn image(&self) -> Result<HqdImage> {
        self.image_at(0)
    }

    /// The HQD's image of the XCC at `place` among those of the queue.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none; `ENODEV` if the device is gone.
    pub(super) fn image_of(&self, place: usize) -> Result<HqdImage> {
        self.image_at(self.room.starts().nth(place).ok_or(EINVAL)?)
    }

    fn image_at(&self, start: u64) -> Result<HqdImage> {
        let mut dwords = [0; hqd::DWORDS];
        self.room.memory.read32s(start + IMAGE, &mut dwords)?;
        Ok(HqdImage::new(dwords))
    }

    /// The HQD's images of all XCCs.
    pub(super) fn images(&self) -> impl Iterator<Item = Result<HqdImage>> + '_ {
        self.room.starts().map(|start| self.image_at(start))
    }

    /// Whether any XCC was in the middle of something that the pointers do not show.
    pub(super) fn is_midway(&self) -> bool {
        let mut images = self.images();
        images.any(|image| image.is_ok_and(|image| image.is_midway()))
    }

    /// Changes the HQD's images of a queue that is not on the hardware.
    pub(super) fn change(&self, change: impl Fn(&mut HqdImage)) -> Result {
        for start in self.room.starts() {
            let mut image = self.image_at(start)?;
            change(&mut image);
            self.room.memory.write32s(start + IMAGE, image.dwords())?;
        }
        Ok(())
    }

    /// Sets the CU masks of the shader engines of each XCC. The queue is not on the hardware.
    pub(super) fn set_cu_masks(&self, masks: &CuMasks) -> Result {
        for (start, masks) in self.room.starts().zip(masks) {
            for (&dword, mask) in self.info.cu_masks.iter().zip(masks) {
                let at = start + dword as u64 * 4;
                self.room.memory.write32s(at, &[*mask])?;
            }
        }
        Ok(())
    }

    /// Whether those are the CU masks of the shader engines of each XCC.
    pub(super) fn has_cu_masks(&self, masks: &CuMasks) -> Result<bool> {
        for (start, masks) in self.room.starts().zip(masks) {
            for (&dword, mask) in self.info.cu_masks.iter().zip(masks) {
                let mut read = [0];
                let at = start + dword as u64 * 4;
                self.room.memory.read32s(at, &mut read)?;
                if read != [*mask] {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Appends the descriptors, and the used parts of the control stacks, to `progress`: as
    /// [`SavedXccs`] has them. The queue is not on the hardware.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a control stack that cannot be; `ENOMEM`; `ENODEV` if the device is gone.
    pub(super) fn save(&self, progress: &mut KVVec<u32>) -> Result {
        for start in self.room.starts() {
            let mut mqd = [0; SAVED];
            self.room.memory.read32s(start, &mut mqd)?;
            progress.extend_from_slice(&mqd, GFP_KERNEL_ACCOUNT)?;
            let state = self.image_at(start)?.wave_state();
            let (mut at, used) = (state.control_stack_offset, state.control_stack_used);
            let end = at.checked_add(used).ok_or(EINVAL)?;
            if at % 4 != 0 || end != self.room.control_stack {
                return Err(EINVAL);
            }
            let mut chunk = [0; 64];
            while at < end {
                let count = ((end - at) / 4).min(chunk.len() as u32);
                let dwords = chunk.get_mut(..count as usize).ok_or(EINVAL)?;
                let byte = start + PAGE_SIZE + u64::from(at);
                self.room.memory.read32s(byte, dwords)?;
                progress.extend_from_slice(dwords, GFP_KERNEL_ACCOUNT)?;
                at += count * 4;
            }
        }
        Ok(())
    }

    /// Dword `index` of the control stack of the XCC at `place`.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside of it.
    pub(super) fn control_stack_dword(&self, place: usize, index: u32) -> Result<u32> {
        let start = self.room.starts().nth(place).ok_or(EINVAL)?;
        let byte = u64::from(index) * 4;
        if byte >= self.room.control_stack.into() {
            return Err(EINVAL);
        }
        let mut dword = [0];
        let at = start + PAGE_SIZE + byte;
        self.room.memory.read32s(at, &mut dword)?;
        Ok(dword[0])
    }
}

impl Drop for ComputeDescriptor {
    fn drop(&mut self) {
        self.spare.put(&self.room);
    }
}
