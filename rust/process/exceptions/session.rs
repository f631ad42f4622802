// SPDX-License-Identifier: GPL-2.0
//! A debugger of a process: what it wants to know, and what it has not taken yet.

use hw::debug::WaveControls;
use hw::exceptions::{ExceptionCode, ExceptionOwner, ExceptionSet};
use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue::{impl_has_work, new_work, Work, WorkItem};

use super::{ListedQueue, ProcessExceptions, RuntimeInfo};
use crate::kern::debugger_pipe::DebuggerPipe;
use crate::kern::{errno, workqueue};
use crate::process::events::MemoryFault;
use crate::process::table::OpenedProcess;

/// The debugger's file. A work item writes to it, since that allocates.
#[pin_data]
pub(crate) struct DebuggerNotice {
    pipe: DebuggerPipe,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for DebuggerNotice { self.work }
}

impl DebuggerNotice {
    /// A notice to the reader of `pipe`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(pipe: DebuggerPipe) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                pipe,
                work <- new_work!("DebuggerNotice::work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }
}

impl WorkItem for DebuggerNotice {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.pipe.notify();
    }
}

/// A GPU as the debugger of a process knows it.
#[derive(Clone, Copy)]
pub(crate) struct DebuggedDevice {
    gpu: GpuId,
    /// What the debugger has not taken yet.
    status: ExceptionSet,
    /// The first refused access that it has not taken.
    fault: Option<MemoryFault>,
}

impl DebuggedDevice {
    /// The GPU `gpu`, without exceptions.
    pub(crate) fn new(gpu: GpuId) -> Self {
        Self {
            gpu,
            status: ExceptionSet::default(),
            fault: None,
        }
    }
}

/// A debugger of a process, from ENABLE on.
pub(crate) struct DebugSession {
    /// The PASID of the debugger; `None` if that is the process itself.
    pub(crate) debugger: Option<u16>,
    /// Its file.
    pub(crate) notice: Arc<DebuggerNotice>,
    /// The exceptions of which it is notified.
    pub(crate) subscribed: ExceptionSet,
    /// Exceptions of the process that it has not taken yet.
    pub(crate) status: ExceptionSet,
    /// What it has set of waves, on all GPUs.
    pub(crate) waves: WaveControls,
    /// The GPUs.
    pub(crate) devices: KVec<DebuggedDevice>,
    /// Keeps the process, which need not have opened a file. Not for a process that debugs itself,
    /// which could never end before its exit then.
    pub(crate) _target: Option<OpenedProcess>,
}

impl DebugSession {
    /// Notifies it, if it wants to know of any of `raised`; returns whether it does. Any context.
    pub(super) fn notify(&self, raised: ExceptionSet) -> bool {
        let wanted = self.subscribed.intersects(raised);
        if wanted {
            // If it is queued already, one notice is enough.
            let _ = workqueue::patient().enqueue(self.notice.clone());
        }
        wanted
    }

    fn device(&mut self, gpu: GpuId) -> Option<&mut DebuggedDevice> {
        self.devices.iter_mut().find(|device| device.gpu == gpu)
    }
}

/// The answer to QUERY_DEBUG_EVENT.
#[derive(Clone, Copy)]
pub(crate) struct DebugEvent {
    /// All exceptions of the queue, GPU or process.
    pub(crate) status: ExceptionSet,
    /// The GPU, unless it is the process that has them.
    pub(crate) gpu: Option<GpuId>,
    /// The queue that has them, or 0.
    pub(crate) queue: u32,
}

/// The answer to QUERY_EXCEPTION_INFO.
#[derive(Clone, Copy)]
pub(crate) enum ExceptionInfo {
    /// There is nothing more to know.
    Nothing,
    /// The runtime.
    Runtime(RuntimeInfo),
    /// The first refused access.
    Memory(MemoryFault),
}

impl ProcessExceptions {
    /// Attaches a debugger.
    ///
    /// # Errors
    ///
    /// `EALREADY` if there is one; `ESRCH` at the process's end. The session is returned then.
    pub(crate) fn attach(&self, session: DebugSession) -> Result<(), (Error, DebugSession)> {
        let mut state = self.state.lock();
        if state.ended {
            return Err((ESRCH, session));
        }
        if state.debugger.is_some() {
            return Err((EALREADY, session));
        }
        state.debugger = Some(session);
        Ok(())
    }

