// SPDX-License-Identifier: GPL-2.0
//! The moves of pages between a device's memory and system memory.

use super::{
    block::{PageBlock, PageOrigin},
    CopyFailed, DeviceMemory, DeviceSpace, MigrationCause, MigrationObserver, WINDOW_PAGES,
};
use crate::{
    ffi,
    kern::{dma_map::DmaMap, ratelimit::dev_err_ratelimited},
};
use core::{mem, ptr, ptr::NonNull};
use kernel::{error::to_result, page::PAGE_SIZE, prelude::*, sync::Arc};

/// Flags in an entry of the kernel's lists of pages to move: the entry names a page, and the page
/// moves.
const PAGE: usize = ffi::MIGRATE_PFN_VALID as usize;
const MOVES: usize = ffi::MIGRATE_PFN_MIGRATE as usize;
const SHIFT: u32 = ffi::MIGRATE_PFN_SHIFT;

/// The page of an entry.
fn page(entry: usize) -> Option<NonNull<ffi::page>> {
    if entry & PAGE == 0 {
        return None;
    }
    // SAFETY: The flag says that there is a page.
    NonNull::new(unsafe { ffi::rkfd_pfn_to_page(entry >> SHIFT) })
}

/// The entry of a page.
fn entry(page: NonNull<ffi::page>) -> usize {
    // SAFETY: The frame number of a page follows from its address alone.
    unsafe { ffi::rkfd_page_to_pfn(page.as_ptr()) << SHIFT | PAGE }
}

/// The sources and destinations of a move: one entry for each page.
struct MoveLists {
    from: KVVec<usize>,
    to: KVVec<usize>,
}

impl MoveLists {
    fn new(pages: usize) -> Result<Self> {
        Ok(Self {
            from: KVVec::from_elem(0, pages, GFP_KERNEL)?,
            to: KVVec::from_elem(0, pages, GFP_KERNEL)?,
        })
    }

    /// Frees the destination pages.
    fn abort(&mut self) {
        for to in &mut self.to {
            if let Some(page) = page(mem::take(to)) {
                // SAFETY: The page was made for this move, and locked; it has no other user.
                unsafe { ffi::rkfd_page_unlock_put(page.as_ptr()) };
            }
        }
    }

    /// The number of pages that have moved.
    fn moved(&self) -> usize {
        let pairs = self.from.iter().zip(&self.to);
        pairs
            .filter(|(from, to)| **from & MOVES != 0 && **to != 0)
            .count()
    }
}

/// Adds `page` to `pieces`: consecutive pages form one piece.
fn add_piece(pieces: &mut KVVec<(NonNull<ffi::page>, usize)>, page: NonNull<ffi::page>) -> Result {
    if let Some((first, count)) = pieces.last_mut() {
        // SAFETY: Both are pages.
        if unsafe { ffi::rkfd_page_follows(page.as_ptr(), first.as_ptr(), *count) } {
            *count += 1;
            return Ok(());
        }
    }
    Ok(pieces.push((page, 1), GFP_KERNEL)?)
}

/// The maker's count of a block, until dropped.
struct BlockMaker<'a> {
    memory: &'a DeviceMemory,
    block: Arc<PageBlock>,
}

impl Drop for BlockMaker<'_> {
    fn drop(&mut self) {
        // SAFETY: The maker was counted when the block was made.
        unsafe { self.memory.put(NonNull::from(&*self.block)) };
    }
}

impl DeviceMemory {
    /// The description of a move in `vma` for the kernel.
    fn request(
        &self,
        lists: &mut MoveLists,
        vma: *mut ffi::vm_area_struct,
        start: usize,
        end: usize,
    ) -> ffi::migrate_vma {
        ffi::migrate_vma {
            vma,
            dst: lists.to.as_mut_ptr(),
            src: lists.from.as_mut_ptr(),
            cpages: 0,
            npages: 0,
            start,
            end,
            pgmap_owner: self.owner(),
            flags: 0,
            fault_page: ptr::null_mut(),
        }
    }

