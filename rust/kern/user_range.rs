// SPDX-License-Identifier: GPL-2.0
//! A range of a process's memory that a device uses without pinning it: its pages, and notification
//! before they are removed or change (MMU interval notifiers, HMM).

mod extent;
mod fault;
mod moves;
mod pages;
mod slow;

use super::{mm_exit::AddressSpace, task};
use crate::ffi;
use core::ops::{Deref, Range};
use extent::VmaExtent;
pub(crate) use extent::{around, first_hole, is_anonymous, is_memory, is_own, MemoryAround};
pub(crate) use fault::{MissingPages, PageRequest};
use kernel::{error::to_result, page::PAGE_SIZE, prelude::*, types::Opaque};
pub(crate) use moves::{migrate_to_device, migrate_to_system};
pub(crate) use pages::DevicePages;
use pin_init::PinInit;
pub(crate) use slow::{is_changing, wait_for_pages, with_lock_soon, FetchRequest, LockWait};

/// A user of the pages of a range.
pub(crate) trait RangeWatcher: Send + Sync + 'static {
    /// Pages of the range are about to be removed or to change. When this returns, they are no
    /// longer used. A watcher with pages calls [`RangeChange::set_seq`] under a lock of its own,
    /// which also protects [`RangeWatch::is_stale`]: without that call,
    /// [`RangeWatch::read_begin`] waits for nothing, and no stamp becomes stale.
    ///
    /// Runs in the context that changes the memory, maybe under reclaim: sleeps for a bounded time
    /// only, allocates nothing, and takes no lock under which memory is allocated or the mmap lock
    /// is taken.
    fn invalidate(&self, change: &RangeChange);

    /// Whether the watcher needs all changes, or only those that unmap memory of the process.
    const ALL_CHANGES: bool = true;
}

/// A change of the pages of a range.
pub(crate) struct RangeChange {
    notifier: *mut ffi::mmu_interval_notifier,
    sequence: usize,
    own: bool,
    range: Range<usize>,
    kind: ChangeKind,
}

/// The kind of change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// The process unmaps its memory, or moves it to other addresses.
    Unmapped,
    /// The pages are migrated: copied to others.
    Moves,
    /// Any other change.
    Other,
}

impl RangeChange {
    /// Makes every earlier [`RangeStamp`] of the range stale.
    pub(crate) fn set_seq(&self) {
        // SAFETY: The notifier and its sequence number are those of the callback that this was made
        // in.
        unsafe { ffi::rkfd_mmu_interval_set_seq(self.notifier, self.sequence) };
    }

    /// The addresses that the process unmaps, or moves memory away from; not limited to the watched
    /// range.
    pub(crate) fn unmapped(&self) -> Option<Range<usize>> {
        (self.kind == ChangeKind::Unmapped).then(|| self.range.clone())
    }

    /// The addresses whose pages change; not limited to the watched range.
    pub(crate) fn range(&self) -> &Range<usize> {
        &self.range
    }

    /// The kind of change.
    pub(crate) fn kind(&self) -> ChangeKind {
        self.kind
    }

    /// Whether the process makes the change itself, and not to reclaim memory: then a delay does
    /// not affect others.
    pub(crate) fn may_be_delayed(&self) -> bool {
        self.own && !task::is_reclaiming()
    }
}

/// A point in the history of a range.
#[derive(Clone, Copy)]
pub(crate) struct RangeStamp(usize);

#[repr(C)]
#[pin_data]
struct RangeInner<T> {
    notifier: Opaque<ffi::mmu_interval_notifier>,
    #[pin]
    watcher: T,
}

/// A watched range. Dropping it ends the watch. The drop waits for [`RangeWatcher::invalidate`], so
/// no lock that the callback takes may be held.
pub(crate) struct RangeWatch<T: RangeWatcher> {
    inner: Pin<KBox<RangeInner<T>>>,
    space: AddressSpace,
    start: usize,
    size: usize,
}

// SAFETY: The watcher is `Send` and `Sync`, and the notifier has its own locks.
unsafe impl<T: RangeWatcher> Send for RangeWatch<T> {}
// SAFETY: As above.
unsafe impl<T: RangeWatcher> Sync for RangeWatch<T> {}

/// Provides a static table of operations for each type of watcher.
struct RangeOps<T>(core::marker::PhantomData<T>);

impl<T: RangeWatcher> RangeOps<T> {
    const TABLE: ffi::mmu_interval_notifier_ops = {
        let mut table: ffi::mmu_interval_notifier_ops = pin_init::zeroed();
        table.invalidate = Some(Self::invalidate);
        table
    };

