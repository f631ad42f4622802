// SPDX-License-Identifier: GPL-2.0
//! The share of each client in a GPU's VRAM, and the system memory that covers what clients
//! together have asked for beyond it.

use super::{
    account::{charge, left, uncharge, MemoryClient, MemoryRegion, PAUSE, TRIES},
    vram::VramManager,
};
use crate::kern::task;
use hw::{va::LARGE_PAGE_SIZE, vram_backing::VramBacking};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{Arc, SpinLock},
    time::delay::fsleep,
};

/// The VRAM of a GPU that clients have together, in bytes.
struct ClientSums {
    /// The bytes that they asked for, and system memory for that.
    cover: VramBacking,
    /// Of that, bytes that have to stay where they are.
    stuck: u64,
    /// Of that, bytes that clients have left behind that are gone: most of it goes soon.
    left: u64,
}

/// Grants VRAM of a GPU to clients. It has a lock of its own, a spinlock.
///
/// Clients together may ask for more than there is. Then all of it is covered by system memory,
/// which is taken at once: so each of them can always be moved out for another, and be moved in
/// while that one is out.
#[pin_data]
pub(crate) struct VramBudget {
    #[pin]
    sums: SpinLock<ClientSums>,
}

impl VramBudget {
    /// No client has any.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                sums <- new_spinlock!(
                    ClientSums { cover: VramBacking::new(), stuck: 0, left: 0 },
                    "Budget::sums"
                ),
            }),
            GFP_KERNEL,
        )
    }

    /// The bytes that `client`, or a new one, may ask for in one buffer, in whole large pages, as
    /// clients allocate it.
    pub(crate) fn available(&self, vram: &VramManager, client: Option<&MemoryClient>) -> u64 {
        let mut sums = self.sums.lock();
        sums.cover.set_usable(vram.usable());
        sums.available(client) / LARGE_PAGE_SIZE * LARGE_PAGE_SIZE
    }

    /// Charges `client` for a buffer of `bytes` of VRAM. Sleeps while processes that have ended
    /// still have some of it.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when that is more than there is for it.
    pub(crate) fn charge(
        self: &Arc<Self>,
        vram: &VramManager,
        client: &Arc<MemoryClient>,
        bytes: u64,
    ) -> Result<VramCharge> {
        let mut tries = 0;
        while !self.try_charge(vram, client, bytes)? {
            tries += 1;
            if tries > TRIES || task::is_killed() {
                return Err(ENOMEM);
            }
            fsleep(PAUSE);
        }
        Ok(VramCharge {
            client: client.clone(),
            budget: self.clone(),
            bytes,
        })
    }

    /// False when it may be possible in a moment.
    fn try_charge(&self, vram: &VramManager, client: &MemoryClient, bytes: u64) -> Result<bool> {
        let mut sums = self.sums.lock();
        sums.cover.set_usable(vram.usable());
        let available = sums.available(Some(client));
        if bytes > available {
            return if bytes > available + sums.left {
                Err(ENOMEM)
            } else {
                Ok(false)
            };
        }
        // Buffers in system memory may have been faster.
        charge(sums.cover.missing(bytes, 0), client.own())?;
        sums.cover.add(bytes, 0);
        client.add(MemoryRegion::Vram, bytes as i64);
        Ok(true)
    }

    /// Pays for `bytes` of system memory that a buffer of `client` is about to be in, until the
    /// charge is dropped.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when that is not covered yet, and passes its share.
    pub(super) fn pay_for_away(
        self: &Arc<Self>,
        client: &MemoryClient,
        bytes: u64,
    ) -> Result<AwayCharge> {
        let mut sums = self.sums.lock();
        charge(sums.cover.missing(0, bytes), client.own())?;
        sums.cover.add(0, bytes);
        Ok(AwayCharge {
            budget: self.clone(),
            bytes,
        })
    }
}

/// Payment for the system memory that a VRAM buffer is in; given back when dropped, unless all VRAM
/// has to be covered.
pub(super) struct AwayCharge {
    budget: Arc<VramBudget>,
    bytes: u64,
}

impl Drop for AwayCharge {
    fn drop(&mut self) {
        let mut sums = self.budget.sums.lock();
        uncharge(sums.cover.remove(0, self.bytes));
    }
}

impl ClientSums {
    fn available(&self, client: Option<&MemoryClient>) -> u64 {
        let own = |region| client.map_or(0, |client| client.bytes(region));
        let (usable, asked) = (self.cover.usable(), self.cover.asked());
        // Others make room, apart from what has to stay.
        let stuck = self.stuck.saturating_sub(own(MemoryRegion::Stuck));
        let room = usable.saturating_sub(own(MemoryRegion::Vram) + stuck);
        let free = usable.saturating_sub(asked);
        if free >= room {
            // No other client has any, so nothing of it has to be covered.
            return room;
        }
        let left = left(client.map_or(0, MemoryClient::own));
        let covered = (self.cover.taken() + left).saturating_sub(asked);
        room.min(free.max(covered))
    }
}

/// VRAM that a client is charged for; given back when dropped.
pub(crate) struct VramCharge {
    client: Arc<MemoryClient>,
    budget: Arc<VramBudget>,
    bytes: u64,
}

impl VramCharge {
    /// Its client.
    pub(super) fn client(&self) -> &Arc<MemoryClient> {
        &self.client
    }

    /// The bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// It is in system memory and has to stay there from now on, or no longer.
    pub(super) fn set_kept_in_system(&self, on: bool) {
        let bytes = self.bytes as i64;
        self.client
            .add(MemoryRegion::Kept, if on { bytes } else { -bytes });
    }

    /// It is in VRAM and has to stay there from now on, or no longer.
    pub(super) fn set_kept_in_vram(&self, on: bool) {
        let mut sums = self.budget.sums.lock();
        let bytes = self.bytes as i64;
        if on {
            sums.stuck += self.bytes;
            self.client.add(MemoryRegion::Stuck, bytes);
        } else {
            sums.stuck -= self.bytes;
            self.client.add(MemoryRegion::Stuck, -bytes);
        }
    }

    /// Whether what has to stay in VRAM leaves half of it to others.
    pub(super) fn leaves_room(&self) -> bool {
        let sums = self.budget.sums.lock();
        sums.stuck <= sums.cover.usable() / 2
    }

    /// Its client is gone, or it goes itself after that.
    pub(super) fn close(&self, on: bool) {
        let mut sums = self.budget.sums.lock();
        if on {
            sums.left += self.bytes;
        } else {
            sums.left -= self.bytes;
        }
    }
}

impl Drop for VramCharge {
    fn drop(&mut self) {
        let mut sums = self.budget.sums.lock();
        self.client.add(MemoryRegion::Vram, -(self.bytes as i64));
        uncharge(sums.cover.remove(self.bytes, 0));
    }
}
