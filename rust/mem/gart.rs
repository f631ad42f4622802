// SPDX-License-Identifier: GPL-2.0
//! The GART: system memory in the kernel's own address space on the GPU (VMID 0), mapped by a flat
//! table in VRAM.

use crate::{
    ip::{gmc::Gmc, hub::TlbFlush, vmid::Vmid},
    kern::{
        addresses::AddressAllocator,
        pages::{DmaRun, SystemPages},
        ratelimit::dev_err_ratelimited,
        vram_map::VramMap,
    },
    ledger::{Ledger, LedgerHold, LedgerKind},
    mem::vram::{ReclaimableVram, VramBlocks, VramManager, VramRun},
};
use core::ops::Deref;
use hw::{
    pte::{Mtype, Pte},
    va::{PAGE_SHIFT, PAGE_SIZE},
};
use kernel::{prelude::*, sync::Arc};

/// Bytes of a table entry.
const ENTRY_BYTES: u64 = 8;

/// Entries that are collected before they are written.
const BATCH: usize = 64;

/// The table, and the allocator of its addresses.
struct GartTable {
    addresses: AddressAllocator,
    /// The MC address that the first entry maps.
    start: u64,
    memory: VramBlocks,
    vram_map: Arc<VramMap>,
    gmc: Arc<Gmc>,
    ledger: Arc<Ledger>,
}

impl GartTable {
    /// Returns the VRAM offset of the entry for MC address `mc`, which lies in the GART.
    fn entry(&self, mc: u64) -> u64 {
        self.memory.start() + ((mc - self.start) >> PAGE_SHIFT) * ENTRY_BYTES
    }

    /// Writes the entries that map `runs` from MC address `mc` on. `is_uncached` says whether the
    /// page at a byte offset is uncached.
    fn write(
        &self,
        mc: u64,
        runs: impl Iterator<Item = DmaRun>,
        is_uncached: &dyn Fn(u64) -> bool,
    ) -> Result {
        let mut pages = runs.flat_map(|run| {
            (0..run.size >> PAGE_SHIFT).map(move |page| run.address + page * PAGE_SIZE)
        });
        let mut at = self.entry(mc);
        let mut offset = 0;
        loop {
            let mut batch = [0u64; BATCH];
            let mut count = 0;
            for (entry, page) in batch.iter_mut().zip(pages.by_ref()) {
                let mtype = match is_uncached(offset) {
                    true => Mtype::Uc,
                    false => Mtype::Nc,
                };
                offset += PAGE_SIZE;
                *entry = Pte::gart(page, mtype).raw();
                count += 1;
            }
            if count == 0 {
                return Ok(());
            }
            self.vram_map
                .write64s(at, batch.iter().copied().take(count))?;
            at += count as u64 * ENTRY_BYTES;
        }
    }

    /// Makes the entries for `size` bytes from MC address `mc` on invalid.
    fn clear(&self, mc: u64, size: u64) -> Result {
        let entries = (size >> PAGE_SHIFT) as usize;
        self.vram_map
            .fill64(self.entry(mc), Pte::INVALID.raw(), entries)
    }
}

/// The GART of a GPU. It has a lock of its own, a mutex.
pub(crate) struct Gart(Arc<GartTable>);

impl Gart {
    /// Creates an empty GART of `size` bytes from MC address `start` on, with its table in `vram`.
    /// It is not enabled yet: see [`Gmc::enable_gart`].
    ///
    /// # Errors
    ///
    /// `EINVAL` if a bound is not page aligned or they wrap; `ENOMEM`.
    pub(crate) fn new(
        vram: &VramManager,
        vram_map: &Arc<VramMap>,
        gmc: &Arc<Gmc>,
        ledger: &Arc<Ledger>,
        start: u64,
        size: u64,
    ) -> Result<Self> {
        let end = start.checked_add(size).ok_or(EINVAL)?;
        if size == 0 || (start | size) % PAGE_SIZE != 0 {
            return Err(EINVAL);
        }
        let memory = vram.alloc_table((size >> PAGE_SHIFT) * ENTRY_BYTES)?;
        let table = Arc::new(
            GartTable {
                addresses: AddressAllocator::new(start..end)?,
                start,
                memory,
                vram_map: vram_map.clone(),
                gmc: gmc.clone(),
                ledger: ledger.clone(),
            },
            GFP_KERNEL,
        )?;
        table.clear(start, size)?;
        Ok(Self(table))
    }

