// SPDX-License-Identifier: GPL-2.0
//! The calling thread and its process.

use core::{fmt, ptr};

use kernel::{
    prelude::*,
    sync::{new_mutex, Mutex},
};

use kernel::ffi::c_char;

use crate::ffi;

/// Whether the calling thread is being killed, so that what it asked for is in vain.
pub(crate) fn is_killed() -> bool {
    // SAFETY: A thread may ask this of itself.
    unsafe { ffi::rkfd_fatal_signal_pending() }
}

/// Whether the calling thread is freeing memory for the kernel: whatever process it is of, it should not be held up.
pub(crate) fn is_reclaiming() -> bool {
    // SAFETY: A thread may ask this of itself.
    unsafe { ffi::rkfd_current_is_reclaiming() }
}

/// Whether the calling thread has CAP_SYS_ADMIN.
pub(crate) fn is_admin() -> bool {
    // SAFETY: A thread may ask this of itself.
    unsafe { ffi::capable(ffi::CAP_SYS_ADMIN as i32) }
}

/// Bytes of a process's name: `TASK_COMM_LEN`.
const NAME: usize = 16;

/// A process, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskIdentity {
    /// Its number, in the initial PID namespace.
    pub(crate) pid: i32,
    /// Its name.
    pub(crate) name: TaskName,
}

/// The name of a process, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskName([u8; NAME]);

impl TaskName {
    /// That of the calling process.
    pub(crate) fn of_current() -> Self {
        let mut name = [0; NAME];
        // SAFETY: There is room for the name and its end.
        unsafe { ffi::rkfd_get_process_name(name.as_mut_ptr().cast(), NAME) };
        Self(name)
    }

    /// As the kernel's structures have it: with a zero at the end.
    pub(super) fn letters(self) -> [c_char; NAME] {
        self.0
    }
}

/// On one line: the process chooses the name, so what is neither a letter nor a blank is shown as its number, as the
/// kernel does it in `/proc`.
impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut letters = self.0.iter().take_while(|&&letter| letter != 0);
        letters.try_for_each(|&letter| match letter {
            b'\\' => f.write_str("\\134"),
            b' '..=b'~' => fmt::Write::write_char(f, char::from(letter)),
            _ => write!(f, "\\{letter:03o}"),
        })
    }
}

/// Something that a thread of the kernel's does, and that others can have it give up.
#[pin_data]
pub(crate) struct CancelScope {
    #[pin]
    state: Mutex<CancelState>,
}

/// What [`CancelScope`] knows.
struct CancelState {
    /// The thread that is at it, or none.
    thread: *mut ffi::task_struct,
    /// It is to be given up, if it has not ended.
    killed: bool,
}

// SAFETY: The thread is only used while it is inside `CancelScope::run`, with the lock.
unsafe impl Send for CancelState {}

impl CancelScope {
    /// Not begun.
    pub(crate) fn new() -> impl PinInit<Self> {
        let life = CancelState {
            thread: ptr::null_mut(),
            killed: false,
        };
        pin_init!(Self {
            state <- new_mutex!(life, "Mortal::state"),
        })
    }

    /// Does `act`, unless it was given up before. What in it can be killed ([`is_killed`], and what waits killably) is when it is given up
    /// meanwhile. Called by a thread of the kernel's.
    pub(crate) fn run(&self, act: impl FnOnce()) {
        {
            let mut life = self.state.lock();
            if life.killed {
                return;
            }
            // SAFETY: A thread of the kernel's may have itself sent signals.
            unsafe { ffi::rkfd_allow_kill() };
            // SAFETY: It has no requirements.
            life.thread = unsafe { ffi::rkfd_current() };
        }
        act();
        self.state.lock().thread = ptr::null_mut();
        // SAFETY: As above; nobody sends any more.
        unsafe { ffi::rkfd_disallow_kill() };
    }

    /// Has it given up. It may go on for a moment. Sleeps.
    pub(crate) fn kill(&self) {
        let mut life = self.state.lock();
        life.killed = true;
        if !life.thread.is_null() {
            // SAFETY: The thread is in `run`, which it does not leave without the lock.
            unsafe { ffi::rkfd_kill(life.thread) };
        }
    }
}
