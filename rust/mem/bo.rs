// SPDX-License-Identifier: GPL-2.0
//! Buffer objects: memory that a process has asked for, whatever is behind it.

pub(crate) mod create;
mod object;
mod peer;

use crate::{
    kern::{
        dma_buf::AttachmentRuns,
        dma_resource::DmaResource,
        drm::{self, exported::ObjectHandle, gem::GemObject},
        pages::{DmaRun, SystemPages},
    },
    ledger::{LedgerHold, LedgerKind},
    mem::{
        account::{MemoryClient, MemoryRegion, SystemShare, BUFFER_BYTES},
        import::ImportedMemory,
        metadata::MetadataCell,
        placement::{BoPlace, PinnedBuffer, VramPlacement},
        user_memory::UserMemory,
        vram::{VramBlocks, VramRun},
        GpuMemory,
    },
};
use peer::PeerVram;

use hw::pte::{Coherence, MemoryResidence, PageAccess};
use kernel::{
    prelude::*,
    sync::{Arc, SetOnce},
};

/// How much VRAM of a client may be pinned for its queues: this part of all, or so many bytes if that is more.
const PINNED_PART: u64 = 32;
const PINNED_MIN: u64 = 64 << 20;

/// The DRM device of a GPU.
pub(crate) type DrmDevice = drm::DrmDevice<Arc<GpuMemory>>;

/// A buffer object.
pub(crate) type Bo = GemObject<BoData>;

/// A handle of one.
pub(crate) type BoHandle = ObjectHandle<BoData>;

/// What is behind a buffer.
enum BoBacking {
    /// VRAM, or system memory for a while.
    Vram(Arc<VramPlacement>),
    /// System memory of the driver's.
    Gtt(SystemPages),
    /// Memory of the process itself, which changes as the process likes.
    User(UserMemory),
    /// Memory that somebody else has exported.
    Imported(ImportedMemory),
    /// The process's doorbells or the page of HDP flush registers, which the CPU maps through /dev/kfd.
    Registers(RegisterRange),
    /// VRAM of another GPU.
    Peer(PeerVram),
}

/// Registers of the GPU that a process may have, as the GPU itself reaches them.
#[derive(Clone)]
pub(crate) struct RegisterRange {
    /// The BAR.
    pub(crate) bar: Arc<DmaResource>,
    /// Which of it.
    pub(crate) run: DmaRun,
    /// What must not be another process's meanwhile.
    pub(crate) _owner: Option<Arc<dyn Send + Sync>>,
}

/// How the GPU may use a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BoUsage {
    /// What the GPU may do; reading is always allowed.
    pub(crate) access: PageAccess,
    /// What the GPU's caches may do.
    pub(crate) coherence: Coherence,
}

/// The driver's part of a buffer object.
pub(crate) struct BoData {
    backing: BoBacking,
    usage: BoUsage,
    metadata: MetadataCell,
    gpu: Arc<GpuMemory>,
    _bytes: Option<LedgerHold>,
    _share: Option<SystemShare>,
    /// What the driver keeps of it, once somebody pays for it.
    paid: SetOnce<SystemShare>,
    _hold: LedgerHold,
}

impl BoData {
    fn new(gpu: &Arc<GpuMemory>, backing: BoBacking, usage: BoUsage) -> Self {
        Self {
            backing,
            usage,
            metadata: MetadataCell::new(),
            gpu: gpu.clone(),
            _bytes: None,
            _share: None,
            paid: SetOnce::new(),
            _hold: gpu.hw.ledger.hold(LedgerKind::Bos, 1),
        }
    }

    fn sharing(self, share: SystemShare, kind: LedgerKind, size: u64) -> Self {
        Self {
            _bytes: Some(self.gpu.hw.ledger.hold(kind, size)),
            _share: Some(share),
            ..self
        }
    }

    /// The same, for which [`BoData::pay`] was called.
    fn paid_by(self, client: &Arc<MemoryClient>) -> Result<Self> {
        self.pay(client)?;
        Ok(self)
    }

    /// `client` pays for what the driver keeps of it, unless somebody does already: what is imported has no client of its own, so
    /// that who gets the first handle pays. `ENOMEM` past its share.
    pub(crate) fn pay(&self, client: &Arc<MemoryClient>) -> Result {
        if self.paid.as_ref().is_none() {
            let share = SystemShare::charge(client, MemoryRegion::Metadata, BUFFER_BYTES)?;
            // Another thread may be first, and this share is given back.
            self.paid.populate(share);
        }
        Ok(())
    }

    /// The GPU that it was made for.
    pub(crate) fn gpu(&self) -> &Arc<GpuMemory> {
        &self.gpu
    }

    /// What the GPU may do.
    pub(crate) fn access(&self) -> PageAccess {
        PageAccess {
            read: true,
            ..self.usage.access
        }
    }

    /// What user space has written of it (GEM_METADATA).
    pub(crate) fn metadata(&self) -> &MetadataCell {
        &self.metadata
    }

    /// What the GPU's caches may do.
    pub(crate) fn coherence(&self) -> Coherence {
        self.usage.coherence
    }

