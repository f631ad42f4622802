// SPDX-License-Identifier: GPL-2.0
//! The share of each client in a GPU's VRAM, and the system memory that backs the VRAM that clients
//! together have asked for beyond it.

use super::{
    account::{charge, remaining, uncharge, MemoryClient, MemoryRegion, PAUSE, TRIES},
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

/// The sums over all clients of a GPU's VRAM, in bytes.
struct ClientSums {
    /// The VRAM that clients asked for, and the system memory that backs it.
    backing: VramBacking,
    /// The part of it that has to stay where it is.
    stuck: u64,
    /// The part of it that belongs to clients that are closed: most of it is freed soon.
    closed: u64,
}

/// Decides how much of a GPU's VRAM each client may have. It has a lock of its own, a spinlock.
///
/// Clients together may ask for more VRAM than there is. Then all of it is backed by system memory,
/// which is charged at once: so each client can always be moved out for another, and be moved in
/// while that other one is out.
#[pin_data]
pub(crate) struct VramBudget {
    #[pin]
    sums: SpinLock<ClientSums>,
}

impl VramBudget {
    /// Creates a budget without clients.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                sums <- new_spinlock!(
                    ClientSums { backing: VramBacking::new(), stuck: 0, closed: 0 },
                    "VramBudget::sums"
                ),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the bytes that `client`, or a new one, may ask for in one buffer, in whole large
    /// pages, as clients allocate it.
    pub(crate) fn available(&self, vram: &VramManager, client: Option<&MemoryClient>) -> u64 {
        let mut sums = self.sums.lock();
        sums.backing.set_usable(vram.usable());
        sums.available(client) / LARGE_PAGE_SIZE * LARGE_PAGE_SIZE
    }

    /// Charges a buffer of `bytes` of VRAM to `client`. May sleep, while processes that have ended
    /// still have some of it.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if that is more than the client may have.
    pub(crate) fn charge(
        self: &Arc<Self>,
        vram: &VramManager,
        client: &Arc<MemoryClient>,
        bytes: u64,
    ) -> Result<VramCharge> {
        let mut attempts = 0;
        while !self.try_charge(vram, client, bytes)? {
            attempts += 1;
            if attempts > TRIES || task::is_killed() {
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

    /// Tries [`VramBudget::charge`] once. Returns false if it may succeed in a moment.
    fn try_charge(&self, vram: &VramManager, client: &MemoryClient, bytes: u64) -> Result<bool> {
        let mut sums = self.sums.lock();
        sums.backing.set_usable(vram.usable());
        let available = sums.available(Some(client));
        if bytes > available {
            return if bytes > available + sums.closed {
                Err(ENOMEM)
            } else {
                Ok(false)
            };
        }
        // Buffers in system memory may have been charged in the meantime.
        charge(sums.backing.missing(bytes, 0), client.own())?;
        sums.backing.add(bytes, 0);
        client.add(MemoryRegion::Vram, bytes as i64);
        Ok(true)
    }

    /// Charges `bytes` of system memory into which a buffer of `client` is about to be moved, until
    /// the returned value is dropped.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the bytes are not backed yet and exceed the client's share.
    pub(super) fn pay_for_away(
        self: &Arc<Self>,
        client: &MemoryClient,
        bytes: u64,
    ) -> Result<AwayCharge> {
        let mut sums = self.sums.lock();
        charge(sums.backing.missing(0, bytes), client.own())?;
        sums.backing.add(0, bytes);
        Ok(AwayCharge {
            budget: self.clone(),
            bytes,
        })
    }
}

/// The charge for the system memory that a VRAM buffer is in. Dropping it returns the charge,
/// unless all VRAM has to be backed.
pub(super) struct AwayCharge {
    budget: Arc<VramBudget>,
    bytes: u64,
}

impl Drop for AwayCharge {
    fn drop(&mut self) {
        let mut sums = self.budget.sums.lock();
        uncharge(sums.backing.remove(0, self.bytes));
    }
}

impl ClientSums {
    fn available(&self, client: Option<&MemoryClient>) -> u64 {
        let own = |region| client.map_or(0, |client| client.bytes(region));
        let (usable, asked) = (self.backing.usable(), self.backing.asked());
        // Other clients make room, except with memory that has to stay.
        let stuck = self.stuck.saturating_sub(own(MemoryRegion::Stuck));
        let room = usable.saturating_sub(own(MemoryRegion::Vram) + stuck);
        let free = usable.saturating_sub(asked);
        if free >= room {
            // No other client has any, so none of it has to be backed.
            return room;
        }
        let remaining = remaining(client.map_or(0, MemoryClient::own));
        let covered = (self.backing.taken() + remaining).saturating_sub(asked);
        room.min(free.max(covered))
    }
}

/// VRAM that is charged to a client. Dropping it returns the charge.
pub(crate) struct VramCharge {
    client: Arc<MemoryClient>,
    budget: Arc<VramBudget>,
    bytes: u64,
}

impl VramCharge {
    /// Returns the client.
    pub(super) fn client(&self) -> &Arc<MemoryClient> {
        &self.client
    }

    /// Returns the bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sets whether the buffer is in system memory and has to stay there.
    pub(super) fn set_kept_in_system(&self, on: bool) {
        let bytes = self.bytes as i64;
        self.client
            .add(MemoryRegion::Kept, if on { bytes } else { -bytes });
    }

    /// Sets whether the buffer is in VRAM and has to stay there.
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

    /// Whether the memory that has to stay in VRAM leaves half of VRAM to other buffers.
    pub(super) fn leaves_room(&self) -> bool {
        let sums = self.budget.sums.lock();
        sums.stuck <= sums.backing.usable() / 2
    }

    /// Counts the buffer as left behind by a closed client (`on`), or no longer, when the buffer
    /// itself is freed.
    pub(super) fn close(&self, on: bool) {
        let mut sums = self.budget.sums.lock();
        if on {
            sums.closed += self.bytes;
        } else {
            sums.closed -= self.bytes;
        }
    }
}

impl Drop for VramCharge {
    fn drop(&mut self) {
        let mut sums = self.budget.sums.lock();
        self.client.add(MemoryRegion::Vram, -(self.bytes as i64));
        uncharge(sums.backing.remove(self.bytes, 0));
    }
}
