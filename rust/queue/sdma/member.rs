// SPDX-License-Identifier: GPL-2.0
//! An SDMA queue as its group sees it.

use super::hw_queue::{PacketSource, SdmaHwQueue};
use super::slots::SdmaSlots;
use crate::mem::queue_group::{GroupMember, QuiesceTimeout};
use kernel::prelude::*;
use kernel::sync::Arc;

/// A queue as its group sees it.
pub(super) struct SdmaMember {
    rlc: Arc<SdmaHwQueue>,
    slots: Arc<SdmaSlots>,
}

impl SdmaMember {
    /// Returns `rlc`, which is in `slots`, as a member.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(rlc: &Arc<SdmaHwQueue>, slots: &Arc<SdmaSlots>) -> Result<Arc<Self>> {
        let member = Self {
            rlc: rlc.clone(),
            slots: slots.clone(),
        };
        Ok(Arc::new(member, GFP_KERNEL_ACCOUNT)?)
    }
}

impl GroupMember for SdmaMember {
    fn begin_quiesce(&self) {
        self.rlc.set_quiesced(true);
        // Engines do not wait for each other's packets to end.
        self.slots.poll(&self.rlc);
    }

    fn quiesce(&self, patience: &QuiesceTimeout) {
        // Before the engine is told: from then on nothing loads it.
        self.rlc.set_quiesced(true);
        // A queue that hangs has failed by this, or will have.
        let _ = self.slots.suspend(&self.rlc, patience);
    }

    fn resume(&self) {
        self.rlc.set_quiesced(false);
        self.slots.admit(&self.rlc);
        self.rlc.kick();
    }

    fn is_of_process(&self) -> bool {
        !matches!(self.rlc.source, PacketSource::Jobs(_))
    }

    fn wants_to_run(&self) -> bool {
        self.rlc.wants_to_run()
    }
}
