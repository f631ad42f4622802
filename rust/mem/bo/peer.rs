// SPDX-License-Identifier: GPL-2.0
//! Memory of one GPU as another GPU accesses it, for the same process: a buffer of the other GPU
//! that leads to the same memory through DMA addresses of its own.
//!
//! VRAM is accessed across PCI Express, if the kernel knows a path. Meanwhile the VRAM stays where
//! it is. This holds for at most half of a GPU's VRAM, so that other buffers can still be moved.

use super::{Bo, BoBacking, BoData, DrmDevice, RegisterRange};
use crate::{
    kern::{
        dma_resource::DmaResource,
        drm::in_place::InPlaceShare,
        errno,
        pages::{DmaRun, SystemPages},
        pci_ext,
    },
    mem::{
        account::MemoryClient,
        placement::{BoPlace, PinnedBuffer, VramPlacement},
        vram::VramBlocks,
        GpuMemory,
    },
};
use kernel::{
    device::Device,
    prelude::*,
    sync::{aref::ARef, Arc},
};

/// A VRAM buffer of another GPU.
pub(super) struct PeerVram {
    path: PeerPath,
    _bo: ARef<Bo>,
}

/// How the buffer is accessed, and the guard that keeps it in its place. Dropped in this order.
enum PeerPath {
    /// Through the BAR of its GPU.
    Bar {
        runs: KVVec<DmaRun>,
        parts: KVVec<DmaResource>,
        _pinned: PinnedBuffer,
    },
    /// In system memory, while the buffer is moved out.
    System {
        pages: SystemPages,
        _shared: SharedInSystem,
    },
}

/// Keeps a buffer in system memory. When this is dropped, the buffer may be moved in.
struct SharedInSystem(ARef<Bo>);

impl Drop for SharedInSystem {
    fn drop(&mut self) {
        if let Some(placement) = self.0.placement() {
            self.0.gpu().evictor.unshare(placement, true);
        }
    }
}

impl PeerPath {
    fn new(bo: &Bo, placement: &Arc<VramPlacement>, gpu: &Arc<GpuMemory>) -> Result<Self> {
        let pinned = placement.pin();
        match placement.place() {
            // It is counted by now, so several pins at the same time cannot exceed the limit
            // together.
            BoPlace::Vram(_) if !placement.leaves_room() => Err(ENOMEM),
            BoPlace::Vram(blocks) => Self::by_bar(bo, &blocks, pinned, gpu),
            BoPlace::System(copy) => {
                // This is done while it is pinned: otherwise it may be moved in and out again, into
                // other pages.
                let shared = placement.share(true).then(|| SharedInSystem(bo.into()));
                drop(pinned);
                Ok(Self::System {
                    _shared: shared.ok_or(EBUSY)?,
                    pages: copy.pages().also_for(&gpu.hw.dev)?,
                })
            }
        }
    }

    fn by_bar(
        bo: &Bo,
        blocks: &VramBlocks,
        pinned: PinnedBuffer,
        gpu: &Arc<GpuMemory>,
    ) -> Result<Self> {
        let parts = bo.parts_of_bar(blocks, &gpu.hw.dev)?;
        let mut runs = KVVec::with_capacity(parts.len(), GFP_KERNEL_ACCOUNT)?;
        for part in &parts {
            runs.push(part.run(), GFP_KERNEL_ACCOUNT)?;
        }
        Ok(Self::Bar {
            runs,
            parts,
            _pinned: pinned,
        })
    }
}

impl PeerVram {
    fn new(bo: &Bo, placement: &Arc<VramPlacement>, gpu: &Arc<GpuMemory>) -> Result<Self> {
        Ok(Self {
            path: PeerPath::new(bo, placement, gpu)?,
            _bo: bo.into(),
        })
    }

    /// Returns the DMA addresses.
    pub(super) fn runs(&self) -> &[DmaRun] {
        match &self.path {
            PeerPath::Bar { runs, .. } => runs,
            PeerPath::System { pages, .. } => pages.dma_runs(),
        }
    }

    /// Whether the DMA addresses are still valid.
    pub(super) fn is_mapped(&self) -> bool {
        match &self.path {
            PeerPath::Bar { parts, .. } => parts.iter().all(|part| part.is_mapped()),
            PeerPath::System { pages, .. } => pages.is_mapped(),
        }
    }

    /// Unmaps the memory from the device, which is about to be removed.
    pub(super) fn unmap(&self) {
        match &self.path {
            PeerPath::Bar { parts, .. } => parts.iter().for_each(|part| part.unmap()),
            PeerPath::System { pages, .. } => pages.unmap_dma(),
        }
    }
}

