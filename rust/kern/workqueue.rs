// SPDX-License-Identifier: GPL-2.0
//! The module's workqueues, and what the kernel crate's delayed work items cannot do: be moved and cancelled.

use crate::ffi;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, Ordering};
use kernel::container_of;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::Jiffies;
use kernel::workqueue::{self, HasDelayedWork, Queue, RawDelayedWorkItem, Work};

/// A workqueue while the module has it.
type Place = AtomicPtr<ffi::workqueue_struct>;

static HIGHPRI: Place = AtomicPtr::new(core::ptr::null_mut());
static ALLOCATING: Place = AtomicPtr::new(core::ptr::null_mut());
static BACKGROUND: Place = AtomicPtr::new(core::ptr::null_mut());
static PATIENT: Place = AtomicPtr::new(core::ptr::null_mut());
static RESET: Place = AtomicPtr::new(core::ptr::null_mut());

/// The module's workqueues, of its own so that none of its items is left when it goes. Destroyed when dropped, after all
/// their items have run; no item may be pending with a delay then.
///
/// Those are *freezable* whose items change what GPUs have of memory, or take GPUs from the driver: while the machine sleeps, from before the first
/// device does until after the last one is back, none of them runs. Nobody may wait for one then.
pub(crate) struct ModuleWorkQueues {
    // Its items bind devices and unbind them, for which all others are there.
    _reset: UnboundWorkQueue,
    // Items of this one queue some on the next.
    _allocating: UnboundWorkQueue,
    _highpri: UnboundWorkQueue,
    _background: UnboundWorkQueue,
    _patient: UnboundWorkQueue,
}

impl ModuleWorkQueues {
    /// Makes the workqueues that [`highpri`], [`allocating`], [`background`], [`patient`] and [`reset`] give. Once per load of the module. ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        let urgent = ffi::wq_flags_WQ_HIGHPRI | ffi::wq_flags_WQ_MEM_RECLAIM;
        let freezable = ffi::wq_flags_WQ_FREEZABLE;
        let pump = ffi::wq_flags_WQ_HIGHPRI | freezable;
        Ok(Self {
            _reset: UnboundWorkQueue::new(&RESET, c"rkfd_reset", freezable)?,
            _allocating: UnboundWorkQueue::new(&ALLOCATING, c"rkfd_pump", pump)?,
            _highpri: UnboundWorkQueue::new(&HIGHPRI, c"rkfd", urgent)?,
            _background: UnboundWorkQueue::new(&BACKGROUND, c"rkfd_background", freezable)?,
            _patient: UnboundWorkQueue::new(&PATIENT, c"rkfd_patient", 0)?,
        })
    }
}

/// An unbound workqueue: a work item runs on whichever CPU is free.
struct UnboundWorkQueue {
    queue: NonNull<ffi::workqueue_struct>,
    place: &'static Place,
}

// SAFETY: A workqueue may be used and destroyed from any thread.
unsafe impl Send for UnboundWorkQueue {}
// SAFETY: As above.
unsafe impl Sync for UnboundWorkQueue {}

impl UnboundWorkQueue {
    fn new(place: &'static Place, name: &'static CStr, flags: u32) -> Result<Self> {
        let flags = flags | ffi::wq_flags_WQ_UNBOUND;
        // SAFETY: The name is a format without arguments.
        let queue = unsafe { ffi::alloc_workqueue_noprof(name.as_char_ptr(), flags, 0) };
        let queue = NonNull::new(queue).ok_or(ENOMEM)?;
        place.store(queue.as_ptr(), Ordering::Release);
        Ok(Self { queue, place })
    }
}

impl Drop for UnboundWorkQueue {
    fn drop(&mut self) {
        self.place.store(core::ptr::null_mut(), Ordering::Release);
        // SAFETY: The workqueue is ours and destroyed once. What still has the pointer from before is an
        // item of the workqueue itself, whose end is waited for.
        unsafe { ffi::destroy_workqueue(self.queue.as_ptr()) };
    }
}

