// SPDX-License-Identifier: GPL-2.0
//! Device memory that holds pages of processes which the CPU cannot reach
//! (`MEMORY_DEVICE_PRIVATE`). Pages move in from system memory. They move out again when the CPU
//! touches them, or when the device memory is needed for something else.
//!
//! The kernel moves the pages (`migrate_vma_*`, `migrate_device_*`): it removes them from the page
//! tables, after notifiers have removed them from devices, and puts other pages in their place.
//! This module provides those other pages, and copies the content. A huge page is split on its way
//! in. Some pages of a range may stay where they are: pages with additional references, and pages
//! that are not the process's own.

mod block;
mod moving;

use super::{dma_map::DmaRun, series::THIS_MODULE, workqueue};
use crate::ffi;
use block::{PageBlock, PageBlocks};
use core::{mem::ManuallyDrop, ops::Range, ptr::NonNull};
use kernel::{
    device::Device,
    error::from_err_ptr,
    mm::virt::VmaRef,
    new_mutex, new_work,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Acquire, Atomic, Relaxed, Release},
        Arc, Mutex, MutexGuard,
    },
    time::{delay::fsleep, Delta},
    types::Opaque,
    workqueue::{impl_has_work, Work, WorkItem},
};

/// The most pages that move together, a window: those of one large page.
const WINDOW_PAGES: usize = 512;
/// The size of a window in bytes. A window does not cross a multiple of it.
pub(super) const WINDOW: usize = WINDOW_PAGES * PAGE_SIZE;

/// How often pages that are briefly referenced elsewhere are retried, and the pause in between:
/// three seconds in all.
const TRIES: u32 = 300;
const PAUSE: Delta = Delta::from_millis(10);

/// Error of a failed copy.
pub(crate) struct CopyFailed {
    /// The cause.
    pub(crate) error: Error,
    /// Whether the device may still write to the destination.
    pub(crate) under_way: bool,
}

impl From<Error> for CopyFailed {
    fn from(error: Error) -> Self {
        Self {
            error,
            under_way: false,
        }
    }
}

/// The allocator and the copy engine of a device's memory. All methods may sleep, for a bounded
/// time. They are called with pages locked, so they must not wait for a process.
pub(crate) trait MemoryStore: Send + Sync {
    /// Allocates memory for `pages` pages, if there is some that has no other claim on it; cleared
    /// if `zeroed`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is none; errors of clearing it.
    fn alloc(&self, pages: usize, zeroed: bool) -> Result<Arc<dyn DeviceSpace>>;

    /// Copies the pages at `places` (bytes from the first byte of the device's memory) to `runs`,
    /// in that order. When this returns, nothing writes there any more, unless the error says so.
    fn copy_out(&self, places: &[u64], runs: &[DmaRun]) -> Result<(), CopyFailed>;
}

/// An allocation of device memory; freed when dropped, which may sleep.
pub(crate) trait DeviceSpace: Send + Sync {
    /// The place of a page of it, in bytes from the first byte of the device's memory.
    fn place(&self, page: usize) -> Option<u64>;

    /// Copies `runs` to the pages at `places`, in that order. As for [`MemoryStore`].
    fn copy_in(&self, runs: &[DmaRun], places: &[u64]) -> Result;
}

/// Receives notifications about pages that move out without a request of the process. Pages may be
/// locked and the mmap lock held, so the methods must not wait.
pub(crate) trait MigrationObserver: Send + Sync {
    /// The pages that moved in from `addresses` are about to move out, as far as they are still in
    /// the device.
    fn notify_leaving(&self, addresses: &Range<usize>, why: MigrationCause);

    /// The pages have moved out, or stay.
    fn notify_left(&self, addresses: &Range<usize>, why: MigrationCause, result: Result);
}

