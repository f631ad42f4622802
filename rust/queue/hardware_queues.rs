// SPDX-License-Identifier: GPL-2.0
//! The schedulers of queues as one observer of changes of VMIDs.

use super::compute::ComputeScheduler;
use super::sdma::slots::SdmaSlots;
use crate::ip::vmid::VmidUser;
use crate::queue::GpuQueues;
use kernel::prelude::*;
use kernel::sync::Arc;

/// All schedulers that put queues of processes on the hardware.
pub(crate) struct HardwareQueues {
    slots: Arc<SdmaSlots>,
    compute: Arc<dyn ComputeScheduler>,
}

impl HardwareQueues {
    /// The schedulers of `gpu`, which this does not keep alive.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
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
