// SPDX-License-Identifier: GPL-2.0
//! Counts of each kind of object that a GPU has. An object is counted when it is made and uncounted
//! when it is dropped. A count that is not zero after the last client has gone is a leak.

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum LedgerKind {
    /// Processes that use the GPU.
    Processes,
    /// GPU address spaces.
    Vms,
    /// Contexts of open files of the render node.
    Contexts,
    /// Lists of buffers of open files of the render node.
    BoLists,
    /// Buffer objects.
    Bos,
    /// User queues.
    Queues,
    /// Leased VMIDs.
    Vmids,
    /// Doorbell slices of processes.
    DoorbellSlices,
    /// Bytes of VRAM handed out.
    VramBytes,
    /// The part of them that holds the driver's tables.
    VramTables,
    /// The part of them that is shared virtual memory.
    SharedVramBytes,
    /// Bytes of VRAM buffers that are in system memory.
    EvictedBytes,
    /// Bytes of system memory for the GPU.
    GttBytes,
    /// Bytes of USERPTR memory.
    UserptrBytes,
    /// Bound GART pages.
    GartPages,
    /// Unfinished jobs.
    Jobs,
    /// Page tables.
    PageTables,
}

impl LedgerKind {
    /// Every kind, in the order in which debugfs shows them.
    pub(crate) const ALL: [Self; 17] = [
        Self::Processes,
        Self::Vms,
        Self::Contexts,
        Self::BoLists,
        Self::Bos,
        Self::Queues,
        Self::Vmids,
        Self::DoorbellSlices,
        Self::VramBytes,
        Self::VramTables,
        Self::SharedVramBytes,
        Self::EvictedBytes,
        Self::GttBytes,
        Self::UserptrBytes,
        Self::GartPages,
        Self::Jobs,
        Self::PageTables,
    ];

    /// The name in debugfs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Vms => "vms",
            Self::Contexts => "contexts",
            Self::BoLists => "bo_lists",
            Self::Bos => "bos",
            Self::Queues => "queues",
            Self::Vmids => "vmids",
            Self::DoorbellSlices => "doorbell_slices",
            Self::VramBytes => "vram_bytes",
            Self::VramTables => "vram_table_bytes",
            Self::SharedVramBytes => "shared_vram_bytes",
            Self::EvictedBytes => "evicted_bytes",
            Self::GttBytes => "gtt_bytes",
            Self::UserptrBytes => "userptr_bytes",
            Self::GartPages => "gart_pages",
            Self::Jobs => "jobs",
            Self::PageTables => "page_tables",
        }
    }
}

/// The counts of one GPU. Any context; no locks.
pub(crate) struct Ledger {
    counts: [Atomic<i64>; LedgerKind::ALL.len()],
}

impl Ledger {
    /// All counts 0.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let ledger = Self {
            counts: [const { Atomic::new(0) }; LedgerKind::ALL.len()],
        };
        Ok(Arc::new(ledger, GFP_KERNEL)?)
    }

    /// Counts `n` of `kind` until the returned hold is dropped.
    pub(crate) fn hold(self: &Arc<Self>, kind: LedgerKind, n: u64) -> LedgerHold {
        self.add(kind, n as i64);
        LedgerHold {
            ledger: self.clone(),
            kind,
            n,
        }
    }

    /// The count of `kind` now.
    pub(crate) fn count(&self, kind: LedgerKind) -> i64 {
        self.counts[kind as usize].load(Relaxed)
    }

    /// All counts with their kinds, in debugfs's order. They are not a snapshot of one moment.
    pub(crate) fn snapshot(&self) -> [(LedgerKind, i64); LedgerKind::ALL.len()] {
        LedgerKind::ALL.map(|kind| (kind, self.count(kind)))
    }

    fn add(&self, kind: LedgerKind, n: i64) {
        self.counts[kind as usize].add(n, Relaxed);
    }
}

/// A count held in a [`Ledger`], released on drop.
pub(crate) struct LedgerHold {
    ledger: Arc<Ledger>,
    kind: LedgerKind,
    n: u64,
}

impl Drop for LedgerHold {
    fn drop(&mut self) {
        self.ledger.add(self.kind, -(self.n as i64));
    }
}
