// SPDX-License-Identifier: GPL-2.0
//! How many queues there may be: of a process, and of all on a GPU, such that each process that has few can have more.

use super::doorbell::DoorbellSlice;
use hw::share::FairShare;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, SpinLock};

/// The most queues of a process on a GPU, of all kinds: as amdkfd has it for the CP's firmware of these GPUs.
const MOST_OF_PROCESS: u64 = 127;
/// The most compute queues of a GPU: what a runlist has room for. Half of them is kept, 8 for each process that can have
/// doorbells of the CP.
pub(super) const MOST_COMPUTE: usize = 4096;
const COMPUTE: FairShare = FairShare::new(MOST_COMPUTE as u64, MOST_COMPUTE as u64 / 2, 256);
/// The most SDMA queues of a GPU. Half of them is kept, 4 for each of so many processes.
const SDMA: FairShare = FairShare::new(8192, 4096, 1024);

/// What serves a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum QuotaKind {
    Compute,
    Sdma,
}

impl QuotaKind {
    fn share(self) -> FairShare {
        match self {
            Self::Compute => COMPUTE,
            Self::Sdma => SDMA,
        }
    }
}

/// How many queues a process has, of each kind. [`QueueQuota`]'s lock guards it.
pub(super) struct ProcessQueueCounts([Atomic<u64>; 2]);

impl ProcessQueueCounts {
    /// None.
    pub(super) const fn new() -> Self {
        Self([const { Atomic::new(0) }; 2])
    }

    fn of(&self, kind: QuotaKind) -> &Atomic<u64> {
        &self.0[kind as usize]
    }

    fn all(&self) -> u64 {
        self.0.iter().map(|count| count.load(Relaxed)).sum()
    }
}

/// How many queues a GPU has, of each kind.
#[pin_data]
pub(super) struct QueueQuota {
    #[pin]
    queues: SpinLock<[u64; 2]>,
}

impl QueueQuota {
    /// No queues.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            queues <- new_spinlock!([0; 2], "Quota::queues"),
        })
    }
}

/// A queue that is counted, until dropped: when nothing is left of it.
pub(super) struct CountedQueue {
    kind: QuotaKind,
    slice: Arc<DoorbellSlice>,
}

impl CountedQueue {
    /// One more queue of the process that has `slice`. ENOSPC when it has too many, or the GPU has.
    pub(super) fn new(slice: &Arc<DoorbellSlice>, kind: QuotaKind) -> Result<Self> {
        let mut queues = slice.quota().queues.lock();
        let (all, own) = (&mut queues[kind as usize], slice.counts.of(kind));
        let few = kind.share().allows(*all, own.load(Relaxed), 1);
        if !few || slice.counts.all() >= MOST_OF_PROCESS {
            return Err(ENOSPC);
        }
        *all += 1;
        own.add(1, Relaxed);
        Ok(Self {
            kind,
            slice: slice.clone(),
        })
    }

    /// The doorbells of its process.
    pub(super) fn slice(&self) -> &Arc<DoorbellSlice> {
        &self.slice
    }
}

impl Drop for CountedQueue {
    fn drop(&mut self) {
        let mut queues = self.slice.quota().queues.lock();
        queues[self.kind as usize] -= 1;
        self.slice.counts.of(self.kind).fetch_sub(1, Relaxed);
    }
}
