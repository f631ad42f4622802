// SPDX-License-Identifier: GPL-2.0
//! Ioctls of events.

use hw::doorbell::{MmapKind, MmapOffset};
use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;

use super::args::BufferHandle;
use super::caller::Caller;
use crate::kern::{uaccess_ext, uapi};
use crate::process::events::{
    ConsumedEvents, EventKind, EventPayload, MemoryFault, WaitItem, WaitItems, SLOTS,
};

/// A wait without a limit: `timeout` of WAIT_EVENTS.
const FOREVER: u32 = u32::MAX;

/// CREATE_EVENT. A process may bring its event page with its first event that has a slot.
pub(super) fn create(caller: &Caller<'_>, args: &mut uapi::CreateEvent) -> Result {
    let kind = EventKind::new(args.event_type)?;
    let events = caller.process.events();
    if args.event_page_offset != 0 {
        let handle = BufferHandle::decode(args.event_page_offset)?;
        let gpu = caller.process.gpu_named(handle.gpu);
        let context = caller.process.context(gpu).ok_or(EINVAL)?;
        let (bo, access) = context.with_memory(|memory| memory.bo(handle.number))?;
        // The driver writes to it.
        if !access.write {
            return Err(EINVAL);
        }
        events.set_page(bo, handle.encode())?;
    }
    args.event_id = events.create(kind, args.auto_reset != 0)?;
    args.event_trigger_data = args.event_id;
    args.event_page_offset = 0;
    if kind.has_slot() {
        let (kind, gpu_id) = (MmapKind::Events, 0);
        args.event_page_offset = MmapOffset { kind, gpu_id }.encode();
        args.event_slot_index = args.event_id;
    }
    Ok(())
}

/// DESTROY_EVENT.
pub(super) fn destroy(caller: &Caller<'_>, args: &mut uapi::DestroyEvent) -> Result {
    caller.process.events().destroy(args.event_id)
}

/// SET_EVENT.
pub(super) fn set(caller: &Caller<'_>, args: &mut uapi::SetEvent) -> Result {
    caller.process.events().set(args.event_id)
}

/// RESET_EVENT.
pub(super) fn reset(caller: &Caller<'_>, args: &mut uapi::ResetEvent) -> Result {
    caller.process.events().reset(args.event_id)
}

/// WAIT_EVENTS. If the result does not reach the caller, the events remain for its next wait.
///
/// # Errors
///
/// `EINVAL` for more events than there are slots.
pub(super) fn wait(
    caller: &Caller<'_>,
    args: &mut uapi::WaitEvents,
) -> Result<Option<ConsumedEvents>> {
    args.wait_result = uapi::KFD_IOC_WAIT_RESULT_FAIL;
    let items = items(args.events_ptr, args.num_events)?;
    let all = args.wait_for_all != 0;
    let mut timeout = (args.timeout != FOREVER).then_some(args.timeout);
    let result = caller.process.wait(items, all, &mut timeout);
    // For the call that is repeated after a signal.
    args.timeout = timeout.unwrap_or(FOREVER);
    let consumed = result?;
    for (index, item) in (0..).zip(consumed.iter().flat_map(ConsumedEvents::items)) {
        write_payload(caller, args.events_ptr, index, item.payload())?;
    }
    args.wait_result = if consumed.is_some() {
        uapi::KFD_IOC_WAIT_RESULT_COMPLETE
    } else {
        uapi::KFD_IOC_WAIT_RESULT_TIMEOUT
    };
    Ok(consumed)
}

/// Consumes the events of a wait, once the result has reached the caller of WAIT_EVENTS.
pub(super) fn disarm(consumed: Option<ConsumedEvents>) {
    if let Some(consumed) = consumed {
        consumed.commit();
    }
}

/// The events of the array at `array`.
fn items(array: u64, count: u32) -> Result<WaitItems> {
    let read = |index| -> Result<WaitItem> {
        let data: uapi::EventData = uaccess_ext::read_element(array, index)?;
        Ok(WaitItem::new(data.event_id, uapi::last_event_age(&data)))
    };
    if count == 1 {
        return Ok(WaitItems::One(read(0)?));
    }
    let room = usize::try_from(count)?;
    if room > SLOTS {
        return Err(EINVAL);
    }
    // The memory is held as long as the caller waits, so it is charged to the caller's cgroup.
    let mut items = KVVec::with_capacity(room, GFP_KERNEL_ACCOUNT)?;
    for index in 0..count {
        items.push(read(index)?, GFP_KERNEL_ACCOUNT)?;
    }
    Ok(WaitItems::Many(items))
}

/// Writes the payload of an event to its element of the array.
fn write_payload(caller: &Caller<'_>, array: u64, index: u32, payload: &EventPayload) -> Result {
    type Data = uapi::EventData;
    match payload {
        EventPayload::Nothing => Ok(()),
        EventPayload::Age(age) => uaccess_ext::write_head::<Data, _>(array, index, age),
        EventPayload::Memory(fault) => {
            let data = memory_exception(fault, caller.process.name_of(fault.gpu));
            uaccess_ext::write_head::<Data, _>(array, index, &data)
        }
        EventPayload::Stopped(gpu) => {
            let gpu = caller.process.name_of(*gpu);
            let data = hw_exception(gpu, uapi::KFD_HW_EXCEPTION_PER_ENGINE_RESET);
            uaccess_ext::write_head::<Data, _>(array, index, &data)
        }
        EventPayload::Reset(gpu) => {
            let gpu = caller.process.name_of(*gpu);
            let data = hw_exception(gpu, uapi::KFD_HW_EXCEPTION_WHOLE_GPU_RESET);
            uaccess_ext::write_head::<Data, _>(array, index, &data)
        }
    }
}

fn hw_exception(gpu: GpuId, reset_type: u32) -> uapi::HwException {
    uapi::HwException {
        reset_type,
        reset_cause: uapi::KFD_HW_EXCEPTION_GPU_HANG,
        // If a queue was stopped, its work is lost. amdkfd sets this for any reset: ROCr ignores
        // exceptions without it.
        memory_lost: 1,
        gpu_id: gpu.get().into(),
    }
}

/// The data about a refused access on the GPU that the process knows as `gpu`.
pub(super) fn memory_exception(fault: &MemoryFault, gpu: GpuId) -> uapi::MemoryException {
    let mut data: uapi::MemoryException = pin_init::zeroed();
    data.failure.NotPresent = fault.not_present.into();
    data.failure.ReadOnly = fault.read_only.into();
    data.failure.NoExecute = fault.no_execute.into();
    data.va = fault.address;
    data.gpu_id = gpu.get().into();
    data
}
