// SPDX-License-Identifier: GPL-2.0
//! Scheduling by the hardware: the CP's firmware (HWS) gets lists of processes and their queues, gives them VMIDs and
//! HQDs, and has them take turns when there is not enough of either.
//!
//! A list cannot be changed while it runs. When a queue comes or goes all queues are taken off, which saves how far they
//! are, and a new list is run, for all changes that there are by then. Who wants one says so in the table; a work item does it,
//! or who waits for it if nobody is at it. So that nobody keeps the others off by changes, a list runs for a while first ([`RunlistPace`]),
//! unless a queue must not be on the hardware any more.
//!
//! [`RunlistPace`]: pace::Pace

mod firmware;
pub(super) mod pace;
mod runlist;

use super::super::queue_group::QuiesceTimeout;
use super::change::QueueChange;
use super::queue::ComputeQueue;
use super::scheduler::{ComputeScheduler, QueuePlacement};
use crate::health::{GpuHealth, SuspectQueue, WedgeReport, WedgedPart};
use crate::ip::gfx::Gfx;
use crate::ip::gmc::Gmc;
use crate::kern::ratelimit::dev_warn_ratelimited;
use crate::kern::workqueue;
use crate::mem::GpuMemory;
use crate::queue::request::QueueOwner;
use core::fmt;
use firmware::HwsFirmware;
use kernel::device::Device;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::{new_condvar, new_mutex, Arc, CondVar, Mutex};
use kernel::time::{delay::fsleep, Delta, Instant, Monotonic};
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};
use kernel::{dev_err, dev_warn};
use pace::ListCosts;
use runlist::{RunlistDue, RunlistEntry, RunlistTable};

/// Between two looks whether a queue is off that is not waited for at any cost, and whether a list is due at once.
const OFF_POLL: Delta = Delta::from_micros(200);

/// The scheduler.
pub(super) struct HwsScheduler(Arc<HwsShared>);

/// What the scheduler and its work item share.
#[pin_data]
struct HwsShared {
    /// What the work item talks to; None before start and after stop. Held while the hardware is waited for. Nothing is
    /// allocated under it.
    #[pin]
    firmware: Mutex<Option<HwsFirmware>>,
    /// Inside `firmware`. Nothing is waited for or allocated under it.
    #[pin]
    table: Mutex<RunlistTable>,
    /// The table changed.
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
            // Meanwhile it may be needed at once.
            fsleep(wait.min(OFF_POLL));
        }
    }
}

impl HwsShared {
    /// Runs lists as long as another is due; for how long that has time, if it has.
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

    /// Runs a list if one is due at once; when one was.
    fn step(&self, firmware: &mut HwsFirmware) -> RunlistDue {
        let due = self.table.lock().due();
        if let RunlistDue::Now = due {
            self.renew(firmware);
            self.changed.notify_all();
        }
        due
    }

    /// For who waits for a list that it has made due: runs it here if nobody is at it. Another thread would have to be woken, and waited for.
    /// One list at most: what others want after that is the work item's.
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
                    "the hardware scheduler does not answer: no more compute queues\n"
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

    /// Ends what the firmware does, and what waves that it has launched reach of memory: they run on without it. If a hub does not
    /// answer, the memory stays, see [`Gmc::unbind_firmware`]. Sleeps.
    fn halt(&self) {
        self.gfx.stop();
        // The GMC has said so, and the GPU is wedged.
        let _ = self.gmc.unbind_firmware();
    }

    /// The queue with this doorbell, a dword of the BAR, does not leave the hardware: which it is.
    fn hangs(&self, doorbell: u32) -> Option<SuspectQueue> {
        let table = self.table.lock();
        let queue = table.by_doorbell(doorbell)?;
        if !queue.has_failed() {
            let owner = queue.owner;
            dev_warn_ratelimited!(
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

    /// Waits until `queue`, which may not be on a list any more, is off it.
    fn wait_off(self: &Arc<Self>, queue: &ComputeQueue) {
        self.hasten();
        let mut table = self.table.lock();
        while table.find(queue).is_some_and(|entry| entry.is_listed()) {
            self.changed.wait(&mut table);
        }
    }

    /// The same, for as long as `patience` says.
    fn wait_off_within(self: &Arc<Self>, queue: &ComputeQueue, patience: &QuiesceTimeout) {
        self.wake();
        let is_off = || {
            let mut table = self.table.lock();
            !table.find(queue).is_some_and(|entry| entry.is_listed())
        };
        while !is_off() && !patience.is_over() {
            fsleep(OFF_POLL);
        }
    }

    /// Has `queue` be off the hardware and stay off, until its `off` is counted down.
    fn unload(self: &Arc<Self>, queue: &ComputeQueue) {
        if let Some(entry) = self.table.lock().find(queue) {
            entry.off += 1;
        }
        self.wait_off(queue);
    }
}

impl HwsScheduler {
    /// No queues, and none may come before the start. ENOMEM.
    pub(super) fn new(
        gfx: &Arc<Gfx>,
        gmc: &Arc<Gmc>,
        health: &Arc<GpuHealth>,
        dev: &ARef<Device>,
    ) -> Result<Arc<Self>> {
        let shared = Arc::pin_init(
            try_pin_init!(HwsShared {
                firmware <- new_mutex!(None, "Hws::firmware"),
                table <- new_mutex!(RunlistTable::new()?, "Hws::table"),
                changed <- new_condvar!("Hws::changed"),
                turn <- new_delayed_work!("Hws::turn"),
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
        self.0.table.lock().open();
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
        // An entry that there is no room for is dropped without the lock.
        added.map_err(|(error, entry)| {
            drop(entry);
            error
        })?;
        self.0.wake();
        Ok(())
    }

    fn remove(&self, queue: &ComputeQueue) -> Result {
        self.0.unload(queue);
        let gone = self.0.table.lock().remove(queue);
        drop(gone);
        Ok(())
    }

    fn dismiss(&self, pasid: u16) {
        self.0.table.lock().dismiss(pasid);
        self.0.wake();
    }

    /// One that is on the list is changed on the way from that to the next one.
    fn update(&self, queue: &ComputeQueue, mut change: QueueChange) -> Result {
        let mut table = self.0.table.lock();
        let Some(entry) = table.find(queue).filter(|entry| entry.is_listed()) else {
            let made = change.make(queue);
            self.0.wake();
            // After the lock: its old ring goes with it.
            drop(table);
            return made;
        };
        entry.change = Some(change);
        drop(table);
        self.0.hasten();
        let mut table = self.0.table.lock();
        loop {
            // Of a queue that is there: its caller has it.
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

    fn quiesce(&self, queue: &ComputeQueue, patience: &QuiesceTimeout) {
        if patience.is_endless() {
            self.0.wait_off(queue);
        } else {
            self.0.wait_off_within(queue, patience);
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
            dev_warn!(&*self.0.dev, "{} compute queues are left\n", left.len());
        }
    }
}
