// SPDX-License-Identifier: GPL-2.0
//! Allocations that look for room in VRAM.

use crate::mem::account::Client;
use hw::turns::Wait;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
    time::{Instant, Monotonic},
};

/// All that look for room, the first one first. It has a lock of its own, inside that of the evictor's state.
#[pin_data]
pub(super) struct Line {
    #[pin]
    asking: Mutex<KVVec<Asker>>,
}

struct Asker {
    /// Which of those that there are.
    number: u64,
    client: Arc<Client>,
    since: Instant<Monotonic>,
}

impl Line {
    /// Nobody.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            asking <- new_mutex!(KVVec::new(), "Line::asking"),
        })
    }

    /// `client` looks for room until what is returned is dropped. `ENOMEM`.
    pub(super) fn join(&self, client: &Arc<Client>) -> Result<Asking<'_>> {
        let mut asking = self.asking.lock();
        let number = asking.last().map_or(0, |last| last.number.wrapping_add(1));
        let since = Instant::now();
        let asker = Asker {
            number,
            client: client.clone(),
            since,
        };
        asking.push(asker, GFP_KERNEL)?;
        Ok(Asking {
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
    pub(super) fn first(&self, client: &Arc<Client>) -> Option<Wait> {
        let asking = self.asking.lock();
        let other = |asker: &&Asker| !Arc::ptr_eq(&asker.client, client);
        asking
            .iter()
            .find(other)
            .map(|asker| looks_since(asker.since))
    }
}

fn looks_since(since: Instant<Monotonic>) -> Wait {
    let asked = since.elapsed().as_millis();
    Wait::Room { asked }
}

/// Somebody looks for room as long as this exists.
pub(super) struct Asking<'a> {
    line: &'a Line,
    number: u64,
    since: Instant<Monotonic>,
}

impl Asking<'_> {
    /// How long that is.
    pub(super) fn wait(&self) -> Wait {
        looks_since(self.since)
    }

    /// The same in milliseconds.
    pub(super) fn ms(&self) -> i64 {
        self.since.elapsed().as_millis()
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut asking = self.line.asking.lock();
        asking.retain(|asker| asker.number != self.number);
    }
}
