// SPDX-License-Identifier: GPL-2.0
//! CRIU_OP: RESTORE.

use hw::criu::{
    BufferRecord, Checkpoint, DeviceRecord, EventPageRecord, EventRecord, PayloadRecord,
    RangeRecord, Record,
};
use hw::topology::gpu_id::GpuId;
use hw::trap::SecondLevelTrap;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::super::args::{self, BufferHandle};
use super::super::caller::Caller;
use super::super::memory;
use super::{counts, export, gpus, NewFds, NO_FD};
use crate::kern::drm::file::DrmFileRef;
use crate::kern::new_fd::NewFd;
use crate::kern::uapi::{self, alloc_flag as flag};
use crate::kern::{params, uaccess_ext};
use crate::mem::user_memory::UserMemoryTime;
use crate::process::context::GpuContext;
use crate::process::criu::{LateParts, SavedRange};
use crate::process::events::{EventKind, EventPayload, EventState, MemoryFault};
use crate::process::gpu_names::GpuName;

/// The most bytes of private data.
const MOST_BYTES: u64 = 256 << 20;

/// A GPU of the process that is restored.
struct RestoredDevice {
    /// The id by which the process knows it.
    id: GpuId,
    context: Arc<GpuContext>,
}

/// The GPUs, in the order of their records.
struct RestoredDevices(KVec<RestoredDevice>);

impl RestoredDevices {
    /// The GPU at `place`, which was checked to be one.
    fn at(&self, place: u8) -> Result<&RestoredDevice> {
        self.0.get(usize::from(place)).ok_or(EINVAL)
    }

    /// The id of the GPU at `place`.
    fn gpu(&self, place: u8) -> Result<GpuId> {
        Ok(self.at(place)?.context.gpu().hw.id)
    }
}

/// RESTORE: gives the caller, a new process, what another one had. Nothing is undone after an
/// error, as by amdkfd: the process is about to end.
///
/// # Errors
///
/// - `EINVAL` without data; for data that are no checkpoint of this version, or not of as many
///   objects as the arguments say; for other GPUs than the caller may use, and for one whose
///   address space it has acquired; for buckets that are not those of the checkpoint.
/// - `EPERM` for XNACK or attributes without shared virtual memory.
/// - `ENODEV` for a buffer of a GPU that is not there.
/// - `ENOMEM` for a handle that is taken; those of the objects' creation.
pub(super) fn restore(caller: &Caller<'_>, args: &mut uapi::CriuArgs) -> Result<NewFds> {
    if args.num_bos > 0 && args.bos == 0
        || args.devices == 0
        || args.priv_data == 0
        || args.priv_data_size == 0
        || args.num_devices == 0
    {
        return Err(EINVAL);
    }
    let size = args.priv_data_size;
    if size % 4 != 0 || size > MOST_BYTES {
        return Err(EINVAL);
    }
    let words = uaccess_ext::read_dwords(args.priv_data, (size / 4) as usize)?;
    let checkpoint = Checkpoint::new(&words, counts(args)).map_err(|_| EINVAL)?;
    let process = caller.process;
    // Before anything is done: a process that uses GPUs already loses nothing.
    if args.num_devices as usize != gpus(caller)?.len() || process.has_vm() {
        return Err(EINVAL);
    }
    process.begin_restore()?;
    let record = checkpoint.process();
    if record.retries && !params::is_svm_enabled() {
        return Err(EPERM);
    }
    process.set_retries(record.retries)?;
    if let Some(runtime) = &record.runtime {
        process.restore_runtime(runtime);
    }
    let devices = restore_devices(caller, args, &checkpoint)?;
    let mut buckets = KVVec::new();
    let mut fds = NewFds::new();
    let mut late = LateParts::default();
    for record in checkpoint.records() {
        if let Record::Buffer(buffer) = record {
            let index = u32::try_from(buckets.len())?;
            let bucket = uaccess_ext::read_element(args.bos, index)?;
            let bucket = restore_buffer(caller, &devices, &buffer, bucket, &mut fds)?;
            buckets.push(bucket, GFP_KERNEL_ACCOUNT)?;
        }
    }
    // It may be one of the buffers, and events need it.
    restore_page(caller, &devices, record.event_page)?;
    for record in checkpoint.records() {
        match record {
            Record::Process(_) | Record::Device(_) | Record::Buffer(_) => (),
            Record::Queue(queue) => {
                let context = &devices.at(queue.device)?.context;
                if let Some(queue) = process.restore_queue(context, &queue)? {
                    late.queues.push(queue, GFP_KERNEL_ACCOUNT)?;
                }
            }
            Record::Event(event) => restore_event(caller, &devices, &event)?,
            Record::Range(range) => {
                late.ranges.push(saved_range(&range)?, GFP_KERNEL_ACCOUNT)?;
            }
        }
    }
    for (index, bucket) in (0..).zip(&buckets) {
        uaccess_ext::write_element(args.bos, index, bucket)?;
    }
    process.finish_restore(late)?;
    Ok(fds)
}

/// Acquires the address spaces, and keeps the queues there off the hardware.
fn restore_devices(
    caller: &Caller<'_>,
    args: &uapi::CriuArgs,
    checkpoint: &Checkpoint<'_>,
) -> Result<RestoredDevices> {
    let mut devices = RestoredDevices(KVec::new());
    let records = checkpoint.records().filter_map(|record| match record {
        Record::Device(device) => Some(device),
        _ => None,
    });
    let mut names = KVec::new();
    for (index, record) in (0..).zip(records) {
        let bucket = uaccess_ext::read_element(args.devices, index)?;
        let device = restore_device(caller, &bucket, &record)?;
        let (name, id) = (device.id, device.context.gpu().hw.id);
        names.push(GpuName { name, id }, GFP_KERNEL_ACCOUNT)?;
        devices.0.push(device, GFP_KERNEL_ACCOUNT)?;
    }
    caller.process.name_gpus(names)?;
    Ok(devices)
}

