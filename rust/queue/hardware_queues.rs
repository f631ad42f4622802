// SPDX-License-Identifier: GPL-2.0
//! Notification of both kinds of queues when VMIDs change hands.

use super::compute::ComputeScheduler;
use super::sdma::slots::SdmaSlots;
use crate::ip::vmid::VmidUser;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The objects that put queues of processes on the hardware.
pub(crate) struct HardwareQueues {
    slots: Arc<SdmaSlots>,
    compute: Arc<dyn ComputeScheduler>,
}

impl HardwareQueues {
    /// Returns both kinds of a GPU.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        slots: &Arc<SdmaSlots>,
        compute: &Arc<dyn ComputeScheduler>,
    ) -> Result<Arc<Self>> {
        let turns = Self {
            slots: slots.clone(),
            compute: compute.clone(),
        };
        Ok(Arc::new(turns, GFP_KERNEL)?)
    }
}

impl VmidUser for HardwareQueues {
    fn changed(&self) {
        self.slots.wake();
        self.compute.vmids_changed();
    }
}
