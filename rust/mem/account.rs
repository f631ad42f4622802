// SPDX-License-Identifier: GPL-2.0
//! How much memory clients have, and may have: VRAM of a GPU, and system memory of the machine.
//!
//! A client is an address space: what DRM calls one too. One alone may take all VRAM that is not the driver's, and no
//! more. System memory has one limit for all GPUs and clients, far enough from all there is that the machine goes on.

use crate::{kern::memory, mem::vram::Vram};
use hw::va::LARGE_PAGE_SIZE;
use kernel::{
    fmt, new_spinlock,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, SpinLock,
    },
};

/// Bytes of system memory that are taken, for all GPUs.
static TAKEN: Atomic<i64> = Atomic::new(0);

/// The most system memory that may be taken, in bytes: three quarters of it, so that the machine goes on.
pub(crate) fn system_limit() -> u64 {
    memory::total() / 4 * 3
}

/// Takes `bytes` of system memory. `ENOMEM` when that passes the limit. Any context.
fn take(bytes: u64) -> Result {
    let limit = i64::try_from(system_limit()).map_err(|_| ENOMEM)?;
    let bytes = i64::try_from(bytes).map_err(|_| ENOMEM)?;
    if bytes > limit {
        return Err(ENOMEM);
    }
    // Others that take meanwhile are seen by whoever adds later, so the limit holds.
    if TAKEN.fetch_add(bytes, Relaxed) > limit - bytes {
        TAKEN.add(-bytes, Relaxed);
        return Err(ENOMEM);
    }
    Ok(())
}

/// Gives back what [`take`] took.
fn give(bytes: u64) {
    TAKEN.add(-(bytes as i64), Relaxed);
}

/// A kind of memory that a client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Region {
    /// VRAM that it asked for, wherever it is now.
    Vram,
    /// System memory of the driver's.
    Gtt,
    /// Memory of the process itself.
    User,
}

/// The memory of one address space on one GPU. Counts only; no locks.
pub(crate) struct Client {
    bytes: [Atomic<i64>; 3],
    pasid: Atomic<u32>,
}

impl Client {
    /// A client without memory. `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        let client = Self {
            bytes: [const { Atomic::new(0) }; 3],
            pasid: Atomic::new(0),
        };
        Ok(Arc::new(client, GFP_KERNEL)?)
    }

    /// The process with PASID `pasid` has it.
    pub(crate) fn belongs_to(&self, pasid: u16) {
        self.pasid.store(pasid.into(), Relaxed);
    }

    /// Bytes of a region.
    pub(crate) fn bytes(&self, region: Region) -> u64 {
        u64::try_from(self.bytes[region as usize].load(Relaxed)).unwrap_or(0)
    }

    fn add(&self, region: Region, bytes: i64) {
        self.bytes[region as usize].add(bytes, Relaxed);
    }

    /// The lines of fdinfo, in the format of drm-usage-stats.
    pub(crate) fn show(&self, mut line: impl FnMut(fmt::Arguments<'_>)) {
        let kib = |bytes: u64| bytes >> 10;
        let vram = kib(self.bytes(Region::Vram));
        let system = kib(self.bytes(Region::Gtt) + self.bytes(Region::User));
        line(fmt!("pasid:\t{}\n", self.pasid.load(Relaxed)));
        for (region, total, resident) in [("vram", vram, vram), ("gtt", system, system)] {
            line(fmt!("drm-total-{region}:\t{total} KiB\n"));
            line(fmt!("drm-resident-{region}:\t{resident} KiB\n"));
            // The older name of the same.
            line(fmt!("drm-memory-{region}:\t{resident} KiB\n"));
        }
    }
}

/// System memory that a buffer has taken, pinned or allocated; given back when dropped.
pub(crate) struct SystemShare {
    client: Arc<Client>,
    region: Region,
    bytes: u64,
}

impl SystemShare {
    /// Takes `bytes` of `region` for `client`. `ENOMEM` when that passes the limit. Any context.
    pub(crate) fn take(client: &Arc<Client>, region: Region, bytes: u64) -> Result<Self> {
        take(bytes)?;
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
        give(self.bytes);
    }
}

/// What clients together have of a GPU's VRAM.
struct Sums {
    /// Bytes that they asked for.
    asked: u64,
}

/// Says who may have how much of a GPU's VRAM. It has a lock of its own, a spinlock.
#[pin_data]
pub(crate) struct Budget {
    #[pin]
    sums: SpinLock<Sums>,
}

impl Budget {
    /// Nobody has anything. `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                sums <- new_spinlock!(Sums { asked: 0 }, "Budget::sums"),
            }),
            GFP_KERNEL,
        )
    }

    /// The bytes that `client`, or one that is new, may ask for in one buffer, in whole large pages, as clients
    /// allocate it.
    pub(crate) fn available(&self, vram: &Vram, client: Option<&Client>) -> u64 {
        let sums = self.sums.lock();
        let most = sums.available(vram.usable(), client);
        most / LARGE_PAGE_SIZE * LARGE_PAGE_SIZE
    }

    /// Lets `client` have a buffer of `bytes` of VRAM. `ENOMEM` when that is more than there is for it.
    pub(crate) fn charge(
        self: &Arc<Self>,
        vram: &Vram,
        client: &Arc<Client>,
        bytes: u64,
    ) -> Result<Charge> {
        let mut sums = self.sums.lock();
        if bytes > sums.available(vram.usable(), Some(client)) {
            return Err(ENOMEM);
        }
        sums.asked += bytes;
        client.add(Region::Vram, bytes as i64);
        drop(sums);
        Ok(Charge {
            client: client.clone(),
            budget: self.clone(),
            bytes,
        })
    }
}

impl Sums {
    fn available(&self, usable: u64, client: Option<&Client>) -> u64 {
        let own = client.map_or(0, |client| client.bytes(Region::Vram));
        let own = usable.saturating_sub(own);
        own.min(usable.saturating_sub(self.asked))
    }
}

/// VRAM that a client may have; given back when dropped.
pub(crate) struct Charge {
    client: Arc<Client>,
    budget: Arc<Budget>,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut sums = self.budget.sums.lock();
        sums.asked -= self.bytes;
        self.client.add(Region::Vram, -(self.bytes as i64));
    }
}