fn restore_device(
    caller: &Caller<'_>,
    bucket: &uapi::CriuDevice,
    record: &DeviceRecord,
) -> Result<RestoredDevice> {
    let id = record.id;
    if bucket.user_gpu_id != u32::from(id.get()) {
        return Err(EINVAL);
    }
    let context = caller.context_of(args::gpu_id(bucket.actual_gpu_id)?)?;
    // It may have two buckets.
    if context.vm().is_ok() {
        return Err(EINVAL);
    }
    let file = DrmFileRef::from_fd(bucket.drm_fd as i32).map_err(|_| EINVAL)?;
    caller
        .process
        .acquire(&context, file)
        .map_err(|error| match error {
            ENOMEM | EINTR => error,
            _ => EINVAL,
        })?;
    caller.process.pause_restored(&context)?;
    if record.trap != SecondLevelTrap::default() {
        context.set_trap_handler(record.trap)?;
    }
    Ok(RestoredDevice { id, context })
}

/// Creates the buffer of `record`, without its contents, and maps it. Returns its bucket. Of a
/// buffer with contents `fds` gets a dma-buf, by which the caller fills it.
fn restore_buffer(
    caller: &Caller<'_>,
    devices: &RestoredDevices,
    record: &BufferRecord,
    mut bucket: uapi::CriuBuffer,
    fds: &mut NewFds,
) -> Result<uapi::CriuBuffer> {
    let is_there = |device: &RestoredDevice| u32::from(device.id.get()) == bucket.gpu_id;
    if !devices.0.iter().any(is_there) {
        return Err(ENODEV);
    }
    let device = devices.at(record.device)?;
    let is_same = (bucket.addr, bucket.size, bucket.alloc_flags)
        == (record.address, record.size, record.flags);
    if !is_same || !is_there(device) {
        return Err(EINVAL);
    }
    let mut args: uapi::AllocMemory = pin_init::zeroed();
    args.va_addr = record.address;
    args.size = record.size;
    args.mmap_offset = record.user;
    args.gpu_id = device.context.gpu().hw.id.get().into();
    args.flags = record.flags;
    let (added, _) = memory::create(caller, &device.context, &args, Some(record.number))?;
    for (place, on) in (0u8..).zip(&devices.0) {
        if record.mapped.checked_shr(place.into()).unwrap_or(0) & 1 != 0 {
            device
                .context
                .map(added.number, &on.context, UserMemoryTime::AtResume)?;
        }
    }
    let has = |kind: u32| record.flags & kind != 0;
    bucket.dmabuf_fd = NO_FD;
    if has(flag::DOORBELL) {
        bucket.restored_offset = device.context.queue_resources()?.mmap_offset();
    } else if has(flag::MMIO_REMAP) {
        bucket.restored_offset = device.context.registers_offset();
    } else if has(flag::VRAM | flag::GTT) {
        bucket.restored_offset = added.mmap_offset;
        let bo = device.context.with_memory(|memory| memory.bo(added.number));
        let fd = export(&bo?.0)?;
        bucket.dmabuf_fd = NewFd::number(&fd);
        fds.push(fd, GFP_KERNEL_ACCOUNT)?;
    }
    Ok(bucket)
}

/// Makes the event page.
fn restore_page(caller: &Caller<'_>, devices: &RestoredDevices, page: EventPageRecord) -> Result {
    let events = caller.process.events();
    match page {
        EventPageRecord::None => Ok(()),
        EventPageRecord::Driver(slots) => events.restore_own_page(slots),
        EventPageRecord::Buffer(place, number) => {
            let context = &devices.at(place)?.context;
            let (bo, access) = context.with_memory(|memory| memory.bo(number))?;
            if !access.write {
                return Err(EINVAL);
            }
            let gpu = devices.at(place)?.id;
            events.set_page(bo, BufferHandle { gpu, number }.encode())
        }
    }
}

fn restore_event(caller: &Caller<'_>, devices: &RestoredDevices, record: &EventRecord) -> Result {
    let payload = match record.payload {
        PayloadRecord::Nothing => EventPayload::Nothing,
        PayloadRecord::Memory(place, address, reasons) => EventPayload::Memory(MemoryFault {
            gpu: devices.gpu(place)?,
            address,
            not_present: reasons & 1 != 0,
            read_only: reasons & 2 != 0,
            no_execute: reasons & 4 != 0,
        }),
        PayloadRecord::Stopped(place) => EventPayload::Stopped(devices.gpu(place)?),
        PayloadRecord::Reset(place) => EventPayload::Reset(devices.gpu(place)?),
    };
    let state = EventState {
        kind: EventKind::new(record.kind)?,
        auto_reset: record.auto_reset,
        signaled: record.signaled,
        age: record.age,
        payload,
    };
    caller.process.events().restore(record.id, &state)
}

/// The attributes of a range, for RESUME.
fn saved_range(record: &RangeRecord<'_>) -> Result<SavedRange> {
    if !params::is_svm_enabled() {
        return Err(EPERM);
    }
    let mut attributes = KVVec::new();
    for pair in record.attributes.chunks_exact(2) {
        if let &[type_, value] = pair {
            attributes.push(uapi::SvmAttribute { type_, value }, GFP_KERNEL_ACCOUNT)?;
        }
    }
    Ok(SavedRange {
        range: record.range,
        attributes,
    })
}
