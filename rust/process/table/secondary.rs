// SPDX-License-Identifier: GPL-2.0
//! Secondary processes of an address space (CREATE_PROCESS). A virtual machine monitor has one for
//! each program of its guests, so that their GPU addresses and faults are apart.
//!
//! Each belongs to one open file, and ends with that. It holds the primary process open.

use hw::context_id::ContextId;
use kernel::prelude::*;
use kernel::rbtree::RBTreeNode;
use kernel::sync::{Arc, SetOnce};

use super::entry::{ProcessEntry, ProcessStage};
use super::{open_entry, Ender, EntryOwner, OpenedProcess};
use crate::process::Process;

/// The process of an open file: the primary one of the address space, unless the file has got one
/// of its own.
pub(crate) struct FileProcess {
    secondary: SetOnce<OpenedProcess>,
    primary: OpenedProcess,
}

impl FileProcess {
    /// That of a file of `primary`.
    pub(crate) fn new(primary: OpenedProcess) -> Self {
        Self {
            secondary: SetOnce::new(),
            primary,
        }
    }

    /// The process.
    pub(crate) fn get(&self) -> &OpenedProcess {
        self.secondary.as_ref().unwrap_or(&self.primary)
    }

    /// The caller, which has the file open, exits: see [`Process::exiting`].
    pub(crate) fn exiting(&self) {
        self.primary.exiting();
        if let Some(secondary) = self.secondary.as_ref() {
            secondary.exiting();
        }
    }

    /// CREATE_PROCESS: the file, which the calling process has opened, gets a process of its own.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it has one; `ENOSPC` beyond [`ContextId::MOST`] processes, or without a free
    /// PASID; `ESRCH` at the process's end; `ENOMEM`.
    pub(crate) fn create(&self) -> Result {
        let _adding = self.primary.adding.lock();
        if self.secondary.as_ref().is_some() {
            return Err(EINVAL);
        }
        self.primary.end_closed();
        // No other thread adds one.
        let _ = self.secondary.populate(self.primary.add_secondary()?);
        Ok(())
    }
}

impl OpenedProcess {
    /// Ends the secondary processes whose files are closed, so that they do not count.
    fn end_closed(&self) {
        let key = self.process.key;
        let is_closed = |stage| stage == ProcessStage::Closed;
        while let Some(closed) = self.table.find_key(|other, entry| {
            *other == key.beside(other.context) && !other.is_primary() && is_closed(entry.stage)
        }) {
            self.table
                .end(closed, Ender::Thread, |_, stage| is_closed(stage));
        }
    }

    /// Creates a secondary process beside this primary one. The caller holds `adding`.
    ///
    /// # Errors
    ///
    /// Those of [`FileProcess::create`].
    fn add_secondary(&self) -> Result<Self> {
        let table = &self.table;
        let owner = EntryOwner::current()?;
        let primary = self.process.key;
        let context = {
            let entries = table.entries.lock();
            let beside = entries.keys().filter(|other| other.space == primary.space);
            ContextId::free(beside.map(|other| other.context)).ok_or(ENOSPC)?
        };
        let key = primary.beside(context);
        let process = Process::new(
            table,
            key,
            self.process.pid,
            owner.space,
            Arc::new(table.pasids.lease()?, GFP_KERNEL_ACCOUNT)?,
            None,
        )?;
        let entry = ProcessEntry::opening(&process, Some(self.process.clone()));
        let entry = RBTreeNode::new(key, entry, GFP_KERNEL)?;
        {
            let mut entries = table.entries.lock();
            open_entry(&mut entries, primary).ok_or(ESRCH)?.files += 1;
            // Only this thread adds processes of the address space: the number is still free.
            let _ = entries.insert(entry);
        }
        table.introduce(&process, owner.identity, || {
            let folder = self.process.folder();
            let pasid = process.pasid.get();
            folder.map(|folder| folder.add(context, pasid)).transpose()
        })
    }
}
