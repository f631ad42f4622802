// SPDX-License-Identifier: GPL-2.0
//! User queues on SDMA: what CREATE_QUEUE makes, the doorbells that start it and the hardware slots that it runs in.
//!
//! A queue is *direct* when the process rings the hardware's own doorbell (`sdma_sched=0`), or *scheduled*: then
//! the doorbell is a page of memory, a pump takes the packets that it announces, and each batch is a job of a
//! `drm_gpu_scheduler` of the queue's own.
//!
//! Locks, outermost first: `Slice::queues`, `Engine::state`, `Feed::state`; an engine's `state` is never held while
//! the hardware is waited for.

mod direct;
pub(crate) mod doorbell;
mod feed;
pub(crate) mod interrupts;
mod pointers;
mod pump;
mod rlc;
mod scheduled;
pub(crate) mod slots;
mod user;

use hw::queue::{Percentage, QueueType};
use hw::sdma::ring::RingSize;
use kernel::prelude::*;

// How all queues of a process are halted; buffers need it too, so it lies below.
pub(crate) use crate::mem::group;
pub(crate) use user::UserQueue;

/// Whether new user queues are scheduled: the module's parameter `sdma_sched`.
pub(crate) fn is_scheduled() -> bool {
    *crate::module_parameters::sdma_sched.value() != 0
}

/// What CREATE_QUEUE asks for, each number checked on its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CreateQueue {
    /// What serves it; one of the SDMA types.
    pub(crate) kind: QueueType,
    /// GPU address of the ring: the start of a mapped buffer of the ring's size.
    pub(crate) ring: u64,
    /// Bytes of the ring.
    pub(crate) size: RingSize,
    /// GPU address of the 64-bit read pointer, bytes, that the queue advances.
    pub(crate) read_pointer: u64,
    /// GPU address of the 64-bit write pointer, bytes, that the process advances.
    pub(crate) write_pointer: u64,
    /// Whether it is to run.
    pub(crate) percentage: Percentage,
    /// The engine for [`QueueType::SdmaByEngine`].
    pub(crate) engine: u32,
}

/// Whose queue it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The process, in the initial PID namespace.
    pub(crate) pid: i32,
    /// The process, as the hardware knows it.
    pub(crate) pasid: u16,
    /// The queue's id within the process.
    pub(crate) queue: u32,
}

/// The engines that serve queues of `kind`. EINVAL for an engine that does not exist, EOPNOTSUPP for other kinds.
fn engines(kind: QueueType, wanted: u32) -> Result<core::ops::Range<u8>> {
    const ALL: u8 = hw::ip::GFX90A_SDMA_ENGINES as u8;
    /// The engines for traffic with the host; the others have the links between GPUs.
    const HOST: u8 = 2;
    match kind {
        QueueType::Sdma => Ok(0..HOST),
        QueueType::SdmaXgmi => Ok(HOST..ALL),
        QueueType::SdmaByEngine => match u8::try_from(wanted) {
            Ok(engine) if engine < ALL => Ok(engine..engine + 1),
            _ => Err(EINVAL),
        },
        QueueType::Compute | QueueType::ComputeAql => Err(crate::kern::errno::not_supported()),
    }
}
