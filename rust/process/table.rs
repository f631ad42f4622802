// SPDX-License-Identifier: GPL-2.0
//! The processes that exist, by address space.

use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::{Arc, CondVar, Mutex};
use kernel::time::Jiffies;
use kernel::workqueue::WorkItem;

use super::by_pasid::PasidMap;
use super::events::{EventKind, EventPayload};
use super::sysfs::ProcessesFolder;
use super::Process;
use crate::gpu::Gpu;
use crate::ip::retries::FaultOwner;
use crate::kern::mm_exit::{AddressSpace, MmExitListener, MmExitSubscription};
use crate::kern::named_task::NamedTask;
use crate::kern::task::{TaskIdentity, TaskName};
use crate::kern::{user_range, workqueue};
use crate::mem::pasid::PasidPool;
use crate::queue::interrupts::ProcessSink;

/// All processes. The thread that marks a process as ending also ends it, so that this happens
/// once. A process whose last file was closed is ended by a work item a little later, or before
/// that by its exit or by its next open: the item may have to wait for memory for a worker thread,
/// and an exit gives memory back.
#[pin_data]
pub(crate) struct ProcessTable {
    /// By the address space's id.
    #[pin]
    entries: Mutex<Entries>,
    /// A process has ended, or has completed the open of its first file.
    #[pin]
    changed: CondVar,
    pasids: Arc<PasidPool>,
    by_pasid: Arc<PasidMap>,
    shown: Arc<ProcessesFolder>,
}

type Entries = RBTree<usize, ProcessEntry>;

struct ProcessEntry {
    process: Arc<Process>,
    files: usize,
    stage: ProcessStage,
}

/// A stage in the life of a process.
#[derive(Clone, Copy, PartialEq)]
enum ProcessStage {
    /// A thread opens its first file; other threads that open one wait for that.
    Opening,
    /// It has open files.
    Open,
    /// Its last file was closed: the work item, its exit or its next open ends it, whichever is
    /// first.
    Closed,
    /// A thread ends it.
    Ending,
}

impl ProcessStage {
    /// Whether it has no open files any more.
    fn is_ending(self) -> bool {
        matches!(self, Self::Closed | Self::Ending)
    }
}

/// Time after which a process is ended whose last file was closed, jiffies. The thread that closes
/// it goes on meanwhile, also where it shares the processor with the work item.
const CLOSED_DELAY: Jiffies = 1;

/// The process whose entry is opened: the caller, or the one that it debugs.
pub(crate) struct EntryOwner {
    space: AddressSpace,
    identity: TaskIdentity,
}

impl EntryOwner {
    /// The caller.
    ///
    /// # Errors
    ///
    /// `ESRCH` for a kernel thread.
    pub(crate) fn current() -> Result<Self> {
        Ok(Self {
            space: AddressSpace::current()?,
            identity: TaskIdentity {
                pid: kernel::current!().group_leader().pid(),
                name: TaskName::of_current(),
            },
        })
    }

    /// The process of `task`.
    pub(crate) fn of(task: &NamedTask) -> Self {
        Self {
            space: task.space(),
            identity: TaskIdentity {
                pid: task.process(),
                name: task.name(),
            },
        }
    }
}

/// A process as an open file, or its debugger, holds it. Dropping the last one ends the process.
pub(crate) struct OpenedProcess {
    table: Arc<ProcessTable>,
    process: Arc<Process>,
}

