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

/// Log2 of the number of pages in the largest piece requested from the page allocator: the GPU's
/// large page.
const MAX_ORDER: u32 = 9;

/// Pages from the page allocator, in pieces of `1 << order` pages; freed when dropped.
struct OwnedPages {
    list: PageList,
    /// The pieces in the order of the list: the first page, and the order.
    pieces: KVVec<(NonNull<ffi::page>, u8)>,
    /// If set, the pages are never freed.
    leaked: AtomicFlag,
}

// SAFETY: The pieces are the list's pages, which it may share; the last owner of the list frees
// them.
unsafe impl Send for OwnedPages {}
// SAFETY: As above; the pieces do not change once all are allocated.
unsafe impl Sync for OwnedPages {}

impl OwnedPages {
    fn alloc(pages: usize, zeroed: bool) -> Result<Self> {
        let mut owned = Self {
            list: PageList::with_capacity(pages, true)?,
            pieces: KVVec::new(),
            leaked: AtomicFlag::new(false),
        };
        let mut limit = MAX_ORDER;
        let mut remaining = pages;
        while remaining > 0 {
            if task::is_killed() {
                return Err(EINTR);
            }
            let order = limit.min(remaining.ilog2());
            // Reserve the entry first, so that a piece is never without an owner.
            owned.pieces.reserve(1, GFP_KERNEL_ACCOUNT)?;
            match alloc(order, zeroed) {
                Some(first) => {
                    owned
                        .pieces
                        .push((first, order as u8), GFP_KERNEL_ACCOUNT)?;
                    // SAFETY: The piece has `1 << order` pages, which have addresses and are freed
                    // with `owned`. There was room for all pages from the start, so this does not
                    // fail.
                    unsafe { owned.list.push_piece(first, 1 << order)? };
                    remaining -= 1 << order;
                }
                // Memory is fragmented; larger pieces will not become free while this goes on.
                None => limit = order.checked_sub(1).ok_or(ENOMEM)?,
            }
        }
        Ok(owned)
    }
}

/// Allocates `1 << order` consecutive pages. A buffer is not worth killing another process: single
/// pages are requested with some effort, but never through the OOM killer, and larger ones only if
/// they are easily available.
fn alloc(order: u32, zeroed: bool) -> Option<NonNull<ffi::page>> {
    let effort = if order > 0 {
        ffi::__GFP_NORETRY
    } else {
        ffi::__GFP_RETRY_MAYFAIL
    };
    // Memory that is not zeroed is the destination of a move, whose data may belong to another
    // process than the caller. It is not charged to the caller: a share was taken for it.
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
        if self.leaked.load(Relaxed) {
            return;
        }
        for &(first, order) in &self.pieces {
            // SAFETY: The piece came from `alloc_pages` with this order, and is no longer used.
            unsafe { ffi::__free_pages(first.as_ptr(), u32::from(order)) };
        }
    }
}

/// System memory that a device reaches too. Its accessors are those of [`PageList`].
pub(crate) struct SystemPages {
    // First: the device loses the pages before they are freed.
    dma: DmaMap,
    owned: Arc<OwnedPages>,
}

impl SystemPages {
    /// Allocates `size` bytes, rounded up to pages and zeroed, for `dev`, which must be bound; in 2
    /// MiB pieces as far as there are any. They are charged to the caller's cgroup.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `size` is 0; `ENOMEM` if there is no memory; `EINTR` if the caller is killed;
    /// the errors of [`DmaMap::new`].
    pub(crate) fn alloc(dev: &ARef<Device>, size: usize) -> Result<Self> {
        Self::make(dev, size, true)
    }

    /// As [`SystemPages::alloc`], but the memory keeps its previous content. The caller overwrites
    /// all of it before it becomes visible to others.
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

    /// The same memory as another device `dev`, which must be bound, reaches it. The memory is
    /// freed once both mappings are dropped.
    ///
    /// # Errors
    ///
    /// See [`DmaMap::new`].
    pub(crate) fn also_for(&self, dev: &ARef<Device>) -> Result<Self> {
        Self::mapped(dev, self.owned.clone())
    }

    /// The DMA addresses, in the order of the pages; adjacent ones are merged.
    pub(crate) fn dma_runs(&self) -> &[DmaRun] {
        self.dma.runs()
    }

    /// Whether the device still reaches the pages.
    pub(crate) fn is_mapped(&self) -> bool {
        self.dma.is_mapped()
    }

    /// Takes the pages away from the device while it is still bound; the CPU keeps them. No page
    /// table may point to them any more.
    pub(crate) fn unmap_dma(&self) {
        self.dma.unmap();
    }

    /// Keeps the pages allocated for ever, also after the drop, because the device may still use
    /// them whatever happens.
    pub(crate) fn leak(&self) {
        self.owned.leaked.store(true, Relaxed);
    }
}

impl Deref for SystemPages {
    type Target = PageList;

    fn deref(&self) -> &PageList {
        &self.owned.list
    }
}
