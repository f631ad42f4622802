// SPDX-License-Identifier: GPL-2.0
//! Ioctls of memory: the address space, buffers, and where they are mapped.

use kernel::prelude::*;
use kernel::sync::Arc;

use hw::doorbell::{MmapKind, MmapOffset};

use super::args::{self, AllocKind, BufferHandle};
use super::caller::Caller;
use crate::kern::drm::file::DrmFileRef;
use crate::kern::uapi::{self, alloc_flag};
use crate::kern::{errno, uaccess_ext};
use crate::mem::user_memory::UserMemoryTime;
use crate::process::context::GpuContext;
use crate::process::memory::{AddedBuffer, BufferSource, NewBuffer};

/// ACQUIRE_VM: the address space of an open render file becomes the process's, permanently.
///
/// # Errors
///
/// `EINVAL` also for a descriptor that is not open: `EBADF` is reserved for a child of fork, which
/// clients recognize by it.
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

/// ALLOC_MEMORY_OF_GPU.
///
/// # Errors
///
/// `EOPNOTSUPP` for memory of a secondary process's own; those of [`args::alloc_memory`]; `ENODEV`
/// before ACQUIRE_VM; `EADDRINUSE`; `ENOMEM`.
pub(super) fn alloc(caller: &Caller<'_>, args: &mut uapi::AllocMemory) -> Result {
    let is_own = args.flags & alloc_flag::USERPTR != 0;
    if is_own && args.size != 0 && !caller.process.is_primary() {
        return Err(errno::not_supported());
    }
    let id = args::gpu_id(args.gpu_id)?;
    let context = caller.context(args.gpu_id)?;
    let (added, of_kfd_file) = create(caller, &context, args, None)?;
    let number = added.number;
    args.handle = BufferHandle { gpu: id, number }.encode();
    args.mmap_offset = of_kfd_file.map_or(added.mmap_offset, |kind| {
        let gpu_id = id.get();
        MmapOffset { kind, gpu_id }.encode()
    });
    Ok(())
}

/// Creates the buffer of `args` on the GPU of `context`, with the handle `number` there or a free
/// one. If the CPU maps it through the file of KFD, returns as what.
///
/// # Errors
///
/// Those of ALLOC_MEMORY_OF_GPU; `ENOMEM` for a handle that is taken.
pub(super) fn create(
    caller: &Caller<'_>,
    context: &Arc<GpuContext>,
    args: &uapi::AllocMemory,
    number: Option<u32>,
) -> Result<(AddedBuffer, Option<MmapKind>)> {
    let id = context.gpu().hw.id;
    let wanted = args::alloc_memory(args)?;
    // The ranges of a buffer may not overlap shared virtual memory.
    let mut ranges = [wanted.range, wanted.user_range()].into_iter().flatten();
    ranges.try_for_each(|range| caller.process.svm().check_free(range))?;
    let drm = caller.kfd.with_node(id, |node| Ok(node.drm.clone()))?;
    // Registers are mapped for the CPU through the file of KFD, everything else through that of the
    // render node.
    let (source, of_kfd_file) = match wanted.kind {
        AllocKind::Vram { contiguous } => (BufferSource::Vram { contiguous }, None),
        AllocKind::Gtt => (BufferSource::Gtt, None),
        AllocKind::User(address) => {
            // RESTORE gives buffers their handles, and comes before the process has its memory.
            let time = match number {
                Some(_) => UserMemoryTime::AtResume,
                None => UserMemoryTime::Now,
            };
            (BufferSource::User(address, time), None)
        }
        AllocKind::Doorbell => {
            // This leases one of few slices: a process without memory, which needs no render node,
            // must not take it from others.
            context.vm()?;
            let registers = context.queue_resources()?.registers()?;
            (BufferSource::Registers(registers), Some(MmapKind::Doorbell))
        }
        AllocKind::MmioRemap => {
            let registers = context.flush_registers()?;
            (BufferSource::Registers(registers), Some(MmapKind::Mmio))
        }
    };
    let new = NewBuffer {
        source,
        size: wanted.size,
        range: wanted.range,
        usage: wanted.usage,
        flags: args.flags,
        number,
    };
    let added = caller
        .process
        .with_lock_soon(|| context.with_memory(|memory| memory.alloc(&drm, &new)))?;
    Ok((added, of_kfd_file))
}

/// The context and the number of a buffer.
///
/// # Errors
///
/// `EINVAL` if the process has no such handle.
pub(super) fn buffer(caller: &Caller<'_>, handle: u64) -> Result<(Arc<GpuContext>, BufferHandle)> {
    let handle = BufferHandle::decode(handle)?;
    let gpu = caller.process.gpu_named(handle.gpu);
    let context = caller.process.context(gpu).ok_or(EINVAL)?;
    Ok((context, handle))
}

/// FREE_MEMORY_OF_GPU.
///
/// # Errors
///
/// `EPERM` for the event page.
pub(super) fn free(caller: &Caller<'_>, args: &mut uapi::FreeMemory) -> Result {
    let (context, handle) = buffer(caller, args.handle)?;
    context.with_memory(|memory| {
        let (bo, _) = memory.bo(handle.number)?;
        if caller.process.events().is_page(&bo, args.handle) {
            return Err(EPERM);
        }
        memory.remove(handle.number)
    })?;
    // A thread that moves the buffer for other processes may have the last reference.
    if let Some(client) = context.client() {
        client.wait_for_moves();
    }
    Ok(())
}

/// AVAILABLE_MEMORY: the largest buffer of VRAM that the process could get now.
pub(super) fn available(caller: &Caller<'_>, args: &mut uapi::AvailableMemory) -> Result {
    let id = caller.gpu_id(args.gpu_id)?;
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

/// The arguments of a MAP or an UNMAP.
struct DeviceList<'a> {
    handle: u64,
    array: u64,
    count: u32,
    done: &'a mut u32,
}

impl DeviceList<'_> {
    /// Calls `act` with the buffer's GPU and number, and each GPU in the list that is not done, and
    /// counts those that succeed.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a GPU that does not exist; errors of `act`.
    fn for_each(
        self,
        caller: &Caller<'_>,
        act: fn(&GpuContext, u32, &GpuContext) -> Result,
    ) -> Result {
        let (context, handle) = buffer(caller, self.handle)?;
        for index in args::devices(self.count, *self.done)? {
            let raw: u32 = uaccess_ext::read_element(self.array, index)?;
            act(&context, handle.number, &*caller.context(raw)?)?;
            *self.done = index + 1;
        }
        Ok(())
    }
}

/// MAP_MEMORY_TO_GPU: on any GPUs for which the process has acquired an address space.
///
/// # Errors
///
/// `ENODEV` for a GPU without an address space; `EREMOTEIO` for a GPU that cannot access the
/// memory.
pub(super) fn map(caller: &Caller<'_>, args: &mut uapi::MapMemory) -> Result {
    let devices = DeviceList {
        handle: args.handle,
        array: args.device_ids_array_ptr,
        count: args.n_devices,
        done: &mut args.n_success,
    };
    devices.for_each(caller, |context, number, on| {
        context.map(number, on, UserMemoryTime::Now)
    })
}

/// UNMAP_MEMORY_FROM_GPU.
pub(super) fn unmap(caller: &Caller<'_>, args: &mut uapi::UnmapMemory) -> Result {
    let devices = DeviceList {
        handle: args.handle,
        array: args.device_ids_array_ptr,
        count: args.n_devices,
        done: &mut args.n_success,
    };
    devices.for_each(caller, GpuContext::unmap)
}
