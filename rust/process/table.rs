// SPDX-License-Identifier: GPL-2.0
//! The processes that exist, by address space.

use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::sync::{Arc, CondVar, Mutex};
use kernel::workqueue::WorkItem;

use super::by_pasid::ByPasid;
use super::events::{Kind, Told};
use super::pasid::Pasids;
use super::sysfs::Processes;
use super::Process;
use crate::gpu::Gpu;
use crate::kern::mm_exit::{AddressSpace, Listener, Subscription};
use crate::kern::task::{Name, Who};
use crate::kern::{user_range, workqueue};
use crate::queue::interrupts::ProcessSink;

/// All processes. Whoever marks one as ending ends it, so that happens once. One whose last file is closed is ended by a
/// work item, or by its own exit if that comes before the item has begun: an item may have to wait for the memory of
/// a thread to run it, and memory is what an exit gives back.
#[pin_data]
pub(crate) struct Table {
    #[pin]
    entries: Mutex<KVec<Entry>>,
    /// A process has ended.
    #[pin]
    ended: CondVar,
    pasids: Arc<Pasids>,
    by_pasid: Arc<ByPasid>,
    shown: Arc<Processes>,
}

struct Entry {
    process: Arc<Process>,
    files: usize,
    stage: Stage,
}

/// How near a process is to its end.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// It has files.
    Open,
    /// Its last file is closed: whoever is first ends it.
    Closed,
    /// Somebody ends it.
    Ending,
}

/// A process as an open file holds it; the last one that is dropped ends the process.
pub(crate) struct Opened {
    table: Arc<Table>,
    process: Arc<Process>,
}

impl Table {
    /// No processes; they will be shown in `shown`. ENOMEM.
    pub(crate) fn new(shown: Arc<Processes>) -> Result<Arc<Self>> {
        let pasids = Pasids::new()?;
        let by_pasid = ByPasid::new()?;
        Arc::pin_init(
            pin_init!(Self {
                entries <- kernel::new_mutex!(KVec::new(), "Table::entries"),
                ended <- kernel::new_condvar!("Table::ended"),
                pasids,
                by_pasid,
                shown,
            }),
            GFP_KERNEL,
        )
    }

    /// Who takes interrupts to the processes.
    pub(crate) fn sink(&self) -> Arc<dyn ProcessSink> {
        self.by_pasid.clone()
    }

    /// Opens the calling process's entry, and makes one for its first file, once what it had before its last close is gone. ESRCH
    /// for a kernel thread, ENOSPC without a free PASID, EINTR if a signal is pending, ENOMEM.
    pub(crate) fn open(self: &Arc<Self>) -> Result<Opened> {
        let id = AddressSpace::current()?.id();
        loop {
            {
                let mut entries = self.entries.lock();
                while is_ending(&entries, |process| process.is(id)) {
                    if self.ended.wait_interruptible(&mut entries) {
                        return Err(EINTR);
                    }
                }
                if let Some(opened) = self.open_again(&mut entries, id) {
                    return Ok(opened);
                }
            }
            // Another thread may be first, and be done with it by now.
            if let Some(opened) = self.open_first()? {
                return Ok(opened);
            }
        }
    }

    /// Makes the calling process's entry; `None` when there is one that is ending. ESRCH, ENOSPC, ENOMEM as [`Table::open`].
    fn open_first(self: &Arc<Self>) -> Result<Option<Opened>> {
        let space = AddressSpace::current()?;
        let id = space.id();
        // Without the lock: it takes the mmap lock, which the process may keep busy.
        let subscription = Subscription::current(self.clone())?;
        user_range::prepare(&space)?;
        let process = Process::new(self, space, self.pasids.lease()?, subscription)?;
        let mut entries = self.entries.lock();
        if let Some(opened) = self.open_again(&mut entries, id) {
            return Ok(Some(opened));
        }
        if is_ending(&entries, |process| process.is(id)) {
            return Ok(None);
        }
        let pasid = process.pasid.get();
        // Two address spaces can have one PID: after execve, while somebody else still has the old one. The first is shown.
        if !entries.iter().any(|entry| entry.process.pid == process.pid) {
            let folder = self.shown.add(process.pid, pasid)?;
            *process.folder.lock() = Some(folder);
        }
        let who = Who {
            pid: process.pid,
            name: Name::of_current(),
        };
        self.by_pasid.insert(pasid, who, &process)?;
        let pushed = entries.push(
            Entry {
                process: process.clone(),
                files: 1,
                stage: Stage::Open,
            },
            GFP_KERNEL,
        );
        if let Err(error) = pushed {
            self.by_pasid.remove(pasid);
            return Err(error.into());
        }
        Ok(Some(Opened {
            table: self.clone(),
            process,
        }))
    }

