// SPDX-License-Identifier: GPL-2.0
//! Operations of DBG_TRAP by which a debugger learns which queues and GPUs a process has.

use hw::exceptions::ExceptionSet;
use hw::queue::QueueType;
use hw::va;
use kernel::prelude::*;
use kernel::transmute::AsBytes;

use super::DebugTarget;
use crate::kern::{uaccess_ext, uapi};
use crate::process::exceptions::ListedQueue;
use crate::process::Process;
use crate::topology::GpuFacts;

/// The caller's array of entries, whose size is that of the caller's interface.
struct EntryArray {
    address: u64,
    stride: u32,
}

impl EntryArray {
    /// Writes entry `index`, as much of it as the caller knows.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    fn write<T: AsBytes>(&self, index: u32, entry: &T) -> Result {
        let offset = u64::from(index) * u64::from(self.stride);
        let place = self.address.checked_add(offset).ok_or(EFAULT)?;
        let place = usize::try_from(place).map_err(|_| EFAULT)?;
        uaccess_ext::write_sized(place, self.stride as usize, entry)
    }
}

/// The size of an entry for the answer: the smaller of those that caller and driver know.
fn entry_size<T>(of_caller: u32) -> u32 {
    of_caller.min(core::mem::size_of::<T>() as u32)
}

impl DebugTarget<'_> {
    /// GET_QUEUE_SNAPSHOT: as many queues as the caller has room for, and how many there are.
    ///
    /// # Errors
    ///
    /// `EINVAL` for entries of no size; `EFAULT`; `ENOMEM`.
    pub(super) fn queue_snapshot(self, args: &mut uapi::DbgQueueSnapshot) -> Result<u32> {
        let room = core::mem::replace(&mut args.num_queues, 0);
        let array = EntryArray {
            address: args.snapshot_buf_ptr,
            stride: args.entry_size,
        };
        if array.stride == 0 {
            return Err(EINVAL);
        }
        args.entry_size = entry_size::<uapi::QueueSnapshotEntry>(array.stride);
        let exceptions = self.process.exceptions();
        let room = exceptions.queues().min(room as usize);
        let mut queues = KVVec::with_capacity(room, GFP_KERNEL_ACCOUNT)?;
        let clear = ExceptionSet::from_bits(args.exception_mask);
        let count = exceptions.snapshot(clear, room, &mut queues);
        for (index, queue) in (0..).zip(&queues) {
            array.write(index, &queue_entry(&self.process, queue))?;
            args.num_queues = index + 1;
        }
        args.num_queues = u32::try_from(count)?;
        Ok(0)
    }

    /// GET_DEVICE_SNAPSHOT: as many GPUs as the caller has room for, and how many there are.
    ///
    /// # Errors
    ///
    /// `EINVAL` without an array; `EFAULT`; `ENOMEM`.
    pub(super) fn device_snapshot(self, args: &mut uapi::DbgDeviceSnapshot) -> Result<u32> {
        if args.snapshot_buf_ptr == 0 {
            return Err(EINVAL);
        }
        let gpus = self.caller.kfd.facts_for(&self.process)?;
        let array = EntryArray {
            address: args.snapshot_buf_ptr,
            stride: args.entry_size,
        };
        let room = core::mem::replace(&mut args.num_devices, u32::try_from(gpus.len())?);
        args.entry_size = entry_size::<uapi::DeviceSnapshotEntry>(array.stride);
        let clear = ExceptionSet::from_bits(args.exception_mask);
        for (index, facts) in (0..room).zip(&gpus) {
            let status = self.process.exceptions().take_device(facts.id, clear);
            array.write(index, &device_entry(&self.process, facts, status))?;
        }
        Ok(0)
    }
}

fn queue_entry(process: &Process, queue: &ListedQueue) -> uapi::QueueSnapshotEntry {
    let kind = match queue.kind {
        QueueType::Compute => uapi::KFD_IOC_QUEUE_TYPE_COMPUTE,
        QueueType::ComputeAql => uapi::KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
        QueueType::Sdma | QueueType::SdmaByEngine => uapi::KFD_IOC_QUEUE_TYPE_SDMA,
        QueueType::SdmaXgmi => uapi::KFD_IOC_QUEUE_TYPE_SDMA_XGMI,
    };
    uapi::QueueSnapshotEntry {
        exception_status: queue.status.bits(),
        ring_base_address: queue.ring,
        write_pointer_address: queue.write_pointer,
        read_pointer_address: queue.read_pointer,
        ctx_save_restore_address: queue.save,
        queue_id: queue.id,
        gpu_id: process.name_of(queue.gpu).get().into(),
        ring_size: u32::try_from(queue.ring_size).unwrap_or(0),
        queue_type: kind,
        ctx_save_restore_area_size: queue.save_size,
        reserved: 0,
    }
}

fn device_entry(
    process: &Process,
    facts: &GpuFacts,
    status: ExceptionSet,
) -> uapi::DeviceSnapshotEntry {
    let asic = facts.cus.asic();
    let (subsystem_vendor_id, subsystem_device_id) = facts.subsystem;
    uapi::DeviceSnapshotEntry {
        exception_status: status.bits(),
        lds_base: va::LDS_BASE,
        lds_limit: va::LDS_LIMIT,
        scratch_base: va::SCRATCH_BASE,
        scratch_limit: va::SCRATCH_LIMIT,
        gpuvm_base: va::GPUVM_BASE,
        gpuvm_limit: va::GPUVM_LIMIT,
        gpu_id: process.name_of(facts.id).get().into(),
        location_id: facts.location,
        vendor_id: hw::asic::VENDOR_AMD.into(),
        device_id: asic.ids.device.into(),
        revision_id: facts.pci_revision.into(),
        subsystem_vendor_id: subsystem_vendor_id.into(),
        subsystem_device_id: subsystem_device_id.into(),
        fw_version: facts.firmware.0,
        gfx_target_version: asic.ids.gfx_target_version,
        simd_count: facts.cus.simds(),
        max_waves_per_simd: asic.gfx.waves_per_simd,
        array_count: asic.gfx.arrays(),
        simd_arrays_per_engine: asic.gfx.arrays_per_engine,
        num_xcc: asic.gfx.xccs,
        capability: facts.capability(),
        debug_prop: facts.debug_properties(),
        capability2: 0,
        pad: 0,
    }
}
