// SPDX-License-Identifier: GPL-2.0
//! Compute queues: rings of PM4 or AQL packets that the CP's micro engines read. A process rings
//! the hardware's own doorbell for them.
//!
//! A [`ComputeScheduler`] decides which of them are on the hardware. All memory of a queue is held
//! while the queue exists, and the CP writes its position to its descriptor when it lets go of it.
//! So a queue can be taken off at any time and go on in another HQD and another VMID.

mod change;
pub(super) mod descriptor;
mod direct;
mod doorbell;
mod hws;
mod memory;
mod queue;
mod scheduler;
pub(super) mod suspect;
mod table;
mod trap;
mod user;

use crate::health::GpuHealth;
use crate::ip::gfx::Gfx;
use crate::ip::gmc::Gmc;
use crate::kern::params::SchedulerMode;
use kernel::device::Device;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;

pub(crate) use queue::ComputeFailure;
pub(crate) use scheduler::{ComputePlace, ComputeScheduler, QueuePlacement};
pub(crate) use trap::TrapPage;
pub(super) use user::UserComputeQueue;

/// Returns the scheduler that `sched`, the module's parameter, asks for; `isolates`: see
/// [`ComputeScheduler::isolate`]. It reports to `health` if the hardware does not answer any more.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn scheduler(
    sched: SchedulerMode,
    isolates: bool,
    gfx: &Arc<Gfx>,
    gmc: &Arc<Gmc>,
    health: &Arc<GpuHealth>,
    dev: &ARef<Device>,
) -> Result<Arc<dyn ComputeScheduler>> {
    Ok(match sched {
        SchedulerMode::Direct => direct::DirectScheduler::new(gfx, isolates)?,
        SchedulerMode::Hws => hws::HwsScheduler::new(gfx, gmc, health, dev, isolates)?,
    })
}
