// SPDX-License-Identifier: GPL-2.0
//! Memory of one GPU as another GPU accesses it, for the same process: a buffer of the other GPU
//! that leads to the same memory through DMA addresses of its own.
//!
//! VRAM of a GPU of the same hive is accessed by XGMI, and moves as before ([`HiveView`]). Other
//! VRAM is accessed across PCI Express, if the kernel knows a path. Meanwhile it stays where it is.
//! This holds for at most half of a GPU's VRAM, so that other buffers can still be moved.

use super::{Bo, BoBacking, BoData, BoUsage, DrmDevice, RegisterRange};
use crate::{
    kern::{
        dma_buf::DmaBuf,
        dma_resource::DmaResource,
        drm::in_place::InPlaceShare,
        errno,
        pages::{DmaRun, SystemPages},
        pci_ext,
    },
    mem::{
        account::MemoryClient,
        hive_view::{FollowedPlace, HiveView},
        placement::{BoPlace, PinnedBuffer, VramPlacement},
        vram::VramBlocks,
        GpuMemory,
    },
};
use hw::pte::{MemoryResidence, PageAccess};
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
    /// By XGMI, wherever it is.
    Hive(HiveView),
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
        if bo.gpu.hw.hive.is_same(&gpu.hw.hive) {
            return Ok(Self::Hive(HiveView::new(bo, placement, &gpu.hw.dev)?));
        }
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

    /// Returns the view of it, if it is accessed by XGMI.
    pub(super) fn view(&self) -> Option<&HiveView> {
        match &self.path {
            PeerPath::Hive(view) => Some(view),
            _ => None,
        }
    }

    /// Returns where it is, seen from the GPU that accesses it.
    pub(super) fn residence(&self) -> MemoryResidence {
        match self.view().map(HiveView::place) {
            Some(FollowedPlace::Vram(_)) => MemoryResidence::Hive,
            _ => MemoryResidence::Host,
        }
    }

    /// Returns the DMA addresses, if it stays where it is.
    pub(super) fn runs(&self) -> &[DmaRun] {
        match &self.path {
            PeerPath::Hive(_) => &[],
            PeerPath::Bar { runs, .. } => runs,
            PeerPath::System { pages, .. } => pages.dma_runs(),
        }
    }

    /// Whether the DMA addresses are still valid.
    pub(super) fn is_mapped(&self) -> bool {
        match &self.path {
            PeerPath::Hive(view) => view.is_mapped(),
            PeerPath::Bar { parts, .. } => parts.iter().all(|part| part.is_mapped()),
            PeerPath::System { pages, .. } => pages.is_mapped(),
        }
    }

    /// Unmaps the memory from the device, which is about to be removed.
    pub(super) fn unmap(&self) {
        match &self.path {
            PeerPath::Hive(view) => view.close(),
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

    /// The memory of `buf` as a buffer of `drm`, if it is VRAM of another GPU of its hive.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn import_in_hive(
        drm: &ARef<DrmDevice>,
        buf: &DmaBuf,
    ) -> Result<Option<ARef<Self>>> {
        let gpu: &Arc<GpuMemory> = drm;
        let Some(owner) = Self::of_dma_buf(buf) else {
            return Ok(None);
        };
        let Some(placement) = owner.placement() else {
            return Ok(None);
        };
        if !owner.gpu.hw.hive.is_same(&gpu.hw.hive) || Arc::ptr_eq(&owner.gpu, gpu) {
            return Ok(None);
        }
        let usage = BoUsage {
            access: PageAccess {
                write: buf.is_writable(),
                ..PageAccess::READ_WRITE.executable()
            },
            ..owner.usage
        };
        let backing = BoBacking::Peer(PeerVram::new(&owner, placement, gpu)?);
        Self::new(drm, owner.size(), Ok(BoData::new(gpu, backing, usage))).map(Some)
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
        let is_of_pci = match &self.backing {
            BoBacking::Vram(_) => !self.gpu.hw.hive.is_same(&gpu.hw.hive),
            BoBacking::Registers(_) => true,
            _ => false,
        };
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
            BoBacking::Peer(peer) => {
                let original = peer.view().ok_or(EINVAL)?.owner();
                if Arc::ptr_eq(original.gpu(), gpu) {
                    return Ok(original.clone());
                }
                return original.for_peer(drm, client);
            }
        };
        let buffer = BoData::new(gpu, backing, self.usage);
        Self::new(drm, self.size(), buffer.paid_by(client))
    }
}
