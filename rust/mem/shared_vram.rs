// SPDX-License-Identifier: GPL-2.0
//! VRAM that processes have as memory of their own (shared virtual memory). It is what buffers leave free: they have it as soon as they
//! want it, and what was there comes to system memory.

use super::{
    copy_engine::Lane,
    gart::{JobMemory, Window},
    vram::{Reclaimable, Reclaimer},
    Memory,
};
use crate::kern::device_memory::{DeviceMemory, NotCopied, Room, Store};
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
enum Pages {
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
    pages: Mutex<Pages>,
}

impl SharedVram {
    /// Nothing yet. ENOMEM.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                pages <- new_mutex!(Pages::Unused, "SharedVram::pages"),
            }),
            GFP_KERNEL,
        )
    }

    /// The pages, if anybody has wanted them.
    pub(crate) fn get(&self) -> Option<Arc<DeviceMemory>> {
        match &*self.pages.lock() {
            Pages::There(memory) => Some(memory.clone()),
            Pages::Unused | Pages::None => None,
        }
    }

    /// The pages. `None` when there are no structures to be had for them, which is tried once, or the device goes. Sleeps.
    pub(crate) fn open(&self, gpu: &Arc<Memory>) -> Option<Arc<DeviceMemory>> {
        let mut pages = self.pages.lock();
        if let Pages::Unused = *pages {
            let size = (gpu.vram.total() / LARGE_PAGE_SIZE * LARGE_PAGE_SIZE) as usize;
            let made = Copier::new(gpu).and_then(|copier| {
                let store = KBox::new(copier, GFP_KERNEL)?;
                DeviceMemory::new(&gpu.hw.dev, size, store)
            });
            *pages = match made {
                Ok(memory) => Pages::There(memory),
                Err(error) => {
                    dev_notice!(
                        &*gpu.hw.dev,
                        "shared virtual memory stays in system memory: no pages for VRAM: {error:?}\n"
                    );
                    Pages::None
                }
            };
        }
        match &*pages {
            Pages::There(memory) => Some(memory.clone()),
            Pages::Unused | Pages::None => None,
        }
    }

    /// All of it comes to system memory: the device is about to go, and no process has the GPU any more. Bounded; sleeps.
    pub(crate) fn close(&self, gpu: &Memory) {
        let pages = mem::replace(&mut *self.pages.lock(), Pages::None);
        let Pages::There(memory) = pages else {
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

impl Reclaimer for SharedVram {
    fn reclaim(&self, enough: &dyn Fn() -> bool) {
        if let Some(memory) = self.get() {
            memory.evict(enough);
        }
    }
}

/// Copies by the engines, which see system memory through a window in the GART.
#[pin_data]
struct Copier {
    /// A window that nobody uses, as long as there are pages in VRAM. Held over a copy: inside the locks of pages.
    #[pin]
    window: Mutex<Option<Arc<Window>>>,
    /// What was taken and is not free again.
    taken: Atomic<usize>,
    gpu: Arc<Memory>,
}

/// Which way.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    In,
    Out,
}

impl Copier {
    fn new(gpu: &Arc<Memory>) -> Result<Arc<Self>> {
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
        way: Way,
        places: &[u64],
        runs: &[DmaRun],
        blocks: Option<Arc<Reclaimable>>,
    ) -> Result<(), NotCopied> {
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
            (copied, Err(error)) => Err(NotCopied {
                error: copied.err().unwrap_or(error),
                under_way: true,
            }),
        }
    }

    /// The same, once the runs are behind `window`.
    fn copy_shown(
        &self,
        way: Way,
        places: &[u64],
        window: &Arc<Window>,
        blocks: Option<Arc<Reclaimable>>,
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
                Way::In => (here, there, size),
                Way::Out => (there, here, size),
            })
        });
        let memory = JobMemory::shown(window, blocks);
        let engine = self.gpu.copy_engine()?;
        engine.copy(&mut pieces, memory, Lane::Pages)
    }
}

/// VRAM for pages of a process.
struct Taken {
    copier: Arc<Copier>,
    vram: Arc<Reclaimable>,
}

impl Taken {
    fn new(copier: &Arc<Copier>, vram: Arc<Reclaimable>) -> Result<Arc<Self>> {
        copier.taken.add(1, Relaxed);
        let taken = Self {
            copier: copier.clone(),
            vram,
        };
        Ok(Arc::new(taken, GFP_KERNEL)?)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.copier.taken.fetch_sub(1, Relaxed) == 1 {
            let window = self.copier.window.lock().take();
            drop(window);
        }
    }
}

impl Store for Arc<Copier> {
    fn take(&self, pages: usize, zeroed: bool) -> Result<Arc<dyn Room>> {
        let gpu = &self.gpu;
        let vram = gpu
            .vram
            .alloc_reclaimable(pages as u64 * PAGE_SIZE, zeroed)?;
        let vram = Arc::new(vram, GFP_KERNEL)?;
        if zeroed && !vram.blocks().were_cleared() {
            gpu.copy_engine()?.fill(vram.blocks(), 0, Lane::Pages)?;
        }
        Ok(Taken::new(self, vram)?)
    }

    fn copy_out(&self, places: &[u64], runs: &[DmaRun]) -> Result<(), NotCopied> {
        self.copy(Way::Out, places, runs, None)
    }
}

impl Room for Taken {
    fn place(&self, page: usize) -> Option<u64> {
        let (offset, _) = self.vram.blocks().locate(page as u64 * PAGE_SIZE)?;
        Some(offset)
    }

    fn copy_in(&self, runs: &[DmaRun], places: &[u64]) -> Result {
        let copied = self
            .copier
            .copy(Way::In, places, runs, Some(self.vram.clone()));
        copied.map_err(|failed| failed.error)
    }
}
