// SPDX-License-Identifier: GPL-2.0
//! VRAM that processes use as memory of their own (shared virtual memory). It is the VRAM that
//! buffers leave free: as soon as a buffer needs it, it is reclaimed, and its content moves to
//! system memory.

use super::{
    copy_engine::CopyLane,
    gart::{GartWindow, JobMemory},
    vram::{ReclaimableVram, VramReclaimer},
    GpuMemory,
};
use crate::kern::device_memory::{CopyFailed, DeviceMemory, DeviceSpace, MemoryStore};
use crate::kern::pages::DmaRun;
use core::mem;
use hw::va::{LARGE_PAGE_SIZE, PAGE_SIZE};
use kernel::{
    dev_err, dev_notice, new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

/// The pages of that VRAM for which there are `struct page`s.
enum VramPages {
    /// No process has needed them yet.
    Unused,
    /// They exist.
    Present(Arc<DeviceMemory>),
    /// They do not exist, and will not.
    None,
}

/// The part of a GPU's VRAM that processes use as memory of their own.
#[pin_data]
pub(crate) struct SharedVram {
    #[pin]
    pages: Mutex<VramPages>,
}

impl SharedVram {
    /// Creates it without pages.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                pages <- new_mutex!(VramPages::Unused, "SharedVram::pages"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the pages, if a process has needed them.
    pub(crate) fn get(&self) -> Option<Arc<DeviceMemory>> {
        match &*self.pages.lock() {
            VramPages::Present(memory) => Some(memory.clone()),
            VramPages::Unused | VramPages::None => None,
        }
    }

    /// Returns the pages, and creates them on the first call. `None` if there is no memory for
    /// their structures (this is tried once), or the device is being removed. May sleep.
    pub(crate) fn open(&self, gpu: &Arc<GpuMemory>) -> Option<Arc<DeviceMemory>> {
        let mut pages = self.pages.lock();
        if let VramPages::Unused = *pages {
            let size = (gpu.vram.total() / LARGE_PAGE_SIZE * LARGE_PAGE_SIZE) as usize;
            let created = VramCopier::new(gpu).and_then(|copier| {
                let store = KBox::new(copier, GFP_KERNEL)?;
                DeviceMemory::new(&gpu.hw.dev, size, store)
            });
            *pages = match created {
                Ok(memory) => VramPages::Present(memory),
                Err(error) => {
                    dev_notice!(
                        &*gpu.hw.dev,
                        "shared virtual memory stays in system memory: \
                         no pages for VRAM: {error:?}\n"
                    );
                    VramPages::None
                }
            };
        }
        match &*pages {
            VramPages::Present(memory) => Some(memory.clone()),
            VramPages::Unused | VramPages::None => None,
        }
    }

    /// Moves all of it to system memory: the device is about to be removed, and no process has the
    /// GPU any more. Takes a bounded time. May sleep.
    pub(crate) fn close(&self, gpu: &GpuMemory) {
        let pages = mem::replace(&mut *self.pages.lock(), VramPages::None);
        let VramPages::Present(memory) = pages else {
            return;
        };
        if !memory.close() {
            dev_err!(
                &*gpu.hw.dev,
                "memory of processes is held in VRAM and lost: the module stays\n"
            );
        }
    }
}

impl VramReclaimer for SharedVram {
    fn reclaim(&self, enough: &dyn Fn() -> bool) {
        if let Some(memory) = self.get() {
            memory.evict(enough);
        }
    }
}

/// Copies with the engines, which see system memory through a window in the GART.
#[pin_data]
struct VramCopier {
    /// A window that is not in use, as long as there are pages in VRAM. The lock is held during a
    /// copy, inside the locks of pages.
    #[pin]
    window: Mutex<Option<Arc<GartWindow>>>,
    /// The number of allocations that are not freed yet.
    taken: Atomic<usize>,
    gpu: Arc<GpuMemory>,
}

/// The direction of a copy.
#[derive(Clone, Copy, PartialEq)]
enum CopyDirection {
    In,
    Out,
}

impl VramCopier {
    fn new(gpu: &Arc<GpuMemory>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                window <- new_mutex!(None, "VramCopier::window"),
                taken: Atomic::new(0),
                gpu: gpu.clone(),
            }),
            GFP_KERNEL,
        )
    }

    /// Copies between `runs` and the pages at `places`. The pages are in `blocks` if these have to
    /// be kept for the copy.
    fn copy(
        &self,
        direction: CopyDirection,
        places: &[u64],
        runs: &[DmaRun],
        blocks: Option<Arc<ReclaimableVram>>,
    ) -> Result<(), CopyFailed> {
        let mut slot = self.window.lock();
        let window = match slot.take() {
            Some(window) => window,
            None => self.gpu.gart.window(LARGE_PAGE_SIZE)?,
        };
        let size = places.len() as u64 * PAGE_SIZE;
        let copied = window
            .show(runs.iter().copied(), 0, size)
            .and_then(|()| self.copy_shown(direction, places, &window, blocks));
        let hidden = window.hide();
        match (copied, hidden) {
            (Ok(()), Ok(())) => {
                *slot = Some(window);
                Ok(())
            }
            // The GPU is gone, or does not see the pages any more: an engine that still copies
            // accesses no memory.
            (Err(error), Ok(()) | Err(ENODEV)) => Err(error.into()),
            (Ok(()), Err(ENODEV)) => Ok(()),
            (copied, Err(error)) => Err(CopyFailed {
                error: copied.err().unwrap_or(error),
                under_way: true,
            }),
        }
    }

    /// Copies as [`VramCopier::copy`] does, once the runs are visible in `window`.
    fn copy_shown(
        &self,
        direction: CopyDirection,
        places: &[u64],
        window: &Arc<GartWindow>,
        blocks: Option<Arc<ReclaimableVram>>,
    ) -> Result {
        let vram = self.gpu.hw.gmc.fb_base();
        let mut next = 0;
        let mut pieces = core::iter::from_fn(|| {
            let first = next;
            let place = *places.get(first)?;
            let follows = |(count, &at): &(usize, &u64)| at == place + *count as u64 * PAGE_SIZE;
            let rest = places.get(first..)?.iter().enumerate();
            let count = rest.take_while(follows).count();
            next += count;
            let system = window.mc_addr() + first as u64 * PAGE_SIZE;
            let (local, size) = (vram + place, count as u64 * PAGE_SIZE);
            Some(match direction {
                CopyDirection::In => (system, local, size),
                CopyDirection::Out => (local, system, size),
            })
        });
        let memory = JobMemory::shown(window, blocks);
        let engine = self.gpu.copy_engine()?;
        engine.copy(&mut pieces, memory, CopyLane::Pages)
    }
}

