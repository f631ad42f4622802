// SPDX-License-Identifier: GPL-2.0
//! Ioctls of buffers by GEM handle: libdrm_amdgpu creates, inspects, maps and shares buffers with
//! them.

use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
    task::MAX_SCHEDULE_TIMEOUT,
    time::Jiffies,
};

use hw::{
    pte::{Coherence, PageAccess},
    va::{VaRange, GPUVM_BASE, PAGE_SIZE},
};

use super::{cs::timeout, file::RenderFile};
use crate::{
    kern::{
        drm::{
            file::OpenDrmFile,
            ioctl::{Delivery, DrmIoctl, IoctlAnswer},
            uapi::{self, create_flag, domain, va_flag},
            DrmDriver,
        },
        errno,
        fence::Fence,
    },
    mem::{
        bo::{self, Bo, BoData, BoUsage},
        metadata,
        vm::MappedPart,
        GpuMemory,
    },
};

/// Domains in which GEM_CREATE may place a buffer.
const DOMAINS: u64 = domain::VRAM | domain::GTT | domain::CPU;
/// Flags that GEM_CREATE accepts. All VRAM is cleared, and visible to the CPU.
const CREATE_FLAGS: u64 = create_flag::CPU_ACCESS_REQUIRED
    | create_flag::NO_CPU_ACCESS
    | create_flag::CPU_GTT_USWC
    | create_flag::VRAM_CLEARED
    | create_flag::VRAM_CONTIGUOUS
    | create_flag::EXPLICIT_SYNC
    | create_flag::VRAM_WIPE_ON_RELEASE
    | create_flag::DISCARDABLE
    | create_flag::COHERENT
    | create_flag::UNCACHED
    | create_flag::EXT_COHERENT;

/// GEM_CREATE: a buffer in VRAM. It is in system memory if no VRAM is free, or if the caller asks
/// for that.
///
/// # Errors
///
/// `EINVAL` for an unknown domain or flag; `ENOMEM`.
pub(super) struct GemCreate;

impl<D: DrmDriver<Data = Arc<GpuMemory>, File = RenderFile, Object = BoData>> DrmIoctl<D>
    for GemCreate
{
    type Args = uapi::GemCreate;
    type Input = ();
    type Answer = ();

    const COMMAND: u32 = uapi::read_write::<Self::Args>(uapi::GEM_CREATE_NR);

    const NAME: &'static CStr = c"AMDGPU_GEM_CREATE";

    fn call(file: &OpenDrmFile<'_, D>, args: &mut Self::Args, (): &()) -> Result {
        let wanted = args.wanted();
        let flags = wanted.domain_flags;
        if wanted.domains & DOMAINS == 0
            || wanted.domains & !DOMAINS != 0
            || flags & !CREATE_FLAGS != 0
        {
            return Err(EINVAL);
        }
        let size = wanted
            .bo_size
            .checked_next_multiple_of(PAGE_SIZE)
            .ok_or(EINVAL)?;
        let usage = BoUsage {
            access: PageAccess::READ_WRITE.executable(),
            coherence: Coherence {
                coherent: flags & create_flag::COHERENT != 0,
                extended: flags & create_flag::EXT_COHERENT != 0,
                uncached: flags & create_flag::UNCACHED != 0,
            },
            explicit_sync: flags & create_flag::EXPLICIT_SYNC != 0,
        };
        let drm = ARef::from(file.device());
        let client = file.data().vm().client();
        let contiguous = flags & create_flag::VRAM_CONTIGUOUS != 0;
        let in_system = || bo::create::gtt(&drm, client, size, usage);
        let bo = if wanted.domains & domain::VRAM != 0 {
            file.data().join_evictor()?;
            match bo::create::vram(&drm, client, size, usage, contiguous) {
                Err(error) if error == ENOMEM => in_system(),
                other => other,
            }
        } else {
            in_system()
        };
        args.answer(file.create_handle(&*bo?)?);
        Ok(())
    }
}

