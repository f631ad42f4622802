// SPDX-License-Identifier: GPL-2.0
//! Memory of the hardware ring of a scheduled queue, in the process's VM.

use crate::kern::pages::SystemPages;
use crate::mem::account::{MemoryRegion, SystemShare};
use crate::mem::vm::{KernelMapping, Vm};
use crate::mem::GpuMemory;
use crate::queue::spare::SpareMemory;
use core::ops::Deref;
use hw::pte::PageAccess;
use hw::sdma::ring::RingSize;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Bytes of the page that the hardware writes to: the number of the fence, and the read pointer.
const STATUS_BYTES: usize = 4096;
pub(super) const STATUS_FENCE: u64 = 0;
const STATUS_RPTR: u64 = 64;
/// Largest ring that is kept for the next queue, bytes.
const MOST_KEPT: u64 = 1 << 20;

/// A ring, and the page that the hardware writes its progress to.
pub(crate) struct RingMemory {
    pub(super) size: RingSize,
    // The GPU loses the memory before it is freed.
    ring_map: KernelMapping,
    status_map: KernelMapping,
    pub(super) ring: Arc<SystemPages>,
    pub(super) status: Arc<SystemPages>,
    _share: SystemShare,
}

impl RingMemory {
    /// Allocates a ring of `size`, which counts as the process's memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOSPC`.
    fn new(gpu: &GpuMemory, vm: &Arc<Vm>, size: RingSize) -> Result<Self> {
        let bytes = size.bytes() + STATUS_BYTES as u64;
        let share = SystemShare::charge(vm.client(), MemoryRegion::Gtt, bytes)?;
        let pages = |bytes| {
            let pages = SystemPages::alloc(&gpu.hw.dev, bytes)?;
            Ok::<_, Error>(Arc::new(pages, GFP_KERNEL_ACCOUNT)?)
        };
        let (ring, status) = (pages(size.bytes() as usize)?, pages(STATUS_BYTES)?);
        Ok(Self {
            size,
            ring_map: vm.kernel_map(ring.clone(), PageAccess::READ)?,
            status_map: vm.kernel_map(status.clone(), PageAccess::READ_WRITE)?,
            ring,
            status,
            _share: share,
        })
    }

    /// The GPU address of the ring.
    pub(super) fn ring_address(&self) -> u64 {
        self.ring_map.va()
    }

    /// The GPU address to which the hardware writes its read pointer.
    pub(super) fn read_address(&self) -> u64 {
        self.status_map.va() + STATUS_RPTR
    }

    /// The GPU address to which the number of the fence is written.
    pub(super) fn fence_address(&self) -> u64 {
        self.status_map.va() + STATUS_FENCE
    }

    /// Writes `dwords` at byte count `at`; returns the byte count after them. Allocates nothing.
    ///
    /// # Errors
    ///
    /// `EINVAL` for more than the ring holds.
    pub(super) fn write(&self, at: u64, dwords: &[u32]) -> Result<u64> {
        let bytes = dwords.len() as u64 * 4;
        let split = self.size.split(at, bytes).ok_or(EINVAL)?;
        let (first, second) = dwords.split_at(split.first.dwords);
        self.ring.write32s(split.first.start as u64 * 4, first)?;
        self.ring.write32s(0, second)?;
        Ok(at + bytes)
    }
}

/// The memory of a queue, while the queue exists. Dropped once the hardware has let go of the
/// queue.
pub(super) struct RingLease {
    memory: Arc<RingMemory>,
    spare: Arc<SpareMemory<RingMemory>>,
}

impl RingLease {
    /// Returns memory for a queue that runs in `vm`: the one in `spare` if it fits, or else as
    /// [`RingMemory::new`].
    pub(super) fn new(
        gpu: &GpuMemory,
        vm: &Arc<Vm>,
        spare: &Arc<SpareMemory<RingMemory>>,
        size: RingSize,
    ) -> Result<Self> {
        let memory = match spare.get(|memory| memory.size == size) {
            Some(memory) => {
                // Fence numbers start again from 0.
                memory.status.write64(STATUS_FENCE, 0)?;
                memory.status.write64(STATUS_RPTR, 0)?;
                memory
            }
            None => Arc::new(RingMemory::new(gpu, vm, size)?, GFP_KERNEL_ACCOUNT)?,
        };
        Ok(Self {
            memory,
            spare: spare.clone(),
        })
    }
}

impl Deref for RingLease {
    type Target = RingMemory;

    fn deref(&self) -> &RingMemory {
        &self.memory
    }
}

impl Drop for RingLease {
    fn drop(&mut self) {
        if self.memory.size.bytes() <= MOST_KEPT {
            self.spare.put(&self.memory);
        }
    }
}
