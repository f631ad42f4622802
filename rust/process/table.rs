// SPDX-License-Identifier: GPL-2.0
//! The processes that exist, by address space.

mod entry;
mod key;
mod secondary;

use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::{Arc, CondVar, Mutex};
use kernel::time::Jiffies;
use kernel::workqueue::WorkItem;

use super::by_pasid::PasidMap;
use super::events::{EventKind, EventPayload};
use super::sysfs::{ProcessFolder, ProcessesFolder};
use super::Process;
use crate::gpu::Gpu;
use crate::ip::retries::FaultOwner;
use crate::kern::mm_exit::{AddressSpace, MmExitListener, MmExitSubscription};
use crate::kern::named_task::NamedTask;
use crate::kern::task::{TaskIdentity, TaskName};
use crate::kern::{user_range, workqueue};
use crate::mem::pasid::PasidPool;
use crate::queue::interrupts::ProcessSink;
use entry::{ProcessEntry, ProcessStage};
pub(in crate::process) use key::ProcessKey;
pub(crate) use secondary::FileProcess;

/// All processes. The thread that marks a process as ending also ends it, so that this happens
/// once. A process whose last file was closed is ended by a work item a little later, or before
/// that by its exit or by its next open: the item may have to wait for memory for a worker thread,
/// and an exit gives memory back.
#[pin_data]
pub(crate) struct ProcessTable {
    #[pin]
    entries: Mutex<Entries>,
    /// A process has ended, or has completed the open of its first file.
    #[pin]
    changed: CondVar,
    pasids: Arc<PasidPool>,
    by_pasid: Arc<PasidMap>,
    shown: Arc<ProcessesFolder>,
}

