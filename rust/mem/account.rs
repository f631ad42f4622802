// SPDX-License-Identifier: GPL-2.0
//! How much system memory clients may take for GPUs.

use crate::kern::memory;
use kernel::{
    prelude::*,
    sync::atomic::{Atomic, Relaxed},
};

/// Bytes of system memory that buffers of all GPUs have taken.
static TAKEN: Atomic<i64> = Atomic::new(0);

/// The most that may be taken, in bytes: three quarters of the memory, so that the machine goes on.
pub(crate) fn system_limit() -> u64 {
    memory::total() / 4 * 3
}

/// System memory that a buffer has taken, pinned or allocated; given back when dropped.
pub(crate) struct SystemShare(i64);

impl SystemShare {
    /// Takes `bytes`. `ENOMEM` when that passes the limit. Any context.
    pub(crate) fn take(bytes: u64) -> Result<Self> {
        let limit = i64::try_from(system_limit()).map_err(|_| ENOMEM)?;
        let bytes = i64::try_from(bytes).map_err(|_| ENOMEM)?;
        if bytes > limit {
            return Err(ENOMEM);
        }
        // Others that take meanwhile are seen by whoever adds later, so the limit holds.
        let before = TAKEN.fetch_add(bytes, Relaxed);
        let share = Self(bytes);
        if before > limit - bytes {
            return Err(ENOMEM);
        }
        Ok(share)
    }
}

impl Drop for SystemShare {
    fn drop(&mut self) {
        TAKEN.add(-self.0, Relaxed);
    }
}
