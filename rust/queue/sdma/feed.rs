// SPDX-License-Identifier: GPL-2.0
//! The hardware ring of a scheduled queue: kernel memory in the process's VM, into which jobs copy
//! the process's packets.

use super::queue_time::{QueueTime, QueueTimeState};
use super::ring_memory::{RingLease, RingMemory, STATUS_FENCE};
use crate::kern::fence::{Fence, HwFence};
use crate::mem::vm::Vm;
use crate::mem::GpuMemory;
use crate::queue::pointers::QueuePointers;
use crate::queue::spare::SpareMemory;
use crate::ring::flight::{self, JobsInFlight};
use hw::sdma::length::{self, PacketLength};
use hw::sdma::packet;
use hw::sdma::ring::{phase, RingSize};
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::{Arc, SpinLock};
use kernel::time::Delta;

/// Smallest hardware ring: a page.
const MIN_BYTES: u64 = 4096;
/// Largest ring of a process. Its copy takes twice as much, in one run of addresses.
const MAX_USER_BYTES: u64 = 64 << 20;
/// Context of the TRAP that ends a job of a scheduled queue. It is no number of an event. The TRAP
/// comes with the PASID of the process, which has nothing to do with it.
pub(crate) const END_OF_JOB: u32 = 0x0eed_0f0b;
/// Dwords that end a job: FENCE and TRAP.
const END_DWORDS: u32 = 6;
/// Most dwords that a job takes beside its packets: NOPs up to the packets' phase, and the end.
const OVERHEAD_DWORDS: u32 = hw::sdma::ring::FETCH_DWORDS as u32 - 1 + END_DWORDS;
/// Bytes of a TRAP.
const LAST_TRAP: u64 = length::TRAP_DWORDS as u64 * 4;
/// Dwords copied at a time.
const CHUNK: usize = 64;
/// Most packets of a job.
pub(super) const JOB_PACKETS: u32 = 1024;
/// Most bytes of a job that is more than one packet: enough for [`JOB_PACKETS`] copies of usual
/// forms.
const JOB_BYTES: u64 = 64 << 10;
const _: () = assert!(JOB_BYTES >= 13 * 4 * JOB_PACKETS as u64);
/// Bytes of copies from which on a job counts as long: a link to the CPU takes some 0.1 ms for
/// them.
const LONG_JOB: u64 = 2 << 20;

/// The rings of a scheduled queue and the jobs between them. Byte counts never wrap.
#[pin_data]
pub(super) struct RingFeed {
    pub(super) pointers: QueuePointers,
    #[pin]
    state: SpinLock<FeedState>,
    /// Inside `state`.
    #[pin]
    time: QueueTime,
    memory: RingLease,
}

struct FeedState {
    /// Bytes of the process that are done: its read pointer.
    done: u64,
    /// Bytes of the process that jobs were made of.
    taken: u64,
    /// Batches taken and not done.
    jobs: usize,
    /// Position up to which the hardware ring is written.
    written: u64,
    /// Read pointer of the hardware when it last gave the queue up.
    rptr: u64,
    flight: JobsInFlight<FedJob>,
    time: QueueTimeState,
    /// Reason why the queue takes no more packets.
    failed: Option<Error>,
}

/// A job in the hardware ring.
#[derive(Clone, Copy)]
struct FedJob {
    batch: FeedBatch,
    /// Byte count of the process's ring up to which packets are copied before the job's FENCE.
    copied: u64,
    /// Position in the hardware ring of the first packet.
    start: u64,
}

impl FedJob {
    /// The byte count in the process's ring that belongs to position `rptr` of the hardware ring.
    fn position(&self, rptr: u64) -> u64 {
        let done = rptr.saturating_sub(self.start);
        self.copied.min(self.batch.from.saturating_add(done))
    }
}

impl FeedState {
    /// See [`QueueTimeState::count`].
    fn count(&mut self, time: &QueueTime) {
        self.time.count(self.flight.count(), time);
    }
}

/// Bytes of the process's ring that one job is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct FeedBatch {
    /// Byte count of the first.
    pub(super) from: u64,
    /// Byte count after the last.
    pub(super) to: u64,
    /// The last packet is a TRAP.
    traps: bool,
}

impl FeedBatch {
    /// Dwords of the hardware ring that the job takes at most.
    pub(super) fn credits(&self) -> u32 {
        ((self.to - self.from) / 4) as u32 + OVERHEAD_DWORDS
    }
}