    /// Where the memory is. It stays there as long as the buffer is pinned, or as the
    /// lock of a VM is held that maps it and [`BoData::is_mappable`].
    pub(crate) fn residence(&self) -> MemoryResidence {
        match &self.backing {
            BoBacking::Vram(placement) => match placement.place() {
                BoPlace::Vram(_) => MemoryResidence::LocalVram,
                BoPlace::System(_) => MemoryResidence::Host,
            },
            BoBacking::Gtt(_)
            | BoBacking::User(_)
            | BoBacking::Imported(_)
            | BoBacking::Registers(_)
            | BoBacking::Peer(_) => MemoryResidence::Host,
        }
    }

    /// Whether it is registers, which nothing can be put into.
    pub(crate) fn is_registers(&self) -> bool {
        matches!(self.backing, BoBacking::Registers(_))
    }

    /// Whether it is another GPU's VRAM, which goes with that.
    pub(super) fn is_peer_vram(&self) -> bool {
        matches!(self.backing, BoBacking::Peer(_))
    }

    /// Whether it is system memory of the driver's.
    pub(crate) fn is_gtt(&self) -> bool {
        matches!(self.backing, BoBacking::Gtt(_))
    }

    /// The user memory, when it is that.
    pub(super) fn user(&self) -> Option<&UserMemory> {
        match &self.backing {
            BoBacking::User(memory) => Some(memory),
            _ => None,
        }
    }

    /// Whether the GPU may be given the addresses of [`BoData::runs`].
    pub(crate) fn is_reachable(&self) -> bool {
        match &self.backing {
            BoBacking::Vram(placement) => match placement.place() {
                BoPlace::Vram(_) => true,
                BoPlace::System(away) => away.pages().is_mapped(),
            },
            BoBacking::Gtt(pages) => pages.is_mapped(),
            BoBacking::Imported(import) => import.is_mapped(),
            BoBacking::Registers(registers) => registers.bar.is_mapped(),
            BoBacking::Peer(peer) => peer.is_mapped(),
            BoBacking::User(_) => false,
        }
    }

