// SPDX-License-Identifier: GPL-2.0
//! The module's parameters.

use super::series;
use crate::ffi;

/// How SDMA user queues reach the hardware: the parameter `sdma_sched`. It does not change while
/// the module is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SdmaMode {
    /// They are the hardware's own, without jobs.
    Direct,
    /// Each submission is a job before it is the hardware's.
    Scheduled,
    /// They are the hardware's own, and jobs are made after the fact.
    Followed,
}

impl SdmaMode {
    /// The user's choice.
    pub(crate) fn get() -> Self {
        // `value()` returns the value on Linux 7.3, and a reference to it on 7.2.
        let value = crate::module_parameters::sdma_sched.value();
        if value.eq(&0) {
            Self::Direct
        } else if value.eq(&1) {
            Self::Scheduled
        } else {
            Self::Followed
        }
    }

    /// The parameter's value.
    pub(crate) fn value(self) -> u8 {
        match self {
            Self::Direct => 0,
            Self::Scheduled => 1,
            Self::Followed => 2,
        }
    }

    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Scheduled => "scheduled",
            Self::Followed => "followed",
        }
    }

    /// Whether submissions are jobs of the kernel's scheduler, by which their time is known.
    pub(crate) fn has_jobs(self) -> bool {
        self != Self::Direct
    }
}

/// How far a GPU is initialized: the parameter `probe_only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeMode {
    /// Completely.
    Whole,
    /// It is only identified, without a change.
    Look,
    /// Its firmware is loaded, and unloaded again.
    Load,
}

impl ProbeMode {
    /// The user's choice.
    pub(crate) fn get() -> Self {
        let value = crate::module_parameters::probe_only.value();
        if value.eq(&0) {
            Self::Whole
        } else if value.eq(&1) {
            Self::Look
        } else {
            Self::Load
        }
    }
}

/// Whether there are folders and sensors by amdgpu's name: the parameter `amdgpu_names`.
pub(crate) fn has_amdgpu_names() -> bool {
    crate::module_parameters::amdgpu_names.value().ne(&0)
}

/// Whether the SMU sets clocks, if it can: the parameter `clocks`.
pub(crate) fn are_clocks_set() -> bool {
    crate::module_parameters::clocks.value().ne(&0)
}

/// Whether processes may use shared virtual memory: the parameter `svm`.
pub(crate) fn is_svm_enabled() -> bool {
    crate::module_parameters::svm.value().ne(&0)
}

/// Whether processes are to find nothing of each other in the shader core: the parameter
/// `enforce_isolation`, with the values that amdgpu's has. 2 and 3 are weaker than 1 there, for
/// graphics only.
pub(crate) fn is_isolation_enforced() -> bool {
    let value = crate::module_parameters::enforce_isolation.value();
    !(value.eq(&0) || value.eq(&-1))
}

/// How often a hung GPU is reset within ten minutes: the parameter `reset`.
pub(crate) fn resets() -> u8 {
    series::number(crate::module_parameters::reset.value())
}

/// The scheduler of compute queues: the parameter `sched`. It does not change while the module is
/// loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedulerMode {
    /// The driver.
    Direct,
    /// The hardware scheduler, by runlists.
    Hws,
}

impl SchedulerMode {
    /// The user's choice.
    pub(crate) fn get() -> Self {
        // SAFETY: Reads a variable that is set before the module starts.
        match unsafe { ffi::rkfd_param_sched() } {
            0 => Self::Direct,
            _ => Self::Hws,
        }
    }
}
