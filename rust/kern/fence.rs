// SPDX-License-Identifier: GPL-2.0
//! DMA fences, with the two sides separate: [`HwFence`] is the right to signal a fence, and
//! [`Fence`] is the object to wait for.
//!
//! A fence of this module has neither a `release` nor a `wait` operation, so once it is signalled
//! the kernel needs nothing of this module for it: it may outlive the module.

use core::{mem::ManuallyDrop, ptr::NonNull};

use kernel::{
    fs::File,
    prelude::*,
    sync::aref::{ARef, AlwaysRefCounted},
    sync::atomic::{Atomic, Relaxed},
    time::Jiffies,
    types::Opaque,
};

use crate::ffi;

/// The size of a timeline's name in bytes, with the terminating zero.
const NAME: usize = 32;

/// The allocation of a fence.
#[repr(C)]
struct FenceAllocation {
    // First: the kernel frees the address of the fence.
    fence: Opaque<ffi::dma_fence>,
    // A copy, so that the name lives as long as the fence.
    name: [u8; NAME],
}

/// `dma_fence_ops`, in a static that may be shared.
struct FenceOps(ffi::dma_fence_ops);

// SAFETY: The structure is never written.
unsafe impl Sync for FenceOps {}

static OPERATIONS: FenceOps = FenceOps(ffi::dma_fence_ops {
    get_driver_name: Some(driver_name),
    get_timeline_name: Some(timeline_name),
    ..pin_init::zeroed()
});

/// `dma_fence_ops::get_driver_name`.
///
/// # Safety
///
/// None: it accesses nothing.
unsafe extern "C" fn driver_name(_fence: *mut ffi::dma_fence) -> *const c_char {
    c"rkfd".as_char_ptr()
}

/// `dma_fence_ops::get_timeline_name`.
///
/// # Safety
///
/// `fence` must be one that `BlankFence::init_in` made, and stay valid as long as the name is used.
unsafe extern "C" fn timeline_name(fence: *mut ffi::dma_fence) -> *const c_char {
    // SAFETY: Only fences that `BlankFence::init_in` made have this operation.
    unsafe { (&raw const (*fence.cast::<FenceAllocation>()).name).cast() }
}

/// `ECANCELED`: the awaited work was cancelled.
pub(crate) fn canceled() -> Error {
    Error::from_errno(-(ffi::ECANCELED as c_int))
}

/// A timeline: its fences are signalled in the order in which they were made.
pub(crate) struct FenceContext {
    context: u64,
    seqno: Atomic<u64>,
    name: [u8; NAME],
}

impl FenceContext {
    /// A timeline with a name (cut to 31 bytes) that debugging tools show.
    pub(crate) fn new(name: &CStr) -> Self {
        let mut copy = [0; NAME];
        let from = name.to_bytes();
        let len = from.len().min(NAME - 1);
        copy[..len].copy_from_slice(&from[..len]);
        Self {
            // SAFETY: Always allowed; a count of one.
            context: unsafe { ffi::dma_fence_context_alloc(1) },
            seqno: Atomic::new(0),
            name: copy,
        }
    }
}

/// A fence that is not signalled yet, and the exclusive right to signal it. Dropping it signals it
/// with `ECANCELED`, so that no waiter waits for ever.
///
/// # Invariants
///
/// `0` is one reference to an initialized fence in a [`FenceAllocation`].
pub(crate) struct HwFence(NonNull<ffi::dma_fence>);

// SAFETY: A fence may be signalled from any thread.
unsafe impl Send for HwFence {}

// SAFETY: Shared references only hand out references to the fence.
unsafe impl Sync for HwFence {}

/// Memory for a fence. It is allocated before a job is queued: no step towards a signal may
/// allocate.
pub(crate) struct BlankFence(KBox<FenceAllocation>);

// SAFETY: It is memory without other users.
unsafe impl Send for BlankFence {}
// SAFETY: Shared references allow no operation.
unsafe impl Sync for BlankFence {}

impl BlankFence {
    /// Allocates the memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is none.
    pub(crate) fn new() -> Result<Self> {
        let allocation = FenceAllocation {
            fence: Opaque::zeroed(),
            name: [0; NAME],
        };
        Ok(Self(KBox::new(allocation, GFP_KERNEL_ACCOUNT)?))
    }

