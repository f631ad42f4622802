// SPDX-License-Identifier: GPL-2.0
//! The jobs of the render node: what they have in common in an address space, and all lines of them
//! on a GPU, which end with it.

use super::gpu::QueueGpu;
use super::request::QueueOwner;
use super::resources::QueueResources;
use super::sdma::job_line::JobQueue;
use super::sdma::slots::SdmaSlots;
use super::GpuQueues;
use crate::kern::fence::Fence;
use crate::kern::sched::OrderedWorkQueue;
use crate::kern::task::TaskName;
use crate::mem::job_engine::{JobClient, JobEngine, JobLine, JobWork};
use crate::mem::pasid::{Pasid, PasidPool};
use crate::mem::vm::Vm;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::str::CString;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, Mutex};

/// Executes the jobs of the render node of a GPU.
#[pin_data]
pub(super) struct RenderJobs {
    /// Until the GPU goes: memory has a reference to this object.
    #[pin]
    parts: Mutex<Option<JobParts>>,
    lines: Arc<LineList>,
}

/// The parts of a GPU that execute jobs.
#[derive(Clone)]
struct JobParts {
    queues: Arc<GpuQueues>,
    pasids: Arc<PasidPool>,
}

/// The lines of a GPU.
#[pin_data]
struct LineList {
    /// `Err` once the GPU goes.
    #[pin]
    lines: Mutex<Result<RBTree<usize, Arc<JobQueue>>, LinesClosed>>,
}

/// No line is made any more.
struct LinesClosed;

fn key(queue: &Arc<JobQueue>) -> usize {
    Arc::as_ptr(queue) as usize
}

impl LineList {
    /// Adds a line, which leaves by [`LineList::remove`].
    ///
    /// # Errors
    ///
    /// `ENODEV` when the GPU goes; `ENOMEM`.
    fn add(&self, queue: &Arc<JobQueue>) -> Result {
        let node = RBTreeNode::new(key(queue), queue.clone(), GFP_KERNEL_ACCOUNT)?;
        let mut lines = self.lines.lock();
        (*lines).as_mut().map_err(|_| ENODEV)?.insert(node);
        Ok(())
    }

    fn remove(&self, queue: &Arc<JobQueue>) {
        let mut lines = self.lines.lock();
        let all = (*lines).as_mut().ok();
        let removed = all.and_then(|lines| lines.remove(&key(queue)));
        drop(lines);
        drop(removed);
    }

    /// Stops all lines. None is added from now on. Bounded; sleeps.
    fn close(&self) {
        let lines = core::mem::replace(&mut *self.lines.lock(), Err(LinesClosed));
        if let Ok(lines) = lines {
            // First all of them: a line waits for the jobs that its own jobs wait for.
            lines.values().for_each(|queue| queue.cancel());
            lines.values().for_each(|queue| queue.stop());
            lines.values().for_each(|queue| queue.detach());
        }
    }
}

impl RenderJobs {
    /// No lines yet, and none to come before [`RenderJobs::start`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        let lines = Arc::pin_init(
            pin_init!(LineList {
                lines <- new_mutex!(Ok(RBTree::new()), "LineList::lines"),
            }),
            GFP_KERNEL,
        )?;
        Arc::pin_init(
            pin_init!(Self {
                parts <- new_mutex!(None, "RenderJobs::parts"),
                lines,
            }),
            GFP_KERNEL,
        )
    }

    /// Executes jobs from now on, on `queues`. Address spaces that no process has acquired get one
    /// of `pasids`.
    pub(super) fn start(&self, queues: &Arc<GpuQueues>, pasids: &Arc<PasidPool>) {
        let parts = JobParts {
            queues: queues.clone(),
            pasids: pasids.clone(),
        };
        *self.parts.lock() = Some(parts);
    }

    /// Stops all lines, for good. No call is under way. Bounded; sleeps.
    pub(super) fn close(&self) {
        self.lines.close();
        let parts = self.parts.lock().take();
        if let Some(parts) = parts {
            parts.queues.slots.wait_settled(None);
        }
    }
}

