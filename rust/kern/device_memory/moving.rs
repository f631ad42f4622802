// SPDX-License-Identifier: GPL-2.0
//! Pages on their way between a device's memory and system memory.

use super::{
    block::{Block, Origin},
    lists::{frame, Item, Lists},
    Cause, DeviceMemory, NotCopied, Room, Witness, TOGETHER, WINDOW,
};
use crate::{
    ffi,
    kern::{dma_map::DmaMap, ratelimit::dev_err_ratelimited},
};
use core::{mem, ops::Range, ptr, ptr::NonNull};
use kernel::{
    error::to_result,
    mm::virt::{flags, VmaRef},
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc,
};

/// How the pages of a window move.
#[derive(Clone, Copy, PartialEq)]
enum Size {
    /// A large page, or the hole for one, as one; others as they are.
    Large,
    /// One by one: the kernel has split what was large.
    Small,
}

/// Adds `count` pages in a row, which are one piece with those before where they follow them.
fn add_piece(
    pieces: &mut KVVec<(NonNull<ffi::page>, usize)>,
    page: NonNull<ffi::page>,
    count: usize,
) -> Result {
    if let Some((first, before)) = pieces.last_mut() {
        // SAFETY: Both are pages.
        if unsafe { ffi::rkfd_page_follows(page.as_ptr(), first.as_ptr(), *before) } {
            *before += count;
            return Ok(());
        }
    }
    Ok(pieces.push((page, count), GFP_KERNEL)?)
}

/// Whoever makes a block, until dropped.
struct Made<'a> {
    memory: &'a DeviceMemory,
    block: Arc<Block>,
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        // SAFETY: It was counted when the block was made.
        unsafe { self.memory.put(NonNull::from(&*self.block)) };
    }
}

/// Whether pages at these places, in bytes, can be a large one.
fn is_large_page(places: &[u64]) -> bool {
    let first = places.first().copied().unwrap_or(0);
    let page = |index: usize| first + (index * PAGE_SIZE) as u64;
    first % WINDOW as u64 == 0
        && (0..)
            .zip(places)
            .all(|(index, place)| *place == page(index))
}

/// How system memory for `item` is asked for.
fn gfp(item: &Item, why: Cause) -> ffi::gfp_t {
    match (item.pages, why) {
        (1, Cause::Touched) => ffi::GFP_HIGHUSER_MOVABLE,
        // It is not worth another process's life.
        (1, _) => ffi::GFP_HIGHUSER_MOVABLE | ffi::__GFP_RETRY_MAYFAIL | ffi::__GFP_NOWARN,
        // It comes in pieces otherwise.
        (_, Cause::Touched) => ffi::GFP_TRANSHUGE | ffi::__GFP_NORETRY,
        (_, Cause::Asked | Cause::Gone) => ffi::GFP_TRANSHUGE | ffi::__GFP_RETRY_MAYFAIL,
    }
}

/// The sizes to try for what is between `start` and `end`, one after the other.
///
/// # Safety
///
/// The addresses are those of `vma`, whose mmap lock is held.
unsafe fn sizes(vma: *mut ffi::vm_area_struct, start: usize, end: usize) -> &'static [Size] {
    // SAFETY: By this function's contract.
    let of_vma = unsafe { VmaRef::from_raw(vma) }.flags();
    if start % WINDOW == 0 && end - start == WINDOW && of_vma & flags::NOHUGEPAGE == 0 {
        &[Size::Large, Size::Small]
    } else {
        &[Size::Small]
    }
}

impl DeviceMemory {
    /// What the kernel is to move of `vma`, of the kinds `select`.
    fn request(
        &self,
        lists: &mut Lists,
        vma: *mut ffi::vm_area_struct,
        addresses: Range<usize>,
        select: ffi::migrate_vma_direction,
        size: Size,
    ) -> ffi::migrate_vma {
        let large = match size {
            Size::Large => ffi::migrate_vma_direction_MIGRATE_VMA_SELECT_COMPOUND,
            Size::Small => 0,
        };
        ffi::migrate_vma {
            vma,
            dst: lists.to.as_mut_ptr(),
            src: lists.from.as_mut_ptr(),
            cpages: 0,
            npages: 0,
            start: addresses.start,
            end: addresses.end,
            pgmap_owner: self.owner(),
            flags: (select | large) as usize,
            fault_page: ptr::null_mut(),
        }
    }

    /// Brings in what is between `start` and `end`, of one window, nothing of which the kernel may merge (KSM); how many pages. Of what leaves
    /// by itself one day `witness` hears. `ENOMEM` when there is no memory for it; errors of the engines.
    ///
    /// # Safety
    ///
    /// The addresses are those of `vma`, whose mmap lock is held.
    pub(in crate::kern) unsafe fn move_in(
        &self,
        vma: *mut ffi::vm_area_struct,
        start: usize,
        end: usize,
        witness: &Arc<dyn Witness>,
    ) -> Result<usize> {
        let origin = Origin {
            addresses: start..end,
            witness: witness.clone(),
        };
        // SAFETY: By this function's contract.
        for size in unsafe { sizes(vma, start, end) } {
            // SAFETY: As above.
            if let Some(moved) = unsafe { self.move_in_as(vma, &origin, *size) }? {
                return Ok(moved);
            }
        }
        Err(ENOMEM)
    }

