// SPDX-License-Identifier: GPL-2.0
//! A range of a process's memory that a device uses without pinning it: which pages it has, and word when they are
//! about to go or to change (MMU interval notifiers, HMM).

mod extent;
mod slow;

use super::{
    dma_map::{DmaMap, DmaRun},
    errno,
    mm_exit::AddressSpace,
    task,
};
use crate::ffi;
use core::{
    ops::{Deref, Range},
    ptr::NonNull,
};
use extent::Extent;
pub(crate) use extent::{first_hole, is_memory, is_own};
use kernel::{
    device::Device, error::to_result, page::PAGE_SIZE, prelude::*, sync::aref::ARef, types::Opaque,
};
use pin_init::PinInit;
pub(crate) use slow::{await_pages, with_lock_soon, Bringer};

/// Pages that are faulted in in one go: a kill is noticed in between.
const BATCH: usize = 16384;

/// Who uses the pages of a range.
pub(crate) trait Watcher: Send + Sync + 'static {
    /// Pages of the range are about to go or to change; they are not used any more at the return. Calls
    /// [`Change::set_seq`] with its lock held, and with that lock held asks [`Watch::is_stale`].
    ///
    /// Runs in whatever context changes the memory, maybe under reclaim: sleeps for a bounded time, allocates nothing,
    /// and takes no lock under which memory is allocated or the mmap lock is taken.
    fn invalidate(&self, change: &Change);

    /// Whether it matters that pages go or change which stay where they are for the process: those that it unmaps always do.
    const ALL_CHANGES: bool = true;
}

/// A change of the pages of a range.
pub(crate) struct Change {
    notifier: *mut ffi::mmu_interval_notifier,
    sequence: usize,
    own: bool,
    unmapped: Option<Range<usize>>,
}

impl Change {
    /// Makes every [`Stamp`] of the range that was taken before stale.
    pub(crate) fn set_seq(&self) {
        // SAFETY: The notifier and its sequence number are those of the callback that this was made in.
        unsafe { ffi::rkfd_mmu_interval_set_seq(self.notifier, self.sequence) };
    }

    /// The addresses at which the process gives its memory up, or moves it away from; not only of the range that is watched.
    pub(crate) fn unmapped(&self) -> Option<Range<usize>> {
        self.unmapped.clone()
    }

    /// Whether the process makes the change itself, and not to free memory: nobody else is held up then by what takes
    /// longer than it must.
    pub(crate) fn may_be_delayed(&self) -> bool {
        self.own && !task::is_reclaiming()
    }
}

/// What it means when pages cannot be had which the process should have: its own memory, not a file's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// There is no memory for now.
    Fails,
    /// They are left out.
    IsLeftOut,
}

/// A moment in the life of a range.
#[derive(Clone, Copy)]
pub(crate) struct Stamp(usize);

#[repr(C)]
#[pin_data]
struct Inner<T> {
    notifier: Opaque<ffi::mmu_interval_notifier>,
    #[pin]
    watcher: T,
}

/// A range that is watched until this is dropped. Dropping it waits for [`Watcher::invalidate`], so none of the locks
/// that are taken there may be held.
pub(crate) struct Watch<T: Watcher> {
    inner: Pin<KBox<Inner<T>>>,
    space: AddressSpace,
    start: usize,
    size: usize,
}

// SAFETY: The watcher is `Send` and `Sync`, the notifier has its own locks.
unsafe impl<T: Watcher> Send for Watch<T> {}
// SAFETY: As above.
unsafe impl<T: Watcher> Sync for Watch<T> {}

/// Gives a static table of operations for each kind of watcher.
struct Operations<T>(core::marker::PhantomData<T>);

impl<T: Watcher> Operations<T> {
    const TABLE: ffi::mmu_interval_notifier_ops = {
        let mut table: ffi::mmu_interval_notifier_ops = pin_init::zeroed();
        table.invalidate = Some(Self::invalidate);
        table
    };

    /// `mmu_interval_notifier_ops::invalidate`: false where waiting is not allowed.
    ///
    /// # Safety
    ///
    /// The kernel calls it with the notifier of an `Inner<T>`, which it keeps meanwhile.
    unsafe extern "C" fn invalidate(
        notifier: *mut ffi::mmu_interval_notifier,
        range: *const ffi::mmu_notifier_range,
        sequence: usize,
    ) -> bool {
        // SAFETY: The range is valid during the call.
        let (event, start, end) = unsafe { ((*range).event, (*range).start, (*range).end) };
        let unmapped = (event == ffi::mmu_notifier_event_MMU_NOTIFY_UNMAP).then_some(start..end);
        if !T::ALL_CHANGES && unmapped.is_none() {
            return true;
        }
        // SAFETY: The range is valid during the call.
        if unsafe { (*range).flags } & ffi::MMU_NOTIFIER_RANGE_BLOCKABLE == 0 {
            return false;
        }
        // SAFETY: The notifier is the first member of an `Inner<T>`, which stays until the notifier is removed.
        let inner = unsafe { &*notifier.cast::<Inner<T>>() };
        // SAFETY: The range is valid during the call.
        let mm = unsafe { (*range).mm };
        let own = kernel::current!()
            .mm()
            .is_some_and(|own| own.as_raw() == mm);
        inner.watcher.invalidate(&Change {
            notifier,
            sequence,
            own,
            unmapped,
        });
        true
    }
}

