// SPDX-License-Identifier: GPL-2.0
//! Scheduling by the driver: it loads queues into the HQDs of the micro engine for user queues
//! ([`hw::queue::MecInfo::user`]) itself and gives their processes VMIDs.
//!
//! When there are more queues with work than HQDs, or more of their processes than VMIDs, they take
//! turns of equal length in one order, and the queue that has been on the hardware longest leaves.
//! A queue without work leaves at once, and does not push another one out. Doorbells of a queue
//! that is not on the hardware have no effect, so the driver looks at the write pointers of such
//! queues.
//!
//! One work item does everything to the hardware. A thread that wants a change puts that into the
//! table, and waits for a change of the table.

use super::change::QueueChange;
use super::queue::{ComputeFailure, ComputeQueue};
use super::scheduler::{ComputeScheduler, QueuePlacement};
use super::table::{HqdEntry, HqdSlots, HqdTable, LoadedQueue, PreemptStep, QUANTUM_MS};
use crate::ip::gfx::Gfx;
use crate::kern::ratelimit::{dev_err_ratelimited, dev_warn_ratelimited};
use crate::kern::workqueue;
use crate::mem::queue_group::QuiesceTimeout;
use crate::mem::GpuMemory;
use crate::queue::request::QueueOwner;
use core::fmt;
use hw::queue::MecInfo;
use hw::seat::Seat;
use kernel::prelude::*;
use kernel::sync::{new_condvar, new_mutex, Arc, CondVar, Mutex, MutexGuard};
use kernel::time::delay::fsleep;
use kernel::time::{msecs_to_jiffies, Delta, Instant};
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};
use kernel::{dev_err, dev_warn};

/// Time between two looks at a queue that was asked to leave, milliseconds.
const LEAVE_POLL_MS: i64 = 1;
/// Time before the first look at queues that were asked to leave just now: most are gone at once.
const PROMPT_PAUSE: Delta = Delta::from_micros(200);
/// The most such looks in a row of one run of the work item, if no queue comes in for those that
/// leave.
const PROMPT: u32 = 20;
/// Of the HQDs, one in so many may have a queue with work that leaves, at a time. The others have
/// the hardware meanwhile, so that no turn is one among few.
const LEAVE_AT_ONCE: usize = 8;
/// Time between two looks at the write pointers of queues that are out, milliseconds.
const WORK_POLL_MS: i64 = 5;
/// Time that the saving of a queue's waves may take, milliseconds.
const SAVE_MS: i64 = 2000;
/// Time that a queue may take to leave after its waves were reset, and after its pipe was,
/// milliseconds.
const RESET_MS: i64 = 500;
/// The most queues that a GPU takes.
const MOST: usize = 4096;

/// The scheduler.
pub(super) struct DirectScheduler(Arc<DirectShared>);

/// The state that the scheduler and its work item share.
#[pin_data]
struct DirectShared {
    gfx: Arc<Gfx>,
    /// Processes were to be isolated from each other. It refuses to start then.
    isolates: bool,
    /// Nothing is allocated under it.
    #[pin]
    table: Mutex<HqdTable>,
    /// The table changed.
    #[pin]
    changed: CondVar,
    #[pin]
    turn: DelayedWork<Self>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for DirectShared { self.turn }
}

impl WorkItem for DirectShared {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let mut left = PROMPT;
        loop {
            let mut table = this.table.lock();
            let last = table.last();
            let next = this.step(&mut table);
            left = if table.last() == last {
                left - 1
            } else {
                PROMPT
            };
            let soon = left != 0 && table.leaving() != 0;
            if let (Some(ms), false, false) = (next, soon, table.closed) {
                let delay = msecs_to_jiffies(ms.max(1) as u32);
                let _ = workqueue::highpri().enqueue_delayed(this.clone(), delay);
            }
            drop(table);
            this.changed.notify_all();
            if !soon {
                break;
            }
            fsleep(PROMPT_PAUSE);
        }
    }
}

/// The sooner of two times in milliseconds, of which one may be never.
fn sooner(one: Option<i64>, other: i64) -> Option<i64> {
    Some(one.map_or(other, |one| one.min(other)))
}