    /// The same, as pages of a size; `None` when there is no room for a large one in a row.
    ///
    /// # Safety
    ///
    /// As for [`Self::move_in`].
    unsafe fn move_in_as(
        &self,
        vma: *mut ffi::vm_area_struct,
        origin: &Origin,
        size: Size,
    ) -> Result<Option<usize>> {
        let addresses = origin.addresses.clone();
        let mut lists = Lists::new(addresses.len() / PAGE_SIZE)?;
        let select = ffi::migrate_vma_direction_MIGRATE_VMA_SELECT_SYSTEM;
        let mut request = self.request(&mut lists, vma, addresses, select, size);
        // SAFETY: By this function's contract; the lists have an entry for each page.
        to_result(unsafe { ffi::migrate_vma_setup(&mut request) })?;
        if request.cpages == 0 {
            return Ok(Some(0));
        }
        let filled = self.fill(&mut lists, origin);
        match &filled {
            // SAFETY: The pages that move are locked, and so are those that they go to, which have their content.
            Ok(Some(_)) => unsafe { ffi::migrate_vma_pages(&mut request) },
            Ok(None) | Err(_) => lists.give_up(),
        }
        let moved = lists.moved();
        // SAFETY: As above; what is to go nowhere stays.
        unsafe { ffi::migrate_vma_finalize(&mut request) };
        Ok(filled?.map(|_made| moved))
    }

