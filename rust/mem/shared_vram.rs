// SPDX-License-Identifier: GPL-2.0
//! VRAM that processes have as memory of their own (shared virtual memory). It is what buffers leave free: they have it as soon as they
//! want it, and what was there comes to system memory.

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

/// The pages of it that there are structures for.
enum VramPages {
    /// Nobody has wanted them yet.
    Unused,
    /// There are some.
    There(Arc<DeviceMemory>),
    /// There are none, and will be none.
    None,
}

/// What processes have of a GPU's VRAM.
#[pin_data]
pub(crate) struct SharedVram {
    #[pin]
    pages: Mutex<VramPages>,
}

impl SharedVram {
    /// Nothing yet. ENOMEM.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                pages <- new_mutex!(VramPages::Unused, "SharedVram::pages"),
            }),
            GFP_KERNEL,
        )
    }

    /// The pages, if anybody has wanted them.
    pub(crate) fn get(&self) -> Option<Arc<DeviceMemory>> {
        match &*self.pages.lock() {
            VramPages::There(memory) => Some(memory.clone()),
            VramPages::Unused | VramPages::None => None,
        }
    }

    /// The pages. `None` when there are no structures to be had for them, which is tried once, or the device goes. Sleeps.
    pub(crate) fn open(&self, gpu: &Arc<GpuMemory>) -> Option<Arc<DeviceMemory>> {
        let mut pages = self.pages.lock();
        if let VramPages::Unused = *pages {
            let size = (gpu.vram.total() / LARGE_PAGE_SIZE * LARGE_PAGE_SIZE) as usize;
            let made = VramCopier::new(gpu).and_then(|copier| {
                let store = KBox::new(copier, GFP_KERNEL)?;
                DeviceMemory::new(&gpu.hw.dev, size, store)
            });
            *pages = match made {
                Ok(memory) => VramPages::There(memory),
                Err(error) => {
                    dev_notice!(
                        &*gpu.hw.dev,
                        "shared virtual memory stays in system memory: no pages for VRAM: {error:?}\n"
                    );
                    VramPages::None
                }
            };
        }
        match &*pages {
            VramPages::There(memory) => Some(memory.clone()),
            VramPages::Unused | VramPages::None => None,
        }
    }

    /// All of it comes to system memory: the device is about to go, and no process has the GPU any more. Bounded; sleeps.
    pub(crate) fn close(&self, gpu: &GpuMemory) {
        let pages = mem::replace(&mut *self.pages.lock(), VramPages::None);
        let VramPages::There(memory) = pages else {
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

/// Copies by the engines, which see system memory through a window in the GART.
#[pin_data]
struct VramCopier {
    /// A window that nobody uses, as long as there are pages in VRAM. Held over a copy: inside the locks of pages.
    #[pin]
    window: Mutex<Option<Arc<GartWindow>>>,
    /// What was taken and is not free again.
    taken: Atomic<usize>,
    gpu: Arc<GpuMemory>,
}

/// Which way.
#[derive(Clone, Copy, PartialEq)]
enum CopyDirection {
    In,
    Out,
}

impl VramCopier {
    fn new(gpu: &Arc<GpuMemory>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                window <- new_mutex!(None, "Copier::window"),
                taken: Atomic::new(0),
                gpu: gpu.clone(),
            }),
            GFP_KERNEL,
        )
    }

    /// Copies between `runs` and the pages at `places`, which are in `blocks` if they are to be kept.
    fn copy(
        &self,
        way: CopyDirection,
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
            .and_then(|()| self.copy_shown(way, places, &window, blocks));
        let hidden = window.hide();
        match (copied, hidden) {
            (Ok(()), Ok(())) => {
                *slot = Some(window);
                Ok(())
            }
            // The GPU is gone, or does not see the pages any more: who still copies does it to nowhere.
            (Err(error), Ok(()) | Err(ENODEV)) => Err(error.into()),
            (Ok(()), Err(ENODEV)) => Ok(()),
            (copied, Err(error)) => Err(CopyFailed {
                error: copied.err().unwrap_or(error),
                under_way: true,
            }),
        }
    }

    /// The same, once the runs are behind `window`.
    fn copy_shown(
        &self,
        way: CopyDirection,
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
            let here = window.mc_addr() + first as u64 * PAGE_SIZE;
            let (there, size) = (vram + place, count as u64 * PAGE_SIZE);
            Some(match way {
                CopyDirection::In => (here, there, size),
                CopyDirection::Out => (there, here, size),
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
