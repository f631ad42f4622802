// SPDX-License-Identifier: GPL-2.0
//! How much memory clients have, and may have: VRAM of a GPU, and system memory of the machine.
//!
//! A client is an address space; DRM calls that a client, too. A single client may take all VRAM
//! that the driver does not use itself, but no more. The amount by which several clients together
//! exceed it has to fit into system memory. System memory has one limit for all GPUs and clients,
//! which leaves enough for the machine to go on. An eighth of it is reserved for clients that have
//! little. User memory that is pinned has a limit of its own, in place of RLIMIT_MEMLOCK: other
//! drivers of these GPUs pin none, and the limits for containers are small.

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

/// How often, and at which interval, an allocation checks again for the VRAM of processes that have
/// ended: two seconds in all.
pub(super) const TRIES: u32 = 200;
pub(super) const PAUSE: Delta = Delta::from_millis(10);

/// About the bytes that the driver needs for a buffer besides its memory, and for a mapping besides
/// page tables.
pub(super) const BUFFER_BYTES: u64 = 2048;
const MAPPING_BYTES: u64 = 1024;
/// The limit of mappings in an address space.
const MAX_MAPPINGS: u32 = 1 << 20;

/// Bytes of system memory that are charged, for all GPUs.
static CHARGED: ChargedBytes = ChargedBytes::new();
/// Bytes of user memory that are pinned, for all GPUs; each pin counts.
static PINNED: ChargedBytes = ChargedBytes::new();

/// Returns the limit of system memory that may be charged, in bytes: three quarters of the
/// machine's memory, so that the machine goes on.
pub(crate) fn system_limit() -> u64 {
    memory::total() / 4 * 3
}

/// The number of clients for which system memory is reserved, and the divisor of the reserved part.
const PARTIES: u64 = 1024;
const KEPT_PART: u64 = 8;

/// Returns how system memory is shared.
fn system_share() -> FairShare {
    let limit = system_limit();
    FairShare::new(limit, limit / KEPT_PART, PARTIES)
}

/// The divisors of the machine's memory for the part that may be pinned, and of that part for what
/// is reserved for clients that have little.
const PINNED_PART: u64 = 16;
const PINNED_KEPT_PART: u64 = 2;

/// Returns how the memory that may be pinned is shared. Pinned memory is the process's own, and
/// counts in its cgroup like any other, but cannot be swapped out.
fn pin_share() -> FairShare {
    let limit = memory::total() / PINNED_PART;
    FairShare::new(limit, limit / PINNED_KEPT_PART, PARTIES)
}

/// A count of bytes that clients share.
struct ChargedBytes(Atomic<i64>);

impl ChargedBytes {
    const fn new() -> Self {
        Self(Atomic::new(0))
    }

    fn get(&self) -> u64 {
        u64::try_from(self.0.load(Relaxed)).unwrap_or(0)
    }

    /// Adds `bytes` for a client that has `own` of them already. Context: any.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if that exceeds the client's part of `share`.
    fn charge(&self, share: FairShare, bytes: u64, own: u64) -> Result {
        let signed = i64::try_from(bytes).map_err(|_| ENOMEM)?;
        let mut taken = self.0.load(Relaxed);
        // A request that is refused is never counted: it would block other clients meanwhile.
        loop {
            if !share.allows(u64::try_from(taken).unwrap_or(0), own, bytes) {
                return Err(ENOMEM);
            }
            let sum = taken.checked_add(signed).ok_or(ENOMEM)?;
            match self.0.cmpxchg(taken, sum, Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => taken = now,
            }
        }
    }

    /// Like [`ChargedBytes::charge`], and adds `bytes` to `count`, the client's own, of which `own`
    /// makes the bytes that it has already.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if that exceeds the client's part of `share`.
    fn charge_client(
        &self,
        share: FairShare,
        bytes: u64,
        count: &Atomic<i64>,
        own: impl Fn(i64) -> u64,
    ) -> Result {
        let signed = i64::try_from(bytes).map_err(|_| ENOMEM)?;
        let mut counted = count.load(Relaxed);
        // A request that is refused is never counted, as in `charge`: its size can be anything.
        loop {
            let sum = counted.checked_add(signed).ok_or(ENOMEM)?;
            self.charge(share, bytes, own(counted))?;
            match count.cmpxchg(counted, sum, Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => counted = now,
            }
            // Another thread of the client was faster: it may now have too much for this request.
            self.uncharge(bytes);
        }
    }

