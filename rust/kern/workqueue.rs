// SPDX-License-Identifier: GPL-2.0
//! The module's workqueues, and operations on delayed work items that the kernel crate lacks:
//! rescheduling and cancellation.

use crate::ffi;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, Ordering};
use kernel::container_of;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::Jiffies;
use kernel::workqueue::{self, HasDelayedWork, Queue, RawDelayedWorkItem, Work};

/// A workqueue while the module has it, or null.
type QueueSlot = AtomicPtr<ffi::workqueue_struct>;

static HIGHPRI: QueueSlot = AtomicPtr::new(core::ptr::null_mut());
static FAULTS: QueueSlot = AtomicPtr::new(core::ptr::null_mut());
static ALLOCATING: QueueSlot = AtomicPtr::new(core::ptr::null_mut());
static BACKGROUND: QueueSlot = AtomicPtr::new(core::ptr::null_mut());
static PATIENT: QueueSlot = AtomicPtr::new(core::ptr::null_mut());
static RESET: QueueSlot = AtomicPtr::new(core::ptr::null_mut());

/// The module's workqueues. They are its own, so that none of its items is left when it is
/// unloaded. Dropping this destroys them after all their items have run; no item may be pending
/// with a delay then.
///
/// Workqueues whose items change the contents of GPU memory, or detach GPUs from the driver, are
/// *freezable*: while the machine sleeps, from before the first device is suspended until after the
/// last one is resumed, none of their items runs. No task may wait for such an item then. Nor may
/// the hardware: a queue leaves it only when its page faults are served, so the items that do that
/// run until all queues are off ([`faults`]).
pub(crate) struct ModuleWorkQueues {
    // Its items bind and unbind devices, for which all other workqueues must exist.
    _reset: UnboundWorkQueue,
    _faults: UnboundWorkQueue,
    // Items of this workqueue queue others on the next one.
    _allocating: UnboundWorkQueue,
    _highpri: UnboundWorkQueue,
    _background: UnboundWorkQueue,
    _patient: UnboundWorkQueue,
}

impl ModuleWorkQueues {
    /// Creates the workqueues that [`highpri`], [`faults`], [`allocating`], [`background`],
    /// [`patient`] and [`reset`] return. Once per load of the module.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new() -> Result<Self> {
        let urgent = ffi::wq_flags_WQ_HIGHPRI | ffi::wq_flags_WQ_MEM_RECLAIM;
        let freezable = ffi::wq_flags_WQ_FREEZABLE;
        let faults = ffi::wq_flags_WQ_HIGHPRI;
        let pump = faults | freezable;
        Ok(Self {
            _reset: UnboundWorkQueue::new(&RESET, c"rkfd_reset", freezable)?,
            _faults: UnboundWorkQueue::new(&FAULTS, c"rkfd_faults", faults)?,
            _allocating: UnboundWorkQueue::new(&ALLOCATING, c"rkfd_pump", pump)?,
            _highpri: UnboundWorkQueue::new(&HIGHPRI, c"rkfd", urgent)?,
            _background: UnboundWorkQueue::new(&BACKGROUND, c"rkfd_background", freezable)?,
            _patient: UnboundWorkQueue::new(&PATIENT, c"rkfd_patient", 0)?,
        })
    }
}

/// An unbound workqueue: a work item runs on any free CPU.
struct UnboundWorkQueue {
    queue: NonNull<ffi::workqueue_struct>,
    slot: &'static QueueSlot,
}

// SAFETY: A workqueue may be used and destroyed from any thread.
unsafe impl Send for UnboundWorkQueue {}
// SAFETY: As above.
unsafe impl Sync for UnboundWorkQueue {}

impl UnboundWorkQueue {
    fn new(slot: &'static QueueSlot, name: &'static CStr, flags: u32) -> Result<Self> {
        let flags = flags | ffi::wq_flags_WQ_UNBOUND;
        // SAFETY: The name is a format without arguments.
        let queue = unsafe { ffi::alloc_workqueue_noprof(name.as_char_ptr(), flags, 0) };
        let queue = NonNull::new(queue).ok_or(ENOMEM)?;
        slot.store(queue.as_ptr(), Ordering::Release);
        Ok(Self { queue, slot })
    }
}

impl Drop for UnboundWorkQueue {
    fn drop(&mut self) {
        self.slot.store(core::ptr::null_mut(), Ordering::Release);
        // SAFETY: The workqueue is ours and destroyed once. Any code that still has the earlier
        // pointer is an item of the workqueue itself, whose end this waits for.
        unsafe { ffi::destroy_workqueue(self.queue.as_ptr()) };
    }
}