/// The private pages of a device. They must all have moved out before this is dropped: see
/// [`DeviceMemory::close`].
#[repr(C)]
#[pin_data(PinnedDrop)]
pub(crate) struct DeviceMemory {
    /// First: the kernel identifies this by the address of its `dev_pagemap`.
    #[pin]
    pagemap: Opaque<ffi::dev_pagemap>,
    /// The first page frame, and the number of frames.
    first: usize,
    count: usize,
    dev: ARef<Device>,
    store: KBox<dyn MemoryStore>,
    /// Whether pages may move in. Held during a move, inside the mmap lock, which a process may
    /// keep from others.
    #[pin]
    open: Mutex<bool>,
    #[pin]
    blocks: PageBlocks,
    /// How many threads are about to schedule the work, see [`DeviceMemory::put`].
    putting: Atomic<usize>,
    /// Frees blocks of which no page is left.
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for DeviceMemory { self.work }
}

// SAFETY: The kernel's structure has its own locks, and so have all other fields.
unsafe impl Send for DeviceMemory {}
// SAFETY: As above.
unsafe impl Sync for DeviceMemory {}

/// The kernel's callbacks, valid for as long as the module is loaded.
static TABLE: ffi::dev_pagemap_ops = {
    let mut table: ffi::dev_pagemap_ops = pin_init::zeroed();
    table.folio_free = Some(DeviceMemory::freed);
    table.migrate_to_ram = Some(DeviceMemory::touched);
    table
};

/// Why pages move out to system memory.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum MigrationCause {
    /// The CPU has touched one of them.
    Touched,
    /// They are wanted in system memory, or the device memory is needed for something else.
    Asked,
    /// The device is being removed, whatever happens to their content.
    Gone,
}

impl DeviceMemory {
    /// Creates page structures for `size` bytes of the memory of `dev`, a multiple of the large
    /// page size. The structures take 1/64 of that size.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; `ERANGE` or others if there are no addresses for it.
    pub(crate) fn new(
        dev: &ARef<Device>,
        size: usize,
        store: KBox<dyn MemoryStore>,
    ) -> Result<Arc<Self>> {
        // SAFETY: The kernel's tree of resources has its own lock.
        let resource = from_err_ptr(unsafe {
            ffi::request_free_mem_region(&raw mut ffi::iomem_resource, size, c"rkfd".as_char_ptr())
        })?;
        // SAFETY: It was just made, and does not change until it is released.
        let (start, end) = unsafe { ((*resource).start, (*resource).end) };
        let release = || {
            // SAFETY: Requested above, and released once.
            unsafe { ffi::__release_region(&raw mut ffi::iomem_resource, start, end - start + 1) }
        };
        Arc::pin_init(
            try_pin_init!(Self {
                pagemap <- Opaque::try_ffi_init(|raw: *mut ffi::dev_pagemap| {
                    // SAFETY: The memory is valid for the structure, and does not move. Zero is the
                    // right value of all fields that are not set.
                    let mapped = from_err_ptr(unsafe {
                        raw.write(ffi::dev_pagemap::default());
                        (*raw).type_ = ffi::memory_type_MEMORY_DEVICE_PRIVATE;
                        (*raw).ops = &raw const TABLE;
                        (*raw).owner = raw.cast();
                        (*raw).nr_range = 1;
                        *(*raw).__bindgen_anon_1.range.as_mut() = ffi::range { start, end };
                        ffi::memremap_pages(raw, ffi::NUMA_NO_NODE)
                    });
                    mapped.map(drop)
                }),
                first: (start as usize) / PAGE_SIZE,
                count: size / PAGE_SIZE,
                dev: dev.clone(),
                store,
                open <- new_mutex!(true, "DeviceMemory::open"),
                blocks <- PageBlocks::new(),
                putting: Atomic::new(0),
                work <- new_work!("DeviceMemory::work"),
            }),
            GFP_KERNEL,
        )
        .inspect_err(|_| release())
    }

    /// The device memory of `pagemap`.
    ///
    /// # Safety
    ///
    /// `pagemap` is that of a `DeviceMemory` of which a page is in use during `'a`.
    unsafe fn of<'a>(pagemap: *mut ffi::dev_pagemap) -> &'a Self {
        // SAFETY: By this function's contract; the kernel's structure is the first field.
        unsafe { &*pagemap.cast::<Self>() }
    }