type Entries = RBTree<ProcessKey, ProcessEntry>;

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

    /// Opens the entry of `owner`'s primary process. The first time it creates one, once the state
    /// from before the last close is gone.
    ///
    /// # Errors
    ///
    /// `ESRCH` if its address space has ended; `ENOSPC` without a free PASID; `EINTR` if a signal
    /// is pending; `ENOMEM`.
    pub(crate) fn open(self: &Arc<Self>, owner: &EntryOwner) -> Result<OpenedProcess> {
        let key = ProcessKey::primary(&owner.space);
        loop {
            // A thread that closes and opens again waits for the end between the two, and need not
            // wait for a work item.
            self.end(key, Ender::Thread, |_, stage| stage == ProcessStage::Closed);
            {
                let mut entries = self.entries.lock();
                while is_busy(&entries, key) {
                    if self.changed.wait_interruptible(&mut entries) {
                        return Err(EINTR);
                    }
                }
                if let Some(opened) = self.reopen(&mut entries, key) {
                    return Ok(opened);
                }
            }
            // Another thread may have been first, and may be done by now.
            if let Some(opened) = self.open_first(owner)? {
                return Ok(opened);
            }
        }
    }

    /// Holds the primary process of `space`, if it has open files.
    pub(crate) fn find(self: &Arc<Self>, space: &AddressSpace) -> Option<OpenedProcess> {
        self.reopen(&mut self.entries.lock(), ProcessKey::primary(space))
    }

    /// Whether the address space of `process` has secondary processes.
    pub(crate) fn has_secondary(&self, process: &Process) -> bool {
        let space = process.key.space;
        self.find_key(|key, _| key.space == space && !key.is_primary())
            .is_some()
    }

    /// Creates the entry of `owner`; `None` when another thread creates it, or when there is one
    /// that is ending.
    ///
    /// # Errors
    ///
    /// `ESRCH`, `ENOSPC`, `ENOMEM` as [`ProcessTable::open`].
    fn open_first(self: &Arc<Self>, owner: &EntryOwner) -> Result<Option<OpenedProcess>> {
        let space = &owner.space;
        let key = ProcessKey::primary(space);
        // Outside the lock: this takes the mmap lock, which the process may keep busy.
        let subscription = MmExitSubscription::new(space, self.clone())?;
        user_range::prepare(space)?;
        let process = Process::new(
            self,
            key,
            owner.identity.pid,
            space.clone(),
            Arc::new(self.pasids.lease()?, GFP_KERNEL_ACCOUNT)?,
            Some(subscription),
        )?;
        let entry = RBTreeNode::new(key, ProcessEntry::opening(&process, None), GFP_KERNEL)?;
        let shows = {
            let mut entries = self.entries.lock();
            if let Some(opened) = self.reopen(&mut entries, key) {
                return Ok(Some(opened));
            }
            if is_busy(&entries, key) {
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
        let folder = || match shows {
            true => Ok(Some(self.shown.add(process.pid, process.pasid.get())?)),
            false => Ok(None),
        };
        self.introduce(&process, owner.identity, folder).map(Some)
    }

    /// Completes the open of `process`, which has an entry: see [`ProcessTable::publish`]. Without
    /// success the entry is removed. Called outside the lock, for which other processes wait: this
    /// allocates memory, which may have to be waited for.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; those of `folder`.
    fn introduce(
        self: &Arc<Self>,
        process: &Arc<Process>,
        identity: TaskIdentity,
        folder: impl FnOnce() -> Result<Option<Arc<ProcessFolder>>>,
    ) -> Result<OpenedProcess> {
        let introduced = folder().and_then(|folder| self.publish(process, identity, folder));
        if introduced.is_err() {
            self.remove(process);
        }
        self.changed.notify_all();
        introduced?;
        Ok(OpenedProcess {
            table: self.clone(),
            process: process.clone(),
        })
    }

    /// Makes `process`, whose first file is being opened, known to GPUs by `identity` and visible
    /// in `folder` with all GPUs; then opens its entry.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the process stays unknown then.
    fn publish(
        &self,
        process: &Arc<Process>,
        identity: TaskIdentity,
        folder: Option<Arc<ProcessFolder>>,
    ) -> Result {
        let pasid = process.pasid.get();
        self.by_pasid.insert(pasid, identity, process)?;
        loop {
            // Showing and hiding a GPU takes this lock, so its files are created either here or
            // there.
            let mut entries = self.entries.lock();
            let differs = folder.as_ref().and_then(|folder| folder.differs());
            let Some(differs) = differs else {
                *process.folder.lock() = folder;
                if let Some(entry) = entries.get_mut(&process.key) {
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
        let entry = {
            let mut entries = self.entries.lock();
            let entry = entries.remove(&process.key);
            // Under the same lock: a thread that waits goes on when it finds none that ends.
            if let Some(primary) = entry.as_ref().and_then(|entry| entry.primary.as_ref()) {
                close(&mut entries, primary);
            }
            entry
        };
        drop(entry);
    }

    /// Adds a file to the process `key`, if it has an entry.
    fn reopen(self: &Arc<Self>, entries: &mut Entries, key: ProcessKey) -> Option<OpenedProcess> {
        let entry = open_entry(entries, key)?;
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

    /// Ends the process `key`, if there is one, if `which` selects it, and if no other thread ends
    /// it. It stays in the table meanwhile, so that [`ProcessTable::remove_gpu`]
    /// waits for it.
    fn end(
        &self,
        key: ProcessKey,
        ender: Ender,
        which: impl Fn(&Arc<Process>, ProcessStage) -> bool,
    ) {
        let mut entries = self.entries.lock();
        let Some(entry) = entries
            .get_mut(&key)
            .filter(|entry| entry.stage.may_be_ended() && which(&entry.process, entry.stage))
        else {
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

    /// Waits for the end of the ending processes, or of those of the address space `which`. Bounded
    /// by the hardware's timeouts; may sleep.
    fn wait(&self, which: Option<usize>) {
        let mut entries = self.entries.lock();
        while entries.iter().any(|(key, entry)| {
            which.is_none_or(|space| key.space == space) && entry.stage.is_ending()
        }) {
            self.changed.wait(&mut entries);
        }
    }

    /// The first process that `which` selects.
    fn find_key(&self, which: impl Fn(&ProcessKey, &ProcessEntry) -> bool) -> Option<ProcessKey> {
        let entries = self.entries.lock();
        let mut found = entries.iter().filter(|(key, entry)| which(key, entry));
        found.next().map(|(key, _)| *key)
    }

    /// Waits until all processes whose files are closed have ended. May sleep.
    pub(crate) fn wait_ended(&self) {
        self.wait(None);
    }
}

/// The entry of the process `key`, while it has open files.
fn open_entry(entries: &mut Entries, key: ProcessKey) -> Option<&mut ProcessEntry> {
    entries
        .get_mut(&key)
        .filter(|entry| entry.stage == ProcessStage::Open)
}

/// One holds `process` open no more.
fn close(entries: &mut Entries, process: &Arc<Process>) {
    let entry = open_entry(entries, process.key);
    let Some(entry) = entry.filter(|entry| Arc::ptr_eq(&entry.process, process)) else {
        return;
    };
    entry.files -= 1;
    if entry.files == 0 {
        entry.stage = ProcessStage::Closed;
        // The thread that closes the file need not wait for queues to leave the hardware. The item
        // is queued once.
        let process = process.clone();
        let _ = workqueue::background().enqueue_delayed(process, CLOSED_DELAY);
    }
}

/// Whether the process `key` is at its beginning or its end, for which an open waits.
fn is_busy(entries: &Entries, key: ProcessKey) -> bool {
    entries
        .get(&key)
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
        // Secondary processes first. No further ones are made: a thread of the process does that.
        while let Some(key) =
            self.find_key(|key, entry| key.space == id && entry.stage.may_be_ended())
        {
            self.end(key, Ender::Thread, |_, _| true);
        }
        // Work items may be ending some, since their last file was closed just before.
        self.wait(Some(id));
    }
}

/// Ends a process whose last file was closed.
impl WorkItem for Process {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // The address space may have a new process by now.
        this.table.end(this.key, Ender::WorkItem, |process, _| {
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
        close(&mut self.table.entries.lock(), &self.process);
    }
}
