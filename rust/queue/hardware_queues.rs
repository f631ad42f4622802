// SPDX-License-Identifier: GPL-2.0
//! Whoever has queues hears when VMIDs change hands.

use super::compute::ComputeScheduler;
use super::sdma::slots::SdmaSlots;
use crate::ip::vmid::VmidUser;
use crate::queue::GpuQueues;
use kernel::prelude::*;
use kernel::sync::Arc;

/// All that puts queues of processes on the hardware.
pub(crate) struct HardwareQueues {
    slots: Arc<SdmaSlots>,
    compute: Arc<dyn ComputeScheduler>,
}

impl HardwareQueues {
    /// What `gpu` has, which it does not hold. ENOMEM.
    pub(crate) fn new(gpu: &GpuQueues) -> Result<Arc<Self>> {
        let turns = Self {
            slots: gpu.slots.clone(),
            compute: gpu.compute.clone(),
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
