// SPDX-License-Identifier: GPL-2.0
//! Buffer objects: memory that a process has asked for, whatever is behind it.

pub(crate) mod create;
mod object;
mod peer;

use crate::{
    kern::{
        dma_buf::Runs,
        dma_resource::DmaResource,
        drm::{self, exported::ObjectHandle, gem::Object},
        pages::{DmaRun, SystemPages},
    },
    ledger::{Hold, Kind},
    mem::{
        account::{Client, Region, SystemShare, BUFFER_BYTES},
        import::Import,
        metadata::MetadataCell,
        placement::{Pinned, Place, Placement},
        user::UserMemory,
        vram::{VramBlocks, VramRun},
        Memory,
    },
};
use peer::PeerVram;

use hw::pte::{Access, Coherence, Residence};
use kernel::{
    prelude::*,
    sync::{Arc, SetOnce},
};

/// How much VRAM of a client may be pinned for its queues: this part of all, or so many bytes if that is more.
const PINNED_PART: u64 = 32;
const PINNED_MIN: u64 = 64 << 20;

/// The DRM device of a GPU.
pub(crate) type DrmDevice = drm::Device<Arc<Memory>>;

/// A buffer object.
pub(crate) type Bo = Object<Buffer>;

/// A handle of one.
pub(crate) type BoHandle = ObjectHandle<Buffer>;

/// What is behind a buffer.
enum Backing {
    /// VRAM, or system memory for a while.
    Vram(Arc<Placement>),
    /// System memory of the driver's.
    Gtt(SystemPages),
    /// Memory of the process itself, which changes as the process likes.
    User(UserMemory),
    /// Memory that somebody else has exported.
    Imported(Import),
    /// The process's doorbells or the page of HDP flush registers, which the CPU maps through /dev/kfd.
    Registers(Registers),
    /// VRAM of another GPU.
    Peer(PeerVram),
}

/// Registers of the GPU that a process may have, as the GPU itself reaches them.
pub(crate) struct Registers {
    /// The BAR.
    pub(crate) bar: Arc<DmaResource>,
    /// Which of it.
    pub(crate) run: DmaRun,
    /// What must not be another process's meanwhile.
    pub(crate) _owner: Option<Arc<dyn Send + Sync>>,
}

/// How the GPU may use a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// What the GPU may do; reading is always allowed.
    pub(crate) access: Access,
    /// What the GPU's caches may do.
    pub(crate) coherence: Coherence,
}

/// The driver's part of a buffer object.
pub(crate) struct Buffer {
    backing: Backing,
    usage: Usage,
    metadata: MetadataCell,
    gpu: Arc<Memory>,
    _bytes: Option<Hold>,
    _share: Option<SystemShare>,
    /// What the driver keeps of it, once somebody pays for it.
    paid: SetOnce<SystemShare>,
    _hold: Hold,
}

impl Buffer {
    fn new(gpu: &Arc<Memory>, backing: Backing, usage: Usage) -> Self {
        Self {
            backing,
            usage,
            metadata: MetadataCell::new(),
            gpu: gpu.clone(),
            _bytes: None,
            _share: None,
            paid: SetOnce::new(),
            _hold: gpu.hw.ledger.hold(Kind::Bos, 1),
        }
    }

    fn sharing(self, share: SystemShare, kind: Kind, size: u64) -> Self {
        Self {
            _bytes: Some(self.gpu.hw.ledger.hold(kind, size)),
            _share: Some(share),
            ..self
        }
    }

    /// The same, for which [`Buffer::pay`] was called.
    fn paid_by(self, client: &Arc<Client>) -> Result<Self> {
        self.pay(client)?;
        Ok(self)
    }

