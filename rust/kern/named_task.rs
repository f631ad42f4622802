// SPDX-License-Identifier: GPL-2.0
//! Tasks that a debugger names by their numbers.

use core::ptr::NonNull;

use kernel::mm::{MmWithUser, MmWithUserAsync};
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::task::Task;

use super::mm_exit::AddressSpace;
use super::task::{TaskName, NAME_BYTES};
use crate::ffi;

/// A task of the caller's PID namespace. Its memory stays while this exists.
pub(crate) struct NamedTask {
    task: ARef<Task>,
    memory: ARef<MmWithUserAsync>,
}

impl NamedTask {
    /// The task of number `pid`.
    ///
    /// # Errors
    ///
    /// `ESRCH` if there is none, or if it has no memory: a kernel thread, or one that has exited.
    pub(crate) fn find(pid: i32) -> Result<Self> {
        // SAFETY: The function has no requirements.
        let task = NonNull::new(unsafe { ffi::rkfd_find_get_task(pid) }).ok_or(ESRCH)?;
        // SAFETY: `Task` is a `task_struct`, and the reference is ours.
        Self::new(unsafe { ARef::from_raw(task.cast::<Task>()) })
    }

    /// `task`, which has memory.
    ///
    /// # Errors
    ///
    /// `ESRCH` if it has none.
    fn new(task: ARef<Task>) -> Result<Self> {
        // SAFETY: The task is referenced.
        let memory = NonNull::new(unsafe { ffi::rkfd_get_task_mm(task.as_ptr()) }).ok_or(ESRCH)?;
        // SAFETY: `MmWithUser` is an `mm_struct` with a user, and the reference is ours.
        let memory = unsafe { ARef::from_raw(memory.cast::<MmWithUser>()) };
        Ok(Self {
            task,
            memory: MmWithUser::into_mmput_async(memory),
        })
    }

    /// The first thread of process `pid` of the initial PID namespace, if that has `space`.
    ///
    /// # Errors
    ///
    /// `ESRCH` if there is none, or if it has another address space, or none.
    pub(crate) fn of_process(pid: i32, space: &AddressSpace) -> Result<Self> {
        // SAFETY: The function has no requirements.
        let task = NonNull::new(unsafe { ffi::rkfd_find_get_process(pid) }).ok_or(ESRCH)?;
        // SAFETY: `Task` is a `task_struct`, and the reference is ours.
        let task = Self::new(unsafe { ARef::from_raw(task.cast::<Task>()) })?;
        match task.space().id() == space.id() {
            true => Ok(task),
            false => Err(ESRCH),
        }
    }

    /// Its number in its own PID namespace.
    pub(crate) fn own_number(&self) -> i32 {
        // SAFETY: The task is referenced.
        unsafe { ffi::rkfd_task_own_nr(self.task.as_ptr()) }
    }

    /// Its address space.
    pub(crate) fn space(&self) -> AddressSpace {
        AddressSpace::of(&self.memory)
    }

    /// The number of its process, in the initial PID namespace.
    pub(crate) fn process(&self) -> i32 {
        self.task.tgid()
    }

    /// The name of its process.
    pub(crate) fn name(&self) -> TaskName {
        let mut name = [0; NAME_BYTES];
        // SAFETY: The task is referenced; there is room for the name and its terminating zero.
        unsafe {
            ffi::rkfd_get_task_name(self.task.as_ptr(), name.as_mut_ptr().cast(), NAME_BYTES)
        };
        TaskName::from_bytes(name)
    }

    /// Whether the calling thread traces it.
    pub(crate) fn is_traced_by_caller(&self) -> bool {
        // SAFETY: The task is referenced.
        unsafe { ffi::rkfd_is_ptraced_by_current(self.task.as_ptr()) }
    }

    /// Whether the calling thread traces the first thread of its process.
    pub(crate) fn is_process_traced_by_caller(&self) -> bool {
        // SAFETY: The task is referenced.
        unsafe { ffi::rkfd_is_leader_ptraced_by_current(self.task.as_ptr()) }
    }

    /// Writes `bytes` to its memory at `address`. The process may prolong that for ever; it ends
    /// when the caller is killed. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT` if not all of the memory can be written.
    pub(crate) fn write(&self, address: u64, bytes: &mut [u8]) -> Result {
        let size = i32::try_from(bytes.len())?;
        let address = usize::try_from(address).map_err(|_| EFAULT)?;
        // SAFETY: The task is referenced; `size` bytes are read from the slice.
        let written = unsafe {
            ffi::rkfd_write_process_vm(self.task.as_ptr(), address, bytes.as_mut_ptr().cast(), size)
        };
        match written == size {
            true => Ok(()),
            false => Err(EFAULT),
        }
    }
}
