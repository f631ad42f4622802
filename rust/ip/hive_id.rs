// SPDX-License-Identifier: GPL-2.0
//! The hive of a GPU: whether it reaches another GPU by XGMI, and which GPUs are reset with it.

use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, SpinLock};

use super::hive_reset::HiveReset;

/// The hive that a GPU has joined.
#[pin_data]
pub(crate) struct JoinedHive {
    /// The number; 0 for none. Changes when the GPU joins and leaves.
    number: Atomic<u64>,
    /// The reset of the hive, once it is due. An innermost lock.
    #[pin]
    reset: SpinLock<Option<Arc<HiveReset>>>,
}

impl JoinedHive {
    /// In no hive.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            number: Atomic::new(0),
            reset <- new_spinlock!(None, "JoinedHive::reset"),
        })
    }

    /// The number.
    pub(crate) fn get(&self) -> u64 {
        self.number.load(Relaxed)
    }

    /// Sets the number.
    pub(crate) fn set(&self, hive: u64) {
        self.number.store(hive, Relaxed);
    }

    /// Whether both GPUs, two of them, are members of one hive.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let hive = self.get();
        hive != 0 && hive == other.get()
    }

    /// The reset of the hive, if it is due.
    pub(crate) fn reset(&self) -> Option<Arc<HiveReset>> {
        self.reset.lock().clone()
    }

    /// From now on the reset of the hive is due.
    pub(crate) fn set_reset(&self, reset: Arc<HiveReset>) {
        let old = self.reset.lock().replace(reset);
        drop(old);
    }
}
