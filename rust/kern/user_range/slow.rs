// SPDX-License-Identifier: GPL-2.0
//! Waits that a program can prolong for ever: for pages that it has to provide, as those of a FUSE
//! file and those with faults handled in user space, and for the mmap lock of a process, whose
//! holder may itself wait for such a program. Code that others would wait for must not wait for
//! these.

use super::{RangeStamp, RangeWatch, RangeWatcher, VmaExtent};
use crate::{
    ffi,
    kern::{
        errno,
        mm_exit::AddressSpace,
        task::{self, CancelScope},
        workqueue,
    },
};
use kernel::{
    error::to_result,
    mm::MmWithUser,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{Acquire, AtomicFlag, Release},
        Arc,
    },
    time::msecs_to_jiffies,
    types::NotThreadSafe,
    workqueue::{impl_has_work, new_work, Work, WorkItem},
};

/// How long to wait for the mmap lock while others wait for the caller. The wait gives the caller a
/// place in the lock's queue, which it needs if threads change the memory all the time.
#[derive(Clone, Copy)]
pub(crate) enum LockWait {
    /// A tenth of a second: tolerable however many threads do this one after the other.
    Short,
    /// A second: for the only such waiter of its process. On a slow machine some threads ahead of
    /// it, each of which changes much memory, hold the lock for longer than [`LockWait::Short`]
    /// every time.
    Long,
}

impl LockWait {
    /// In milliseconds.
    const fn ms(self) -> u32 {
        match self {
            Self::Short => 100,
            Self::Long => 1000,
        }
    }
}

/// The number of pages that are waited for together.
const BATCH: usize = 512;

/// Guard of the mmap lock, held for reading.
pub(super) struct MmapLock<'a>(&'a MmWithUser, NotThreadSafe);

impl Drop for MmapLock<'_> {
    fn drop(&mut self) {
        // SAFETY: This thread has taken it, and releases it once.
        unsafe { ffi::rkfd_mmap_read_unlock(self.0.as_raw()) };
    }
}

/// [`lock_within`] with [`LockWait::Short`].
pub(super) fn lock_soon(mm: &MmWithUser) -> Result<MmapLock<'_>> {
    lock_within(mm, LockWait::Short)
}

/// Takes the mmap lock where others wait for the caller. May sleep.
///
/// # Errors
///
/// [`errno::in_progress`] if the lock is not available in time, or the caller is killed. Other
/// signals do not end the wait.
pub(super) fn lock_within(mm: &MmWithUser, lock_wait: LockWait) -> Result<MmapLock<'_>> {
    let jiffies = msecs_to_jiffies(lock_wait.ms());
    // SAFETY: The address space has a user.
    let locked = unsafe { ffi::rkfd_mmap_read_lock_within(mm.as_raw(), jiffies) };
    if locked {
        Ok(MmapLock(mm, NotThreadSafe))
    } else {
        Err(errno::in_progress())
    }
}

/// Waits until the mmap lock is free.
///
/// # Errors
///
/// `EINTR` if the caller is killed.
fn wait_for_lock(mm: &MmWithUser) -> Result {
    // SAFETY: The address space has a user.
    to_result(unsafe { ffi::rkfd_mmap_await_killable(mm.as_raw()) })
}

/// Whether the mmap lock of `space` is held, so that its memory may be about to change. A thread
/// that unmaps memory first removes it from the process, then lets others take the lock for
/// reading, and only after that notifies the [`RangeWatcher`]s. So if the caller finds no memory at
/// an address, and this returns false afterwards, the watchers have been notified. Does not wait.
pub(crate) fn is_changing(space: &AddressSpace) -> bool {
    let Some(mm) = space.user() else {
        return false;
    };
    // SAFETY: The address space has a user.
    !unsafe { ffi::rkfd_mmap_is_free(mm.as_raw()) }
}

/// Calls `act` until the mmap lock of `space` is available to it, and returns its result. The wait
/// for the lock happens here, with no lock held that others need.
///
/// # Errors
///
/// `EINTR` if the caller is killed; `ESRCH` if the address space has ended; the other errors of
/// `act`.
pub(crate) fn with_lock_soon<T>(
    space: &AddressSpace,
    mut act: impl FnMut() -> Result<T>,
) -> Result<T> {
    loop {
        match act() {
            Err(error) if error == errno::in_progress() => {
                let mm = space.user().ok_or(ESRCH)?;
                wait_for_lock(&mm)?;
            }
            done => return done,
        }
    }
}

