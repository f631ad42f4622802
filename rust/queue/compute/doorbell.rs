// SPDX-License-Identifier: GPL-2.0
//! The CP's doorbells in a process's slice.
//!
//! They are the BAR's own page, so what a process stores there reaches the CP without anybody seeing it, also after the
//! queue that had the doorbell is destroyed. A doorbell is therefore reused within its slice only, and only as late as
//! possible: the worst that a late store can do is to ring another queue of the same process, with a write pointer that
//! the process could as well have stored there on purpose. The slice itself is another process's only when no mapping of
//! it is left.

use crate::queue::doorbell::DoorbellSlice;
use hw::doorbell::{Doorbell, DoorbellSlot, PAGE_SLOTS};
use kernel::prelude::*;
use kernel::sync::Arc;

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// Which of a slice's CP doorbells are taken.
pub(in crate::queue) struct CpDoorbellSlots {
    taken: [u64; PAGE_SLOTS as usize / WORD],
    /// Where the search begins: after the one that was taken last.
    next: u16,
}

impl CpDoorbellSlots {
    /// None taken.
    pub(in crate::queue) const fn new() -> Self {
        Self {
            taken: [0; PAGE_SLOTS as usize / WORD],
            next: 0,
        }
    }

    fn word(&mut self, slot: DoorbellSlot) -> Option<(&mut u64, u64)> {
        let index = usize::from(slot.index());
        let word = self.taken.get_mut(index / WORD)?;
        Some((word, 1 << (index % WORD)))
    }

    fn is_free(&mut self, slot: DoorbellSlot) -> bool {
        self.word(slot).is_some_and(|(word, bit)| *word & bit == 0)
    }

    fn set(&mut self, slot: DoorbellSlot, taken: bool) {
        if let Some((word, bit)) = self.word(slot) {
            *word = if taken { *word | bit } else { *word & !bit };
        }
    }

    fn alloc(&mut self) -> Option<DoorbellSlot> {
        let next = self.next;
        let later = DoorbellSlot::cp_slots().filter(|slot| slot.index() >= next);
        let earlier = DoorbellSlot::cp_slots().filter(|slot| slot.index() < next);
        let slot = Iterator::chain(later, earlier).find(|&slot| self.is_free(slot))?;
        self.set(slot, true);
        self.next = slot.index() + 1;
        Some(slot)
    }
}

/// A CP doorbell of a process, until dropped: after its queue has left the hardware.
pub(super) struct CpDoorbell {
    slot: DoorbellSlot,
    doorbell: Doorbell,
    slice: Arc<DoorbellSlice>,
}

impl CpDoorbell {
    /// One of `slice`. ENOSPC when all are taken, or the BAR has no room for the slice; ENOMEM.
    pub(super) fn new(slice: &Arc<DoorbellSlice>) -> Result<Self> {
        let index = slice.index()?;
        let slot = slice.cp.lock().alloc().ok_or(ENOSPC)?;
        Ok(Self {
            slot,
            doorbell: index.doorbell(slot),
            slice: slice.clone(),
        })
    }

    /// Its place in the slice.
    pub(super) fn slot(&self) -> DoorbellSlot {
        self.slot
    }

    /// The slice that has it.
    pub(super) fn slice(&self) -> &Arc<DoorbellSlice> {
        &self.slice
    }

    /// Its place in the BAR.
    pub(super) fn doorbell(&self) -> Doorbell {
        self.doorbell
    }
}

impl Drop for CpDoorbell {
    fn drop(&mut self) {
        self.slice.cp.lock().set(self.slot, false);
    }
}
