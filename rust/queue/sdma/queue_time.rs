// SPDX-License-Identifier: GPL-2.0
//! The time for which a queue is in a slot and has jobs there.

use crate::mem::queue_group::QueueGroup;
use crate::mem::stopwatch::Stopwatch;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::Delta;

/// The time of a queue, and its share in that of its process.
#[pin_data]
pub(super) struct QueueTime {
    /// Counts the time in which an engine has something of the process to do.
    group: Arc<QueueGroup>,
    /// The same, of this queue alone.
    #[pin]
    own: Stopwatch,
}

impl QueueTime {
    /// Returns the time of a queue of `group`, zero.
    pub(super) fn new(group: Arc<QueueGroup>) -> impl PinInit<Self> {
        pin_init!(Self {
            group,
            own <- Stopwatch::new(),
        })
    }

    /// Returns the queue's time so far.
    pub(super) fn total(&self) -> Delta {
        self.own.total()
    }
}

/// Whether a queue's time is being counted: a part of the queue's state, under its lock, inside
/// which the stopwatches have theirs.
#[derive(Default)]
pub(super) struct QueueTimeState {
    /// The queue is in a slot.
    pub(super) seated: bool,
    counted: bool,
}

impl QueueTimeState {
    /// Counts the time in which the queue is in a slot and has `jobs` there, not zero. Called after
    /// each change of either.
    pub(super) fn count(&mut self, jobs: usize, time: &QueueTime) {
        let busy = self.seated && jobs != 0;
        if busy == self.counted {
            return;
        }
        self.counted = busy;
        let watches = [time.group.sdma(), &time.own];
        if busy {
            watches.iter().for_each(|watch| watch.start());
        } else {
            watches.iter().for_each(|watch| watch.stop());
        }
    }
}