    /// Finds memory for what moves from `origin`, and copies it there; `None` when there is none in a row for a large page. After an error
    /// some of it may be in the list.
    fn fill(&self, lists: &mut Lists, origin: &Origin) -> Result<Option<Made<'_>>> {
        let count = lists.moving().map(|item| item.pages).sum();
        let is_large = lists.moving().any(|item| item.pages > 1);
        let holes = lists.moving().any(|item| item.page.is_none());
        let room = self.store.take(count, holes)?;
        let mut places = KVVec::with_capacity(count, GFP_KERNEL)?;
        for index in 0..count {
            places.push(room.place(index).ok_or(EINVAL)?, GFP_KERNEL)?;
        }
        if is_large && !is_large_page(&places) {
            return Ok(None);
        }
        let made = Made {
            memory: self,
            block: self.blocks.add(room.clone(), count, origin)?,
        };
        let mut filled = KVVec::with_capacity(count, GFP_KERNEL)?;
        let mut pieces = KVVec::new();
        let mut next = 0;
        let items = lists.items()?;
        for item in &items {
            let places = places.get(next..next + item.pages).ok_or(EINVAL)?;
            next += item.pages;
            let there = self.page(*places.first().ok_or(EINVAL)?)?;
            made.block.count();
            // SAFETY: The pages are nobody's: their memory was just taken, in a row. What they have is a block in the list, until they are freed.
            unsafe {
                ffi::rkfd_device_pages_init(
                    there.as_ptr(),
                    self.pagemap.get(),
                    item.order(),
                    Arc::as_ptr(&made.block).cast_mut().cast(),
                )
            };
            lists.send(item, there)?;
            if let Some(here) = item.page {
                filled.extend_from_slice(places, GFP_KERNEL)?;
                add_piece(&mut pieces, here, item.pages)?;
            }
        }
        if !pieces.is_empty() {
            let dma = DmaMap::new(&self.dev, pieces.iter().copied())?;
            room.copy_in(dma.runs(), &filled)?;
        }
        Ok(Some(made))
    }

    /// Moves what is between `start` and `end` of this memory, of one window, to system memory; how many pages. `ENOMEM`, `EINVAL` for a VMA
    /// that cannot have any; errors of the engines.
    ///
    /// # Safety
    ///
    /// The addresses are those of `vma`, whose mmap lock is held. The page that the CPU has `touched` is there, and locked.
    pub(in crate::kern) unsafe fn move_out_of(
        &self,
        vma: *mut ffi::vm_area_struct,
        start: usize,
        end: usize,
        touched: Option<NonNull<ffi::page>>,
    ) -> Result<usize> {
        // SAFETY: By this function's contract.
        for size in unsafe { sizes(vma, start, end) } {
            // SAFETY: As above.
            let moved = unsafe { self.move_out_as(vma, start..end, touched, *size) }?;
            if let Some(moved) = moved {
                return Ok(moved);
            }
        }
        Err(ENOMEM)
    }

    /// The same, as pages of a size; `None` when there is no large one.
    ///
    /// # Safety
    ///
    /// As for [`Self::move_out_of`].
    unsafe fn move_out_as(
        &self,
        vma: *mut ffi::vm_area_struct,
        addresses: Range<usize>,
        touched: Option<NonNull<ffi::page>>,
        size: Size,
    ) -> Result<Option<usize>> {
        let mut lists = Lists::new(addresses.len() / PAGE_SIZE)?;
        let select = ffi::migrate_vma_direction_MIGRATE_VMA_SELECT_DEVICE_PRIVATE;
        let mut request = self.request(&mut lists, vma, addresses, select, size);
        request.fault_page = touched.map_or(ptr::null_mut(), NonNull::as_ptr);
        let why = touched.map_or(Cause::Asked, |_| Cause::Touched);
        // SAFETY: By this function's contract; the lists have an entry for each page.
        to_result(unsafe { ffi::migrate_vma_setup(&mut request) })?;
        if request.cpages == 0 {
            return Ok(Some(0));
        }
        let emptied = self.empty(&mut lists, why);
        match emptied {
            // SAFETY: The pages that move are locked, and so are those that they go to, which have their content.
            Ok(true) => unsafe { ffi::migrate_vma_pages(&mut request) },
            Ok(false) | Err(_) => lists.give_up(),
        }
        let moved = lists.moved();
        // SAFETY: As above; what is to go nowhere stays.
        unsafe { ffi::migrate_vma_finalize(&mut request) };
        Ok(emptied?.then_some(moved))
    }

    /// Moves what there is of `block` to system memory, whoever has it. As [`DeviceMemory::move_out_of`].
    pub(super) fn move_out_block(&self, block: &Block, why: Cause) -> Result {
        let Some(room) = block.room() else {
            return Ok(());
        };
        let Origin { addresses, witness } = block.origin();
        witness.leaving(addresses, why);
        let mut at = 0;
        let mut result = Ok(());
        while result.is_ok() && at < block.len() {
            let count = TOGETHER.min(block.len() - at);
            result = self.move_out_pages(&*room, at, count, why);
            at += count;
        }
        witness.left(addresses, why, result);
        result
    }

    fn move_out_pages(&self, room: &dyn Room, at: usize, count: usize, why: Cause) -> Result {
        let mut lists = Lists::new(count)?;
        for (index, from) in lists.from.iter_mut().enumerate() {
            let place = room.place(at + index).ok_or(EINVAL)?;
            *from = frame(self.page(place)?);
        }
        // SAFETY: There are structures of all of these pages. Those that are in use become entries, and are locked.
        to_result(unsafe { ffi::migrate_device_pfns(lists.from.as_mut_ptr(), count) })?;
        let emptied = self.empty(&mut lists, why);
        let (from, to) = (lists.from.as_mut_ptr(), lists.to.as_mut_ptr());
        match emptied {
            // SAFETY: The pages that move are locked, and so are those that they go to, which have their content.
            Ok(true) => unsafe { ffi::migrate_device_pages(from, to, count) },
            Ok(false) | Err(_) => lists.give_up(),
        }
        // SAFETY: As above; what is to go nowhere stays.
        unsafe { ffi::migrate_device_finalize(from, to, count) };
        // A large page cannot be split from here: that takes the addresses of whoever has it.
        if emptied? {
            Ok(())
        } else {
            Err(ENOMEM)
        }
    }

    /// Finds system memory for what moves, and copies it there; whether there was a large page for one. When the device goes, what cannot be
    /// copied is zeroes. After an error some of it may be in the list.
    fn empty(&self, lists: &mut Lists, why: Cause) -> Result<bool> {
        let mut places = KVVec::new();
        let mut pieces = KVVec::new();
        let items = lists.items()?;
        for item in &items {
            let Some(there) = item.page else {
                continue;
            };
            let place = self.place(there).ok_or(EINVAL)?;
            for page in 0..item.pages {
                places.push(place + (page * PAGE_SIZE) as u64, GFP_KERNEL)?;
            }
            // SAFETY: Sleeping is allowed.
            let here = unsafe { ffi::rkfd_pages_alloc_locked(gfp(item, why), item.order()) };
            let Some(here) = NonNull::new(here) else {
                return if item.pages > 1 {
                    Ok(false)
                } else {
                    Err(ENOMEM)
                };
            };
            lists.send(item, here)?;
            add_piece(&mut pieces, here, item.pages)?;
        }
        if pieces.is_empty() {
            return Ok(true);
        }
        let dma = DmaMap::new(&self.dev, pieces.iter().copied())?;
        let Err(NotCopied { error, under_way }) = self.store.copy_out(&places, dma.runs()) else {
            return Ok(true);
        };
        if under_way {
            for (first, count) in &pieces {
                // SAFETY: These pages were made here, and are in a row.
                unsafe { ffi::rkfd_get_pages(first.as_ptr(), *count) };
            }
            mem::forget(dma);
            return Err(error);
        }
        if why != Cause::Gone {
            return Err(error);
        }
        drop(dma);
        dev_err_ratelimited!(
            self.dev,
            "memory that processes had in VRAM cannot be copied, and is lost: it is zeroes now\n"
        );
        for (first, count) in &pieces {
            // SAFETY: These pages were made here, in a row, and nobody else has them yet.
            unsafe { ffi::rkfd_pages_clear(first.as_ptr(), *count) };
        }
        Ok(true)
    }
}
