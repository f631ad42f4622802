// SPDX-License-Identifier: GPL-2.0
//! The transfer of a process's pages to a device: the frames that HMM has found, and their
//! mappings.

use crate::{
    ffi,
    kern::{
        device_memory::DeviceMemory,
        dma_map::{DmaMap, DmaRun, MAX_PIECE},
    },
};
use core::ptr::NonNull;
use kernel::{
    device::Device,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{ordering::Full, AtomicFlag, Relaxed},
        Arc,
    },
};

/// Consecutive pages that the process may use in the same way.
struct PageRun {
    first: usize,
    count: usize,
    writable: bool,
}

/// The page frames of a range, as far as they were found.
pub(super) struct PageFrames {
    /// The HMM entry of each page of the range.
    frames: KVVec<usize>,
    /// The runs of pages that were found, by their address.
    runs: KVVec<PageRun>,
}

impl PageFrames {
    /// An empty set for a range of `pages` pages.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new(pages: usize) -> Result<Self> {
        Ok(Self {
            frames: KVVec::from_elem(0, pages, GFP_KERNEL_ACCOUNT | __GFP_NOWARN)?,
            runs: KVVec::new(),
        })
    }

    /// The HMM entries of `count` pages from page `first` on.
    ///
    /// # Errors
    ///
    /// `EFAULT` if they are not all in the range.
    pub(super) fn at(&mut self, first: usize, count: usize) -> Result<&mut [usize]> {
        self.frames.get_mut(first..first + count).ok_or(EFAULT)
    }

    /// Adds `count` pages from page `first` on that were found, after the previous ones.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn add(&mut self, first: usize, count: usize, writable: bool) -> Result {
        match self.runs.last_mut() {
            Some(last) if last.first + last.count == first && last.writable == writable => {
                last.count += count;
            }
            _ => self.runs.push(
                PageRun {
                    first,
                    count,
                    writable,
                },
                GFP_KERNEL_ACCOUNT,
            )?,
        }
        Ok(())
    }

    /// Maps the pages that were found for `dev`; some may be in its own `memory`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; the errors of [`DmaMap::new`].
    pub(super) fn map(
        &self,
        dev: &ARef<Device>,
        memory: Option<&Arc<DeviceMemory>>,
    ) -> Result<DevicePages> {
        let mut parts = KVVec::with_capacity(self.runs.len(), GFP_KERNEL_ACCOUNT)?;
        for run in &self.runs {
            let (mut at, end) = (run.first, run.first + run.count);
            while at < end {
                let rest = self.frames.get(at..end).ok_or(EFAULT)?;
                let is_own = |frame: &usize| {
                    let place = |memory: &Arc<DeviceMemory>| memory.place(page_of(*frame)?);
                    memory.is_some_and(|memory| place(memory).is_some())
                };
                let count = rest.iter().take_while(|frame| !is_own(frame)).count();
                let (count, place) = match (count, memory) {
                    (0, Some(memory)) => {
                        let own = rest.iter().take_while(|frame| is_own(frame)).count();
                        let frames = rest.get(..own).unwrap_or(&[]);
                        (
                            own,
                            PageLocation::Device(InDevicePages::new(memory, frames)?),
                        )
                    }
                    _ => {
                        let pieces = self.pieces(at, count)?;
                        (
                            count,
                            PageLocation::System(DmaMap::new(dev, pieces.iter().copied())?),
                        )
                    }
                };
                let part = PagePart {
                    offset: (at * PAGE_SIZE) as u64,
                    writable: run.writable,
                    place,
                };
                parts.push(part, GFP_KERNEL_ACCOUNT)?;
                at += count;
            }
        }
        Ok(DevicePages { parts })
    }

    /// `count` pages from page `first` on as pieces of consecutive pages: the first page of each,
    /// and the number of pages. A huge page of the process is examined only once.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    fn pieces(&self, first: usize, count: usize) -> Result<KVVec<(NonNull<ffi::page>, usize)>> {
        let frames = self.frames.get(first..first + count).ok_or(EFAULT)?;
        let mut pieces = KVVec::<(NonNull<ffi::page>, usize)>::new();
        let mut at = 0;
        while let Some(&frame) = frames.get(at) {
            let page = page_of(frame).ok_or(EFAULT)?;
            // SAFETY: As above. A change since then is detected before any of it is used.
            let rest = unsafe { ffi::rkfd_hmm_pfn_pages(frame) };
            let count = rest.min(frames.len() - at).min(MAX_PIECE);
            // SAFETY: All of them are pages.
            let follows = |&(first, pages): &(NonNull<ffi::page>, usize)| unsafe {
                ffi::rkfd_page_follows(page.as_ptr(), first.as_ptr(), pages)
            };
            match pieces.last_mut() {
                Some(last) if last.1 + count <= MAX_PIECE && follows(last) => last.1 += count,
                _ => pieces.push((page, count), GFP_KERNEL_ACCOUNT | __GFP_NOWARN)?,
            }
            at += count;
        }
        Ok(pieces)
    }
}

/// The page of a frame that HMM has found.
pub(super) fn page_of(frame: usize) -> Option<NonNull<ffi::page>> {
    // SAFETY: HMM has reported that the frame has a page.
    NonNull::new(unsafe { ffi::rkfd_hmm_pfn_to_page(frame) })
}

