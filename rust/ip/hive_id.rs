// SPDX-License-Identifier: GPL-2.0
//! The hive of a GPU, for those who ask whether two GPUs reach each other by XGMI.

use kernel::sync::atomic::{Atomic, Relaxed};

/// The number of the hive that a GPU has joined; 0 for none. Changes when it joins and leaves.
pub(crate) struct JoinedHive(Atomic<u64>);

impl JoinedHive {
    /// In no hive.
    pub(super) fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// The number.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Sets the number.
    pub(crate) fn set(&self, hive: u64) {
        self.0.store(hive, Relaxed);
    }

    /// Whether both GPUs, two of them, are members of one hive.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let hive = self.get();
        hive != 0 && hive == other.get()
    }
}
