// SPDX-License-Identifier: GPL-2.0
//! System memory of the driver's own, mapped for a device.

pub(crate) use super::{dma_map::DmaRun, page_list::PageList};

use super::{dma_map::DmaMap, task};
use crate::ffi;
use core::{ops::Deref, ptr::NonNull};
use kernel::{
    device::Device,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{AtomicFlag, Relaxed},
        Arc,
    },
};

/// Log2 of the pages in the largest piece asked of the page allocator: the GPU's large page.
const MAX_ORDER: u32 = 9;

/// Pages from the page allocator, in pieces of `1 << order` pages; freed when dropped.
struct OwnedPages {
    list: PageList,
    /// The pieces in the order of the list: the first page, and the order.
    pieces: KVVec<(NonNull<ffi::page>, u8)>,
    /// They are never freed.
    kept: AtomicFlag,
}

// SAFETY: The pieces are the list's pages, which it may share; they are freed by whoever has the last of it.
unsafe impl Send for OwnedPages {}
// SAFETY: As above; the pieces do not change once all are there.
unsafe impl Sync for OwnedPages {}

impl OwnedPages {
    fn alloc(pages: usize, zeroed: bool) -> Result<Self> {
        let mut owned = Self {
            list: PageList::with_capacity(pages, true)?,
            pieces: KVVec::new(),
            kept: AtomicFlag::new(false),
        };
        let mut limit = MAX_ORDER;
        let mut left = pages;
        while left > 0 {
            if task::is_killed() {
                return Err(EINTR);
            }
            let order = limit.min(left.ilog2());
            // The place for it first, so that a piece is never without an owner.
            owned.pieces.reserve(1, GFP_KERNEL_ACCOUNT)?;
            match alloc(order, zeroed) {
                Some(first) => {
                    owned
                        .pieces
                        .push((first, order as u8), GFP_KERNEL_ACCOUNT)?;
                    // SAFETY: The piece has `1 << order` pages, which have addresses and are freed with
                    // `owned`. There was room for all pages from the start, so this does not fail.
                    unsafe { owned.list.push_piece(first, 1 << order)? };
                    left -= 1 << order;
                }
                // Memory is in pieces; larger ones will not come back while this goes on.
                None => limit = order.checked_sub(1).ok_or(ENOMEM)?,
            }
        }
        Ok(owned)
    }
}

/// `1 << order` pages in a row. A buffer is not worth another process's life: single pages are asked for
/// with some insistence, but never by way of the OOM killer; larger ones only if they are to be had easily.
fn alloc(order: u32, zeroed: bool) -> Option<NonNull<ffi::page>> {
    let effort = if order > 0 {
        ffi::__GFP_NORETRY
    } else {
        ffi::__GFP_RETRY_MAYFAIL
    };
    // What is not zeroed is for what is moved, which may be another's than the caller's: a share was taken for that.
    let kind = if zeroed {
        ffi::__GFP_ZERO | ffi::__GFP_ACCOUNT
    } else {
        0
    };
    let gfp = ffi::GFP_KERNEL | ffi::__GFP_NOWARN | effort | kind;
    // SAFETY: May be called wherever sleeping is allowed.
    NonNull::new(unsafe { ffi::alloc_pages(gfp, order) })
}

impl Drop for OwnedPages {
    fn drop(&mut self) {
        if self.kept.load(Relaxed) {
            return;
        }
        for &(first, order) in &self.pieces {
            // SAFETY: The piece came from `alloc_pages` with this order, and nothing
            // uses it any more.
            unsafe { ffi::__free_pages(first.as_ptr(), u32::from(order)) };
        }
    }
}

/// System memory that a device reaches too. Its accessors are those of [`PageList`].
pub(crate) struct SystemPages {
    // The device loses the pages before they are freed.
    dma: DmaMap,
    owned: Arc<OwnedPages>,
}

impl SystemPages {
    /// Allocates `size` bytes, rounded up to pages and zeroed, for `dev`, which must be bound; 2 MiB pieces as far
    /// as there are any. They count as the caller's cgroup's. `EINVAL` for nothing, `ENOMEM`, `EINTR` when the caller is killed; see [`DmaMap::new`] for the rest.
    pub(crate) fn alloc(dev: &ARef<Device>, size: usize) -> Result<Self> {
        Self::make(dev, size, true)
    }

    /// As [`SystemPages::alloc`], with whatever was in the memory before. The caller overwrites all of it before
    /// anybody sees it.
    pub(crate) fn alloc_dirty(dev: &ARef<Device>, size: usize) -> Result<Self> {
        Self::make(dev, size, false)
    }

    fn make(dev: &ARef<Device>, size: usize, zeroed: bool) -> Result<Self> {
        if size == 0 {
            return Err(EINVAL);
        }
        let owned = OwnedPages::alloc(size.div_ceil(PAGE_SIZE), zeroed)?;
        let owned = Arc::new(owned, GFP_KERNEL_ACCOUNT)?;
        Self::mapped(dev, owned)
    }

    fn mapped(dev: &ARef<Device>, owned: Arc<OwnedPages>) -> Result<Self> {
        let pieces = owned.pieces.iter();
        let pieces = pieces.map(|&(first, order)| (first, 1 << order));
        Ok(Self {
            dma: DmaMap::new(dev, pieces)?,
            owned,
        })
    }

    /// The same memory as `dev` reaches it, another device, which must be bound. It is freed when neither has it any more. See
    /// [`DmaMap::new`].
    pub(crate) fn also_for(&self, dev: &ARef<Device>) -> Result<Self> {
        Self::mapped(dev, self.owned.clone())
    }

    /// The DMA addresses, in the order of the pages, adjacent ones merged.
    pub(crate) fn dma_runs(&self) -> &[DmaRun] {
        self.dma.runs()
    }

    /// Whether the device still reaches the pages.
    pub(crate) fn is_mapped(&self) -> bool {
        self.dma.is_mapped()
    }

    /// Takes the pages away from the device while it is still bound; the CPU keeps them. No page table may
    /// lead to them any more.
    pub(crate) fn unmap_dma(&self) {
        self.dma.unmap();
    }

    /// The device may still use the pages, whatever is done: they are nobody's again, also when this is dropped.
    pub(crate) fn leak(&self) {
        self.owned.kept.store(true, Relaxed);
    }
}

impl Deref for SystemPages {
    type Target = PageList;

    fn deref(&self) -> &PageList {
        &self.owned.list
    }
}
