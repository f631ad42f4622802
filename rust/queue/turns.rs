// SPDX-License-Identifier: GPL-2.0
//! Whoever has queues hears when VMIDs change hands.

use super::compute::Scheduler;
use super::slots::Slots;
use crate::ip::vmid::Watch;
use crate::queue::Queues;
use kernel::prelude::*;
use kernel::sync::Arc;

/// All that puts queues of processes on the hardware.
pub(crate) struct Turns {
    slots: Arc<Slots>,
    compute: Arc<dyn Scheduler>,
}

impl Turns {
    /// What `gpu` has, which it does not hold. ENOMEM.
    pub(crate) fn new(gpu: &Queues) -> Result<Arc<Self>> {
        let turns = Self {
            slots: gpu.slots.clone(),
            compute: gpu.compute.clone(),
        };
        Ok(Arc::new(turns, GFP_KERNEL)?)
    }
}

impl Watch for Turns {
    fn changed(&self) {
        self.slots.wake();
        self.compute.vmids_changed();
    }
}
