// SPDX-License-Identifier: GPL-2.0
//! Limits on the number of queues, of a process and of all processes on a GPU. A process that has
//! few queues can always make more.

use hw::share::FairShare;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, SpinLock};

/// Most queues of a process on a GPU, of all kinds: amdkfd's limit for the CP firmware of these
/// GPUs.
const MOST_OF_PROCESS: u64 = 127;
/// Most compute queues of a GPU: the size of a runlist. Half of them is reserved, 8 for each
/// process that can have doorbells of the CP.
pub(super) const MOST_COMPUTE: usize = 4096;
const COMPUTE: FairShare = FairShare::new(MOST_COMPUTE as u64, MOST_COMPUTE as u64 / 2, 256);
/// Most SDMA queues of a GPU. Half of them is reserved, 4 for each of 1024 processes.
const SDMA: FairShare = FairShare::new(8192, 4096, 1024);

/// The kind of engine that serves a queue.
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

/// Number of queues of a GPU, by kind.
#[pin_data]
pub(super) struct QueueQuota {
    #[pin]
    queues: SpinLock<[u64; 2]>,
}

impl QueueQuota {
    /// Returns the quota of a GPU without queues.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                queues <- new_spinlock!([0; 2], "QueueQuota::queues"),
            }),
            GFP_KERNEL,
        )
    }
}

/// Number of queues of a process on a GPU, by kind. The lock of [`QueueQuota`] guards it.
pub(super) struct ProcessQueueCounts {
    quota: Arc<QueueQuota>,
    counts: [Atomic<u64>; 2],
}

impl ProcessQueueCounts {
    /// Returns the counts of a process without queues, on the GPU of `quota`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(quota: &Arc<QueueQuota>) -> Result<Arc<Self>> {
        let counts = Self {
            quota: quota.clone(),
            counts: [const { Atomic::new(0) }; 2],
        };
        Ok(Arc::new(counts, GFP_KERNEL)?)
    }

    fn of(&self, kind: QuotaKind) -> &Atomic<u64> {
        &self.counts[kind as usize]
    }

    fn all(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Relaxed)).sum()
    }
}

/// A queue that is counted. Dropped when nothing is left of the queue.
pub(super) struct CountedQueue {
    kind: QuotaKind,
    process: Arc<ProcessQueueCounts>,
}

impl CountedQueue {
    /// Counts one more queue of `process`.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the process or the GPU has too many.
    pub(super) fn new(process: &Arc<ProcessQueueCounts>, kind: QuotaKind) -> Result<Self> {
        let mut queues = process.quota.queues.lock();
        let (all, own) = (&mut queues[kind as usize], process.of(kind));
        let few = kind.share().allows(*all, own.load(Relaxed), 1);
        if !few || process.all() >= MOST_OF_PROCESS {
            return Err(ENOSPC);
        }
        *all += 1;
        own.add(1, Relaxed);
        Ok(Self {
            kind,
            process: process.clone(),
        })
    }
}

impl Drop for CountedQueue {
    fn drop(&mut self) {
        let mut queues = self.process.quota.queues.lock();
        queues[self.kind as usize] -= 1;
        self.process.of(self.kind).fetch_sub(1, Relaxed);
    }
}
