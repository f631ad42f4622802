// SPDX-License-Identifier: GPL-2.0
//! A process and its debugger (`DBG_TRAP`), and the runtime of the process (`RUNTIME_ENABLE`),
//! which tells the debugger that it comes and goes.
//!
//! `Process::debugging` is held while the debugger attaches, detaches or changes what the hardware
//! does, and while the runtime comes and goes. No memory of a program is accessed under it.

mod save_areas;

use hw::debug::{WatchPoint, WaveControls};
use hw::exceptions::ExceptionSet;
use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Release};
use kernel::sync::Arc;

use super::context::GpuContext;
use super::events::{EventKind, EventPayload, MemoryFault};
use super::exceptions::session::DebugSession;
use super::exceptions::{ProcessExceptions, RuntimeCall, RuntimeInfo, RuntimeState, Suspension};
use super::Process;
use crate::queue::request::UserQueue;

impl Process {
    /// What its runtime and its debugger know of its queues.
    pub(crate) fn exceptions(&self) -> &Arc<ProcessExceptions> {
        &self.exceptions
    }

    /// The ROCm runtime registers: it is told of the exceptions of the queues that are created from
    /// now on. Waits for the debugger, if there is one.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it has registered already; `EEXIST` if there are queues; `EINTR` for a signal
    /// during the wait.
    pub(crate) fn enable_runtime(&self, r_debug: u64, ttmp_setup: bool) -> Result {
        let call = RuntimeCall::Enable;
        if !self.exceptions.was_interrupted(call) {
            let _debugging = self.debugging.lock();
            {
                // No queue is being created, which would miss this.
                let _creating = self.creating.lock();
                if self.exceptions.runtime().state != RuntimeState::Disabled {
                    return Err(EBUSY);
                }
                if !self.queues.lock().is_empty() {
                    return Err(EEXIST);
                }
                self.exceptions.set_runtime(RuntimeInfo {
                    r_debug,
                    state: RuntimeState::Enabled,
                    ttmp_setup,
                });
            }
            self.show_debugger();
            self.exceptions.announce_runtime();
        }
        self.exceptions.wait_for_answer(call)
    }

    /// The ROCm runtime unregisters. It need not have registered. Waits for the debugger, if there
    /// is one.
    ///
    /// # Errors
    ///
    /// `EINTR` for a signal during the wait.
    pub(crate) fn disable_runtime(&self) -> Result {
        let call = RuntimeCall::Disable;
        if !self.exceptions.was_interrupted(call) {
            let _debugging = self.debugging.lock();
            let before = {
                let _creating = self.creating.lock();
                let before = self.exceptions.runtime();
                self.exceptions.set_runtime(RuntimeInfo {
                    r_debug: 0,
                    state: RuntimeState::Disabled,
                    ..before
                });
                before
            };
            if before.state == RuntimeState::Enabled {
                self.deactivate();
            }
            self.exceptions.announce_runtime();
        }
        self.exceptions.wait_for_answer(call)?;
        let _debugging = self.debugging.lock();
        let _creating = self.creating.lock();
        let runtime = self.exceptions.runtime();
        if runtime.state == RuntimeState::Disabled {
            self.exceptions.set_runtime(RuntimeInfo::default());
        }
        Ok(())
    }

    /// Attaches a debugger. Returns what it may know of the runtime.
    ///
    /// # Errors
    ///
    /// `EALREADY` if there is one; `ESRCH` at the process's end; `EINTR` when the caller is killed.
    pub(crate) fn attach_debugger(
        &self,
        debugger: &Self,
        session: DebugSession,
    ) -> Result<RuntimeInfo> {
        let attached = {
            let _debugging = self.debugging.lock_killable()?;
            debugger.has_debugged.store(true, Release);
            let attached = self.exceptions.attach(session);
            if attached.is_ok() {
                self.show_debugger();
            }
            attached
        };
        // A session that was not attached is dropped without the lock.
        attached.map_err(|(error, _)| error)?;
        Ok(self.exceptions.runtime())
    }

