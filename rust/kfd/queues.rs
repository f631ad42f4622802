// SPDX-License-Identifier: GPL-2.0
//! Ioctls of queues.

use hw::doorbell::MmapOffset;
use hw::mqd::cu_mask::MAX_BITS;
use kernel::prelude::*;

use super::args;
use super::caller::Caller;
use crate::kern::{uaccess_ext, uapi};

/// CREATE_QUEUE.
pub(super) fn create(caller: &Caller<'_>, args: &mut uapi::CreateQueue) -> Result {
    let id = args::gpu_id(args.gpu_id)?;
    let context = caller.context(args.gpu_id)?;
    let wanted = args::create_queue(args)?;
    let created = caller.process.create_queue(&context, wanted)?;
    args.queue_id = created.id;
    args.doorbell_offset = MmapOffset::doorbell(id.get(), created.doorbell);
    Ok(())
}

/// UPDATE_QUEUE.
pub(super) fn update(caller: &Caller<'_>, args: &mut uapi::UpdateQueue) -> Result {
    let wanted = args::update_queue(args)?;
    caller.process.update_queue(args.queue_id, &wanted)
}

/// DESTROY_QUEUE.
pub(super) fn destroy(caller: &Caller<'_>, args: &mut uapi::DestroyQueue) -> Result {
    caller.process.destroy_queue(args.queue_id)
}

/// SET_CU_MASK: whole dwords of bits. Bits beyond the largest possible number of compute units are
/// ignored.
///
/// # Errors
///
/// `EINVAL` for no bits, for no bit that is set, and for a queue of SDMA.
pub(super) fn set_cu_mask(caller: &Caller<'_>, args: &mut uapi::SetCuMask) -> Result {
    let bits = args.num_cu_mask;
    if bits == 0 || bits % u32::BITS != 0 {
        return Err(EINVAL);
    }
    let mut mask = [0u32; (MAX_BITS / u32::BITS) as usize];
    for (index, dword) in (0..bits.min(MAX_BITS) / u32::BITS).zip(mask.iter_mut()) {
        *dword = uaccess_ext::read_element(args.cu_mask_ptr, index)?;
    }
    let bit = &mut |bit: u32| {
        let dword = mask.get((bit / u32::BITS) as usize);
        dword.is_some_and(|dword| dword >> (bit % u32::BITS) & 1 != 0)
    };
    caller
        .process
        .with_queue(args.queue_id, |queue| queue.set_cu_mask(bit))
}

/// GET_QUEUE_WAVE_STATE: copies the used part of the control stack to its place in the caller's
/// save area, and its description to the start of the area.
///
/// # Errors
///
/// `EINVAL` for a queue that is active, and for a queue of SDMA.
pub(super) fn get_wave_state(caller: &Caller<'_>, args: &mut uapi::GetQueueWaveState) -> Result {
    let area = args.ctl_stack_address;
    // The caller's memory is written without the queue's locks, as it may be slow. The copy until
    // then is charged to the caller's cgroup.
    let mut stack = KVVec::new();
    let state = caller.process.with_queue(args.queue_id, |queue| {
        queue.wave_state(&mut |index, dword| Ok(stack.push((index, dword), GFP_KERNEL_ACCOUNT)?))
    })?;
    for (index, dword) in &stack {
        uaccess_ext::write_element(area, *index, dword)?;
    }
    for (index, dword) in (0..).zip(&state.header()) {
        uaccess_ext::write_element(area, index, dword)?;
    }
    args.ctl_stack_used_size = state.control_stack_used;
    args.save_area_used_size = state.waves_used;
    Ok(())
}

/// ALLOC_QUEUE_GWS.
///
/// # Errors
///
/// `ENODEV`: the topology says that there is none; `EINVAL` for an unknown queue.
pub(super) fn alloc_gws(caller: &Caller<'_>, args: &mut uapi::AllocQueueGws) -> Result {
    caller.process.with_queue(args.queue_id, |_| Err(ENODEV))
}