    /// The block of `page`.
    ///
    /// # Safety
    ///
    /// `page` is a page of such memory, and in use during `'a`.
    unsafe fn block_of<'a>(page: NonNull<ffi::page>) -> Option<&'a PageBlock> {
        // SAFETY: By this function's contract: the page was initialized, and until it is freed its
        // block stays in the list.
        unsafe {
            ffi::rkfd_device_page_data(page.as_ptr())
                .cast::<PageBlock>()
                .as_ref()
        }
    }

    /// The tag that distinguishes its pages from others.
    pub(super) fn owner(&self) -> *mut core::ffi::c_void {
        self.pagemap.get().cast()
    }

    /// The place of `page` in the device's memory in bytes, if it is a page of it.
    pub(super) fn place(&self, page: NonNull<ffi::page>) -> Option<u64> {
        // SAFETY: The frame number of a page follows from its address alone.
        let frame = unsafe { ffi::rkfd_page_to_pfn(page.as_ptr()) };
        let page = frame.checked_sub(self.first)?;
        (page < self.count).then(|| (page * PAGE_SIZE) as u64)
    }

    /// The page at byte `place` of the device's memory.
    pub(super) fn page(&self, place: u64) -> Result<NonNull<ffi::page>> {
        let page = place as usize / PAGE_SIZE;
        if page >= self.count {
            return Err(EINVAL);
        }
        // SAFETY: Each of the frames has a page structure.
        NonNull::new(unsafe { ffi::rkfd_pfn_to_page(self.first + page) }).ok_or(EINVAL)
    }