impl ProcessTable {
    /// An empty table, whose processes will be shown in `shown`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(shown: Arc<ProcessesFolder>) -> Result<Arc<Self>> {
        let pasids = PasidPool::new()?;
        let by_pasid = PasidMap::new()?;
        Arc::pin_init(
            pin_init!(Self {
                entries <- kernel::new_mutex!(RBTree::new(), "ProcessTable::entries"),
                changed <- kernel::new_condvar!("ProcessTable::changed"),
                pasids,
                by_pasid,
                shown,
            }),
            GFP_KERNEL,
        )
    }

    /// The PASIDs of processes.
    pub(crate) fn pasids(&self) -> &Arc<PasidPool> {
        &self.pasids
    }

    /// The handler that passes interrupts to processes.
    pub(crate) fn sink(&self) -> Arc<dyn ProcessSink> {
        self.by_pasid.clone()
    }

    /// The owner of the page faults of the processes.
    pub(crate) fn fault_owner(&self) -> Arc<dyn FaultOwner> {
        self.by_pasid.clone()
    }

    /// Opens the entry of `owner`. The first time it creates one, once the state from before the
    /// last close is gone.
    ///
    /// # Errors
    ///
    /// `ESRCH` if its address space has ended; `ENOSPC` without a free PASID; `EINTR` if a signal
    /// is pending; `ENOMEM`.
    pub(crate) fn open(self: &Arc<Self>, owner: &EntryOwner) -> Result<OpenedProcess> {
        let id = owner.space.id();
        loop {
            // A thread that closes and opens again waits for the end between the two, and need not
            // wait for a work item.
            self.end(id, Ender::Thread, |_, stage| stage == ProcessStage::Closed);
            {
                let mut entries = self.entries.lock();
                while is_busy(&entries, id) {
                    if self.changed.wait_interruptible(&mut entries) {
                        return Err(EINTR);
                    }
                }
                if let Some(opened) = self.reopen(&mut entries, id) {
                    return Ok(opened);
                }
            }
            // Another thread may have been first, and may be done by now.
            if let Some(opened) = self.open_first(owner)? {
                return Ok(opened);
            }
        }
    }

    /// Holds the process of `space`, if it has open files.
    pub(crate) fn find(self: &Arc<Self>, space: &AddressSpace) -> Option<OpenedProcess> {
        self.reopen(&mut self.entries.lock(), space.id())
    }

    /// Creates the entry of `owner`; `None` when another thread creates it, or when there is one
    /// that is ending.
    ///
    /// # Errors
    ///
    /// `ESRCH`, `ENOSPC`, `ENOMEM` as [`ProcessTable::open`].
    fn open_first(self: &Arc<Self>, owner: &EntryOwner) -> Result<Option<OpenedProcess>> {
        let space = &owner.space;
        let id = space.id();
        // Outside the lock: this takes the mmap lock, which the process may keep busy.
        let subscription = MmExitSubscription::new(space, self.clone())?;
        user_range::prepare(space)?;
        let process = Process::new(
            self,
            owner.identity.pid,
            space.clone(),
            Arc::new(self.pasids.lease()?, GFP_KERNEL_ACCOUNT)?,
            subscription,
        )?;
        let entry = ProcessEntry {
            process: process.clone(),
            files: 1,
            stage: ProcessStage::Opening,
        };
        let entry = RBTreeNode::new(id, entry, GFP_KERNEL)?;
        let shows = {
            let mut entries = self.entries.lock();
            if let Some(opened) = self.reopen(&mut entries, id) {
                return Ok(Some(opened));
            }
            if is_busy(&entries, id) {
                return Ok(None);
            }
            // Two address spaces can have one PID: after execve, while another process still has
            // the old one. The first is shown.
            let shows = !entries
                .values()
                .any(|entry| entry.process.pid == process.pid);
            // There is no other entry of this address space.
            let _ = entries.insert(entry);
            shows
        };
        // Outside the lock, for which other processes wait: this allocates memory, which may have
        // to be waited for.
        let introduced = self.publish(&process, owner.identity, shows);
        if introduced.is_err() {
            self.remove(&process);
        }
        self.changed.notify_all();
        introduced?;
        Ok(Some(OpenedProcess {
            table: self.clone(),
            process,
        }))
    }

    /// Makes `process`, whose first file is being opened, known to GPUs by `identity` and, if it
    /// `shows`, visible in sysfs with all GPUs; then opens its entry.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the process stays unknown then.
    fn publish(&self, process: &Arc<Process>, identity: TaskIdentity, shows: bool) -> Result {
        let pasid = process.pasid.get();
        let folder = match shows {
            true => Some(self.shown.add(process.pid, pasid)?),
            false => None,
        };
        self.by_pasid.insert(pasid, identity, process)?;
        loop {
            // Showing and hiding a GPU takes this lock, so its files are created either here or
            // there.
            let mut entries = self.entries.lock();
            let differs = folder.as_ref().and_then(|folder| folder.differs());
            let Some(differs) = differs else {
                *process.folder.lock() = folder;
                if let Some(entry) = entries.get_mut(&process.space.id()) {
                    entry.stage = ProcessStage::Open;
                }
                return Ok(());
            };
            drop(entries);
            let adjusted = folder
                .as_ref()
                .map_or(Ok(()), |folder| folder.adjust(differs));
            adjusted.inspect_err(|_| self.by_pasid.remove(pasid))?;
        }
    }

    /// Removes the entry of `process`. Only one thread does so.
    fn remove(&self, process: &Process) {
        let entry = self.entries.lock().remove_node(&process.space.id());
        drop(entry);
    }

    /// Adds a file to the process of address space `id`, if it has an entry.
    fn reopen(self: &Arc<Self>, entries: &mut Entries, id: usize) -> Option<OpenedProcess> {
        let entry = open_entry(entries, id)?;
        entry.files += 1;
        Some(OpenedProcess {
            table: self.clone(),
            process: entry.process.clone(),
        })
    }

    /// Shows the GPU `gpu` with all processes, also with later ones.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; no process shows it then.
    pub(crate) fn show(&self, gpu: GpuId) -> Result {
        let entries = self.entries.lock();
        self.shown.show(gpu)?;
        let folders = |entry: &ProcessEntry| entry.process.folder();
        let shown = entries
            .values()
            .filter_map(folders)
            .try_for_each(|folder| folder.add_gpu(gpu));
        drop(entries);
        shown.inspect_err(|_| self.hide(gpu))
    }

    /// Stops showing the GPU; waits for readers of its files.
    pub(crate) fn hide(&self, gpu: GpuId) {
        let entries = self.entries.lock();
        self.shown.hide(gpu);
        let folders = entries.values().filter_map(|entry| entry.process.folder());
        folders.for_each(|folder| folder.remove_gpu(gpu));
    }

    /// Removes the state of all processes on `gpu`. The caller ensures that no more is made.
    pub(crate) fn remove_gpu(&self, gpu: &Arc<Gpu>) {
        let uses = |entry: &&ProcessEntry| entry.process.uses(gpu);
        loop {
            let entries = self.entries.lock();
            let found = entries.values().find(uses);
            let found = found.map(|entry| entry.process.clone());
            drop(entries);
            let Some(process) = found else { return };
            process.remove_gpu(gpu);
        }
    }

    /// Notifies all processes that use `gpu` of its reset. Their state on it is about to be
    /// removed.
    pub(crate) fn notify_reset(&self, gpu: &Arc<Gpu>) {
        let entries = self.entries.lock();
        let users = entries.values().filter(|entry| entry.process.uses(gpu));
        for entry in users {
            let payload = EventPayload::Reset(gpu.hw.id);
            entry.process.events().raise(EventKind::Hardware, payload);
        }
    }

    /// Ends the process of address space `id`, if there is one, if `which` selects it, and if no
    /// other thread ends it. It stays in the table meanwhile, so that [`ProcessTable::remove_gpu`]
    /// waits for it.
    fn end(&self, id: usize, ender: Ender, which: impl Fn(&Arc<Process>, ProcessStage) -> bool) {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get_mut(&id).filter(|entry| {
            matches!(entry.stage, ProcessStage::Open | ProcessStage::Closed)
                && which(&entry.process, entry.stage)
        }) else {
            return;
        };
        entry.stage = ProcessStage::Ending;
        let process = &entry.process.clone();
        drop(entries);
        process.end();
        if process.has_debugged() {
            self.release_debugged(process);
        }
        if ender == Ender::Thread {
            // No item may be due when there are no processes any more and the module goes.
            workqueue::cancel::<_, 0>(process);
        }
        self.by_pasid.remove(process.pasid.get());
        self.remove(process);
        self.changed.notify_all();
    }

    /// Ends the debugging of all processes whose debugger is `debugger`, which ends.
    fn release_debugged(&self, debugger: &Process) {
        loop {
            let entries = self.entries.lock();
            let is_debugged = |entry: &&ProcessEntry| entry.process.is_debugged_by(debugger);
            let found = entries.values().find(is_debugged);
            let found = found.map(|entry| entry.process.clone());
            drop(entries);
            let Some(process) = found else { return };
            process.release_from(debugger);
        }
    }

    /// Waits for the end of the ending processes, or of the one that `which` names. Bounded by the
    /// hardware's timeouts; may sleep.
    fn wait(&self, which: Option<usize>) {
        let is_ending = |entry: &ProcessEntry| entry.stage.is_ending();
        let mut entries = self.entries.lock();
        while match which {
            Some(id) => entries.get(&id).is_some_and(is_ending),
            None => entries.values().any(is_ending),
        } {
            self.changed.wait(&mut entries);
        }
    }

    /// Waits until all processes whose files are closed have ended. May sleep.
    pub(crate) fn wait_ended(&self) {
        self.wait(None);
    }
}

