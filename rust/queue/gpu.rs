// SPDX-License-Identifier: GPL-2.0
//! The GPU as a queue sees it.

use super::request::QueueOwner;
use crate::ip::Hardware;
use crate::mem::GpuMemory;
use crate::ring::KernelRings;
use crate::smi::SmiEvent;
use kernel::prelude::*;
use kernel::sync::{Arc, SetOnce};

/// A listener that hears of processes whose queues were stopped because one of them hung.
pub(super) trait HangListener: Send + Sync {
    /// The queues of process `pasid` were stopped. Allocates nothing and waits for nothing.
    fn stopped(&self, pasid: u16);
}

/// The slots of all SDMA engines, as one engine sees them.
pub(super) trait AllSdmaSlots: Send + Sync {
    /// Stops the queues of process `pasid`; see `SdmaSlots::fail`.
    fn fail(&self, engine: Option<u8>, pasid: u16, error: Error) -> Option<QueueOwner>;
}

/// The parts of a GPU that a queue uses, without those that hold queues.
pub(crate) struct QueueGpu {
    listener: SetOnce<Arc<dyn HangListener>>,
    /// Slots of SDMA engines.
    pub(super) slots: LateSdmaSlots,
    /// The driver's own rings.
    pub(super) rings: Arc<KernelRings>,
    /// The memory.
    pub(super) memory: Arc<GpuMemory>,
    /// The hardware.
    pub(super) hw: Arc<Hardware>,
}

impl QueueGpu {
    /// Returns the GPU of `rings`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(rings: &Arc<KernelRings>) -> Result<Arc<Self>> {
        let gpu = Self {
            listener: SetOnce::new(),
            slots: LateSdmaSlots(SetOnce::new()),
            rings: rings.clone(),
            memory: rings.memory.clone(),
            hw: rings.hw.clone(),
        };
        Ok(Arc::new(gpu, GFP_KERNEL)?)
    }

    /// Sets the listener, before there are queues. A second call does nothing.
    pub(super) fn listen(&self, listener: Arc<dyn HangListener>) {
        self.listener.populate(listener);
    }

    /// Runs `stop`, which takes a queue of the process `pasid` off the hardware that hung, as
    /// `cause` says. The process and the watchers of the GPU are notified. Allocates nothing and
    /// waits for nothing itself.
    pub(super) fn queue_hung(&self, pasid: u16, cause: &CStr, stop: impl FnOnce()) {
        self.hw.smi.notify(&SmiEvent::Resetting(cause));
        stop();
        if let Some(listener) = self.listener.as_ref() {
            listener.stopped(pasid);
        }
        self.hw.smi.notify(&SmiEvent::Reset(cause));
    }
}

/// The slots of all SDMA engines, once they are known. They hold queues, which hold this.
pub(super) struct LateSdmaSlots(SetOnce<Arc<dyn AllSdmaSlots>>);

impl LateSdmaSlots {
    /// Makes the slots known.
    pub(super) fn set(&self, slots: Arc<dyn AllSdmaSlots>) {
        self.0.populate(slots);
    }

    /// See [`AllSdmaSlots::fail`].
    pub(super) fn fail(&self, engine: Option<u8>, pasid: u16, error: Error) -> Option<QueueOwner> {
        self.0.as_ref()?.fail(engine, pasid, error)
    }
}
