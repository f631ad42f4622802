// SPDX-License-Identifier: GPL-2.0
//! A kernel ring with its scheduler, and the jobs that pass through it.

use super::kept::KeptMemory;
use super::sdma::{credits, SdmaRing, ROOM, TIMEOUT_MS};
use super::RingEngines;
use crate::kern::fence::{canceled, BlankFence, Fence, FenceContext};
use crate::kern::sched::{DrmScheduler, SchedBackend, SchedEntity, SchedJob, SchedRunner};
use crate::kern::workqueue;
use crate::ledger::{LedgerHold, LedgerKind};
use crate::mem::GpuMemory;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use kernel::time::msecs_to_jiffies;

/// A ring and its scheduler.
pub(super) struct JobRing {
    // Drop order: waiting jobs first, then the scheduler, then the ring that it feeds.
    entity: Pin<KBox<SchedEntity<SdmaBackend>>>,
    _scheduler: Arc<DrmScheduler<SdmaBackend>>,
    fences: Arc<FenceContext>,
    sdma: Arc<SdmaRing>,
    gpu: Arc<GpuMemory>,
}

/// Jobs of packets on an engine's kernel ring.
struct SdmaBackend;

struct RingWork {
    packets: KVec<u32>,
    fence: Option<BlankFence>,
    fences: Arc<FenceContext>,
    ring: Arc<SdmaRing>,
    keep: Arc<KeptMemory>,
    _hold: Option<LedgerHold>,
}

impl SchedBackend for SdmaBackend {
    type Job = RingWork;

    fn run(work: &mut RingWork) -> Result<Option<ARef<Fence>>> {
        // In this callback all jobs are in the order of the ring.
        let fence = work.fence.take().ok_or(EINVAL)?.init_in(&work.fences);
        SdmaRing::emit(&work.ring, &work.packets, &work.keep, fence).map(Some)
    }

    fn timed_out(work: &mut RingWork) {
        SdmaRing::timed_out(&work.ring);
    }

    fn cancelled(work: &mut RingWork) {
        SdmaRing::stop(&work.ring, canceled());
    }
}

impl JobRing {
    /// Starts the kernel ring of `engine`; `engines` is called if that hangs.
    pub(super) fn start(
        gpu: &Arc<GpuMemory>,
        engine: u8,
        engines: &Arc<dyn RingEngines>,
    ) -> Result<Self> {
        let sdma = SdmaRing::start(gpu, engine, engines)?;
        let name = CString::try_from_fmt(fmt!("sdma{engine}"))?;
        let fences = Arc::new(FenceContext::new(&name), GFP_KERNEL)?;
        let timeout = Some(msecs_to_jiffies(TIMEOUT_MS));
        let scheduler = DrmScheduler::new(
            &name,
            ROOM.credits(),
            SchedRunner::Own(timeout),
            &gpu.hw.dev,
        )?;
        Ok(Self {
            entity: SchedEntity::new(&scheduler)?,
            _scheduler: scheduler,
            fences,
            sdma,
            gpu: gpu.clone(),
        })
    }

    /// The ring behind the scheduler.
    pub(super) fn sdma(&self) -> &Arc<SdmaRing> {
        &self.sdma
    }

    /// Gives `packets`, which use the memory of `keep`, to the scheduler. The returned fence is
    /// signalled when they are done. `counted` says whether the job counts as an existing one.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are more packets than the ring holds; `ENOMEM`.
    pub(super) fn submit(
        &self,
        packets: KVec<u32>,
        keep: &Arc<KeptMemory>,
        counted: bool,
    ) -> Result<ARef<Fence>> {
        let credits = credits(packets.len())?;
        let work = RingWork {
            packets,
            fence: Some(BlankFence::new()?),
            fences: self.fences.clone(),
            ring: self.sdma.clone(),
            keep: keep.clone(),
            _hold: counted.then(|| self.gpu.hw.ledger.hold(LedgerKind::Jobs, 1)),
        };
        Ok(SchedJob::new(&self.entity, credits, work)?.push())
    }
}

impl Drop for JobRing {
    fn drop(&mut self) {
        SdmaRing::stop(&self.sdma, ENODEV);
        workqueue::cancel(&self.sdma);
    }
}
