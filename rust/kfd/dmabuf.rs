// SPDX-License-Identifier: GPL-2.0
//! Ioctls of sharing: buffers as dma-bufs, dma-bufs as buffers.

use kernel::prelude::*;

use super::args::{self, BufferHandle};
use super::caller::Caller;
use super::memory;
use crate::kern::dma_buf::DmaBuf;
use crate::kern::new_fd::NewFd;
use crate::kern::{uaccess_ext, uapi};
use crate::mem::bo::{Bo, BoHandle};

/// GET_DMABUF_INFO: the kind of a buffer of this driver, and its metadata.
///
/// # Errors
///
/// `EINVAL` for another exporter's dma-buf, and without a GPU that the process may use. If there is
/// too little room for the metadata, `EINVAL` with the size that it takes.
pub(super) fn get_info(caller: &Caller<'_>, args: &mut uapi::GetDmabufInfo) -> Result {
    if !caller.kfd.has_granted(caller.process) {
        return Err(EINVAL);
    }
    let buf = DmaBuf::from_fd(args.dmabuf_fd)?;
    let bo = Bo::of_dma_buf(&buf).ok_or(EINVAL)?;
    let vram = bo.is_shared_vram()?;
    let metadata = bo.metadata().get();
    let room = core::mem::replace(&mut args.metadata_size, metadata.size);
    if metadata.size > room {
        return Err(EINVAL);
    }
    args.size = bo.size() as u64;
    args.gpu_id = caller.shown_id(bo.gpu().hw.id);
    args.flags = args::shared_flags(vram);
    if args.metadata_ptr != 0 {
        uaccess_ext::write_dwords(args.metadata_ptr, &metadata.data, metadata.size)?;
    }
    Ok(())
}

/// IMPORT_DMABUF: at an address, or without one only as a handle. The GPU may write to it if it was
/// exported for writing.
pub(super) fn import(caller: &Caller<'_>, args: &mut uapi::ImportDmabuf) -> Result {
    let id = args::gpu_id(args.gpu_id)?;
    let context = caller.context(args.gpu_id)?;
    let drm = caller
        .kfd
        .with_node(context.gpu().hw.id, |node| Ok(node.drm.clone()))?;
    let buf = DmaBuf::from_fd(args.dmabuf_fd)?;
    let range = match args.va_addr {
        0 => None,
        start => Some(args::place(start, buf.size() as u64)?),
    };
    let import = || {
        let bo = match Bo::import_in_hive(&drm, &buf)? {
            Some(bo) => bo,
            None => Bo::import(&drm, &buf)?,
        };
        Ok((BoHandle::of_import(bo, &buf), range))
    };
    let number = context.with_memory(|memory| memory.import(buf.is_writable(), import))?;
    args.handle = BufferHandle { gpu: id, number }.encode();
    Ok(())
}

/// EXPORT_DMABUF: for writing if the process may write.
///
/// # Errors
///
/// `EACCES` if it may not, and a dma-buf for writing exists.
pub(super) fn export(caller: &Caller<'_>, args: &mut uapi::ExportDmabuf) -> Result<NewFd> {
    let cloexec = args::export_flags(args.flags)?;
    let (context, handle) = memory::buffer(caller, args.handle)?;
    let (bo, access) = context.with_memory(|memory| memory.bo(handle.number))?;
    let bo = bo.original().unwrap_or(&bo);
    let buf = bo.dma_buf(access.write)?;
    if buf.is_writable() && !access.write {
        return Err(EACCES);
    }
    let fd = NewFd::new(DmaBuf::into_file(buf)?, cloexec)?;
    args.dmabuf_fd = fd.number();
    Ok(fd)
}