    /// `client` pays for what the driver keeps of it, unless somebody does already: what is imported has no client of its own, so
    /// that who gets the first handle pays. `ENOMEM` past its share.
    pub(crate) fn pay(&self, client: &Arc<Client>) -> Result {
        if self.paid.as_ref().is_none() {
            let share = SystemShare::take(client, Region::Metadata, BUFFER_BYTES)?;
            // Another thread may be first, and this share is given back.
            self.paid.populate(share);
        }
        Ok(())
    }

    /// The GPU that it was made for.
    pub(crate) fn gpu(&self) -> &Arc<Memory> {
        &self.gpu
    }

    /// What the GPU may do.
    pub(crate) fn access(&self) -> Access {
        Access {
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
    /// lock of a VM is held that maps it and [`Buffer::is_mappable`].
    pub(crate) fn residence(&self) -> Residence {
        match &self.backing {
            Backing::Vram(placement) => match placement.place() {
                Place::Vram(_) => Residence::LocalVram,
                Place::System(_) => Residence::Host,
            },
            Backing::Gtt(_)
            | Backing::User(_)
            | Backing::Imported(_)
            | Backing::Registers(_)
            | Backing::Peer(_) => Residence::Host,
        }
    }

    /// Whether it is registers, which nothing can be put into.
    pub(crate) fn is_registers(&self) -> bool {
        matches!(self.backing, Backing::Registers(_))
    }

    /// Whether it is another GPU's VRAM, which goes with that.
    pub(super) fn is_peer_vram(&self) -> bool {
        matches!(self.backing, Backing::Peer(_))
    }

    /// Whether it is system memory of the driver's.
    pub(crate) fn is_gtt(&self) -> bool {
        matches!(self.backing, Backing::Gtt(_))
    }

    /// The user memory, when it is that.
    pub(super) fn user(&self) -> Option<&UserMemory> {
        match &self.backing {
            Backing::User(memory) => Some(memory),
            _ => None,
        }
    }

    /// Whether the GPU may be given the addresses of [`Buffer::runs`].
    pub(crate) fn is_reachable(&self) -> bool {
        match &self.backing {
            Backing::Vram(placement) => match placement.place() {
                Place::Vram(_) => true,
                Place::System(away) => away.pages().is_mapped(),
            },
            Backing::Gtt(pages) => pages.is_mapped(),
            Backing::Imported(import) => import.is_mapped(),
            Backing::Registers(registers) => registers.bar.is_mapped(),
            Backing::Peer(peer) => peer.is_mapped(),
            Backing::User(_) => false,
        }
    }

    /// The runs of addresses for page tables with their bytes, in order: VRAM offsets or DMA addresses. None for memory
    /// of a process, which has others from time to time.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        /// Who keeps the runs.
        enum Keeper<'a> {
            Moving(Place),
            Imported(Runs),
            Fixed(&'a [DmaRun]),
        }
        let keeper = match &self.backing {
            Backing::Vram(placement) => Keeper::Moving(placement.place()),
            Backing::Gtt(pages) => Keeper::Fixed(pages.dma_runs()),
            Backing::Imported(import) => import.runs().map_or(Keeper::Fixed(&[]), Keeper::Imported),
            Backing::Registers(registers) => Keeper::Fixed(core::slice::from_ref(&registers.run)),
            Backing::Peer(peer) => Keeper::Fixed(peer.runs()),
            Backing::User(_) => Keeper::Fixed(&[]),
        };
        let run = |run: &DmaRun| (run.address, run.size);
        (0..).map_while(move |index| match &keeper {
            Keeper::Moving(Place::Vram(blocks)) => {
                let run: &VramRun = blocks.runs().get(index)?;
                Some((run.offset, run.size))
            }
            Keeper::Moving(Place::System(away)) => away.pages().dma_runs().get(index).map(run),
            Keeper::Imported(runs) => runs.get(index).map(run),
            Keeper::Fixed(runs) => runs.get(index).map(run),
        })
    }

    /// What is imported.
    pub(super) fn import(&self) -> Option<&Import> {
        match &self.backing {
            Backing::Imported(import) => Some(import),
            _ => None,
        }
    }

    /// The placement of a VRAM buffer.
    pub(super) fn placement(&self) -> Option<&Arc<Placement>> {
        match &self.backing {
            Backing::Vram(placement) => Some(placement),
            _ => None,
        }
    }

    /// Whether page tables may lead to the memory now: it is not on its way.
    pub(super) fn is_mappable(&self) -> bool {
        match &self.backing {
            Backing::Vram(placement) => placement.is_mappable(),
            Backing::Imported(import) => import.is_mapped(),
            _ => true,
        }
    }

    /// Whether it may be pinned for a queue of `client`'s: a small part of VRAM in all. `ENOMEM` otherwise.
    pub(super) fn may_be_pinned(&self, client: &Client) -> Result {
        let Some(placement) = self.placement().filter(|placement| placement.may_move()) else {
            return Ok(());
        };
        let most = PINNED_MIN.max(self.gpu.vram.usable() / PINNED_PART);
        if placement.bytes() + client.bytes(Region::Stuck) > most {
            return Err(ENOMEM);
        }
        Ok(())
    }

    /// Keeps the memory where it is: `None` if it never moves. `EBUSY` while it is on its way.
    pub(super) fn try_pin(&self) -> Result<Option<Pinned>> {
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
    pub(super) fn pin_for(&self, client: &Arc<Client>) -> Option<Pinned> {
        let foreign = |p: &&Arc<Placement>| !Arc::ptr_eq(p.client(), client);
        self.placement().filter(foreign).map(|p| p.pin())
    }

    fn pages(&self) -> Option<&SystemPages> {
        match &self.backing {
            Backing::Gtt(pages) => Some(pages),
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
            Backing::Gtt(pages) => pages.unmap_dma(),
            Backing::Imported(import) => import.close(),
            Backing::Vram(placement) => placement.detach(),
            Backing::Registers(registers) => registers.bar.unmap(),
            Backing::Peer(peer) => peer.unmap(),
            Backing::User(_) => (),
        }
    }

    /// Whether others may be given it, and then whether it is VRAM. EINVAL if it is not memory of the driver's.
    pub(crate) fn is_shared_vram(&self) -> Result<bool> {
        match &self.backing {
            Backing::Vram(_) => Ok(true),
            Backing::Gtt(_) | Backing::Imported(_) => Ok(false),
            Backing::User(_) | Backing::Registers(_) | Backing::Peer(_) => Err(EINVAL),
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
            Place::System(away) => away.pages().read32s(offset, to),
            Place::Vram(blocks) => Self::vram_pieces(&blocks, offset, to.len(), |place, part| {
                let to = to.get_mut(part).ok_or(EINVAL)?;
                self.gpu.hw.vram_map.read32s(place, to)
            }),
        }
    }

    /// Reads the 64-bit value at byte `offset`, a multiple of 8, in one access. Errors as [`Buffer::read32s`].
    pub(crate) fn read64(&self, offset: u64) -> Result<u64> {
        if let Some(pages) = self.pages() {
            return pages.read64(offset);
        }
        match self.placement().ok_or(EINVAL)?.place() {
            Place::System(away) => away.pages().read64(offset),
            Place::Vram(blocks) => {
                let (place, _) = blocks.locate(offset).ok_or(EINVAL)?;
                self.gpu.hw.vram_map.read64(place)
            }
        }
    }

    /// Writes the 64-bit value at byte `offset`, a multiple of 8, in one access: of a buffer that is pinned, if it can
    /// move. Errors as [`Buffer::read32s`]; `EPERM` for memory that the process itself may only read.
    pub(crate) fn write64(&self, offset: u64, value: u64) -> Result {
        if let Some(pages) = self.pages() {
            return pages.write64(offset, value);
        }
        match self.placement().ok_or(EINVAL)?.place() {
            Place::System(away) => away.pages().write64(offset, value),
            Place::Vram(blocks) => {
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
