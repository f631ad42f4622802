// SPDX-License-Identifier: GPL-2.0
//! Memory of a device that processes have as their own, with pages that the CPU cannot reach (`MEMORY_DEVICE_PRIVATE`): what they
//! have in system memory is brought there, and comes back when somebody touches it or the memory is wanted for something else.
//!
//! The kernel moves the pages (`migrate_vma_*`, `migrate_device_*`): it takes them from page tables, after notifiers have taken them
//! from devices, and puts others in their place. Here these others are found, and what was in the first ones is copied. A huge page is
//! split on its way in. Some of a range may stay where it is: what somebody holds, and what is not the process's own.

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
    sync::{aref::ARef, Arc, Mutex, MutexGuard},
    time::{delay::fsleep, Delta},
    types::Opaque,
    workqueue::{impl_has_work, Work, WorkItem},
};

/// Pages that move together at most, a large page's.
const TOGETHER: usize = 512;
/// Their bytes: they do not reach across a multiple of it.
pub(super) const WINDOW: usize = TOGETHER * PAGE_SIZE;

/// How often, and how long in between, pages are waited for that somebody holds for a moment: three seconds in all.
const TRIES: u32 = 300;
const PAUSE: Delta = Delta::from_millis(10);

/// A copy has failed.
pub(crate) struct CopyFailed {
    /// Why.
    pub(crate) error: Error,
    /// The device may still write to where it was to go.
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

/// A device's memory, and who copies. All of it sleeps, for a bounded time; called with pages locked, so that it waits for no process.
pub(crate) trait MemoryStore: Send + Sync {
    /// Memory for so many pages, if there is any that nobody else wants; `zeroed` if that is asked. `ENOMEM`, and what clearing it may
    /// fail with.
    fn alloc(&self, pages: usize, zeroed: bool) -> Result<Arc<dyn DeviceSpace>>;

    /// Copies pages, which are at `places` (bytes from the first byte of the device's memory), to `runs`, in that order. Nothing is written
    /// there any more at the return, unless what is returned says so.
    fn copy_out(&self, places: &[u64], runs: &[DmaRun]) -> Result<(), CopyFailed>;
}

/// Memory of a device that was taken; free again when dropped, where sleeping is allowed.
pub(crate) trait DeviceSpace: Send + Sync {
    /// Where a page of it is, in bytes from the first byte of the device's memory.
    fn place(&self, page: usize) -> Option<u64>;

    /// Copies `runs` to the pages at `places`, in that order. As [`MemoryStore`].
    fn copy_in(&self, runs: &[DmaRun], places: &[u64]) -> Result;
}

/// Hears of pages that leave without anybody having asked for that. Pages may be locked, and the mmap lock held: it waits for nothing.
pub(crate) trait MigrationObserver: Send + Sync {
    /// What came in from `addresses` is about to leave, as far as it is still there.
    fn notify_leaving(&self, addresses: &Range<usize>, why: MigrationCause);

    /// It has, or stays.
    fn left(&self, addresses: &Range<usize>, why: MigrationCause, result: Result);
}

/// The memory of a device. It goes when this is dropped, for which nobody may have any of it: see [`DeviceMemory::close`].
#[repr(C)]
#[pin_data(PinnedDrop)]
pub(crate) struct DeviceMemory {
    /// First: the kernel knows this by it.
    #[pin]
    pagemap: Opaque<ffi::dev_pagemap>,
    /// The first page frame, and how many there are.
    first: usize,
    count: usize,
    dev: ARef<Device>,
    store: KBox<dyn MemoryStore>,
    /// Whether something may be brought in. Held while something is, inside the mmap lock, which a process may keep from others.
    #[pin]
    open: Mutex<bool>,
    #[pin]
    blocks: PageBlocks,
    /// Gives memory back that no page is left of.
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for DeviceMemory { self.work }
}

// SAFETY: The kernel's structure has its own locks, and so has everything else.
unsafe impl Send for DeviceMemory {}
// SAFETY: As above.
unsafe impl Sync for DeviceMemory {}

/// What the kernel calls, for as long as the module is there.
static TABLE: ffi::dev_pagemap_ops = {
    let mut table: ffi::dev_pagemap_ops = pin_init::zeroed();
    table.folio_free = Some(DeviceMemory::freed);
    table.migrate_to_ram = Some(DeviceMemory::touched);
    table
};

/// Why pages go to system memory.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum MigrationCause {
    /// The CPU has touched one.
    Touched,
    /// They are wanted there, or the memory for something else.
    Asked,
    /// The device goes, whatever becomes of their content.
    Gone,
}