/// The workqueue in `slot`, or `system` before and after the module has its own.
fn queue(slot: &'static QueueSlot, system: &'static Queue) -> &'static Queue {
    match NonNull::new(slot.load(Ordering::Acquire)) {
        // SAFETY: The workqueue lives until the module is unloaded, when there are no callers any
        // more.
        Some(queue) => unsafe { Queue::from_raw(queue.as_ptr()) },
        None => system,
    }
}

/// The workqueue for urgent items, which run beside the program that caused them, and which memory
/// reclaim may wait for. Its items must not allocate, nor wait for an allocation elsewhere, since
/// one thread runs them all when memory is short.
pub(crate) fn highpri() -> &'static Queue {
    queue(&HIGHPRI, workqueue::system_highpri())
}

/// The workqueue for items that are as urgent, but allocate memory. Freezable.
pub(crate) fn allocating() -> &'static Queue {
    queue(&ALLOCATING, workqueue::system_highpri())
}

/// The workqueue for items that resolve page faults of queues, which are as urgent and allocate
/// memory. Not freezable: before a sleep, queues leave the hardware only if it has their pages.
/// [`crate::ip::retries::RetryFaults::suspend`] keeps its items off the GPU after that.
pub(crate) fn faults() -> &'static Queue {
    queue(&FAULTS, workqueue::system_highpri())
}

/// The kernel's own workqueue for items that are not urgent.
fn system() -> &'static Queue {
    // SAFETY: The kernel sets the pointer long before modules are loaded and never changes it; the
    // workqueue stays.
    unsafe { Queue::from_raw(ffi::system_dfl_wq) }
}

/// The workqueue for slow items, which may wait for memory. Freezable.
pub(crate) fn background() -> &'static Queue {
    queue(&BACKGROUND, system())
}

/// The workqueue for items that may wait for a program, and so for ever. Nothing waits for its
/// items except the unloading of the module, when they are no longer needed.
pub(crate) fn patient() -> &'static Queue {
    queue(&PATIENT, system())
}

/// The workqueue for items that detach a device from its driver: no item of another workqueue waits
/// for them. Freezable.
pub(crate) fn reset() -> &'static Queue {
    queue(&RESET, system())
}

/// Schedules `item` on `queue` in `delay` jiffies: earlier or later than it was scheduled before,
/// or once more if it is running now. Any context.
///
/// For a disabled item the kernel does not report that it was not queued, and its reference would
/// leak. Items of this module are never disabled, see [`cancel`].
pub(crate) fn run_in<T, const ID: u64>(queue: &Queue, item: Arc<T>, delay: Jiffies)
where
    T: HasDelayedWork<T, ID> + Send + Sync + 'static,
    Arc<T>: RawDelayedWorkItem<ID>,
{
    let queue = core::ptr::from_ref(queue)
        .cast::<ffi::workqueue_struct>()
        .cast_mut();
    // SAFETY: The closure gets a work item that is part of a delayed one, as `RawDelayedWorkItem`
    // says, which stays until it has run if the closure returns true. It returns false only if the
    // item was already pending, which then has a reference of its own. True means that it was
    // queued: it is not disabled, as items of this module never are.
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

/// Cancels `item` if it is pending, and waits for its end if it is running. Also waits if it was
/// scheduled again during the call. May sleep.
pub(crate) fn cancel<T, const ID: u64>(item: &Arc<T>)
where
    T: HasDelayedWork<T, ID>,
{
    let raw = Arc::as_ptr(item);
    // SAFETY: `raw` points to a live object.
    let work = unsafe { Work::raw_get(T::raw_get_work(raw.cast_mut())) };
    loop {
        // Not the kernel's function that does both: it disables the item during the wait, see
        // `run_in`. SAFETY: The work item is part of a delayed one, as `HasDelayedWork` says, and
        // initialized.
        let was_pending =
            unsafe { ffi::cancel_delayed_work(container_of!(work, ffi::delayed_work, work)) };
        if was_pending {
            // SAFETY: A pending item owns a reference, which the cancellation leaves to us.
            drop(unsafe { Arc::from_raw(raw) });
        }
        // SAFETY: As above.
        let was_running = unsafe { ffi::flush_work(work) };
        // It may have scheduled itself again.
        if !was_pending && !was_running {
            return;
        }
    }
}
