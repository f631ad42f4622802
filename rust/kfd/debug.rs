// SPDX-License-Identifier: GPL-2.0
//! DBG_TRAP: what a debugger does with a process. Checks and errors are amdkfd's, in its order
//! (kfd_ioctl_set_debug_trap).
//!
//! No memory of the caller is accessed while a lock of the debugged process is held.

mod queues;
mod snapshots;
mod waves;

use hw::debug::WaveControls;
use hw::exceptions::{ExceptionCode, ExceptionSet};
use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::transmute::AsBytes;

use super::caller::Caller;
use super::events::memory_exception;
use crate::kern::debugger_pipe::DebuggerPipe;
use crate::kern::named_task::NamedTask;
use crate::kern::params::SchedulerMode;
use crate::kern::uapi::{self, dbg_op};
use crate::kern::{errno, uaccess_ext};
use crate::process::exceptions::session::{
    DebugSession, DebuggedDevice, DebuggerNotice, ExceptionInfo,
};
use crate::process::exceptions::RuntimeInfo;
use crate::process::table::{EntryOwner, OpenedProcess};

/// A process that the caller may debug.
struct DebugTarget<'a> {
    caller: &'a Caller<'a>,
    task: NamedTask,
    process: OpenedProcess,
}

/// DBG_TRAP. Returns what the ioctl returns: a number of queues, or 0.
///
/// # Errors
///
/// `EOPNOTSUPP` from a secondary process; `EINVAL` without the hardware's scheduler; `ESRCH` for a
/// process that does not exist or does not use KFD; `EPERM` for one that the caller neither is,
/// traces nor debugs; `EINVAL` for one that is not debugged, and for an unknown operation; `EPERM`
/// for an operation on the hardware before the runtime has registered; errors of the operation.
pub(super) fn dbg_trap(caller: &Caller<'_>, args: &mut uapi::DbgTrap) -> Result<u32> {
    if !caller.process.is_primary() {
        return Err(errno::not_supported());
    }
    if SchedulerMode::get() == SchedulerMode::Direct {
        return Err(EINVAL);
    }
    let target = DebugTarget::new(caller, args)?;
    if args.op == dbg_op::ENABLE {
        return target.on(args, DebugTarget::enable);
    }
    target.process.check_debugged(needs_runtime(args.op))?;
    match args.op {
        dbg_op::DISABLE => target.process.detach_debugger().map(|()| 0),
        dbg_op::SEND_RUNTIME_EVENT => target.on(args, DebugTarget::send_runtime_event),
        dbg_op::SET_EXCEPTIONS => target.on(args, DebugTarget::set_exceptions),
        dbg_op::SUSPEND_QUEUES => target.on(args, DebugTarget::suspend_queues),
        dbg_op::RESUME_QUEUES => target.on(args, DebugTarget::resume_queues),
        dbg_op::LAUNCH_OVERRIDE => target.on(args, DebugTarget::launch_override),
        dbg_op::LAUNCH_MODE => target.on(args, DebugTarget::launch_mode),
        dbg_op::SET_WATCH => target.on(args, DebugTarget::set_watch),
        dbg_op::CLEAR_WATCH => target.on(args, DebugTarget::clear_watch),
        dbg_op::SET_FLAGS => target.on(args, DebugTarget::set_flags),
        dbg_op::QUERY_EVENT => target.on(args, DebugTarget::query_event),
        dbg_op::QUERY_INFO => target.on(args, DebugTarget::query_info),
        dbg_op::QUEUE_SNAPSHOT => target.on(args, DebugTarget::queue_snapshot),
        dbg_op::DEVICE_SNAPSHOT => target.on(args, DebugTarget::device_snapshot),
        _ => Err(EINVAL),
    }
}

/// Whether the operation changes the hardware for a process whose runtime has registered.
fn needs_runtime(op: u32) -> bool {
    matches!(
        op,
        dbg_op::LAUNCH_OVERRIDE
            | dbg_op::LAUNCH_MODE
            | dbg_op::SUSPEND_QUEUES
            | dbg_op::RESUME_QUEUES
            | dbg_op::SET_WATCH
            | dbg_op::CLEAR_WATCH
            | dbg_op::SET_FLAGS
    )
}

impl<'a> DebugTarget<'a> {
    /// The process that `args` names. A debugger that traces the named thread may enable debugging
    /// before the process has opened KFD.
    ///
    /// # Errors
    ///
    /// `ESRCH` if there is none; `EPERM` if the caller may not debug it; those of the process's
    /// creation.
    fn new(caller: &'a Caller<'a>, args: &uapi::DbgTrap) -> Result<Self> {
        let pid = i32::try_from(args.pid).map_err(|_| ESRCH)?;
        let task = NamedTask::find(pid)?;
        let processes = &caller.kfd.processes;
        let process = match args.op == dbg_op::ENABLE && task.is_traced_by_caller() {
            true => processes.open(&EntryOwner::of(&task))?,
            false => processes.find(&task.space()).ok_or(ESRCH)?,
        };
        let target = Self {
            caller,
            task,
            process,
        };
        let (task, process) = (&target.task, &target.process);
        let is_same = process.pid() == task.process();
        let is_traced = is_same && task.is_process_traced_by_caller();
        match target.is_own() || is_traced || process.is_debugged_by(caller.process) {
            true => Ok(target),
            false => Err(EPERM),
        }
    }

    /// Whether the caller debugs itself.
    fn is_own(&self) -> bool {
        core::ptr::eq(&**self.process, &**self.caller.process)
    }

