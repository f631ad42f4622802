// SPDX-License-Identifier: GPL-2.0
//! The calling thread and its process.

use core::{fmt, ptr};

use kernel::{
    prelude::*,
    sync::{new_mutex, Mutex},
};

use kernel::ffi::c_char;

use crate::ffi;

/// Whether the calling thread is being killed, so that its request is in vain.
pub(crate) fn is_killed() -> bool {
    // SAFETY: A thread may query this about itself.
    unsafe { ffi::rkfd_fatal_signal_pending() }
}

/// Whether the calling thread is reclaiming memory: it should not be delayed, whichever process it
/// belongs to.
pub(crate) fn is_reclaiming() -> bool {
    // SAFETY: A thread may query this about itself.
    unsafe { ffi::rkfd_current_is_reclaiming() }
}

/// Whether the calling thread is the kernel's own.
pub(crate) fn is_kernel_thread() -> bool {
    // SAFETY: A thread may read its own flags.
    unsafe { (*kernel::current!().as_ptr()).flags & ffi::PF_KTHREAD != 0 }
}

/// Whether the calling thread exits.
pub(crate) fn is_exiting() -> bool {
    // SAFETY: A thread may read its own flags.
    unsafe { (*kernel::current!().as_ptr()).flags & ffi::PF_EXITING != 0 }
}

/// Whether the calling thread has CAP_SYS_ADMIN.
pub(crate) fn is_admin() -> bool {
    // SAFETY: A thread may query this about itself.
    unsafe { ffi::capable(ffi::CAP_SYS_ADMIN as i32) }
}

/// Whether the calling thread may checkpoint and restore processes: CAP_CHECKPOINT_RESTORE, or
/// CAP_SYS_ADMIN.
pub(crate) fn may_checkpoint() -> bool {
    // SAFETY: A thread may query this about itself.
    let may = unsafe { ffi::capable(ffi::CAP_CHECKPOINT_RESTORE as i32) };
    may || is_admin()
}

/// Whether the calling thread has CAP_SYS_NICE.
pub(crate) fn may_raise_priority() -> bool {
    // SAFETY: A thread may query this about itself.
    unsafe { ffi::capable(ffi::CAP_SYS_NICE as i32) }
}

/// The size of a process's name in bytes: `TASK_COMM_LEN`.
pub(super) const NAME_BYTES: usize = 16;

/// The identity of a process, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskIdentity {
    /// Its number, in the initial PID namespace.
    pub(crate) pid: i32,
    /// Its name.
    pub(crate) name: TaskName,
}

/// The name of a process, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskName([u8; NAME_BYTES]);

impl TaskName {
    /// The name of the calling process.
    pub(crate) fn of_current() -> Self {
        let mut name = [0; NAME_BYTES];
        // SAFETY: There is room for the name and its terminating zero.
        unsafe { ffi::rkfd_get_process_name(name.as_mut_ptr().cast(), NAME_BYTES) };
        Self(name)
    }

    /// A name with a zero at the end.
    pub(super) fn from_bytes(name: [u8; NAME_BYTES]) -> Self {
        Self(name)
    }

    /// In the form of the kernel's structures: with a zero at the end.
    pub(super) fn bytes(self) -> [c_char; NAME_BYTES] {
        self.0
    }
}

/// On one line. The process chooses the name, so bytes outside printable ASCII are shown as
/// numbers, as the kernel does in `/proc`.
impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.0.iter().take_while(|&&byte| byte != 0);
        bytes.try_for_each(|&byte| match byte {
            b'\\' => f.write_str("\\134"),
            b' '..=b'~' => fmt::Write::write_char(f, char::from(byte)),
            _ => write!(f, "\\{byte:03o}"),
        })
    }
}

/// A task of a kernel thread that others can cancel.
#[pin_data]
pub(crate) struct CancelScope {
    #[pin]
    state: Mutex<CancelState>,
}

/// The state of a [`CancelScope`].
struct CancelState {
    /// The thread that runs the task, or null.
    thread: *mut ffi::task_struct,
    /// Whether the task is cancelled, unless it has already ended.
    killed: bool,
}

// SAFETY: The thread is only used while it is inside `CancelScope::run`, with the lock.
unsafe impl Send for CancelState {}

impl CancelScope {
    /// A task that has not begun.
    pub(crate) fn new() -> impl PinInit<Self> {
        let state = CancelState {
            thread: ptr::null_mut(),
            killed: false,
        };
        pin_init!(Self {
            state <- new_mutex!(state, "CancelScope::state"),
        })
    }

    /// Runs `act`, unless it was cancelled before. A cancellation during `act` kills the parts of
    /// it that can be killed ([`is_killed`], and killable waits). Called by a kernel thread.
    pub(crate) fn run(&self, act: impl FnOnce()) {
        {
            let mut state = self.state.lock();
            if state.killed {
                return;
            }
            // SAFETY: A kernel thread may allow signals to itself.
            unsafe { ffi::rkfd_allow_kill() };
            // SAFETY: It has no requirements.
            state.thread = unsafe { ffi::rkfd_current() };
        }
        act();
        self.state.lock().thread = ptr::null_mut();
        // SAFETY: As above; no signal is sent any more.
        unsafe { ffi::rkfd_disallow_kill() };
    }

    /// Cancels the task, which may continue for a moment. May sleep.
    pub(crate) fn kill(&self) {
        let mut state = self.state.lock();
        state.killed = true;
        if !state.thread.is_null() {
            // SAFETY: The thread is in `run`, which it does not leave without the lock.
            unsafe { ffi::rkfd_kill(state.thread) };
        }
    }
}
