// SPDX-License-Identifier: GPL-2.0
//! The reset of all GPUs of a hive. Their links are negotiated together, so all are reset within a
//! second of one another (amdgpu: amdgpu_device_xgmi_reset_func). Each is taken down by itself and
//! waits here for the others, without locks of the driver.

use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full};
use kernel::sync::Arc;
use kernel::time::{delay::fsleep, Delta, Instant, Monotonic};

/// How long a GPU waits for the others to be taken down, milliseconds: several engines of each may
/// have to be given up on the way.
const LIMIT_MS: i64 = 30_000;
/// Between two looks.
const POLL: Delta = Delta::from_millis(1);
/// In the count: one GPU has given up waiting.
const FAILED: u32 = 1 << 31;

/// The meeting of the GPUs of a hive before their reset.
pub(crate) struct HiveReset {
    expected: u32,
    /// GPUs that wait, and [`FAILED`].
    waiting: Atomic<u32>,
}

impl HiveReset {
    /// A meeting of `expected` GPUs.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(expected: u32) -> Result<Arc<Self>> {
        let meeting = Self {
            expected,
            waiting: Atomic::new(0),
        };
        Ok(Arc::new(meeting, GFP_KERNEL)?)
    }

    /// Waits for the others, each of which calls this once. Returns whether all are there: either
    /// for all callers or for none. May sleep, for a bounded time.
    pub(crate) fn wait(&self) -> bool {
        let start = Instant::<Monotonic>::now();
        let _ = self.waiting.fetch_add(1, Full);
        loop {
            let waiting = self.waiting.load(Acquire);
            if waiting == self.expected {
                return true;
            }
            if waiting & FAILED != 0 {
                return false;
            }
            if start.elapsed().as_millis() >= LIMIT_MS {
                // Unless the last one has come just now.
                let _ = self.waiting.cmpxchg(waiting, waiting | FAILED, Full);
                continue;
            }
            fsleep(POLL);
        }
    }
}
