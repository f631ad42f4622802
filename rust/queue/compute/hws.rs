// SPDX-License-Identifier: GPL-2.0
//! Scheduling by the hardware: the CP's firmware (HWS) takes lists of processes and their queues,
//! gives them VMIDs and HQDs, and lets them take turns if there are not enough of either.
//!
//! A list cannot be changed while it runs. When a queue is added or removed, all queues are taken
//! off the hardware, which saves their progress, and a new list is run with all changes made by
//! then. A thread that needs a new list marks that in the table. So that changes of one process do
//! not keep all others off the hardware, a list runs for some time first ([`RunlistPace`]), unless
//! a queue must not be on the hardware any more.
//!
//! A list replaces another in pieces ([`hw::runlist_steps`]): a work item does them, and as far as
//! none of them has to be waited for, so does the thread that waits for the change. A thread that
//! the kernel's scheduler does not run any more, between any two of them, delays no other.
//!
//! [`RunlistPace`]: pace::RunlistPace

mod firmware;
pub(super) mod pace;
mod runlist;
mod steps;

use super::change::QueueChange;
use super::queue::{ComputeFailure, ComputeQueue};
use super::scheduler::{ComputeScheduler, QueuePlacement};
use crate::health::{GpuHealth, SuspectQueue, WedgeReport, WedgedPart};
use crate::ip::gfx::Gfx;
use crate::ip::gmc::Gmc;
use crate::kern::ratelimit::dev_warn_ratelimited;
use crate::kern::workqueue;
use crate::mem::queue_group::QuiesceTimeout;
use crate::mem::GpuMemory;
use crate::queue::request::QueueOwner;
use core::fmt;
use firmware::HwsFirmware;
use hw::runlist_steps::{RunlistEvent, RunlistHelper, RunlistPiece};
use kernel::device::Device;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::{new_condvar, new_spinlock, Arc, CondVar, SpinLock, SpinLockGuard};
use kernel::time::{delay::fsleep, msecs_to_jiffies, Delta, Instant, Monotonic};
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};
use kernel::{dev_err, dev_warn};
use pace::ListCosts;
use runlist::{RunlistDue, RunlistEntry, SHORT_LIST};
use steps::{HwsNext, HwsState};

/// Pauses of the work item between two looks whether the hardware has answered: the first, and the
/// longest.
const ANSWER_POLL: (Delta, Delta) = (Delta::from_micros(20), Delta::from_micros(1000));
/// Interval of two checks whether a queue is off the hardware, for waits with a limit, and whether
/// a list is due at once.
const OFF_POLL: Delta = Delta::from_micros(200);
/// How long the firmware may take to learn where its cleaner is, also while queues are reset.
const CLEANER_MS: i64 = 5000;
/// For a longer wait than this the work item is queued again.
const LONG_WAIT: Delta = Delta::from_millis(20);

/// The scheduler.
pub(super) struct HwsScheduler(Arc<HwsShared>);

/// State that the scheduler and its work item share.
#[pin_data]
struct HwsShared {
    /// Held for a piece of work at a time, without preemption. The work item is queued under it
    /// whenever there is another piece to do.
    #[pin]
    state: SpinLock<HwsState>,
    /// Signalled when the table changed, under the lock.
    #[pin]
    changed: CondVar,
    #[pin]
    turn: DelayedWork<Self>,
    gfx: Arc<Gfx>,
    gmc: Arc<Gmc>,
    health: Arc<GpuHealth>,
    dev: ARef<Device>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for HwsShared { self.turn }
}