    /// Detaches the debugger, if there is one: queues are resumed, and what it has not taken is
    /// forgotten, but for a refused access, which is handled as without a debugger.
    ///
    /// # Errors
    ///
    /// `EINTR` when the caller is killed; then it is detached when the debugger ends.
    pub(crate) fn detach_debugger(&self) -> Result {
        let session = {
            let _debugging = self.debugging.lock_killable()?;
            self.detach()
        };
        drop(session);
        Ok(())
    }

    /// Whether it has debugged another process.
    pub(super) fn has_debugged(&self) -> bool {
        self.has_debugged.load(Acquire)
    }

    /// Whether `debugger`, another process, debugs it.
    pub(crate) fn is_debugged_by(&self, debugger: &Self) -> bool {
        self.exceptions.is_debugged_by(debugger.pasid.get())
    }

    /// Detaches the debugger if it is `debugger`, which ends.
    pub(super) fn release_from(&self, debugger: &Self) {
        let session = {
            let _debugging = self.debugging.lock();
            match self.is_debugged_by(debugger) {
                true => self.detach(),
                false => None,
            }
        };
        drop(session);
    }

    /// The caller holds `debugging`, and drops the session without it.
    fn detach(&self) -> Option<DebugSession> {
        if !self.exceptions.is_debugged() {
            return None;
        }
        self.deactivate();
        self.for_each_context(|context| {
            let gpu = context.gpu();
            gpu.hw.ih.wait_drained();
            if let Ok(Some(fault)) = self.exceptions.kept_fault(gpu.hw.id) {
                self.stop_for(context, fault);
            }
        });
        let session = self.exceptions.detach();
        self.show_debugger();
        session
    }

    /// Ends what the debugger has set of the hardware. The caller holds `debugging`.
    fn deactivate(&self) {
        self.resume_all();
        if self.exceptions.is_debugged() {
            let (before, waves) = (self.exceptions.wave_controls(), WaveControls::default());
            self.exceptions.set_wave_controls(waves);
            self.for_each_context(|context| {
                context.set_wave_controls(waves);
                let holds = [0, 1, 2, 3].map(|number| context.unwatch(number).ok());
                if before != waves || holds.iter().any(Option::is_some) {
                    // It may not let go of a queue, which has failed then.
                    let _ = self.refresh_on(context);
                }
                drop(holds);
            });
        }
        self.show_debugger();
    }

    /// Whether the trap handlers of its waves are to know of a debugger.
    pub(super) fn shows_debugger(&self) -> bool {
        self.exceptions.is_debugged() && self.exceptions.runtime().state == RuntimeState::Enabled
    }

    /// Lets the trap handlers of its waves know whether there is a debugger. The caller holds
    /// `debugging`.
    fn show_debugger(&self) {
        let on = self.shows_debugger();
        self.for_each_context(|context| context.show_debugger(on));
    }

    /// Stops the queues on `context` because of a refused access, and sets the events of it.
    fn stop_for(&self, context: &Arc<GpuContext>, fault: MemoryFault) {
        context.gpu().queues.stop_process(self.pasid.get());
        let payload = EventPayload::Memory(fault);
        self.events.raise(EventKind::Memory, payload);
    }

    /// SEND_RUNTIME_EVENT: what the debugger has not handled is for the runtime.
    ///
    /// # Errors
    ///
    /// `ENODEV` for a memory violation of a GPU that the process does not have; `EINTR` when the
    /// caller is killed.
    pub(crate) fn send_to_runtime(
        &self,
        raised: ExceptionSet,
        gpu: Option<GpuId>,
        queue: u32,
    ) -> Result {
        if raised.intersects(ExceptionSet::MEMORY_VIOLATION) {
            let gpu = gpu.ok_or(ENODEV)?;
            let fault = self.exceptions.kept_fault(gpu)?;
            let unknown = MemoryFault {
                gpu,
                address: 0,
                not_present: false,
                read_only: false,
                no_execute: false,
            };
            if let Some(context) = self.context(gpu) {
                self.stop_for(&context, fault.unwrap_or(unknown));
            }
        }
        if raised.intersects(ExceptionSet::RUNTIME) {
            self.exceptions.answer_runtime();
        }
        let handled = ExceptionSet::MEMORY_VIOLATION | ExceptionSet::RUNTIME;
        let rest = raised.without(handled);
        if !rest.is_empty() {
            self.exceptions.pass_on(queue, rest);
        }
        Ok(())
    }

