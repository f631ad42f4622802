// SPDX-License-Identifier: GPL-2.0
//! Ioctls of queues.

use hw::doorbell::MmapOffset;
use kernel::prelude::*;

use super::args;
use super::ioctl::Caller;
use crate::kern::uapi;

/// CREATE_QUEUE.
pub(super) fn create(caller: &Caller<'_>, args: &mut uapi::CreateQueue) -> Result {
    let id = args::gpu_id(args.gpu_id)?;
    let context = caller.context(args.gpu_id)?;
    let wanted = args::create_queue(args)?;
    let (queue_id, slot) = caller.process.create_queue(&context, wanted)?;
    args.queue_id = queue_id;
    args.doorbell_offset = MmapOffset::doorbell(id.get(), slot);
    Ok(())
}

/// UPDATE_QUEUE.
pub(super) fn update(caller: &Caller<'_>, args: &mut uapi::UpdateQueue) -> Result {
    let wanted = args::update_queue(args)?;
    caller.process.with_queue(args.queue_id, |queue| {
        queue.update(wanted.ring, wanted.percentage)
    })
}

/// DESTROY_QUEUE.
pub(super) fn destroy(caller: &Caller<'_>, args: &mut uapi::DestroyQueue) -> Result {
    caller.process.destroy_queue(args.queue_id)
}
