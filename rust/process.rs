// SPDX-License-Identifier: GPL-2.0
//! Processes: the state of one address space on each GPU, from the first open of /dev/kfd to the
//! last close or the end of the address space, whichever is first. An address space may have
//! further, secondary processes (CREATE_PROCESS), each of one open file.

mod by_pasid;
pub(crate) mod context;
pub(crate) mod criu;
pub(crate) mod debug;
pub(crate) mod events;
pub(crate) mod exceptions;
pub(crate) mod gpu_names;
pub(crate) mod memory;
mod queues;
mod registers;
pub(crate) mod svm;
pub(crate) mod sysfs;
pub(crate) mod table;

use hw::doorbell::DoorbellSlot;
use hw::exceptions::ExceptionSet;
use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::sync::atomic::AtomicFlag;
use kernel::sync::{Arc, Mutex, SpinLock};
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork};

use crate::gpu::Gpu;
use crate::kern::drm::file::DrmFileRef;
use crate::kern::killable::KillableMutex;
use crate::kern::mm_exit::{AddressSpace, MmExitSubscription};
use crate::kern::task::TaskName;
use crate::kern::user_range;
use crate::mem::pasid::Pasid;
use crate::queue;
use crate::queue::request::{CreateQueue, PreparedQueue, QueueOwner, UpdateQueue, UserQueue};
use crate::render::file::RenderFile;
use context::GpuContext;
use criu::ProcessPause;
use events::{ConsumedEvents, ProcessEvents, WaitItems};
use exceptions::ProcessExceptions;
use gpu_names::GpuNames;
use queues::{ProcessQueues, QueueEntry};
use svm::{ClosingGpus, Svm};
use sysfs::ProcessFolder;
use table::{ProcessKey, ProcessTable};

/// A process. Locks, outermost first: `adding`, `life` (while its GPUs are taken from it), `pause`,
/// `creating`, `queues`, a context's memory, the mmap lock, `contexts`, a context's doorbells.
#[pin_data]
pub(crate) struct Process {
    key: ProcessKey,
    space: AddressSpace,
    pid: i32,
    pasid: Arc<Pasid>,
    events: Arc<ProcessEvents>,
    svm: Arc<Svm>,
    exceptions: Arc<ProcessExceptions>,
    /// The names by which it knows GPUs, where those are not their ids.
    gpu_names: GpuNames,
    /// It has debugged another process.
    has_debugged: AtomicFlag,
    /// Held while its debugger changes something of it; outside `creating`.
    #[pin]
    debugging: KillableMutex<()>,
    /// Why its queues are kept off the hardware, while it is saved or restored. Held while queues
    /// leave the hardware.
    #[pin]
    pause: KillableMutex<ProcessPause>,
    /// Of a primary process: held while a secondary one is created, which may have to wait for
    /// memory.
    #[pin]
    adding: Mutex<()>,
    /// Held while a queue is created, which may have to wait for memory of the process.
    #[pin]
    creating: Mutex<()>,
    /// No other wait happens under this lock.
    #[pin]
    queues: Mutex<ProcessQueues>,
    #[pin]
    contexts: Mutex<GpuContexts>,
    /// Its folder in sysfs, until the process has ended.
    #[pin]
    folder: SpinLock<Option<Arc<ProcessFolder>>>,
    #[pin]
    life: Mutex<Option<MmExitSubscription<ProcessTable>>>,
    /// The work item that ends the process.
    #[pin]
    ending: DelayedWork<Self>,
    table: Arc<ProcessTable>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Process { self.ending }
}

/// A created queue, as its process names it.
pub(crate) struct CreatedQueue {
    /// Its id.
    pub(crate) id: u32,
    /// Its doorbell in the process's slice.
    pub(crate) doorbell: DoorbellSlot,
}

