// SPDX-License-Identifier: GPL-2.0
//! Compute queues: rings of PM4 or AQL packets that the CP's micro engines read, and a process rings the hardware's own
//! doorbell for.
//!
//! A [`Scheduler`] decides which of them are on the hardware. Everything that a queue is made of is held while it
//! exists, and how far it is, the CP writes to its descriptor when it lets go of it: so a queue can be taken off and go
//! on elsewhere at any time, in another HQD and in another VMID.

mod descriptor;
mod direct;
mod memory;
mod queue;
mod scheduler;
mod table;
mod user;

use crate::ip::gfx::Gfx;
use kernel::prelude::*;
use kernel::sync::Arc;

pub(crate) use scheduler::{Place, Scheduler, State};
pub(super) use user::ComputeQueue;

/// The scheduler that the module's parameter `sched` asks for. ENOMEM.
pub(crate) fn scheduler(gfx: &Arc<Gfx>) -> Result<Arc<dyn Scheduler>> {
    Ok(direct::Direct::new(gfx)?)
}
