// SPDX-License-Identifier: GPL-2.0
//! How busy the GPU is. Only the SMU's firmware measures that. Here, the blocks are sampled a few
//! times for whether they are at work.

use kernel::prelude::*;
use kernel::sync::{new_mutex, Mutex};
use kernel::time::delay::fsleep;
use kernel::time::{Delta, Instant, Monotonic};

/// Number of samples, and the time between two of them.
const LOOKS: u32 = 20;
const BETWEEN: Delta = Delta::from_millis(1);
/// For how long a result serves all callers, milliseconds. However many callers there are, the
/// registers are not read more often.
const FRESH_MS: i64 = 100;

/// The last result.
#[pin_data]
pub(crate) struct BusyMeter {
    #[pin]
    last: Mutex<Option<(u32, Instant<Monotonic>)>>,
}

impl BusyMeter {
    /// A meter without a result.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            last <- new_mutex!(None, "BusyMeter::last"),
        })
    }

    /// The percentage of samples in which `is_busy` is true. Takes some 20 ms, plus the time of a
    /// concurrent caller, which holds the lock while it samples. Context: may sleep.
    pub(super) fn percent(&self, is_busy: impl Fn() -> bool) -> u32 {
        let mut last = self.last.lock();
        if let Some((percent, at)) = *last {
            if at.elapsed().as_millis() < FRESH_MS {
                return percent;
            }
        }
        let mut busy = 0;
        for look in 0..LOOKS {
            if look != 0 {
                fsleep(BETWEEN);
            }
            busy += u32::from(is_busy());
        }
        let percent = busy * 100 / LOOKS;
        *last = Some((percent, Instant::now()));
        percent
    }
}
