// SPDX-License-Identifier: GPL-2.0
//! Ioctls: which command is which function, and the way of its arguments in and out.
//!
//! Commands are told apart by their number alone. The size in a command is the caller's idea of the arguments: they
//! grew over time, and either side may know more of them.

use kernel::ioctl::{_IOC_NR, _IOC_SIZE, _IOC_TYPE};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::transmute::{AsBytes, FromBytes};

use super::{info, Kfd};
use crate::kern::{errno, uaccess_ext};
use crate::process::Process;

/// `AMDKFD_IOCTL_BASE`.
const TYPE: u32 = b'K' as u32;

/// Who calls.
pub(super) struct Caller<'a> {
    /// The interface.
    pub(super) kfd: &'a Kfd,
    /// The calling process.
    pub(super) process: &'a Arc<Process>,
}

/// Which way arguments go, as the command's number implies, whatever the caller's command says.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    /// From the caller.
    In,
    /// To the caller.
    Out,
    /// Both.
    InOut,
}

/// An ioctl that is being made.
struct Call<'a> {
    caller: &'a Caller<'a>,
    arg: usize,
    size: usize,
}

impl Call<'_> {
    /// Runs `function` on the caller's arguments. They go back also after an error, for their counts of what was done.
    fn run<T>(
        &self,
        direction: Direction,
        function: fn(&Caller<'_>, &mut T) -> Result,
    ) -> Result<isize>
    where
        T: AsBytes + FromBytes + pin_init::Zeroable,
    {
        let mut args = match direction {
            Direction::Out => pin_init::zeroed(),
            Direction::In | Direction::InOut => uaccess_ext::read_sized(self.arg, self.size)?,
        };
        let result = function(self.caller, &mut args);
        let written = match direction {
            Direction::In => Ok(()),
            Direction::Out | Direction::InOut => {
                uaccess_ext::write_sized::<T>(self.arg, self.size, &args)
            }
        };
        result.and(written).map(|()| 0)
    }
}

/// Runs ioctl `cmd` with the arguments at `arg`. ENOTTY for a number that is none of KFD's.
pub(super) fn dispatch(caller: &Caller<'_>, cmd: u32, arg: usize) -> Result<isize> {
    use Direction::{InOut, Out};

    if _IOC_TYPE(cmd) != TYPE {
        return Err(ENOTTY);
    }
    let call = Call {
        caller,
        arg,
        size: _IOC_SIZE(cmd),
    };
    match _IOC_NR(cmd) {
        0x01 => call.run(Out, info::get_version),
        0x05 => call.run(InOut, info::get_clock_counters),
        0x06 => call.run(Out, info::get_process_apertures),
        0x14 => call.run(InOut, info::get_process_apertures_new),
        0x01..=0x28 => Err(errno::not_supported()),
        _ => Err(ENOTTY),
    }
}