    /// Detaches the debugger, and returns it to be dropped without locks: nothing is known of what
    /// it has not taken, and nothing waits for it.
    pub(crate) fn detach(&self) -> Option<DebugSession> {
        let mut state = self.state.lock();
        let session = state.debugger.take();
        for queue in state.queues.values_mut() {
            queue.status = ExceptionSet::default();
            queue.suspended = false;
        }
        state.waits.forget();
        drop(state);
        self.changed.notify_all();
        session
    }

    /// As [`ProcessExceptions::detach`], for good: the process has ended.
    pub(crate) fn end_debugging(&self) -> Option<DebugSession> {
        self.state.lock().ended = true;
        self.detach()
    }

    /// What the debugger, if there is one, has set of waves on all GPUs.
    pub(crate) fn wave_controls(&self) -> WaveControls {
        let state = self.state.lock();
        let debugger = state.debugger.as_ref();
        debugger.map_or_else(WaveControls::default, |debugger| debugger.waves)
    }

    /// Sets it. Does nothing without a debugger.
    pub(crate) fn set_wave_controls(&self, waves: WaveControls) {
        if let Some(debugger) = &mut self.state.lock().debugger {
            debugger.waves = waves;
        }
    }

    /// Whether there is a debugger.
    pub(crate) fn is_debugged(&self) -> bool {
        self.state.lock().debugger.is_some()
    }

    /// Whether the debugger is the other process of this PASID.
    pub(crate) fn is_debugged_by(&self, pasid: u16) -> bool {
        let state = self.state.lock();
        let debugger = state.debugger.as_ref();
        debugger.is_some_and(|debugger| debugger.debugger == Some(pasid))
    }

    /// Sets the exceptions of which the debugger is notified. It is at once, if there are any of
    /// them.
    pub(crate) fn subscribe(&self, subscribed: ExceptionSet) {
        let mut state = self.state.lock();
        let queues = state.queues.values();
        let mut pending = queues.fold(ExceptionSet::default(), |all, queue| all | queue.status);
        if let Some(debugger) = &mut state.debugger {
            debugger.subscribed = subscribed;
            pending |= debugger.status;
            for device in debugger.devices.iter() {
                pending |= device.status;
            }
            debugger.notify(pending);
        }
    }

    /// Notifies the debugger of `raised`, if it wants to know.
    pub(crate) fn notify(&self, raised: ExceptionSet) {
        self.state.lock().notify(raised);
    }

    /// Exceptions `raised` of the GPU `gpu`, if there is a debugger.
    pub(crate) fn raise_of_device(&self, gpu: GpuId, raised: ExceptionSet) {
        let mut state = self.state.lock();
        if let Some(debugger) = &mut state.debugger {
            if let Some(device) = debugger.device(gpu) {
                device.status |= raised;
            }
            debugger.notify(raised);
        }
    }

    /// An access was refused. Returns whether the debugger takes it: then nothing else is done
    /// about it. Allocates nothing, waits for nothing.
    pub(crate) fn raise_fault(&self, gpu: GpuId, fault: MemoryFault) -> bool {
        let mut state = self.state.lock();
        let Some(debugger) = &mut state.debugger else {
            return false;
        };
        if let Some(device) = debugger.device(gpu) {
            device.status |= ExceptionSet::MEMORY_VIOLATION;
            device.fault.get_or_insert(fault);
        }
        debugger.notify(ExceptionSet::MEMORY_VIOLATION)
    }

    /// The refused access on `gpu` that the debugger has not taken.
    ///
    /// # Errors
    ///
    /// `ENODEV` for a GPU that it does not know.
    pub(crate) fn kept_fault(&self, gpu: GpuId) -> Result<Option<MemoryFault>> {
        let mut state = self.state.lock();
        let debugger = state.debugger.as_mut().ok_or(EINVAL)?;
        Ok(debugger.device(gpu).ok_or(ENODEV)?.fault)
    }

