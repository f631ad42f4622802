// SPDX-License-Identifier: GPL-2.0
//! Parameters of the module that are words.

use crate::ffi;

/// Who schedules compute queues: the parameter `sched`. It does not change while the module is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sched {
    /// The driver.
    Direct,
    /// The hardware scheduler, by runlists.
    Hws,
}

impl Sched {
    /// What the user has chosen.
    pub(crate) fn get() -> Self {
        // SAFETY: Reads a variable that is set before the module starts.
        match unsafe { ffi::rkfd_param_sched() } {
            0 => Self::Direct,
            _ => Self::Hws,
        }
    }
}