/// GEM_MMAP: the offset at which the file maps a buffer.
///
/// # Errors
///
/// `ENOENT`; `EPERM` for memory of the process itself.
pub(super) struct GemMmap;

impl<D: DrmDriver<Data = Arc<GpuMemory>, File = RenderFile, Object = BoData>> DrmIoctl<D>
    for GemMmap
{
    type Args = uapi::GemMmap;
    type Input = ();
    type Answer = ();

    const COMMAND: u32 = uapi::read_write::<Self::Args>(uapi::GEM_MMAP_NR);

    const NAME: &'static CStr = c"AMDGPU_GEM_MMAP";

    fn call(file: &OpenDrmFile<'_, D>, args: &mut Self::Args, (): &()) -> Result {
        let bo = file.object(args.handle())?;
        if bo.is_user() {
            return Err(EPERM);
        }
        args.answer(bo.mmap_offset()?);
        Ok(())
    }
}

/// GEM_METADATA: reads or writes a buffer's metadata.
///
/// # Errors
///
/// `ENOENT`; `EINVAL` for more metadata than a buffer can have.
pub(super) struct GemMetadata;

impl<D: DrmDriver<Data = Arc<GpuMemory>, File = RenderFile, Object = BoData>> DrmIoctl<D>
    for GemMetadata
{
    type Args = uapi::GemMetadata;
    type Input = ();
    type Answer = ();

    const COMMAND: u32 = uapi::read_write::<Self::Args>(uapi::GEM_METADATA_NR);

    const NAME: &'static CStr = c"AMDGPU_GEM_METADATA";

    fn call(file: &OpenDrmFile<'_, D>, args: &mut Self::Args, (): &()) -> Result {
        let bo = file.object(args.handle)?;
        let data = &mut args.data;
        match args.op {
            uapi::METADATA_GET => {
                let metadata = bo.metadata().get();
                data.flags = metadata.flags;
                data.tiling_info = metadata.tiling;
                data.data_size_bytes = metadata.size;
                data.data = metadata.data;
            }
            uapi::METADATA_SET => bo.metadata().set(metadata::BoMetadata {
                flags: data.flags,
                tiling: data.tiling_info,
                size: data.data_size_bytes,
                data: data.data,
            })?,
            _ => return Err(EINVAL),
        }
        Ok(())
    }
}

/// The wait for the jobs that use a buffer.
pub(super) struct IdleWait {
    bo: ARef<Bo>,
    until: u64,
    domain: u32,
}

impl IoctlAnswer<uapi::GemWaitIdle> for IdleWait {
    /// Waits. What became of the jobs does not count.
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS` on a signal.
    fn deliver(self, args: &mut uapi::GemWaitIdle) -> Result<Delivery> {
        let is_idle = self.bo.wait_users(timeout(self.until))?;
        args.answer(!is_idle, self.domain);
        Ok(Delivery::Done)
    }
}

/// GEM_WAIT_IDLE: waits until a time for the jobs that have the buffer in their lists, and for
/// other devices. Queues of processes do not count.
///
/// # Errors
///
/// `ENOENT`; `ERESTARTSYS` on a signal.
pub(super) struct GemWaitIdle;

impl<D: DrmDriver<Data = Arc<GpuMemory>, File = RenderFile, Object = BoData>> DrmIoctl<D>
    for GemWaitIdle
{
    type Args = uapi::GemWaitIdle;
    type Input = ();
    type Answer = IdleWait;

    const COMMAND: u32 = uapi::read_write::<Self::Args>(uapi::GEM_WAIT_IDLE_NR);

    const NAME: &'static CStr = c"AMDGPU_GEM_WAIT_IDLE";

    fn call(file: &OpenDrmFile<'_, D>, args: &mut Self::Args, (): &()) -> Result<IdleWait> {
        let bo = file.object(args.handle())?;
        Ok(IdleWait {
            until: args.until(),
            domain: domain_of(&bo) as u32,
            bo,
        })
    }
}

/// The domain in which GEM_CREATE would place such a buffer.
pub(super) fn domain_of(bo: &Bo) -> u64 {
    if bo.is_vram() {
        domain::VRAM
    } else {
        domain::GTT
    }
}

/// Flags that GEM_VA accepts. The cache policy of a buffer is set when it is created.
const VA_FLAGS: u32 = va_flag::DELAY_UPDATE
    | va_flag::READABLE
    | va_flag::WRITEABLE
    | va_flag::EXECUTABLE
    | va_flag::MTYPE
    | va_flag::NOALLOC;

/// The wait for jobs after which a range can be mapped.
pub(super) struct VaWait(Option<ARef<Fence>>);

impl IoctlAnswer<uapi::GemVa> for VaWait {
    /// Waits.
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS` on a signal.
    fn deliver(self, _args: &mut uapi::GemVa) -> Result<Delivery> {
        match self.0 {
            None => Ok(Delivery::Done),
            Some(fence) => {
                fence.wait_interruptible(MAX_SCHEDULE_TIMEOUT as Jiffies)?;
                Ok(Delivery::CallAgain)
            }
        }
    }
}