    /// Moves the pages between `start` and `end` into the device, and returns how many. The kernel
    /// may merge none of them (KSM). Stops if `go_on` fails before the copy. `observer` is notified
    /// if they move out later without a request.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no device memory; errors of the engines and of `go_on`. All pages stay
    /// then.
    ///
    /// # Safety
    ///
    /// The addresses are those of `vma`, whose mmap lock is held.
    pub(in crate::kern) unsafe fn move_in(
        &self,
        vma: *mut ffi::vm_area_struct,
        start: usize,
        end: usize,
        observer: &Arc<dyn MigrationObserver>,
        go_on: &dyn Fn() -> Result,
    ) -> Result<usize> {
        let mut lists = MoveLists::new((end - start) / PAGE_SIZE)?;
        let mut request = self.request(&mut lists, vma, start, end);
        request.flags = ffi::migrate_vma_direction_MIGRATE_VMA_SELECT_SYSTEM as usize;
        // SAFETY: By this function's contract; the lists have an entry for each page.
        to_result(unsafe { ffi::migrate_vma_setup(&mut request) })?;
        if request.cpages == 0 {
            return Ok(0);
        }
        let origin = PageOrigin {
            addresses: start..end,
            observer: observer.clone(),
        };
        let filled = self.fill(&mut lists, &origin, go_on);
        match &filled {
            // SAFETY: The pages that move and their destinations are locked, and the destinations
            // have the content.
            Ok(_) => unsafe { ffi::migrate_vma_pages(&mut request) },
            Err(_) => lists.abort(),
        }
        let moved = lists.moved();
        // SAFETY: As above; pages without a destination stay.
        unsafe { ffi::migrate_vma_finalize(&mut request) };
        filled.map(|_made| moved)
    }

