// SPDX-License-Identifier: GPL-2.0
//! How busy the GPU is. Only the SMU's firmware counts that; here the blocks are asked a few times whether they are at work.

use kernel::prelude::*;
use kernel::sync::{new_mutex, Mutex};
use kernel::time::delay::fsleep;
use kernel::time::{Delta, Instant, Monotonic};

/// How often the blocks are asked, and how long in between.
const LOOKS: u32 = 20;
const BETWEEN: Delta = Delta::from_millis(1);
/// For how long an answer serves all who ask, milliseconds: however many they are, registers are not read more often.
const FRESH_MS: i64 = 100;

/// The last answer.
#[pin_data]
pub(crate) struct BusyMeter {
    #[pin]
    last: Mutex<Option<(u32, Instant<Monotonic>)>>,
}

impl BusyMeter {
    /// Nobody has asked.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            last <- new_mutex!(None, "BusyMeter::last"),
        })
    }

    /// In how many of a hundred looks `is_busy` is true. Takes some 20 ms, or what it takes others who ask.
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
