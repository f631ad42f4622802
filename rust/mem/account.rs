// SPDX-License-Identifier: GPL-2.0
//! How much memory clients have, and may have: VRAM of a GPU, and system memory of the machine.
//!
//! A client is an address space: what DRM calls one too. One alone may take all VRAM that is not the driver's, and no
//! more; what several take beyond it has to fit into system memory. System memory has one limit for all GPUs and clients, far
//! enough from all there is that the machine goes on; an eighth of it is kept for clients that have little.

use crate::kern::{memory, task};
use hw::share::FairShare;
use kernel::{
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, AtomicFlag, Relaxed, Release},
        Arc,
    },
    time::{delay::fsleep, Delta},
};

/// How often, and how long in between, VRAM of processes that have ended is waited for: two seconds in all.
pub(super) const TRIES: u32 = 200;
pub(super) const PAUSE: Delta = Delta::from_millis(10);

/// About what the driver keeps for a buffer besides its memory, and for a mapping besides page tables, bytes.
pub(super) const BUFFER_BYTES: u64 = 2048;
const MAPPING_BYTES: u64 = 1024;
/// The most mappings of an address space.
const MOST_MAPPINGS: u32 = 1 << 20;

/// Bytes of system memory that are taken, for all GPUs.
static TAKEN: Atomic<i64> = Atomic::new(0);

/// The most system memory that may be taken, in bytes: three quarters of it, so that the machine goes on.
pub(crate) fn system_limit() -> u64 {
    memory::total() / 4 * 3
}

/// For how many clients system memory is kept, and which part of it.
const PARTIES: u64 = 1024;
const KEPT_PART: u64 = 8;

/// How system memory is shared.
fn system_share() -> FairShare {
    let limit = system_limit();
    FairShare::new(limit, limit / KEPT_PART, PARTIES)
}

/// Takes `bytes` of system memory for one who has `own` bytes before, of what is counted for it. `ENOMEM` when that passes its
/// share. Any context.
pub(super) fn charge(bytes: u64, own: u64) -> Result {
    let signed = i64::try_from(bytes).map_err(|_| ENOMEM)?;
    let share = system_share();
    let mut taken = TAKEN.load(Relaxed);
    // What is refused is never counted: it would stand in others' way meanwhile.
    loop {
        if !share.allows(u64::try_from(taken).unwrap_or(0), own, bytes) {
            return Err(ENOMEM);
        }
        let sum = taken.checked_add(signed).ok_or(ENOMEM)?;
        match TAKEN.cmpxchg(taken, sum, Relaxed) {
            Ok(_) => return Ok(()),
            Err(now) => taken = now,
        }
    }
}

/// Gives back what [`charge`] took.
pub(super) fn uncharge(bytes: u64) {
    TAKEN.add(-(bytes as i64), Relaxed);
}

/// The bytes that [`charge`] still gives to one who has `own`.
pub(super) fn left(own: u64) -> u64 {
    let taken = u64::try_from(TAKEN.load(Relaxed)).unwrap_or(0);
    system_share().most(taken, own)
}

/// A kind of memory that a client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum MemoryRegion {
    /// VRAM that it asked for, wherever it is now.
    Vram,
    /// System memory of the driver's.
    Gtt,
    /// Memory of the process itself.
    User,
    /// System memory for what the driver knows of its buffers and mappings.
    Metadata,
    /// VRAM for page tables.
    Tables,
    /// Of its VRAM, what is in system memory now, and is not on its way from there.
    Evicted,
    /// Of its VRAM, what is there and has to stay.
    Stuck,
    /// Of its VRAM, what is in system memory and has to stay.
    Kept,
}

impl MemoryRegion {
    const COUNT: usize = Self::Kept as usize + 1;
}

/// The memory of one address space on one GPU. Counts only; no locks.
pub(crate) struct MemoryClient {
    bytes: [Atomic<i64>; MemoryRegion::COUNT],
    /// System memory that it has taken, of all regions.
    system: Atomic<i64>,
    /// Mappings in its address space.
    mappings: Atomic<u32>,
    pasid: Atomic<u32>,
    /// Its queues are quiesced, since something of it is in system memory that is not to be used there.
    away: AtomicFlag,
    /// Something that other devices had in system memory can come home.
    recalled: AtomicFlag,
    /// Somebody moves buffers of it, and may be the last that has them.
    moving: AtomicFlag,
}

