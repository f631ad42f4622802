// SPDX-License-Identifier: GPL-2.0
//! A copy of the content of VRAM while the machine is suspended and the GPU has no power: buffers,
//! page tables, and all other allocations. All of it is restored to its place, so no owner needs to
//! know.
//!
//! The engines copy it to system memory and back. They see the system memory through the GART. The
//! CPU copies the GART's own table, without which the engines see no system memory. System memory
//! for all of it is allocated while programs run: later no program could make room.

use core::cmp::{max, min};

use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::sync::Arc;

use super::copy_engine::CopyLane;
use super::gart::JobMemory;
use super::vram::{VramBlocks, VramRun};
use super::GpuMemory;
use crate::kern::memory;
use crate::kern::pages::SystemPages;

/// Bytes of a piece of system memory: the engines see one at a time. An eighth of the GART.
const PIECE: u64 = 64 << 20;

/// The divisor of all system memory that gives the part to leave to others.
const LEFT_PART: u64 = 16;

/// The direction of a copy.
#[derive(Clone, Copy)]
enum ImageDirection {
    Out,
    Home,
}

/// System memory for the content of VRAM, and that content.
pub(crate) struct VramImage {
    pieces: KVVec<Arc<SystemPages>>,
    /// The GART's table.
    table: KVVec<u32>,
    /// The runs of VRAM that are saved in the pieces; none while the machine is not suspended.
    runs: KVVec<VramRun>,
    /// The remaining VRAM, allocated so that no buffer gets it meanwhile. Its content is undefined
    /// afterwards.
    free: [Option<VramBlocks>; 2],
}

impl VramImage {
    /// Allocates system memory for the current content. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINTR` if the caller is killed.
    pub(crate) fn new(gpu: &GpuMemory) -> Result<Self> {
        let bytes = gpu.gart.runs().iter().map(|run| run.size).sum::<u64>();
        let mut image = Self {
            pieces: KVVec::new(),
            table: KVVec::from_elem(0, bytes as usize / 4, GFP_KERNEL)?,
            runs: KVVec::new(),
            free: [None, None],
        };
        image.grow(gpu, gpu.vram.used())?;
        Ok(image)
    }

    /// Allocates system memory for `bytes` bytes, if there is less.
    ///
    /// # Errors
    ///
    /// Those of [`VramImage::new`].
    fn grow(&mut self, gpu: &GpuMemory, bytes: u64) -> Result {
        // No process is to be killed for it, and a machine that is being suspended needs some
        // memory itself.
        let more = bytes.saturating_sub(self.bytes());
        if more != 0 && more + memory::total() / LEFT_PART > memory::available() {
            return Err(ENOMEM);
        }
        while (self.pieces.len() as u64) * PIECE < bytes {
            let pages = SystemPages::alloc_dirty(&gpu.hw.dev, PIECE as usize)?;
            let pages = Arc::new(pages, GFP_KERNEL)?;
            self.pieces.push(pages, GFP_KERNEL)?;
        }
        Ok(())
    }

    /// Returns the bytes of system memory that the image takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.len() as u64 * PIECE
    }

    /// Saves the content of VRAM, except `others`, which have other owners, and except the GART's
    /// table. VRAM is not written or allocated any more. May sleep.
    ///
    /// # Errors
    ///
    /// After an error VRAM is as it was. `ENOMEM`; `ENOSPC` in the GART; errors of the engines.
    pub(crate) fn save(
        &mut self,
        gpu: &GpuMemory,
        others: &mut dyn Iterator<Item = VramRun>,
    ) -> Result {
        let saved = self.try_save(gpu, others);
        if saved.is_err() {
            self.end();
        }
        saved
    }

    fn try_save(&mut self, gpu: &GpuMemory, others: &mut dyn Iterator<Item = VramRun>) -> Result {
        self.free = gpu.vram.alloc_all_free()?;
        // Sizes in bytes by the offset of the first byte.
        let mut left_out = RBTree::new();
        let free = self.free.iter().flatten();
        let free = free.flat_map(|free| free.runs()).copied();
        let table = gpu.gart.runs().iter().copied();
        for run in Iterator::chain(Iterator::chain(free, table), others) {
            left_out.try_create_and_insert(run.offset, run.size, GFP_KERNEL)?;
        }
        // The end belongs to firmware.
        let last = gpu.vram.total() - gpu.vram.kept();
        let (mut offset, mut at) = (0, 0);
        for (&next, &bytes) in Iterator::chain(left_out.iter(), [(&last, &0)]) {
            let until = min(next, last);
            if until > offset {
                let size = until - offset;
                self.runs.push(VramRun { offset, at, size }, GFP_KERNEL)?;
                at += size;
            }
            offset = max(offset, next + bytes);
        }
        self.grow(gpu, at)?;
        // Makes earlier writes of the CPU reach VRAM.
        gpu.hw.hdp.flush();
        self.copy(gpu, ImageDirection::Out)
    }

    /// Saves the GART's table. No addresses are allocated there any more before
    /// [`VramImage::restore_table`].
    ///
    /// # Errors
    ///
    /// `ENODEV`.
    pub(crate) fn save_table(&mut self, gpu: &GpuMemory) -> Result {
        gpu.hw.hdp.flush();
        gpu.hw.vram_map.read32s(gpu.gart.table(), &mut self.table)
    }

    /// Restores the GART's table, before the GART is enabled.
    ///
    /// # Errors
    ///
    /// `ENODEV`.
    pub(crate) fn restore_table(&self, gpu: &GpuMemory) -> Result {
        gpu.hw.vram_map.write32s(gpu.gart.table(), &self.table)?;
        gpu.hw.hdp.flush();
        Ok(())
    }

    /// Restores all other content, and frees the remaining VRAM for others. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` in the GART; errors of the engines.
    pub(crate) fn restore(&mut self, gpu: &GpuMemory) -> Result {
        let copied = self.copy(gpu, ImageDirection::Home);
        // Data that the CPU has read in this VRAM before is stale.
        gpu.hw.hdp.flush();
        self.end();
        copied
    }

    /// Discards the saved content: VRAM still has it. Frees the remaining VRAM for others.
    pub(crate) fn discard(&mut self) {
        self.end();
    }

    /// Marks the image as empty.
    fn end(&mut self) {
        self.runs.clear();
        self.free = [None, None];
    }

    fn copy(&self, gpu: &GpuMemory, direction: ImageDirection) -> Result {
        let vram = gpu.hw.gmc.fb_base();
        let all = self.runs.last().map_or(0, |run| run.at + run.size);
        let window = gpu.gart.window(PIECE)?;
        for (pages, start) in self.pieces.iter().zip((0..all).step_by(PIECE as usize)) {
            let end = min(all, start + PIECE);
            window.show(pages.dma_runs().iter().copied(), 0, PIECE)?;
            let mut runs = self.runs.iter();
            let mut pieces = core::iter::from_fn(|| {
                let mut inside = runs.by_ref().filter_map(|run| {
                    let from = max(run.at, start);
                    let to = min(run.at + run.size, end);
                    (from < to).then(|| (run.offset + (from - run.at), from, to - from))
                });
                let (offset, from, size) = inside.next()?;
                let local = vram + offset;
                let system = window.mc_addr() + (from - start);
                Some(match direction {
                    ImageDirection::Out => (local, system, size),
                    ImageDirection::Home => (system, local, size),
                })
            });
            let memory = JobMemory::image(pages, &window);
            gpu.copy_engine()?
                .copy(&mut pieces, memory, CopyLane::All)?;
        }
        Ok(())
    }
}
