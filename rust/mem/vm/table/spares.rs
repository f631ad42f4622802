// SPDX-License-Identifier: GPL-2.0
//! Page tables that are not linked: those that have become empty, and those that are kept for the
//! next mappings.

use super::PageTable;
use hw::va::TableLevel;
use kernel::prelude::*;

/// Tables without entries in use. They are freed when this is dropped. That must be after a flush
/// of the TLBs: the GPU may walk them until then.
#[derive(Default)]
pub(in crate::mem::vm) struct IdleTables {
    first: Option<KBox<PageTable>>,
}

impl IdleTables {
    /// Whether there are none, so that no flush is needed.
    pub(in crate::mem::vm) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Adds a table, if there is one.
    pub(super) fn extend(&mut self, table: Option<KBox<PageTable>>) {
        if let Some(table) = table {
            self.push(table);
        }
    }

    /// Adds a table.
    pub(super) fn push(&mut self, mut table: KBox<PageTable>) {
        table.next = self.first.take();
        self.first = Some(table);
    }

    /// Returns one of them.
    pub(super) fn pop(&mut self) -> Option<KBox<PageTable>> {
        let mut table = self.first.take()?;
        self.first = table.next.take();
        Some(table)
    }
}

/// How many tables of a level are kept for reuse, unless memory waits to be mapped again.
const SPARES: usize = 4;

/// Tables of which all entries are invalid and that are not linked, by level. A buffer that is
/// mapped apart from all others needs some tables, and when it is unmapped they become spares.
#[derive(Default)]
pub(super) struct SpareTables {
    /// The number of tables, and the tables.
    levels: [(usize, IdleTables); 4],
    /// There may be more than [`SPARES`] of a level.
    many: bool,
}

impl SpareTables {
    /// Returns a table of `level`.
    pub(super) fn take(&mut self, level: TableLevel) -> Option<KBox<PageTable>> {
        let (count, tables) = self.levels.get_mut(level as usize)?;
        let table = tables.pop()?;
        *count -= 1;
        Some(table)
    }

    /// Keeps a table.
    pub(super) fn keep(&mut self, table: KBox<PageTable>) {
        if let Some((count, tables)) = self.levels.get_mut(table.level as usize) {
            *count += 1;
            self.many |= *count > SPARES;
            tables.push(table);
        }
    }

    /// Whether there may be too many.
    pub(super) fn are_many(&self) -> bool {
        self.many
    }

    /// Adds those that are too many to `rest`.
    pub(super) fn trim(&mut self, rest: &mut IdleTables) {
        self.many = false;
        for (count, tables) in &mut self.levels {
            while *count > SPARES {
                let Some(table) = tables.pop() else { break };
                *count -= 1;
                rest.push(table);
            }
        }
    }
}
