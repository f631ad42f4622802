// SPDX-License-Identifier: GPL-2.0
//! The page tables of a VM: four levels in VRAM, written by the CPU, with a copy of their shape
//! here.

mod spares;

pub(super) use self::spares::IdleTables;

use self::spares::SpareTables;
use crate::{
    kern::barrier,
    ledger::{LedgerHold, LedgerKind},
    mem::{
        account::MemoryClient,
        placement::VramPlacement,
        table_pool::{TableMemory, TablePurpose},
        GpuMemory,
    },
};
use core::ops::Range;
use hw::{
    pte::{ContextBase, Pde, PteFlags},
    va::{LeafRun, TableLevel, VaRange, TABLE_ENTRIES},
};
use kernel::{prelude::*, sync::Arc};

/// The set of used entries of a table.
struct UsedEntries([u64; TABLE_ENTRIES / 64]);

impl UsedEntries {
    fn set(&mut self, range: Range<usize>, used: bool) {
        for index in range {
            if let Some(word) = self.0.get_mut(index / 64) {
                let bit = 1 << (index % 64);
                *word = if used { *word | bit } else { *word & !bit };
            }
        }
    }

    fn get(&self, index: usize) -> bool {
        self.0
            .get(index / 64)
            .is_some_and(|word| word >> (index % 64) & 1 != 0)
    }

    fn any(&self) -> bool {
        self.0.iter().any(|word| *word != 0)
    }

    /// Whether one in `range`, which is not empty, is used.
    fn any_in(&self, range: Range<usize>) -> bool {
        let (first, last) = (range.start / 64, (range.end - 1) / 64);
        let words = self.0.get(first..=last).unwrap_or(&[]);
        words.iter().zip(first..).any(|(word, at)| {
            let below = range.start.saturating_sub(at * 64);
            let above = ((at + 1) * 64).saturating_sub(range.end);
            word >> below << below << above != 0
        })
    }
}

/// The place of leaves in a table.
#[derive(Clone, Copy)]
struct LeafPlace {
    /// VRAM offset of the first entry.
    entry: u64,
    leaf: LeafRun,
}

impl LeafPlace {
    /// Writes the leaves.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone.
    fn write(&self, gpu: &GpuMemory, flags: PteFlags) -> Result {
        let entries = self.leaf.entries(flags);
        gpu.hw.vram_map.write64s(self.entry, entries)
    }
}

/// Leaves that have a place in the tables. They may be written and removed again without a change
/// of the tables' shape, so this does not need the VM's lock, but the owner has a lock of its own.
/// They have the place until [`PageTableTree::clear`].
#[derive(Default)]
pub(super) struct ReservedLeaves(KVVec<(LeafPlace, PteFlags)>);

impl ReservedLeaves {
    /// Writes all entries, and returns how many.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone.
    pub(super) fn write(&self, gpu: &GpuMemory) -> Result<u64> {
        let mut written = 0;
        for (place, flags) in &self.0 {
            place.write(gpu, *flags)?;
            written += place.leaf.count as u64;
        }
        Ok(written)
    }

    /// Makes all entries invalid, and returns how many. Allocates no memory.
    pub(super) fn clear(&self, gpu: &GpuMemory) -> u64 {
        let mut written = 0;
        for (place, _) in &self.0 {
            let count = place.leaf.count;
            // This fails only if the device is gone; then it reads none of the entries.
            let _ = gpu
                .hw
                .vram_map
                .fill64(place.entry, Pde::invalid(place.leaf.level), count);
            written += count as u64;
        }
        written
    }
}

/// The tables below a table, by index.
type Children = [Option<KBox<PageTable>>; TABLE_ENTRIES];

/// A table in VRAM and the tables below it. An entry in use is a leaf, or has a child. The leaf of
/// a hidden mapping is in use, but invalid. A table without entries in use is not linked.
struct PageTable {
    level: TableLevel,
    used: UsedEntries,
    /// `None` in a PTB.
    children: Option<KBox<Children>>,
    /// The next table in a list of tables to be freed.
    next: Option<KBox<PageTable>>,
    _hold: LedgerHold,
    memory: TableMemory,
}

