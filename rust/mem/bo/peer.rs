// SPDX-License-Identifier: GPL-2.0
//! Memory of one GPU as another one reaches it, for the same process: a buffer of the other one's that leads to the same memory by
//! DMA addresses of its own.
//!
//! VRAM is reached across PCI Express, where the kernel knows a way. It stays where it is meanwhile: half of a GPU's VRAM at most, so that
//! others' can still be moved.

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
    way: PeerPath,
    _of: ARef<Bo>,
}

/// How it is reached, and what keeps it there. Dropped in this order.
enum PeerPath {
    /// By the BAR of its GPU.
    Bar {
        runs: KVVec<DmaRun>,
        parts: KVVec<DmaResource>,
        _pinned: PinnedBuffer,
    },
    /// In system memory, where it is away from home for a while.
    System {
        pages: SystemPages,
        _shared: SharedInSystem,
    },
}

/// A buffer is kept in system memory; it may come home when this is dropped.
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
            // Counted by now: of several at the same time none is too many.
            BoPlace::Vram(_) if !placement.leaves_room() => Err(ENOMEM),
            BoPlace::Vram(blocks) => Self::by_bar(bo, &blocks, pinned, gpu),
            BoPlace::System(away) => {
                // As long as it is pinned: else it may go home and away again, into other pages.
                let shared = placement.share(true).then(|| SharedInSystem(bo.into()));
                drop(pinned);
                Ok(Self::System {
                    _shared: shared.ok_or(EBUSY)?,
                    pages: away.pages().also_for(&gpu.hw.dev)?,
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
            way: PeerPath::new(bo, placement, gpu)?,
            _of: bo.into(),
        })
    }

    /// The DMA addresses.
    pub(super) fn runs(&self) -> &[DmaRun] {
        match &self.way {
            PeerPath::Bar { runs, .. } => runs,
            PeerPath::System { pages, .. } => pages.dma_runs(),
        }
    }

    /// Whether they still lead there.
    pub(super) fn is_mapped(&self) -> bool {
        match &self.way {
            PeerPath::Bar { parts, .. } => parts.iter().all(|part| part.is_mapped()),
            PeerPath::System { pages, .. } => pages.is_mapped(),
        }
    }

    /// Takes it away from the device, which is about to go.
    pub(super) fn unmap(&self) {
        match &self.way {
            PeerPath::Bar { parts, .. } => parts.iter().for_each(|part| part.unmap()),
            PeerPath::System { pages, .. } => pages.unmap_dma(),
        }
    }
}

impl RegisterRange {
    /// Those of GPU `own` for another one, which reaches them; both are bound.
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
    /// The VRAM `blocks` as `dev`, which reaches it and is bound, finds it in the BAR. EINVAL for what is not behind it, ENOMEM.
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

    /// The memory in VRAM, as `dev` reaches it, which is bound. `None` where it is not there, or had to stay beside too much else. ENOMEM.
    pub(super) fn in_place(
        &self,
        placement: &Arc<VramPlacement>,
        dev: &ARef<Device>,
    ) -> Result<Option<InPlaceShare>> {
        // What is shared after the GPU has taken back all that was would stay.
        if self.gpu.evictor.is_stopped() {
            return Ok(None);
        }
        let shared = placement.share_in_vram();
        match (shared, placement.place()) {
            (Some(shared), BoPlace::Vram(blocks)) if placement.leaves_room() => {
                let parts = self.parts_of_bar(&blocks, dev)?;
                let shared = Arc::new(shared, GFP_KERNEL_ACCOUNT)?;
                Ok(Some(InPlaceShare::new(parts, shared)))
            }
            _ => Ok(None),
        }
    }

    /// The memory as the GPU of `drm`, another one than its own and bound, reaches it, for `client`: a buffer for that
    /// one's page tables alone, which nobody else is given. It keeps the memory; user memory, and what is imported, each
    /// GPU watches for itself. VRAM and registers go with their GPU: the caller sees to it that this is gone before.
    ///
    /// `EREMOTEIO` when it does not reach it; `ENOMEM`, also for VRAM beyond the half that may have to stay; see [`Bo::import`] for what is
    /// imported.
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
            // Maybe its own memory, which comes home by this.
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