impl WorkItem for HwsShared {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let mut pause = ANSWER_POLL.0;
        loop {
            let next = this.state.lock().advance(RunlistHelper::Worker);
            match next {
                HwsNext::Rest => return,
                HwsNext::Later(left) if left > LONG_WAIT => {
                    let delay = msecs_to_jiffies(left.as_millis_ceil() as u32);
                    workqueue::run_in(workqueue::highpri(), this, delay);
                    return;
                }
                // A list may become due at once during the wait.
                HwsNext::Later(left) => {
                    fsleep(left.min(OFF_POLL));
                    continue;
                }
                HwsNext::Answer => {
                    fsleep(pause);
                    pause = (pause * 2).min(ANSWER_POLL.1);
                    continue;
                }
                HwsNext::Changed => {}
                HwsNext::Worker(RunlistPiece::Force) => this.force(),
                HwsNext::Worker(_) => this.halt(),
            }
            this.changed.notify_all();
            pause = ANSWER_POLL.0;
        }
    }
}

impl HwsShared {
    /// Does the next pieces for a caller that made a list due, and installs one list at most:
    /// waking another thread and waiting for it would take longer. The rest, and lists for other
    /// callers after that, are left to the work item.
    fn hasten(self: &Arc<Self>, state: &mut HwsState) {
        // There a thread is preempted with a spinlock, too.
        if cfg!(CONFIG_PREEMPT_RT) {
            self.wake();
            return;
        }
        match state.advance(RunlistHelper::Caller) {
            HwsNext::Rest => return,
            HwsNext::Changed => {
                self.changed.notify_all();
                if let RunlistDue::Never = state.due() {
                    return;
                }
            }
            HwsNext::Later(_) | HwsNext::Answer | HwsNext::Worker(_) => {}
        }
        self.wake();
    }

    /// Resets the queues that do not leave the hardware. The work item's; may sleep.
    fn force(&self) {
        // Other threads have nothing to do with it in this stage.
        let Some(mut firmware) = self.state.lock().firmware.take() else {
            return;
        };
        let mut suspect = None;
        let left = firmware.force(&mut |doorbell| suspect = self.hangs(doorbell).or(suspect));
        let mut state = self.state.lock();
        state.firmware = Some(firmware);
        state.suspect = suspect;
        let event = left.map_or(RunlistEvent::Failed, |()| RunlistEvent::Forced);
        state.steps = state.steps.after(event);
    }

    /// Ends the work of the firmware, which has failed, and the access to memory of the waves that
    /// it has launched: they run on without the firmware. If a hub does not answer, the memory
    /// stays allocated, see [`Gmc::unbind_firmware`]. The work item's; may sleep.
    fn halt(&self) {
        let (is_ending, suspect) = {
            let state = self.state.lock();
            (state.steps.is_ending(), state.suspect)
        };
        if self.gfx.is_present() && !is_ending {
            dev_err!(
                &*self.dev,
                "the hardware scheduler does not answer: all compute queues have failed, \
                 and no more can be made: the cp might be in an unrecoverable state\n"
            );
            self.health.wedge(WedgeReport {
                part: WedgedPart::Scheduler,
                suspect,
            });
        }
        self.gfx.stop();
        // The GMC has reported the error, and the GPU is wedged.
        let _ = self.gmc.unbind_firmware();
        self.state.lock().end();
    }

    /// Handles the queue with this doorbell, a dword of the BAR, which does not leave the hardware.
    /// Returns which queue it is.
    fn hangs(&self, doorbell: u32) -> Option<SuspectQueue> {
        // The table keeps the queue for as long as it is on the hardware: this is not the last
        // reference.
        let queue = self.state.lock().table.by_doorbell(doorbell)?.clone();
        if !queue.has_failed() {
            let owner = queue.owner;
            dev_warn_ratelimited!(
                process owner.pid,
                &*self.dev,
                "Queue preemption failed for queue {} of process {}: it does not leave the \
                 hardware, and is reset\n",
                owner.queue,
                owner.pid
            );
            queue.hangs();
        }
        Some(queue.owner.suspect())
    }

