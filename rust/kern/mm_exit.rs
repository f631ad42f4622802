// SPDX-License-Identifier: GPL-2.0
//! Address spaces: their identity, and notification of their end.

use core::ptr::NonNull;

use kernel::error::to_result;
use kernel::mm::{Mm, MmWithUser, MmWithUserAsync};
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use kernel::types::Opaque;

use crate::ffi;
use crate::kern::task;

/// An address space, compared by identity. It keeps the structure, not the memory, so that the
/// identity is not reused while this exists.
#[derive(Clone)]
pub(crate) struct AddressSpace(ARef<Mm>);

impl AddressSpace {
    /// The address space of the calling process.
    ///
    /// # Errors
    ///
    /// `ESRCH` for a kernel thread, which has none.
    pub(crate) fn current() -> Result<Self> {
        let task = kernel::current!();
        let mm: &Mm = task.mm().ok_or(ESRCH)?;
        Ok(Self(mm.into()))
    }

    /// That of `memory`.
    pub(super) fn of(memory: &Mm) -> Self {
        Self(memory.into())
    }

    /// Whether it is that of the calling process.
    pub(crate) fn is_current(&self) -> bool {
        kernel::current!()
            .mm()
            .is_some_and(|mm| mm.as_raw() == self.0.as_raw())
    }

    /// A reference that keeps its memory; `None` if the address space has ended. If this becomes
    /// the last reference, the end comes later, in a context of its own.
    pub(super) fn user(&self) -> Option<ARef<MmWithUserAsync>> {
        self.0.mmget_not_zero().map(MmWithUser::into_mmput_async)
    }

    /// Runs `act`, to which the memory of the address space is user memory. Called by a kernel
    /// thread, which has none of its own. A program may have to provide the pages that `act`
    /// accesses, so no other thread may wait for it; such a wait ends when the thread is killed.
    ///
    /// # Errors
    ///
    /// `ESRCH` if the address space has ended; `EINVAL` for a thread that has an address space;
    /// errors of `act`.
    pub(crate) fn with_user_memory<T: Send>(
        &self,
        act: impl FnOnce() -> Result<T> + Send,
    ) -> Result<T> {
        if !task::is_kernel_thread() || kernel::current!().mm().is_some() {
            return Err(EINVAL);
        }
        let mm = self.user().ok_or(ESRCH)?;
        // SAFETY: This is a kernel thread without an address space, as checked above, and may
        // sleep. `mm` keeps the memory until after it is given back below. `act` and its result are
        // `Send`, so no `CurrentTask` gets into the scope or out of it.
        unsafe { ffi::kthread_use_mm(mm.as_raw()) };
        let done = act();
        // SAFETY: This thread has taken it just above, and `act` cannot have given it back.
        unsafe { ffi::kthread_unuse_mm(mm.as_raw()) };
        done
    }

    /// A number that identifies it among all that exist.
    pub(crate) fn id(&self) -> usize {
        self.0.as_raw() as usize
    }
}

/// A listener for the end of address spaces.
pub(crate) trait MmExitListener: Send + Sync + 'static {
    /// The address space of `id` ends: its last user is gone and its mappings are about to be
    /// removed. May sleep, for a bounded time; runs in the context of the last user, inside an SRCU
    /// section of the kernel's.
    fn ended(&self, id: usize);
}

/// The memory of a subscription; freed by the kernel's SRCU callback.
#[repr(C)]
struct MmExitInner<T> {
    notifier: Opaque<ffi::mmu_notifier>,
    listener: Arc<T>,
}

/// A subscription to the end of one address space. It may also be dropped from within
/// [`MmExitListener::ended`]. The listener's reference is dropped later, in atomic context, so it
/// must not be the last.
pub(crate) struct MmExitSubscription<T: MmExitListener>(NonNull<MmExitInner<T>>);

// SAFETY: The listener is `Send` and `Sync`, and the notifier has its own locks.
unsafe impl<T: MmExitListener> Send for MmExitSubscription<T> {}
// SAFETY: As above.
unsafe impl<T: MmExitListener> Sync for MmExitSubscription<T> {}

/// Provides a static table of operations for each type of listener.
struct MmExitOps<T>(core::marker::PhantomData<T>);

impl<T: MmExitListener> MmExitOps<T> {
    const TABLE: ffi::mmu_notifier_ops = {
        let mut table: ffi::mmu_notifier_ops = pin_init::zeroed();
        table.release = Some(Self::release);
        table.free_notifier = Some(Self::free);
        table
    };

    /// `mmu_notifier_ops::release`.
    ///
    /// # Safety
    ///
    /// The kernel calls it with the notifier of an `MmExitInner<T>`, which it keeps during the
    /// call.
    unsafe extern "C" fn release(notifier: *mut ffi::mmu_notifier, mm: *mut ffi::mm_struct) {
        // SAFETY: The notifier is the first member of an `MmExitInner<T>`, which SRCU keeps until
        // this returns.
        let inner = unsafe { &*notifier.cast::<MmExitInner<T>>() };
        inner.listener.ended(mm as usize);
    }

    /// `mmu_notifier_ops::free_notifier`.
    ///
    /// # Safety
    ///
    /// The kernel calls it once, with the notifier of an `MmExitInner<T>` after its last use.
    unsafe extern "C" fn free(notifier: *mut ffi::mmu_notifier) {
        // SAFETY: The kernel calls this once after the subscription's end; `new` leaked the box to
        // it.
        drop(unsafe { KBox::from_raw(notifier.cast::<MmExitInner<T>>()) });
    }
}

impl<T: MmExitListener> MmExitSubscription<T> {
    /// Subscribes `listener` to the end of `space`.
    ///
    /// # Errors
    ///
    /// `EINTR` if a signal is pending; `ENOMEM` if there is no memory; `ESRCH` if the address space
    /// has ended.
    pub(crate) fn new(space: &AddressSpace, listener: Arc<T>) -> Result<Self> {
        let mm = space.user().ok_or(ESRCH)?;
        let inner = KBox::new(
            MmExitInner {
                notifier: Opaque::zeroed(),
                listener,
            },
            GFP_KERNEL,
        )?;
        let notifier = inner.notifier.get();
        // SAFETY: The notifier has no other user yet.
        unsafe { (*notifier).ops = &MmExitOps::<T>::TABLE };
        // SAFETY: `mm` has a user; the notifier stays in place until the kernel frees it.
        to_result(unsafe { ffi::mmu_notifier_register(notifier, mm.as_raw()) })?;
        Ok(Self(NonNull::from(KBox::leak(inner))))
    }
}

impl<T: MmExitListener> Drop for MmExitSubscription<T> {
    fn drop(&mut self) {
        // SAFETY: It was registered, and is put once. From here on the memory belongs to the
        // kernel.
        unsafe { ffi::mmu_notifier_put((*self.0.as_ptr()).notifier.get()) };
    }
}

/// Waits until no listener is running and all ended subscriptions are freed. Required before the
/// module is unloaded.
pub(crate) fn synchronize() {
    // SAFETY: The only requirement is that the caller may sleep.
    unsafe { ffi::mmu_notifier_synchronize() };
}
