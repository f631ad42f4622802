// SPDX-License-Identifier: GPL-2.0
//! Operations of DBG_TRAP by which a debugger takes queues off the hardware.

use hw::exceptions::ExceptionSet;
use kernel::prelude::*;

use super::DebugTarget;
use crate::kern::{uaccess_ext, uapi};
use crate::process::debug::{NamedQueue, QueueOutcome};

/// The most queues that one call may name: as many as amdkfd allows a process.
const MOST_QUEUES: u32 = 1024;
/// Bits of a queue's number in the answer: there is no such queue, or the hardware failed.
const INVALID: u32 = 1 << uapi::KFD_DBG_QUEUE_INVALID_BIT;
const FAILED: u32 = 1 << uapi::KFD_DBG_QUEUE_ERROR_BIT;

/// The caller's array of queues.
struct QueueArray {
    address: u64,
    queues: KVVec<NamedQueue>,
}

impl QueueArray {
    /// Reads `count` numbers at `address`. A queue that is named twice counts once.
    ///
    /// # Errors
    ///
    /// `EINVAL` without an address, or for too many; `EFAULT`; `ENOMEM`.
    fn read(address: u64, count: u32) -> Result<Self> {
        if address == 0 && count != 0 || count > MOST_QUEUES {
            return Err(EINVAL);
        }
        let mut queues = KVVec::<NamedQueue>::with_capacity(count as usize, GFP_KERNEL_ACCOUNT)?;
        for index in 0..count {
            let number: u32 = uaccess_ext::read_element(address, index)?;
            let id = number & !INVALID;
            // No queue has the number 0.
            let is_known = queues.iter().any(|queue| queue.id == id);
            let named = NamedQueue {
                id: if is_known { 0 } else { id },
                number: id,
                outcome: QueueOutcome::Invalid,
            };
            queues.push(named, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(Self { address, queues })
    }

    /// Writes the numbers back, with what has become of the queues. As in amdkfd, the caller does
    /// not learn if that fails: the queues are suspended or resumed all the same.
    fn write(&self) {
        for (index, queue) in (0..).zip(&self.queues) {
            let number = match queue.outcome {
                QueueOutcome::Invalid => queue.number | INVALID,
                QueueOutcome::Done => queue.number,
                QueueOutcome::Failed => queue.number | FAILED,
            };
            if uaccess_ext::write_element(self.address, index, &number).is_err() {
                return;
            }
        }
    }
}

impl DebugTarget<'_> {
    /// SUSPEND_QUEUES: takes queues off the hardware, and writes how their waves are saved to their
    /// save areas. The period of grace is ignored: waves are saved at once.
    ///
    /// # Errors
    ///
    /// `EINVAL` without an array, or for one that is too long; `EFAULT`; `ENOMEM`.
    pub(super) fn suspend_queues(self, args: &mut uapi::DbgSuspendQueues) -> Result<u32> {
        let mut array = QueueArray::read(args.queue_array_ptr, args.num_queues)?;
        let clear = ExceptionSet::from_bits(args.exception_mask);
        let suspended = self.process.suspend_queues(&mut array.queues, clear)?;
        if suspended > 0 {
            self.process.write_save_areas(&self.task)?;
        }
        array.write();
        Ok(suspended)
    }

    /// RESUME_QUEUES: lets queues run again; all of them without an array.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an array that is too long; `EFAULT`; `ENOMEM`.
    pub(super) fn resume_queues(self, args: &mut uapi::DbgResumeQueues) -> Result<u32> {
        if args.queue_array_ptr == 0 {
            return self.process.resume_all_queues();
        }
        let mut array = QueueArray::read(args.queue_array_ptr, args.num_queues)?;
        let resumed = self.process.resume_queues(&mut array.queues)?;
        array.write();
        Ok(resumed)
    }
}