    /// The first queue, GPU or the process with an exception that the debugger wants to know of;
    /// those of `clear` are taken.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is none.
    pub(crate) fn query_event(&self, clear: ExceptionSet) -> Result<DebugEvent> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let debugger = state.debugger.as_mut().ok_or(EINVAL)?;
        let subscribed = debugger.subscribed;
        let queues = state.queues.values_mut();
        let mut pending = queues.filter(|queue| queue.status.intersects(subscribed));
        if let Some(first) = pending.next() {
            let queue = pending.fold(first, |first, other| match other.order < first.order {
                true => other,
                false => first,
            });
            let status = queue.status;
            queue.status = status.without(clear);
            return Ok(DebugEvent {
                status,
                gpu: Some(queue.gpu),
                queue: queue.id,
            });
        }
        let mut devices = debugger.devices.iter_mut();
        if let Some(device) = devices.find(|device| device.status.intersects(subscribed)) {
            let status = device.status;
            device.status = status.without(clear);
            return Ok(DebugEvent {
                status,
                gpu: Some(device.gpu),
                queue: 0,
            });
        }
        if !debugger.status.intersects(subscribed) {
            return Err(EAGAIN);
        }
        let status = debugger.status;
        debugger.status = status.without(clear);
        Ok(DebugEvent {
            status,
            gpu: None,
            queue: 0,
        })
    }

    /// More about the exception `code` of the queue or GPU `source`, which is taken if `clear`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown source; `ENODATA` if it has no such exception.
    pub(crate) fn query_info(
        &self,
        code: ExceptionCode,
        source: u32,
        clear: bool,
    ) -> Result<ExceptionInfo> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let debugger = state.debugger.as_mut().ok_or(EINVAL)?;
        let (status, info) = match code.owner() {
            ExceptionOwner::Queue => {
                let mut queues = state.queues.values_mut();
                let queue = queues.find(|queue| queue.id == source).ok_or(EINVAL)?;
                (&mut queue.status, ExceptionInfo::Nothing)
            }
            ExceptionOwner::Device => {
                let gpu = GpuId::from_raw(source).ok_or(EINVAL)?;
                let device = debugger.device(gpu).ok_or(EINVAL)?;
                let mut info = ExceptionInfo::Nothing;
                if code.set() == ExceptionSet::MEMORY_VIOLATION
                    && device.status.intersects(code.set())
                {
                    info = device.fault.map_or(info, ExceptionInfo::Memory);
                    if clear {
                        device.fault = None;
                    }
                }
                (&mut device.status, info)
            }
            ExceptionOwner::Process => {
                let info = match code.set() == ExceptionSet::RUNTIME {
                    true => ExceptionInfo::Runtime(state.runtime),
                    false => ExceptionInfo::Nothing,
                };
                (&mut debugger.status, info)
            }
        };
        if !status.intersects(code.set()) {
            return Err(errno::no_data());
        }
        if clear {
            *status = status.without(code.set());
        }
        Ok(info)
    }

    /// How many queues there are.
    pub(crate) fn queues(&self) -> usize {
        self.state.lock().queues.values().count()
    }

    /// Adds the first `most` queues, in the order of their creation, to `to` as long as there is
    /// room, and takes the exceptions `clear` of those. Returns how many there are.
    pub(crate) fn snapshot(
        &self,
        clear: ExceptionSet,
        most: usize,
        to: &mut KVVec<ListedQueue>,
    ) -> usize {
        let mut after = 0;
        while to.len() < most {
            // The lock is not held for longer than one look at the queues.
            let mut state = self.state.lock();
            let queues = state.queues.values_mut();
            let later = queues.filter(|queue| queue.order > after);
            let Some(queue) = later.min_by_key(|queue| queue.order) else {
                break;
            };
            after = queue.order;
            if to.push_within_capacity(*queue).is_err() {
                break;
            }
            queue.status = queue.status.without(clear);
        }
        self.queues()
    }

    /// The exceptions of GPU `gpu`, of which those of `clear` are taken.
    pub(crate) fn take_device(&self, gpu: GpuId, clear: ExceptionSet) -> ExceptionSet {
        let mut state = self.state.lock();
        let debugger = state.debugger.as_mut();
        let Some(device) = debugger.and_then(|debugger| debugger.device(gpu)) else {
            return ExceptionSet::default();
        };
        let status = device.status;
        device.status = status.without(clear);
        status
    }
}