impl DirectShared {
    /// Does all that can be done now. Returns the milliseconds until there may be more.
    fn step(&self, table: &mut HqdTable) -> Option<i64> {
        let HqdTable { entries, hqds, .. } = &mut *table;
        for entry in entries.iter_mut() {
            follow(entry, hqds);
            entry.poll();
            if !entry.is_wanted() || entry.yields_vmid() {
                entry.preempt();
            }
        }
        for pipe in 0..self.gfx.mec().pipes {
            self.reset_pipe(table, pipe);
        }
        let mut next = self.fill(table);
        for entry in &table.entries {
            match entry.seat {
                Seat::Leaving(..) => next = sooner(next, LEAVE_POLL_MS),
                Seat::Out if entry.is_wanted() => next = sooner(next, WORK_POLL_MS),
                _ => {}
            }
        }
        next
    }

    /// Loads queues that wait, as far as there is room, and asks others to leave for them. Returns
    /// the milliseconds until a queue that has not had its turn will have had it.
    fn fill(&self, table: &mut HqdTable) -> Option<i64> {
        match self.load_all(table) {
            Ok(()) => {
                table.set_crowded(false);
                None
            }
            Err(LoadFailure::Hqds) => {
                table.set_crowded(true);
                make_room(table, self.gfx.mec())
            }
            Err(LoadFailure::Vmids(ms)) => Some(ms),
        }
    }

