// SPDX-License-Identifier: GPL-2.0
//! The hardware ring of a line of jobs: kernel memory in the client's VM, into which each job
//! writes the packets that execute its indirect buffers.

use super::feed::END_OF_JOB;
use super::queue_time::{QueueTime, QueueTimeState};
use super::ring_memory::{RingLease, RingMemory, STATUS_FENCE};
use crate::kern::fence::{Fence, HwFence};
use crate::mem::job_engine::{JobWork, UserFence, MOST_BUFFERS};
use crate::mem::vm::Vm;
use crate::mem::GpuMemory;
use crate::queue::spare::SpareMemory;
use crate::ring::flight::{self, JobsInFlight};
use hw::sdma::packet::{self, INDIRECT_PHASE};
use hw::sdma::ring::{RingSize, RingSpace, FETCH_DWORDS};
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::{Arc, SpinLock};
use kernel::time::Delta;

/// Bytes of the ring.
const BYTES: u64 = 4096;
/// Dwords that end a job: FENCE and TRAP.
const END_DWORDS: usize = 6;
/// Dwords of an INDIRECT, with the NOPs before it.
const BUFFER_DWORDS: usize = 6 + FETCH_DWORDS as usize - 1;
/// The dwords of packets that fit the ring at once, and the number of jobs.
const ROOM: RingSpace = RingSpace::new((BYTES / 4 - FETCH_DWORDS) as u32, flight::MAX as u32);
const _: () = assert!(ROOM
    .credits_of(MOST_BUFFERS * BUFFER_DWORDS + END_DWORDS)
    .is_some());
// Even of the smallest jobs the scheduler gives the ring no more than `JobsInFlight` holds.
const _: () = {
    let least = ROOM.credits_of(0).unwrap();
    assert!(least as usize * (flight::MAX + 1) > ROOM.credits() as usize);
};

/// The ring and the jobs in it. Byte counts never wrap.
#[pin_data]
pub(super) struct JobFeed {
    #[pin]
    state: SpinLock<JobFeedState>,
    /// Inside `state`.
    #[pin]
    time: QueueTime,
    memory: RingLease,
}

struct JobFeedState {
    /// Position up to which the ring is written.
    written: u64,
    /// Read pointer of the hardware when it last gave the queue up.
    rptr: u64,
    /// Each with the place that tells the client of its end. The job has it, too, until its fence
    /// is signalled: a reference here is never the last one before that.
    flight: JobsInFlight<Option<Arc<UserFence>>>,
    time: QueueTimeState,
    /// The queue's time when its oldest job became that.
    oldest: Delta,
    /// Reason why the queue takes no more jobs.
    failed: Option<Error>,
}

impl JobFeedState {
    /// See [`QueueTimeState::count`].
    fn count(&mut self, time: &QueueTime) {
        self.time.count(self.flight.count(), time);
    }
}

