// SPDX-License-Identifier: GPL-2.0
//! Arguments of ioctls, checked as far as that is possible without other state.

use hw::doorbell::SLICE_BYTES;
use hw::pte::{Coherence, PageAccess};
use hw::queue::{QueuePercentage, QueuePriority, QueueType};
use hw::sdma::ring::{RingSize, MIN_BYTES as MIN_RING};
use hw::topology::gpu_id::GpuId;
use hw::va::{VaRange, GPUVM_BASE, PAGE_SIZE, USER_VA_END};
use kernel::prelude::*;

use crate::kern::errno;
use crate::kern::uapi::{self, alloc_flag as flag, open_flag};
use crate::mem::bo::BoUsage;
use crate::queue::request::{ComputeBuffers, CreateQueue, UpdateQueue};

/// The most GPUs that one MAP or UNMAP may name.
const MAX_DEVICES: u32 = 256;

/// A GPU's id.
///
/// # Errors
///
/// `EINVAL` for a number that cannot be an id.
pub(super) fn gpu_id(raw: u32) -> Result<GpuId> {
    GpuId::from_raw(raw).ok_or(EINVAL)
}

/// An address of user memory, whether or not it is mapped.
///
/// # Errors
///
/// `EFAULT` for an address that is not user memory.
pub(super) fn user_address(address: u64) -> Result<u64> {
    if address < USER_VA_END {
        Ok(address)
    } else {
        Err(EFAULT)
    }
}

/// The size of a ring of `size` bytes. A size below the smallest is rounded up to that.
///
/// # Errors
///
/// `EINVAL` for a size that is no power of two.
fn ring_size(size: u32) -> Result<RingSize> {
    if size != 0 && !size.is_power_of_two() {
        return Err(EINVAL);
    }
    RingSize::new(u64::from(size).max(MIN_RING)).map_err(|_| EINVAL)
}

/// Share and priority of a queue.
///
/// # Errors
///
/// `EINVAL` if one is out of range.
fn share(percentage: u32, priority: u32) -> Result<(QueuePercentage, QueuePriority)> {
    let priority = QueuePriority::new(priority).ok_or(EINVAL)?;
    Ok((QueuePercentage::new(percentage).ok_or(EINVAL)?, priority))
}

/// CREATE_QUEUE.
///
/// # Errors
///
/// `EOPNOTSUPP` for a type of queue that does not exist; `EINVAL`; `EFAULT`.
pub(super) fn create_queue(args: &uapi::CreateQueue) -> Result<CreateQueue> {
    let kind = QueueType::new(args.queue_type).ok_or_else(errno::not_supported)?;
    let (percentage, priority) = share(args.queue_percentage, args.queue_priority)?;
    let compute = ComputeBuffers {
        eop: user_address(args.eop_buffer_address)?,
        eop_size: u32::try_from(args.eop_buffer_size)?,
        save: user_address(args.ctx_save_restore_address)?,
        save_size: args.ctx_save_restore_size,
        control_stack: args.ctl_stack_size,
    };
    Ok(CreateQueue {
        kind,
        ring: user_address(args.ring_base_address)?,
        size: ring_size(args.ring_size)?,
        read_pointer: user_address(args.read_pointer_address)?,
        write_pointer: user_address(args.write_pointer_address)?,
        percentage,
        priority,
        engine: args.sdma_engine_id,
        compute,
    })
}

/// UPDATE_QUEUE. A ring at address 0 means none.
pub(super) fn update_queue(args: &uapi::UpdateQueue) -> Result<UpdateQueue> {
    let (percentage, priority) = share(args.queue_percentage, args.queue_priority)?;
    let size = ring_size(args.ring_size)?;
    let ring = match args.ring_base_address {
        0 => None,
        base => Some((user_address(base)?, size)),
    };
    Ok(UpdateQueue {
        ring,
        percentage,
        priority,
    })
}

