// SPDX-License-Identifier: GPL-2.0
//! Exceptions of a process's queues, as its runtime learns of them (`RUNTIME_ENABLE`): the header
//! of the queue's save area names a word, to which the exceptions are added, and an event, which is
//! set. Without such a runtime, interrupts of waves only set events. A debugger of the process
//! (`DBG_TRAP`) comes before its runtime.

mod listed;
mod runtime;
pub(crate) mod session;
mod suspended;

use hw::doorbell::DoorbellSlot;
use hw::exceptions::{ExceptionSet, QueueExceptions};
use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::{new_condvar, new_spinlock, Arc, CondVar, SpinLock};
use kernel::workqueue::{impl_has_work, new_work, Work, WorkItem};

use super::events::ProcessEvents;
use crate::kern::killable::KillableMutex;
use crate::kern::mm_exit::AddressSpace;
use crate::kern::task::{self, CancelScope};
use crate::kern::{uaccess_ext, uapi, workqueue};
use crate::queue::request::CreateQueue;
pub(crate) use listed::ListedQueue;
use runtime::RuntimeWait;
pub(crate) use runtime::{RuntimeCall, RuntimeInfo, RuntimeState};
use session::DebugSession;
pub(crate) use suspended::Suspension;

/// The exceptions of a process's queues. A work item tells the runtime of them, since the process
/// may have memory that it has to be waited for.
#[pin_data]
pub(crate) struct ProcessExceptions {
    space: AddressSpace,
    events: Arc<ProcessEvents>,
    #[pin]
    state: SpinLock<ExceptionState>,
    /// Signalled when a debugger has answered, has resumed queues or has gone.
    #[pin]
    changed: CondVar,
    /// Held while the runtime is told of one queue's exceptions, which a program may prolong for
    /// ever. A thread that destroys a queue waits for it, until it is killed, with no other lock.
    #[pin]
    telling: KillableMutex<()>,
    #[pin]
    scope: CancelScope,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for ProcessExceptions { self.work }
}

/// How interrupts name a queue of a process.
type QueuePlace = (GpuId, DoorbellSlot);

/// The queues, the runtime and the debugger. Nothing is allocated or freed under its lock.
struct ExceptionState {
    queues: RBTree<QueuePlace, ListedQueue>,
    /// How many queues there have been.
    created: u64,
    runtime: RuntimeInfo,
    waits: RuntimeWait,
    debugger: Option<DebugSession>,
    /// The process exits, or has ended: there is no debugger any more.
    ended: bool,
}

impl ExceptionState {
    /// The queue `id`.
    fn queue(&mut self, id: u32) -> Option<&mut ListedQueue> {
        self.queues.values_mut().find(|queue| queue.id == id)
    }

    /// Notifies the debugger, if it wants to know of any of `raised`; returns whether it does.
    fn notify(&self, raised: ExceptionSet) -> bool {
        let debugger = self.debugger.as_ref();
        debugger.is_some_and(|debugger| debugger.notify(raised))
    }
}

