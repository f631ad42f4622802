// SPDX-License-Identifier: GPL-2.0
//! Jobs that a ring holds, in the order in which the engine does them. Each has the number that a
//! FENCE packet at its end writes.

use crate::kern::fence::HwFence;
use kernel::prelude::*;

/// The most jobs that a ring holds at once.
pub(crate) const MAX: usize = 32;

struct JobInFlight<T> {
    sequence: u32,
    mark: T,
    fence: HwFence,
}

/// The jobs in a ring: at most [`MAX`]. Each has a `T` of the ring's owner. Nothing here allocates.
pub(crate) struct JobsInFlight<T> {
    jobs: [Option<JobInFlight<T>>; MAX],
    first: usize,
    count: usize,
    /// The last number given to a job.
    issued: u32,
    /// The last number that the engine wrote.
    done: u32,
}

impl<T> JobsInFlight<T> {
    /// No jobs.
    pub(crate) const fn new() -> Self {
        Self {
            jobs: [const { None }; MAX],
            first: 0,
            count: 0,
            issued: 0,
            done: 0,
        }
    }

    /// How many jobs there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The mark of the oldest job.
    pub(crate) fn oldest(&self) -> Option<&T> {
        Some(&self.jobs.get(self.first)?.as_ref()?.mark)
    }

    /// The numbers last given to a job, and last seen as done.
    pub(crate) fn sequence(&self) -> (u32, u32) {
        (self.issued, self.done)
    }

    /// The number for the next job.
    pub(crate) fn next(&self) -> u32 {
        self.issued.wrapping_add(1)
    }

    /// Adds a job under the number of [`JobsInFlight::next`]; `mark` is returned with its fence.
    ///
    /// # Errors
    ///
    /// Returns the fence if there is no room.
    pub(crate) fn push(&mut self, mark: T, fence: HwFence) -> Result<(), HwFence> {
        let place = (self.first + self.count) % MAX;
        match self.jobs.get_mut(place) {
            Some(free) if self.count < MAX => {
                self.issued = self.issued.wrapping_add(1);
                *free = Some(JobInFlight {
                    sequence: self.issued,
                    mark,
                    fence,
                });
                self.count += 1;
                Ok(())
            }
            _ => Err(fence),
        }
    }

    /// Takes the oldest job out if its number is at or before `value`, which was read from memory.
    /// Returns its mark and fence. A value beyond the numbers given so far, which only a packet of
    /// a user can have written, belongs to no job.
    pub(crate) fn pop(&mut self, value: u32) -> Option<(T, HwFence)> {
        let oldest = self.jobs.get(self.first)?.as_ref()?;
        let given = self.issued.wrapping_sub(value) as i32 >= 0;
        let reached = value.wrapping_sub(oldest.sequence) as i32 >= 0;
        if given && reached {
            self.pop_oldest()
        } else {
            None
        }
    }

    /// Takes the oldest job out, whether it is done or not.
    pub(crate) fn pop_oldest(&mut self) -> Option<(T, HwFence)> {
        let job = self.jobs.get_mut(self.first)?.take()?;
        self.first = (self.first + 1) % MAX;
        self.count -= 1;
        self.done = job.sequence;
        Some((job.mark, job.fence))
    }
}