    /// Returns the VRAM offset of the table.
    pub(crate) fn table(&self) -> u64 {
        self.0.memory.start()
    }

    /// Returns where in VRAM the table is.
    pub(super) fn runs(&self) -> &[VramRun] {
        self.0.memory.runs()
    }

    /// Maps `pages` at an address in the GART. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there is no room; `ENOMEM`; `ENODEV` if the pages or the device are gone;
    /// `ETIMEDOUT` if the hardware does not answer.
    pub(crate) fn bind(&self, pages: SystemPages) -> Result<GartBuffer> {
        self.bind_as(pages, &|_| true)
    }

    /// Like [`Gart::bind`], for a queue's descriptors, of which there is one at every multiple of
    /// `stride`: its page is not cached. The control stack behind it is cached (MTYPE NC), as the
    /// CP of gfx9 needs it.
    pub(crate) fn bind_descriptors(&self, pages: SystemPages, stride: u64) -> Result<GartBuffer> {
        self.bind_as(pages, &|offset| offset.checked_rem(stride) == Some(0))
    }

    fn bind_as(&self, pages: SystemPages, is_uncached: &dyn Fn(u64) -> bool) -> Result<GartBuffer> {
        if !pages.is_mapped() {
            return Err(ENODEV);
        }
        // From here on a failure undoes everything.
        let buffer = GartBuffer {
            node: self.alloc(pages.size())?,
            pages,
        };
        let mc = buffer.mc_addr();
        let runs = buffer.pages.dma_runs().iter().copied();
        self.0.write(mc, runs, is_uncached)?;
        self.0.gmc.flush(Vmid::KERNEL, TlbFlush::Legacy)?;
        Ok(buffer)
    }

    fn alloc(&self, size: u64) -> Result<GartNode> {
        Ok(GartNode {
            mc: self.0.addresses.alloc(size)?,
            size,
            given_back: false,
            _hold: self
                .0
                .ledger
                .hold(LedgerKind::GartPages, size >> PAGE_SHIFT),
            table: self.0.clone(),
        })
    }

    /// Allocates `size` bytes of addresses, whole pages, with no memory behind them.
    ///
    /// # Errors
    ///
    /// `ENOSPC`, `ENOMEM`.
    pub(crate) fn window(&self, size: u64) -> Result<Arc<GartWindow>> {
        Ok(Arc::new(GartWindow(self.alloc(size)?), GFP_KERNEL)?)
    }
}

/// A range of the GART's address space. Once it is freed, it maps no memory.
struct GartNode {
    mc: u64,
    size: u64,
    given_back: bool,
    _hold: LedgerHold,
    table: Arc<GartTable>,
}

/// Addresses in the GART that map the parts of a buffer one after the other.
pub(crate) struct GartWindow(GartNode);

impl GartWindow {
    /// Returns the address of the first byte for engines that work in VMID 0.
    pub(crate) fn mc_addr(&self) -> u64 {
        self.0.mc
    }

    /// Maps the `size` bytes at byte `at` of `runs` at the addresses. No engine uses the memory
    /// that was mapped there before. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the bytes exceed the window; `ENODEV`, `ETIMEDOUT`.
    pub(crate) fn show(&self, runs: impl Iterator<Item = DmaRun>, at: u64, size: u64) -> Result {
        if size > self.0.size {
            return Err(EINVAL);
        }
        let mut skip = at;
        let mut left = size;
        let parts = runs.filter_map(|run| {
            let skipped = skip.min(run.size);
            skip -= skipped;
            let size = left.min(run.size - skipped);
            left -= size;
            (size != 0).then_some(DmaRun {
                address: run.address + skipped,
                size,
            })
        });
        self.0.table.write(self.0.mc, parts, &|_| true)?;
        self.0.table.gmc.flush(Vmid::KERNEL, TlbFlush::Legacy)
    }

    /// Unmaps the memory at the addresses. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone, and accesses no memory; `ETIMEDOUT` if it may still access
    /// the memory that was mapped.
    pub(crate) fn hide(&self) -> Result {
        self.0.table.clear(self.0.mc, self.0.size)?;
        self.0.table.gmc.flush(Vmid::KERNEL, TlbFlush::Heavyweight)
    }
}

