// SPDX-License-Identifier: GPL-2.0
//! The XNACK mode of a process: whether page faults of its queues are retried, and the effects on
//! its queues and its GPUs.

use hw::svm::SvmAttributes;
use hw::topology::gpu_id::GpuId;
use hw::va::{VaRange, GPUVM_BASE, USER_VA_END};
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Relaxed, Release};
use kernel::sync::Arc;

use super::Svm;
use crate::mem::GpuMemory;
use crate::process::Process;

/// The GPUs that a process is about to lose without a request of its own.
#[derive(Clone, Copy)]
pub(in crate::process) enum ClosingGpus {
    /// No GPU.
    None,
    /// One GPU.
    One(GpuId),
    /// All GPUs.
    All,
}

impl ClosingGpus {
    pub(super) const NONE: u32 = 0;
    const ALL: u32 = u32::MAX;

    fn raw(self) -> u32 {
        match self {
            Self::None => Self::NONE,
            Self::One(id) => id.get().into(),
            Self::All => Self::ALL,
        }
    }
}

impl Svm {
    /// Whether page faults are retried.
    pub(crate) fn retries(&self) -> bool {
        self.retries.load(Relaxed)
    }

    /// Sets whether page faults of `process` are retried from now on. The process has no queues,
    /// and creates none in the meantime. The mappings of the GPUs follow the new mode, maybe only
    /// later.
    ///
    /// # Errors
    ///
    /// `EINTR` if the caller is killed; `ENODEV` if the process is at its end; `ENOMEM` if there is
    /// no memory.
    pub(in crate::process) fn set_retries(self: &Arc<Self>, process: &Process, on: bool) -> Result {
        let mut opened = self.open(|| Ok(()))?;
        if self.retries() == on {
            return Ok(());
        }
        opened.join(process)?;
        self.retries.store(on, Relaxed);
        let state = &mut *opened.state;
        state.map.set_initial(SvmAttributes::initial(on));
        for (_, vm) in &state.vms {
            vm.set_retries(on);
            vm.unshare_all()?;
        }
        if !on {
            if let Some(all) = VaRange::between(GPUVM_BASE, USER_VA_END) {
                state.lost.add(all);
                // This is not a retry after a failure: the creation of a queue before the work item
                // runs waits for the mappings.
                self.schedule_cleanup(0);
            }
        }
        Ok(())
    }

    /// Prepares for a new queue of `process`. The queue may touch memory without attributes, if
    /// page faults are retried, or needs its memory mapped from the start: that is mapped on
    /// return, as far as possible.
    ///
    /// # Errors
    ///
    /// Those of [`Svm::set_retries`].
    pub(in crate::process) fn expect_queue(self: &Arc<Self>, process: &Process) -> Result {
        let _ = self.queues.fetch_add(1, Relaxed);
        if !self.retries() && !self.used.load(Acquire) {
            return Ok(());
        }
        let mut opened = self.open(|| Ok(()))?;
        if self.retries() {
            opened.join(process)?;
            // Faults of queues that have failed are not those of the new queue.
            for (_, vm) in &opened.state.vms {
                vm.gpu().hw.faults.cancel(self.pasid);
            }
        }
        Ok(())
    }

    /// Notes that a queue on `gpu` is gone: its page faults are no longer served.
    pub(in crate::process) fn forget_queue(&self, gpu: &GpuMemory) {
        let _ = self.queues.fetch_add(1, Relaxed);
        gpu.hw.faults.cancel(self.pasid);
    }

    /// Notes that the process is about to lose these GPUs, and its queues there. From now on until
    /// that is over, no memory is mapped for their page faults.
    pub(in crate::process) fn set_closing(&self, closing: ClosingGpus) {
        self.closing.store(closing.raw(), Release);
    }

    /// Whether the process is about to lose the GPU `id`.
    pub(super) fn is_closing(&self, id: GpuId) -> bool {
        let closing = self.closing.load(Acquire);
        closing == ClosingGpus::ALL || closing == u32::from(id.get())
    }
}