    /// Tells the firmware where its cleaner is. May sleep.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if it runs none; `ETIMEDOUT` if it does not answer; `ENODEV` if the device is
    /// gone.
    fn set_cleaner(&self) -> Result {
        let start = Instant::<Monotonic>::now();
        let mut is_asked = false;
        loop {
            // The work item has it while it resets queues.
            if let Some(firmware) = &mut self.state.lock().firmware {
                if !is_asked {
                    firmware.set_cleaner()?;
                    is_asked = true;
                }
                if firmware.knows_cleaner() {
                    return Ok(());
                }
            }
            if start.elapsed().as_millis() >= CLEANER_MS {
                return Err(ETIMEDOUT);
            }
            fsleep(OFF_POLL);
        }
    }

    /// Has the work item look. Any context, also under the lock.
    fn wake(self: &Arc<Self>) {
        workqueue::run_in(workqueue::highpri(), self.clone(), 0);
    }

    /// Waits until `queue`, which may not be on a list any more, is off the hardware. Returns with
    /// the lock.
    fn wait_off<'a>(
        self: &'a Arc<Self>,
        mut state: SpinLockGuard<'a, HwsState>,
        queue: &ComputeQueue,
    ) -> SpinLockGuard<'a, HwsState> {
        self.hasten(&mut state);
        while state.is_listed(queue) {
            self.changed.wait(&mut state);
        }
        state
    }

    /// As [`HwsShared::wait_off`], but gives up when `timeout` is over.
    fn wait_off_within(self: &Arc<Self>, queue: &ComputeQueue, timeout: &QuiesceTimeout) {
        self.wake();
        while self.state.lock().is_listed(queue) && !timeout.is_over() {
            fsleep(OFF_POLL);
        }
    }
}

impl HwsScheduler {
    /// Creates a scheduler without queues, which takes none before the start.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        gfx: &Arc<Gfx>,
        gmc: &Arc<Gmc>,
        health: &Arc<GpuHealth>,
        dev: &ARef<Device>,
        isolates: bool,
    ) -> Result<Arc<Self>> {
        let shared = Arc::pin_init(
            try_pin_init!(HwsShared {
                state <- new_spinlock!(HwsState::new(isolates)?, "HwsScheduler::state"),
                changed <- new_condvar!("HwsScheduler::changed"),
                turn <- new_delayed_work!("HwsScheduler::turn"),
                gfx: gfx.clone(),
                gmc: gmc.clone(),
                health: health.clone(),
                dev: dev.clone(),
            }),
            GFP_KERNEL,
        )?;
        Ok(Arc::new(Self(shared), GFP_KERNEL)?)
    }
}

impl ComputeScheduler for HwsScheduler {
    fn start(&self, gpu: &GpuMemory) -> Result {
        let isolates = self.is_isolating();
        if isolates && self.0.gfx.cleaner().is_none() {
            dev_err!(
                &*self.0.dev,
                "enforce_isolation needs firmware of the MECs that is known to run a cleaner: \
                 the GPU is not used\n"
            );
            return Err(EOPNOTSUPP);
        }
        let firmware = HwsFirmware::start(gpu)?;
        let before = self.0.state.lock().firmware.replace(firmware);
        if isolates {
            self.0.set_cleaner()?;
        }
        let mut state = self.0.state.lock();
        state.table.set_xnack_mix(gpu.hw.gfx.xnack_mix());
        state.steps.open();
        drop(state);
        drop(before);
        Ok(())
    }

    fn pause(&self) -> Result {
        let mut state = self.0.state.lock();
        if !state.steps.pause() {
            return Err(EBUSY);
        }
        let firmware = state.firmware.take();
        drop(state);
        drop(firmware);
        Ok(())
    }

    fn stop(&self) {
        let mut state = self.0.state.lock();
        state.steps.end();
        self.0.wake();
        while !state.steps.has_ended() {
            self.0.changed.wait(&mut state);
        }
        let firmware = state.firmware.take();
        drop(state);
        drop(firmware);
    }

