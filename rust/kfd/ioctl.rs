// SPDX-License-Identifier: GPL-2.0
//! Ioctls: the function of each command, and the copying of its arguments in and out.
//!
//! Only the number identifies a command. The size in a command is the size of the arguments as the
//! caller knows them: they grew over time, and either side may know more of them.

use kernel::ioctl::{_IOC_NR, _IOC_SIZE, _IOC_TYPE};
use kernel::prelude::*;
use kernel::transmute::{AsBytes, FromBytes};

use super::caller::Caller;
use super::{criu, debug, dmabuf, events, info, memory, queues, settings, smi, svm};
use crate::kern::new_fd::NewFd;
use crate::kern::uapi::{self, nr, IoctlDirection, IoctlInfo};
use crate::kern::{trace, uaccess_ext};

/// `AMDKFD_IOCTL_BASE`.
const TYPE: u32 = b'K' as u32;

/// An ioctl call.
struct IoctlCall<'a> {
    caller: &'a Caller<'a>,
    info: &'static IoctlInfo,
    arg: usize,
    size: usize,
}

impl IoctlCall<'_> {
    /// Runs `function` on the caller's arguments.
    fn run<T>(&self, function: fn(&Caller<'_>, &mut T) -> Result) -> Result<isize>
    where
        T: AsBytes + FromBytes + pin_init::Zeroable,
    {
        self.run_giving(function, |()| ())
    }

    /// As [`IoctlCall::run`], for a function that returns a count, which is the ioctl's result.
    fn run_counting<T>(&self, function: fn(&Caller<'_>, &mut T) -> Result<u32>) -> Result<isize>
    where
        T: AsBytes + FromBytes + pin_init::Zeroable,
    {
        Ok(self.run_on(function)? as isize)
    }

    /// As [`IoctlCall::run`], for a function that also returns an object, which the caller gets
    /// with the arguments or not at all: `keep` makes it the caller's; otherwise it is dropped.
    fn run_giving<T, R>(
        &self,
        function: fn(&Caller<'_>, &mut T) -> Result<R>,
        keep: fn(R),
    ) -> Result<isize>
    where
        T: AsBytes + FromBytes + pin_init::Zeroable,
    {
        keep(self.run_on(function)?);
        Ok(0)
    }

    /// Copies the arguments in, runs `function`, and copies them out, also after an error, since
    /// they count the work that was done.
    fn run_on<T, R>(&self, function: fn(&Caller<'_>, &mut T) -> Result<R>) -> Result<R>
    where
        T: AsBytes + FromBytes + pin_init::Zeroable,
    {
        let mut args = match self.info.direction {
            IoctlDirection::Out => pin_init::zeroed(),
            IoctlDirection::In | IoctlDirection::InOut => {
                uaccess_ext::read_sized(self.arg, self.size)?
            }
        };
        let result = function(self.caller, &mut args);
        let written = match self.info.direction {
            IoctlDirection::In => Ok(()),
            IoctlDirection::Out | IoctlDirection::InOut => {
                uaccess_ext::write_sized::<T>(self.arg, self.size, &args)
            }
        };
        let given = result?;
        written?;
        Ok(given)
    }
}

/// Whether a thread that traces the process may make the call `cmd` on the process's file.
pub(super) fn is_for_tracers(cmd: u32) -> bool {
    _IOC_TYPE(cmd) == TYPE && _IOC_NR(cmd) == nr::CRIU_OP
}

/// Runs ioctl `cmd` with the arguments at `arg`.
///
/// # Errors
///
/// `ENOTTY` for a number that KFD does not have; errors of the command.
pub(super) fn dispatch(caller: &Caller<'_>, cmd: u32, arg: usize) -> Result<isize> {
    if _IOC_TYPE(cmd) != TYPE {
        return Err(ENOTTY);
    }
    let (nr, size) = (_IOC_NR(cmd), _IOC_SIZE(cmd));
    let info = uapi::ioctl(nr);
    let result = info.ok_or(ENOTTY).and_then(|info| {
        answer(&IoctlCall {
            caller,
            info,
            arg,
            size,
        })
    });
    if let Err(error) = &result {
        let (pid, name) = (
            caller.process.pid(),
            info.map_or("unknown", |info| info.name),
        );
        pr_debug!("ioctl {name} of process {pid}: {error:?}\n");
        trace::ioctl(pid as u32, nr, error.to_errno());
    }
    result
}

/// Runs the function of `call`.
fn answer(call: &IoctlCall<'_>) -> Result<isize> {
    match call.info.nr() {
        nr::GET_VERSION => call.run(info::get_version),
        nr::CREATE_QUEUE => call.run(queues::create),
        nr::DESTROY_QUEUE => call.run(queues::destroy),
        nr::SET_MEMORY_POLICY => call.run(memory::set_memory_policy),
        nr::GET_CLOCK_COUNTERS => call.run(info::get_clock_counters),
        nr::GET_PROCESS_APERTURES => call.run(info::get_process_apertures),
        nr::UPDATE_QUEUE => call.run(queues::update),
        nr::CREATE_EVENT => call.run(events::create),
        nr::DESTROY_EVENT => call.run(events::destroy),
        nr::SET_EVENT => call.run(events::set),
        nr::RESET_EVENT => call.run(events::reset),
        nr::WAIT_EVENTS => call.run_giving(events::wait, events::disarm),
        // The debugger's interface before 1.11: no process may use it any more.
        nr::DBG_REGISTER | nr::DBG_UNREGISTER | nr::DBG_ADDRESS_WATCH | nr::DBG_WAVE_CONTROL => {
            Err(EPERM)
        }
        nr::SET_SCRATCH_BACKING_VA => call.run(settings::set_scratch_backing_va),
        nr::GET_TILE_CONFIG => call.run(settings::get_tile_config),
        nr::SET_TRAP_HANDLER => call.run(settings::set_trap_handler),
        nr::GET_PROCESS_APERTURES_NEW => call.run(info::get_process_apertures_new),
        nr::ACQUIRE_VM => call.run(memory::acquire_vm),
        nr::ALLOC_MEMORY_OF_GPU => call.run(memory::alloc),
        nr::FREE_MEMORY_OF_GPU => call.run(memory::free),
        nr::MAP_MEMORY_TO_GPU => call.run(memory::map),
        nr::UNMAP_MEMORY_FROM_GPU => call.run(memory::unmap),
        nr::SET_CU_MASK => call.run(queues::set_cu_mask),
        nr::GET_QUEUE_WAVE_STATE => call.run(queues::get_wave_state),
        nr::GET_DMABUF_INFO => call.run(dmabuf::get_info),
        nr::IMPORT_DMABUF => call.run(dmabuf::import),
        nr::ALLOC_QUEUE_GWS => call.run(queues::alloc_gws),
        nr::SMI_EVENTS => call.run_giving(smi::open, NewFd::install),
        nr::SVM => svm::svm(call.caller, call.arg, call.size).map(|()| 0),
        nr::SET_XNACK_MODE => call.run(settings::set_xnack_mode),
        nr::AVAILABLE_MEMORY => call.run(memory::available),
        nr::EXPORT_DMABUF => call.run_giving(dmabuf::export, NewFd::install),
        nr::RUNTIME_ENABLE => call.run(settings::runtime_enable),
        nr::DBG_TRAP => call.run_counting(debug::dbg_trap),
        nr::CRIU_OP => {
            criu::check_capable()?;
            call.run_giving(criu::criu_op, criu::install)
        }
        nr::CREATE_PROCESS => call.caller.file.create().map(|()| 0),
        // A command of a later version of the interface.
        nr::PROFILER => Err(ENOTTY),
        _ => Err(ENOTTY),
    }
}