/// Waits for the pages from `start` to `end` of `space` that a program may have to provide, for
/// writing if `write` is set and the process may write. Pages that cannot be obtained are left out,
/// and pages may be removed again. Called with no lock held that others need. Takes the mmap lock,
/// and does not hold it during the wait.
///
/// # Errors
///
/// `EINTR` if the caller is killed; `ESRCH` if the address space has ended.
pub(crate) fn wait_for_pages(
    space: &AddressSpace,
    start: usize,
    end: usize,
    write: bool,
) -> Result {
    let mm = space.user().ok_or(ESRCH)?;
    let mut at = start;
    loop {
        if task::is_killed() {
            return Err(EINTR);
        }
        let Ok(lock) = lock_soon(&mm) else {
            wait_for_lock(&mm)?;
            continue;
        };
        // SAFETY: The mmap lock is held.
        let vma = unsafe { VmaExtent::next(&mm, at, end) };
        drop(lock);
        let Some(vma) = vma else {
            return Ok(());
        };
        if !vma.may_wait || !vma.is_readable() {
            at = vma.to;
            continue;
        }
        let pages = BATCH.min((vma.to - vma.from) / PAGE_SIZE);
        let write = write && vma.is_writable();
        // SAFETY: The address space has a user, and this thread does not hold its lock.
        let handled = unsafe { ffi::rkfd_fault_in_killable(mm.as_raw(), vma.from, pages, write) };
        // At least one page is handled, or cannot be obtained.
        at = vma.from + (handled.max(1) as usize) * PAGE_SIZE;
    }
}

/// A work item that waits for the pages of a range, so that no other task has to.
#[pin_data]
pub(crate) struct PageFetcher {
    space: AddressSpace,
    start: usize,
    end: usize,
    write: bool,
    /// The beginning of the wait.
    stamp: RangeStamp,
    done: AtomicFlag,
    #[pin]
    scope: CancelScope,
    #[pin]
    work: Work<Self>,
}

/// A request for the work of a [`PageFetcher`]. Dropping it cancels the work, as far as its waits
/// can be killed.
pub(crate) struct FetchRequest(Arc<PageFetcher>);

impl FetchRequest {
    /// The work item.
    pub(crate) fn by(&self) -> &Arc<PageFetcher> {
        &self.0
    }
}

impl Drop for FetchRequest {
    fn drop(&mut self) {
        self.0.scope.kill();
    }
}

impl_has_work! {
    impl HasWork<Self> for PageFetcher { self.work }
}

impl PageFetcher {
    /// Whether the wait is over.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Acquire)
    }
}

impl WorkItem for PageFetcher {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // Pages that are still missing afterwards are looked up again.
        this.scope.run(|| {
            let _ = wait_for_pages(&this.space, this.start, this.end, this.write);
        });
        this.done.store(true, Release);
    }
}

impl<T: RangeWatcher> RangeWatch<T> {
    /// Starts the wait for the pages of the range, for writing if `write`. It goes on as long as
    /// the returned request exists.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn fetch(&self, write: bool) -> Result<FetchRequest> {
        let fetcher = Arc::pin_init(
            pin_init!(PageFetcher {
                space: self.space.clone(),
                start: self.start,
                end: self.start + self.size,
                write,
                stamp: self.read_begin(),
                done: AtomicFlag::new(false),
                scope <- CancelScope::new(),
                work <- new_work!("PageFetcher::work"),
            }),
            GFP_KERNEL,
        )?;
        // It is queued only once.
        let _ = workqueue::patient().enqueue(fetcher.clone());
        Ok(FetchRequest(fetcher))
    }

    /// Whether `fetcher` has finished with this range, which has not changed since. The caller
    /// holds the lock under which [`super::RangeChange::set_seq`] is called.
    pub(crate) fn is_brought(&self, fetcher: &PageFetcher) -> bool {
        fetcher.is_done() && fetcher.start == self.start && !self.is_stale(fetcher.stamp)
    }
}