/// The entry of the process of address space `id`, while it has open files.
fn open_entry(entries: &mut Entries, id: usize) -> Option<&mut ProcessEntry> {
    entries
        .get_mut(&id)
        .filter(|entry| entry.stage == ProcessStage::Open)
}

/// Whether the process of address space `id` is at its beginning or its end, for which an open
/// waits.
fn is_busy(entries: &Entries, id: usize) -> bool {
    entries
        .get(&id)
        .is_some_and(|entry| entry.stage != ProcessStage::Open)
}

/// The thread that ends a process.
#[derive(Clone, Copy, PartialEq)]
enum Ender {
    /// The work item.
    WorkItem,
    /// A thread of the process.
    Thread,
}

impl MmExitListener for ProcessTable {
    fn ended(&self, id: usize) {
        self.end(id, Ender::Thread, |_, _| true);
        // A work item may be ending it, since its last file was closed just before.
        self.wait(Some(id));
    }
}

/// Ends a process whose last file was closed.
impl WorkItem for Process {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // The address space may have a new process by now.
        let id = this.space.id();
        this.table.end(id, Ender::WorkItem, |process, _| {
            Arc::ptr_eq(process, &this)
        });
    }
}

impl core::ops::Deref for OpenedProcess {
    type Target = Arc<Process>;

    fn deref(&self) -> &Arc<Process> {
        &self.process
    }
}

impl Drop for OpenedProcess {
    fn drop(&mut self) {
        let mut entries = self.table.entries.lock();
        let entry = open_entry(&mut entries, self.process.space.id());
        let Some(entry) = entry.filter(|entry| Arc::ptr_eq(&entry.process, &self.process)) else {
            return;
        };
        entry.files -= 1;
        if entry.files == 0 {
            entry.stage = ProcessStage::Closed;
            // The thread that closes the file need not wait for queues to leave the hardware. The
            // item is queued once.
            let process = self.process.clone();
            let _ = workqueue::background().enqueue_delayed(process, CLOSED_DELAY);
        }
    }
}
