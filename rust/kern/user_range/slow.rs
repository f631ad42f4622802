// SPDX-License-Identifier: GPL-2.0
//! What a program may keep for ever: pages that it has to bring, as those of a file of FUSE and those of which faults are handled in
//! user space, and the lock of a process's memory, with which it may wait for such a program itself. Where somebody else would
//! have to wait, none of it is waited for.

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

/// For how long at most the mmap lock is waited for where others wait for the caller: that is a place in the line for it, which it takes where threads
/// change the memory all the time.
#[derive(Clone, Copy)]
pub(crate) enum LockWait {
    /// A tenth of a second: nobody minds, however many threads do that one after the other.
    Short,
    /// A second: for who is the only one of its process. On a slow machine some threads in front of it, each of which changes much, keep the lock
    /// for longer than [`LockWait::Short`] every time.
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

/// Pages that are waited for in one go.
const BATCH: usize = 512;

/// The mmap lock, for reading.
pub(super) struct MmapLock<'a>(&'a MmWithUser, NotThreadSafe);

impl Drop for MmapLock<'_> {
    fn drop(&mut self) {
        // SAFETY: This thread has taken it, and gives it back once.
        unsafe { ffi::rkfd_mmap_read_unlock(self.0.as_raw()) };
    }
}

/// [`lock_within`] with [`LockWait::Short`].
pub(super) fn lock_soon(mm: &MmWithUser) -> Result<MmapLock<'_>> {
    lock_within(mm, LockWait::Short)
}

/// The mmap lock, where others wait for the caller. [`errno::in_progress`] when somebody keeps it, or a signal is pending and somebody has it. Sleeps.
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

/// Waits until the mmap lock is free. EINTR when the caller is killed.
fn wait_for_lock(mm: &MmWithUser) -> Result {
    // SAFETY: The address space has a user.
    to_result(unsafe { ffi::rkfd_mmap_await_killable(mm.as_raw()) })
}

/// Whether somebody may be about to change the memory of `space`: he has the mmap lock. Whoever unmaps memory takes it from the process first, lets
/// others have the lock for reading then, and only after that tells its [`RangeWatcher`]s. So who finds no memory somewhere, and asks this after that, knows that
/// they have been told if it is false. Does not wait.
pub(crate) fn is_changing(space: &AddressSpace) -> bool {
    let Some(mm) = space.user() else {
        return false;
    };
    // SAFETY: The address space has a user.
    !unsafe { ffi::rkfd_mmap_is_free(mm.as_raw()) }
}

/// What `act` gives, once the mmap lock of `space` is to be had there: it is waited for here, with no lock that anybody else
/// needs. EINTR when the caller is killed, ESRCH when the address space is at its end.
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

/// Waits until the pages from `start` to `end` of `space` have come for which a program may have to be waited, to be written if
/// `write` is asked and the process may. What cannot be had is left out, and they may go again. Called with no lock that anybody
/// else needs. EINTR when the caller is killed, ESRCH when the address space is at its end. Takes the mmap lock, and does not
/// keep it while it waits.
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
        // SAFETY: The address space has a user, and nobody of this thread's its lock.
        let come = unsafe { ffi::rkfd_fault_in_killable(mm.as_raw(), vma.from, pages, write) };
        // At least one is done with, or cannot be had.
        at = vma.from + (come.max(1) as usize) * PAGE_SIZE;
    }
}

/// Somebody who waits for pages of a range, and for whom nobody waits.
#[pin_data]
pub(crate) struct PageFetcher {
    space: AddressSpace,
    start: usize,
    end: usize,
    write: bool,
    /// When it began.
    stamp: RangeStamp,
    done: AtomicFlag,
    #[pin]
    life: CancelScope,
    #[pin]
    work: Work<Self>,
}

/// The need for a [`PageFetcher`]: when this is dropped it gives up, as far as what it waits for lets it.
pub(crate) struct FetchRequest(Arc<PageFetcher>);

impl FetchRequest {
    /// Who it is.
    pub(crate) fn by(&self) -> &Arc<PageFetcher> {
        &self.0
    }
}

impl Drop for FetchRequest {
    fn drop(&mut self) {
        self.0.life.kill();
    }
}

impl_has_work! {
    impl HasWork<Self> for PageFetcher { self.work }
}

impl PageFetcher {
    /// Whether it waits no more.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Acquire)
    }
}

impl WorkItem for PageFetcher {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // What has not come then is looked for again.
        this.life.run(|| {
            let _ = wait_for_pages(&this.space, this.start, this.end, this.write);
        });
        this.done.store(true, Release);
    }
}

impl<T: RangeWatcher> RangeWatch<T> {
    /// Has somebody wait for the pages of the range, to be written if `write` is asked, as long as what is returned is there. ENOMEM.
    pub(crate) fn fetch(&self, write: bool) -> Result<FetchRequest> {
        let bringer = Arc::pin_init(
            pin_init!(PageFetcher {
                space: self.space.clone(),
                start: self.start,
                end: self.start + self.size,
                write,
                stamp: self.read_begin(),
                done: AtomicFlag::new(false),
                life <- CancelScope::new(),
                work <- new_work!("Bringer::work"),
            }),
            GFP_KERNEL,
        )?;
        // It is queued once.
        let _ = workqueue::patient().enqueue(bringer.clone());
        Ok(FetchRequest(bringer))
    }

    /// Whether `bringer` has brought what there is of the range, which has not changed since. The lock is held under which
    /// [`super::RangeChange::set_seq`] is called.
    pub(crate) fn is_brought(&self, bringer: &PageFetcher) -> bool {
        bringer.is_done() && bringer.start == self.start && !self.is_stale(bringer.stamp)
    }
}