    /// `mmu_interval_notifier_ops::invalidate`: returns false if waiting is not allowed.
    ///
    /// # Safety
    ///
    /// The kernel calls it with the notifier of a `RangeInner<T>`, which it keeps during the call.
    unsafe extern "C" fn invalidate(
        notifier: *mut ffi::mmu_interval_notifier,
        range: *const ffi::mmu_notifier_range,
        sequence: usize,
    ) -> bool {
        // SAFETY: The range is valid during the call.
        let (event, start, end) = unsafe { ((*range).event, (*range).start, (*range).end) };
        let kind = match event {
            ffi::mmu_notifier_event_MMU_NOTIFY_UNMAP => ChangeKind::Unmapped,
            ffi::mmu_notifier_event_MMU_NOTIFY_MIGRATE => ChangeKind::Moves,
            _ => ChangeKind::Other,
        };
        if !T::ALL_CHANGES && kind != ChangeKind::Unmapped {
            return true;
        }
        // SAFETY: The range is valid during the call.
        if unsafe { (*range).flags } & ffi::MMU_NOTIFIER_RANGE_BLOCKABLE == 0 {
            return false;
        }
        // SAFETY: The notifier is the first member of a `RangeInner<T>`, which stays until the
        // notifier is removed.
        let inner = unsafe { &*notifier.cast::<RangeInner<T>>() };
        // SAFETY: The range is valid during the call.
        let mm = unsafe { (*range).mm };
        let own = kernel::current!()
            .mm()
            .is_some_and(|own| own.as_raw() == mm);
        inner.watcher.invalidate(&RangeChange {
            notifier,
            sequence,
            own,
            range: start..end,
            kind,
        });
        true
    }
}

impl<T: RangeWatcher> RangeWatch<T> {
    /// Watches the `size` bytes at `start` of `space`, for `watcher`. Takes the mmap lock unless
    /// the address space had a watch before: see [`prepare`].
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; `EOVERFLOW` if the range wraps; `ESRCH` if the address space
    /// has ended.
    pub(crate) fn new(
        space: &AddressSpace,
        start: usize,
        size: usize,
        watcher: impl PinInit<T>,
    ) -> Result<Self> {
        let inner = KBox::pin_init(
            pin_init!(RangeInner {
                notifier: Opaque::zeroed(),
                watcher <- watcher,
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let user = space.user().ok_or(ESRCH)?;
        // SAFETY: The address space has a user; the notifier stays in place until it is removed,
        // which happens when `Self` is dropped.
        to_result(unsafe {
            ffi::mmu_interval_notifier_insert(
                inner.notifier.get(),
                user.as_raw(),
                start,
                size,
                &RangeOps::<T>::TABLE,
            )
        })?;
        Ok(Self {
            inner,
            space: space.clone(),
            start,
            size,
        })
    }

    /// A stamp of the present state; later changes make it stale. Waits for the end of a change
    /// that is in progress. May sleep.
    pub(crate) fn read_begin(&self) -> RangeStamp {
        // SAFETY: The notifier is inserted.
        RangeStamp(unsafe { ffi::mmu_interval_read_begin(self.inner.notifier.get()) })
    }

    /// Whether the range has changed since `stamp`. The caller holds the lock under which
    /// [`RangeChange::set_seq`] is called.
    pub(crate) fn is_stale(&self, stamp: RangeStamp) -> bool {
        // SAFETY: The notifier is inserted.
        unsafe { ffi::rkfd_mmu_interval_read_retry(self.inner.notifier.get(), stamp.0) }
    }
}

/// A watcher without pages.
struct NoWatcher;

impl RangeWatcher for NoWatcher {
    fn invalidate(&self, _: &RangeChange) {}

    const ALL_CHANGES: bool = false;
}

/// Ensures that [`RangeWatch::new`] of `space` need not take the mmap lock, which the kernel does
/// for the first one.
///
/// # Errors
///
/// `EINTR` if a signal is pending; `ENOMEM` if there is no memory; `ESRCH` if the address space has
/// ended.
pub(crate) fn prepare(space: &AddressSpace) -> Result {
    RangeWatch::new(space, 0, PAGE_SIZE, NoWatcher).map(drop)
}

impl<T: RangeWatcher> Deref for RangeWatch<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner.watcher
    }
}

impl<T: RangeWatcher> Drop for RangeWatch<T> {
    fn drop(&mut self) {
        // SAFETY: It was inserted, and is removed once.
        unsafe { ffi::mmu_interval_notifier_remove(self.inner.notifier.get()) };
    }
}
