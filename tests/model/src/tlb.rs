// SPDX-License-Identifier: GPL-2.0
//! A hub's translation caches. An entry stays until an invalidation reaches it, even after the page
//! table has changed: that exposes a driver that forgets to flush. Invalid entries are never kept.

use rustc_hash::FxHashMap;

use crate::walk::{DirectoryCache, Entry, Leaf};

/// Address spaces of a hub.
pub const VMIDS: usize = 16;
/// Leaves kept for one address space; hardware too may lose an entry at any time.
const CAPACITY: usize = 1 << 20;

/// The scope of a flush; the bits of an invalidation request.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    /// INVALIDATE_L1_PTES and INVALIDATE_L2_PTES.
    pub leaves: bool,
    /// INVALIDATE_L2_PDE0..2, by level - 1.
    pub directories: [bool; 3],
}

impl Scope {
    /// Everything.
    pub const ALL: Scope = Scope {
        leaves: true,
        directories: [true; 3],
    };
}

/// The caches of one address space.
#[derive(Default)]
pub struct Space {
    /// Bit n: leaves of 1 << n bytes are present.
    sizes: u64,
    leaves: FxHashMap<(u8, u64), Leaf>,
    directories: FxHashMap<(u8, u64), Entry>,
}

impl Space {
    /// The cached translation for `va`.
    pub fn lookup(&self, va: u64) -> Option<Leaf> {
        let mut sizes = self.sizes;
        while sizes != 0 {
            let log2 = sizes.trailing_zeros();
            if let Some(leaf) = self.leaves.get(&(log2 as u8, va >> log2)) {
                return Some(*leaf);
            }
            sizes &= sizes - 1;
        }
        None
    }

    /// Keeps the translation of `va`. Returns true if others had to be dropped for that.
    pub fn insert(&mut self, va: u64, leaf: Leaf) -> bool {
        let full = self.leaves.len() >= CAPACITY;
        if full {
            self.leaves.clear();
            self.sizes = 0;
        }
        self.sizes |= 1 << leaf.log2;
        self.leaves.insert((leaf.log2, va >> leaf.log2), leaf);
        full
    }

    /// Removes the translation of `va`.
    pub fn forget(&mut self, va: u64) {
        self.leaves.retain(|&(log2, page), _| va >> log2 != page);
    }

    /// Removes the translations in `scope`.
    pub fn flush(&mut self, scope: Scope) {
        if scope.leaves {
            self.leaves = FxHashMap::default();
            self.sizes = 0;
        }
        self.directories
            .retain(|&(level, _), _| !scope.directories[usize::from(level - 1)]);
    }
}

impl DirectoryCache for Space {
    fn get(&self, level: u8, prefix: u64) -> Option<Entry> {
        self.directories.get(&(level, prefix)).copied()
    }

    fn put(&mut self, level: u8, prefix: u64, entry: Entry) {
        self.directories.insert((level, prefix), entry);
    }
}
