// SPDX-License-Identifier: GPL-2.0
//! Direct queues: the engine reads the process's own ring, and the process rings the hardware's
//! doorbell.

use crate::queue::pointers::QueuePointers;
use kernel::sync::atomic::{Atomic, Relaxed};

/// Memory of a direct queue, and its position when it was last taken off the hardware.
pub(super) struct DirectQueue {
    pub(super) pointers: QueuePointers,
    rptr: Atomic<u64>,
}

impl DirectQueue {
    /// Returns a queue that begins at byte count `from`.
    pub(super) fn new(pointers: QueuePointers, from: u64) -> Self {
        Self {
            pointers,
            rptr: Atomic::new(from),
        }
    }

    /// Returns the read and write pointer from which the hardware goes on. A write pointer that
    /// makes no sense counts as none; a doorbell that makes sense will follow.
    pub(super) fn position(&self) -> (u64, u64) {
        let rptr = self.rptr.load(Relaxed);
        let wptr = self.pointers.write_pointer();
        (rptr, self.pointers.furthest(rptr, rptr, [wptr, rptr]))
    }

    /// Returns whether there are packets that were not read; `out` says that no engine has the
    /// queue. While an engine has it, only the process's memory tells: a value that makes no sense
    /// may be taken for work.
    pub(super) fn has_work(&self, out: bool) -> bool {
        if out {
            let (rptr, wptr) = self.position();
            rptr != wptr
        } else {
            self.pointers.read_pointer() != self.pointers.write_pointer()
        }
    }

    /// Notes that the hardware has come to `rptr`.
    pub(super) fn save(&self, rptr: u64) {
        self.rptr.store(rptr, Relaxed);
        self.pointers.set_read_pointer(rptr);
    }
}