    /// Initializes it as the next fence of `context`: fences of a timeline are made in the order in
    /// which they are signalled. Any context.
    pub(crate) fn init_in(mut self, context: &FenceContext) -> HwFence {
        self.0.name = context.name;
        let fence = KBox::into_raw(self.0).cast::<ffi::dma_fence>();
        let seqno = context.seqno.fetch_add(1, Relaxed) + 1;
        // SAFETY: The memory is ours, and becomes the fence's: it is freed by `kfree_rcu`, which
        // fits a `KBox` that begins with the fence. The operations are static, and not needed after
        // the signal. As no lock is passed, the fence uses its own.
        unsafe {
            ffi::dma_fence_init64(
                fence,
                &OPERATIONS.0,
                core::ptr::null_mut(),
                context.context,
                seqno,
            )
        };
        // INVARIANT: Initialized, with a count of one, which is ours. SAFETY: `into_raw` never
        // returns null.
        HwFence(unsafe { NonNull::new_unchecked(fence) })
    }
}

impl HwFence {
    /// Makes the next fence of `context`; see [`BlankFence`].
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(context: &FenceContext) -> Result<Self> {
        Ok(BlankFence::new()?.init_in(context))
    }

    /// The fence to wait for.
    pub(crate) fn fence(&self) -> ARef<Fence> {
        // SAFETY: The fence is valid by the type invariant, and `Fence` is a transparent wrapper.
        unsafe { self.0.cast::<Fence>().as_ref() }.into()
    }

    /// Signals the fence. Any context.
    pub(crate) fn signal(self, result: Result) {
        let this = ManuallyDrop::new(self);
        // SAFETY: Valid by the type invariant; the reference is dropped with it.
        unsafe {
            complete(this.0.as_ptr(), result);
            ffi::rkfd_dma_fence_put(this.0.as_ptr());
        }
    }
}

impl Drop for HwFence {
    fn drop(&mut self) {
        // SAFETY: As in `signal`.
        unsafe {
            complete(self.0.as_ptr(), Err(canceled()));
            ffi::rkfd_dma_fence_put(self.0.as_ptr());
        }
    }
}

/// Signals `fence` with `result`, unless it is signalled already. When this returns, the callbacks
/// of that signal have run, even if another thread signalled it.
///
/// # Safety
///
/// `fence` must be a fence to which the caller has a reference.
pub(super) unsafe fn complete(fence: *mut ffi::dma_fence, result: Result) {
    // SAFETY: By this function's contract; the flags are those that the lock returned.
    unsafe {
        let flags = ffi::rkfd_dma_fence_lock_irqsave(fence);
        if !ffi::rkfd_dma_fence_test_signaled_flag(fence) {
            if let Err(e) = result {
                ffi::rkfd_dma_fence_set_error(fence, e.to_errno());
            }
            ffi::dma_fence_signal_locked(fence);
        }
        ffi::rkfd_dma_fence_unlock_irqrestore(fence, flags);
    }
}

/// Waits until the callbacks of `fence`, which is signalled, have run.
///
/// # Safety
///
/// `fence` must be a fence to which the caller has a reference.
pub(super) unsafe fn wait_callbacks(fence: *mut ffi::dma_fence) {
    // SAFETY: By this function's contract; the flags are those that the lock returned. Callbacks
    // run under the lock.
    unsafe {
        let flags = ffi::rkfd_dma_fence_lock_irqsave(fence);
        ffi::rkfd_dma_fence_unlock_irqrestore(fence, flags);
    }
}

/// A reference-counted event that is signalled once.
#[repr(transparent)]
pub(crate) struct Fence(Opaque<ffi::dma_fence>);

// SAFETY: Fences may be used from any thread.
unsafe impl Send for Fence {}

// SAFETY: As above.
unsafe impl Sync for Fence {}

// SAFETY: The count is the fence's own.
unsafe impl AlwaysRefCounted for Fence {
    fn inc_ref(&self) {
        // SAFETY: A shared reference proves that the count is not zero.
        unsafe { ffi::rkfd_dma_fence_get(self.0.get()) };
    }