    /// Loads queues that wait with work, and those without if there is still room.
    fn load_all(&self, table: &mut HqdTable) -> Result<(), LoadFailure> {
        while let Some(index) = table.next_to_load(true) {
            self.load(table, index)?;
            table.start_quantum(index);
        }
        // Doorbells of queues that have no work yet have an effect, where an HQD is free.
        while let Some(index) = table.next_to_load(false) {
            if self.load(table, index).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Loads entry `index`, which is out. A queue that cannot be loaded for another reason than
    /// room has failed.
    fn load(&self, table: &mut HqdTable, index: usize) -> Result<(), LoadFailure> {
        let hqd = table.free_hqd(self.gfx.mec()).ok_or(LoadFailure::Hqds)?;
        let Some(entry) = table.entries.get_mut(index) else {
            return Ok(());
        };
        let queue = &entry.queue;
        let (vmids, pasid) = (&queue.gpu.hw.vmids, queue.owner.pasid);
        if entry.has_work() {
            if !vmids.ask(pasid) {
                let wait = vmids.wait(pasid, QUANTUM_MS);
                if wait.notifies {
                    vmids.notify();
                }
                return Err(LoadFailure::Vmids(wait.ms));
            }
        } else if !vmids.has_room(pasid) {
            return Err(LoadFailure::Vmids(WORK_POLL_MS));
        }
        let vmid = match queue.vm().use_vmid(pasid) {
            Err(ENOSPC) => return Err(LoadFailure::Vmids(WORK_POLL_MS)),
            other => other,
        };
        let loaded = vmid.and_then(|vmid| {
            let number = vmid.vmid().get();
            queue.descriptor.change(|image| image.prepare(number))?;
            vmid.set_trap_handler(queue.trap_handler());
            vmid.set_retries();
            queue.trace_restore(&queue.descriptor.image()?);
            let image = |xcc| queue.descriptor.image_of(xcc);
            Ok(LoadedQueue {
                hqd: self.gfx.load(hqd, &image)?,
                vmid,
            })
        });
        entry.since = Instant::now();
        match loaded {
            Ok(loaded) => table.enter(index, loaded),
            Err(error) => {
                let owner = queue.owner;
                dev_err_ratelimited!(
                    process owner.pid,
                    &*queue.gpu.hw.dev,
                    "queue {} of process {} cannot be loaded: {error:?}\n",
                    owner.queue,
                    owner.pid
                );
                queue.fail(ComputeFailure::Harm);
            }
        }
        Ok(())
    }

    /// Resets `pipe` if a queue needs that, once all others have left it.
    fn reset_pipe(&self, table: &mut HqdTable, pipe: u8) {
        let is_here = |entry: &HqdEntry| entry.hqd().is_some_and(|hqd| hqd.pipe() == pipe);
        let hangs = |entry: &HqdEntry| matches!(entry.seat, Seat::Leaving(_, PreemptStep::Pipe));
        if !table
            .entries
            .iter()
            .any(|entry| is_here(entry) && hangs(entry))
        {
            return;
        }
        let mut others = false;
        for entry in table.entries.iter_mut().filter(|entry| is_here(entry)) {
            if !hangs(entry) && !entry.seat.is_stuck() {
                entry.preempt();
                others = true;
            }
        }
        if others {
            return;
        }
        self.gfx.reset_pipe(pipe);
        for entry in table.entries.iter_mut() {
            if is_here(entry) && hangs(entry) {
                entry.reseat(|loaded| Seat::Leaving(loaded, PreemptStep::PipeReset));
            }
        }
    }

    fn wake(self: &Arc<Self>) {
        workqueue::run_in(workqueue::highpri(), self.clone(), 0);
    }

    /// Waits until `queue`, which must not be on the hardware any more, is off it.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` when it does not leave.
    fn wait_off(
        self: &Arc<Self>,
        table: &mut MutexGuard<'_, HqdTable>,
        queue: &ComputeQueue,
    ) -> Result {
        self.wake();
        loop {
            match table.find(queue).map(|entry| &entry.seat) {
                None | Some(Seat::Out) => return Ok(()),
                Some(Seat::Stuck(_)) => return Err(ETIMEDOUT),
                Some(Seat::Loading(..) | Seat::In(_) | Seat::Leaving(..)) => {
                    self.changed.wait(table)
                }
            }
        }
    }

    /// Has `queue` be off the hardware and stay off, until its `off` is counted down.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` when it does not leave.
    fn unload(self: &Arc<Self>, queue: &ComputeQueue) -> Result {
        let mut table = self.table.lock();
        if let Some(entry) = table.find(queue) {
            entry.off += 1;
        }
        self.wait_off(&mut table, queue)
    }
}

/// The reason why a queue is not loaded.
enum LoadFailure {
    /// There is no free HQD.
    Hqds,
    /// It is not the turn of its process to have a VMID. It may be in so many milliseconds.
    Vmids(i64),
}

/// Asks as many queues to leave as there are others that wait, some at a time. Returns the
/// milliseconds until the next one will have had its turn.
fn make_room(table: &mut HqdTable, mec: &MecInfo) -> Option<i64> {
    let most = (usize::from(mec.user_hqds()) / LEAVE_AT_ONCE).max(1);
    let waiting = table.waiting().min(most);
    while table.leaving() < waiting {
        match table.next_to_preempt() {
            Some((index, left)) if left <= 0 => table.end_turn(index),
            Some((_, left)) => return Some(left),
            None => return None,
        }
    }
    None
}

/// Looks at a queue that was asked to leave, and asks more urgently if it takes too long.
fn follow(entry: &mut HqdEntry, hqds: &mut HqdSlots) {
    let Seat::Leaving(loaded, step) = &entry.seat else {
        return;
    };
    if !loaded.hqd.is_active() {
        entry.left(hqds);
        return;
    }
    let (step, held) = (*step, entry.held_ms());
    match step {
        PreemptStep::Save if held >= SAVE_MS => {
            let owner = entry.queue.owner;
            dev_warn_ratelimited!(
                process owner.pid,
                &*entry.queue.gpu.hw.dev,
                "Queue preemption failed for queue {} of process {}: it does not leave the \
                 hardware, and is reset\n",
                owner.queue,
                owner.pid
            );
            entry.queue.hangs();
            entry.reseat(|loaded| {
                loaded.hqd.reset();
                Seat::Leaving(loaded, PreemptStep::Reset)
            });
        }
        PreemptStep::Reset if held >= RESET_MS => {
            entry.reseat(|loaded| Seat::Leaving(loaded, PreemptStep::Pipe));
        }
        PreemptStep::PipeReset if held >= RESET_MS => {
            let owner = entry.queue.owner;
            dev_err_ratelimited!(
                process owner.pid,
                &*entry.queue.gpu.hw.dev,
                "compute queue {} of process {} survives a reset of its pipe: its HQD is lost\n",
                owner.queue,
                owner.pid
            );
            entry.reseat(Seat::Stuck);
        }
        _ => {}
    }
}

impl DirectScheduler {
    /// A scheduler without queues.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(gfx: &Arc<Gfx>, isolates: bool) -> Result<Arc<Self>> {
        let shared = Arc::pin_init(
            pin_init!(DirectShared {
                gfx: gfx.clone(),
                isolates,
                table <- new_mutex!(HqdTable::new(), "DirectScheduler::table"),
                changed <- new_condvar!("DirectScheduler::changed"),
                turn <- new_delayed_work!("DirectScheduler::turn"),
            }),
            GFP_KERNEL,
        )?;
        Ok(Arc::new(Self(shared), GFP_KERNEL)?)
    }
}

impl ComputeScheduler for DirectScheduler {
    fn start(&self, gpu: &GpuMemory) -> Result {
        if self.0.isolates {
            dev_err!(
                &*gpu.hw.dev,
                "enforce_isolation needs the hardware's scheduler: the GPU is not used with \
                 sched=direct\n"
            );
            return Err(EOPNOTSUPP);
        }
        Ok(())
    }

