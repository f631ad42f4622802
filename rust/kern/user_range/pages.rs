// SPDX-License-Identifier: GPL-2.0
//! Pages of a process on their way to a device: the frames that HMM has found, and what is mapped of them.

use crate::{
    ffi,
    kern::dma_map::{DmaMap, DmaRun, MAX_PIECE},
};
use core::ptr::NonNull;
use kernel::{device::Device, page::PAGE_SIZE, prelude::*, sync::aref::ARef};

/// Pages in a row that the process may use alike.
struct Run {
    first: usize,
    count: usize,
    writable: bool,
}

/// The page frames of a range, as far as they were found.
pub(super) struct Frames {
    /// What HMM says of each page of the range.
    frames: KVVec<usize>,
    /// Which of them were found, by their address.
    runs: KVVec<Run>,
}

impl Frames {
    /// None yet, of a range of `pages` pages. ENOMEM.
    pub(super) fn new(pages: usize) -> Result<Self> {
        Ok(Self {
            frames: KVVec::from_elem(0, pages, GFP_KERNEL_ACCOUNT | __GFP_NOWARN)?,
            runs: KVVec::new(),
        })
    }

    /// Room for what HMM says of `count` pages from page `first` on. EFAULT for more than there are.
    pub(super) fn at(&mut self, first: usize, count: usize) -> Result<&mut [usize]> {
        self.frames.get_mut(first..first + count).ok_or(EFAULT)
    }

    /// `count` pages from page `first` on, behind those before, were found. ENOMEM.
    pub(super) fn add(&mut self, first: usize, count: usize, writable: bool) -> Result {
        match self.runs.last_mut() {
            Some(last) if last.first + last.count == first && last.writable == writable => {
                last.count += count;
            }
            _ => self.runs.push(
                Run {
                    first,
                    count,
                    writable,
                },
                GFP_KERNEL_ACCOUNT,
            )?,
        }
        Ok(())
    }

    /// Maps those that were found for `dev`. ENOMEM; errors of [`DmaMap::new`].
    pub(super) fn map(&self, dev: &ARef<Device>) -> Result<DevicePages> {
        let mut parts = KVVec::with_capacity(self.runs.len(), GFP_KERNEL_ACCOUNT)?;
        for run in &self.runs {
            let pieces = self.pieces(run)?;
            let part = Part {
                offset: (run.first * PAGE_SIZE) as u64,
                writable: run.writable,
                dma: DmaMap::new(dev, pieces.iter().copied())?,
            };
            parts.push(part, GFP_KERNEL)?;
        }
        Ok(DevicePages { parts })
    }

    /// The pages of `run` in pieces that are in a row: the first of each, and how many there are. A huge page of the process is
    /// looked at once. ENOMEM.
    fn pieces(&self, run: &Run) -> Result<KVVec<(NonNull<ffi::page>, usize)>> {
        let frames = self.frames.get(run.first..run.first + run.count);
        let frames = frames.ok_or(EFAULT)?;
        let mut pieces = KVVec::<(NonNull<ffi::page>, usize)>::new();
        let mut at = 0;
        while let Some(&frame) = frames.get(at) {
            // SAFETY: HMM has said that the frame has a page.
            let page = unsafe { ffi::rkfd_hmm_pfn_to_page(frame) };
            let page = NonNull::new(page).ok_or(EFAULT)?;
            // SAFETY: As above. What has changed since shows before any of it is used.
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

/// Pages in a row, mapped for a device.
struct Part {
    /// From the start of the range, bytes.
    offset: u64,
    writable: bool,
    dma: DmaMap,
}

/// Marks pages that a device may have written to: the entries of the process, which were not used for it, do not tell. Those
/// of a file that is written back do: they are only writable where they are dirty. Shared memory's are writable from a read on.
fn mark_dirty(first: NonNull<ffi::page>, count: usize) {
    // SAFETY: The process has the pages at this moment, so that they stay what they are, and their files' mappings there; their
    // structures are in a row.
    unsafe { ffi::rkfd_swapbacked_pages_mark_dirty(first.as_ptr(), count) };
}

/// Pages of a process, mapped for a device until this is dropped or [`DevicePages::give_back`] is called. Nothing holds
/// the pages themselves.
#[derive(Default)]
pub(crate) struct DevicePages {
    parts: KVVec<Part>,
}

impl DevicePages {
    /// Whether they are `size` bytes without a gap, to be written if `write` is asked.
    pub(crate) fn is_whole(&self, size: u64, write: bool) -> bool {
        matches!(&*self.parts, [part]
            if part.dma.runs().iter().map(|run| run.size).sum::<u64>() == size
                && (part.writable || !write))
    }

    /// What there is: offset from the start of the range in bytes, whether it may be written, and where the device
    /// finds it, adjacent addresses merged.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (u64, bool, &[DmaRun])> {
        self.parts
            .iter()
            .map(|part| (part.offset, part.writable, part.dma.runs()))
    }

    /// Takes the pages away from the device, which does not use them any more and is still bound. The process still has
    /// them, so this is called by who is told of changes, or keeps them from happening. Allocates and frees nothing;
    /// the second time nothing happens.
    pub(crate) fn give_back(&self) {
        for part in &self.parts {
            if part.writable && part.dma.is_mapped() {
                part.dma.for_each_run(mark_dirty);
            }
            part.dma.unmap();
        }
    }

    /// The device may go on using the pages whatever is done: they are never freed. Called before
    /// [`DevicePages::give_back`], as that is.
    pub(crate) fn lose(&self) {
        for part in self.parts.iter().filter(|part| part.dma.is_mapped()) {
            part.dma.for_each_run(|first, count| {
                // SAFETY: The process has the pages at this moment; their structures are in a row.
                unsafe { ffi::rkfd_get_pages(first.as_ptr(), count) };
            });
        }
    }
}