    /// One more file of the process of address space `id`, if it has an entry.
    fn open_again(self: &Arc<Self>, entries: &mut KVec<Entry>, id: usize) -> Option<Opened> {
        let entry = open_entry(entries, |process| process.is(id))?;
        entry.files += 1;
        Some(Opened {
            table: self.clone(),
            process: entry.process.clone(),
        })
    }

    /// Shows the GPU `gpu` with all processes, also those to come. ENOMEM: with none.
    pub(crate) fn show(&self, gpu: GpuId) -> Result {
        let entries = self.entries.lock();
        self.shown.show(gpu)?;
        let mut folders = entries.iter().filter_map(|entry| entry.process.folder());
        let all = folders.try_for_each(|folder| folder.add_gpu(gpu));
        drop(entries);
        all.inspect_err(|_| self.hide(gpu))
    }

    /// Shows it no longer; waits for those who read of it.
    pub(crate) fn hide(&self, gpu: GpuId) {
        let entries = self.entries.lock();
        self.shown.hide(gpu);
        let folders = entries.iter().filter_map(|entry| entry.process.folder());
        folders.for_each(|folder| folder.remove_gpu(gpu));
    }

    /// Takes all that processes have of `gpu`. The caller sees to it that no more is made.
    pub(crate) fn leave(&self, gpu: &Arc<Gpu>) {
        let uses = |entry: &&Entry| entry.process.uses(gpu);
        loop {
            let found = {
                let entries = self.entries.lock();
                entries.iter().find(uses).map(|entry| entry.process.clone())
            };
            let Some(process) = found else { return };
            process.leave(gpu);
        }
    }

    /// Tells all processes that use `gpu` that it is reset. What they have of it is about to be taken.
    pub(crate) fn tell_reset(&self, gpu: &Arc<Gpu>) {
        let entries = self.entries.lock();
        let users = entries.iter().filter(|entry| entry.process.uses(gpu));
        for entry in users {
            let told = Told::Reset(gpu.hw.id);
            entry.process.events().raise(Kind::Hardware, told);
        }
    }

    /// Ends a process that `which` says, unless somebody is at that: whether there was one. It stays in the table meanwhile, so
    /// that [`Table::leave`] waits for it.
    fn end(&self, which: impl Fn(&Arc<Process>) -> bool) -> bool {
        let mut entries = self.entries.lock();
        let mut left = entries
            .iter_mut()
            .filter(|entry| entry.stage != Stage::Ending);
        let Some(entry) = left.find(|entry| which(&entry.process)) else {
            return false;
        };
        entry.stage = Stage::Ending;
        let process = &entry.process.clone();
        drop(entries);
        process.end();
        self.by_pasid.remove(process.pasid.get());
        let mut entries = self.entries.lock();
        entries.retain(|entry| !Arc::ptr_eq(&entry.process, process));
        drop(entries);
        self.ended.notify_all();
        true
    }

    /// Waits for the end of those that are ending and of which `which` says so. Bounded by what the hardware may take; sleeps.
    fn wait(&self, which: impl Fn(&Process) -> bool) {
        let mut entries = self.entries.lock();
        while is_ending(&entries, &which) {
            self.ended.wait(&mut entries);
        }
    }

    /// Waits until none is left of the processes whose files are closed. Sleeps.
    pub(crate) fn settle(&self) {
        self.wait(|_| true);
    }
}

/// The entry of the process that `which` says, while it has files.
fn open_entry(entries: &mut [Entry], which: impl Fn(&Arc<Process>) -> bool) -> Option<&mut Entry> {
    entries
        .iter_mut()
        .find(|entry| entry.stage == Stage::Open && which(&entry.process))
}

/// Whether one of the processes that `which` says is at its end.
fn is_ending(entries: &[Entry], which: impl Fn(&Process) -> bool) -> bool {
    entries
        .iter()
        .any(|entry| entry.stage != Stage::Open && which(&entry.process))
}

impl Listener for Table {
    fn ended(&self, id: usize) {
        while self.end(|process| process.is(id)) {}
        // A work item may be at it, as its last file was closed just before.
        self.wait(|process| process.is(id));
    }
}

/// The end of a process whose last file was closed.
impl WorkItem for Process {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.table.end(|process| Arc::ptr_eq(process, &this));
    }
}

impl core::ops::Deref for Opened {
    type Target = Arc<Process>;

    fn deref(&self) -> &Arc<Process> {
        &self.process
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut entries = self.table.entries.lock();
        let is_it = |process: &Arc<Process>| Arc::ptr_eq(process, &self.process);
        let Some(entry) = open_entry(&mut entries, is_it) else {
            return;
        };
        entry.files -= 1;
        if entry.files == 0 {
            entry.stage = Stage::Closed;
            // Who closes the file need not wait for queues to leave the hardware. It is queued once.
            let _ = workqueue::background().enqueue(self.process.clone());
        }
    }
}
