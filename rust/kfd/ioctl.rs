// SPDX-License-Identifier: GPL-2.0
//! Ioctls: which command is which function, and the way of its arguments in and out.
//!
//! Commands are told apart by their number alone. The size in a command is the caller's idea of the arguments: they
//! grew over time, and either side may know more of them.

use kernel::ioctl::{_IOC_NR, _IOC_SIZE, _IOC_TYPE};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::transmute::{AsBytes, FromBytes};

use super::{args, dmabuf, events, info, memory, queues, settings, smi, svm, Kfd};
use crate::kern::new_fd::NewFd;
use crate::kern::{errno, trace, uaccess_ext};
use crate::process::context::GpuContext;
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

impl Caller<'_> {
    /// The calling process's part of the GPU that it calls `gpu_id`. EINVAL for an unknown one, ENOMEM.
    pub(super) fn context(&self, gpu_id: u32) -> Result<Arc<GpuContext>> {
        let id = args::gpu_id(gpu_id)?;
        if let Some(context) = self.process.context(id) {
            return Ok(context);
        }
        let context = self.kfd.context(self.process, id);
        // mmap says ENODEV where ioctls say EINVAL.
        context.map_err(|error| if error == ENODEV { EINVAL } else { error })
    }
}

/// Which way arguments go, as the command's number implies, whatever the caller's command says.
#[derive(Clone, Copy, PartialEq)]
enum IoctlDirection {
    /// From the caller.
    In,
    /// To the caller.
    Out,
    /// Both.
    InOut,
}

/// An ioctl that is being made.
struct IoctlCall<'a> {
    caller: &'a Caller<'a>,
    arg: usize,
    size: usize,
}

impl IoctlCall<'_> {
    /// Runs `function` on the caller's arguments.
    fn run<T>(
        &self,
        direction: IoctlDirection,
        function: fn(&Caller<'_>, &mut T) -> Result,
    ) -> Result<isize>
    where
        T: AsBytes + FromBytes + pin_init::Zeroable,
    {
        self.result(direction, function).map(|()| 0)
    }

    /// The same for one that gives what the caller gets with the arguments or not at all: `disarm` makes it the caller's, and
    /// otherwise it is dropped.
    fn run_giving<T, R>(
        &self,
        function: fn(&Caller<'_>, &mut T) -> Result<R>,
        keep: fn(R),
    ) -> Result<isize>
    where
        T: AsBytes + FromBytes + pin_init::Zeroable,
    {
        self.result(IoctlDirection::InOut, function).map(keep)?;
        Ok(0)
    }

    /// What `function` gives. The arguments go back also after an error, for their counts of what was done.
    fn result<T, R>(
        &self,
        direction: IoctlDirection,
        function: fn(&Caller<'_>, &mut T) -> Result<R>,
    ) -> Result<R>
    where
        T: AsBytes + FromBytes + pin_init::Zeroable,
    {
        let mut args = match direction {
            IoctlDirection::Out => pin_init::zeroed(),
            IoctlDirection::In | IoctlDirection::InOut => {
                uaccess_ext::read_sized(self.arg, self.size)?
            }
        };
        let result = function(self.caller, &mut args);
        let written = match direction {
            IoctlDirection::In => Ok(()),
            IoctlDirection::Out | IoctlDirection::InOut => {
                uaccess_ext::write_sized::<T>(self.arg, self.size, &args)
            }
        };
        result.and_then(|given| written.map(|()| given))
    }
}

/// Runs ioctl `cmd` with the arguments at `arg`. ENOTTY for a number that is none of KFD's.
pub(super) fn dispatch(caller: &Caller<'_>, cmd: u32, arg: usize) -> Result<isize> {
    if _IOC_TYPE(cmd) != TYPE {
        return Err(ENOTTY);
    }
    let call = IoctlCall {
        caller,
        arg,
        size: _IOC_SIZE(cmd),
    };
    let nr = _IOC_NR(cmd);
    let result = answer(&call, nr);
    if let Err(error) = &result {
        trace::ioctl(caller.process.pid() as u32, nr, error.to_errno());
    }
    result
}

/// Answers the ioctl of number `nr`.
fn answer(call: &IoctlCall<'_>, nr: u32) -> Result<isize> {
    use IoctlDirection::{In, InOut, Out};

    match nr {
        0x01 => call.run(Out, info::get_version),
        0x02 => call.run(InOut, queues::create),
        0x03 => call.run(InOut, queues::destroy),
        0x04 => call.run(In, memory::set_memory_policy),
        0x05 => call.run(InOut, info::get_clock_counters),
        0x06 => call.run(Out, info::get_process_apertures),
        0x07 => call.run(In, queues::update),
        0x08 => call.run(InOut, events::create),
        0x09 => call.run(In, events::destroy),
        0x0a => call.run(In, events::set),
        0x0b => call.run(In, events::reset),
        0x0c => call.run_giving(events::wait, events::disarm),
        // The debugger's interface before 1.11: nobody may any more.
        0x0d..=0x10 => Err(EPERM),
        0x11 => call.run(InOut, settings::set_scratch_backing_va),
        0x12 => call.run(InOut, settings::get_tile_config),
        0x13 => call.run(In, settings::set_trap_handler),
        0x14 => call.run(InOut, info::get_process_apertures_new),
        0x15 => call.run(In, memory::acquire_vm),
        0x16 => call.run(InOut, memory::alloc),
        0x17 => call.run(In, memory::free),
        0x18 => call.run(InOut, memory::map),
        0x19 => call.run(InOut, memory::unmap),
        0x1a => call.run(In, queues::set_cu_mask),
        0x1b => call.run(InOut, queues::get_wave_state),
        0x1c => call.run(InOut, dmabuf::get_info),
        0x1d => call.run(InOut, dmabuf::import),
        0x1e => call.run(InOut, queues::alloc_gws),
        0x21 => call.run(InOut, settings::set_xnack_mode),
        0x23 => call.run(InOut, memory::available),
        0x24 => call.run_giving(dmabuf::export, NewFd::install),
        0x25 => call.run(InOut, settings::runtime_enable),
        0x1f => call.run_giving(smi::open, NewFd::install),
        0x20 => svm::svm(call.caller, call.arg, call.size).map(|()| 0),
        // Known to the interface, and refused: checkpoints, the debugger, further processes of one address space, the profiler.
        0x22 | 0x26..=0x28 => Err(errno::not_supported()),
        _ => Err(ENOTTY),
    }
}