    /// The runs of addresses for page tables with their bytes, in order: VRAM offsets or DMA addresses. None for memory
    /// of a process, which has others from time to time.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        /// Who keeps the runs.
        enum RunKeeper<'a> {
            Moving(BoPlace),
            Imported(AttachmentRuns),
            Fixed(&'a [DmaRun]),
        }
        let keeper = match &self.backing {
            BoBacking::Vram(placement) => RunKeeper::Moving(placement.place()),
            BoBacking::Gtt(pages) => RunKeeper::Fixed(pages.dma_runs()),
            BoBacking::Imported(import) => import
                .runs()
                .map_or(RunKeeper::Fixed(&[]), RunKeeper::Imported),
            BoBacking::Registers(registers) => {
                RunKeeper::Fixed(core::slice::from_ref(&registers.run))
            }
            BoBacking::Peer(peer) => RunKeeper::Fixed(peer.runs()),
            BoBacking::User(_) => RunKeeper::Fixed(&[]),
        };
        let run = |run: &DmaRun| (run.address, run.size);
        (0..).map_while(move |index| match &keeper {
            RunKeeper::Moving(BoPlace::Vram(blocks)) => {
                let run: &VramRun = blocks.runs().get(index)?;
                Some((run.offset, run.size))
            }
            RunKeeper::Moving(BoPlace::System(away)) => away.pages().dma_runs().get(index).map(run),
            RunKeeper::Imported(runs) => runs.get(index).map(run),
            RunKeeper::Fixed(runs) => runs.get(index).map(run),
        })
    }

    /// What is imported.
    pub(super) fn import(&self) -> Option<&ImportedMemory> {
        match &self.backing {
            BoBacking::Imported(import) => Some(import),
            _ => None,
        }
    }

    /// The placement of a VRAM buffer.
    pub(super) fn placement(&self) -> Option<&Arc<VramPlacement>> {
        match &self.backing {
            BoBacking::Vram(placement) => Some(placement),
            _ => None,
        }
    }

    /// Whether page tables may lead to the memory now: it is not on its way.
    pub(super) fn is_mappable(&self) -> bool {
        match &self.backing {
            BoBacking::Vram(placement) => placement.is_mappable(),
            BoBacking::Imported(import) => import.is_mapped(),
            _ => true,
        }
    }

    /// Whether it may be pinned for a queue of `client`'s: a small part of VRAM in all. `ENOMEM` otherwise.
    pub(super) fn may_be_pinned(&self, client: &MemoryClient) -> Result {
        let Some(placement) = self.placement().filter(|placement| placement.may_move()) else {
            return Ok(());
        };
        let most = PINNED_MIN.max(self.gpu.vram.usable() / PINNED_PART);
        if placement.bytes() + client.bytes(MemoryRegion::Stuck) > most {
            return Err(ENOMEM);
        }
        Ok(())
    }

    /// Keeps the memory where it is: `None` if it never moves. `EBUSY` while it is on its way.
    pub(super) fn try_pin(&self) -> Result<Option<PinnedBuffer>> {
        match self.placement() {
            None => Ok(None),
            Some(placement) => placement.try_pin().map(Some).ok_or(EBUSY),
        }
    }

    /// Waits until the memory is not on its way. Bounded; sleeps.
    pub(super) fn wait(&self) {
        if let Some(placement) = self.placement() {
            placement.wait();
        }
    }

    /// Keeps the memory where it is if it is another's than `client`'s, who could not be told when it moves.
    pub(super) fn pin_for(&self, client: &Arc<MemoryClient>) -> Option<PinnedBuffer> {
        let foreign = |p: &&Arc<VramPlacement>| !Arc::ptr_eq(p.client(), client);
        self.placement().filter(foreign).map(|p| p.pin())
    }

    fn pages(&self) -> Option<&SystemPages> {
        match &self.backing {
            BoBacking::Gtt(pages) => Some(pages),
            _ => None,
        }
    }

    /// Whether other devices reach it in VRAM.
    pub(crate) fn is_shared_in_vram(&self) -> bool {
        self.placement()
            .is_some_and(|placement| placement.is_shared_in_vram())
    }

    /// Takes system memory away from the device, which is about to go. No VM maps the buffer any more.
    pub(crate) fn unmap_dma(&self) {
        match &self.backing {
            BoBacking::Gtt(pages) => pages.unmap_dma(),
            BoBacking::Imported(import) => import.close(),
            BoBacking::Vram(placement) => placement.detach(),
            BoBacking::Registers(registers) => registers.bar.unmap(),
            BoBacking::Peer(peer) => peer.unmap(),
            BoBacking::User(_) => (),
        }
    }

    /// Whether others may be given it, and then whether it is VRAM. EINVAL if it is not memory of the driver's.
    pub(crate) fn is_shared_vram(&self) -> Result<bool> {
        match &self.backing {
            BoBacking::Vram(_) => Ok(true),
            BoBacking::Gtt(_) | BoBacking::Imported(_) => Ok(false),
            BoBacking::User(_) | BoBacking::Registers(_) | BoBacking::Peer(_) => Err(EINVAL),
        }
    }

    /// Calls `access` with each piece of `count` dwords at byte `offset`: the VRAM offset, and which of the
    /// dwords.
    fn vram_pieces(
        blocks: &VramBlocks,
        offset: u64,
        count: usize,
        mut access: impl FnMut(u64, core::ops::Range<usize>) -> Result,
    ) -> Result {
        let mut done = 0;
        while done < count {
            let at = offset.checked_add(done as u64 * 4).ok_or(EINVAL)?;
            let (place, left) = blocks.locate(at).ok_or(EINVAL)?;
            let end = count.min(done.saturating_add((left / 4) as usize));
            if end == done {
                return Err(EINVAL);
            }
            access(place, done..end)?;
            done = end;
        }
        Ok(())
    }

    /// Reads dwords from byte `offset`, a multiple of 4, on. `EINVAL` when they are not all inside or it is no
    /// memory of the driver's, `ENODEV` when the device is gone.
    pub(crate) fn read32s(&self, offset: u64, to: &mut [u32]) -> Result {
        if let Some(pages) = self.pages() {
            return pages.read32s(offset, to);
        }
        match self.placement().ok_or(EINVAL)?.place() {
            BoPlace::System(away) => away.pages().read32s(offset, to),
            BoPlace::Vram(blocks) => Self::vram_pieces(&blocks, offset, to.len(), |place, part| {
                let to = to.get_mut(part).ok_or(EINVAL)?;
                self.gpu.hw.vram_map.read32s(place, to)
            }),
        }
    }

    /// Reads the 64-bit value at byte `offset`, a multiple of 8, in one access. Errors as [`BoData::read32s`].
    pub(crate) fn read64(&self, offset: u64) -> Result<u64> {
        if let Some(pages) = self.pages() {
            return pages.read64(offset);
        }
        match self.placement().ok_or(EINVAL)?.place() {
            BoPlace::System(away) => away.pages().read64(offset),
            BoPlace::Vram(blocks) => {
                let (place, _) = blocks.locate(offset).ok_or(EINVAL)?;
                self.gpu.hw.vram_map.read64(place)
            }
        }
    }

    /// Writes the 64-bit value at byte `offset`, a multiple of 8, in one access: of a buffer that is pinned, if it can
    /// move. Errors as [`BoData::read32s`]; `EPERM` for memory that the process itself may only read.
    pub(crate) fn write64(&self, offset: u64, value: u64) -> Result {
        if let Some(pages) = self.pages() {
            return pages.write64(offset, value);
        }
        match self.placement().ok_or(EINVAL)?.place() {
            BoPlace::System(away) => away.pages().write64(offset, value),
            BoPlace::Vram(blocks) => {
                let (place, _) = blocks.locate(offset).ok_or(EINVAL)?;
                self.gpu.hw.vram_map.write64(place, value)
            }
        }
    }
}

impl Bo {
    /// What tells it apart from all others that exist.
    pub(crate) fn address(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }
}