impl JobEngine for RenderJobs {
    fn open(&self, vm: &Arc<Vm>) -> Result<Arc<dyn JobClient>> {
        let parts = self.parts.lock().clone().ok_or(ENODEV)?;
        let client = RenderClient::new(&parts, &self.lines, vm)?;
        Ok(Arc::new(LineMaker(client), GFP_KERNEL_ACCOUNT)?)
    }
}

/// What the lines in an address space have in common.
struct RenderClient {
    gpu: Arc<QueueGpu>,
    slots: Arc<SdmaSlots>,
    lines: Arc<LineList>,
    vm: Arc<Vm>,
    pid: i32,
    name: TaskName,
    resources: Arc<QueueResources>,
    workers: Arc<OrderedWorkQueue>,
    /// The number of the next line, for messages.
    next: Atomic<u32>,
    // Last: nothing runs under it any more.
    pasid: Arc<Pasid>,
}

impl RenderClient {
    fn new(parts: &JobParts, lines: &Arc<LineList>, vm: &Arc<Vm>) -> Result<Arc<Self>> {
        // The VMID of an address space is one PASID's.
        let (pid, pasid) = match vm.group().lease() {
            Some(pasid) => (vm.group().pid() as i32, pasid),
            None => {
                let pasid = Arc::new(parts.pasids.lease()?, GFP_KERNEL_ACCOUNT)?;
                (kernel::current!().group_leader().pid(), pasid)
            }
        };
        let queues = &parts.queues;
        let resources = queues.open(pid, pasid.get())?;
        // The ring of a line that has gone would stay the device's beyond an unbind.
        resources.rings.close();
        let client = Self {
            gpu: queues.gpu.clone(),
            slots: queues.slots.clone(),
            lines: lines.clone(),
            vm: vm.clone(),
            pid,
            name: TaskName::of_current(),
            resources,
            workers: OrderedWorkQueue::new(&CString::try_from_fmt(fmt!("rkfd_cs.{pid}"))?)?,
            next: Atomic::new(0),
            pasid,
        };
        Ok(Arc::new(client, GFP_KERNEL_ACCOUNT)?)
    }
}

impl Drop for RenderClient {
    fn drop(&mut self) {
        // The engines' work items must not drop the last reference to the address space.
        self.slots.wait_settled(Some(self.pasid.get()));
        self.resources.close();
    }
}

/// Makes lines of a client.
struct LineMaker(Arc<RenderClient>);

impl JobClient for LineMaker {
    fn line(&self) -> Result<Arc<dyn JobLine>> {
        let client = &self.0;
        let owner = QueueOwner {
            pid: client.pid,
            name: client.name,
            pasid: client.pasid.get(),
            queue: client.next.fetch_add(1, Relaxed),
        };
        let queue = JobQueue::new(
            &client.gpu,
            &client.slots,
            &client.vm,
            &client.resources,
            owner,
            &client.workers,
        )?;
        client.lines.add(&queue)?;
        let line = ListedLine {
            queue,
            client: client.clone(),
        };
        Ok(Arc::new(line, GFP_KERNEL_ACCOUNT)?)
    }
}

/// A line that is in the list of its GPU's.
struct ListedLine {
    queue: Arc<JobQueue>,
    // Goes after the queue.
    client: Arc<RenderClient>,
}

impl JobLine for ListedLine {
    fn submit(&self, work: JobWork) -> Result<ARef<Fence>> {
        self.queue.submit(work)
    }

    fn error(&self) -> Option<Error> {
        self.queue.error()
    }

    fn cancel(&self) {
        self.queue.cancel();
    }
}

impl Drop for ListedLine {
    fn drop(&mut self) {
        self.queue.stop();
        self.client.lines.remove(&self.queue);
    }
}
