// SPDX-License-Identifier: GPL-2.0
//! The pages of a range that the process has: those that are present, and those that HMM faults in.

use super::{
    pages::{page_of, DevicePages, PageFrames},
    slow::{lock_within, LockWait},
    RangeStamp, RangeWatch, RangeWatcher, VmaExtent,
};
use crate::{
    ffi,
    kern::{device_memory::DeviceMemory, errno, task},
};
use core::ops::Range;
use kernel::{
    device::Device, error::to_result, mm::MmWithUser, page::PAGE_SIZE, prelude::*,
    sync::aref::ARef, sync::Arc,
};

/// The number of pages that are faulted in together, those of a large page: cancellation is checked
/// between two batches.
const BATCH: usize = 512;

/// The treatment of missing pages that the process should have: of its own memory, not of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingPages {
    /// The request fails: there is no memory for now.
    Fails,
    /// They are left out.
    IsLeftOut,
}

/// The parameters of a request for pages.
pub(crate) struct PageRequest<'a> {
    /// The beginning of the request.
    pub(crate) stamp: RangeStamp,
    /// Whether to fault for writing, where the process may write.
    pub(crate) write: bool,
    /// The treatment of pages that cannot be obtained.
    pub(crate) missing: MissingPages,
    /// The device's own memory: pages that are in it may stay there.
    pub(crate) memory: Option<&'a Arc<DeviceMemory>>,
    /// How long to wait for the mmap lock.
    pub(crate) lock_wait: LockWait,
    /// Fails when the pages are no longer wanted: called once for each 2 MiB or less. Must not
    /// wait.
    pub(crate) go_on: &'a dyn Fn() -> Result,
}

impl<T: RangeWatcher> RangeWatch<T> {
    /// Faults pages in and maps them for `dev`, which must be bound, in their state since the stamp
    /// of `request`: for writing where that is requested and the process may write. `wanted`
    /// returns the first run of wanted pages at or after a page. Pages that the process does not
    /// have are left out. The pages may be used once [`RangeWatch::is_stale`] has returned false,
    /// until the next change.
    ///
    /// This does not wait for a program that has to provide pages, see
    /// [`wait_for_pages`](super::wait_for_pages).
    ///
    /// # Errors
    ///
    /// [`errno::in_progress`] if a program has to provide pages first and `missing` is
    /// [`MissingPages::Fails`]; `EAGAIN` if the mmap lock is not available within `lock_wait`;
    /// `EBUSY` if the range has changed since the stamp; `ESRCH` if the address space has ended;
    /// `EINTR` if the caller is killed; the error of `go_on`; `ENOMEM`, also if the process itself
    /// would get no page and `missing` is [`MissingPages::Fails`]; the errors of
    /// [`DmaMap::new`](crate::kern::dma_map::DmaMap::new).
    pub(crate) fn map_pages(
        &self,
        dev: &ARef<Device>,
        request: &PageRequest<'_>,
        wanted: impl Fn(usize) -> Option<Range<usize>>,
    ) -> Result<DevicePages> {
        let mm = self.space.user().ok_or(ESRCH)?;
        let mut frames = PageFrames::new(self.size / PAGE_SIZE)?;
        {
            let _lock = lock_within(&mm, request.lock_wait).map_err(|_| EAGAIN)?;
            let mut next = 0;
            while let Some(run) = wanted(next) {
                next = run.end;
                self.gather(&mm, request, run, &mut frames)?;
            }
        }
        frames.map(dev, request.memory)
    }