/// The packets that a look at queues may still take: other threads wait for its end.
pub(super) struct FeedBudget {
    packets: u32,
    more: bool,
    long: bool,
}

impl FeedBudget {
    /// Returns a budget of `packets` packets.
    pub(super) const fn new(packets: u32) -> Self {
        Self {
            packets,
            more: false,
            long: false,
        }
    }

    /// Returns whether no packet is left of it.
    pub(super) fn is_spent(&self) -> bool {
        self.packets == 0
    }

    /// Returns whether the look left packets in a ring, for another look.
    pub(super) fn has_left_more(&self) -> bool {
        self.more
    }

    /// Returns whether a batch may keep its engine busy for long.
    pub(super) fn has_long_job(&self) -> bool {
        self.long
    }
}

/// Dwords of the process's ring, which are read [`CHUNK`] at a time since packets are short.
pub(super) struct ReadAhead<'a> {
    pointers: &'a QueuePointers,
    /// Byte counts of the first dword that was read, and after the last.
    from: u64,
    to: u64,
    dwords: [u32; CHUNK],
}

impl<'a> ReadAhead<'a> {
    /// Reads nothing yet.
    pub(super) fn new(pointers: &'a QueuePointers) -> Self {
        Self {
            pointers,
            from: 0,
            to: 0,
            dwords: [0; CHUNK],
        }
    }

    /// Returns the dwords from byte count `at` on that tell the length of a packet, or those that
    /// are there before `to`. `None` if they cannot be read. `at` never goes back.
    pub(super) fn header(&mut self, at: u64, to: u64) -> Option<&[u32]> {
        let left = ((to - at) / 4).min(CHUNK as u64) as usize;
        let count = left.min(length::HEADER_DWORDS);
        if at + count as u64 * 4 > self.to {
            let dwords = self.dwords.get_mut(..left)?;
            self.to = self.pointers.read_ring(at, dwords).ok()?;
            self.from = at;
        }
        let first = (at.checked_sub(self.from)? / 4) as usize;
        self.dwords.get(first..first + count)
    }
}

