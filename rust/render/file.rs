// SPDX-License-Identifier: GPL-2.0
//! An open file of a render node: an address space, which one process at a time may acquire through
//! KFD.

use hw::va::VaRange;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
    task::MAX_SCHEDULE_TIMEOUT,
    time::Jiffies,
    workqueue::{impl_has_work, new_work, Work, WorkItem},
};

use super::{
    bo_lists::BoList, contexts::RenderContext, objects::FileObjects, placed::PlacedParts,
    rings::ContextRing,
};
use crate::{
    kern::{drm::uapi::VmEntry, fence::Fence, workqueue},
    mem::{
        bo::Bo,
        evict::EvictMembership,
        job_engine::{JobClient, JobLine},
        vm::{MappedPart, Vm},
        vmid_reservation::VmidHold,
    },
};

/// An open file.
#[pin_data(PinnedDrop)]
pub(crate) struct RenderFile {
    /// The membership in the sharing of VRAM, from the first buffer on. This lock is outside the
    /// evictor's.
    #[pin]
    membership: Mutex<Option<EvictMembership>>,
    vm: Arc<Vm>,
    /// What the jobs of the file have in common, from the first one on. Held while that is made,
    /// and while a process takes the address space.
    #[pin]
    jobs: Mutex<Option<Arc<dyn JobClient>>>,
    #[pin]
    contexts: FileObjects<RenderContext>,
    #[pin]
    bo_lists: FileObjects<BoList>,
    /// The reservation of a VMID, if the file has it.
    #[pin]
    reserved: Mutex<Option<VmidHold>>,
    owned: Atomic<bool>,
    /// The mappings of GEM_VA.
    #[pin]
    placed: PlacedParts,
    /// Unmaps what waits for jobs.
    #[pin]
    leave: Work<RenderFile>,
}

impl_has_work! {
    impl HasWork<Self> for RenderFile { self.leave }
}

impl WorkItem for RenderFile {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.placed.remove_done(&this.vm);
        while let Some(fence) = this.placed.busy() {
            fence.wait_timeout(MAX_SCHEDULE_TIMEOUT as Jiffies);
            this.placed.remove_done(&this.vm);
        }
    }
}

/// The right of one process to the address space of a [`RenderFile`], given back on drop.
pub(crate) struct VmOwner(Arc<RenderFile>);

