// SPDX-License-Identifier: GPL-2.0
//! An entry of the table of processes, and the stages of a process's life.

use kernel::sync::Arc;

use crate::process::Process;

/// A process, as the table has it.
pub(super) struct ProcessEntry {
    /// The process.
    pub(super) process: Arc<Process>,
    /// How many hold it open: files, debuggers, secondary processes.
    pub(super) files: usize,
    /// Where it is in its life.
    pub(super) stage: ProcessStage,
    /// Of a secondary process, the primary one, which it holds open.
    pub(super) primary: Option<Arc<Process>>,
}

impl ProcessEntry {
    /// That of `process`, whose first file is being opened, and which holds `primary` open.
    pub(super) fn opening(process: &Arc<Process>, primary: Option<Arc<Process>>) -> Self {
        Self {
            process: process.clone(),
            files: 1,
            stage: ProcessStage::Opening,
            primary,
        }
    }
}

/// A stage in the life of a process.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ProcessStage {
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
    pub(super) fn is_ending(self) -> bool {
        matches!(self, Self::Closed | Self::Ending)
    }

    /// Whether a thread may end it.
    pub(super) fn may_be_ended(self) -> bool {
        matches!(self, Self::Open | Self::Closed)
    }
}
