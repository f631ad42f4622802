// SPDX-License-Identifier: GPL-2.0
//! The processes that exist, by address space.

use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};

use super::by_pasid::ByPasid;
use super::pasid::Pasids;
use super::Process;
use crate::gpu::Gpu;
use crate::kern::mm_exit::{AddressSpace, Listener, Subscription};
use crate::kern::task::Name;
use crate::queue::interrupts::ProcessSink;
use crate::smi::Who;

/// All processes. Whoever marks one as ending ends it, so that happens once.
#[pin_data]
pub(crate) struct Table {
    #[pin]
    entries: Mutex<KVec<Entry>>,
    pasids: Arc<Pasids>,
    by_pasid: Arc<ByPasid>,
}

struct Entry {
    process: Arc<Process>,
    files: usize,
    ending: bool,
}

/// A process as an open file holds it; the last one that is dropped ends the process.
pub(crate) struct Opened {
    table: Arc<Table>,
    process: Arc<Process>,
}

impl Table {
    /// No processes. ENOMEM.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let pasids = Pasids::new()?;
        let by_pasid = ByPasid::new()?;
        Arc::pin_init(
            pin_init!(Self {
                entries <- kernel::new_mutex!(KVec::new(), "Table::entries"),
                pasids,
                by_pasid,
            }),
            GFP_KERNEL,
        )
    }

    /// Who takes interrupts to the processes.
    pub(crate) fn sink(&self) -> Arc<dyn ProcessSink> {
        self.by_pasid.clone()
    }

    /// Opens the calling process's entry, and makes one for its first file. ESRCH for a kernel thread, ENOSPC
    /// without a free PASID, EINTR if a signal is pending, ENOMEM.
    pub(crate) fn open(self: &Arc<Self>) -> Result<Opened> {
        let space = AddressSpace::current()?;
        let id = space.id();
        if let Some(opened) = self.open_again(&mut self.entries.lock(), id) {
            return Ok(opened);
        }
        // Without the lock: it takes the mmap lock, which the process may keep busy.
        let subscription = Subscription::current(self.clone())?;
        let process = Process::new(space, self.pasids.lease()?, subscription)?;
        let mut entries = self.entries.lock();
        // Another thread may have been first.
        if let Some(opened) = self.open_again(&mut entries, id) {
            return Ok(opened);
        }
        let pasid = process.pasid.get();
        let who = Who {
            pid: process.pid,
            name: Name::of_current(),
        };
        self.by_pasid.insert(pasid, who, process.events.clone())?;
        let pushed = entries.push(
            Entry {
                process: process.clone(),
                files: 1,
                ending: false,
            },
            GFP_KERNEL,
        );
        if let Err(error) = pushed {
            self.by_pasid.remove(pasid);
            return Err(error.into());
        }
        Ok(Opened {
            table: self.clone(),
            process,
        })
    }

    /// One more file of the process of address space `id`, if it has an entry.
    fn open_again(self: &Arc<Self>, entries: &mut KVec<Entry>, id: usize) -> Option<Opened> {
        let mut living = entries.iter_mut().filter(|entry| !entry.ending);
        let entry = living.find(|entry| entry.process.is(id))?;
        entry.files += 1;
        Some(Opened {
            table: self.clone(),
            process: entry.process.clone(),
        })
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

    /// Ends the process that `which` says, if it is there. It stays in the table meanwhile, so that
    /// [`Table::leave`] waits for it.
    fn end(&self, which: impl Fn(&mut Entry) -> bool) {
        let process = {
            let mut entries = self.entries.lock();
            let index = entries
                .iter_mut()
                .position(|entry| !entry.ending && which(entry));
            let Some(entry) = index.and_then(|index| entries.get_mut(index)) else {
                return;
            };
            entry.ending = true;
            entry.process.clone()
        };
        process.end();
        self.by_pasid.remove(process.pasid.get());
        let mut entries = self.entries.lock();
        entries.retain(|entry| !Arc::ptr_eq(&entry.process, &process));
    }
}

impl Listener for Table {
    fn ended(&self, id: usize) {
        self.end(|entry| entry.process.is(id));
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
        self.table.end(|entry| {
            let mine = Arc::ptr_eq(&entry.process, &self.process);
            if mine {
                entry.files -= 1;
            }
            mine && entry.files == 0
        });
    }
}