impl RegisterRange {
    /// Maps the registers, those of GPU `own`, for another GPU that can access them; both are
    /// bound.
    fn for_peer(&self, own: &GpuMemory, gpu: &GpuMemory) -> Result<Self> {
        let start = self.bar.cpu_address(self.run.address);
        let part = DmaResource::of_peer(&gpu.hw.dev, &own.hw.dev, start, self.run.size)?;
        Ok(Self {
            run: part.run(),
            bar: Arc::new(part, GFP_KERNEL_ACCOUNT)?,
            _owner: self._owner.clone(),
        })
    }
}

impl Bo {
    /// Returns the DMA addresses of the VRAM `blocks` for `dev`, in the BAR. `dev` can access it
    /// and is bound.
    ///
    /// # Errors
    ///
    /// `EINVAL` for VRAM that is not behind the BAR; `ENOMEM`.
    fn parts_of_bar(&self, blocks: &VramBlocks, dev: &ARef<Device>) -> Result<KVVec<DmaResource>> {
        let hw = &self.gpu.hw;
        let mut parts = KVVec::with_capacity(blocks.runs().len(), GFP_KERNEL_ACCOUNT)?;
        for run in blocks.runs() {
            let start = hw.vram_map.cpu_address(run.offset)?;
            let part = DmaResource::of_peer(dev, &hw.dev, start, run.size)?;
            parts.push(part, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(parts)
    }

    /// Shares the memory in VRAM with `dev`, which is bound. `None` if it is not in VRAM, or if too
    /// much other memory has to stay in VRAM.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn in_place(
        &self,
        placement: &Arc<VramPlacement>,
        dev: &ARef<Device>,
    ) -> Result<Option<InPlaceShare>> {
        let shared = placement.share_in_vram();
        // A GPU that stops revokes all shared buffers after that, and no others. It sees this one
        // as shared, or it is seen to have stopped here: the placement's lock is between the two.
        if self.gpu.evictor.is_stopped() {
            return Ok(None);
        }
        match (shared, placement.place()) {
            (Some(shared), BoPlace::Vram(blocks)) if placement.leaves_room() => {
                let parts = self.parts_of_bar(&blocks, dev)?;
                let shared = Arc::new(shared, GFP_KERNEL_ACCOUNT)?;
                Ok(Some(InPlaceShare::new(parts, shared)))
            }
            _ => Ok(None),
        }
    }

    /// Creates a buffer by which the GPU of `drm`, bound and not the one that owns this buffer,
    /// accesses this memory, for `client`. The new buffer is for the page tables of that GPU alone,
    /// and is not handed out. It keeps the memory alive. Each GPU watches user memory and imported
    /// memory for itself. VRAM and registers are removed with their GPU: the caller ensures that
    /// the new buffer is dropped before.
    ///
    /// # Errors
    ///
    /// `EREMOTEIO` if the GPU cannot access it; `ENOMEM`, also for VRAM beyond the half that may
    /// have to stay; those of [`Bo::import`] for imported memory.
    pub(crate) fn for_peer(
        &self,
        drm: &ARef<DrmDevice>,
        client: &Arc<MemoryClient>,
    ) -> Result<ARef<Self>> {
        let gpu: &Arc<GpuMemory> = drm;
        let is_of_pci = matches!(self.backing, BoBacking::Vram(_) | BoBacking::Registers(_));
        if is_of_pci && !pci_ext::reaches(&gpu.hw.dev, &self.gpu.hw.dev) {
            return Err(errno::remote_io());
        }
        let backing = match &self.backing {
            BoBacking::Gtt(pages) => BoBacking::Gtt(pages.also_for(&gpu.hw.dev)?),
            BoBacking::User(memory) => BoBacking::User(memory.clone()),
            // It may be memory of this same GPU. The import then returns its own buffer.
            BoBacking::Imported(_) => {
                let buf = self.dma_buf(false)?;
                let bo = Self::import(drm, &buf)?;
                bo.pay(client)?;
                return Ok(bo);
            }
            BoBacking::Vram(placement) => BoBacking::Peer(PeerVram::new(self, placement, gpu)?),
            BoBacking::Registers(registers) => {
                BoBacking::Registers(registers.for_peer(&self.gpu, gpu)?)
            }
            BoBacking::Peer(_) => return Err(EINVAL),
        };
        let buffer = BoData::new(gpu, backing, self.usage);
        Self::new(drm, self.size(), buffer.paid_by(client))
    }
}