    /// Allocates memory for the pages of `origin` that move, and copies them there, unless `go_on`
    /// fails before that. After an error some destinations may be in the list.
    fn fill(
        &self,
        lists: &mut MoveLists,
        origin: &PageOrigin,
        go_on: &dyn Fn() -> Result,
    ) -> Result<BlockMaker<'_>> {
        let moving = |from: &&usize| **from & MOVES != 0;
        let count = lists.from.iter().filter(moving).count();
        let empty = |from: &usize| *from & PAGE == 0;
        let holes = lists.from.iter().filter(moving).any(empty);
        go_on()?;
        let room = self.store.alloc(count, holes)?;
        let made = BlockMaker {
            memory: self,
            block: self.blocks.add(room.clone(), count, origin)?,
        };
        let mut places = KVVec::with_capacity(count, GFP_KERNEL)?;
        let mut pieces = KVVec::new();
        let mut next = 0;
        for (from, to) in lists.from.iter().zip(&mut lists.to) {
            if !moving(&from) {
                continue;
            }
            let place = room.place(next).ok_or(EINVAL)?;
            next += 1;
            let device_page = self.page(place)?;
            made.block.count();
            // SAFETY: The page is free: its memory was just allocated. Its data is a block that
            // stays in the tree until the page is freed.
            unsafe {
                ffi::rkfd_device_page_init(
                    device_page.as_ptr(),
                    self.pagemap.get(),
                    Arc::as_ptr(&made.block).cast_mut().cast(),
                )
            };
            *to = entry(device_page);
            if let Some(system_page) = page(*from) {
                places.push(place, GFP_KERNEL)?;
                add_piece(&mut pieces, system_page)?;
            }
        }
        if !pieces.is_empty() {
            go_on()?;
            let dma = DmaMap::new(&self.dev, pieces.iter().copied())?;
            room.copy_in(dma.runs(), &places)?;
        }
        Ok(made)
    }

    /// Moves the pages of this memory between `start` and `end` out to system memory, and returns
    /// how many.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; `EINVAL` if the VMA cannot have such pages; errors of the
    /// engines.
    ///
    /// # Safety
    ///
    /// The addresses are those of `vma`, whose mmap lock is held. `touched`, the page that the CPU
    /// has touched, is among them, and locked.
    pub(in crate::kern) unsafe fn move_out_of(
        &self,
        vma: *mut ffi::vm_area_struct,
        start: usize,
        end: usize,
        touched: Option<NonNull<ffi::page>>,
    ) -> Result<usize> {
        let mut lists = MoveLists::new((end - start) / PAGE_SIZE)?;
        let mut request = self.request(&mut lists, vma, start, end);
        request.flags = ffi::migrate_vma_direction_MIGRATE_VMA_SELECT_DEVICE_PRIVATE as usize;
        request.fault_page = touched.map_or(ptr::null_mut(), NonNull::as_ptr);
        let why = touched.map_or(MigrationCause::Asked, |_| MigrationCause::Touched);
        // SAFETY: By this function's contract; the lists have an entry for each page.
        to_result(unsafe { ffi::migrate_vma_setup(&mut request) })?;
        if request.cpages == 0 {
            return Ok(0);
        }
        let filled = self.empty(&mut lists, why);
        match filled {
            // SAFETY: The pages that move and their destinations are locked, and the destinations
            // have the content.
            Ok(()) => unsafe { ffi::migrate_vma_pages(&mut request) },
            Err(_) => lists.abort(),
        }
        let moved = lists.moved();
        // SAFETY: As above; pages without a destination stay.
        unsafe { ffi::migrate_vma_finalize(&mut request) };
        filled.map(|()| moved)
    }

    /// Moves all pages of `block` out to system memory, whichever process has them. As
    /// [`DeviceMemory::move_out_of`].
    pub(super) fn move_out_block(&self, block: &PageBlock, why: MigrationCause) -> Result {
        let Some(room) = block.room() else {
            return Ok(());
        };
        let PageOrigin {
            addresses,
            observer,
        } = block.origin();
        observer.notify_leaving(addresses, why);
        let mut at = 0;
        let mut result = Ok(());
        while result.is_ok() && at < block.len() {
            let count = WINDOW_PAGES.min(block.len() - at);
            result = self.move_out_pages(&*room, at, count, why);
            at += count;
        }
        observer.notify_left(addresses, why, result);
        result
    }

    fn move_out_pages(
        &self,
        room: &dyn DeviceSpace,
        at: usize,
        count: usize,
        why: MigrationCause,
    ) -> Result {
        let mut lists = MoveLists::new(count)?;
        for (index, from) in lists.from.iter_mut().enumerate() {
            let place = room.place(at + index).ok_or(EINVAL)?;
            *from = entry(self.page(place)?) >> SHIFT;
        }
        // SAFETY: All of these frames have page structures. The pages that are in use become
        // entries, and are locked.
        to_result(unsafe { ffi::migrate_device_pfns(lists.from.as_mut_ptr(), count) })?;
        let filled = self.empty(&mut lists, why);
        let (from, to) = (lists.from.as_mut_ptr(), lists.to.as_mut_ptr());
        match filled {
            // SAFETY: The pages that move and their destinations are locked, and the destinations
            // have the content.
            Ok(()) => unsafe { ffi::migrate_device_pages(from, to, count) },
            Err(_) => lists.abort(),
        }
        // SAFETY: As above; pages without a destination stay.
        unsafe { ffi::migrate_device_finalize(from, to, count) };
        filled
    }

    /// Allocates system memory for the pages that move, and copies them there. If the device is
    /// being removed, pages that cannot be copied become zeroes. After an error some destinations
    /// may be in the list.
    fn empty(&self, lists: &mut MoveLists, why: MigrationCause) -> Result {
        let mut places = KVVec::new();
        let mut pieces = KVVec::new();
        let effort = match why {
            MigrationCause::Touched => 0,
            // This must not cause the OOM killer to kill another process.
            MigrationCause::Asked | MigrationCause::Gone => {
                ffi::__GFP_RETRY_MAYFAIL | ffi::__GFP_NOWARN
            }
        };
        for (from, to) in lists.from.iter().zip(&mut lists.to) {
            let Some(device_page) = page(*from).filter(|_| *from & MOVES != 0) else {
                continue;
            };
            let place = self.place(device_page).ok_or(EINVAL)?;
            places.push(place, GFP_KERNEL)?;
            // SAFETY: The context may sleep.
            let system_page =
                unsafe { ffi::rkfd_page_alloc_locked(ffi::GFP_HIGHUSER_MOVABLE | effort) };
            let system_page = NonNull::new(system_page).ok_or(ENOMEM)?;
            *to = entry(system_page);
            add_piece(&mut pieces, system_page)?;
        }
        if pieces.is_empty() {
            return Ok(());
        }
        let dma = DmaMap::new(&self.dev, pieces.iter().copied())?;
        let Err(CopyFailed { error, under_way }) = self.store.copy_out(&places, dma.runs()) else {
            return Ok(());
        };
        if under_way {
            for (first, count) in &pieces {
                // SAFETY: These pages were made here, and are consecutive.
                unsafe { ffi::rkfd_get_pages(first.as_ptr(), *count) };
            }
            mem::forget(dma);
            return Err(error);
        }
        if why != MigrationCause::Gone {
            return Err(error);
        }
        drop(dma);
        dev_err_ratelimited!(
            self.dev,
            "memory that processes had in VRAM cannot be copied, and is lost: it is zeroes now\n"
        );
        for to in &lists.to {
            if let Some(system_page) = page(*to) {
                // SAFETY: The page was made here, and has no other user yet.
                unsafe { ffi::rkfd_page_clear(system_page.as_ptr()) };
            }
        }
        Ok(())
    }
}
