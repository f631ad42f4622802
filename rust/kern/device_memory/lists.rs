// SPDX-License-Identifier: GPL-2.0
//! The kernel's lists of pages that move (`migrate_vma::src` and `dst`).

use super::TOGETHER;
use crate::ffi;
use core::{mem, ptr::NonNull};
use kernel::prelude::*;

/// An entry of the kernel's lists of what is to move is that of a page, which moves.
const PAGE: usize = ffi::MIGRATE_PFN_VALID as usize;
const MOVES: usize = ffi::MIGRATE_PFN_MIGRATE as usize;
/// It is that of a large page, or of a hole as large.
const LARGE: usize = ffi::MIGRATE_PFN_COMPOUND as usize;
const SHIFT: u32 = ffi::MIGRATE_PFN_SHIFT;

/// The page of an entry.
fn page(entry: usize) -> Option<NonNull<ffi::page>> {
    if entry & PAGE == 0 {
        return None;
    }
    // SAFETY: The kernel has said that there is one.
    NonNull::new(unsafe { ffi::rkfd_pfn_to_page(entry >> SHIFT) })
}

/// The number of a page's frame.
pub(super) fn frame(page: NonNull<ffi::page>) -> usize {
    // SAFETY: It is found by the page's address alone.
    unsafe { ffi::rkfd_page_to_pfn(page.as_ptr()) }
}

/// What moves as one.
pub(super) struct Item {
    /// Its place in the lists, pages from their start.
    pub(super) index: usize,
    /// How many pages it is.
    pub(super) pages: usize,
    /// The first one, if it is no hole.
    pub(super) page: Option<NonNull<ffi::page>>,
}

impl Item {
    /// The order of its pages.
    pub(super) fn order(&self) -> u32 {
        self.pages.ilog2()
    }
}

/// What moves, and where to: an entry each for each page. A large page's is the first one, and the others are empty.
pub(super) struct Lists {
    pub(super) from: KVVec<usize>,
    pub(super) to: KVVec<usize>,
}

impl Lists {
    /// Nothing of so many pages. ENOMEM.
    pub(super) fn new(pages: usize) -> Result<Self> {
        Ok(Self {
            from: KVVec::from_elem(0, pages, GFP_KERNEL)?,
            to: KVVec::from_elem(0, pages, GFP_KERNEL)?,
        })
    }

    /// What the kernel lets move.
    pub(super) fn moving(&self) -> impl Iterator<Item = Item> + use<'_> {
        let entries = self.from.iter().enumerate();
        let moving = entries.filter(|(_, from)| **from & MOVES != 0);
        moving.map(|(index, from)| Item {
            index,
            pages: if from & LARGE != 0 { TOGETHER } else { 1 },
            page: page(*from),
        })
    }

    /// The same at this moment, for who sends it somewhere. ENOMEM.
    pub(super) fn items(&self) -> Result<KVVec<Item>> {
        let mut items = KVVec::new();
        for item in self.moving() {
            items.push(item, GFP_KERNEL)?;
        }
        Ok(items)
    }

    /// Has `item` go to the page `to`, of the same size.
    pub(super) fn send(&mut self, item: &Item, to: NonNull<ffi::page>) -> Result {
        let large = if item.pages > 1 { LARGE } else { 0 };
        *self.to.get_mut(item.index).ok_or(EINVAL)? = frame(to) << SHIFT | PAGE | large;
        Ok(())
    }

    /// Gives up where pages were to go.
    pub(super) fn give_up(&mut self) {
        for to in &mut self.to {
            if let Some(page) = page(mem::take(to)) {
                // SAFETY: It was made for this, and locked; nobody else knows it.
                unsafe { ffi::rkfd_page_unlock_put(page.as_ptr()) };
            }
        }
    }

    /// How many pages have moved.
    pub(super) fn moved(&self) -> usize {
        let went = |item: &Item| self.to.get(item.index).is_some_and(|to| *to != 0);
        self.moving().filter(went).map(|item| item.pages).sum()
    }
}