    unsafe fn dec_ref(this: NonNull<Self>) {
        // SAFETY: The caller gives up a reference.
        unsafe { ffi::rkfd_dma_fence_put(this.as_ptr().cast()) };
    }
}

impl Fence {
    /// The C fence.
    pub(super) fn as_raw(&self) -> *mut ffi::dma_fence {
        self.0.get()
    }

    /// The `Fence` of a C fence.
    ///
    /// # Safety
    ///
    /// `fence` must be valid for `'a`.
    pub(super) unsafe fn from_raw<'a>(fence: *mut ffi::dma_fence) -> &'a Self {
        // SAFETY: By this function's contract; the wrapper is transparent.
        unsafe { &*fence.cast() }
    }

    /// A fence that is signalled already.
    pub(crate) fn signaled() -> ARef<Self> {
        // SAFETY: The kernel has one such fence, and returns a reference to it.
        unsafe { ARef::from_raw(NonNull::new_unchecked(ffi::dma_fence_get_stub()).cast()) }
    }

    /// A new file of the fence, a sync file.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory, or the system has too many open files.
    pub(crate) fn sync_file(&self) -> Result<ARef<File>> {
        // SAFETY: A shared reference proves that the fence is valid; the file takes one of its own.
        let file = unsafe { ffi::rkfd_sync_file_create(self.as_raw()) };
        let file = NonNull::new(file.cast::<File>()).ok_or(ENOMEM)?;
        // SAFETY: A new file comes with a reference, which has no other owner yet. It has no
        // position.
        Ok(unsafe { ARef::from_raw(file) })
    }

    /// The result that it was signalled with; `None` while it is not signalled.
    pub(crate) fn status(&self) -> Option<Result> {
        // SAFETY: A shared reference proves that the fence is valid.
        match unsafe { ffi::dma_fence_get_status(self.as_raw()) } {
            0 => None,
            e if e < 0 => Some(Err(Error::from_errno(e))),
            _ => Some(Ok(())),
        }
    }

    /// Waits at most `timeout`; returns whether the fence is signalled.
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS` if a signal for the task comes first.
    pub(crate) fn wait_interruptible(&self, timeout: Jiffies) -> Result<bool> {
        let timeout = c_long::try_from(timeout).unwrap_or(c_long::MAX);
        // SAFETY: A shared reference proves that the fence is valid.
        match unsafe { ffi::dma_fence_wait_timeout(self.as_raw(), true, timeout) } {
            error if error < 0 => Err(Error::from_errno(error as c_int)),
            left => Ok(left > 0),
        }
    }

    /// Waits at most `timeout` for one of `fences`, of which there is at least one; returns its
    /// place, or `None` after that time.
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS` if a signal for the task comes first; `ENOMEM` if there is no memory.
    pub(crate) fn wait_any(fences: &[ARef<Self>], timeout: Jiffies) -> Result<Option<usize>> {
        let count = u32::try_from(fences.len()).map_err(|_| EINVAL)?;
        if count == 0 {
            return Err(EINVAL);
        }
        let timeout = c_long::try_from(timeout).unwrap_or(c_long::MAX);
        let mut raw = KVec::with_capacity(fences.len(), GFP_KERNEL_ACCOUNT)?;
        for fence in fences {
            raw.push(fence.as_raw(), GFP_KERNEL_ACCOUNT)?;
        }
        let mut first = u32::MAX;
        // SAFETY: The fences are valid as long as they are borrowed, which is longer than the
        // call; the array has as many as the count says.
        let left = unsafe {
            ffi::dma_fence_wait_any_timeout(raw.as_mut_ptr(), count, true, timeout, &mut first)
        };
        match left {
            error if error < 0 => Err(Error::from_errno(error as c_int)),
            0 => Ok(None),
            _ => Ok(Some(first as usize)),
        }
    }

    /// Waits at most `timeout`, ignoring signals to the task; returns whether the fence is
    /// signalled.
    pub(crate) fn wait_timeout(&self, timeout: Jiffies) -> bool {
        let timeout = c_long::try_from(timeout).unwrap_or(c_long::MAX);
        // SAFETY: A shared reference proves that the fence is valid.
        unsafe { ffi::dma_fence_wait_timeout(self.as_raw(), false, timeout) > 0 }
    }
}
