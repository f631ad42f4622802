// SPDX-License-Identifier: GPL-2.0
//! What VRAM holds while the machine sleeps and the GPU has no power: buffers, page tables, whatever anybody has there. All of it comes back to
//! where it was, so that nobody has to know.
//!
//! The engines copy it to system memory and back, which they see through the GART; the GART's own table, without which they see
//! nothing, the CPU. System memory for all of it is taken while programs run: later there is nobody who could make room.

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

/// This part of all system memory is left to others.
const LEFT_PART: u64 = 16;

/// Which way.
#[derive(Clone, Copy)]
enum ImageDirection {
    Out,
    Home,
}

/// Room for what VRAM holds, and that.
pub(crate) struct VramImage {
    pieces: KVVec<Arc<SystemPages>>,
    /// The GART's table.
    table: KVVec<u32>,
    /// What is in the pieces; none between two sleeps.
    runs: KVVec<VramRun>,
    /// The rest, which nobody gets meanwhile, and in which there may be anything after it.
    free: [Option<VramBlocks>; 2],
}

impl VramImage {
    /// Room for what there is now. `ENOMEM`, `EINTR` when the caller is killed. Sleeps.
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

    /// Makes room for `bytes` bytes, if there is not. Errors as [`VramImage::new`].
    fn grow(&mut self, gpu: &GpuMemory, bytes: u64) -> Result {
        // Nobody is to be killed for it, and a machine that sleeps needs some itself.
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

    /// Bytes of system memory that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.len() as u64 * PIECE
    }

    /// Saves what VRAM holds, but for `others`, which is somebody else's, and for the GART's table. Nobody writes to it any more, or gets any. `ENOMEM`, `ENOSPC` in the GART; errors
    /// of the engines; VRAM is as it was then. Sleeps.
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
        // Bytes by the first one's offset.
        let mut left_out = RBTree::new();
        let free = self.free.iter().flatten();
        let free = free.flat_map(|free| free.runs()).copied();
        let table = gpu.gart.runs().iter().copied();
        for run in Iterator::chain(Iterator::chain(free, table), others) {
            left_out.try_create_and_insert(run.offset, run.size, GFP_KERNEL)?;
        }
        // Firmware's is the end.
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
        // What the CPU has written is there.
        gpu.hw.hdp.flush();
        self.copy(gpu, ImageDirection::Out)
    }

    /// Saves the GART's table. Nothing is given addresses there any more before [`VramImage::restore_table`]. `ENODEV`.
    pub(crate) fn save_table(&mut self, gpu: &GpuMemory) -> Result {
        gpu.hw.hdp.flush();
        gpu.hw.vram_map.read32s(gpu.gart.table(), &mut self.table)
    }

    /// Brings the GART's table back, before the GART is on. `ENODEV`.
    pub(crate) fn restore_table(&self, gpu: &GpuMemory) -> Result {
        gpu.hw.vram_map.write32s(gpu.gart.table(), &self.table)?;
        gpu.hw.hdp.flush();
        Ok(())
    }

    /// Brings all else back, and lets others have the rest again. `ENOMEM`, `ENOSPC` in the GART; errors of the engines. Sleeps.
    pub(crate) fn restore(&mut self, gpu: &GpuMemory) -> Result {
        let copied = self.copy(gpu, ImageDirection::Home);
        // What the CPU has read there before is another's.
        gpu.hw.hdp.flush();
        self.end();
        copied
    }

    /// What was saved is not needed: VRAM has it. Others have the rest again.
    pub(crate) fn discard(&mut self) {
        self.end();
    }

    /// Nothing is in it.
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
                let here = vram + offset;
                let there = window.mc_addr() + (from - start);
                Some(match direction {
                    ImageDirection::Out => (here, there, size),
                    ImageDirection::Home => (there, here, size),
                })
            });
            let memory = JobMemory::image(pages, &window);
            gpu.copy_engine()?
                .copy(&mut pieces, memory, CopyLane::All)?;
        }
        Ok(())
    }
}
