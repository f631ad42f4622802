// SPDX-License-Identifier: GPL-2.0
//! CRIU_OP: a process is saved and restored. Checks and errors are amdkfd's, in its order
//! (kfd_ioctl_criu), as far as they do not depend on its private data.

mod restore;

use hw::criu::RecordCounts;
use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;

use super::caller::Caller;
use super::svm;
use crate::kern::named_task::NamedTask;
use crate::kern::new_fd::NewFd;
use crate::kern::uapi::{self, criu_op};
use crate::kern::{errno, task, uaccess_ext};
use crate::mem::bo::Bo;
use crate::process::criu::Snapshot;
use restore::restore;

/// The descriptor of a buffer that has none: `KFD_INVALID_FD`.
const NO_FD: u32 = u32::MAX;

/// Descriptors that the caller gets.
pub(super) type NewFds = KVVec<NewFd>;

/// Gives the caller its descriptors.
pub(super) fn install(fds: NewFds) {
    fds.into_iter().for_each(NewFd::install);
}

/// Checks that the caller may save and restore processes.
///
/// # Errors
///
/// `EACCES`.
pub(super) fn check_capable() -> Result {
    match task::may_checkpoint() {
        true => Ok(()),
        false => Err(EACCES),
    }
}

/// CRIU_OP.
///
/// # Errors
///
/// `EOPNOTSUPP` for a secondary process; `EINVAL` for an unknown operation; those of the operation.
pub(super) fn criu_op(caller: &Caller<'_>, args: &mut uapi::CriuArgs) -> Result<NewFds> {
    if !caller.process.is_primary() {
        return Err(errno::not_supported());
    }
    match args.op {
        criu_op::PROCESS_INFO => process_info(caller, args).map(|()| NewFds::new()),
        criu_op::CHECKPOINT => checkpoint(caller, args),
        criu_op::UNPAUSE => caller.process.unpause().map(|()| NewFds::new()),
        // A process takes the memory of the caller, and files of its own.
        criu_op::RESTORE if !caller.process.is_current() => Err(EBADF),
        criu_op::RESTORE => restore(caller, args),
        criu_op::RESUME => resume(caller, args).map(|()| NewFds::new()),
        _ => Err(EINVAL),
    }
}

/// The GPUs that the process may use.
///
/// # Errors
///
/// `ENODEV` if there are none; `ENOMEM`.
fn gpus(caller: &Caller<'_>) -> Result<KVec<GpuId>> {
    let mut ids = KVec::new();
    for facts in &caller.kfd.facts_for(caller.process)? {
        ids.push(facts.id, GFP_KERNEL_ACCOUNT)?;
    }
    match ids.is_empty() {
        true => Err(ENODEV),
        false => Ok(ids),
    }
}

/// The numbers of objects in the arguments.
fn counts(args: &uapi::CriuArgs) -> RecordCounts {
    RecordCounts {
        devices: args.num_devices,
        buffers: args.num_bos,
        objects: args.num_objects,
    }
}

/// Bytes of the private data.
fn bytes(snapshot: &Snapshot) -> u64 {
    core::mem::size_of_val(&*snapshot.words) as u64
}

/// PROCESS_INFO: takes the queues off the hardware until UNPAUSE, and says how much there is to be
/// saved.
///
/// # Errors
///
/// `ENODEV` without a GPU; `EOPNOTSUPP` for an address space with secondary processes, which would
/// be lost; `EINVAL` for a queue that has failed, and the queues run again.
fn process_info(caller: &Caller<'_>, args: &mut uapi::CriuArgs) -> Result {
    let process = caller.process;
    let gpus = gpus(caller)?;
    if caller.kfd.processes.has_secondary(process) {
        return Err(errno::not_supported());
    }
    let pauses = process.pause()?;
    let snapshot = process
        .snapshot(&gpus)
        .and_then(|snapshot| {
            let lead = NamedTask::of_process(process.pid(), process.space())?;
            args.pid = lead.own_number() as u32;
            Ok(snapshot)
        })
        .inspect_err(|_| {
            if pauses {
                let _ = process.unpause();
            }
        })?;
    args.num_devices = snapshot.counts.devices;
    args.num_bos = snapshot.counts.buffers;
    args.num_objects = snapshot.counts.objects;
    args.priv_data_size = bytes(&snapshot);
    Ok(())
}