    /// Adds those of the pages `run` that the process has to `frames`. The mmap lock is held.
    fn gather(
        &self,
        mm: &MmWithUser,
        request: &PageRequest<'_>,
        run: Range<usize>,
        frames: &mut PageFrames,
    ) -> Result {
        let mut at = self.start + run.start * PAGE_SIZE;
        let end = self.start + run.end * PAGE_SIZE;
        let mut count = BATCH;
        // SAFETY: The mmap lock is held.
        while let Some(vma) = unsafe { VmaExtent::next(mm, at, end) } {
            if task::is_killed() {
                return Err(EINTR);
            }
            (request.go_on)()?;
            if !vma.is_readable() {
                at = vma.to;
                continue;
            }
            count = count.min((vma.to - vma.from) / PAGE_SIZE);
            at = vma.from + count * PAGE_SIZE;
            let first = (vma.from - self.start) / PAGE_SIZE;
            match self.find_or_fault(request, &vma, frames.at(first, count)?)? {
                Some(writable) => {
                    frames.add(first, count, writable)?;
                    count = BATCH.min(2 * count);
                }
                // Retry with fewer pages, so that only those that cannot be obtained are left out.
                None if count > 1 => {
                    at = vma.from;
                    count /= 2;
                }
                // Such memory has no other reason to lack pages than a shortage of memory.
                None if vma.anonymous && request.missing == MissingPages::Fails => {
                    return Err(ENOMEM)
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Finds the first pages of `vma`, or faults them in if no program has to be waited for;
    /// returns whether they are writable. `None` if one of them cannot be obtained, or is left out.
    fn find_or_fault(
        &self,
        request: &PageRequest<'_>,
        vma: &VmaExtent,
        frames: &mut [usize],
    ) -> Result<Option<bool>> {
        if !vma.may_wait {
            return self.fault_in(request, vma.from, frames);
        }
        match self.find(request, vma, frames) {
            Err(error)
                if error == errno::in_progress() && request.missing == MissingPages::IsLeftOut =>
            {
                Ok(None)
            }
            found => found,
        }
    }

    /// Finds the first pages of `vma` if they are present; returns whether they are writable, which
    /// is so if that is requested and the process may write.
    ///
    /// # Errors
    ///
    /// [`errno::in_progress`] if one is not present.
    fn find(
        &self,
        request: &PageRequest<'_>,
        vma: &VmaExtent,
        frames: &mut [usize],
    ) -> Result<Option<bool>> {
        let write = request.write && vma.is_writable();
        let mut wanted = ffi::hmm_pfn_flags_HMM_PFN_VALID;
        if write {
            wanted |= ffi::hmm_pfn_flags_HMM_PFN_WRITE;
        }
        frames.fill(0);
        self.scan(request, vma.from, frames, 0)?;
        if frames.iter().all(|frame| frame & wanted == wanted) {
            Ok(Some(write))
        } else {
            Err(errno::in_progress())
        }
    }

    /// Faults the pages from `from` on in, which are of one VMA; returns whether they are writable.
    /// `None` if the process does not have one of them, or cannot get it.
    fn fault_in(
        &self,
        request: &PageRequest<'_>,
        from: usize,
        frames: &mut [usize],
    ) -> Result<Option<bool>> {
        for writable in [true, false] {
            if writable && !request.write {
                continue;
            }
            let mut wanted = ffi::hmm_pfn_flags_HMM_PFN_REQ_FAULT;
            if writable {
                wanted |= ffi::hmm_pfn_flags_HMM_PFN_REQ_WRITE;
            }
            let found = self.scan(request, from, frames, wanted);
            let found = match (found, request.memory) {
                (Ok(()), Some(memory)) if writable => self.unshare(request, memory, from, frames),
                (found, _) => found,
            };
            match found {
                Ok(()) => return Ok(Some(writable)),
                Err(error) if error == EPERM => continue,
                Err(error) if error == EFAULT => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Moves pages from `from` on to system memory that were found in `memory`, but are not the
    /// process's alone. HMM reports those whatever the request, and the device would write memory
    /// that a child or a parent sees.
    ///
    /// # Errors
    ///
    /// `EBUSY` if one has moved: all pages have to be looked up again.
    fn unshare(
        &self,
        request: &PageRequest<'_>,
        memory: &DeviceMemory,
        from: usize,
        frames: &mut [usize],
    ) -> Result {
        for (index, frame) in frames.iter_mut().enumerate() {
            let shared = *frame & ffi::hmm_pfn_flags_HMM_PFN_WRITE == 0;
            if !shared || page_of(*frame).is_none_or(|page| memory.place(page).is_none()) {
                continue;
            }
            let wanted =
                ffi::hmm_pfn_flags_HMM_PFN_REQ_FAULT | ffi::hmm_pfn_flags_HMM_PFN_REQ_WRITE;
            let elsewhere = PageRequest {
                memory: None,
                ..*request
            };
            let at = from + index * PAGE_SIZE;
            self.scan(&elsewhere, at, core::slice::from_mut(frame), wanted)?;
        }
        Ok(())
    }

    /// Looks up the pages from `from` on, after it has faulted in those that are `wanted`
    /// (`HMM_PFN_REQ_*`). The mmap lock is held.
    fn scan(
        &self,
        request: &PageRequest<'_>,
        from: usize,
        frames: &mut [usize],
        wanted: usize,
    ) -> Result {
        let mut range = ffi::hmm_range {
            notifier: self.inner.notifier.get(),
            notifier_seq: request.stamp.0,
            start: from,
            end: from + frames.len() * PAGE_SIZE,
            hmm_pfns: frames.as_mut_ptr(),
            default_flags: wanted,
            pfn_flags_mask: 0,
            dev_private_owner: request
                .memory
                .map_or(core::ptr::null_mut(), |memory| memory.owner()),
        };
        // SAFETY: The caller holds the mmap lock; `frames` has room for the range, which is inside
        // the notifier's.
        to_result(unsafe { ffi::hmm_range_fault(&mut range) })
    }
}