impl ProcessExceptions {
    /// No exceptions yet, of the process that has `space` and `events`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(space: &AddressSpace, events: &Arc<ProcessEvents>) -> Result<Arc<Self>> {
        let state = ExceptionState {
            queues: RBTree::new(),
            created: 0,
            runtime: RuntimeInfo::default(),
            waits: RuntimeWait::default(),
            debugger: None,
            ended: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                space: space.clone(),
                events: events.clone(),
                state <- new_spinlock!(state, "ProcessExceptions::state"),
                changed <- new_condvar!("ProcessExceptions::changed"),
                telling <- KillableMutex::new(
                    (),
                    c"ProcessExceptions::telling",
                    kernel::static_lock_class!()
                ),
                scope <- CancelScope::new(),
                work <- new_work!("ProcessExceptions::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Has runtime and debugger told of the exceptions of the queue `id` that was just created on
    /// `gpu` with this doorbell, as long as the listing exists. The caller holds
    /// `Process::creating`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn list(
        self: &Arc<Self>,
        gpu: GpuId,
        id: u32,
        create: &CreateQueue,
        doorbell: DoorbellSlot,
    ) -> Result<Option<QueueListing>> {
        let place = (gpu, doorbell);
        let node = RBTreeNode::new(place, ListedQueue::new(gpu, id, create), GFP_KERNEL_ACCOUNT)?;
        let mut state = self.state.lock();
        state.created += 1;
        let order = state.created;
        // No other queue has this doorbell.
        let _ = state.queues.insert(node);
        if let Some(queue) = state.queues.get_mut(&place) {
            queue.order = order;
        }
        Ok(Some(QueueListing {
            exceptions: self.clone(),
            place,
        }))
    }

    /// The ring of queue `id` has `size` bytes at `ring` now.
    pub(super) fn moved(&self, id: u32, ring: u64, size: u64) {
        if let Some(queue) = self.state.lock().queue(id) {
            queue.ring = ring;
            queue.ring_size = size;
        }
    }

    /// A queue on `gpu` raised `exceptions`. Returns whether debugger or runtime will be told.
    /// Allocates nothing, waits for nothing.
    pub(super) fn raise(self: &Arc<Self>, gpu: GpuId, exceptions: &QueueExceptions) -> bool {
        let mut state = self.state.lock();
        let state = &mut *state;
        let raised = exceptions.raised;
        let queue = state.queues.get_mut(&(gpu, exceptions.doorbell));
        let mut queue = queue.filter(|queue| queue.has_waves());
        if let Some(debugger) = &state.debugger {
            if let Some(queue) = &mut queue {
                queue.status |= raised;
            }
            if debugger.notify(raised) {
                return true;
            }
        }
        let Some(queue) = queue.filter(|_| state.runtime.state == RuntimeState::Enabled) else {
            return false;
        };
        queue.raised |= raised;
        // If it is queued already, it will find this, too.
        let _ = workqueue::patient().enqueue(self.clone());
        true
    }

    /// Tells the runtime of the exceptions `raised` of queue `id`, as if the queue had raised them
    /// just now. Does nothing for an unknown queue.
    pub(super) fn pass_on(self: &Arc<Self>, id: u32, raised: ExceptionSet) {
        let mut state = self.state.lock();
        if let Some(queue) = state.queue(id).filter(|queue| queue.has_waves()) {
            queue.raised |= raised;
            let _ = workqueue::patient().enqueue(self.clone());
        }
    }

    /// Tells the runtime of the exceptions of one queue; false if there are none.
    fn tell_next(&self) -> bool {
        let _telling = self.telling.lock();
        let next = {
            let mut state = self.state.lock();
            let mut queues = state.queues.values_mut();
            let raised = queues.find(|queue| !queue.raised.is_empty());
            raised.map(|queue| (queue.save, core::mem::take(&mut queue.raised)))
        };
        let Some((save, raised)) = next else {
            return false;
        };
        // A process that has taken its memory away is not told.
        let _ = self.space.with_user_memory(|| self.tell(save, raised));
        true
    }

    /// Tells the runtime of the exceptions `raised` of the queue whose save area is at `save`.
    /// Called with the memory of the process.
    ///
    /// # Errors
    ///
    /// `EFAULT` for memory that cannot be accessed; `EINVAL` for an event that the process may not
    /// set. As in amdkfd, the event is set even if the word cannot be written.
    fn tell(&self, save: u64, raised: ExceptionSet) -> Result {
        let header: uapi::SaveAreaHeader = uaccess_ext::read_element(save, 0)?;
        let word = header.err_payload_addr;
        let written = uaccess_ext::read_element::<u64>(word, 0)
            .and_then(|before| uaccess_ext::write_element(word, 0, &(before | raised.bits())));
        self.events.set(header.err_event_id)?;
        written
    }

    /// The debugger and the runtime learn nothing any more: the process exits, or has ended. The
    /// work item may continue for a moment, or as long as a program makes it wait where it cannot
    /// be killed; nothing depends on it.
    pub(super) fn end(&self) {
        self.scope.kill();
    }
}

impl WorkItem for ProcessExceptions {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.scope
            .run(|| while !task::is_killed() && this.tell_next() {});
    }
}

/// That runtime and debugger are told of a queue's exceptions, until this is dropped.
pub(super) struct QueueListing {
    exceptions: Arc<ProcessExceptions>,
    place: QueuePlace,
}

impl QueueListing {
    /// Ends it for a queue that its process destroys, and then may use its memory for something
    /// else. If the runtime is just being told of an exception, this waits until it has been or the
    /// caller is killed. The caller holds no lock.
    pub(super) fn withdraw(self) {
        let exceptions = self.exceptions.clone();
        drop(self);
        // The memory of a process that is killed has no other use.
        let _ = exceptions.telling.lock_killable();
    }
}

impl Drop for QueueListing {
    fn drop(&mut self) {
        let gone = self.exceptions.state.lock().queues.remove_node(&self.place);
        // Freed outside the lock.
        drop(gone);
    }
}
