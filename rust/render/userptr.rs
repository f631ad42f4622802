// SPDX-License-Identifier: GPL-2.0
//! AMDGPU_GEM_USERPTR: a buffer of the process's own memory.

use hw::{
    pte::{Coherence, PageAccess},
    va::PAGE_SIZE,
};
use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};

use super::file::RenderFile;
use crate::{
    kern::drm::{
        file::OpenDrmFile,
        ioctl::DrmIoctl,
        uapi::{self, userptr_flag as flag},
        DrmDriver,
    },
    mem::user_memory::UserMemoryTime,
    mem::{
        bo::{self, BoData, BoUsage},
        GpuMemory,
    },
};

const FLAGS: u32 = flag::READONLY | flag::ANONONLY | flag::VALIDATE | flag::REGISTER;

/// GEM_USERPTR: a buffer of memory of the process, which may change it at any time: its pages are
/// never pinned. GEM_VA maps it.
///
/// # Errors
///
/// `EINVAL` if it is not whole pages, or none, and for unknown flags; `EACCES` for memory that the
/// GPU may write and that is not to be watched; `EFAULT` if it is not memory that the process may
/// use that way; `EPERM` if memory of files is excluded and among it; `ENOMEM`.
pub(super) struct GemUserptr;

impl<D: DrmDriver<Data = Arc<GpuMemory>, File = RenderFile, Object = BoData>> DrmIoctl<D>
    for GemUserptr
{
    type Args = uapi::GemUserptr;
    type Input = ();
    type Answer = ();

    const COMMAND: u32 = uapi::read_write::<Self::Args>(uapi::GEM_USERPTR_NR);

    const NAME: &'static CStr = c"AMDGPU_GEM_USERPTR";

    fn call(file: &OpenDrmFile<'_, D>, args: &mut Self::Args, (): &()) -> Result {
        let has = |flag: u32| args.flags & flag != 0;
        if args.addr % PAGE_SIZE != 0 || args.size % PAGE_SIZE != 0 || args.flags & !FLAGS != 0 {
            return Err(EINVAL);
        }
        let readonly = has(flag::READONLY);
        if !readonly && !has(flag::REGISTER) {
            return Err(EACCES);
        }
        let usage = BoUsage {
            access: PageAccess {
                write: !readonly,
                ..PageAccess::READ_WRITE.executable()
            },
            coherence: Coherence {
                coherent: true,
                ..Coherence::default()
            },
            ..BoUsage::default()
        };
        let drm = ARef::from(file.device());
        let client = file.data().vm().client();
        let bo = bo::create::user(
            &drm,
            client,
            (args.addr, UserMemoryTime::Now),
            args.size,
            usage,
        )?;
        if has(flag::ANONONLY) && !bo.is_anonymous()? {
            return Err(EPERM);
        }
        args.handle = file.create_handle(&bo)?;
        Ok(())
    }
}
