// SPDX-License-Identifier: GPL-2.0
//! Functions that create buffers, for clients that pay for them.

use super::{Bo, BoBacking, BoData, BoUsage, DrmDevice, RegisterRange};
use crate::{
    kern::{mm_exit::AddressSpace, pages::SystemPages},
    ledger::LedgerKind,
    mem::{
        account::{MemoryClient, MemoryRegion, SystemShare},
        copy_engine::CopyLane,
        placement::VramPlacement,
        user_memory::{UserMemory, UserMemoryTime},
        GpuMemory,
    },
};
use hw::{
    pte::{Coherence, PageAccess},
    va::{VaRange, PAGE_SIZE},
};
use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};

/// Converts the size of a buffer to the kernel's type.
///
/// # Errors
///
/// `EINVAL` if it is zero or not whole pages.
fn checked(size: u64) -> Result<usize> {
    if size == 0 || size % PAGE_SIZE != 0 {
        return Err(EINVAL);
    }
    usize::try_from(size).map_err(|_| EINVAL)
}

/// Creates a buffer of `size` bytes of VRAM for `client`, cleared; in one run if it is to be
/// `contiguous` and there is one. May sleep, until the buffer is cleared.
///
/// # Errors
///
/// `EINVAL` if the size is zero or not whole pages; `ENOMEM` if it is more than the client may
/// have, or other clients cannot make room for it; `EINTR` if the caller is killed; other errors if
/// memory cannot be moved or cleared.
pub(crate) fn vram(
    drm: &ARef<DrmDevice>,
    client: &Arc<MemoryClient>,
    size: u64,
    usage: BoUsage,
    contiguous: bool,
) -> Result<ARef<Bo>> {
    let bytes = checked(size)?;
    let gpu: &Arc<GpuMemory> = drm;
    let charge = gpu.budget.charge(&gpu.vram, client, size)?;
    let blocks = gpu.evictor.alloc(gpu, client, size, contiguous)?;
    let blocks = Arc::new(blocks, GFP_KERNEL_ACCOUNT)?;
    // Data that another process has left there must not be disclosed.
    if !blocks.were_cleared() {
        gpu.copy_engine()?.fill(&blocks, 0, CopyLane::All)?;
    }
    let placement = VramPlacement::new(blocks, charge, contiguous)?;
    let buffer = BoData::new(gpu, BoBacking::Vram(placement), usage);
    Bo::new(drm, bytes, buffer.paid_by(client))
}

/// Creates a buffer of `size` bytes of system memory for `client`, zeroed.
///
/// # Errors
///
/// `EINVAL` if the size is zero or not whole pages; `ENOMEM`, also beyond the limit of
/// [`SystemShare`]; `EINTR` if the caller is killed.
pub(crate) fn gtt(
    drm: &ARef<DrmDevice>,
    client: &Arc<MemoryClient>,
    size: u64,
    usage: BoUsage,
) -> Result<ARef<Bo>> {
    let bytes = checked(size)?;
    let gpu: &Arc<GpuMemory> = drm;
    let share = SystemShare::charge(client, MemoryRegion::Gtt, size)?;
    let pages = SystemPages::alloc(&gpu.hw.dev, bytes)?;
    let buffer = BoData::new(gpu, BoBacking::Gtt(pages), usage);
    let buffer = buffer.sharing(share, LedgerKind::GttBytes, size);
    Bo::new(drm, bytes, buffer.paid_by(client))
}

/// Creates a buffer of the `size` bytes at `start` of the calling process, for `client`, which has
/// the memory at that `time`. The GPU may write it only if the process may.
///
/// # Errors
///
/// `EINVAL` if start or size are not whole pages; `EFAULT` if the process has no such memory;
/// `ENOMEM`, also beyond the limit of [`SystemShare`].
pub(crate) fn user(
    drm: &ARef<DrmDevice>,
    client: &Arc<MemoryClient>,
    (start, time): (u64, UserMemoryTime),
    size: u64,
    usage: BoUsage,
) -> Result<ARef<Bo>> {
    let memory = UserMemory::new(start, checked(size)?, usage.access.write, time)?;
    of_process(drm, client, (memory, size), size, usage)
}

/// Creates a buffer of the memory of the process of `space` in `range` as shared virtual memory,
/// for `client`. If `always`, it is to be mapped for the GPU at all times. If the GPU fetches its
/// pages by faults (`refaults`), it never needs all of it at once, so it is not counted.
///
/// # Errors
///
/// `ENOMEM`, `EFAULT`.
pub(in crate::mem) fn shared(
    drm: &ARef<DrmDevice>,
    client: &Arc<MemoryClient>,
    space: &AddressSpace,
    range: VaRange,
    usage: BoUsage,
    (always, refaults): (bool, bool),
) -> Result<ARef<Bo>> {
    let memory = UserMemory::shared(space, range, always)?;
    let counted = if refaults { 0 } else { range.size() };
    of_process(drm, client, (memory, range.size()), counted, usage)
}

/// Creates a buffer of a process's `memory` with its size, of which `counted` bytes are charged.
fn of_process(
    drm: &ARef<DrmDevice>,
    client: &Arc<MemoryClient>,
    (memory, size): (UserMemory, u64),
    counted: u64,
    usage: BoUsage,
) -> Result<ARef<Bo>> {
    let share = SystemShare::charge(client, MemoryRegion::User, counted)?;
    let buffer = BoData::new(drm, BoBacking::User(memory), usage);
    let buffer = buffer.sharing(share, LedgerKind::UserptrBytes, size);
    Bo::new(drm, checked(size)?, buffer.paid_by(client))
}

/// Creates a buffer of `size` bytes for `client`: registers that a process may have, of which the
/// GPU may access a smaller part. It is never cached.
///
/// # Errors
///
/// `EINVAL`, `ENOMEM`.
pub(crate) fn registers(
    drm: &ARef<DrmDevice>,
    client: &Arc<MemoryClient>,
    size: u64,
    registers: RegisterRange,
    access: PageAccess,
) -> Result<ARef<Bo>> {
    let bytes = checked(size)?;
    let usage = BoUsage {
        access,
        coherence: Coherence {
            coherent: true,
            uncached: true,
            ..Coherence::default()
        },
        ..BoUsage::default()
    };
    let buffer = BoData::new(drm, BoBacking::Registers(registers), usage);
    Bo::new(drm, bytes, buffer.paid_by(client))
}
