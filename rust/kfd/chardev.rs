// SPDX-License-Identifier: GPL-2.0
//! The files of /dev/kfd.

use hw::doorbell::{MmapKind, MmapOffset};
use kernel::mm::virt::VmaNew;
use kernel::prelude::*;
use kernel::sync::{Arc, ArcBorrow};

use super::caller::Caller;
use super::{args, ioctl, Kfd};
use crate::kern::chrdev::CharFile;
use crate::kern::host;
use crate::kern::named_task::NamedTask;
use crate::process::table::{EntryOwner, FileProcess};

/// The data of an open file of /dev/kfd.
pub(crate) struct KfdFile {
    process: FileProcess,
    kfd: Arc<Kfd>,
}

impl KfdFile {
    /// Checks that the caller has opened the file itself.
    ///
    /// # Errors
    ///
    /// `EBADF` for a caller that inherited the file, whose data belongs to its parent. libhsakmt
    /// then opens the device again.
    fn check_caller(&self) -> Result {
        if self.process.get().is_current() {
            Ok(())
        } else {
            Err(EBADF)
        }
    }
}

impl KfdFile {
    /// Whether the calling thread traces the first thread of the process that has opened the file.
    fn is_traced_by_caller(&self) -> bool {
        let process = self.process.get();
        let lead = NamedTask::of_process(process.pid(), process.space());
        lead.is_ok_and(|lead| lead.is_process_traced_by_caller())
    }
}

impl CharFile for KfdFile {
    type Data = Arc<Self>;

    fn open() -> Result<Arc<Self>> {
        if host::in_compat_syscall() {
            // The structures of the ioctls have 64-bit pointers to rings and buffers.
            return Err(EPERM);
        }
        let kfd = Kfd::instance()?;
        let process = FileProcess::new(kfd.processes.open(&EntryOwner::current()?)?);
        Ok(Arc::new(Self { process, kfd }, GFP_KERNEL_ACCOUNT)?)
    }

    fn ioctl(file: ArcBorrow<'_, Self>, cmd: u32, arg: usize) -> Result<isize> {
        if !(ioctl::is_for_tracers(cmd) && file.is_traced_by_caller()) {
            file.check_caller()?;
        }
        let caller = Caller {
            kfd: &file.kfd,
            file: &file.process,
            process: file.process.get(),
        };
        ioctl::dispatch(&caller, cmd, arg)
    }

    fn mmap(file: ArcBorrow<'_, Self>, vma: &VmaNew, offset: u64) -> Result {
        file.check_caller()?;
        let offset = MmapOffset::decode(offset);
        if offset.kind == MmapKind::Events {
            return file.process.get().events().mmap(vma);
        }
        let Ok(id) = args::gpu_id(offset.gpu_id.into()) else {
            return Err(ENODEV);
        };
        let process = file.process.get();
        let context = file.kfd.context(process, process.gpu_named(id))?;
        match offset.kind {
            MmapKind::Doorbell => context.queue_resources()?.mmap(vma),
            MmapKind::Mmio => context.mmap_registers(vma),
            MmapKind::Events | MmapKind::Reserved => Err(EINVAL),
        }
    }

    fn exiting(file: ArcBorrow<'_, Self>) {
        file.process.exiting();
    }
}