    fn add(&self, queue: Arc<ComputeQueue>) -> Result {
        let mut more = KVec::new();
        loop {
            let mut table = self.0.table.lock();
            let count = table.entries.len();
            if table.closed {
                return Err(ENODEV);
            }
            if count >= MOST {
                return Err(ENOSPC);
            }
            if count < table.entries.capacity() {
                let pushed = table.entries.push_within_capacity(HqdEntry::new(queue));
                drop(table);
                if pushed.is_err() {
                    return Err(ENOMEM);
                }
                break;
            }
            if more.capacity() > count {
                let mut old = core::mem::replace(&mut table.entries, core::mem::take(&mut more));
                for entry in old.drain_all() {
                    let _ = table.entries.push_within_capacity(entry);
                }
                drop(table);
                continue;
            }
            drop(table);
            more = KVec::with_capacity(count.saturating_mul(2).max(32), GFP_KERNEL)?;
        }
        self.0.wake();
        Ok(())
    }

    fn remove(&self, queue: &ComputeQueue) -> Result {
        self.0.unload(queue)?;
        let mut table = self.0.table.lock();
        let gone = table
            .position(queue)
            .and_then(|index| table.entries.remove(index).ok());
        drop(table);
        drop(gone);
        Ok(())
    }

    fn update(&self, queue: &ComputeQueue, mut change: QueueChange) -> Result {
        let taken = self.0.unload(queue);
        let result = taken.and_then(|()| change.make(queue));
        let mut table = self.0.table.lock();
        if let Some(entry) = table.find(queue) {
            entry.off = entry.off.saturating_sub(1);
            entry.since = Instant::now();
        }
        drop(table);
        self.0.wake();
        result
    }

    /// Waits for this queue alone, whatever the patience is.
    fn quiesce(&self, queue: &ComputeQueue, _patience: &QuiesceTimeout) {
        // One that is stuck has failed.
        let _ = self.0.wait_off(&mut self.0.table.lock(), queue);
    }

    fn resume(&self, _queue: &ComputeQueue) {
        self.0.wake();
    }

    fn vmids_changed(&self) {
        self.0.wake();
    }

    fn fail(
        &self,
        why: ComputeFailure,
        which: &dyn Fn(&QueuePlacement<'_>) -> bool,
    ) -> Option<QueueOwner> {
        let mut owner = None;
        let table = self.0.table.lock();
        for entry in table.entries.iter().filter(|entry| which(&entry.state())) {
            if entry.queue.fail(why) {
                owner = Some(entry.queue.owner);
            }
        }
        drop(table);
        self.0.wake();
        owner
    }

    fn states(&self, show: &mut dyn FnMut(&QueuePlacement<'_>) -> fmt::Result) -> fmt::Result {
        let table = self.0.table.lock();
        table
            .entries
            .iter()
            .try_for_each(|entry| show(&entry.state()))
    }

    fn close(&self) {
        let left = {
            let mut table = self.0.table.lock();
            table.closed = true;
            core::mem::take(&mut table.entries)
        };
        workqueue::cancel(&self.0);
        self.0.changed.notify_all();
        if let Some(entry) = left.first() {
            dev_warn!(
                &*entry.queue.gpu.hw.dev,
                "{} compute queues have never left the hardware: they are given up\n",
                left.len()
            );
        }
    }
}
