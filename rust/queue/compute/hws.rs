// SPDX-License-Identifier: GPL-2.0
//! Scheduling by the hardware: the CP's firmware (HWS) takes lists of processes and their queues,
//! gives them VMIDs and HQDs, and lets them take turns if there are not enough of either.
//!
//! A list cannot be changed while it runs. When a queue is added or removed, all queues are taken
//! off the hardware, which saves their progress, and a new list is run with all changes made by
//! then. A thread that needs a new list marks that in the table. A work item runs the list, or the
//! waiting thread does if no other thread is doing it. So that changes of one process do not keep
//! all others off the hardware, a list runs for some time first ([`RunlistPace`]), unless a queue
//! must not be on the hardware any more.
//!
//! [`RunlistPace`]: pace::RunlistPace

mod firmware;
pub(super) mod pace;
mod runlist;

use super::change::QueueChange;
use super::queue::ComputeQueue;
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
use kernel::device::Device;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::{new_condvar, new_mutex, Arc, CondVar, Mutex};
use kernel::time::{delay::fsleep, msecs_to_jiffies, Delta, Instant, Monotonic};
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};
use kernel::{dev_err, dev_warn};
use pace::ListCosts;
use runlist::{RunlistDue, RunlistEntry, RunlistTable};

/// Interval of two checks whether a queue is off the hardware, for waits with a limit, and whether
/// a list is due at once.
const OFF_POLL: Delta = Delta::from_micros(200);
/// For a longer wait than this the work item is queued again.
const LONG_WAIT: Delta = Delta::from_millis(20);

/// The scheduler.
pub(super) struct HwsScheduler(Arc<HwsShared>);

/// State that the scheduler and its work item share.
#[pin_data]
struct HwsShared {
    /// The firmware that the work item talks to; `None` before start and after stop. Held while the
    /// hardware is waited for. Nothing is allocated under this lock.
    #[pin]
    firmware: Mutex<Option<HwsFirmware>>,
    /// Inside `firmware`. Nothing is waited for or allocated under this lock.
    #[pin]
    table: Mutex<RunlistTable>,
    /// Signalled when the table changed.
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
        while let Some(wait) = this.turn() {
            if wait > LONG_WAIT {
                let delay = msecs_to_jiffies(wait.as_millis_ceil() as u32);
                workqueue::run_in(workqueue::highpri(), this, delay);
                return;
            }
            // A list may become due at once during the wait.
            fsleep(wait.min(OFF_POLL));
        }
    }
}

impl HwsShared {
    /// Runs lists as long as one is due. Returns how long the next one can wait, if one is due
    /// later.
    fn turn(&self) -> Option<Delta> {
        let mut firmware = self.firmware.lock();
        let Some(firmware) = &mut *firmware else {
            return None;
        };
        loop {
            match self.step(firmware) {
                RunlistDue::Never => return None,
                RunlistDue::In(left) => return Some(left),
                RunlistDue::Now => {}
            }
        }
    }

    /// Runs a list if one is due at once; returns when one was due.
    fn step(&self, firmware: &mut HwsFirmware) -> RunlistDue {
        let due = self.table.lock().due();
        if let RunlistDue::Now = due {
            self.renew(firmware);
            self.changed.notify_all();
        }
        due
    }

    /// Runs a list for a caller that made it due and waits for it, unless another thread is running
    /// one: waking another thread and waiting for it would take longer. Runs one list at most;
    /// lists for other callers after that are left to the work item.
    fn hasten(self: &Arc<Self>) {
        if let Some(mut firmware) = self.firmware.try_lock() {
            if let Some(firmware) = &mut *firmware {
                self.step(firmware);
            }
            if let RunlistDue::Never = self.table.lock().due() {
                return;
            }
        }
        self.wake();
    }

    /// Runs a list of the queues that may run now, in place of the one before.
    fn renew(&self, firmware: &mut HwsFirmware) {
        let running = self.table.lock().is_running();
        let began = Instant::<Monotonic>::now();
        let mut suspect = None;
        let left = match running {
            true => firmware.preempt(&mut |doorbell| suspect = self.hangs(doorbell).or(suspect)),
            false => Ok(()),
        };
        let renewed = left.and_then(|()| {
            let mut table = self.table.lock();
            if running {
                table.trace_saves();
            }
            let list = table.build(firmware.asic(), &mut |at, packet| {
                firmware.write(at, packet)
            })?;
            list.map_or(Ok(()), |list| firmware.run(&list))?;
            table.pace.has_begun(began.elapsed());
            Ok(())
        });
        if renewed.is_err() {
            if self.gfx.is_present() {
                dev_err!(
                    &*self.dev,
                    "the hardware scheduler does not answer: all compute queues have failed, \
                     and no more can be made\n"
                );
                self.health.wedge(WedgeReport {
                    part: WedgedPart::Scheduler,
                    suspect,
                });
            }
            self.halt();
            self.table.lock().clear();
        }
    }

    /// Ends the work of the firmware, and the access to memory of the waves that it has launched:
    /// they run on without the firmware. If a hub does not answer, the memory stays allocated, see
    /// [`Gmc::unbind_firmware`]. May sleep.
    fn halt(&self) {
        self.gfx.stop();
        // The GMC has reported the error, and the GPU is wedged.
        let _ = self.gmc.unbind_firmware();
    }

