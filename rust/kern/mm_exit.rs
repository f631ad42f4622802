// SPDX-License-Identifier: GPL-2.0
//! Address spaces: telling them apart, and hearing when one ends.

use core::ptr::NonNull;

use kernel::error::to_result;
use kernel::mm::{Mm, MmWithUser, MmWithUserAsync};
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use kernel::types::Opaque;

use crate::ffi;

/// An address space, compared by identity. It keeps the structure, not the memory, so that the identity is not
/// used again while somebody holds one.
#[derive(Clone)]
pub(crate) struct AddressSpace(ARef<Mm>);

impl AddressSpace {
    /// That of the calling process. ESRCH for a kernel thread, which has none.
    pub(crate) fn current() -> Result<Self> {
        let task = kernel::current!();
        let mm: &Mm = task.mm().ok_or(ESRCH)?;
        Ok(Self(mm.into()))
    }

    /// Whether it is that of the calling process.
    pub(crate) fn is_current(&self) -> bool {
        kernel::current!()
            .mm()
            .is_some_and(|mm| mm.as_raw() == self.0.as_raw())
    }

    /// Its memory, kept until what is returned is dropped; `None` when it is at its end. If that was the last user,
    /// the end comes later, in a context of its own.
    pub(super) fn user(&self) -> Option<ARef<MmWithUserAsync>> {
        self.0.mmget_not_zero().map(MmWithUser::into_mmput_async)
    }

    /// What tells it from all others that exist.
    pub(crate) fn id(&self) -> usize {
        self.0.as_raw() as usize
    }
}

/// Who hears of the end of address spaces.
pub(crate) trait MmExitListener: Send + Sync + 'static {
    /// The address space of `id` ends: its last user is gone and its mappings are about to go. May sleep, for a
    /// bounded time; runs in the context of the last user, inside an SRCU section of the kernel's.
    fn ended(&self, id: usize);
}

/// Memory of a subscription; freed by the kernel's SRCU callback.
#[repr(C)]
struct MmExitInner<T> {
    notifier: Opaque<ffi::mmu_notifier>,
    listener: Arc<T>,
}

/// A subscription to the end of one address space. Dropping it ends it, also from within [`MmExitListener::ended`]; the
/// listener's reference is dropped later, in atomic context, so it must not be the last.
pub(crate) struct MmExitSubscription<T: MmExitListener>(NonNull<MmExitInner<T>>);

// SAFETY: The listener is `Send` and `Sync`, the notifier has its own locks.
unsafe impl<T: MmExitListener> Send for MmExitSubscription<T> {}
// SAFETY: As above.
unsafe impl<T: MmExitListener> Sync for MmExitSubscription<T> {}

/// Gives a static table of operations for each kind of listener.
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
    /// The kernel calls it with the notifier of an `MmExitInner<T>`, which it keeps meanwhile.
    unsafe extern "C" fn release(notifier: *mut ffi::mmu_notifier, mm: *mut ffi::mm_struct) {
        // SAFETY: The notifier is the first member of an `MmExitInner<T>`, which SRCU keeps until we return.
        let inner = unsafe { &*notifier.cast::<MmExitInner<T>>() };
        inner.listener.ended(mm as usize);
    }

    /// `mmu_notifier_ops::free_notifier`.
    ///
    /// # Safety
    ///
    /// The kernel calls it once, with the notifier of an `MmExitInner<T>` that nobody uses any more.
    unsafe extern "C" fn free(notifier: *mut ffi::mmu_notifier) {
        // SAFETY: The kernel calls this once after the subscription's end; `new` leaked the box to it.
        drop(unsafe { KBox::from_raw(notifier.cast::<MmExitInner<T>>()) });
    }
}

impl<T: MmExitListener> MmExitSubscription<T> {
    /// Subscribes `listener` to the end of the calling process's address space. EINTR if a signal is pending,
    /// ENOMEM, ESRCH for a kernel thread.
    pub(crate) fn current(listener: Arc<T>) -> Result<Self> {
        let task = kernel::current!();
        let mm = task.mm().ok_or(ESRCH)?;
        let inner = KBox::new(
            MmExitInner {
                notifier: Opaque::zeroed(),
                listener,
            },
            GFP_KERNEL,
        )?;
        let notifier = inner.notifier.get();
        // SAFETY: Nobody else knows the notifier yet.
        unsafe { (*notifier).ops = &MmExitOps::<T>::TABLE };
        // SAFETY: The current process uses `mm`; the notifier stays in place until the kernel frees it.
        to_result(unsafe { ffi::mmu_notifier_register(notifier, mm.as_raw()) })?;
        Ok(Self(NonNull::from(KBox::leak(inner))))
    }
}

impl<T: MmExitListener> Drop for MmExitSubscription<T> {
    fn drop(&mut self) {
        // SAFETY: It was registered, and is put once. The memory is the kernel's from here on.
        unsafe { ffi::mmu_notifier_put((*self.0.as_ptr()).notifier.get()) };
    }
}

/// Waits until no listener is being called and all ended subscriptions are freed: before the module may go.
pub(crate) fn synchronize() {
    // SAFETY: It has no requirements but that the caller may sleep.
    unsafe { ffi::mmu_notifier_synchronize() };
}
