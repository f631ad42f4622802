// SPDX-License-Identifier: GPL-2.0
//! Whether page faults of a process's queues are retried (XNACK), and the consequences for its
//! queues and its GPUs.

use hw::svm::SvmAttributes;
use hw::topology::gpu_id::GpuId;
use hw::va::{VaRange, GPUVM_BASE, USER_VA_END};
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Relaxed, Release};
use kernel::sync::Arc;

use super::Svm;
use crate::mem::GpuMemory;
use crate::process::Process;

/// GPUs that a process is about to lose without being asked.
#[derive(Clone, Copy)]
pub(in crate::process) enum ClosingGpus {
    /// None.
    None,
    /// One.
    One(GpuId),
    /// All.
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

    /// Sets whether page faults of `process` are retried from now on. It has no queues, and makes
    /// none meanwhile. GPUs get the memory that they are to have then, maybe later.
    ///
    /// # Errors
    ///
    /// `EINTR` when the caller is killed; `ENODEV` at the process's end; `ENOMEM`.
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
                state.torn.add(all);
                // Nothing has failed: a queue that is made before that waits for it.
                self.catch_up_in(0);
            }
        }
        Ok(())
    }

    /// A queue of `process` is about to be made, which may come to memory without attributes, or
    /// expects memory to be mapped: it is mapped then, as far as it can be. Errors as
    /// [`Svm::set_retries`].
    pub(in crate::process) fn expect_queue(self: &Arc<Self>, process: &Process) -> Result {
        let _ = self.queues.fetch_add(1, Relaxed);
        if !self.retries() && !self.used.load(Acquire) {
            return Ok(());
        }
        let mut opened = self.open(|| Ok(()))?;
        if self.retries() {
            opened.join(process)?;
            // Those of queues that have failed are not the new one's.
            for (_, vm) in &opened.state.vms {
                vm.gpu().hw.faults.cancel(self.pasid);
            }
        }
        Ok(())
    }

    /// A queue is gone, which was on `gpu`: its page faults are not served any more.
    pub(in crate::process) fn forget_queue(&self, gpu: &GpuMemory) {
        let _ = self.queues.fetch_add(1, Relaxed);
        gpu.hw.faults.cancel(self.pasid);
    }

    /// The process is about to lose these GPUs, and its queues there: their page faults are not
    /// served from now on, until that is over.
    pub(in crate::process) fn set_closing(&self, closing: ClosingGpus) {
        self.closing.store(closing.raw(), Release);
    }

    /// Whether the process is about to lose the GPU `id`.
    pub(super) fn is_closing(&self, id: GpuId) -> bool {
        let closing = self.closing.load(Acquire);
        closing == ClosingGpus::ALL || closing == u32::from(id.get())
    }
}
