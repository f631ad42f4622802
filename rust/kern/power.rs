// SPDX-License-Identifier: GPL-2.0
//! The machine's sleep: hearing of it before it begins, and keeping the machine from it.

use core::fmt;
use core::ptr::NonNull;

use kernel::error::to_result;
use kernel::prelude::*;
use kernel::types::Opaque;

use crate::ffi;

/// What the machine is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SleepPhase {
    /// To RAM, or with only its processors idle.
    Suspend,
    /// To disk.
    Hibernation,
    /// From disk: what was saved takes the place of what runs.
    Restore,
    /// One of them, and nobody has said which.
    Unannounced,
}

impl SleepPhase {
    /// What an event of the kernel's list of listeners announces; `None` for those that come after.
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

/// Who hears of the machine's sleep.
pub(crate) trait PowerListener: Send + Sync + 'static {
    /// The machine is about to `sleep`, and no process is frozen yet. An error keeps it from that, and is what who asked for it is
    /// told. May sleep; runs with the kernel's lock of the list of listeners held, so no subscription is made or dropped here.
    fn announced(&self, sleep: SleepPhase) -> Result;

    /// What was announced, to this listener or to others, is over, or does not come. As there; processes run.
    fn over(&self);
}

/// Memory of a subscription.
#[repr(C)]
struct PowerInner<T> {
    block: Opaque<ffi::notifier_block>,
    listener: T,
}

/// A listener that hears. It does not any more when this has been dropped, which sleeps.
pub(crate) struct PowerSubscription<T: PowerListener>(NonNull<PowerInner<T>>);

// SAFETY: The listener is `Send` and `Sync`, the block is the kernel's, under its lock.
unsafe impl<T: PowerListener> Send for PowerSubscription<T> {}
// SAFETY: Nothing can be done with a shared reference.
unsafe impl<T: PowerListener> Sync for PowerSubscription<T> {}

impl<T: PowerListener> PowerSubscription<T> {
    /// Has `listener` hear, in a kernel whose machine can sleep. Sleeps. ENOMEM.
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
        // SAFETY: The block stays where it is until the box is dropped: on an error here, when it is in no list, or in `drop`, after it
        // was taken out.
        to_result(unsafe { ffi::rkfd_register_pm_notifier(inner.block.get()) })?;
        Ok(Self(NonNull::from(KBox::leak(inner))))
    }
}

impl<T: PowerListener> Drop for PowerSubscription<T> {
    fn drop(&mut self) {
        // SAFETY: `new` has put it into the list, and has leaked the box. When the call returns the list has it no more, and nobody
        // calls it, as callers hold the list's lock.
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
/// The kernel calls it with the block of an `PowerInner<T>`, which is in its list meanwhile.
unsafe extern "C" fn call<T: PowerListener>(
    block: *mut ffi::notifier_block,
    event: kernel::ffi::c_ulong,
    _data: *mut kernel::ffi::c_void,
) -> kernel::ffi::c_int {
    // SAFETY: The block is the first member of an `PowerInner<T>`, which stays as long as the block is in the list.
    let inner = unsafe { &*block.cast::<PowerInner<T>>() };
    let answer = match SleepPhase::announced_by(event) {
        Some(sleep) => inner.listener.announced(sleep),
        // There is one of these for each of the others.
        None => {
            inner.listener.over();
            Ok(())
        }
    };
    let errno = answer.err().map_or(0, |error| error.to_errno());
    // SAFETY: It only computes.
    unsafe { ffi::rkfd_notifier_from_errno(errno) }
}