    /// Whether no page of it is in use.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Allows pages to move in as long as the returned guard lives.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is about to be removed.
    pub(super) fn open(&self) -> Result<MutexGuard<'_, bool>> {
        let open = self.open.lock();
        if *open {
            Ok(open)
        } else {
            Err(ENODEV)
        }
    }

    /// Moves pages out to system memory, oldest block first, until `enough` holds or no page is
    /// left that can move. May sleep.
    pub(crate) fn evict(&self, enough: impl Fn() -> bool) {
        self.evict_all(enough, MigrationCause::Asked);
    }

    fn evict_all(&self, enough: impl Fn() -> bool, why: MigrationCause) {
        let mut next = 0;
        while !enough() {
            let Some(block) = self.blocks.at_or_after(next) else {
                return;
            };
            next = block.number() + 1;
            // Pages that stay are referenced elsewhere for a moment.
            let _ = self.move_out_block(&block, why);
            self.release();
        }
    }

    /// Stops all moves in, and moves all pages out to system memory; pages that cannot be copied
    /// become zeroes. Returns whether all pages have moved. If not, the memory is kept for good,
    /// and with it the module. Takes a bounded time; may sleep.
    pub(crate) fn close(self: Arc<Self>) -> bool {
        *self.open.lock() = false;
        for _ in 0..TRIES {
            self.evict_all(|| false, MigrationCause::Gone);
            self.release();
            // A thread that has added a block to the free ones is counted before that.
            if self.is_empty() && self.putting.load(Acquire) == 0 {
                return true;
            }
            fsleep(PAUSE);
        }
        // SAFETY: This is code of the module.
        unsafe { ffi::__module_get(THIS_MODULE.as_ptr()) };
        core::mem::forget(self);
        false
    }

    /// Frees the blocks of which no page is left. May sleep.
    fn release(&self) {
        while let Some(block) = self.blocks.take_free() {
            block.release();
        }
    }

    /// Drops one count of `block`: that of a page that is freed, or that of the block's maker. Any
    /// context.
    ///
    /// # Safety
    ///
    /// The block is one of this memory's, and the page or the maker was counted.
    unsafe fn put(&self, block: NonNull<PageBlock>) {
        // SAFETY: A block with a nonzero count is in the list.
        if unsafe { block.as_ref() }.put() {
            // Once the block is in the list, `release` may take it, and then nothing but this count
            // keeps `close` from dropping its reference. So it is not the reference below that is
            // dropped last here: that would wait for the page that is just being freed.
            self.putting.add(1, Relaxed);
            self.blocks.add_free(block);
            // SAFETY: This is in an `Arc`, see `new`, which has a reference until `close` returns,
            // and that waits for the count. The reference is not dropped here.
            let this = ManuallyDrop::new(unsafe { Arc::from_raw(core::ptr::from_ref(self)) });
            // If it is queued already, that run sees the block.
            let _ = workqueue::background().enqueue(Arc::clone(&this));
            self.putting.fetch_sub(1, Release);
        }
    }

    /// `dev_pagemap_ops::folio_free`: the last reference to a page is gone.
    ///
    /// # Safety
    ///
    /// The kernel calls it once for each page that was initialized.
    unsafe extern "C" fn freed(folio: *mut ffi::folio) {
        // SAFETY: A folio begins with its first page. It is a page of this memory, which is kept
        // until the kernel has dropped the page's reference to the map.
        let (memory, block) = unsafe {
            let page = folio.cast::<ffi::page>();
            (
                Self::of(ffi::rkfd_page_pgmap(page)),
                ffi::rkfd_device_folio_data(folio),
            )
        };
        if let Some(block) = NonNull::new(block.cast()) {
            // SAFETY: The page was counted when it was initialized.
            unsafe { memory.put(block) };
        }
    }

    /// `dev_pagemap_ops::migrate_to_ram`: the CPU has touched a page. The other pages of its window
    /// move with it.
    ///
    /// # Safety
    ///
    /// The kernel calls it for a page that is locked and referenced, with the mmap lock held.
    unsafe extern "C" fn touched(fault: *mut ffi::vm_fault) -> ffi::vm_fault_t {
        // SAFETY: By this function's contract.
        let (page, raw, address) = unsafe {
            let access = &(*fault).__bindgen_anon_1;
            ((*fault).page, access.vma, access.address)
        };
        let Some(page) = NonNull::new(page) else {
            return ffi::vm_fault_reason_VM_FAULT_SIGBUS;
        };
        // SAFETY: As above.
        let (memory, vma) = unsafe {
            (
                Self::of(ffi::rkfd_page_pgmap(page.as_ptr())),
                VmaRef::from_raw(raw),
            )
        };
        let window = address / WINDOW * WINDOW;
        let (start, end) = (vma.start().max(window), vma.end().min(window + WINDOW));
        // SAFETY: The page is referenced.
        let block = unsafe { Self::block_of(page) };
        let observer = block.map(|block| block.origin().observer.clone());
        if let Some(observer) = &observer {
            observer.notify_leaving(&(start..end), MigrationCause::Touched);
        }
        // SAFETY: As above; the addresses are the VMA's.
        let moved = unsafe { memory.move_out_of(raw, start, end, Some(page)) };
        if let Some(observer) = &observer {
            observer.notify_left(&(start..end), MigrationCause::Touched, moved.map(drop));
        }
        match moved {
            // If the page has not moved, it is in use elsewhere: the CPU faults again.
            Ok(_) => 0,
            Err(error) if error == ENOMEM => ffi::vm_fault_reason_VM_FAULT_OOM,
            Err(_) => ffi::vm_fault_reason_VM_FAULT_SIGBUS,
        }
    }

    /// Withholds the memory of `page` for good, because the device may go on using it whatever
    /// happens: it is never allocated again. `page` is a page of this memory that is in use at this
    /// moment. Any context.
    pub(super) fn leak(&self, page: NonNull<ffi::page>) {
        // SAFETY: The page is in use.
        if let Some(block) = unsafe { Self::block_of(page) } {
            block.count();
        }
    }
}

impl WorkItem for DeviceMemory {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.release();
    }
}

#[pinned_drop]
impl PinnedDrop for DeviceMemory {
    fn drop(self: Pin<&mut Self>) {
        let raw = self.pagemap.get();
        // SAFETY: Mapped and requested by `new`. No page of it is in use, see `close`; for pages
        // that were, the kernel waits for the last reference to the map.
        unsafe {
            let &ffi::range { start, end } = (*raw).__bindgen_anon_1.range.as_ref();
            ffi::memunmap_pages(raw);
            ffi::__release_region(&raw mut ffi::iomem_resource, start, end - start + 1);
        }
    }
}
