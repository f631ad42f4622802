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

/// All that look for room, the first one first. It has a lock of its own, inside that of the evictor's state.
#[pin_data]
pub(super) struct WaitList {
    #[pin]
    asking: Mutex<KVVec<WaitEntry>>,
}

struct WaitEntry {
    /// Which of those that there are.
    number: u64,
    client: Arc<MemoryClient>,
    since: Instant<Monotonic>,
}

impl WaitList {
    /// Nobody.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            asking <- new_mutex!(KVVec::new(), "Line::asking"),
        })
    }

    /// `client` looks for room until what is returned is dropped. `ENOMEM`.
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

    /// Whether nobody looks for room.
    pub(super) fn is_empty(&self) -> bool {
        self.asking.lock().is_empty()
    }

    /// How long the first one looks that is another than `client`.
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

/// Somebody looks for room as long as this exists.
pub(super) struct WaitGuard<'a> {
    line: &'a WaitList,
    number: u64,
    since: Instant<Monotonic>,
}

impl WaitGuard<'_> {
    /// How long that is.
    pub(super) fn wait(&self) -> VramWait {
        waiting_since(self.since)
    }

    /// The same in milliseconds.
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