impl PageTable {
    /// Creates a table with all entries invalid, except those of `skip`, which the caller writes
    /// before the table is linked.
    fn new(
        gpu: &GpuMemory,
        (client, purpose): (&Arc<MemoryClient>, &TablePurpose),
        level: TableLevel,
        skip: Range<usize>,
        written: &mut u64,
    ) -> Result<KBox<Self>> {
        let memory = gpu.vram.alloc_page_table(client, purpose)?;
        let children = match level {
            TableLevel::Ptb => None,
            _ => Some(KBox::init(
                pin_init::init_zeroed::<Children>(),
                GFP_KERNEL_ACCOUNT,
            )?),
        };
        let table = KBox::new(
            Self {
                level,
                used: UsedEntries([0; TABLE_ENTRIES / 64]),
                children,
                next: None,
                _hold: gpu.hw.ledger.hold(LedgerKind::PageTables, 1),
                memory,
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        for part in [0..skip.start, skip.end..TABLE_ENTRIES] {
            table.fill_invalid(gpu, part, written)?;
        }
        Ok(table)
    }

    /// Whether entry `index` leads to a table.
    fn has_child(&self, index: usize) -> bool {
        let children = self.children.as_ref();
        children.is_some_and(|children| children.get(index).is_some_and(Option::is_some))
    }

    /// Returns the table that entry `index` leads to, if it is one.
    fn child_mut(&mut self, index: usize) -> Option<&mut PageTable> {
        let slot = self.children.as_mut()?.get_mut(index)?;
        slot.as_deref_mut()
    }

    /// Unlinks that table.
    fn take_child(&mut self, index: usize) -> Option<KBox<PageTable>> {
        self.children.as_mut()?.get_mut(index)?.take()
    }

    /// Returns the VRAM offset of entry `index`.
    fn entry(&self, index: usize) -> u64 {
        self.memory.start() + index as u64 * 8
    }

    /// Returns the address of the table for the GPU.
    fn address(&self, gpu: &GpuMemory) -> u64 {
        gpu.hw.gmc.fb_offset() + self.memory.start()
    }

    fn fill_invalid(&self, gpu: &GpuMemory, range: Range<usize>, written: &mut u64) -> Result {
        if !range.is_empty() {
            let invalid = Pde::invalid(self.level);
            gpu.hw
                .vram_map
                .fill64(self.entry(range.start), invalid, range.len())?;
            *written += range.len() as u64;
        }
        Ok(())
    }

    /// Calls `put` to write the leaves, and creates the tables that are missing on the way. The
    /// range of the leaves belongs to one mapping: it was not mapped, or is hidden. `later` says
    /// that the leaves are written only after the tables are linked.
    fn put(
        &mut self,
        maker: &mut TableMaker<'_>,
        leaf: &LeafRun,
        later: bool,
        put: &mut dyn FnMut(LeafPlace) -> Result,
        written: &mut u64,
    ) -> Result {
        let index = self.level.index(leaf.va);
        if self.level == leaf.level {
            let indices = index..index + leaf.count;
            // This is seldom so, and there may be many.
            if self.used.any_in(indices.clone()) && indices.clone().any(|at| self.has_child(at)) {
                return self.put_below(maker, leaf, later, put, written);
            }
            self.used.set(indices, true);
            return put(LeafPlace {
                entry: self.entry(index),
                leaf: *leaf,
            });
        }
        let children = self.children.as_mut().ok_or(EIO)?;
        let slot = children.get_mut(index).ok_or(EIO)?;
        if let Some(child) = slot {
            return child.put(maker, leaf, later, put, written);
        }
        let level = self.level.child().ok_or(EIO)?;
        let first = level.index(leaf.va);
        let count = match level == leaf.level {
            true if later => 0,
            true => leaf.count,
            false => 1,
        };
        // A leaf that is in use here is that of the hidden mapping, and gives way.
        let purpose = match maker.buffer.filter(|_| self.used.get(index)) {
            Some(buffer) => TablePurpose::SplitPage(buffer.clone()),
            None => TablePurpose::NewMapping,
        };
        let mut child = maker.table(level, purpose, first..first + count, written)?;
        child.put(maker, leaf, later, put, written)?;
        let pointer = Pde::table(self.level, child.address(maker.gpu)).ok_or(EIO)?;
        *slot = Some(child);
        self.used.set(index..index + 1, true);
        // The GPU may walk here at any time: it must not find the old content of the memory.
        barrier::wmb();
        let vram_map = &maker.gpu.hw.vram_map;
        vram_map.write64(self.entry(index), pointer.raw())?;
        *written += 1;
        Ok(())
    }

    /// Like [`PageTable::put`], for large pages, some of which the hidden mapping had as small
    /// pages: those keep their tables.
    fn put_below(
        &mut self,
        maker: &mut TableMaker<'_>,
        leaf: &LeafRun,
        later: bool,
        put: &mut dyn FnMut(LeafPlace) -> Result,
        written: &mut u64,
    ) -> Result {
        for one in leaf.each() {
            let index = self.level.index(one.va);
            match (self.child_mut(index), one.split()) {
                (Some(child), Some(pages)) => child.put(maker, &pages, later, put, written)?,
                (Some(_), None) => return Err(EIO),
                (None, _) => {
                    self.used.set(index..index + 1, true);
                    put(LeafPlace {
                        entry: self.entry(index),
                        leaf: one,
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Makes the leaves of `range` invalid, but keeps them in use, and with them the tables that
    /// lead there. A table that is there only because a large page is in pieces is put on `idle`:
    /// its place is that of the large page again.
    fn hide(&mut self, gpu: &GpuMemory, range: VaRange, idle: &mut IdleTables, written: &mut u64) {
        // The caller passes the part that belongs to this table.
        let indices = range.entries(self.level);
        let mut run = indices.start..indices.start;
        for index in indices.start..=indices.end {
            let is_inside = index < indices.end;
            let below = range.in_entry(self.level, index).filter(|_| is_inside);
            if let (Some(child), Some(below)) = (self.child_mut(index), below) {
                match child.memory.is_for_split_page() {
                    true => idle.extend(self.take_child(index)),
                    false => child.hide(gpu, below, idle, written),
                }
            }
            if is_inside && self.used.get(index) && !self.has_child(index) {
                run.end = index + 1;
                continue;
            }
            // This fails only if the device is gone; then it reads none of the entries.
            let _ = self.fill_invalid(gpu, run, written);
            run = index + 1..index + 1;
        }
    }

    /// Removes the entries of `range`, and puts tables that have become empty on `idle`. A leaf is
    /// removed if the range touches it; mappings never share a leaf.
    fn clear(&mut self, gpu: &GpuMemory, range: VaRange, idle: &mut IdleTables, written: &mut u64) {
        // The caller passes the part that belongs to this table.
        let indices = range.entries(self.level);
        for index in indices.clone() {
            let children = self.children.as_mut();
            let Some(slot) = children.and_then(|children| children.get_mut(index)) else {
                break;
            };
            let Some(child) = slot else {
                continue;
            };
            if let Some(below) = range.in_entry(self.level, index) {
                child.clear(gpu, below, idle, written);
            }
            if !child.used.any() {
                idle.extend(slot.take());
            }
        }
        // An entry in use without a child is now a leaf, or has lost its child.
        let mut run = indices.start..indices.start;
        for index in indices.start..=indices.end {
            let is_removed = index < indices.end && self.used.get(index) && !self.has_child(index);
            if is_removed {
                run.end = index + 1;
                continue;
            }
            // This fails only if the device is gone; then it reads none of the entries.
            let _ = self.fill_invalid(gpu, run.clone(), written);
            self.used.set(run, false);
            run = index + 1..index + 1;
        }
    }
}

impl Drop for PageTable {
    fn drop(&mut self) {
        // The tables are dropped one after the other, not each from within the previous one: the
        // stack is small.
        let mut next = self.next.take();
        while let Some(mut table) = next {
            next = table.next.take();
        }
    }
}

/// The means to create tables.
struct TableMaker<'a> {
    gpu: &'a GpuMemory,
    /// The client that pays for them.
    client: &'a Arc<MemoryClient>,
    /// The buffer that may have some for its large pages.
    buffer: Option<&'a Arc<VramPlacement>>,
    spares: &'a mut SpareTables,
}

impl TableMaker<'_> {
    /// Returns a spare table or a new one, see [`PageTable::new`].
    fn table(
        &mut self,
        level: TableLevel,
        purpose: TablePurpose,
        skip: Range<usize>,
        written: &mut u64,
    ) -> Result<KBox<PageTable>> {
        let (gpu, client) = (self.gpu, self.client);
        let mut make = || PageTable::new(gpu, (client, &purpose), level, skip.clone(), written);
        match purpose {
            TablePurpose::NewMapping => self.spares.take(level).map_or_else(make, Ok),
            // Such a table goes when the memory moves; a spare one would stay in its place.
            TablePurpose::SplitPage(_) => {
                make().or_else(|error| self.spares.take(level).ok_or(error))
            }
        }
    }
}

/// The page tables of a VM, guarded by the VM's lock. When they are dropped, no VMID uses them any
/// more; the caller ensures that.
pub(super) struct PageTableTree {
    root: KBox<PageTable>,
    spares: SpareTables,
    /// The client that pays for them.
    client: Arc<MemoryClient>,
    gpu: Arc<GpuMemory>,
}

impl PageTableTree {
    /// Creates an empty root; `client` pays for all tables.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if the client's share is exceeded; `ENODEV` if the device is gone.
    pub(super) fn new(gpu: &Arc<GpuMemory>, client: &Arc<MemoryClient>) -> Result<Self> {
        Ok(Self {
            root: PageTable::new(
                gpu,
                (client, &TablePurpose::NewMapping),
                TableLevel::Pdb2,
                0..0,
                &mut 0,
            )?,
            spares: SpareTables::default(),
            client: client.clone(),
            gpu: gpu.clone(),
        })
    }

    /// Returns the base for a VMID's context.
    pub(super) fn base(&self) -> ContextBase {
        ContextBase::new(self.root.address(&self.gpu))
    }

    /// Calls `put` to write the entries for `range`, see [`PageTable::put`].
    fn put(
        &mut self,
        range: VaRange,
        (address, buffer): (u64, Option<&Arc<VramPlacement>>),
        later: bool,
        put: &mut dyn FnMut(LeafPlace) -> Result,
        written: &mut u64,
    ) -> Result {
        let mut maker = TableMaker {
            gpu: &self.gpu,
            client: &self.client,
            buffer,
            spares: &mut self.spares,
        };
        for leaf in range.leaves(address).ok_or(EINVAL)? {
            self.root.put(&mut maker, &leaf, later, put, written)?;
        }
        Ok(())
    }

    /// Maps `range` to the contiguous memory at `address`: the address of VRAM as entries have it,
    /// or with `flags.system` a DMA address. No part of the range is mapped; its mapping may have
    /// been hidden, and then `buffer` is where its buffer is. Adds the number of entries that it
    /// writes to `written`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an address that does not fit into an entry; `ENOMEM`, `ENODEV`. After an error
    /// a part of the range may be mapped; [`PageTableTree::clear`] removes it.
    pub(super) fn map(
        &mut self,
        range: VaRange,
        address: u64,
        flags: PteFlags,
        buffer: Option<&Arc<VramPlacement>>,
        written: &mut u64,
    ) -> Result {
        let gpu = self.gpu.clone();
        let mut entries = 0;
        let mut put = |place: LeafPlace| {
            entries += place.leaf.count as u64;
            place.write(&gpu, flags)
        };
        self.put(range, (address, buffer), false, &mut put, written)?;
        *written += entries;
        Ok(())
    }

    /// Like [`PageTableTree::map`], but only finds the places of the entries, which stay invalid,
    /// and adds them to `reserved`.
    pub(super) fn reserve(
        &mut self,
        range: VaRange,
        address: u64,
        flags: PteFlags,
        reserved: &mut ReservedLeaves,
        written: &mut u64,
    ) -> Result {
        let mut put = |place| Ok(reserved.0.push((place, flags), GFP_KERNEL_ACCOUNT)?);
        self.put(range, (address, None), true, &mut put, written)
    }

    /// Finds the places of entries for `range`, of which no part is mapped, as if it were mapped to
    /// memory in one run. They stay invalid. The memory itself may need more tables.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENODEV`; then the tables for a part of the range are there.
    pub(super) fn keep_places(&mut self, range: VaRange, written: &mut u64) -> Result {
        let address = range.start() % TableLevel::Ptb.table_span();
        self.put(range, (address, None), true, &mut |_| Ok(()), written)
    }

    /// Makes the entries of `range` invalid. The tables stay, and are the client's: the range can
    /// be mapped again with as many of them. Those that it has only because large pages are in
    /// pieces are added to `idle`. Adds the number of entries that it writes to `written`.
    /// Allocates no memory.
    pub(super) fn hide(&mut self, range: VaRange, idle: &mut IdleTables, written: &mut u64) {
        self.root.hide(&self.gpu, range, idle, written);
    }

    /// Removes the entries of `range`. Adds the number of entries that it writes to `written`.
    pub(super) fn clear(&mut self, range: VaRange, written: &mut u64) -> IdleTables {
        let mut idle = IdleTables::default();
        self.root.clear(&self.gpu, range, &mut idle, written);
        idle
    }

    /// Takes back tables that have become empty, and keeps them for the next mappings. The TLBs
    /// have been flushed since, and no [`ReservedLeaves`] refer to them. Returns those of large
    /// pages in pieces, which are not for other mappings.
    pub(super) fn keep(&mut self, mut idle: IdleTables) -> IdleTables {
        let mut rest = IdleTables::default();
        while let Some(table) = idle.pop() {
            match table.memory.is_for_split_page() {
                true => rest.push(table),
                false => self.spares.keep(table),
            }
        }
        rest
    }

    /// Whether more tables are kept than usual.
    pub(super) fn keeps_many(&self) -> bool {
        self.spares.are_many()
    }

    /// Adds the tables beyond that to `rest`.
    pub(super) fn trim(&mut self, rest: &mut IdleTables) {
        self.spares.trim(rest);
    }
}