/// VRAM for pages of a process.
struct TakenVram {
    copier: Arc<VramCopier>,
    vram: Arc<ReclaimableVram>,
}

impl TakenVram {
    fn new(copier: &Arc<VramCopier>, vram: Arc<ReclaimableVram>) -> Result<Arc<Self>> {
        copier.taken.add(1, Relaxed);
        let taken = Self {
            copier: copier.clone(),
            vram,
        };
        Ok(Arc::new(taken, GFP_KERNEL)?)
    }
}

impl Drop for TakenVram {
    fn drop(&mut self) {
        if self.copier.taken.fetch_sub(1, Relaxed) == 1 {
            let window = self.copier.window.lock().take();
            drop(window);
        }
    }
}

impl MemoryStore for Arc<VramCopier> {
    fn alloc(&self, pages: usize, zeroed: bool) -> Result<Arc<dyn DeviceSpace>> {
        let gpu = &self.gpu;
        let vram = gpu
            .vram
            .alloc_reclaimable(pages as u64 * PAGE_SIZE, zeroed)?;
        let vram = Arc::new(vram, GFP_KERNEL)?;
        if zeroed && !vram.blocks().were_cleared() {
            gpu.copy_engine()?.fill(vram.blocks(), 0, CopyLane::Pages)?;
        }
        Ok(TakenVram::new(self, vram)?)
    }

    fn copy_out(&self, places: &[u64], runs: &[DmaRun]) -> Result<(), CopyFailed> {
        self.copy(CopyDirection::Out, places, runs, None)
    }
}

impl DeviceSpace for TakenVram {
    fn place(&self, page: usize) -> Option<u64> {
        let (offset, _) = self.vram.blocks().locate(page as u64 * PAGE_SIZE)?;
        Some(offset)
    }

    fn copy_in(&self, runs: &[DmaRun], places: &[u64]) -> Result {
        let copied = self
            .copier
            .copy(CopyDirection::In, places, runs, Some(self.vram.clone()));
        copied.map_err(|failed| failed.error)
    }
}