/// What is in `place`, or else, before and after the module has its own, `system`.
fn queue(place: &'static Place, system: &'static Queue) -> &'static Queue {
    match NonNull::new(place.load(Ordering::Acquire)) {
        // SAFETY: The workqueue lives until the module goes, when nobody calls this any more.
        Some(queue) => unsafe { Queue::from_raw(queue.as_ptr()) },
        None => system,
    }
}

/// For what has to run at once, beside the program that caused it, and what memory reclaim may wait for: its items allocate
/// nothing, and wait for nobody who does, since when memory is short one thread runs them all.
pub(crate) fn highpri() -> &'static Queue {
    queue(&HIGHPRI, workqueue::system_highpri())
}

/// For what is as urgent, but allocates memory. Freezable.
pub(crate) fn allocating() -> &'static Queue {
    queue(&ALLOCATING, workqueue::system_highpri())
}

/// The kernel's own for what is not urgent.
fn system() -> &'static Queue {
    // SAFETY: The kernel sets the pointer long before modules are loaded and never changes it; the workqueue stays.
    unsafe { Queue::from_raw(ffi::system_dfl_wq) }
}

/// For what may take its time and wait for memory. Freezable.
pub(crate) fn background() -> &'static Queue {
    queue(&BACKGROUND, system())
}

/// For what may wait for a program, and so for ever: nobody waits for it but who unloads the module, when nobody needs it any more.
pub(crate) fn patient() -> &'static Queue {
    queue(&PATIENT, system())
}

/// For what takes a device from its driver: no item of another workqueue waits for it. Freezable.
pub(crate) fn reset() -> &'static Queue {
    queue(&RESET, system())
}

/// Has `item` run on `queue` in `delay` jiffies, sooner or later than it was going to, or again if it is running
/// now. Any context.
///
/// Of an item that is disabled the kernel does not say that it was not queued, and its reference would be nobody's: items of
/// this module never are, see [`cancel`].
pub(crate) fn run_in<T, const ID: u64>(queue: &Queue, item: Arc<T>, delay: Jiffies)
where
    T: HasDelayedWork<T, ID> + Send + Sync + 'static,
    Arc<T>: RawDelayedWorkItem<ID>,
{
    let queue = core::ptr::from_ref(queue)
        .cast::<ffi::workqueue_struct>()
        .cast_mut();
    // SAFETY: The closure gets a work item that is part of a delayed one, as `RawDelayedWorkItem` says, which
    // stays until it has run if the closure returns true. It returns false only if the item was already
    // pending, which then has a reference to it of its own. True says that it was queued: it is not disabled, which
    // nobody does.
    let _ = unsafe {
        kernel::workqueue::RawWorkItem::__enqueue(item, |work| {
            let delayed = container_of!(work, ffi::delayed_work, work);
            !ffi::mod_delayed_work_on(
                ffi::wq_misc_consts_WORK_CPU_UNBOUND as kernel::ffi::c_int,
                queue,
                delayed,
                delay,
            )
        })
    };
}

/// Has `item` not run if it is pending, and waits for its end if it is running. One that somebody has run meanwhile is waited for, too.
/// Sleeps.
pub(crate) fn cancel<T, const ID: u64>(item: &Arc<T>)
where
    T: HasDelayedWork<T, ID>,
{
    let raw = Arc::as_ptr(item);
    // SAFETY: `raw` points to a live object.
    let work = unsafe { Work::raw_get(T::raw_get_work(raw.cast_mut())) };
    loop {
        // Not the kernel's function that does both: it disables the item meanwhile, see `run_in`.
        // SAFETY: The work item is part of a delayed one, as `HasDelayedWork` says, and initialized.
        let was_pending =
            unsafe { ffi::cancel_delayed_work(container_of!(work, ffi::delayed_work, work)) };
        if was_pending {
            // SAFETY: A pending item owns a reference, which nobody else takes back now.
            drop(unsafe { Arc::from_raw(raw) });
        }
        // SAFETY: As above.
        let was_running = unsafe { ffi::flush_work(work) };
        // It may have had itself run again.
        if !was_pending && !was_running {
            return;
        }
    }
}