/// GEM_VA: maps a part of a buffer in the file's address space, or unmaps it. The GPU sees a new
/// mapping at once, and loses one when the jobs that are under way are done.
///
/// # Errors
///
/// `ENOENT` for an unknown handle, or if the buffer has no mapping at the address; `EINVAL` for a
/// range that is not whole pages of the GPU's aperture or not in the buffer, and for unknown flags;
/// `EEXIST` if the range is in use; `EACCES` for write access to a read-only buffer; `EBUSY` while
/// a queue uses the mapping; `EOPNOTSUPP` for other operations; `ERESTARTSYS` on a signal;
/// `ENOMEM`.
pub(super) struct GemVa;

impl<D: DrmDriver<Data = Arc<GpuMemory>, File = RenderFile, Object = BoData>> DrmIoctl<D>
    for GemVa
{
    type Args = uapi::GemVa;
    type Input = ();
    type Answer = VaWait;

    const COMMAND: u32 = uapi::write::<Self::Args>(uapi::GEM_VA_NR);

    const NAME: &'static CStr = c"AMDGPU_GEM_VA";

    fn call(file: &OpenDrmFile<'_, D>, args: &mut Self::Args, (): &()) -> Result<VaWait> {
        let syncs = args.vm_timeline_syncobj_out != 0 || args.num_syncobj_handles != 0;
        if syncs || args.flags & va_flag::PRT != 0 {
            return Err(errno::not_supported());
        }
        if args.flags & !VA_FLAGS != 0 {
            return Err(EINVAL);
        }
        let has = |flag: u32| args.flags & flag != 0;
        match args.operation {
            uapi::VA_MAP => {
                let bo = file.object(args.handle)?;
                if has(va_flag::WRITEABLE) && !bo.access().write {
                    return Err(EACCES);
                }
                let range = VaRange::new(args.va_address, args.map_size)
                    .ok()
                    .filter(|range| range.start() >= GPUVM_BASE)
                    .ok_or(EINVAL)?;
                let part = MappedPart {
                    bo,
                    offset: args.offset_in_bo,
                    access: PageAccess {
                        read: has(va_flag::READABLE),
                        write: has(va_flag::WRITEABLE),
                        execute: has(va_flag::EXECUTABLE),
                    },
                };
                file.data().map(range, part, args.flags).map(VaWait)
            }
            uapi::VA_UNMAP => {
                let bo = file.object(args.handle)?;
                file.data().unmap(&bo, args.va_address)?;
                Ok(VaWait(None))
            }
            uapi::VA_CLEAR | uapi::VA_REPLACE => Err(errno::not_supported()),
            _ => Err(EINVAL),
        }
    }
}
