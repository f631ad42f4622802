// SPDX-License-Identifier: GPL-2.0
//! Allocation of the CP's doorbells in a process's slice.

use crate::doorbell::{DoorbellLayout, DoorbellSlot, PAGE_SLOTS};

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// The allocated CP doorbells of a slice.
pub struct CpDoorbellSlots {
    taken: [u64; PAGE_SLOTS as usize / WORD],
    /// Where the search begins: after the doorbell that was allocated last.
    next: u16,
}

impl CpDoorbellSlots {
    /// Returns a slice's doorbells, of which none is allocated.
    pub const fn new() -> Self {
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

    /// Takes the next free doorbell of `layout` after the one that was taken last, so that a
    /// doorbell is reused as late as possible. `None` if all are taken.
    pub fn alloc(&mut self, layout: &DoorbellLayout) -> Option<DoorbellSlot> {
        let next = self.next;
        let later = layout.cp_slots().filter(|slot| slot.index() >= next);
        let earlier = layout.cp_slots().filter(|slot| slot.index() < next);
        let slot = Iterator::chain(later, earlier).find(|&slot| self.is_free(slot))?;
        self.set(slot, true);
        self.next = slot.index() + 1;
        Some(slot)
    }

    /// Takes `slot`; returns whether it is one of `layout` and was free.
    pub fn take(&mut self, layout: &DoorbellLayout, slot: DoorbellSlot) -> bool {
        let is_there = layout.cp_slots().any(|other| other == slot) && self.is_free(slot);
        if is_there {
            self.set(slot, true);
        }
        is_there
    }

    /// Frees a doorbell.
    pub fn free(&mut self, slot: DoorbellSlot) {
        self.set(slot, false);
    }
}

impl Default for CpDoorbellSlots {
    fn default() -> Self {
        Self::new()
    }
}