    fn uncharge(&self, bytes: u64) {
        self.0.add(-(bytes as i64), Relaxed);
    }
}

/// Charges `bytes` of system memory to a client that is charged with `own` bytes already. Context:
/// any.
///
/// # Errors
///
/// `ENOMEM` if that exceeds the client's share.
pub(super) fn charge(bytes: u64, own: u64) -> Result {
    CHARGED.charge(system_share(), bytes, own)
}

/// Returns memory that was charged by [`charge`].
pub(super) fn uncharge(bytes: u64) {
    CHARGED.uncharge(bytes);
}

/// Returns the bytes that [`charge`] still grants to a client that has `own`.
pub(super) fn remaining(own: u64) -> u64 {
    system_share().most(CHARGED.get(), own)
}

/// A kind of memory that a client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum MemoryRegion {
    /// VRAM that the client asked for, wherever it is now.
    Vram,
    /// System memory of the driver.
    Gtt,
    /// Memory of the process itself.
    User,
    /// System memory for the driver's data about the client's buffers and mappings.
    Metadata,
    /// VRAM for page tables.
    Tables,
    /// The part of [`Vram`](Self::Vram) that is in system memory now, and is not being moved in.
    Evicted,
    /// The part of [`Vram`](Self::Vram) that is in VRAM and has to stay there.
    Stuck,
    /// The part of [`Vram`](Self::Vram) that is in system memory and has to stay there.
    Kept,
}

impl MemoryRegion {
    const COUNT: usize = Self::Kept as usize + 1;
}

/// The memory of one address space on one GPU. It has counters only, and no locks.
pub(crate) struct MemoryClient {
    bytes: [Atomic<i64>; MemoryRegion::COUNT],
    /// Bytes of system memory that are charged to the client, for all regions.
    system: Atomic<i64>,
    /// Bytes of user memory that its queues keep pinned; each pin counts.
    pinned: Atomic<i64>,
    /// Mappings in its address space.
    mappings: Atomic<u32>,
    pasid: Atomic<u32>,
    /// The client's queues are quiesced, since one of its buffers is in system memory and must not
    /// be used there.
    away: AtomicFlag,
    /// A buffer that was in system memory for other devices can be moved in.
    recalled: AtomicFlag,
    /// A thread moves buffers of the client, and may be the last that holds them.
    moving: AtomicFlag,
}

