// SPDX-License-Identifier: GPL-2.0
//! The kernel's buddy allocator for device memory (`gpu_buddy`), which tracks whether free memory
//! is cleared. The kernel crate's own wrapper cannot return memory as cleared.

use kernel::container_of;
use kernel::error::to_result;
use kernel::new_mutex;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};
use kernel::types::Opaque;

use crate::ffi;

/// Where an allocation looks first, and which memory it prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuddySearch {
    /// From the end; prefers cleared memory.
    Cleared,
    /// From the end; prefers memory that is not cleared.
    Dirty,
    /// From the start. The kernel walks through all allocated blocks there, so this is for rare
    /// allocations.
    FromStart,
}

/// Allocates pages out of `size` bytes from `start` on. Has a lock of its own, a mutex.
#[pin_data(PinnedDrop)]
pub(crate) struct BuddyAllocator {
    #[pin]
    raw: Opaque<ffi::gpu_buddy>,
    #[pin]
    lock: Mutex<()>,
    start: u64,
    size: u64,
}

// SAFETY: The allocator is memory that any thread may use.
unsafe impl Send for BuddyAllocator {}
// SAFETY: All use happens under the lock.
unsafe impl Sync for BuddyAllocator {}

impl BuddyAllocator {
    /// An allocator of `size` bytes from `start` on, rounded down to whole pages. All of it is free
    /// and none of it cleared. Alignment is relative to `start`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `size` is less than a page; `ENOMEM` if there is no memory.
    pub(crate) fn new(start: u64, size: u64) -> Result<Arc<Self>> {
        let page = PAGE_SIZE as u64;
        let size = size / page * page;
        Arc::pin_init(
            try_pin_init!(Self {
                raw <- Opaque::try_ffi_init(|raw: *mut ffi::gpu_buddy| {
                    // SAFETY: The memory is valid for initialization, and does not move.
                    to_result(unsafe { ffi::gpu_buddy_init(raw, size, page) })
                }),
                lock <- new_mutex!((), "BuddyAllocator::lock"),
                start,
                size,
            }),
            GFP_KERNEL,
        )
    }

    /// The number of free bytes, and how many of those are not cleared.
    pub(crate) fn free(&self) -> (u64, u64) {
        let _guard = self.lock.lock();
        // SAFETY: Initialized; the lock is held.
        let (all, cleared) = unsafe {
            let raw = self.raw.get();
            ((*raw).avail, (*raw).clear_avail)
        };
        (all, all.saturating_sub(cleared))
    }

    /// Allocates `size` bytes, a multiple of `align`, which is a power of two and at least a page.
    /// The memory is one block if `contiguous`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if there is no such memory.
    pub(crate) fn alloc(
        self: &Arc<Self>,
        search: BuddySearch,
        size: u64,
        align: u64,
        contiguous: bool,
    ) -> Result<BuddyBlocks> {
        let mut flags = match search {
            BuddySearch::Cleared => {
                ffi::GPU_BUDDY_TOPDOWN_ALLOCATION | ffi::GPU_BUDDY_CLEAR_ALLOCATION
            }
            BuddySearch::Dirty => ffi::GPU_BUDDY_TOPDOWN_ALLOCATION,
            BuddySearch::FromStart => {
                ffi::GPU_BUDDY_RANGE_ALLOCATION | ffi::GPU_BUDDY_CLEAR_ALLOCATION
            }
        };
        if contiguous {
            flags |= ffi::GPU_BUDDY_CONTIGUOUS_ALLOCATION;
        }
        let list = KBox::new(Opaque::<ffi::list_head>::uninit(), GFP_KERNEL)?;
        let head = list.get();
        let guard = self.lock.lock();
        // SAFETY: The head stays in its box, and is made an empty list before use. The allocator is
        // initialized, and its lock is held.
        let done = to_result(unsafe {
            (*head).next = head;
            (*head).prev = head;
            ffi::gpu_buddy_alloc_blocks(self.raw.get(), 0, self.size, size, align, head, flags)
        });
        drop(guard);
        done.map_err(|_| ENOMEM)?;
        Ok(BuddyBlocks {
            list,
            cleared: false,
            buddy: self.clone(),
        })
    }
}

#[pinned_drop]
impl PinnedDrop for BuddyAllocator {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Initialized, and finished only here. Blocks hold a reference to the allocator, so
        // none is left.
        unsafe { ffi::gpu_buddy_fini(self.raw.get()) };
    }
}

/// One block of an allocation.
pub(crate) struct BuddyBlock {
    /// The first address.
    pub(crate) start: u64,
    /// The size in bytes.
    pub(crate) size: u64,
    /// Whether the block was cleared when it was allocated.
    pub(crate) cleared: bool,
}

/// An allocation, as a list of blocks; freed when dropped.
pub(crate) struct BuddyBlocks {
    list: KBox<Opaque<ffi::list_head>>,
    cleared: bool,
    buddy: Arc<BuddyAllocator>,
}

// SAFETY: The list belongs to the owner alone, on whichever thread.
unsafe impl Send for BuddyBlocks {}
// SAFETY: It does not change while it is shared.
unsafe impl Sync for BuddyBlocks {}

impl BuddyBlocks {
    /// The blocks, in the order of the memory.
    pub(crate) fn iter(&self) -> impl Iterator<Item = BuddyBlock> + '_ {
        let first = self.buddy.start;
        let head = self.list.get();
        // SAFETY: The list is initialized, and does not change during the walk.
        let mut at = unsafe { (*head).next };
        core::iter::from_fn(move || {
            if core::ptr::eq(at, head) {
                return None;
            }
            // SAFETY: Every entry but the head is the link of an allocated block, which stays valid
            // until all blocks are freed.
            unsafe {
                let block: *mut ffi::gpu_buddy_block =
                    container_of!(at, ffi::gpu_buddy_block, __bindgen_anon_1.link);
                at = (*at).next;
                Some(BuddyBlock {
                    start: first + ffi::gpu_buddy_block_offset(block),
                    size: (PAGE_SIZE as u64) << ffi::gpu_buddy_block_order(block),
                    cleared: ffi::rkfd_gpu_buddy_block_is_clear(block),
                })
            }
        })
    }

    /// Marks all of it as cleared; the allocator keeps that information when the memory is freed.
    pub(crate) fn set_cleared(&mut self) {
        self.cleared = true;
    }
}

impl Drop for BuddyBlocks {
    fn drop(&mut self) {
        let flags = if self.cleared {
            ffi::GPU_BUDDY_CLEARED as u32
        } else {
            0
        };
        let _guard = self.buddy.lock.lock();
        // SAFETY: The blocks came from this allocator, whose lock is held, and are no longer used.
        unsafe { ffi::gpu_buddy_free_list(self.buddy.raw.get(), self.list.get(), flags) };
    }
}
