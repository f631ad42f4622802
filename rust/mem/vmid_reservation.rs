// SPDX-License-Identifier: GPL-2.0
//! The reservation of a VMID (AMDGPU_VM): a GPU has one, as with amdgpu. It has no effect but that.

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;

/// The reservation of a GPU.
pub(crate) struct VmidReservation(Arc<Atomic<bool>>);

/// Has the reservation, until it is dropped.
pub(crate) struct VmidHold(Arc<Atomic<bool>>);

impl VmidReservation {
    /// A reservation that no file has.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        Ok(Self(Arc::new(Atomic::new(false), GFP_KERNEL)?))
    }

    /// Takes it; `None` if another holder has it.
    pub(crate) fn take(&self) -> Option<VmidHold> {
        // Relaxed: it guards nothing.
        self.0.cmpxchg(false, true, Relaxed).ok()?;
        Some(VmidHold(self.0.clone()))
    }
}

impl Drop for VmidHold {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}
