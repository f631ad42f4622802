// SPDX-License-Identifier: GPL-2.0
//! A process that is restored from what [`Process::snapshot`] has written of another one.

use hw::criu::{QueueRecord, QueueState, RuntimeRecord};
use hw::va::VaRange;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::ProcessPause;
use crate::kern::uapi::SvmAttribute;
use crate::mem::queue_group::{EvictTrigger, PauseGuard};
use crate::process::context::GpuContext;
use crate::process::exceptions::{RuntimeInfo, RuntimeState};
use crate::process::Process;
use crate::queue::request::{
    ComputeBuffers, CreateQueue, PreparedQueue, SavedProgress, SavedQueue,
};

/// A range of shared virtual memory that gets its attributes when the process's memory is there.
pub(crate) struct SavedRange {
    /// The range.
    pub(crate) range: VaRange,
    /// Its attributes.
    pub(crate) attributes: KVVec<SvmAttribute>,
}

/// A queue that is made when the process's memory is there.
pub(crate) struct LateQueue {
    context: Arc<GpuContext>,
    create: CreateQueue,
    saved: SavedQueue,
    id: u32,
}

/// What is restored when the process's memory is there: by RESUME.
#[derive(Default)]
pub(crate) struct LateParts {
    /// The ranges that are to get their attributes.
    pub(crate) ranges: KVVec<SavedRange>,
    /// The queues, which may need these.
    pub(crate) queues: KVec<LateQueue>,
}

/// A process that is being restored.
pub(in crate::process) struct PendingRestore {
    guards: KVec<PauseGuard>,
    /// What RESUME is to do, once RESTORE has succeeded.
    resume: Option<LateParts>,
}

/// A process that is restored. Its queues run when this is dropped.
pub(crate) struct RestoredProcess {
    /// What is yet to be restored.
    pub(crate) late: LateParts,
    _guards: KVec<PauseGuard>,
}

impl Process {
    /// Begins a restore: the process's queues are kept off the hardware.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is being saved, or was restored before; `EINTR` when the caller is killed;
    /// `ENOMEM`.
    pub(crate) fn begin_restore(&self) -> Result {
        let mut pause = self.pause.lock_killable()?;
        if !matches!(&*pause, ProcessPause::None) {
            return Err(EINVAL);
        }
        *pause = ProcessPause::Restore(PendingRestore {
            guards: self.pause_all(EvictTrigger::Restore)?,
            resume: None,
        });
        Ok(())
    }

    /// Keeps the queues on `context`, whose address space was just acquired, off the hardware.
    ///
    /// # Errors
    ///
    /// `EINVAL` without [`Process::begin_restore`]; `ENODEV` at the end; `EINTR` when the caller is
    /// killed; `ENOMEM`.
    pub(crate) fn pause_restored(&self, context: &GpuContext) -> Result {
        let mut pause = self.pause.lock_killable()?;
        let ProcessPause::Restore(restore) = &mut *pause else {
            return Err(EINVAL);
        };
        restore.guards.reserve(1, GFP_KERNEL_ACCOUNT)?;
        let guard = context.vm()?.group().pause(EvictTrigger::Restore);
        restore.guards.push(guard, GFP_KERNEL_ACCOUNT)?;
        Ok(())
    }

    /// Ends RESTORE: RESUME may follow, which restores what is `late`.
    ///
    /// # Errors
    ///
    /// `EINVAL` without [`Process::begin_restore`]; `EINTR` when the caller is killed.
    pub(crate) fn finish_restore(&self, late: LateParts) -> Result {
        match &mut *self.pause.lock_killable()? {
            ProcessPause::Restore(restore) => restore.resume = Some(late),
            _ => return Err(EINVAL),
        }
        Ok(())
    }

    /// Begins RESUME of a process that is restored, and has its memory.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is none; `EINTR` when the caller is killed.
    pub(crate) fn begin_resume(&self) -> Result<RestoredProcess> {
        let mut pause = self.pause.lock_killable()?;
        let ProcessPause::Restore(restore) = &mut *pause else {
            return Err(EINVAL);
        };
        let restored = RestoredProcess {
            late: restore.resume.take().ok_or(EINVAL)?,
            _guards: core::mem::take(&mut restore.guards),
        };
        *pause = ProcessPause::None;
        self.for_each_context(|context| {
            if let Ok(vm) = context.vm() {
                vm.expect_pending();
            }
        });
        Ok(restored)
    }

    /// Registers the runtime of a process that is restored.
    pub(crate) fn restore_runtime(&self, runtime: &RuntimeRecord) {
        let _creating = self.creating.lock();
        self.exceptions.set_runtime(RuntimeInfo {
            r_debug: runtime.r_debug,
            state: RuntimeState::Enabled,
            ttmp_setup: runtime.ttmp_setup,
        });
    }

    /// Creates the queue of `record`, which goes on when the process does. Returns one that is to
    /// be created later.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a number, a doorbell or a descriptor that it cannot have; `ENOSPC` for a number
    /// that is taken; `EBUSY` for a doorbell of SDMA that is; those of [`Process::create_queue`].
    pub(crate) fn restore_queue(
        &self,
        context: &Arc<GpuContext>,
        record: &QueueRecord<'_>,
    ) -> Result<Option<LateQueue>> {
        let progress = match record.state().ok_or(EINVAL)? {
            QueueState::Compute(_) => {
                let mut words = KVVec::new();
                words.extend_from_slice(record.progress, GFP_KERNEL_ACCOUNT)?;
                SavedProgress::Compute(words)
            }
            QueueState::Sdma(read) => SavedProgress::Sdma(read),
        };
        let create = CreateQueue {
            kind: record.kind,
            ring: record.ring,
            size: record.size,
            read_pointer: record.read_pointer,
            write_pointer: record.write_pointer,
            percentage: record.percentage,
            priority: record.priority,
            engine: record.engine,
            compute: ComputeBuffers {
                eop: record.eop,
                eop_size: record.eop_size,
                save: record.save,
                save_size: record.save_size,
                control_stack: record.control_stack,
            },
        };
        let saved = SavedQueue {
            doorbell: record.doorbell,
            progress,
        };
        let queue = LateQueue {
            context: context.clone(),
            create,
            saved,
            id: record.id,
        };
        if create.needs_user_memory(&context.vm()?) {
            return Ok(Some(queue));
        }
        self.add_late_queue(queue)?;
        Ok(None)
    }

    /// Creates a queue whose memory is there. The caller may be another process.
    ///
    /// # Errors
    ///
    /// Those of [`Process::restore_queue`].
    pub(crate) fn add_late_queue(&self, queue: LateQueue) -> Result {
        let (context, id) = (&queue.context, queue.id);
        let vm = context.vm()?;
        let create = PreparedQueue::new(&vm, &self.space, queue.create, Some(queue.saved))?;
        self.add_queue(context, &create, Some(id))?;
        Ok(())
    }
}