impl RenderFile {
    /// A file with the address space `vm`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(vm: Arc<Vm>) -> Result<Arc<Self>> {
        let file = Arc::pin_init(
            pin_init!(Self {
                membership <- new_mutex!(None, "RenderFile::membership"),
                jobs <- new_mutex!(None, "RenderFile::jobs"),
                contexts <- FileObjects::new(),
                bo_lists <- FileObjects::new(),
                reserved <- new_mutex!(None, "RenderFile::reserved"),
                vm,
                owned: Atomic::new(false),
                placed <- PlacedParts::new(),
                leave <- new_work!("RenderFile::leave"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        file.vm.gpu().vms.add(&file.vm)?;
        Ok(file)
    }

    /// Maps a part of a buffer for GEM_VA; see [`PlacedParts::map`].
    pub(super) fn map(
        &self,
        range: VaRange,
        part: MappedPart,
        flags: u32,
    ) -> Result<Option<ARef<Fence>>> {
        self.placed.map(&self.vm, range, part, flags)
    }

    /// The mappings of `bo` by GEM_VA.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn mappings(&self, bo: &Bo) -> Result<KVVec<VmEntry>> {
        self.placed.of(bo)
    }

    /// Takes the GPU's only reservation of a VMID.
    ///
    /// # Errors
    ///
    /// `ENOENT` while another file has it.
    pub(super) fn reserve_vmid(&self) -> Result {
        let mut reserved = self.reserved.lock();
        if reserved.is_none() {
            *reserved = Some(self.vm.gpu().vmid_reservation.take().ok_or(ENOENT)?);
        }
        Ok(())
    }

    /// Gives the reservation of a VMID back, if the file has it.
    pub(super) fn unreserve_vmid(&self) {
        *self.reserved.lock() = None;
    }

    /// The fences of the last jobs of all rings, as far as they are not done.
    fn busy(&self) -> Result<KVec<ARef<Fence>>> {
        let mut fences = KVec::new();
        for context in self.contexts.all()? {
            context.add_busy(&mut fences)?;
        }
        Ok(fences)
    }

    /// Unmaps the part of `bo` that GEM_VA has mapped at `start`, when the jobs are done that may
    /// use it.
    ///
    /// # Errors
    ///
    /// Those of [`PlacedParts::unmap`]; `ENOMEM`.
    pub(super) fn unmap(self: &Arc<Self>, bo: &ARef<Bo>, start: u64) -> Result {
        if self.placed.unmap(&self.vm, bo, start, self.busy()?)? {
            self.wait_for_jobs();
        }
        Ok(())
    }

    /// Unmaps all that GEM_VA has mapped of `bo`, for which the file has no handle any more; see
    /// [`PlacedParts::unmap_all`].
    pub(super) fn unmap_all(self: &Arc<Self>, bo: &Bo) {
        if self.placed.unmap_all(&self.vm, bo, || self.busy()) {
            self.wait_for_jobs();
        }
    }

    /// Unmaps in the background what has to wait for jobs.
    fn wait_for_jobs(self: &Arc<Self>) {
        // If it is pending already, it will see the new one, too.
        let _ = workqueue::patient().enqueue(self.clone());
    }

    /// From now on the file's buffers in VRAM may be moved out for others.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the device goes; `ENOMEM`.
    pub(crate) fn join_evictor(&self) -> Result {
        let mut membership = self.membership.lock();
        if membership.is_none() {
            *membership = Some(self.vm.gpu().evictor.join(&self.vm)?);
        }
        Ok(())
    }

    /// Makes a line of jobs in the address space.
    ///
    /// # Errors
    ///
    /// `EBUSY` while a process takes the address space; those of [`JobEngine::open`] and of
    /// [`JobClient::line`].
    ///
    /// [`JobEngine::open`]: crate::mem::job_engine::JobEngine::open
    fn job_line(&self) -> Result<Arc<dyn JobLine>> {
        let mut jobs = self.jobs.lock();
        let client = match &*jobs {
            Some(client) => client.clone(),
            None => {
                // A process that has just taken it is about to give it its PASID.
                if self.owned.load(Relaxed) && self.vm.group().lease().is_none() {
                    return Err(EBUSY);
                }
                jobs.insert(self.vm.gpu().job_engine()?.open(&self.vm)?)
                    .clone()
            }
        };
        drop(jobs);
        client.line()
    }

    /// A ring of `context`; see [`RenderContext::ring`].
    pub(super) fn ring(
        &self,
        context: &RenderContext,
        place: (u32, u32, u32),
    ) -> Result<Arc<ContextRing>> {
        context.ring(place, || self.job_line())
    }

    /// The context of this number.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown one.
    pub(super) fn context(&self, number: u32) -> Result<Arc<RenderContext>> {
        self.contexts.get(number).ok_or(EINVAL)
    }

    /// The fence of job `number` of a ring of context `context`; `None` if it was done long ago.
    ///
    /// # Errors
    ///
    /// Those of [`Self::context`], [`RenderContext::ring`] and [`ContextRing::fence`].
    pub(super) fn job_fence(
        &self,
        context: u32,
        ring: (u32, u32, u32),
        number: u64,
    ) -> Result<Option<ARef<Fence>>> {
        let context = self.context(context)?;
        self.ring(&context, ring)?.fence(number)
    }

    /// Stops all jobs, before the buffers that they use are unmapped. No call is under way, and
    /// none follows. Bounded; sleeps.
    pub(super) fn stop_jobs(&self) {
        // First all of them: a ring waits for the jobs that its own jobs wait for.
        self.contexts.each(|context| context.cancel());
        self.contexts.clear();
        let jobs = self.jobs.lock().take();
        drop(jobs);
    }

    /// The contexts.
    pub(super) fn contexts(&self) -> &FileObjects<RenderContext> {
        &self.contexts
    }

    /// The lists of buffers.
    pub(super) fn bo_lists(&self) -> &FileObjects<BoList> {
        &self.bo_lists
    }

    /// The address space.
    pub(crate) fn vm(&self) -> &Arc<Vm> {
        &self.vm
    }

    /// Takes the address space for a process.
    ///
    /// # Errors
    ///
    /// `EBUSY` while another process has it, and once jobs run in it under another PASID.
    pub(crate) fn own(self: &Arc<Self>) -> Result<VmOwner> {
        let jobs = self.jobs.lock();
        if jobs.is_some() {
            return Err(EBUSY);
        }
        // Relaxed: ownership guards no data, since the address space has a lock.
        self.owned
            .cmpxchg(false, true, Relaxed)
            .map_err(|_| EBUSY)?;
        Ok(VmOwner(self.clone()))
    }
}

#[pinned_drop]
impl PinnedDrop for RenderFile {
    fn drop(self: Pin<&mut Self>) {
        self.vm.retire();
    }
}

impl Drop for VmOwner {
    fn drop(&mut self) {
        self.0.owned.store(false, Relaxed);
    }
}
