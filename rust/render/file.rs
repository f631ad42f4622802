// SPDX-License-Identifier: GPL-2.0
//! An open file of a render node: an address space, which one process at a time may acquire through
//! KFD.

use hw::va::VaRange;
use kernel::{
    new_mutex,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

use super::{bo_lists::BoList, contexts::RenderContext, objects::FileObjects, rings::ContextRing};
use crate::{
    kern::fence::Fence,
    mem::{
        bo::Bo,
        evict::EvictMembership,
        job_engine::{JobClient, JobLine},
        vm::{MappedPart, Vm},
    },
};

/// Identifies a part of a buffer that GEM_VA has mapped: the buffer, by its address, and the first
/// GPU address.
type Place = (usize, u64);

/// A part of a buffer that GEM_VA has mapped.
struct PlacedPart {
    range: VaRange,
    _bo: ARef<Bo>,
}

fn place(bo: &Bo, start: u64) -> Place {
    (bo.address(), start)
}

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
    owned: Atomic<bool>,
    /// The mappings of GEM_VA. This lock is outside the VM's.
    #[pin]
    placed: Mutex<RBTree<Place, PlacedPart>>,
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
                vm,
                owned: Atomic::new(false),
                placed <- new_mutex!(RBTree::new(), "RenderFile::placed"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        file.vm.gpu().vms.add(&file.vm)?;
        Ok(file)
    }

    /// Maps a part of a buffer for GEM_VA; see [`Vm::map`].
    pub(super) fn map(&self, range: VaRange, part: MappedPart) -> Result {
        let key = place(&part.bo, range.start());
        let new = PlacedPart {
            range,
            _bo: part.bo.clone(),
        };
        let node = RBTreeNode::new(key, new, GFP_KERNEL_ACCOUNT)?;
        let mut placed = self.placed.lock();
        self.vm.map(range, part)?;
        let was = placed.insert(node);
        drop(placed);
        // `None`: no other mapping was at that address.
        drop(was);
        Ok(())
    }

    /// Unmaps the part of `bo` that GEM_VA has mapped at `start`.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none; `EBUSY` while a queue uses it; see [`Vm::unmap`].
    pub(super) fn unmap(&self, bo: &ARef<Bo>, start: u64) -> Result {
        let key = place(bo, start);
        let mut placed = self.placed.lock();
        let range = placed.get(&key).ok_or(ENOENT)?.range;
        self.vm.unmap(range)?;
        let gone = placed.remove(&key);
        drop(placed);
        // This may drop the buffer too.
        drop(gone);
        Ok(())
    }

    /// Unmaps all that GEM_VA has mapped of `bo`, for which the file has no handle any more. A part
    /// that a queue uses stays until the queue goes.
    pub(super) fn unmap_all(&self, bo: &Bo) {
        loop {
            let mut placed = self.placed.lock();
            let first = place(bo, 0);
            let found = placed.cursor_lower_bound(&first);
            let Some(key) = found
                .map(|at| *at.current().0)
                .filter(|key| key.0 == first.0)
            else {
                return;
            };
            let gone = placed.remove(&key);
            drop(placed);
            if let Some(gone) = gone {
                // After an error the GPU may still use it: it stays as long as the address space.
                let _ = self.vm.abandon(gone.range);
            }
        }
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

    /// The fence of job `number` of a ring of context `context`; `None` if it was done long ago.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown context; those of [`RenderContext::ring`] and of
    /// [`ContextRing::fence`].
    pub(super) fn job_fence(
        &self,
        context: u32,
        ring: (u32, u32, u32),
        number: u64,
    ) -> Result<Option<ARef<Fence>>> {
        let context = self.contexts.get(context).ok_or(EINVAL)?;
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