impl Process {
    /// Process `pid`, of address space `space`, with no state on any GPU, for `table`, in which it
    /// will be `key`. The primary process has the subscription to the end of the address space.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn new(
        table: &Arc<ProcessTable>,
        key: ProcessKey,
        pid: i32,
        space: AddressSpace,
        pasid: Arc<Pasid>,
        subscription: Option<MmExitSubscription<ProcessTable>>,
    ) -> Result<Arc<Self>> {
        let events = ProcessEvents::new()?;
        let svm = Svm::new(&space, pid, pasid.get())?;
        let exceptions = ProcessExceptions::new(&space, &events)?;
        Arc::pin_init(
            pin_init!(Self {
                key,
                space,
                pid,
                pasid,
                events,
                svm,
                exceptions,
                gpu_names: GpuNames::new(),
                has_debugged: AtomicFlag::new(false),
                debugging <- KillableMutex::new(
                    (),
                    c"Process::debugging",
                    kernel::static_lock_class!()
                ),
                pause <- KillableMutex::new(
                    ProcessPause::None,
                    c"Process::pause",
                    kernel::static_lock_class!()
                ),
                adding <- kernel::new_mutex!((), "Process::adding"),
                creating <- kernel::new_mutex!((), "Process::creating"),
                queues <- kernel::new_mutex!(ProcessQueues::new(), "Process::queues"),
                contexts <- kernel::new_mutex!(GpuContexts::default(), "Process::contexts"),
                folder <- kernel::new_spinlock!(None, "Process::folder"),
                life <- kernel::new_mutex!(subscription, "Process::life"),
                ending <- new_delayed_work!("Process::ending"),
                table: table.clone(),
            }),
            GFP_KERNEL,
        )
    }

    /// The address space.
    pub(crate) fn space(&self) -> &AddressSpace {
        &self.space
    }

    /// The process's number in the initial PID namespace.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether it is the primary process of its address space, and not one of CREATE_PROCESS.
    pub(crate) fn is_primary(&self) -> bool {
        self.key.is_primary()
    }

    /// Its PASID.
    pub(crate) fn pasid(&self) -> u16 {
        self.pasid.get()
    }

    /// Whether the caller is a thread of the process. A forked child is not, even while it shares
    /// the address space.
    pub(crate) fn is_current(&self) -> bool {
        self.space.is_current() && kernel::current!().group_leader().pid() == self.pid
    }

    /// [`user_range::with_lock_soon`] for its memory.
    pub(crate) fn with_lock_soon<T>(&self, act: impl FnMut() -> Result<T>) -> Result<T> {
        user_range::with_lock_soon(&self.space, act)
    }

    /// The events.
    pub(crate) fn events(&self) -> &Arc<ProcessEvents> {
        &self.events
    }

    /// Waits for events: see [`ProcessEvents::wait`].
    pub(crate) fn wait(
        &self,
        items: WaitItems,
        all: bool,
        timeout: &mut Option<u32>,
    ) -> Result<Option<ConsumedEvents>> {
        self.events
            .wait(items, all, timeout, || self.poll_interrupts())
    }

    /// Handles interrupts that one of its GPUs has raised and that were lost on the way.
    fn poll_interrupts(&self) {
        for index in 0.. {
            let gpu = match self.contexts.lock().list.get(index) {
                Some(context) => context.gpu().clone(),
                None => return,
            };
            gpu.hw.ih.poll();
        }
    }

    /// The context on the GPU `id`, if there is one.
    pub(crate) fn context(&self, id: GpuId) -> Option<Arc<GpuContext>> {
        self.with_context(id, Arc::clone)
    }

    /// Runs `f` on the context on the GPU `id`, if there is one. mmap waits meanwhile, so `f` must
    /// not wait.
    pub(crate) fn with_context<T>(
        &self,
        id: GpuId,
        f: impl FnOnce(&Arc<GpuContext>) -> T,
    ) -> Option<T> {
        let contexts = self.contexts.lock();
        let context = contexts
            .list
            .iter()
            .find(|context| context.gpu().hw.id == id);
        context.map(f)
    }

    /// The context on `gpu`, created by the first call. The caller ensures that the GPU is not
    /// removed meanwhile.
    ///
    /// # Errors
    ///
    /// `ENODEV` at the process's end; `ENOMEM`.
    pub(crate) fn context_on(&self, gpu: &Arc<Gpu>) -> Result<Arc<GpuContext>> {
        let mut contexts = self.contexts.lock();
        if contexts.ended {
            return Err(ENODEV);
        }
        if let Some(context) = contexts.list.iter().find(|context| context.is_on(gpu)) {
            return Ok(context.clone());
        }
        let debug = (self.shows_debugger(), self.exceptions.wave_controls());
        let context = GpuContext::new(gpu, self.pid, &self.pasid, &self.space, debug)?;
        contexts.list.push(context.clone(), GFP_KERNEL)?;
        Ok(context)
    }

    /// Creates a queue.
    ///
    /// # Errors
    ///
    /// `ENODEV` without an address space or at the end; those of [`queue::create`].
    pub(crate) fn create_queue(
        &self,
        context: &Arc<GpuContext>,
        create: CreateQueue,
    ) -> Result<CreatedQueue> {
        // Outside the lock, since the end of the process waits for that.
        let create = PreparedQueue::new(&context.vm()?, &self.space, create, None)?;
        self.add_queue(context, &create, None)
    }

    /// Adds the queue of `create`, under the number that is `wanted` or a free one.
    ///
    /// # Errors
    ///
    /// Those of [`Process::create_queue`]; for a number `EINVAL` and `ENOSPC`.
    fn add_queue(
        &self,
        context: &Arc<GpuContext>,
        create: &PreparedQueue,
        wanted: Option<u32>,
    ) -> Result<CreatedQueue> {
        let _creating = self.creating.lock();
        self.svm.expect_queue(self)?;
        let (vm, resources) = (context.vm()?, context.queue_resources()?);
        let id = match wanted {
            Some(id) => self.queues.lock().reserve_at(id).map(|()| id)?,
            None => self.queues.lock().reserve()?,
        };
        let owner = QueueOwner {
            pid: self.pid,
            name: TaskName::of_current(),
            pasid: self.pasid.get(),
            queue: id,
        };
        let queue = queue::create(
            &context.gpu().queues,
            &vm,
            || context.trap(),
            &resources,
            owner,
            create,
        );
        let queue = queue.and_then(|queue| {
            let folder = self.folder().map(|folder| {
                let (kind, gpu) = (
                    create.served_as(&context.gpu().hw.asic.sdma),
                    context.gpu().hw.id,
                );
                folder.add_queue(id, kind, gpu, create.size.bytes())
            });
            let gpu = context.gpu().hw.id;
            Ok(QueueEntry {
                listing: self.exceptions.list(gpu, id, create, queue.doorbell())?,
                queue,
                context: context.clone(),
                create: **create,
                folder: folder.transpose()?,
            })
        });
        let doorbell = self.queues.lock().complete(id, queue)?;
        self.exceptions.notify(ExceptionSet::QUEUE_NEW);
        Ok(CreatedQueue { id, doorbell })
    }

    /// The folder in sysfs, if there is one.
    fn folder(&self) -> Option<Arc<ProcessFolder>> {
        self.folder.lock().clone()
    }

    /// ACQUIRE_VM: see [`GpuContext::acquire`].
    pub(crate) fn acquire(&self, context: &GpuContext, file: DrmFileRef<RenderFile>) -> Result {
        context.acquire(file, self.folder())
    }

    /// Updates queue `id`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown queue; those of [`UserQueue::update`].
    pub(crate) fn update_queue(&self, id: u32, update: &UpdateQueue) -> Result {
        let (queue, _) = self.queues.lock().get(id)?;
        queue.update(update)?;
        if let Some((ring, size)) = update.ring {
            self.exceptions.moved(id, ring, size.bytes());
        }
        self.queues.lock().updated(id, &queue, update);
        Ok(())
    }

    /// Runs `f` on queue `id`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown queue.
    pub(crate) fn with_queue<T>(
        &self,
        id: u32,
        f: impl FnOnce(&dyn UserQueue) -> Result<T>,
    ) -> Result<T> {
        // Outside the lock: only calls for this queue wait for it.
        let (queue, _) = self.queues.lock().get(id)?;
        f(&*queue)
    }

    /// Destroys queue `id`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown queue; `EBUSY` if another thread waits to destroy it; `ERESTARTSYS`
    /// for a signal while the debugger keeps it suspended; `ETIME`, as in amdkfd, when the hardware
    /// does not let go of it. The queue is gone even then, but its memory stays in use.
    pub(crate) fn destroy_queue(&self, id: u32) -> Result {
        self.exceptions.wait_resumed(id)?;
        let (queue, context, listing) = self.queues.lock().retire(id)?;
        if let Some(listing) = listing {
            // Before another queue can have its doorbell.
            listing.withdraw();
        }
        // Errors of the queue are reported while it exists, and are not attributed to the next
        // queue.
        context.gpu().hw.ih.wait_drained();
        let destroyed = queue.destroy();
        context.gpu().hw.ih.wait_drained();
        self.svm.forget_queue(&context.gpu().memory);
        let entry = self.queues.lock().remove(id, &queue)?;
        drop(entry);
        self.queues.lock().release(id);
        self.exceptions
            .raise_of_device(context.gpu().hw.id, ExceptionSet::QUEUE_DELETED);
        destroyed
    }

    /// The caller exits. If it is this process, waits for its memory end: its mappings keep the
    /// file open as long as its memory is there, and so would such a wait.
    pub(crate) fn exiting(&self) {
        if kernel::current!().group_leader().pid() == self.pid {
            self.exceptions.end();
        }
    }

    /// Whether page faults of its queues are retried until the page is mapped (XNACK).
    pub(crate) fn retries(&self) -> bool {
        self.svm.retries()
    }

    /// Sets whether page faults of its queues are retried.
    ///
    /// # Errors
    ///
    /// `EBUSY` while there are queues on any GPU; `EINTR` when the caller is killed; `ENODEV` at
    /// the process's end; `ENOMEM`.
    pub(crate) fn set_retries(&self, on: bool) -> Result {
        let _creating = self.creating.lock();
        if !self.queues.lock().is_empty() {
            return Err(EBUSY);
        }
        self.svm.set_retries(self, on)
    }

    /// Whether it has a context on `gpu`, or is just losing it.
    fn uses(&self, gpu: &Arc<Gpu>) -> bool {
        self.contexts
            .lock()
            .list
            .iter()
            .any(|context| context.is_on(gpu))
    }

    /// Removes all state on `gpu`, which is about to go.
    fn remove_gpu(&self, gpu: &Arc<Gpu>) {
        let _life = self.life.lock();
        self.svm.set_closing(ClosingGpus::One(gpu.hw.id));
        self.end_contexts(|context| context.is_on(gpu));
        self.svm.set_closing(ClosingGpus::None);
    }

    /// Removes all state of the process. Called once.
    fn end(&self) {
        let mut life = self.life.lock();
        self.contexts.lock().ended = true;
        self.exceptions.end();
        let debugger = self.exceptions.end_debugging();
        drop(debugger);
        self.svm.set_closing(ClosingGpus::All);
        self.end_contexts(|_| true);
        let pause = core::mem::replace(&mut *self.pause.lock(), ProcessPause::None);
        drop(pause);
        self.svm.end();
        let folder = self.folder.lock().take();
        drop(folder);
        self.events.end();
        drop(life.take());
    }

    /// Destroys the queues on `context`. Once the queues that are being created have appeared, no
    /// further ones are added.
    fn destroy_on(&self, context: &Arc<GpuContext>) {
        drop(self.creating.lock());
        context.gpu().queues.faults.make();
        context.gpu().queues.compute.dismiss(self.pasid.get());
        loop {
            let taken = self.queues.lock().remove_on(context);
            let Some((id, entry)) = taken else { break };
            // A queue that cannot be taken off the hardware was reported.
            let _ = entry.queue.destroy();
            drop(entry);
            self.queues.lock().release(id);
        }
        // The queue's number may be reused by another process.
        context.gpu().hw.ih.wait_drained();
    }

    /// Ends the contexts that `which` selects. They stay in the list meanwhile, but nothing can be
    /// added to them. The caller holds `life`.
    fn end_contexts(&self, which: impl Fn(&Arc<GpuContext>) -> bool) {
        self.for_each_context(|context| {
            if which(context) {
                context.close();
                self.destroy_on(context);
                self.svm.remove_gpu(&context.gpu().memory);
            }
        });
        // Buffers of any GPU may be mapped on any other.
        self.for_each_context(|context| {
            if which(context) {
                self.for_each_context(|other| other.unmap_on(context));
            }
        });
        loop {
            let found = self
                .contexts
                .lock()
                .list
                .iter()
                .find(|&context| which(context))
                .cloned();
            let Some(context) = found else { return };
            context.release();
            self.contexts
                .lock()
                .list
                .retain(|other| !Arc::ptr_eq(other, &context));
        }
    }

    /// Calls `f` with each context. When a context goes meanwhile, another may be skipped: see
    /// `life`.
    fn for_each_context(&self, mut f: impl FnMut(&Arc<GpuContext>)) {
        for index in 0.. {
            let context = self.contexts.lock().list.get(index).cloned();
            let Some(context) = context else { return };
            f(&context);
        }
    }
}

/// The contexts of a process.
#[derive(Default)]
struct GpuContexts {
    list: KVec<Arc<GpuContext>>,
    ended: bool,
}
