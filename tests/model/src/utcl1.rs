// SPDX-License-Identifier: GPL-2.0
//! A client's copies of its hub's translations (UTCL1), which it finds without the hub's lock.
//!
//! They hold nothing beyond the hub's own cache: each removal there is one more generation of the
//! address space, and copies of an older one are not used. So they neither hide a missing flush nor
//! keep translations that a flush has removed.

use std::cell::Cell;

use crate::walk::{Leaf, PAGE_SHIFT};

/// log2 of the translations that are kept.
const LOG2: u32 = 6;
/// Spreads pages over them, even those of buffers that are all aligned alike.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Translations of one address space for one client, which is on one thread.
pub struct Utcl1 {
    generation: Cell<u64>,
    /// By page: the leaf's first address, and the leaf.
    entries: [Cell<Option<(u64, Leaf)>>; 1 << LOG2],
    hits: Cell<u64>,
}

impl Utcl1 {
    /// Creates an empty one.
    pub fn new() -> Utcl1 {
        Utcl1 {
            generation: Cell::new(0),
            entries: [const { Cell::new(None) }; 1 << LOG2],
            hits: Cell::new(0),
        }
    }

    fn entry(&self, va: u64) -> &Cell<Option<(u64, Leaf)>> {
        let index = (va >> PAGE_SHIFT).wrapping_mul(SPREAD) >> (u64::BITS - LOG2);
        &self.entries[index as usize]
    }

    /// The leaf with all of the `len` bytes (not zero) at `va`, if the hub still has it in
    /// `generation`.
    pub fn lookup(&self, generation: u64, va: u64, len: u64) -> Option<Leaf> {
        if self.generation.get() != generation {
            return None;
        }
        let (first, leaf) = self.entry(va).get()?;
        let offset = va.wrapping_sub(first);
        let size = 1 << leaf.log2;
        if offset >= size || len > size - offset {
            return None;
        }
        self.hits.set(self.hits.get() + 1);
        Some(leaf)
    }

    /// Keeps the hub's translation of `va`, which it had in `generation` or later.
    pub fn keep(&self, generation: u64, va: u64, leaf: Leaf) {
        if self.generation.replace(generation) != generation {
            self.entries.iter().for_each(|entry| entry.set(None));
        }
        let first = va >> leaf.log2 << leaf.log2;
        self.entry(va).set(Some((first, leaf)));
    }

    /// The number of translations found here since the last call.
    pub fn take_hits(&self) -> u64 {
        self.hits.take()
    }
}

impl Default for Utcl1 {
    fn default() -> Self {
        Utcl1::new()
    }
}
