// SPDX-License-Identifier: GPL-2.0
//! Ioctls of memory: the address space, buffers, and where they are mapped.

use kernel::prelude::*;
use kernel::sync::Arc;

use hw::doorbell::{MmapKind, MmapOffset};
use hw::va::VaRange;

use super::args::{self, AllocKind, AllocMemory, BufferHandle};
use super::ioctl::Caller;
use crate::kern::drm::file::DrmFileRef;
use crate::kern::{uaccess_ext, uapi};
use crate::mem::bo;
use crate::process::context::GpuContext;

/// ACQUIRE_VM: the address space of an open render file becomes the process's, once and for all. EINVAL also for no file
/// at all: EBADF is kept for a child of fork, which clients know by it.
pub(super) fn acquire_vm(caller: &Caller<'_>, args: &mut uapi::AcquireVm) -> Result {
    let context = caller.context(args.gpu_id)?;
    let file = DrmFileRef::from_fd(args.drm_fd as i32).map_err(|_| EINVAL)?;
    caller.process.acquire(&context, file)
}

/// SET_MEMORY_POLICY. The memory types of gfx9 are in the page tables, so there is nothing to set.
pub(super) fn set_memory_policy(caller: &Caller<'_>, args: &mut uapi::SetMemoryPolicy) -> Result {
    caller.context(args.gpu_id)?;
    args::set_memory_policy(args)
}

/// A buffer is not where shared virtual memory is, nor made of it. EADDRINUSE, EINTR.
fn check_svm(caller: &Caller<'_>, wanted: &AllocMemory) -> Result {
    let user = match wanted.kind {
        AllocKind::User(address) => VaRange::new(address, wanted.size).ok(),
        _ => None,
    };
    let svm = caller.process.svm();
    let mut ranges = [wanted.range, user].into_iter().flatten();
    ranges.try_for_each(|range| svm.check_free(range))
}

/// ALLOC_MEMORY_OF_GPU.
pub(super) fn alloc(caller: &Caller<'_>, args: &mut uapi::AllocMemory) -> Result {
    let id = args::gpu_id(args.gpu_id)?;
    let context = caller.context(args.gpu_id)?;
    let wanted = args::alloc_memory(args)?;
    check_svm(caller, &wanted)?;
    let drm = caller.kfd.with_node(id, |node| Ok(node.drm.clone()))?;
    let (size, usage) = (wanted.size, wanted.usage);
    let mut registers = match wanted.kind {
        AllocKind::Doorbell => Some(context.queue_resources()?.registers()?),
        AllocKind::MmioRemap => Some(context.flush_registers()?),
        _ => None,
    };
    let (number, offset) = caller.process.with_lock_soon(|| {
        context.with_memory(|memory| {
            memory.insert(wanted.range, |client| match wanted.kind {
                AllocKind::Vram { contiguous } => {
                    bo::create::vram(&drm, client, size, usage, contiguous)
                }
                AllocKind::Gtt => bo::create::gtt(&drm, client, size, usage),
                AllocKind::User(address) => bo::create::user(&drm, client, address, size, usage),
                AllocKind::Doorbell | AllocKind::MmioRemap => {
                    let registers = registers.take().ok_or(EINVAL)?;
                    bo::create::registers(&drm, client, size, registers, usage.access)
                }
            })
        })
    })?;
    args.handle = BufferHandle { gpu: id, number }.encode();
    let of_kfd_file = |kind| {
        let gpu_id = id.get();
        MmapOffset { kind, gpu_id }.encode()
    };
    args.mmap_offset = match wanted.kind {
        AllocKind::Doorbell => of_kfd_file(MmapKind::Doorbell),
        AllocKind::MmioRemap => of_kfd_file(MmapKind::Mmio),
        AllocKind::Vram { .. } | AllocKind::Gtt | AllocKind::User(_) => offset,
    };
    Ok(())
}

/// The context and the number of a buffer. EINVAL.
pub(super) fn buffer(caller: &Caller<'_>, handle: u64) -> Result<(Arc<GpuContext>, BufferHandle)> {
    let handle = BufferHandle::decode(handle)?;
    let context = caller.process.context(handle.gpu).ok_or(EINVAL)?;
    Ok((context, handle))
}

/// FREE_MEMORY_OF_GPU. EPERM for the event page.
pub(super) fn free(caller: &Caller<'_>, args: &mut uapi::FreeMemory) -> Result {
    let (context, handle) = buffer(caller, args.handle)?;
    context.with_memory(|memory| {
        let (bo, _) = memory.bo(handle.number)?;
        if caller.process.events().is_page(&bo, args.handle) {
            return Err(EPERM);
        }
        memory.remove(handle.number)
    })?;
    // Who moves it for others may be the last that has it.
    if let Some(client) = context.client() {
        client.wait_for_moves();
    }
    Ok(())
}

/// AVAILABLE_MEMORY: the largest buffer of VRAM that the process could get now.
pub(super) fn available(caller: &Caller<'_>, args: &mut uapi::AvailableMemory) -> Result {
    let id = args::gpu_id(args.gpu_id)?;
    let look = |context: &Arc<GpuContext>| {
        let memory = &context.gpu().memory;
        memory.budget.available(&memory.vram, context.client())
    };
    args.available = match caller.process.with_context(id, look) {
        Some(available) => available,
        None => look(&caller.context(args.gpu_id)?),
    };
    Ok(())
}

/// The list of GPUs of a MAP or an UNMAP.
struct DeviceList {
    array: u64,
    count: u32,
}

/// Calls `act` with the process's part of each GPU in the list that is not done, counting those that are. EINVAL for a GPU that is
/// not there.
fn for_each_device(
    caller: &Caller<'_>,
    devices: &DeviceList,
    done: &mut u32,
    mut act: impl FnMut(&GpuContext) -> Result,
) -> Result {
    for index in args::devices(devices.count, *done)? {
        let raw: u32 = uaccess_ext::read_element(devices.array, index)?;
        let context = caller.context(raw)?;
        act(&context)?;
        *done = index + 1;
    }
    Ok(())
}

/// MAP_MEMORY_TO_GPU: to any GPUs of which the process has acquired an address space, ENODEV otherwise. EREMOTEIO for one that does
/// not reach the memory.
pub(super) fn map(caller: &Caller<'_>, args: &mut uapi::MapMemory) -> Result {
    let (context, handle) = buffer(caller, args.handle)?;
    let devices = DeviceList {
        array: args.device_ids_array_ptr,
        count: args.n_devices,
    };
    for_each_device(caller, &devices, &mut args.n_success, |on| {
        context.map(handle.number, on)
    })
}

/// UNMAP_MEMORY_FROM_GPU.
pub(super) fn unmap(caller: &Caller<'_>, args: &mut uapi::UnmapMemory) -> Result {
    let (context, handle) = buffer(caller, args.handle)?;
    let devices = DeviceList {
        array: args.device_ids_array_ptr,
        count: args.n_devices,
    };
    for_each_device(caller, &devices, &mut args.n_success, |on| {
        context.unmap(handle.number, on)
    })
}
