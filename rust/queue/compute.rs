// SPDX-License-Identifier: GPL-2.0
//! Compute queues: rings of PM4 or AQL packets that the CP's micro engines read, and a process rings the hardware's own
//! doorbell for.
//!
//! A [`ComputeScheduler`] decides which of them are on the hardware. Everything that a queue is made of is held while it
//! exists, and how far it is, the CP writes to its descriptor when it lets go of it: so a queue can be taken off and go
//! on elsewhere at any time, in another HQD and in another VMID.

mod change;
pub(super) mod descriptor;
mod direct;
mod doorbell;
mod hws;
mod memory;
mod queue;
mod scheduler;
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

pub(crate) use scheduler::{ComputePlace, ComputeScheduler, QueuePlacement};
pub(crate) use trap::TrapPage;
pub(super) use user::UserComputeQueue;

/// The scheduler that `sched`, the module's parameter, asks for; where it does not answer any more it says so to `health`. ENOMEM.
pub(crate) fn scheduler(
    sched: SchedulerMode,
    gfx: &Arc<Gfx>,
    gmc: &Arc<Gmc>,
    health: &Arc<GpuHealth>,
    dev: &ARef<Device>,
) -> Result<Arc<dyn ComputeScheduler>> {
    Ok(match sched {
        SchedulerMode::Direct => direct::DirectScheduler::new(gfx)?,
        SchedulerMode::Hws => hws::HwsScheduler::new(gfx, gmc, health, dev)?,
    })
}