    /// Handles the queue with this doorbell, a dword of the BAR, which does not leave the hardware.
    /// Returns which queue it is.
    fn hangs(&self, doorbell: u32) -> Option<SuspectQueue> {
        let table = self.table.lock();
        let queue = table.by_doorbell(doorbell)?;
        if !queue.has_failed() {
            let owner = queue.owner;
            dev_warn_ratelimited!(
                process owner.pid,
                &*self.dev,
                "compute queue {} of process {} does not leave the hardware: it is reset\n",
                owner.queue,
                owner.pid
            );
            queue.hangs();
        }
        Some(queue.owner.suspect())
    }

    fn wake(self: &Arc<Self>) {
        workqueue::run_in(workqueue::highpri(), self.clone(), 0);
    }

    /// Waits until `queue`, which may not be on a list any more, is off the hardware.
    fn wait_off(self: &Arc<Self>, queue: &ComputeQueue) {
        self.hasten();
        let mut table = self.table.lock();
        while table.find(queue).is_some_and(|entry| entry.is_listed()) {
            self.changed.wait(&mut table);
        }
    }

    /// As [`HwsShared::wait_off`], but gives up when `timeout` is over.
    fn wait_off_within(self: &Arc<Self>, queue: &ComputeQueue, timeout: &QuiesceTimeout) {
        self.wake();
        let is_off = || {
            let mut table = self.table.lock();
            !table.find(queue).is_some_and(|entry| entry.is_listed())
        };
        while !is_off() && !timeout.is_over() {
            fsleep(OFF_POLL);
        }
    }

    /// Takes `queue` off the hardware and keeps it off until its `off` count is decremented.
    fn unload(self: &Arc<Self>, queue: &ComputeQueue) {
        if let Some(entry) = self.table.lock().find(queue) {
            entry.off += 1;
        }
        self.wait_off(queue);
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
    ) -> Result<Arc<Self>> {
        let shared = Arc::pin_init(
            try_pin_init!(HwsShared {
                firmware <- new_mutex!(None, "HwsScheduler::firmware"),
                table <- new_mutex!(RunlistTable::new()?, "HwsScheduler::table"),
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
        let firmware = HwsFirmware::start(gpu)?;
        *self.0.firmware.lock() = Some(firmware);
        self.0.table.lock().open(gpu.hw.gfx.xnack_mix());
        Ok(())
    }

    fn pause(&self) -> Result {
        let mut slot = self.0.firmware.lock();
        {
            let mut table = self.0.table.lock();
            if table.is_running() {
                return Err(EBUSY);
            }
            table.close();
        }
        let firmware = slot.take();
        drop(slot);
        drop(firmware);
        Ok(())
    }

    fn stop(&self) {
        let mut slot = self.0.firmware.lock();
        let mut firmware = slot.take();
        let running = {
            let mut table = self.0.table.lock();
            table.close();
            table.is_running()
        };
        if let (true, Some(firmware)) = (running, &mut firmware) {
            let left = firmware.preempt(&mut |doorbell| {
                self.0.hangs(doorbell);
            });
            if left.is_err() {
                self.0.halt();
            }
        }
        self.0.table.lock().clear();
        drop(slot);
        self.0.changed.notify_all();
        drop(firmware);
    }

    fn add(&self, queue: Arc<ComputeQueue>) -> Result {
        let entry = RunlistEntry::new(queue)?;
        let added = self.0.table.lock().add(entry);
        // An entry without room is dropped without the lock.
        added.map_err(|(error, entry)| {
            drop(entry);
            error
        })?;
        self.0.wake();
        Ok(())
    }

    fn remove(&self, queue: &ComputeQueue) -> Result {
        self.0.unload(queue);
        let removed = self.0.table.lock().remove(queue);
        drop(removed);
        Ok(())
    }

    fn dismiss(&self, pasid: u16) {
        self.0.table.lock().dismiss(pasid);
        self.0.wake();
    }

    /// A queue that is on the list is changed between that list and the next one.
    fn update(&self, queue: &ComputeQueue, mut change: QueueChange) -> Result {
        let mut table = self.0.table.lock();
        let Some(entry) = table.find(queue).filter(|entry| entry.is_listed()) else {
            let made = change.make(queue);
            self.0.wake();
            // Dropped after the lock, because the old ring is dropped with it.
            drop(table);
            return made;
        };
        entry.change = Some(change);
        drop(table);
        self.0.hasten();
        let mut table = self.0.table.lock();
        loop {
            // The caller holds the queue, so it exists.
            let Some(entry) = table.find(queue) else {
                return Err(ENODEV);
            };
            if let Some((change, made)) = entry.changed.take() {
                drop(table);
                drop(change);
                return made;
            }
            self.0.changed.wait(&mut table);
        }
    }

    fn quiesce(&self, queue: &ComputeQueue, timeout: &QuiesceTimeout) {
        if timeout.is_endless() {
            self.0.wait_off(queue);
        } else {
            self.0.wait_off_within(queue, timeout);
        }
    }

    fn resume(&self, _queue: &ComputeQueue) {
        self.0.wake();
    }

    fn fail(&self, which: &dyn Fn(&QueuePlacement<'_>) -> bool) -> Option<QueueOwner> {
        let owner = self.0.table.lock().fail(which);
        self.0.wake();
        owner
    }

    fn states(&self, show: &mut dyn FnMut(&QueuePlacement<'_>) -> fmt::Result) -> fmt::Result {
        self.0.table.lock().states(show)
    }

    fn lists(&self) -> Option<ListCosts> {
        Some(self.0.table.lock().pace.lists())
    }

    fn close(&self) {
        let left = self.0.table.lock().remove_all();
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
