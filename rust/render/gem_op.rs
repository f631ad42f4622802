// SPDX-License-Identifier: GPL-2.0
//! AMDGPU_GEM_OP and AMDGPU_GEM_LIST_HANDLES: what a client can ask of its buffers, enough to make
//! them again.

use hw::va::PAGE_SIZE;
use kernel::{prelude::*, sync::Arc};

use super::{file::RenderFile, gem::domain_of};
use crate::{
    kern::drm::{
        file::OpenDrmFile,
        ioctl::{DrmIoctl, IoctlReply},
        uapi::{self, create_flag, domain, BoEntry, GemCreateIn},
        DrmDriver,
    },
    mem::{
        bo::{Bo, BoData},
        GpuMemory,
    },
};

/// The domains that SET_PLACEMENT takes.
const DOMAINS: u64 = domain::VRAM | domain::GTT | domain::CPU;

/// GEM_OP: the parameters with which a buffer was created, its mappings by GEM_VA, and a change of
/// the domain in which its client prefers it.
///
/// The buffer stays where it is: the domain is only told again.
///
/// # Errors
///
/// `ENOENT`; `EINVAL` for other operations, and to prefer VRAM for memory of others; `EPERM` to
/// prefer a domain for memory of the process; `EFAULT`; `ENOMEM`.
pub(super) struct GemOp;

impl<D: DrmDriver<Data = Arc<GpuMemory>, File = RenderFile, Object = BoData>> DrmIoctl<D>
    for GemOp
{
    type Args = uapi::GemOp;
    type Input = ();
    type Answer = IoctlReply;

    const COMMAND: u32 = uapi::read_write::<Self::Args>(uapi::GEM_OP_NR);

    const NAME: &'static CStr = c"AMDGPU_GEM_OP";

    fn call(file: &OpenDrmFile<'_, D>, args: &mut Self::Args, (): &()) -> Result<IoctlReply> {
        if args.padding != 0 {
            return Err(EINVAL);
        }
        let bo = file.object(args.handle)?;
        match args.op {
            uapi::OP_GET_CREATE_INFO => {
                IoctlReply::new(args.value, size_of::<GemCreateIn>(), &created_as(&bo))
            }
            uapi::OP_SET_PLACEMENT => {
                if bo.is_import() && args.value & domain::VRAM != 0 {
                    return Err(EINVAL);
                }
                if bo.is_user() {
                    return Err(EPERM);
                }
                bo.prefer((args.value & DOMAINS) as u32);
                Ok(IoctlReply::none())
            }
            uapi::OP_GET_MAPPING_INFO => {
                let mappings = file.data().mappings(&bo)?;
                let room = args.num_entries as usize;
                args.num_entries = mappings.len() as u32;
                if mappings.len() > room {
                    return Ok(IoctlReply::none());
                }
                IoctlReply::new(args.value, usize::MAX, &mappings[..])
            }
            _ => Err(EINVAL),
        }
    }
}

/// GEM_LIST_HANDLES: all buffers of the file. If there are more than the caller has room for, only
/// their number.
///
/// # Errors
///
/// `EINVAL`, `EFAULT`, `ENOMEM`.
pub(super) struct GemListHandles;

impl<D: DrmDriver<Data = Arc<GpuMemory>, File = RenderFile, Object = BoData>> DrmIoctl<D>
    for GemListHandles
{
    type Args = uapi::GemListHandles;
    type Input = ();
    type Answer = IoctlReply;

    const COMMAND: u32 = uapi::read_write::<Self::Args>(uapi::GEM_LIST_HANDLES_NR);

    const NAME: &'static CStr = c"AMDGPU_GEM_LIST_HANDLES";

    fn call(file: &OpenDrmFile<'_, D>, args: &mut Self::Args, (): &()) -> Result<IoctlReply> {
        let handles = file.handles()?;
        let room = args.num_entries as usize;
        args.num_entries = handles.len() as u32;
        if handles.len() > room {
            return Ok(IoctlReply::none());
        }
        let mut entries = KVVec::with_capacity(handles.len(), GFP_KERNEL_ACCOUNT)?;
        for handle in handles {
            // Another thread may have closed it.
            let Ok(bo) = file.object(handle) else {
                continue;
            };
            let created = created_as(&bo);
            let import = uapi::LIST_HANDLES_IMPORT;
            let entry = BoEntry {
                gem_handle: handle,
                flags: if bo.is_import() { import } else { 0 },
                size: created.bo_size,
                preferred_domains: created.domains,
                alloc_flags: created.domain_flags,
                alignment: created.alignment,
            };
            entries.push(entry, GFP_KERNEL_ACCOUNT)?;
        }
        args.num_entries = entries.len() as u32;
        IoctlReply::new(args.entries, usize::MAX, &entries[..])
    }
}

/// The arguments with which GEM_CREATE makes such a buffer.
fn created_as(bo: &Bo) -> GemCreateIn {
    let domains = bo.preferred().map_or_else(|| domain_of(bo), u64::from);
    let coherence = bo.coherence();
    let of = |is: bool, flag: u64| if is { flag } else { 0 };
    let vram = create_flag::CPU_ACCESS_REQUIRED | create_flag::VRAM_CLEARED;
    GemCreateIn {
        bo_size: bo.size() as u64,
        alignment: PAGE_SIZE,
        domains,
        domain_flags: of(domain_of(bo) == domain::VRAM, vram)
            | of(coherence.coherent, create_flag::COHERENT)
            | of(coherence.extended, create_flag::EXT_COHERENT)
            | of(coherence.uncached, create_flag::UNCACHED)
            | of(bo.is_explicit(), create_flag::EXPLICIT_SYNC),
    }
}