impl JobFeed {
    /// Makes the ring for jobs in `vm`, which counts as the client's memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOSPC`.
    pub(super) fn new(
        gpu: &GpuMemory,
        vm: &Arc<Vm>,
        spare: &Arc<SpareMemory<RingMemory>>,
    ) -> Result<Arc<Self>> {
        let size = RingSize::new(BYTES).map_err(|_| EINVAL)?;
        let memory = RingLease::new(gpu, vm, spare, size)?;
        Arc::pin_init(
            pin_init!(Self {
                state <- new_spinlock!(
                    JobFeedState {
                        written: 0,
                        rptr: 0,
                        flight: JobsInFlight::new(),
                        time: QueueTimeState::default(),
                        oldest: Delta::ZERO,
                        failed: None,
                    },
                    "JobFeed::state"
                ),
                time <- QueueTime::new(vm.group().clone()),
                memory,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Returns the credits of all jobs together, at most.
    pub(super) const fn credits() -> u32 {
        ROOM.credits()
    }

    /// Returns the credits of a job of `buffers` indirect buffers.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are too many.
    pub(super) fn credits_of(buffers: usize) -> Result<u32> {
        if buffers > MOST_BUFFERS {
            return Err(EINVAL);
        }
        ROOM.credits_of(buffers * BUFFER_DWORDS + END_DWORDS)
            .ok_or(EINVAL)
    }

    /// Returns the ring.
    pub(super) fn memory(&self) -> &RingMemory {
        &self.memory
    }

    /// Returns whether the ring has jobs that are not done.
    pub(super) fn is_loaded(&self) -> bool {
        self.state.lock().flight.count() != 0
    }

    /// Writes the packets of a job into the ring, which end with FENCE and TRAP. Called by the
    /// line's scheduler, one job after the other, with the credits for it. Allocates nothing.
    ///
    /// # Errors
    ///
    /// The error of a line that has failed.
    pub(super) fn emit(&self, work: &JobWork, fence: HwFence) -> Result<ARef<Fence>> {
        let handle = fence.fence();
        let mut state = self.state.lock();
        if let Some(error) = state.failed {
            return Err(error);
        }
        let memory = &self.memory;
        let mut at = state.written;
        for &buffer in &work.buffers {
            let mut nops = [0; FETCH_DWORDS as usize];
            let pad = memory.size.pad_to_phase(at, INDIRECT_PHASE) as usize;
            let nops = nops.get_mut(..pad).ok_or(EINVAL)?;
            packet::pad(nops);
            at = memory.write(at, nops)?;
            at = memory.write(at, &packet::indirect(buffer))?;
        }
        let status = memory.fence_address();
        at = memory.write(at, &packet::fence(status, state.flight.next()))?;
        at = memory.write(at, &packet::trap(END_OF_JOB))?;
        if state.flight.count() == 0 {
            state.oldest = self.time.total();
        }
        // A fence that finds no room is dropped, and thereby fails.
        let mark = work.user_fence.clone();
        state.flight.push(mark, fence).map_err(|_| EBUSY)?;
        state.written = at;
        state.count(&self.time);
        Ok(handle)
    }

    /// Ends the jobs that the hardware has done. Any process context, no locks held.
    pub(super) fn check(&self) {
        let Ok(value) = self.memory.status.read64(STATUS_FENCE) else {
            return;
        };
        loop {
            let mut state = self.state.lock();
            let Some((mark, fence)) = state.flight.pop(value as u32) else {
                return;
            };
            state.oldest = self.time.total();
            state.count(&self.time);
            drop(state);
            if let Some(place) = mark {
                place.write();
            }
            fence.signal(Ok(()));
        }
    }

    /// Returns whether the oldest job has had an engine for `limit`. The time in which others had
    /// the engine, or the address space was evicted, does not count.
    pub(super) fn is_overdue(&self, limit: Delta) -> bool {
        let state = self.state.lock();
        let had = self.time.total().as_nanos() - state.oldest.as_nanos();
        state.flight.count() != 0 && had >= limit.as_nanos()
    }

    /// Stops the queue: it takes no more jobs, and those in it fail with `error`. The first error
    /// stays.
    pub(super) fn fail(&self, error: Error) {
        self.state.lock().failed.get_or_insert(error);
        loop {
            let mut state = self.state.lock();
            let taken = state.flight.pop_oldest();
            state.count(&self.time);
            drop(state);
            match taken {
                Some((mark, fence)) => {
                    drop(mark);
                    fence.signal(Err(error));
                }
                None => break,
            }
        }
    }

    /// Returns the error that stopped the queue, if there was one.
    pub(super) fn error(&self) -> Option<Error> {
        self.state.lock().failed
    }

    /// Returns the read and write pointer from which the hardware goes on.
    pub(super) fn position(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.rptr, state.written)
    }

    /// Returns the time in which an engine had the queue and jobs of it to do.
    pub(super) fn time(&self) -> Delta {
        self.time.total()
    }

    /// Notes that the queue is in a slot.
    pub(super) fn enter(&self) {
        self.sit(true);
    }

    /// Notes that the hardware has given the queue up at `rptr`.
    pub(super) fn save(&self, rptr: u64) {
        self.state.lock().rptr = rptr;
        self.sit(false);
    }

    fn sit(&self, seated: bool) {
        let mut state = self.state.lock();
        state.time.seated = seated;
        state.count(&self.time);
    }
}