/// Pages in the device's own memory.
struct InDevicePages {
    memory: Arc<DeviceMemory>,
    /// Their places from the first byte of that memory on; adjacent ones are merged.
    runs: KVVec<DmaRun>,
    /// Whether the device still uses them for the process.
    mapped: AtomicFlag,
}

impl InDevicePages {
    /// The pages of `frames`, all of which are in `memory`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    fn new(memory: &Arc<DeviceMemory>, frames: &[usize]) -> Result<Self> {
        let mut runs = KVVec::<DmaRun>::new();
        let size = PAGE_SIZE as u64;
        for &frame in frames {
            let page = page_of(frame).ok_or(EFAULT)?;
            let address = memory.place(page).ok_or(EFAULT)?;
            match runs.last_mut() {
                Some(last) if last.address + last.size == address => last.size += size,
                _ => runs.push(DmaRun { address, size }, GFP_KERNEL_ACCOUNT)?,
            }
        }
        Ok(Self {
            memory: memory.clone(),
            runs,
            mapped: AtomicFlag::new(true),
        })
    }

    /// Calls `f` with each page.
    fn for_each(&self, mut f: impl FnMut(NonNull<ffi::page>)) {
        for run in &self.runs {
            for at in (run.address..run.address + run.size).step_by(PAGE_SIZE) {
                if let Ok(page) = self.memory.page(at) {
                    f(page);
                }
            }
        }
    }
}

/// The location of pages.
enum PageLocation {
    /// In system memory, mapped for the device.
    System(DmaMap),
    /// In the device's own memory.
    Device(InDevicePages),
}

/// Consecutive pages in the same location.
struct PagePart {
    /// From the start of the range, in bytes.
    offset: u64,
    writable: bool,
    place: PageLocation,
}

impl PagePart {
    fn runs(&self) -> &[DmaRun] {
        match &self.place {
            PageLocation::System(dma) => dma.runs(),
            PageLocation::Device(device) => &device.runs,
        }
    }
}

/// Consecutive pages as the device accesses them.
pub(crate) struct FoundPages<'a> {
    /// From the start of the range, in bytes.
    pub(crate) offset: u64,
    /// Whether they may be written.
    pub(crate) writable: bool,
    /// Whether the addresses are those of the device's own memory, from its first byte on;
    /// otherwise they are DMA addresses.
    pub(crate) in_device: bool,
    /// The addresses; adjacent ones are merged.
    pub(crate) runs: &'a [DmaRun],
}

/// Marks pages that a device may have written to. The page table entries of the process do not show
/// these writes, which did not use them. The exception are files with writeback: their entries are
/// only writable where they are dirty. Those of shared memory are writable after a read.
fn mark_dirty(first: NonNull<ffi::page>, count: usize) {
    // SAFETY: The process has the pages at this moment, so their state and their files' mappings
    // persist; their structures are consecutive.
    unsafe { ffi::rkfd_swapbacked_pages_mark_dirty(first.as_ptr(), count) };
}

/// Pages of a process, mapped for a device until this is dropped or [`DevicePages::unmap_device`]
/// is called. It holds no references to the pages themselves.
#[derive(Default)]
pub(crate) struct DevicePages {
    parts: KVVec<PagePart>,
}

impl DevicePages {
    /// Whether they are `size` bytes without a gap, and writable if `write`.
    pub(crate) fn is_whole(&self, size: u64, write: bool) -> bool {
        matches!(&*self.parts, [part]
            if part.runs().iter().map(|run| run.size).sum::<u64>() == size
                && (part.writable || !write))
    }

    /// The size of the pages in the device's own memory, in bytes.
    pub(crate) fn in_device(&self) -> u64 {
        let device = self.parts().filter(|part| part.in_device);
        device.flat_map(|part| part.runs).map(|run| run.size).sum()
    }

    /// The pages.
    pub(crate) fn parts(&self) -> impl Iterator<Item = FoundPages<'_>> {
        self.parts.iter().map(|part| FoundPages {
            offset: part.offset,
            writable: part.writable,
            in_device: matches!(part.place, PageLocation::Device(_)),
            runs: part.runs(),
        })
    }

    /// Takes the pages away from the device, which no longer uses them and is still bound. The
    /// process still has the pages, so this is called in a notification of a change, or while
    /// changes are prevented. Neither allocates nor frees; a second call does nothing.
    pub(crate) fn unmap_device(&self) {
        for part in &self.parts {
            match &part.place {
                PageLocation::System(dma) => {
                    if part.writable && dma.is_mapped() {
                        dma.for_each_run(mark_dirty);
                    }
                    dma.unmap();
                }
                PageLocation::Device(device) => {
                    if device.mapped.xchg(false, Full) && part.writable {
                        device.for_each(|page| mark_dirty(page, 1));
                    }
                }
            }
        }
    }

    /// Keeps the pages allocated for ever, because the device may go on using them whatever
    /// happens. Called before [`DevicePages::unmap_device`], in the same context.
    pub(crate) fn leak(&self) {
        for part in &self.parts {
            match &part.place {
                PageLocation::System(dma) if dma.is_mapped() => dma.for_each_run(|first, count| {
                    // SAFETY: The process has the pages at this moment; their structures are
                    // consecutive.
                    unsafe { ffi::rkfd_get_pages(first.as_ptr(), count) };
                }),
                PageLocation::Device(device) if device.mapped.load(Relaxed) => {
                    device.for_each(|page| device.memory.leak(page));
                }
                PageLocation::System(_) | PageLocation::Device(_) => {}
            }
        }
    }
}