/// A dma-buf of `bo` for the caller, through which it may read and write the contents.
///
/// # Errors
///
/// `EMFILE`, `ENOMEM`.
fn export(bo: &Bo) -> Result<NewFd> {
    NewFd::new(
        crate::kern::dma_buf::DmaBuf::into_file(bo.dma_buf(true)?)?,
        false,
    )
}

/// CHECKPOINT: writes what the process has. The caller gets a dma-buf of each buffer with contents.
///
/// # Errors
///
/// `EINVAL` without room, without PROCESS_INFO, or if there is not as much as that has said;
/// `ENODEV` without a GPU; `EFAULT`; `EMFILE`; `ENOMEM`.
fn checkpoint(caller: &Caller<'_>, args: &mut uapi::CriuArgs) -> Result<NewFds> {
    if args.devices == 0 || args.bos == 0 || args.priv_data == 0 {
        return Err(EINVAL);
    }
    let gpus = gpus(caller)?;
    let snapshot = caller.process.snapshot(&gpus)?;
    if snapshot.counts != counts(args) || bytes(&snapshot) != args.priv_data_size {
        return Err(EINVAL);
    }
    for (index, gpu) in (0..).zip(&gpus) {
        let device = uapi::CriuDevice {
            user_gpu_id: caller.shown_id(*gpu),
            actual_gpu_id: gpu.get().into(),
            drm_fd: 0,
            pad: 0,
        };
        uaccess_ext::write_element(args.devices, index, &device)?;
    }
    let size = u32::try_from(args.priv_data_size)?;
    uaccess_ext::write_dwords(args.priv_data, &snapshot.words, size)?;
    let mut fds = NewFds::new();
    for (index, buffer) in (0..).zip(&snapshot.buffers) {
        let fd = buffer.contents.as_ref().map(|bo| export(bo)).transpose()?;
        let bucket = uapi::CriuBuffer {
            addr: buffer.address,
            size: buffer.size,
            offset: buffer.offset,
            restored_offset: 0,
            gpu_id: caller.shown_id(buffer.gpu),
            alloc_flags: buffer.flags,
            dmabuf_fd: fd.as_ref().map_or(NO_FD, NewFd::number),
            pad: 0,
        };
        uaccess_ext::write_element(args.bos, index, &bucket)?;
        if let Some(fd) = fd {
            fds.push(fd, GFP_KERNEL_ACCOUNT)?;
        }
    }
    Ok(fds)
}

/// RESUME: gives the shared virtual memory of a restored process, whose memory is there now, its
/// attributes, makes the queues that need such memory, and lets all queues run.
///
/// # Errors
///
/// `ESRCH` for a process that does not exist or does not use KFD; `EINVAL` for one that was not
/// restored, or was resumed; those of the SVM ioctl, and of a queue in RESTORE.
fn resume(caller: &Caller<'_>, args: &uapi::CriuArgs) -> Result {
    let pid = i32::try_from(args.pid).map_err(|_| ESRCH)?;
    let task = NamedTask::find(pid)?;
    let process = caller.kfd.processes.find(&task.space()).ok_or(ESRCH)?;
    let mut restored = process.begin_resume()?;
    let target = Caller {
        file: caller.file,
        kfd: caller.kfd,
        process: &process,
    };
    for range in restored.late.ranges.iter_mut() {
        svm::set(&target, range.range, &mut range.attributes)?;
    }
    for queue in restored.late.queues.drain_all() {
        process.add_late_queue(queue)?;
    }
    Ok(())
}