    /// Checks that there is a debugger and, for an operation that `needs_runtime`, that the
    /// runtime has registered.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a debugger; `EPERM` without a runtime.
    pub(crate) fn check_debugged(&self, needs_runtime: bool) -> Result {
        if !self.exceptions.is_debugged() {
            return Err(EINVAL);
        }
        if needs_runtime && self.exceptions.runtime().state != RuntimeState::Enabled {
            return Err(EPERM);
        }
        Ok(())
    }

    /// Has what the debugger has set on `context` come into force.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if the hardware does not let go of a queue.
    fn refresh_on(&self, context: &Arc<GpuContext>) -> Result {
        let (mut id, mut refreshed) = (0, Ok(()));
        while let Some(next) = self.exceptions.queue_after(id) {
            id = next;
            let found = self.queues.lock().get(id);
            if let Ok((queue, on)) = found {
                if Arc::ptr_eq(&on, context) {
                    refreshed = refreshed.and(queue.refresh());
                }
            }
        }
        refreshed
    }

    /// Changes what is set of waves on all GPUs. Returns the result of `change`.
    ///
    /// # Errors
    ///
    /// Those of [`Process::check_debugged`] and of `change`; `ETIMEDOUT` if the hardware does not
    /// let go of a queue; `EINTR` when the caller is killed.
    pub(crate) fn change_waves<T>(
        &self,
        change: impl FnOnce(&mut WaveControls) -> Result<T>,
    ) -> Result<T> {
        let _debugging = self.debugging.lock_killable()?;
        self.check_debugged(true)?;
        let before = self.exceptions.wave_controls();
        let mut waves = before;
        let changed = change(&mut waves)?;
        if waves == before {
            return Ok(changed);
        }
        self.exceptions.set_wave_controls(waves);
        let mut refreshed = Ok(());
        self.for_each_context(|context| {
            context.set_wave_controls(waves);
            refreshed = refreshed.and(self.refresh_on(context));
        });
        refreshed.map(|()| changed)
    }

    /// Watches memory on `context`, which is this process's. Returns the number of the point.
    ///
    /// # Errors
    ///
    /// Those of [`Process::check_debugged`]; `ENOMEM` if processes have all points; `EINTR` when
    /// the caller is killed. As in amdkfd, that a queue does not leave the hardware is no error.
    pub(crate) fn watch(&self, context: &Arc<GpuContext>, point: WatchPoint) -> Result<u32> {
        let _debugging = self.debugging.lock_killable()?;
        self.check_debugged(true)?;
        let number = context.watch(point)?;
        let _ = self.refresh_on(context);
        Ok(number)
    }

    /// Does not watch memory at point `number` any more.
    ///
    /// # Errors
    ///
    /// Those of [`Process::check_debugged`]; `EINVAL` if the process does not have the point;
    /// `ETIMEDOUT` if the hardware does not let go of a queue; `EINTR` when the caller is killed.
    pub(crate) fn unwatch(&self, context: &Arc<GpuContext>, number: u32) -> Result {
        let _debugging = self.debugging.lock_killable()?;
        self.check_debugged(true)?;
        let hold = context.unwatch(number as usize)?;
        let refreshed = self.refresh_on(context);
        drop(hold);
        refreshed
    }