/// SET_MEMORY_POLICY.
///
/// # Errors
///
/// `EINVAL` for an unknown policy.
pub(super) fn set_memory_policy(args: &uapi::SetMemoryPolicy) -> Result {
    let policies = [
        uapi::KFD_IOC_CACHE_POLICY_COHERENT,
        uapi::KFD_IOC_CACHE_POLICY_NONCOHERENT,
    ];
    if policies.contains(&args.default_policy) && policies.contains(&args.alternate_policy) {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// The kind of memory that ALLOC_MEMORY_OF_GPU asks for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum AllocKind {
    /// VRAM, in one piece if the caller asks for that.
    Vram { contiguous: bool },
    /// System memory.
    Gtt,
    /// The process's own memory at this address.
    User(u64),
    /// The process's doorbells.
    Doorbell,
    /// The page of HDP flush registers.
    MmioRemap,
}

/// ALLOC_MEMORY_OF_GPU.
pub(super) struct AllocMemory {
    /// The kind of memory.
    pub(super) kind: AllocKind,
    /// Bytes.
    pub(super) size: u64,
    /// The range at which it will be mapped; `None` if it is not to be mapped.
    pub(super) range: Option<VaRange>,
    /// How the GPU uses it.
    pub(super) usage: BoUsage,
}

impl AllocMemory {
    /// The range of the process's own memory of which the buffer is made, if that is whole pages.
    pub(super) fn user_range(&self) -> Option<VaRange> {
        match self.kind {
            AllocKind::User(address) => VaRange::new(address, self.size).ok(),
            _ => None,
        }
    }
}

const KINDS: u32 = flag::VRAM | flag::GTT | flag::USERPTR | flag::DOORBELL | flag::MMIO_REMAP;

/// The range at which a buffer of `size` bytes will be mapped.
///
/// # Errors
///
/// `EINVAL` for a range that is not whole pages of the GPU's aperture.
pub(super) fn place(start: u64, size: u64) -> Result<VaRange> {
    VaRange::new(start, size)
        .ok()
        .filter(|range| range.start() >= GPUVM_BASE)
        .ok_or(EINVAL)
}

/// The flags of a buffer in GET_DMABUF_INFO. All VRAM is visible to the CPU.
pub(super) fn shared_flags(vram: bool) -> u32 {
    if vram {
        flag::VRAM | flag::PUBLIC
    } else {
        flag::GTT
    }
}

/// EXPORT_DMABUF: whether the new descriptor is closed on exec.
///
/// # Errors
///
/// `EINVAL` for flags that have no meaning here.
pub(super) fn export_flags(flags: u32) -> Result<bool> {
    if flags & !(open_flag::CLOEXEC | open_flag::ACCESS) == 0 {
        Ok(flags & open_flag::CLOEXEC != 0)
    } else {
        Err(EINVAL)
    }
}

/// ALLOC_MEMORY_OF_GPU. Memory has as many whole pages as its size needs; registers have one size.
/// VRAM may be without a range, at address 0. Flags that have no meaning yet are ignored, so that
/// programs may pass hints of later versions.
///
/// # Errors
///
/// `EINVAL` for no bytes, not exactly one kind of memory, another size than that of the registers,
/// a range that does not begin with a page or is not in the GPU's aperture, or a ring mapped twice,
/// which gfx9 does not need.
pub(super) fn alloc_memory(args: &uapi::AllocMemory) -> Result<AllocMemory> {
    let has = |bit: u32| args.flags & bit != 0;
    if has(flag::AQL_QUEUE_MEM) {
        return Err(EINVAL);
    }
    let pages = args
        .size
        .checked_next_multiple_of(PAGE_SIZE)
        .ok_or(EINVAL)?;
    let (kind, size) = match args.flags & KINDS {
        flag::VRAM => {
            let contiguous = has(flag::CONTIGUOUS);
            (AllocKind::Vram { contiguous }, pages)
        }
        flag::GTT => (AllocKind::Gtt, pages),
        // The pages from that of the address on.
        flag::USERPTR => {
            let address = args.mmap_offset - args.mmap_offset % PAGE_SIZE;
            (AllocKind::User(address), pages)
        }
        flag::DOORBELL if args.size == SLICE_BYTES => (AllocKind::Doorbell, SLICE_BYTES),
        flag::MMIO_REMAP if args.size == PAGE_SIZE => (AllocKind::MmioRemap, PAGE_SIZE),
        _ => return Err(EINVAL),
    };
    // Memory that is exported, and mapped where it is imported.
    let placeless = args.va_addr == 0 && args.flags & KINDS == flag::VRAM;
    let range = match placeless {
        true if size == 0 => return Err(EINVAL),
        true => None,
        false => Some(place(args.va_addr, size)?),
    };
    let usage = BoUsage {
        access: PageAccess {
            read: true,
            write: has(flag::WRITABLE),
            execute: has(flag::EXECUTABLE),
        },
        coherence: Coherence {
            coherent: has(flag::COHERENT),
            extended: has(flag::EXT_COHERENT),
            uncached: has(flag::UNCACHED),
        },
        ..BoUsage::default()
    };
    Ok(AllocMemory {
        kind,
        size,
        range,
        usage,
    })
}

/// The handle of a buffer, unique in a process. Its GPU is in the upper half.
#[derive(Clone, Copy)]
pub(super) struct BufferHandle {
    /// The GPU that it is on.
    pub(super) gpu: GpuId,
    /// Its number on that GPU.
    pub(super) number: u32,
}

impl BufferHandle {
    /// Decodes a handle that user space passed.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a number that cannot be a handle.
    pub(super) fn decode(raw: u64) -> Result<Self> {
        Ok(Self {
            gpu: gpu_id(u32::try_from(raw >> 32)?)?,
            number: (raw & u64::from(u32::MAX)) as u32,
        })
    }

    /// The handle for user space.
    pub(super) fn encode(self) -> u64 {
        u64::from(self.gpu.get()) << 32 | u64::from(self.number)
    }
}

/// The GPUs that MAP or UNMAP names and that are still to be done, as indices of the array.
///
/// # Errors
///
/// `EINVAL` for no GPU, for too many, or for more done than there are.
pub(super) fn devices(count: u32, done: u32) -> Result<core::ops::Range<u32>> {
    if count == 0 || count > MAX_DEVICES || done > count {
        return Err(EINVAL);
    }
    Ok(done..count)
}
