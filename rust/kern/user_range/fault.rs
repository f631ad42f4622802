// SPDX-License-Identifier: GPL-2.0
//! The pages of a range as the process has them: those that are there, and those that HMM faults in.

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

/// Pages that are faulted in in one go, a large page's: who has lost interest is noticed in between.
const BATCH: usize = 512;

/// What it means when pages cannot be had which the process should have: its own memory, not a file's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingPages {
    /// There is no memory for now.
    Fails,
    /// They are left out.
    IsLeftOut,
}

/// How pages are asked for.
pub(crate) struct PageRequest<'a> {
    /// When it began.
    pub(crate) stamp: RangeStamp,
    /// For writing, where the process may.
    pub(crate) write: bool,
    /// What becomes of those that cannot be had.
    pub(crate) missing: MissingPages,
    /// The device's own memory: pages that are there may stay.
    pub(crate) memory: Option<&'a Arc<DeviceMemory>>,
    /// For how long the mmap lock is waited for.
    pub(crate) lock_wait: LockWait,
    /// Fails when nobody wants them any more: asked once for each 2 MiB or less. Waits for nothing.
    pub(crate) go_on: &'a dyn Fn() -> Result,
}

impl<T: RangeWatcher> RangeWatch<T> {
    /// Faults pages in and maps them for `dev`, which must be bound, as they are after the stamp of `request`: for writing where
    /// that is asked and the process may. `wanted` gives the first run of pages at or after one that are wanted. What
    /// the process does not have is left out. They may be used once
    /// [`RangeWatch::is_stale`] has said no, until the next change.
    ///
    /// A program that has to bring pages is not waited for, see [`await_pages`]: [`errno::in_progress`] while it has not, if what
    /// is `missing` is to fail. Nor is who keeps the mmap lock for longer than `lock_wait`: EAGAIN.
    ///
    /// EBUSY when the range has changed since the stamp, ESRCH when the address space is at its end, EINTR when the
    /// caller is killed, what `go_on` says, ENOMEM, also when the process itself would get no page, if that is what is `missing`; see
    /// [`DmaMap::new`] for the rest.
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

    /// Adds what the process has of the pages `run` to `frames`. The mmap lock is held.
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
            match self.have(request, &vma, frames.at(first, count)?)? {
                Some(writable) => {
                    frames.add(first, count, writable)?;
                    count = BATCH.min(2 * count);
                }
                // Only the pages that cannot be had are left out.
                None if count > 1 => {
                    at = vma.from;
                    count /= 2;
                }
                // There is nothing that such memory can lack but pages to be had.
                None if vma.anonymous && request.missing == MissingPages::Fails => {
                    return Err(ENOMEM)
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Finds the first pages of `vma`, or faults them in where nobody has to be waited for; whether they may be written. `None`
    /// when one of them cannot be had, or is left out.
    fn have(
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

    /// The first pages of `vma` that are there; whether they may be written, which is so if that is asked and the process may.
    /// [`errno::in_progress`] when one is not there.
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

    /// Faults the pages from `from` on in, which are of one VMA; whether they may be written. `None` when the process
    /// does not have one of them, or cannot get it.
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

    /// Has pages from `from` on come to system memory that are in `memory` and were found, but are not the process's alone: HMM finds those
    /// whatever is asked, and the device would write what a child or a parent sees. EBUSY when one has come: all are to be looked for again.
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

    /// Which pages there are from `from` on, and first has those come that are `wanted`, by `HMM_PFN_REQ_*`. The mmap lock is held.
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
        // SAFETY: The caller holds the mmap lock; `frames` has room for the range, which is in the notifier's.
        to_result(unsafe { ffi::hmm_range_fault(&mut range) })
    }
}