impl MemoryClient {
    /// Creates a client without memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        let client = Self {
            bytes: [const { Atomic::new(0) }; MemoryRegion::COUNT],
            system: Atomic::new(0),
            pinned: Atomic::new(0),
            mappings: Atomic::new(0),
            pasid: Atomic::new(0),
            away: AtomicFlag::new(false),
            recalled: AtomicFlag::new(false),
            moving: AtomicFlag::new(false),
        };
        Ok(Arc::new(client, GFP_KERNEL_ACCOUNT)?)
    }

    /// Returns a number that is not 0, and that no other client has as long as this one exists.
    pub(super) fn number(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    /// Sets the PASID of the process that owns the client.
    pub(crate) fn belongs_to(&self, pasid: u16) {
        self.pasid.store(pasid.into(), Relaxed);
    }

    /// Returns the bytes of a region.
    pub(crate) fn bytes(&self, region: MemoryRegion) -> u64 {
        u64::try_from(self.bytes[region as usize].load(Relaxed)).unwrap_or(0)
    }

    pub(super) fn add(&self, region: MemoryRegion, bytes: i64) {
        self.bytes[region as usize].add(bytes, Relaxed);
    }

    /// Charges system memory to the client. Context: any.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if that exceeds its share.
    fn charge(&self, bytes: u64) -> Result {
        let own = |system| self.own_with(system);
        CHARGED.charge_client(system_share(), bytes, &self.system, own)
    }

    /// Returns the bytes that count for the client when system memory is shared: its system memory,
    /// and the VRAM that it asked for, which system memory may have to back.
    pub(super) fn own(&self) -> u64 {
        self.own_with(self.system.load(Relaxed))
    }

    /// Like [`MemoryClient::own`], with `system` bytes of system memory.
    fn own_with(&self, system: i64) -> u64 {
        u64::try_from(system).unwrap_or(0) + self.bytes(MemoryRegion::Vram)
    }

    /// Returns memory that was charged by [`MemoryClient::charge`].
    fn uncharge(&self, bytes: u64) {
        self.system.add(-(bytes as i64), Relaxed);
        uncharge(bytes);
    }

    /// Whether the client's queues are quiesced until its buffers are in VRAM.
    pub(super) fn is_away(&self) -> bool {
        self.away.load(Acquire)
    }

    /// Sets whether the client's queues are quiesced until its buffers are in VRAM. The caller has
    /// them quiesced.
    pub(super) fn set_away(&self, away: bool) {
        self.away.store(away, Release);
    }

    /// Sets or clears the flag that a buffer of the client, now in system memory, can be moved in.
    pub(super) fn recall(&self, on: bool) {
        self.recalled.store(on, Release);
    }

    /// Whether a buffer of the client, now in system memory, can be moved in.
    pub(super) fn is_recalled(&self) -> bool {
        self.recalled.load(Acquire)
    }

    /// Sets whether a thread moves buffers of the client.
    pub(super) fn set_moving(&self, moving: bool) {
        self.moving.store(moving, Release);
    }

    /// Waits until no thread moves buffers of the client, so that the memory of those that it has
    /// released is free. The limit is that for processes that have ended. May sleep.
    pub(crate) fn wait_for_moves(&self) {
        for _ in 0..TRIES {
            if !self.moving.load(Acquire) || task::is_killed() {
                break;
            }
            fsleep(PAUSE);
        }
    }

    /// Returns the bytes of the client's VRAM that are in system memory and are to be moved in.
    pub(super) fn waiting_to_return(&self) -> u64 {
        let kept = self.bytes(MemoryRegion::Kept);
        self.bytes(MemoryRegion::Evicted).saturating_sub(kept)
    }

    /// Returns the bytes of the client's VRAM that are in VRAM and may be moved out.
    pub(super) fn movable_home(&self) -> u64 {
        let away = self.bytes(MemoryRegion::Evicted) + self.bytes(MemoryRegion::Stuck);
        self.bytes(MemoryRegion::Vram).saturating_sub(away)
    }

    /// Returns the PASID of the process that owns the client; 0 if there is none.
    pub(super) fn pasid(&self) -> u32 {
        self.pasid.load(Relaxed)
    }
}

/// System memory, pinned or allocated, that is charged to a client. Dropping it returns the charge.
pub(crate) struct SystemShare {
    client: Arc<MemoryClient>,
    region: MemoryRegion,
    bytes: u64,
}

impl SystemShare {
    /// Charges `bytes` of `region` to `client`. Context: any.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if that exceeds its share.
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

/// User memory that is pinned for a client. Dropping it returns the charge.
pub(super) struct PinShare {
    client: Arc<MemoryClient>,
    bytes: u64,
}

impl PinShare {
    /// Charges `bytes` to `client`. Context: any.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if that exceeds its share.
    pub(super) fn charge(client: &Arc<MemoryClient>, bytes: u64) -> Result<Self> {
        let own = |pinned| u64::try_from(pinned).unwrap_or(0);
        PINNED.charge_client(pin_share(), bytes, &client.pinned, own)?;
        Ok(Self {
            client: client.clone(),
            bytes,
        })
    }
}

impl Drop for PinShare {
    fn drop(&mut self) {
        self.client.pinned.add(-(self.bytes as i64), Relaxed);
        PINNED.uncharge(self.bytes);
    }
}

/// The charge for a mapping: its metadata, and one of the limited number of mappings. Dropping it
/// returns both.
pub(super) struct MappingShare {
    client: Arc<MemoryClient>,
    _metadata: SystemShare,
}

impl MappingShare {
    /// Charges one more mapping to `client`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there are [`MAX_MAPPINGS`], or the client's share is exceeded.
    pub(super) fn charge(client: &Arc<MemoryClient>) -> Result<Self> {
        let metadata = SystemShare::charge(client, MemoryRegion::Metadata, MAPPING_BYTES)?;
        // From here on dropping the share decrements the count.
        let before = client.mappings.fetch_add(1, Relaxed);
        let share = Self {
            client: client.clone(),
            _metadata: metadata,
        };
        if before < MAX_MAPPINGS {
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