    /// Runs `operation` on the arguments of the operation, which the caller gets back, also after
    /// an error.
    fn on<T: AsBytes + kernel::transmute::FromBytes + pin_init::Zeroable>(
        self,
        args: &mut uapi::DbgTrap,
        operation: fn(Self, &mut T) -> Result<u32>,
    ) -> Result<u32> {
        let mut own = args.operation();
        let result = operation(self, &mut own);
        args.set_operation(&own);
        result
    }

    /// ENABLE: the caller becomes the debugger.
    ///
    /// # Errors
    ///
    /// `EALREADY` if there is one; `EBADF`; `EFAULT`, and nothing has happened.
    fn enable(self, args: &mut uapi::DbgEnable) -> Result<u32> {
        if self.process.exceptions().is_debugged() {
            return Err(EALREADY);
        }
        let notice = DebuggerNotice::new(DebuggerPipe::of_caller(args.dbg_fd)?)?;
        let mut devices = KVec::new();
        for facts in &self.caller.kfd.facts_for(&self.process)? {
            devices.push(DebuggedDevice::new(facts.id), GFP_KERNEL_ACCOUNT)?;
        }
        let is_own = self.is_own();
        let target = match is_own {
            true => None,
            false => self.caller.kfd.processes.find(self.process.space()),
        };
        let session = DebugSession {
            debugger: (!is_own).then(|| self.caller.process.pasid()),
            notice,
            subscribed: ExceptionSet::from_bits(args.exception_mask),
            status: ExceptionSet::default(),
            waves: WaveControls::default(),
            devices,
            _target: target,
        };
        let runtime = self.process.attach_debugger(self.caller.process, session)?;
        let info = runtime_info(runtime);
        let size = core::mem::size_of_val(&info);
        let written = write(args.rinfo_ptr, args.rinfo_size, &info);
        args.rinfo_size = u32::try_from(size)?;
        if written.is_err() {
            self.process.detach_debugger()?;
        }
        written.map(|()| 0)
    }

    /// SEND_RUNTIME_EVENT.
    fn send_runtime_event(self, args: &mut uapi::DbgSendRuntimeEvent) -> Result<u32> {
        let raised = ExceptionSet::from_bits(args.exception_mask);
        let gpu = GpuId::from_raw(args.gpu_id).map(|gpu| self.process.gpu_named(gpu));
        self.process.send_to_runtime(raised, gpu, args.queue_id)?;
        Ok(0)
    }

    /// SET_EXCEPTIONS_ENABLED.
    fn set_exceptions(self, args: &mut uapi::DbgSetExceptionsEnabled) -> Result<u32> {
        let subscribed = ExceptionSet::from_bits(args.exception_mask);
        self.process.exceptions().subscribe(subscribed);
        Ok(0)
    }

    /// QUERY_DEBUG_EVENT.
    fn query_event(self, args: &mut uapi::DbgQueryEvent) -> Result<u32> {
        let clear = ExceptionSet::from_bits(args.exception_mask);
        let event = self.process.exceptions().query_event(clear);
        let found = event.as_ref().ok();
        args.exception_mask = found.map_or(0, |event| event.status.bits());
        args.gpu_id = found
            .and_then(|event| event.gpu)
            .map_or(0, |gpu| self.process.name_of(gpu).get().into());
        args.queue_id = found.map_or(0, |event| event.queue);
        event.map(|_| 0)
    }

    /// QUERY_EXCEPTION_INFO. Where amdkfd has no data of a refused access, since it counts them as
    /// 0 bytes, the caller gets them.
    ///
    /// # Errors
    ///
    /// `EINVAL` without room for data, for an unknown code, and for an unknown queue or GPU;
    /// `ENODATA` for an exception that is not there; `EFAULT`, and it is still there.
    fn query_info(self, args: &mut uapi::DbgQueryInfo) -> Result<u32> {
        if args.info_ptr == 0 {
            return Err(EINVAL);
        }
        let code = ExceptionCode::new(args.exception_code).ok_or(EINVAL)?;
        let exceptions = self.process.exceptions();
        let (place, room) = (args.info_ptr, args.info_size);
        let size = match exceptions.query_info(code, args.source_id, false)? {
            ExceptionInfo::Nothing => 0,
            ExceptionInfo::Runtime(runtime) => write(place, room, &runtime_info(runtime))
                .map(|()| core::mem::size_of::<uapi::RuntimeInfo>())?,
            ExceptionInfo::Memory(fault) => write(
                place,
                room,
                &memory_exception(&fault, self.process.name_of(fault.gpu)),
            )
            .map(|()| core::mem::size_of::<uapi::MemoryException>())?,
        };
        if args.clear_exception != 0 {
            // It may have gone meanwhile.
            let _ = exceptions.query_info(code, args.source_id, true);
        }
        args.info_size = u32::try_from(size)?;
        Ok(0)
    }
}

fn runtime_info(runtime: RuntimeInfo) -> uapi::RuntimeInfo {
    uapi::RuntimeInfo {
        r_debug: runtime.r_debug,
        runtime_state: runtime.state.number(),
        ttmp_setup: runtime.ttmp_setup.into(),
    }
}

/// Writes as much of `value` as fits into the caller's `room` bytes at `address`.
///
/// # Errors
///
/// `EFAULT`.
fn write<T: AsBytes>(address: u64, room: u32, value: &T) -> Result {
    let address = usize::try_from(address).map_err(|_| EFAULT)?;
    uaccess_ext::write_sized(address, room as usize, value)
}
