// SPDX-License-Identifier: GPL-2.0
//! Exceptions of a process's queues, as its runtime learns of them (`RUNTIME_ENABLE`): the header
//! of the queue's save area names a word, to which the exceptions are added, and an event, which is
//! set. Without such a runtime, interrupts of waves only set events.

use hw::doorbell::DoorbellSlot;
use hw::exceptions::{ExceptionSet, QueueExceptions};
use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::atomic::{Acquire, AtomicFlag, Release};
use kernel::sync::{new_spinlock, Arc, SpinLock};
use kernel::workqueue::{impl_has_work, new_work, Work, WorkItem};

use super::events::ProcessEvents;
use crate::kern::killable::KillableMutex;
use crate::kern::mm_exit::AddressSpace;
use crate::kern::task::{self, CancelScope};
use crate::kern::{uaccess_ext, uapi, workqueue};
use crate::queue::request::CreateQueue;

/// The exceptions of a process's queues. A work item tells the runtime of them, since the process
/// may have memory that it has to be waited for.
#[pin_data]
pub(super) struct ProcessExceptions {
    space: AddressSpace,
    events: Arc<ProcessEvents>,
    /// Whether the runtime wants to be told. It changes with `Process::creating` held.
    wanted: AtomicFlag,
    /// The queues that were created while it wanted to be.
    #[pin]
    queues: SpinLock<RBTree<QueuePlace, ListedQueue>>,
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

/// A compute queue whose exceptions the runtime is told of.
struct ListedQueue {
    /// The address of its save area.
    save: u64,
    /// What the runtime has not been told of yet.
    raised: ExceptionSet,
}

impl ProcessExceptions {
    /// No exceptions yet, of the process that has `space` and `events`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(space: &AddressSpace, events: &Arc<ProcessEvents>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                space: space.clone(),
                events: events.clone(),
                wanted: AtomicFlag::new(false),
                queues <- new_spinlock!(RBTree::new(), "ProcessExceptions::queues"),
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

    /// Whether the runtime wants to be told.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Acquire)
    }

    /// Sets whether the runtime wants to be told. The caller holds `Process::creating`.
    pub(super) fn set_wanted(&self, wanted: bool) {
        self.wanted.store(wanted, Release);
    }

    /// Has the runtime told of the exceptions of the queue that was just created on `gpu` with this
    /// doorbell, as long as the listing exists. `None` if the runtime does not want to be, and for
    /// an SDMA queue. The caller holds `Process::creating`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn list(
        self: &Arc<Self>,
        gpu: GpuId,
        create: &CreateQueue,
        doorbell: DoorbellSlot,
    ) -> Result<Option<QueueListing>> {
        if create.kind.is_sdma() || !self.is_wanted() {
            return Ok(None);
        }
        let place = (gpu, doorbell);
        let queue = ListedQueue {
            save: create.compute.save,
            raised: ExceptionSet::default(),
        };
        let node = RBTreeNode::new(place, queue, GFP_KERNEL_ACCOUNT)?;
        // No other queue has this doorbell.
        let _ = self.queues.lock().insert(node);
        Ok(Some(QueueListing {
            exceptions: self.clone(),
            place,
        }))
    }

    /// A queue on `gpu` raised `exceptions`. Returns whether the runtime will be told. Allocates
    /// nothing, waits for nothing.
    pub(super) fn raise(self: &Arc<Self>, gpu: GpuId, exceptions: &QueueExceptions) -> bool {
        if !self.is_wanted() {
            return false;
        }
        match self.queues.lock().get_mut(&(gpu, exceptions.doorbell)) {
            Some(queue) => queue.raised |= exceptions.raised,
            None => return false,
        }
        // If it is queued already, it will find this, too.
        let _ = workqueue::patient().enqueue(self.clone());
        true
    }

    /// Tells the runtime of the exceptions of one queue; false if there are none.
    fn tell_next(&self) -> bool {
        let _telling = self.telling.lock();
        let next = {
            let mut queues = self.queues.lock();
            let raised = queues.values_mut().find(|queue| !queue.raised.is_empty());
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

    /// The runtime is told of nothing any more: the process exits, or has ended. The work item may
    /// continue for a moment, or as long as a program makes it wait where it cannot be killed;
    /// nothing depends on it.
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

/// That the runtime is told of a queue's exceptions, until this is dropped.
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
        let gone = self.exceptions.queues.lock().remove_node(&self.place);
        // Freed outside the lock.
        drop(gone);
    }
}