    /// Takes the queues that `queues` names off the hardware, and takes their exceptions `clear`.
    /// Marks in `queues` those that were not. Returns how many are off now, which includes those
    /// that were before.
    ///
    /// # Errors
    ///
    /// Those of [`Process::check_debugged`]; `ENOMEM`; `EINTR` when the caller is killed.
    pub(crate) fn suspend_queues(
        &self,
        queues: &mut [NamedQueue],
        clear: ExceptionSet,
    ) -> Result<u32> {
        let _debugging = self.debugging.lock_killable()?;
        self.check_debugged(true)?;
        let mut leaving =
            KVVec::<(usize, Arc<dyn UserQueue>)>::with_capacity(queues.len(), GFP_KERNEL_ACCOUNT)?;
        for (index, named) in queues.iter_mut().enumerate() {
            named.outcome = match self.exceptions.suspend(named.id) {
                Suspension::Refused => QueueOutcome::Invalid,
                Suspension::Already => QueueOutcome::Done,
                Suspension::Marked => {
                    if let Ok((queue, _)) = self.queues.lock().get(named.id) {
                        queue.begin_suspend();
                        let _ = leaving.push_within_capacity((index, queue));
                    }
                    QueueOutcome::Done
                }
            };
        }
        for (index, queue) in leaving.iter() {
            let suspended = queue.suspend();
            if let (Err(_), Some(named)) = (suspended, queues.get_mut(*index)) {
                named.outcome = QueueOutcome::Failed;
            }
        }
        let done = queues
            .iter()
            .filter(|named| named.outcome != QueueOutcome::Failed);
        done.for_each(|named| self.exceptions.take(named.id, clear));
        Ok(count(queues))
    }

    /// Lets the queues that `queues` names run again, and marks in `queues` those that do not
    /// exist. Returns how many exist.
    ///
    /// # Errors
    ///
    /// Those of [`Process::check_debugged`]; `EINTR` when the caller is killed.
    pub(crate) fn resume_queues(&self, queues: &mut [NamedQueue]) -> Result<u32> {
        let _debugging = self.debugging.lock_killable()?;
        self.check_debugged(true)?;
        for named in queues.iter_mut() {
            named.outcome = match self.resume(named.id) {
                true => QueueOutcome::Done,
                false => QueueOutcome::Invalid,
            };
        }
        Ok(count(queues))
    }

    /// Lets all queues run again. Returns how many there are.
    ///
    /// # Errors
    ///
    /// Those of [`Process::resume_queues`].
    pub(crate) fn resume_all_queues(&self) -> Result<u32> {
        let _debugging = self.debugging.lock_killable()?;
        self.check_debugged(true)?;
        Ok(self.resume_all())
    }

    fn resume_all(&self) -> u32 {
        let (mut id, mut resumed) = (0, 0);
        while let Some(next) = self.exceptions.queue_after(id) {
            id = next;
            resumed += u32::from(self.resume(id));
        }
        resumed
    }

    /// Lets queue `id` run again; returns whether there is one.
    fn resume(&self, id: u32) -> bool {
        match self.exceptions.resume(id) {
            None => false,
            Some(false) => true,
            Some(true) => {
                let found = self.queues.lock().get(id);
                if let Ok((queue, _)) = found {
                    queue.resume();
                }
                true
            }
        }
    }
}

/// A queue that a debugger names, and what has become of it.
#[derive(Clone, Copy)]
pub(crate) struct NamedQueue {
    /// Its number; 0 if the caller has named it before.
    pub(crate) id: u32,
    /// The number that the caller gave.
    pub(crate) number: u32,
    /// What has become of it.
    pub(crate) outcome: QueueOutcome,
}

/// What has become of a queue that a debugger names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueOutcome {
    /// There is none that could be meant.
    Invalid,
    /// What was asked for.
    Done,
    /// The hardware did not do it.
    Failed,
}

fn count(queues: &[NamedQueue]) -> u32 {
    let done = queues
        .iter()
        .filter(|named| named.outcome == QueueOutcome::Done);
    u32::try_from(done.count()).unwrap_or(u32::MAX)
}