impl DeviceMemory {
    /// Gives `size` bytes of the memory of `dev`, whole large pages, their page structures, which are 1/64 of that. `ENOMEM`; `ERANGE` or
    /// others when there are no addresses for it.
    pub(crate) fn new(
        dev: &ARef<Device>,
        size: usize,
        store: KBox<dyn MemoryStore>,
    ) -> Result<Arc<Self>> {
        // SAFETY: The kernel's tree of resources has its own lock.
        let resource = from_err_ptr(unsafe {
            ffi::request_free_mem_region(&raw mut ffi::iomem_resource, size, c"rkfd".as_char_ptr())
        })?;
        // SAFETY: It was just made, and stays as it is until it is released.
        let (start, end) = unsafe { ((*resource).start, (*resource).end) };
        let release = || {
            // SAFETY: Requested above, and released once.
            unsafe { ffi::__release_region(&raw mut ffi::iomem_resource, start, end - start + 1) }
        };
        Arc::pin_init(
            try_pin_init!(Self {
                pagemap <- Opaque::try_ffi_init(|raw: *mut ffi::dev_pagemap| {
                    // SAFETY: There is room for it, which does not move; all zeroes is what the fields that are not set are to be.
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
                work <- new_work!("DeviceMemory::work"),
            }),
            GFP_KERNEL,
        )
        .inspect_err(|_| release())
    }

    /// The memory that `pagemap` is of.
    ///
    /// # Safety
    ///
    /// It is one of these, and a page of it is in use meanwhile.
    unsafe fn of<'a>(pagemap: *mut ffi::dev_pagemap) -> &'a Self {
        // SAFETY: By this function's contract; the kernel's structure is at the start of it.
        unsafe { &*pagemap.cast::<Self>() }
    }

    /// The block that `page` is of.
    ///
    /// # Safety
    ///
    /// It is a page of such memory, and somebody's meanwhile.
    unsafe fn block_of<'a>(page: NonNull<ffi::page>) -> Option<&'a PageBlock> {
        // SAFETY: By this function's contract: the page has begun its life, and as long as it has not ended it its block is in the list.
        unsafe {
            ffi::rkfd_device_page_data(page.as_ptr())
                .cast::<PageBlock>()
                .as_ref()
        }
    }

    /// What tells its pages from those of others.
    pub(super) fn owner(&self) -> *mut core::ffi::c_void {
        self.pagemap.get().cast()
    }

    /// Where in the device's memory `page` is, in bytes, if it is one of it.
    pub(super) fn place(&self, page: NonNull<ffi::page>) -> Option<u64> {
        // SAFETY: The number of a page is found by its address alone.
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
        // SAFETY: There is a structure for each of the frames.
        NonNull::new(unsafe { ffi::rkfd_pfn_to_page(self.first + page) }).ok_or(EINVAL)
    }

    /// Whether nobody has any of it.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Something may be brought in as long as what is returned is there. ENODEV when the device is about to go.
    pub(super) fn open(&self) -> Result<MutexGuard<'_, bool>> {
        let open = self.open.lock();
        if *open {
            Ok(open)
        } else {
            Err(ENODEV)
        }
    }

    /// Moves what was brought in first to system memory, until `enough` is free or nothing is left that can move. Sleeps.
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
            // What stays is somebody's for a moment.
            let _ = self.move_out_block(&block, why);
            self.release();
        }
    }

    /// Nobody brings anything in any more, and all that there is comes to system memory; what cannot be copied comes as zeroes. Whether
    /// that is all: otherwise it is kept for good, and with it the module. Bounded; sleeps.
    pub(crate) fn close(self: Arc<Self>) -> bool {
        *self.open.lock() = false;
        for _ in 0..TRIES {
            self.evict_all(|| false, MigrationCause::Gone);
            self.release();
            if self.is_empty() {
                return true;
            }
            fsleep(PAUSE);
        }
        // SAFETY: This is code of the module.
        unsafe { ffi::__module_get(THIS_MODULE.as_ptr()) };
        core::mem::forget(self);
        false
    }

    /// Gives memory back of which no page is left. Sleeps.
    fn release(&self) {
        while let Some(block) = self.blocks.take_free() {
            block.release();
        }
    }

    /// A page of `block` is nobody's any more, or who has made the block is done with it. Any context.
    ///
    /// # Safety
    ///
    /// The block is one of this memory's, and the page, or who has made it, was counted.
    unsafe fn put(&self, block: NonNull<PageBlock>) {
        // SAFETY: As long as something is counted it is in the list.
        if unsafe { block.as_ref() }.put() {
            self.blocks.add_free(block);
            // SAFETY: This is in an `Arc`, see `new`, of which somebody has a reference while there is a block; it is not given back here.
            let this = ManuallyDrop::new(unsafe { Arc::from_raw(core::ptr::from_ref(self)) });
            // If it is queued already, that run sees the block.
            let _ = workqueue::background().enqueue(Arc::clone(&this));
        }
    }

    /// `dev_pagemap_ops::folio_free`: nobody has a page any more.
    ///
    /// # Safety
    ///
    /// The kernel calls it once for each page that has begun its life.
    unsafe extern "C" fn freed(folio: *mut ffi::folio) {
        // SAFETY: A folio begins with its first page. It is one of this memory's, which is kept until the kernel has put the page's
        // reference to the map.
        let (memory, block) = unsafe {
            let page = folio.cast::<ffi::page>();
            (
                Self::of(ffi::rkfd_page_pgmap(page)),
                ffi::rkfd_device_folio_data(folio),
            )
        };
        if let Some(block) = NonNull::new(block.cast()) {
            // SAFETY: The page was counted when it began its life.
            unsafe { memory.put(block) };
        }
    }

    /// `dev_pagemap_ops::migrate_to_ram`: the CPU has touched a page. With it comes what is in its window.
    ///
    /// # Safety
    ///
    /// The kernel calls it for a page that is locked and held, with the mmap lock.
    unsafe extern "C" fn touched(fault: *mut ffi::vm_fault) -> ffi::vm_fault_t {
        // SAFETY: By this function's contract.
        let (page, raw, address) = unsafe {
            let what = &(*fault).__bindgen_anon_1;
            ((*fault).page, what.vma, what.address)
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
        // SAFETY: The page is held.
        let block = unsafe { Self::block_of(page) };
        let witness = block.map(|block| block.origin().witness.clone());
        if let Some(witness) = &witness {
            witness.notify_leaving(&(start..end), MigrationCause::Touched);
        }
        // SAFETY: As above; the addresses are the VMA's.
        let moved = unsafe { memory.move_out_of(raw, start, end, Some(page)) };
        if let Some(witness) = &witness {
            witness.left(&(start..end), MigrationCause::Touched, moved.map(drop));
        }
        match moved {
            // If it has not moved, somebody else has it: the CPU comes again.
            Ok(_) => 0,
            Err(error) if error == ENOMEM => ffi::vm_fault_reason_VM_FAULT_OOM,
            Err(_) => ffi::vm_fault_reason_VM_FAULT_SIGBUS,
        }
    }

    /// The device may go on using `page`, one of this memory that somebody has at this moment, whatever is done: nobody else ever gets that
    /// memory. Any context.
    pub(super) fn leak(&self, page: NonNull<ffi::page>) {
        // SAFETY: Somebody has the page.
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
        // SAFETY: Mapped and requested by `new`. No page of it is in use, see `close`; of those that were the kernel waits for the last
        // reference to the map.
        unsafe {
            let &ffi::range { start, end } = (*raw).__bindgen_anon_1.range.as_ref();
            ffi::memunmap_pages(raw);
            ffi::__release_region(&raw mut ffi::iomem_resource, start, end - start + 1);
        }
    }
}
