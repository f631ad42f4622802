// SPDX-License-Identifier: GPL-2.0
//! The processes that exist, by address space.

use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};

use super::pasid::Pasids;
use super::Process;
use crate::kern::mm_exit::{AddressSpace, Listener, Subscription};

/// All processes. Whoever takes a process out of here ends it, so that happens once.
#[pin_data]
pub(crate) struct Table {
    #[pin]
    entries: Mutex<KVec<Entry>>,
    pasids: Arc<Pasids>,
}

struct Entry {
    process: Arc<Process>,
    files: usize,
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
        Arc::pin_init(
            pin_init!(Self {
                entries <- kernel::new_mutex!(KVec::new(), "Table::entries"),
                pasids,
            }),
            GFP_KERNEL,
        )
    }

    /// Opens the calling process's entry, and makes one for its first file. ESRCH for a kernel thread, ENOSPC
    /// without a free PASID, EINTR if a signal is pending, ENOMEM.
    pub(crate) fn open(self: &Arc<Self>) -> Result<Opened> {
        let space = AddressSpace::current()?;
        let mut entries = self.entries.lock();
        let id = space.id();
        if let Some(entry) = entries.iter_mut().find(|entry| entry.process.is(id)) {
            entry.files += 1;
            return Ok(Opened {
                table: self.clone(),
                process: entry.process.clone(),
            });
        }
        entries.reserve(1, GFP_KERNEL)?;
        let process = Process::new(space, self.pasids.lease()?)?;
        process.watch(Subscription::current(self.clone())?);
        entries.push(
            Entry {
                process: process.clone(),
                files: 1,
            },
            GFP_KERNEL,
        )?;
        Ok(Opened {
            table: self.clone(),
            process,
        })
    }

    /// Calls `f` for each process, of those that were there at the start, without holding the table's lock. ENOMEM.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Process)) -> Result {
        let mut processes = KVec::new();
        for entry in self.entries.lock().iter() {
            processes.push(entry.process.clone(), GFP_KERNEL)?;
        }
        processes.iter().for_each(|process| f(process));
        Ok(())
    }

    /// Takes out the process that `which` says, if it is there.
    fn take(&self, which: impl Fn(&mut Entry) -> bool) -> Option<Arc<Process>> {
        let mut entries = self.entries.lock();
        let index = entries.iter_mut().position(which)?;
        entries.remove(index).ok().map(|entry| entry.process)
    }
}

impl Listener for Table {
    fn ended(&self, id: usize) {
        if let Some(process) = self.take(|entry| entry.process.is(id)) {
            process.end();
        }
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
        let last = self.table.take(|entry| {
            let mine = Arc::ptr_eq(&entry.process, &self.process);
            if mine {
                entry.files -= 1;
            }
            mine && entry.files == 0
        });
        if let Some(process) = last {
            process.end();
        }
    }
}
