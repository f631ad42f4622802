// SPDX-License-Identifier: GPL-2.0
//! Buffer objects: memory that a process has asked for, of any kind.

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
        hive_view::{FollowedPlace, HiveView},
        import::{ImportedMemory, MovingMemory},
        metadata::MetadataCell,
        placement::{BoPlace, PinnedBuffer, VramPlacement},
        user_memory::UserMemory,
        vram::{VramBlocks, VramRun},
        GpuMemory,
    },
};
use peer::PeerVram;

use hw::pte::{Coherence, MemoryResidence, PageAccess};
use hw::surroundings::MemoryKind;
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        Arc, SetOnce,
    },
};

/// The limit of a client's VRAM that may be pinned for its queues: this part of all VRAM, or this
/// many bytes if that is more.
const PINNED_PART: u64 = 32;
const PINNED_MIN: u64 = 64 << 20;

/// No domain was said.
const NO_DOMAIN: u32 = u32::MAX;

/// The DRM device of a GPU.
pub(crate) type DrmDevice = drm::DrmDevice<Arc<GpuMemory>>;

/// A buffer object.
pub(crate) type Bo = GemObject<BoData>;

/// A handle of a buffer object.
pub(crate) type BoHandle = ObjectHandle<BoData>;

/// The memory behind a buffer.
enum BoBacking {
    /// VRAM, or system memory while the buffer is moved out.
    Vram(Arc<VramPlacement>),
    /// System memory of the driver.
    Gtt(SystemPages),
    /// Memory of the process itself, which the process may change at any time.
    User(UserMemory),
    /// Memory that another device has exported.
    Imported(ImportedMemory),
    /// The process's doorbells or the page of HDP flush registers, which the CPU maps through
    /// /dev/kfd.
    Registers(RegisterRange),
    /// VRAM of another GPU.
    Peer(PeerVram),
}

/// Registers of the GPU that a process may have, as the GPU itself accesses them.
#[derive(Clone)]
pub(crate) struct RegisterRange {
    /// The BAR that contains the registers.
    pub(crate) bar: Arc<DmaResource>,
    /// Their part of the BAR.
    pub(crate) run: DmaRun,
    /// Keeps the registers from being given to another process meanwhile.
    pub(crate) _owner: Option<Arc<dyn Send + Sync>>,
}

/// How the GPU may use a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BoUsage {
    /// The allowed kinds of access; reading is always allowed.
    pub(crate) access: PageAccess,
    /// How the GPU's caches treat the memory.
    pub(crate) coherence: Coherence,
    /// Jobs that use it do not wait for other jobs that do.
    pub(crate) explicit_sync: bool,
}

/// The driver's part of a buffer object.
pub(crate) struct BoData {
    backing: BoBacking,
    usage: BoUsage,
    metadata: MetadataCell,
    /// See [`BoData::preferred`].
    preferred: Atomic<u32>,
    gpu: Arc<GpuMemory>,
    _bytes: Option<LedgerHold>,
    _share: Option<SystemShare>,
    /// The charge for the driver's data about the buffer, once a client pays for it.
    paid: SetOnce<SystemShare>,
    _hold: LedgerHold,
}

