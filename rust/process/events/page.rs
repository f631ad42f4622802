// SPDX-License-Identifier: GPL-2.0
//! The event page: a slot of 64 bits for each event that the GPU sets. The GPU writes anything but
//! all ones to a slot before it interrupts, since an interrupt may not say which event it means.

use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::{Arc, ArcBorrow};

use super::SLOTS;
use crate::kern::vma::{Mappable, SharedPage, VmaPage as MappedPage};
use crate::mem::bo::Bo;
use hw::va::PAGE_SIZE;

/// Bytes of a slot.
pub(super) const SLOT_BYTES: usize = 8;
/// Pages of the event page that the driver makes.
pub(super) const PAGES: usize = SLOTS * SLOT_BYTES / PAGE_SIZE as usize;
/// Slots in one of them.
const SLOTS_IN_PAGE: usize = SLOTS / PAGES;
/// The contents of the slot of an event that the GPU has not set.
const UNSIGNALED: u64 = u64::MAX;

/// An event page.
pub(super) enum EventPage {
    /// The driver's page, which the process maps.
    Own(Arc<OwnEventPage>),
    /// A buffer of the process. Freeing it is refused.
    Buffer {
        /// The buffer: system memory of the driver's, with at least [`SLOTS`] slots.
        bo: ARef<Bo>,
        /// The buffer's handle.
        handle: u64,
    },
}

impl EventPage {
    /// Whether the GPU has written to the slot.
    pub(super) fn is_signaled(&self, slot: usize) -> bool {
        self.read(slot) != UNSIGNALED
    }

    fn read(&self, slot: usize) -> u64 {
        match self {
            Self::Own(page) => page.read(slot),
            // The buffer's kind and size were checked.
            Self::Buffer { bo, .. } => bo.read64((slot * SLOT_BYTES) as u64).unwrap_or(UNSIGNALED),
        }
    }

    /// Clears the slot: its event is not set.
    pub(super) fn clear(&self, slot: usize) {
        match self {
            Self::Own(page) => page.clear(slot),
            Self::Buffer { bo, .. } => {
                // As above.
                let _ = bo.write64((slot * SLOT_BYTES) as u64, UNSIGNALED);
            }
        }
    }
}

/// The driver's event page.
pub(super) struct OwnEventPage([SharedPage; PAGES]);

impl OwnEventPage {
    /// A page whose slots are all clear.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        let page = SharedPage::new;
        let pages = [
            page()?,
            page()?,
            page()?,
            page()?,
            page()?,
            page()?,
            page()?,
            page()?,
        ];
        let own = Self(pages);
        (0..SLOTS).for_each(|slot| own.clear(slot));
        Ok(Arc::new(own, GFP_KERNEL_ACCOUNT)?)
    }

    fn place(&self, slot: usize) -> Option<(&SharedPage, usize)> {
        let page = self.0.get(slot / SLOTS_IN_PAGE)?;
        Some((page, slot % SLOTS_IN_PAGE * SLOT_BYTES))
    }

    fn read(&self, slot: usize) -> u64 {
        self.place(slot)
            .map_or(UNSIGNALED, |(page, at)| page.read64(at))
    }

    fn clear(&self, slot: usize) {
        if let Some((page, at)) = self.place(slot) {
            page.write64(at, UNSIGNALED);
        }
    }
}

impl Mappable for OwnEventPage {
    fn page(&self, index: usize) -> MappedPage {
        self.0
            .get(index)
            .map_or(MappedPage::Nothing, |page| MappedPage::Ram {
                pfn: page.pfn(),
            })
    }

    fn mapped(_this: ArcBorrow<'_, Self>, _index: usize, _offset: usize) {}
}
