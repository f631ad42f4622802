// SPDX-License-Identifier: GPL-2.0
//! The CP's doorbells in a process's slice.
//!
//! They lie in a page of the BAR itself, so a store of the process reaches the CP without the
//! driver seeing it, even after the queue that had the doorbell is destroyed. A doorbell is
//! therefore reused within its slice only, and as late as possible. The worst that a late store can
//! do is to ring another queue of the same process, with a write pointer that the process could as
//! well have stored there on purpose. The slice itself is given to another process only when no
//! mapping of it is left.

use crate::queue::doorbell::DoorbellSlice;
use hw::doorbell::{Doorbell, DoorbellSlot};
use kernel::prelude::*;
use kernel::sync::Arc;

/// A CP doorbell of a process. Dropped after its queue has left the hardware.
pub(super) struct CpDoorbell {
    slot: DoorbellSlot,
    doorbell: Doorbell,
    slice: Arc<DoorbellSlice>,
}

impl CpDoorbell {
    /// Takes a doorbell of `slice`: the one that is `wanted`, or any.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the one that is wanted is taken or none; `ENOSPC` if all are taken, or the BAR
    /// has no room for the slice; `ENOMEM`.
    pub(super) fn new(slice: &Arc<DoorbellSlice>, wanted: Option<DoorbellSlot>) -> Result<Self> {
        let index = slice.index()?;
        let slot = match wanted {
            Some(slot) if slice.cp.lock().take(slice.layout(), slot) => slot,
            Some(_) => return Err(EINVAL),
            None => slice.cp.lock().alloc(slice.layout()).ok_or(ENOSPC)?,
        };
        Ok(Self {
            slot,
            doorbell: index.doorbell(slot),
            slice: slice.clone(),
        })
    }

    /// Returns its place in the slice.
    pub(super) fn slot(&self) -> DoorbellSlot {
        self.slot
    }

    /// Returns its place in the BAR.
    pub(super) fn doorbell(&self) -> Doorbell {
        self.doorbell
    }
}

impl Drop for CpDoorbell {
    fn drop(&mut self) {
        self.slice.cp.lock().free(self.slot);
    }
}