impl BoData {
    fn new(gpu: &Arc<GpuMemory>, backing: BoBacking, usage: BoUsage) -> Self {
        Self {
            backing,
            usage,
            metadata: MetadataCell::new(),
            preferred: Atomic::new(NO_DOMAIN),
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

    /// Calls [`BoData::pay`], and returns the same buffer.
    fn paid_by(self, client: &Arc<MemoryClient>) -> Result<Self> {
        self.pay(client)?;
        Ok(self)
    }

    /// Charges the driver's data about the buffer to `client`, unless another client already pays:
    /// imported memory has no client of its own, so the client that gets the first handle pays.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the client's share is exceeded.
    pub(crate) fn pay(&self, client: &Arc<MemoryClient>) -> Result {
        if self.paid.as_ref().is_none() {
            let share = SystemShare::charge(client, MemoryRegion::Metadata, BUFFER_BYTES)?;
            // Another thread may have been first; then this share is returned.
            self.paid.populate(share);
        }
        Ok(())
    }

    /// Returns the GPU that the buffer was created for.
    pub(crate) fn gpu(&self) -> &Arc<GpuMemory> {
        &self.gpu
    }

    /// Returns the kinds of access that the GPU has.
    pub(crate) fn access(&self) -> PageAccess {
        PageAccess {
            read: true,
            ..self.usage.access
        }
    }

    /// Returns the metadata that user space has written (GEM_METADATA).
    pub(crate) fn metadata(&self) -> &MetadataCell {
        &self.metadata
    }

    /// Returns how the GPU's caches treat the memory.
    pub(crate) fn coherence(&self) -> Coherence {
        self.usage.coherence
    }

    /// Whether jobs that use the buffer do not wait for other jobs that do.
    pub(crate) fn is_explicit(&self) -> bool {
        self.usage.explicit_sync
    }

    /// Returns where the memory is. It stays there as long as the buffer is pinned, or as the lock
    /// of a VM is held that maps it while [`BoData::is_mappable`].
    pub(crate) fn residence(&self) -> MemoryResidence {
        match &self.backing {
            BoBacking::Vram(placement) => match placement.place() {
                BoPlace::Vram(_) => MemoryResidence::LocalVram,
                BoPlace::System(_) => MemoryResidence::Host,
            },
            BoBacking::Peer(peer) => peer.residence(),
            BoBacking::Gtt(_)
            | BoBacking::User(_)
            | BoBacking::Imported(_)
            | BoBacking::Registers(_) => MemoryResidence::Host,
        }
    }

    /// What entries of page tables add to an offset in VRAM of another GPU of the hive.
    pub(super) fn hive_base(&self) -> u64 {
        match &self.backing {
            BoBacking::Peer(peer) => peer.view().map_or(0, HiveView::base),
            _ => 0,
        }
    }

    /// Returns the buffer of another GPU of the hive that this one gives access to.
    pub(crate) fn original(&self) -> Option<&ARef<Bo>> {
        match &self.backing {
            BoBacking::Peer(peer) => peer.view().map(HiveView::owner),
            _ => None,
        }
    }

    /// Returns the kind of the memory.
    pub(super) fn kind(&self) -> MemoryKind {
        match &self.backing {
            BoBacking::Vram(placement) => match placement.place() {
                BoPlace::Vram(_) => MemoryKind::Vram,
                BoPlace::System(_) => MemoryKind::EvictedVram,
            },
            BoBacking::Gtt(_) => MemoryKind::Gtt,
            BoBacking::User(memory) if memory.is_shared() => MemoryKind::Svm,
            BoBacking::User(_) => MemoryKind::Userptr,
            BoBacking::Imported(_) => MemoryKind::Imported,
            BoBacking::Registers(_) => MemoryKind::Registers,
            BoBacking::Peer(_) => MemoryKind::PeerVram,
        }
    }

    /// Whether the buffer is a range of registers, into which no data can be put.
    pub(crate) fn is_registers(&self) -> bool {
        matches!(self.backing, BoBacking::Registers(_))
    }

    /// Whether the buffer is VRAM of another GPU, which becomes invalid when that GPU is removed.
    pub(super) fn is_peer_vram(&self) -> bool {
        matches!(self.backing, BoBacking::Peer(_))
    }

    /// Whether the buffer is system memory of the driver.
    pub(crate) fn is_gtt(&self) -> bool {
        matches!(self.backing, BoBacking::Gtt(_))
    }

    /// Whether the buffer is memory that its client has asked to be in VRAM.
    pub(crate) fn is_vram(&self) -> bool {
        matches!(self.backing, BoBacking::Vram(_))
    }

    /// Whether the buffer is memory of another device.
    pub(crate) fn is_import(&self) -> bool {
        matches!(self.backing, BoBacking::Imported(_))
    }

    /// Whether the buffer is memory of the process itself.
    pub(crate) fn is_user(&self) -> bool {
        matches!(self.backing, BoBacking::User(_))
    }

    /// Whether the buffer is memory of the calling process in which nothing is mapped that belongs
    /// to a file or a device.
    ///
    /// # Errors
    ///
    /// Those of [`UserMemory::is_anonymous`].
    pub(crate) fn is_anonymous(&self) -> Result<bool> {
        self.user().map_or(Ok(false), UserMemory::is_anonymous)
    }

    /// The domain in which the client prefers the buffer, if it has said one since.
    pub(crate) fn preferred(&self) -> Option<u32> {
        let preferred = self.preferred.load(Relaxed);
        (preferred != NO_DOMAIN).then_some(preferred)
    }

    /// Notes the domain in which the client prefers the buffer.
    pub(crate) fn prefer(&self, domain: u32) {
        self.preferred.store(domain, Relaxed);
    }

    /// The process's address of the user memory, if the buffer is that.
    pub(crate) fn user_start(&self) -> Option<u64> {
        self.user().map(|memory| memory.start() as u64)
    }

    /// Returns the user memory, if the buffer is that.
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
                BoPlace::System(copy) => copy.pages().is_mapped(),
            },
            BoBacking::Gtt(pages) => pages.is_mapped(),
            BoBacking::Imported(import) => import.is_mapped(),
            BoBacking::Registers(registers) => registers.bar.is_mapped(),
            BoBacking::Peer(peer) => peer.is_mapped(),
            BoBacking::User(_) => false,
        }
    }

    /// Returns the runs of addresses for page tables with their bytes, in order: VRAM offsets or
    /// DMA addresses. There are none for memory of a process, of which the addresses change from
    /// time to time.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        /// Keeps the runs alive.
        enum RunKeeper<'a> {
            Moving(BoPlace),
            Imported(AttachmentRuns),
            Fixed(&'a [DmaRun]),
            Pages(Arc<SystemPages>),
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
            BoBacking::Peer(peer) => match peer.view().map(HiveView::place) {
                Some(FollowedPlace::Vram(blocks)) => RunKeeper::Moving(BoPlace::Vram(blocks)),
                Some(FollowedPlace::System(pages)) => RunKeeper::Pages(pages),
                Some(FollowedPlace::Moved | FollowedPlace::Gone) => RunKeeper::Fixed(&[]),
                None => RunKeeper::Fixed(peer.runs()),
            },
            BoBacking::User(_) => RunKeeper::Fixed(&[]),
        };
        let run = |run: &DmaRun| (run.address, run.size);
        (0..).map_while(move |index| match &keeper {
            RunKeeper::Moving(BoPlace::Vram(blocks)) => {
                let run: &VramRun = blocks.runs().get(index)?;
                Some((run.offset, run.size))
            }
            RunKeeper::Moving(BoPlace::System(copy)) => copy.pages().dma_runs().get(index).map(run),
            RunKeeper::Pages(pages) => pages.dma_runs().get(index).map(run),
            RunKeeper::Imported(runs) => runs.get(index).map(run),
            RunKeeper::Fixed(runs) => runs.get(index).map(run),
        })
    }

    /// Returns the memory, if others move it.
    pub(super) fn moving(&self) -> Option<MovingMemory<'_>> {
        match &self.backing {
            BoBacking::Imported(import) => Some(MovingMemory::Imported(import)),
            BoBacking::Peer(peer) => peer.view().map(MovingMemory::Hive),
            _ => None,
        }
    }

    /// Returns the placement, if the buffer is VRAM.
    pub(super) fn placement(&self) -> Option<&Arc<VramPlacement>> {
        match &self.backing {
            BoBacking::Vram(placement) => Some(placement),
            _ => None,
        }
    }

    /// Whether page tables may lead to the memory now: it is not being moved.
    pub(super) fn is_mappable(&self) -> bool {
        match &self.backing {
            BoBacking::Vram(placement) => placement.is_mappable(),
            BoBacking::Imported(import) => import.is_mapped(),
            BoBacking::Peer(peer) => peer.view().is_none_or(HiveView::is_mapped),
            _ => true,
        }
    }

    /// Checks whether the buffer may be pinned for a queue of `client`: the client may pin a small
    /// part of VRAM in all.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if it may not.
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

    /// Pins the memory where it is. `None` if it never moves.
    ///
    /// # Errors
    ///
    /// `EBUSY` while it is being moved.
    pub(super) fn try_pin(&self) -> Result<Option<PinnedBuffer>> {
        match self.placement() {
            None => Ok(None),
            Some(placement) => placement.try_pin().map(Some).ok_or(EBUSY),
        }
    }

    /// Waits until the memory is not being moved, for a bounded time. May sleep.
    pub(super) fn wait(&self) {
        if let Some(placement) = self.placement() {
            placement.wait();
        }
    }

    /// Pins the memory where it is if it belongs to another client than `client`: that one could
    /// not be notified when it moves.
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

    /// Whether other devices access the buffer in VRAM.
    pub(crate) fn is_shared_in_vram(&self) -> bool {
        self.placement()
            .is_some_and(|placement| placement.is_shared_in_vram())
    }

    /// Other GPUs of the hive lose the buffer, whose GPU is about to be removed. May sleep.
    pub(crate) fn leave_hive(&self) {
        if let Some(placement) = self.placement() {
            placement.tell_followers(true);
        }
    }

    /// Unmaps system memory from the device, which is about to be removed. No VM maps the buffer
    /// any more.
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

    /// Whether the buffer is VRAM, if it may be shared with other processes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not memory of the driver.
    pub(crate) fn is_shared_vram(&self) -> Result<bool> {
        match &self.backing {
            BoBacking::Vram(_) => Ok(true),
            BoBacking::Gtt(_) | BoBacking::Imported(_) => Ok(false),
            BoBacking::User(_) | BoBacking::Registers(_) | BoBacking::Peer(_) => Err(EINVAL),
        }
    }

    /// Calls `access` for each piece of `count` dwords at byte `offset`, with its VRAM offset and
    /// its range of dwords.
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

    /// Reads dwords from byte `offset`, a multiple of 4, on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they are not all inside the buffer or the buffer is not memory of the driver;
    /// `ENODEV` if the device is gone.
    pub(crate) fn read32s(&self, offset: u64, to: &mut [u32]) -> Result {
        if let Some(pages) = self.pages() {
            return pages.read32s(offset, to);
        }
        match self.placement().ok_or(EINVAL)?.place() {
            BoPlace::System(copy) => copy.pages().read32s(offset, to),
            BoPlace::Vram(blocks) => Self::vram_pieces(&blocks, offset, to.len(), |place, part| {
                let to = to.get_mut(part).ok_or(EINVAL)?;
                self.gpu.hw.vram_map.read32s(place, to)
            }),
        }
    }

    /// Like [`BoData::read32s`], also from memory of a process, if its pages are there. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`BoData::read32s`] and of [`UserMemory::read_present`].
    pub(crate) fn read32s_present(&self, offset: u64, to: &mut [u32]) -> Result {
        match self.user() {
            Some(memory) => memory.read_present(offset, to),
            None => self.read32s(offset, to),
        }
    }

    /// Reads the 64-bit value at byte `offset`, a multiple of 8, in one access.
    ///
    /// # Errors
    ///
    /// Those of [`BoData::read32s`].
    pub(crate) fn read64(&self, offset: u64) -> Result<u64> {
        if let Some(pages) = self.pages() {
            return pages.read64(offset);
        }
        match self.placement().ok_or(EINVAL)?.place() {
            BoPlace::System(copy) => copy.pages().read64(offset),
            BoPlace::Vram(blocks) => {
                let (place, _) = blocks.locate(offset).ok_or(EINVAL)?;
                self.gpu.hw.vram_map.read64(place)
            }
        }
    }

    /// Writes the 64-bit value at byte `offset`, a multiple of 8, in one access. A buffer that can
    /// move has to be pinned.
    ///
    /// # Errors
    ///
    /// Those of [`BoData::read32s`]; `EPERM` for memory that the process itself may only read.
    pub(crate) fn write64(&self, offset: u64, value: u64) -> Result {
        if let Some(pages) = self.pages() {
            return pages.write64(offset, value);
        }
        match self.placement().ok_or(EINVAL)?.place() {
            BoPlace::System(copy) => copy.pages().write64(offset, value),
            BoPlace::Vram(blocks) => {
                let (place, _) = blocks.locate(offset).ok_or(EINVAL)?;
                self.gpu.hw.vram_map.write64(place, value)
            }
        }
    }
}

impl Bo {
    /// Returns a number that tells the buffer apart from all others that exist.
    pub(crate) fn address(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }
}
