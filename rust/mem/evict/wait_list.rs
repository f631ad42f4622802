// SPDX-License-Identifier: GPL-2.0
//! Allocations that look for room in VRAM.

use crate::mem::account::MemoryClient;
use hw::vram_fairness::VramWait;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
    time::{Instant, Monotonic},
};

/// All allocations that look for room, in the order of their arrival. It has a lock of its own,
/// inside that of the evictor's state.
#[pin_data]
pub(super) struct WaitList {
    #[pin]
    asking: Mutex<KVVec<WaitEntry>>,
}

struct WaitEntry {
    /// Tells the entry apart from the others in the list.
    number: u64,
    client: Arc<MemoryClient>,
    since: Instant<Monotonic>,
}

impl WaitList {
    /// Creates an empty list.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            asking <- new_mutex!(KVVec::new(), "WaitList::asking"),
        })
    }

    /// Adds an entry for `client` until the returned guard is dropped.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn join(&self, client: &Arc<MemoryClient>) -> Result<WaitGuard<'_>> {
        let mut asking = self.asking.lock();
        let number = asking.last().map_or(0, |last| last.number.wrapping_add(1));
        let since = Instant::now();
        let asker = WaitEntry {
            number,
            client: client.clone(),
            since,
        };
        asking.push(asker, GFP_KERNEL)?;
        Ok(WaitGuard {
            line: self,
            number,
            since,
        })
    }

    /// Whether no allocation looks for room.
    pub(super) fn is_empty(&self) -> bool {
        self.asking.lock().is_empty()
    }

    /// Returns how long the first allocation of a client other than `client` has looked for room.
    pub(super) fn first(&self, client: &Arc<MemoryClient>) -> Option<VramWait> {
        let asking = self.asking.lock();
        let other = |asker: &&WaitEntry| !Arc::ptr_eq(&asker.client, client);
        asking
            .iter()
            .find(other)
            .map(|asker| waiting_since(asker.since))
    }
}

fn waiting_since(since: Instant<Monotonic>) -> VramWait {
    let asked = since.elapsed().as_millis();
    VramWait::Room { asked }
}

/// An entry in the wait list; dropping it removes the entry.
pub(super) struct WaitGuard<'a> {
    line: &'a WaitList,
    number: u64,
    since: Instant<Monotonic>,
}

impl WaitGuard<'_> {
    /// Returns how long the allocation has waited.
    pub(super) fn wait(&self) -> VramWait {
        waiting_since(self.since)
    }

    /// Returns the same in milliseconds.
    pub(super) fn ms(&self) -> i64 {
        self.since.elapsed().as_millis()
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        let mut asking = self.line.asking.lock();
        asking.retain(|asker| asker.number != self.number);
    }
}