impl MemoryClient {
    /// A client without memory. `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        let client = Self {
            bytes: [const { Atomic::new(0) }; MemoryRegion::COUNT],
            system: Atomic::new(0),
            mappings: Atomic::new(0),
            pasid: Atomic::new(0),
            away: AtomicFlag::new(false),
            recalled: AtomicFlag::new(false),
            moving: AtomicFlag::new(false),
        };
        Ok(Arc::new(client, GFP_KERNEL_ACCOUNT)?)
    }

    /// A number that no other client has meanwhile, and not 0.
    pub(super) fn number(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    /// The process with PASID `pasid` has it.
    pub(crate) fn belongs_to(&self, pasid: u16) {
        self.pasid.store(pasid.into(), Relaxed);
    }

    /// Bytes of a region.
    pub(crate) fn bytes(&self, region: MemoryRegion) -> u64 {
        u64::try_from(self.bytes[region as usize].load(Relaxed)).unwrap_or(0)
    }

    pub(super) fn add(&self, region: MemoryRegion, bytes: i64) {
        self.bytes[region as usize].add(bytes, Relaxed);
    }

    /// Takes system memory for it. `ENOMEM` when that passes its share. Any context.
    fn charge(&self, bytes: u64) -> Result {
        let signed = i64::try_from(bytes).map_err(|_| ENOMEM)?;
        let own = u64::try_from(self.system.fetch_add(signed, Relaxed)).unwrap_or(0);
        charge(bytes, own + self.bytes(MemoryRegion::Vram))
            .inspect_err(|_| self.system.add(-signed, Relaxed))
    }

    /// What is counted for it when system memory is shared: that, and the VRAM that it asked for, which system memory may
    /// have to cover.
    pub(super) fn own(&self) -> u64 {
        let system = u64::try_from(self.system.load(Relaxed)).unwrap_or(0);
        system + self.bytes(MemoryRegion::Vram)
    }

    /// Gives back what [`MemoryClient::charge`] took.
    fn uncharge(&self, bytes: u64) {
        self.system.add(-(bytes as i64), Relaxed);
        uncharge(bytes);
    }

    /// Whether its queues are quiesced until it is home.
    pub(super) fn is_away(&self) -> bool {
        self.away.load(Acquire)
    }

    /// Says whether its queues are quiesced until it is home: while they are.
    pub(super) fn set_away(&self, away: bool) {
        self.away.store(away, Release);
    }

    /// Something of it that is in system memory can come home, or that is seen to.
    pub(super) fn recall(&self, on: bool) {
        self.recalled.store(on, Release);
    }

    /// Whether something of it that is in system memory can come home.
    pub(super) fn is_recalled(&self) -> bool {
        self.recalled.load(Acquire)
    }

    /// Somebody moves buffers of it from now on, or nobody any more.
    pub(super) fn set_moving(&self, moving: bool) {
        self.moving.store(moving, Release);
    }

    /// Waits until nobody moves buffers of it, so that what it has let go of is free, but not longer than for processes that have
    /// ended. Sleeps.
    pub(crate) fn wait_for_moves(&self) {
        for _ in 0..TRIES {
            if !self.moving.load(Acquire) || task::is_killed() {
                break;
            }
            fsleep(PAUSE);
        }
    }

    /// Bytes of its VRAM that are in system memory and are to come home.
    pub(super) fn waiting_to_return(&self) -> u64 {
        let kept = self.bytes(MemoryRegion::Kept);
        self.bytes(MemoryRegion::Evicted).saturating_sub(kept)
    }

    /// Bytes of its VRAM that are there and may be moved away.
    pub(super) fn movable_home(&self) -> u64 {
        let away = self.bytes(MemoryRegion::Evicted) + self.bytes(MemoryRegion::Stuck);
        self.bytes(MemoryRegion::Vram).saturating_sub(away)
    }

    /// The PASID of the process that has it; 0 if none has.
    pub(super) fn pasid(&self) -> u32 {
        self.pasid.load(Relaxed)
    }
}

/// System memory that something has taken for a client, pinned or allocated; given back when dropped.
pub(crate) struct SystemShare {
    client: Arc<MemoryClient>,
    region: MemoryRegion,
    bytes: u64,
}

impl SystemShare {
    /// Takes `bytes` of `region` for `client`. `ENOMEM` when that passes its share. Any context.
    pub(crate) fn charge(
        client: &Arc<MemoryClient>,
        region: MemoryRegion,
        bytes: u64,
    ) -> Result<Self> {
        client.charge(bytes)?;
        client.add(region, bytes as i64);
        Ok(Self {
            client: client.clone(),
            region,
            bytes,
        })
    }
}

impl Drop for SystemShare {
    fn drop(&mut self) {
        self.client.add(self.region, -(self.bytes as i64));
        self.client.uncharge(self.bytes);
    }
}

/// What a mapping costs, and that it is one of those that there may be; given back when dropped.
pub(super) struct MappingShare {
    client: Arc<MemoryClient>,
    _metadata: SystemShare,
}

impl MappingShare {
    /// One more mapping of `client`'s. `ENOMEM` when there are [`MOST_MAPPINGS`], or its share is passed.
    pub(super) fn charge(client: &Arc<MemoryClient>) -> Result<Self> {
        let metadata = SystemShare::charge(client, MemoryRegion::Metadata, MAPPING_BYTES)?;
        // From here on the count goes down when it is dropped.
        let before = client.mappings.fetch_add(1, Relaxed);
        let share = Self {
            client: client.clone(),
            _metadata: metadata,
        };
        if before < MOST_MAPPINGS {
            Ok(share)
        } else {
            Err(ENOMEM)
        }
    }
}

impl Drop for MappingShare {
    fn drop(&mut self) {
        self.client.mappings.fetch_sub(1, Relaxed);
    }
}
