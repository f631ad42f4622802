// SPDX-License-Identifier: GPL-2.0
//! Page tables of an address space in which every access ends in a fault, and none is retried: one
//! table for each level. All entries of a table lead to the next table, and those of the last one
//! to nothing.

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

/// The tables, by the address of the first one, which is how entries address VRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRetryTables(u64);

impl NoRetryTables {
    /// The tables at `first`, a multiple of the page size.
    #[inline]
    pub const fn at(first: u64) -> Self {
        Self(first)
    }

    /// The page table base of a context that uses them.
    #[inline]
    pub const fn base(self) -> ContextBase {
        ContextBase::new(self.0)
    }

    /// For each table its start, bytes from the first one, and the value of each of its entries.
    pub fn tables(self) -> impl Iterator<Item = (u64, u64)> {
        LEVELS.into_iter().zip(0..).map(move |(level, table)| {
            let offset = table * PAGE_SIZE;
            let next = self.0 + offset + PAGE_SIZE;
            let entry = Pde::table(level, next).map_or(Pte::NO_RETRY.raw(), Pde::raw);
            (offset, entry)
        })
    }
}