    fn add(&self, queue: Arc<ComputeQueue>) -> Result {
        let entry = RunlistEntry::new(queue)?;
        let mut state = self.0.state.lock();
        let added = match (state.steps.has_ended(), state.steps.is_open()) {
            (true, _) => Err((EIO, entry)),
            (false, false) => Err((ENODEV, entry)),
            (false, true) => state.table.add(entry).map_err(|entry| (ENOSPC, entry)),
        };
        self.0.wake();
        drop(state);
        // An entry without room is dropped without the lock.
        added.map_err(|(error, entry)| {
            drop(entry);
            error
        })
    }

    fn remove(&self, queue: &ComputeQueue) -> Result {
        let mut state = self.0.state.lock();
        if let Some(entry) = state.table.find(queue) {
            entry.off += 1;
        }
        let mut state = self.0.wait_off(state, queue);
        let removed = state.table.remove(queue);
        drop(state);
        drop(removed);
        Ok(())
    }

    fn dismiss(&self, pasid: u16) {
        let mut state = self.0.state.lock();
        state.table.dismiss(pasid);
        self.0.wake();
    }

    /// A queue that is on the list is changed between that list and the next one.
    fn update(&self, queue: &ComputeQueue, mut change: QueueChange) -> Result {
        let mut state = self.0.state.lock();
        let Some(entry) = state.table.find(queue).filter(|entry| entry.is_listed()) else {
            let made = change.make(queue);
            self.0.wake();
            // Dropped after the lock, because the old ring is dropped with it.
            drop(state);
            return made;
        };
        entry.change = Some(change);
        self.0.hasten(&mut state);
        loop {
            // The caller holds the queue, so it exists.
            let Some(entry) = state.table.find(queue) else {
                return Err(ENODEV);
            };
            if let Some((change, made)) = entry.changed.take() {
                drop(state);
                drop(change);
                return made;
            }
            self.0.changed.wait(&mut state);
        }
    }

    fn quiesce(&self, queue: &ComputeQueue, timeout: &QuiesceTimeout) {
        if timeout.is_endless() {
            drop(self.0.wait_off(self.0.state.lock(), queue));
        } else {
            self.0.wait_off_within(queue, timeout);
        }
    }

    fn resume(&self, _queue: &ComputeQueue) {
        self.0.wake();
    }

    fn fail(
        &self,
        why: ComputeFailure,
        which: &dyn Fn(&QueuePlacement<'_>) -> bool,
    ) -> Option<QueueOwner> {
        let state = self.0.state.lock();
        let owner = state.table.fail(why, which);
        self.0.wake();
        owner
    }

    /// The list that runs is replaced.
    fn isolate(&self, on: bool) -> Result {
        if on && self.0.gfx.cleaner().is_none() {
            return Err(EOPNOTSUPP);
        }
        if on {
            self.0.set_cleaner()?;
        }
        let mut state = self.0.state.lock();
        state.table.isolate(on);
        self.0.wake();
        while state.table.has_to_isolate() {
            self.0.changed.wait(&mut state);
        }
        Ok(())
    }

    fn is_isolating(&self) -> bool {
        self.0.state.lock().table.isolates()
    }

    /// A queue that comes or goes meanwhile may hide another.
    fn states(&self, show: &mut dyn FnMut(&QueuePlacement<'_>) -> fmt::Result) -> fmt::Result {
        let mut first = 0;
        while self.0.state.lock().table.states(first, show)? {
            first += SHORT_LIST;
        }
        Ok(())
    }

    fn lists(&self) -> Option<ListCosts> {
        Some(self.0.state.lock().table.pace.lists())
    }

    fn close(&self) {
        let left = self.0.state.lock().table.remove_all();
        workqueue::cancel(&self.0);
        if !left.is_empty() {
            dev_warn!(
                &*self.0.dev,
                "{} compute queues have never left the hardware: they are given up\n",
                left.len()
            );
        }
    }
}