impl<T: Watcher> Watch<T> {
    /// Watches the `size` bytes at `start` of `space`, for `watcher`. ENOMEM, EOVERFLOW for a range that wraps, ESRCH
    /// when the address space is at its end. Takes the mmap lock unless there was one before: see [`prepare`].
    pub(crate) fn new(
        space: &AddressSpace,
        start: usize,
        size: usize,
        watcher: impl PinInit<T>,
    ) -> Result<Self> {
        let inner = KBox::pin_init(
            pin_init!(Inner {
                notifier: Opaque::zeroed(),
                watcher <- watcher,
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let user = space.user().ok_or(ESRCH)?;
        // SAFETY: The address space has a user; the notifier stays in place until it is removed, which happens when
        // `Self` is dropped.
        to_result(unsafe {
            ffi::mmu_interval_notifier_insert(
                inner.notifier.get(),
                user.as_raw(),
                start,
                size,
                &Operations::<T>::TABLE,
            )
        })?;
        Ok(Self {
            inner,
            space: space.clone(),
            start,
            size,
        })
    }

    /// The moment from which on changes count; waits for one that is under way. Sleeps.
    pub(crate) fn begin(&self) -> Stamp {
        // SAFETY: The notifier is inserted.
        Stamp(unsafe { ffi::mmu_interval_read_begin(self.inner.notifier.get()) })
    }

    /// Whether the range has changed since. The lock is held under which [`Change::set_seq`] is called.
    pub(crate) fn is_stale(&self, stamp: Stamp) -> bool {
        // SAFETY: The notifier is inserted.
        unsafe { ffi::rkfd_mmu_interval_read_retry(self.inner.notifier.get(), stamp.0) }
    }

    /// Faults pages in and maps them for `dev`, which must be bound, as they are after `stamp`: for writing where
    /// `write` is asked and the process may. `wanted` gives the first run of pages at or after one that are wanted. What
    /// the process does not have is left out. They may be used once
    /// [`Watch::is_stale`] has said no, until the next change.
    ///
    /// A program that has to bring pages is not waited for, see [`await_pages`]: [`errno::in_progress`] while it has not, if what
    /// is `missing` is to fail. Nor is the mmap lock: EAGAIN.
    ///
    /// EBUSY when the range has changed since `stamp`, ESRCH when the address space is at its end, EINTR when the
    /// caller is killed, ENOMEM, also when the process itself would get no page, if that is what is `missing`; see
    /// [`DmaMap::new`] for the rest.
    pub(crate) fn map_pages(
        &self,
        dev: &ARef<Device>,
        stamp: Stamp,
        write: bool,
        missing: Missing,
        wanted: impl Fn(usize) -> Option<Range<usize>>,
    ) -> Result<DevicePages> {
        let mm = self.space.user().ok_or(ESRCH)?;
        let gfp = GFP_KERNEL_ACCOUNT | __GFP_NOWARN;
        let mut frames = KVVec::from_elem(0usize, self.size / PAGE_SIZE, gfp)?;
        let mut spans: KVVec<Span> = KVVec::new();
        {
            let _lock = slow::lock_soon(&mm).map_err(|_| EAGAIN)?;
            let mut next = 0;
            while let Some(run) = wanted(next) {
                next = run.end;
                let mut at = self.start + run.start * PAGE_SIZE;
                let end = self.start + run.end * PAGE_SIZE;
                let mut count = BATCH;
                // SAFETY: The mmap lock is held.
                while let Some(vma) = unsafe { Extent::next(&mm, at, end) } {
                    if task::is_killed() {
                        return Err(EINTR);
                    }
                    if !vma.is_readable() {
                        at = vma.to;
                        continue;
                    }
                    count = count.min((vma.to - vma.from) / PAGE_SIZE);
                    at = vma.from + count * PAGE_SIZE;
                    let first = (vma.from - self.start) / PAGE_SIZE;
                    let part = frames.get_mut(first..first + count).ok_or(EFAULT)?;
                    let there = if vma.may_wait {
                        let write = write && vma.is_writable();
                        self.find(stamp, vma.from, part, write)
                    } else {
                        self.fault_in(stamp, vma.from, part, write)
                    };
                    let there = match there {
                        Err(error)
                            if error == errno::in_progress() && missing == Missing::IsLeftOut =>
                        {
                            None
                        }
                        there => there?,
                    };
                    match there {
                        Some(writable) => {
                            Span::add(&mut spans, first, count, writable)?;
                            count = BATCH.min(2 * count);
                        }
                        // Only the pages that cannot be had are left out.
                        None if count > 1 => {
                            at = vma.from;
                            count /= 2;
                        }
                        // There is nothing that such memory can lack but pages to be had.
                        None if vma.anonymous && missing == Missing::Fails => return Err(ENOMEM),
                        None => {}
                    }
                }
            }
        }
        let mut parts = KVVec::with_capacity(spans.len(), GFP_KERNEL)?;
        for span in &spans {
            let mut pages = KVVec::with_capacity(span.count, gfp)?;
            for &frame in frames.iter().skip(span.first).take(span.count) {
                // SAFETY: HMM has said that the frame has a page.
                let page = unsafe { ffi::rkfd_hmm_pfn_to_page(frame) };
                pages.push(NonNull::new(page).ok_or(EFAULT)?, GFP_KERNEL)?;
            }
            let part = Part {
                offset: (span.first * PAGE_SIZE) as u64,
                writable: span.writable,
                dma: DmaMap::new(dev, &pages)?,
            };
            parts.push(part, GFP_KERNEL)?;
        }
        Ok(DevicePages { parts })
    }

    /// Faults the pages from `from` on in, which are of one VMA; whether they may be written. `None` when the process
    /// does not have one of them, or cannot get it.
    fn fault_in(
        &self,
        stamp: Stamp,
        from: usize,
        frames: &mut [usize],
        write: bool,
    ) -> Result<Option<bool>> {
        for writable in [true, false] {
            if writable && !write {
                continue;
            }
            let mut wanted = ffi::hmm_pfn_flags_HMM_PFN_REQ_FAULT;
            if writable {
                wanted |= ffi::hmm_pfn_flags_HMM_PFN_REQ_WRITE;
            }
            match self.look(stamp, from, frames, wanted) {
                Ok(()) => return Ok(Some(writable)),
                Err(error) if error == EPERM => continue,
                Err(error) if error == EFAULT => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Which pages there are from `from` on, and first has those come that are `wanted`, by `HMM_PFN_REQ_*`. The mmap lock is held.
    fn look(&self, stamp: Stamp, from: usize, frames: &mut [usize], wanted: usize) -> Result {
        let mut range = ffi::hmm_range {
            notifier: self.inner.notifier.get(),
            notifier_seq: stamp.0,
            start: from,
            end: from + frames.len() * PAGE_SIZE,
            hmm_pfns: frames.as_mut_ptr(),
            default_flags: wanted,
            pfn_flags_mask: 0,
            dev_private_owner: core::ptr::null_mut(),
        };
        // SAFETY: The caller holds the mmap lock; `frames` has room for the range, which is in the notifier's.
        to_result(unsafe { ffi::hmm_range_fault(&mut range) })
    }
}

/// Nobody who uses pages.
struct Nobody;

impl Watcher for Nobody {
    fn invalidate(&self, _: &Change) {}

    const ALL_CHANGES: bool = false;
}

/// Sees to it that [`Watch::new`] of `space` need not take the mmap lock, which the kernel does for the first one. EINTR if a signal is
/// pending, ENOMEM, ESRCH.
pub(crate) fn prepare(space: &AddressSpace) -> Result {
    Watch::new(space, 0, PAGE_SIZE, Nobody).map(drop)
}

impl<T: Watcher> Deref for Watch<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner.watcher
    }
}

impl<T: Watcher> Drop for Watch<T> {
    fn drop(&mut self) {
        // SAFETY: It was inserted, and is removed once.
        unsafe { ffi::mmu_interval_notifier_remove(self.inner.notifier.get()) };
    }
}

/// Pages in a row that the process may use alike.
struct Span {
    first: usize,
    count: usize,
    writable: bool,
}

impl Span {
    /// Adds pages to the last span, or a new one.
    fn add(spans: &mut KVVec<Self>, first: usize, count: usize, writable: bool) -> Result {
        match spans.last_mut() {
            Some(last) if last.first + last.count == first && last.writable == writable => {
                last.count += count;
            }
            _ => spans.push(
                Self {
                    first,
                    count,
                    writable,
                },
                GFP_KERNEL,
            )?,
        }
        Ok(())
    }
}

/// Pages in a row, mapped for a device.
struct Part {
    /// From the start of the range, bytes.
    offset: u64,
    writable: bool,
    dma: DmaMap,
}

/// Marks a page that a device may have written to: the entry of the process, which was not used for it, does not tell. Of a
/// file's pages it does: they are only writable where they are dirty.
fn mark_dirty(page: NonNull<ffi::page>) {
    // SAFETY: The process has the page at this moment, so that it stays what it is.
    unsafe { ffi::rkfd_anon_page_mark_dirty(page.as_ptr()) };
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
                part.dma.for_each_page(mark_dirty);
            }
            part.dma.unmap();
        }
    }

    /// The device may go on using the pages whatever is done: they are never freed. Called before
    /// [`DevicePages::give_back`], as that is.
    pub(crate) fn lose(&self) {
        for part in self.parts.iter().filter(|part| part.dma.is_mapped()) {
            // SAFETY: The process has the page at this moment.
            let keep = |page: NonNull<_>| unsafe { ffi::rkfd_get_page(page.as_ptr()) };
            part.dma.for_each_page(keep);
        }
    }
}