impl RingFeed {
    /// Makes the rings for a process's queue in `vm`, which count as its memory. The queue begins
    /// at byte count `begin` of the process's ring.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a ring that is too large to be copied; `ENOMEM`.
    pub(super) fn new(
        gpu: &GpuMemory,
        vm: &Arc<Vm>,
        spare: &Arc<SpareMemory<RingMemory>>,
        pointers: QueuePointers,
        begin: u64,
    ) -> Result<Arc<Self>> {
        let user = pointers.size().bytes();
        if user > MAX_USER_BYTES {
            return Err(EINVAL);
        }
        // Twice the process's ring: beside all packets that it can hold, the ends of all jobs fit.
        let size = RingSize::new((2 * user).max(MIN_BYTES)).map_err(|_| EINVAL)?;
        const { assert!(flight::MAX as u64 * OVERHEAD_DWORDS as u64 * 4 + 1024 + 32 <= MIN_BYTES) };
        let memory = RingLease::new(gpu, vm, spare, size)?;
        Arc::pin_init(
            pin_init!(Self {
                pointers,
                state <- new_spinlock!(
                    FeedState {
                        done: begin,
                        taken: begin,
                        jobs: 0,
                        written: 0,
                        rptr: 0,
                        flight: JobsInFlight::new(),
                        time: QueueTimeState::default(),
                        failed: None,
                    },
                    "RingFeed::state"
                ),
                time <- QueueTime::new(vm.group().clone()),
                memory,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Returns the time in which an engine had the queue and packets of it to do.
    pub(super) fn time(&self) -> Delta {
        self.time.total()
    }

    /// Returns the hardware ring.
    pub(super) fn memory(&self) -> &RingMemory {
        &self.memory
    }

    /// Returns the credits that the hardware ring has for jobs.
    pub(super) fn credits(&self) -> u32 {
        self.memory.size.capacity() as u32 / 4
    }

    /// Takes the packets that the process has put into its ring since the last call, as many as may
    /// be of one job and within `budget`; `doorbell` is the value of its doorbell, if that is
    /// known. `None` if no new packet is there as a whole, no more jobs may be made for now, or the
    /// budget is spent. Called by one thread at a time.
    pub(super) fn fetch(
        &self,
        doorbell: Option<u64>,
        budget: &mut FeedBudget,
    ) -> Option<FeedBatch> {
        let wptr = self.pointers.write_pointer();
        let (done, from) = {
            let state = self.state.lock();
            if state.failed.is_some() || state.jobs >= flight::MAX {
                return None;
            }
            (state.done, state.taken)
        };
        let announced = [doorbell.unwrap_or(wptr), wptr];
        let to = self.pointers.furthest(done, from, announced);
        let batch = self.batch(from, to, budget);
        if batch.to == from {
            return None;
        }
        let mut state = self.state.lock();
        state.taken = batch.to;
        state.jobs += 1;
        Some(batch)
    }

    /// Returns the packets between the byte counts that are there as a whole, no further than one
    /// job and `budget` go. The hardware would wait for the rest of an incomplete packet, and later
    /// packets with it. Dwords that are no packet are passed to the hardware, which refuses them.
    fn batch(&self, from: u64, to: u64, budget: &mut FeedBudget) -> FeedBatch {
        let most = to.min(from + JOB_BYTES);
        let mut ahead = ReadAhead::new(&self.pointers);
        let mut at = from;
        let mut traps = false;
        let mut work = Some(0u64);
        for _ in 0..JOB_PACKETS {
            if at >= to || budget.is_spent() {
                break;
            }
            budget.packets -= 1;
            let header = ahead.header(at, to);
            let length = header.map_or(PacketLength::Unknown, length::of);
            let more = header.and_then(length::work);
            let end = match length {
                PacketLength::Dwords(dwords) => at + u64::from(dwords) * 4,
                PacketLength::Incomplete(_) => {
                    return FeedBatch {
                        from,
                        to: at,
                        traps,
                    }
                }
                PacketLength::Unknown => most.max(at),
            };
            if end > to {
                return FeedBatch {
                    from,
                    to: at,
                    traps,
                };
            }
            if end > most && at != from {
                break;
            }
            at = end;
            traps =
                header.is_some_and(|header| header.first().copied().is_some_and(length::is_trap));
            work = work.and_then(|work| work.checked_add(more?));
            budget.long |= work.is_none_or(|work| work >= LONG_JOB);
            if length == PacketLength::Unknown {
                break;
            }
        }
        budget.more |= at < to;
        FeedBatch {
            from,
            to: at,
            traps,
        }
    }

    /// Gives back the batch that [`RingFeed::fetch`] took last, of which no job could be made.
    pub(super) fn put_back(&self, batch: FeedBatch) {
        let mut state = self.state.lock();
        state.taken = batch.from;
        state.jobs -= 1;
    }

    /// Returns the number of jobs under way, in the scheduler or in the hardware ring.
    pub(super) fn jobs(&self) -> usize {
        self.state.lock().jobs
    }

    /// Returns whether jobs are under way, in the scheduler or in the hardware ring.
    pub(super) fn is_busy(&self) -> bool {
        let state = self.state.lock();
        state.failed.is_none() && state.taken != state.done
    }

    /// Returns whether jobs are under way, or the process's write pointer announces more packets.
    pub(super) fn wants_to_run(&self) -> bool {
        let wptr = self.pointers.write_pointer();
        let state = self.state.lock();
        let (done, taken) = (state.done, state.taken);
        taken != done || self.pointers.furthest(done, taken, [wptr, taken]) != taken
    }

    /// Returns whether the hardware ring has jobs that are not done.
    pub(super) fn is_loaded(&self) -> bool {
        self.state.lock().flight.count() != 0
    }

    /// Returns whether the batch that [`RingFeed::fetch`] returned last is all that the queue has
    /// to do. Then the thread that called it may put the job into the hardware ring itself, which
    /// no other thread does.
    pub(super) fn is_only(&self) -> bool {
        let state = self.state.lock();
        state.jobs == 1 && state.flight.count() == 0
    }

    /// Copies a batch into the hardware ring and ends it with FENCE and TRAP. A TRAP of the
    /// process's that is the batch's last packet comes after the FENCE, and is the only one: one
    /// interrupt tells the process and the driver.
    ///
    /// Called by the queue's scheduler, one job after the other, with the credits for it; or as
    /// [`RingFeed::is_only`] says.
    ///
    /// # Errors
    ///
    /// The error of a queue that has failed.
    pub(super) fn emit(&self, batch: FeedBatch, fence: HwFence) -> Result<ARef<Fence>> {
        let handle = fence.fence();
        let (written, sequence) = {
            let state = self.state.lock();
            if let Some(error) = state.failed {
                return Err(error);
            }
            (state.written, state.flight.next())
        };
        // Packets keep their place within a fetch: INDIRECT must end where a fetch ends.
        let pad = self.memory.size.pad_to_phase(written, phase(batch.from)) as usize;
        let mut chunk = [0; CHUNK];
        let mut at = written;
        if let Some(nops) = chunk.get_mut(..pad) {
            packet::pad(nops);
            at = self.memory.write(at, nops)?;
        }
        let trap = self.last_trap(batch)?;
        let to = match trap {
            Some(_) => batch.to - LAST_TRAP,
            None => batch.to,
        };
        let job = FedJob {
            batch,
            copied: to,
            start: at,
        };
        let mut from = batch.from;
        while from < to {
            let dwords = CHUNK.min(((to - from) / 4) as usize);
            let part = chunk.get_mut(..dwords).ok_or(EINVAL)?;
            from = self.pointers.read_ring(from, part)?;
            at = self.memory.write(at, part)?;
        }
        at = self
            .memory
            .write(at, &packet::fence(self.memory.fence_address(), sequence))?;
        at = self
            .memory
            .write(at, &trap.unwrap_or(packet::trap(END_OF_JOB)))?;

        let mut state = self.state.lock();
        if let Some(error) = state.failed {
            return Err(error);
        }
        // A fence that finds no room is dropped, and thereby fails.
        state.flight.push(job, fence).map_err(|_| EBUSY)?;
        state.written = at;
        state.count(&self.time);
        Ok(handle)
    }

    /// Returns the TRAP that ends the batch, if one does. The process may have changed its ring
    /// since the packets were looked at: what is no TRAP any more is copied like all else.
    fn last_trap(&self, batch: FeedBatch) -> Result<Option<[u32; length::TRAP_DWORDS as usize]>> {
        if !batch.traps {
            return Ok(None);
        }
        let mut trap = [0; length::TRAP_DWORDS as usize];
        self.pointers.read_ring(batch.to - LAST_TRAP, &mut trap)?;
        Ok(Some(trap).filter(|trap| length::is_trap(trap[0])))
    }

    /// Ends the jobs that the hardware has done, and returns whether there were any. Any process
    /// context, no locks held.
    pub(super) fn check(&self) -> bool {
        let Ok(value) = self.memory.status.read64(STATUS_FENCE) else {
            return false;
        };
        let mut any = false;
        loop {
            let mut state = self.state.lock();
            let Some((job, fence)) = state.flight.pop(value as u32) else {
                return any;
            };
            let done = job.batch.to;
            // Under the lock, so that the process never sees its pointer go back.
            state.done = done;
            state.jobs = state.jobs.saturating_sub(1);
            self.pointers.set_read_pointer(done);
            state.count(&self.time);
            drop(state);
            fence.signal(Ok(()));
            any = true;
        }
    }

    /// Stops the queue: it takes no more packets, and its jobs fail with `error`. The first error
    /// stays.
    pub(super) fn fail(&self, error: Error) {
        self.state.lock().failed.get_or_insert(error);
        loop {
            let taken = {
                let mut state = self.state.lock();
                let taken = state.flight.pop_oldest();
                state.count(&self.time);
                taken
            };
            match taken {
                Some((_, fence)) => fence.signal(Err(error)),
                None => break,
            }
        }
    }

    /// Returns the byte count of the process's ring that the hardware has come to, when it last
    /// gave the queue up.
    pub(super) fn saved_position(&self) -> u64 {
        self.check();
        let state = self.state.lock();
        let oldest = state.flight.oldest();
        oldest.map_or(state.done, |job| job.position(state.rptr))
    }

    /// Returns the read and write pointer from which the hardware goes on.
    pub(super) fn position(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.rptr, state.written)
    }

    /// Notes that the queue is in a slot.
    pub(super) fn enter(&self) {
        let mut state = self.state.lock();
        state.time.seated = true;
        state.count(&self.time);
    }

    /// Notes that the hardware has given the queue up at `rptr`.
    pub(super) fn save(&self, rptr: u64) {
        let mut state = self.state.lock();
        state.rptr = rptr;
        state.time.seated = false;
        state.count(&self.time);
    }

    /// Returns the positions in the process's ring that are done and taken.
    pub(super) fn progress(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.done, state.taken)
    }
}
