// SPDX-License-Identifier: GPL-2.0
//! Page tables of an address space in which every access ends in a fault, and none is tried again: one table of each level, all of
//! whose entries lead to the next, and the last one's to nothing.

use crate::pte::{ContextBase, Pde, Pte};
use crate::va::{TableLevel, PAGE_SIZE};

/// The levels, from the root on.
const LEVELS: [TableLevel; 4] = [
    TableLevel::Pdb2,
    TableLevel::Pdb1,
    TableLevel::Pdb0,
    TableLevel::Ptb,
];

/// Bytes of all tables.
pub const BYTES: u64 = LEVELS.len() as u64 * PAGE_SIZE;

/// The tables, by the address where they begin: where entries find VRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRetryTables(u64);

impl NoRetryTables {
    /// The tables at `first`, a multiple of the page size.
    #[inline]
    pub const fn at(first: u64) -> Self {
        Self(first)
    }

    /// What a context is pointed at.
    #[inline]
    pub const fn base(self) -> ContextBase {
        ContextBase::new(self.0)
    }

    /// For each table where it begins, bytes from the first, and what each of its entries is.
    pub fn tables(self) -> impl Iterator<Item = (u64, u64)> {
        LEVELS.into_iter().zip(0..).map(move |(level, table)| {
            let offset = table * PAGE_SIZE;
            let next = self.0 + offset + PAGE_SIZE;
            let entry = Pde::table(level, next).map_or(Pte::NO_RETRY.raw(), Pde::raw);
            (offset, entry)
        })
    }
}
