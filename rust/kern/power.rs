// SPDX-License-Identifier: GPL-2.0
//! System sleep: notification before it begins, with a veto.

use core::ptr::NonNull;

use kernel::error::to_result;
use kernel::fmt;
use kernel::prelude::*;
use kernel::types::Opaque;

use crate::ffi;

/// The transition that the machine is about to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SleepPhase {
    /// To RAM, or with only its processors idle.
    Suspend,
    /// To disk.
    Hibernation,
    /// From disk: the saved image replaces the running system.
    Restore,
    /// One of these, without an announcement of which.
    Unannounced,
}

impl SleepPhase {
    /// The transition that an event of the kernel's notifier chain announces; `None` for events
    /// after a transition.
    fn announced_by(event: kernel::ffi::c_ulong) -> Option<Self> {
        match event {
            ffi::PM_SUSPEND_PREPARE => Some(Self::Suspend),
            ffi::PM_HIBERNATION_PREPARE => Some(Self::Hibernation),
            ffi::PM_RESTORE_PREPARE => Some(Self::Restore),
            _ => None,
        }
    }
}

impl fmt::Display for SleepPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Suspend => "suspend",
            Self::Hibernation => "hibernation",
            Self::Restore => "return from hibernation",
            Self::Unannounced => "sleep",
        })
    }
}

/// A listener for system sleep.
pub(crate) trait PowerListener: Send + Sync + 'static {
    /// The machine is about to `sleep`, and no process is frozen yet. An error cancels it, and goes
    /// to the process that requested the sleep. May sleep. Runs with the lock of the kernel's
    /// notifier chain held, so no subscription is made or dropped here.
    fn announced(&self, sleep: SleepPhase) -> Result;

    /// An announced transition, to this listener or to others, is over, or was cancelled. The same
    /// context; processes run.
    fn over(&self);
}

/// The memory of a subscription.
#[repr(C)]
struct PowerInner<T> {
    block: Opaque<ffi::notifier_block>,
    listener: T,
}

/// A registered listener. Dropping this unregisters it; the drop may sleep.
pub(crate) struct PowerSubscription<T: PowerListener>(NonNull<PowerInner<T>>);

// SAFETY: The listener is `Send` and `Sync`; the block belongs to the kernel, under its lock.
unsafe impl<T: PowerListener> Send for PowerSubscription<T> {}
// SAFETY: A shared reference allows no operation.
unsafe impl<T: PowerListener> Sync for PowerSubscription<T> {}

impl<T: PowerListener> PowerSubscription<T> {
    /// Registers `listener`; without effect in a kernel without sleep support. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(listener: T) -> Result<Self> {
        let block = ffi::notifier_block {
            notifier_call: Some(call::<T>),
            ..pin_init::zeroed()
        };
        let inner = KBox::new(
            PowerInner {
                block: Opaque::new(block),
                listener,
            },
            GFP_KERNEL,
        )?;
        // SAFETY: The block stays in place until the box is dropped: on an error here, when it is
        // in no list, or in `drop`, after its removal.
        to_result(unsafe { ffi::rkfd_register_pm_notifier(inner.block.get()) })?;
        Ok(Self(NonNull::from(KBox::leak(inner))))
    }
}

impl<T: PowerListener> Drop for PowerSubscription<T> {
    fn drop(&mut self) {
        // SAFETY: `new` has added it to the chain, and has leaked the box. When the call returns,
        // it is no longer in the chain and no call is running, as callers hold the lock of the
        // chain.
        unsafe {
            ffi::rkfd_unregister_pm_notifier(self.0.as_ref().block.get());
            drop(KBox::from_raw(self.0.as_ptr()));
        }
    }
}

/// `notifier_block::notifier_call`.
///
/// # Safety
///
/// The kernel calls it with the block of a `PowerInner<T>`, which is in its chain during the call.
unsafe extern "C" fn call<T: PowerListener>(
    block: *mut ffi::notifier_block,
    event: kernel::ffi::c_ulong,
    _data: *mut kernel::ffi::c_void,
) -> kernel::ffi::c_int {
    // SAFETY: The block is the first member of a `PowerInner<T>`, which stays as long as the block
    // is in the chain.
    let inner = unsafe { &*block.cast::<PowerInner<T>>() };
    let result = match SleepPhase::announced_by(event) {
        Some(sleep) => inner.listener.announced(sleep),
        // Each transition ends with one such event.
        None => {
            inner.listener.over();
            Ok(())
        }
    };
    let errno = result.err().map_or(0, |error| error.to_errno());
    // SAFETY: It only computes.
    unsafe { ffi::rkfd_notifier_from_errno(errno) }
}