/// Memory that jobs of the kernel rings read and write. It stays until the engines are done with
/// it, even if all other owners have released it.
pub(crate) enum JobMemory {
    /// VRAM alone.
    Vram { _blocks: Arc<VramBlocks> },
    /// VRAM and system memory, with the window in which VMID 0 sees the system memory.
    Pairs {
        _window: Arc<GartWindow>,
        _pairs: Arc<KVVec<VramSystemPair>>,
    },
    /// The window in which VMID 0 sees system memory that another owner keeps, and VRAM that is
    /// written.
    Shown {
        _window: Arc<GartWindow>,
        _vram: Option<Arc<ReclaimableVram>>,
    },
    /// System memory for a copy of VRAM, with the window in which VMID 0 sees it. The owner of the
    /// VRAM keeps that alive.
    Image {
        _window: Arc<GartWindow>,
        _pages: Arc<SystemPages>,
    },
}

/// The VRAM and the system memory of a buffer, of the same size.
pub(crate) struct VramSystemPair {
    /// The VRAM.
    pub(crate) blocks: Arc<VramBlocks>,
    /// The system memory.
    pub(crate) pages: Arc<SystemPages>,
}

impl JobMemory {
    /// Returns a reference to VRAM.
    pub(crate) fn vram(blocks: &Arc<VramBlocks>) -> Self {
        Self::Vram {
            _blocks: blocks.clone(),
        }
    }

    /// Returns a reference to system memory that is visible in the window.
    pub(super) fn image(pages: &Arc<SystemPages>, window: &Arc<GartWindow>) -> Self {
        Self::Image {
            _window: window.clone(),
            _pages: pages.clone(),
        }
    }

    /// Returns a reference to VRAM and system memory, a part of which is visible in the window.
    pub(crate) fn pairs(pairs: &Arc<KVVec<VramSystemPair>>, window: &Arc<GartWindow>) -> Self {
        Self::Pairs {
            _window: window.clone(),
            _pairs: pairs.clone(),
        }
    }

    /// Returns a reference to the window, of which the owners keep or unmap the memory, and to the
    /// VRAM that is written, if any is.
    pub(crate) fn shown(window: &Arc<GartWindow>, vram: Option<Arc<ReclaimableVram>>) -> Self {
        Self::Shown {
            _window: window.clone(),
            _vram: vram,
        }
    }
}

/// System memory with an address in the GART, until it is dropped. Its accessors are those of
/// [`SystemPages`].
pub(crate) struct GartBuffer {
    node: GartNode,
    pages: SystemPages,
}

impl GartBuffer {
    /// Returns the address of the first byte for engines that work in VMID 0.
    pub(crate) fn mc_addr(&self) -> u64 {
        self.node.mc
    }
}

impl Deref for GartBuffer {
    type Target = SystemPages;

    fn deref(&self) -> &SystemPages {
        &self.pages
    }
}

impl Drop for GartBuffer {
    fn drop(&mut self) {
        // The GPU loses the addresses before the memory is freed. If it may not have lost them, the
        // memory is leaked.
        if !self.node.unmap_and_free() {
            self.pages.leak();
        }
    }
}

impl GartNode {
    /// Unmaps the memory at the addresses, and frees the addresses. Returns whether the GPU
    /// accesses no memory there any more. A second call does nothing.
    fn unmap_and_free(&mut self) -> bool {
        if core::mem::replace(&mut self.given_back, true) {
            return true;
        }
        let cleared = self.table.clear(self.mc, self.size);
        let flushed = self.table.gmc.flush(Vmid::KERNEL, TlbFlush::Heavyweight);
        // ENODEV: the device is gone and accesses no memory. After another failure the addresses
        // may still lead to the old memory, so they are not used again.
        if matches!(cleared, Ok(()) | Err(ENODEV)) && matches!(flushed, Ok(()) | Err(ENODEV)) {
            self.table.addresses.free(self.mc);
            true
        } else {
            dev_err_ratelimited!(
                self.table.gmc.dev(),
                "the GPU does not answer a flush: GART address {:#x}, and the driver's memory \
                 there, is not used again\n",
                self.mc
            );
            false
        }
    }
}

impl Drop for GartNode {
    fn drop(&mut self) {
        self.unmap_and_free();
    }
}
