// SPDX-License-Identifier: GPL-2.0
//! The slots of one engine. One work item, the *turn*, loads queues, looks at those that leave, and
//! gives up the VMIDs of those that have left. A thread that evicts a queue turns its ring off and
//! looks, too, and is through at once if the hardware is; else it waits for the turn.
//! [`hw::sdma::seat`] has the transitions.
//!
//! A queue that does not leave has the engine to itself, maybe for hours: a packet can be as long
//! as its process likes. The turn finds that out, and resets the engine ([`EngineSlots::reset`]):
//! the queue that the engine is at has failed, with all of its process's, and the others go on from
//! where they were. It is found out when another queue needs the slot or the VMID, and also when
//! two queues have something to do, or the kernel's ring has. Then the kernel's ring must get a
//! turn within a second (`KernelRings::pulse`). If it does not, every queue is asked to leave for a
//! moment ([`EngineSlots::clear`]).

mod choice;
mod departed;
mod entry;
mod reset;
mod seats;

use super::super::hw_queue::SdmaHwQueue;
use crate::ip::sdma::{Sdma, STOP_TIMEOUT};
use crate::ip::vmid::Vmid;
use crate::ip::Hardware;
use crate::kern::workqueue;
use crate::mem::queue_group::QuiesceTimeout;
use crate::mem::vm::VmidUse;
use crate::queue::request::QueueOwner;
use crate::ring;
use departed::Settlement;
use entry::{EntryMemory, SlotEntry};
use hw::doorbell::MAX_SDMA_QUEUES;
use hw::sdma::seat::{LoadPermit, SeatAction, SeatEvent, FAULT_WAITS, LEAVE_POLL_US};
use hw::seat::Seat;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Release};
use kernel::sync::{new_condvar, new_mutex, new_spinlock, Arc, CondVar, Mutex, SpinLock};
use kernel::time::{delay::fsleep, msecs_to_jiffies, Delta, Instant, Monotonic};
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};
use seats::{EngineSeats, SlotAction};

pub(super) use entry::QueueKey;

/// The most slots of an engine, of any chip: a bound of arrays.
pub(super) const MAX_SLOTS: usize = MAX_SDMA_QUEUES as usize;
// The kernel's ring may wait behind a queue, and must not be taken for dead before the queue is.
const _: () = assert!(
    ring::STARVED_MS * 1_000_000 + (FAULT_WAITS as i64 + 1) * STOP_TIMEOUT.as_nanos()
        < ring::TIMEOUT_MS as i64 * 1_000_000
);
/// Time after which the engine must show that queues with something to do get turns, milliseconds.
const PULSE_MS: u32 = 500;
/// The longest time that the work item only looks at queues that leave before it decides anew,
/// milliseconds.
const WATCH_MS: i64 = 5;
/// The same, while it looks whether queues that others wait for still have work.
const IDLE_WATCH_MS: i64 = 25;
/// The work items: `TURN` moves queues, `PULSE` has the engine show that.
const TURN: u64 = 0;
const PULSE: u64 = 1;

/// A queue as debugfs sees it.
pub(super) struct SlotView {
    pub(super) rlc: Arc<SdmaHwQueue>,
    pub(super) seat: Seat<u8>,
    pub(super) vmid: Option<Vmid>,
}

/// An engine's slots.
#[pin_data]
pub(super) struct EngineSlots {
    pub(super) number: u8,
    #[pin]
    state: SpinLock<EngineSeats>,
    /// A seat changed, or the last thread that looked at queues is through.
    #[pin]
    changed: CondVar,
    /// The work item is to decide anew.
    woken: Atomic<bool>,
    /// Held while registers of more than one ring are written, or while a reset must not come
    /// between: by a thread that loads a queue or resets the engine. Nothing is allocated under it.
    #[pin]
    hardware: Mutex<()>,
    #[pin]
    turn: DelayedWork<Self, TURN>,
    #[pin]
    pulse: DelayedWork<Self, PULSE>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self, TURN> for EngineSlots { self.turn }
    impl HasDelayedWork<Self, PULSE> for EngineSlots { self.pulse }
}

impl WorkItem<PULSE> for EngineSlots {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let state = this.state.lock();
        let busy = state.inside().filter(|entry| entry.has_work()).count();
        // The driver does not notice when direct queues get work.
        let is_direct = |entry: &SlotEntry| entry.rlc.is_direct();
        let again = busy > 1 || state.inside().count() > 1 && state.inside().any(is_direct);
        let gpu = state.inside().next().map(|entry| entry.rlc.gpu.clone());
        if again && !state.closed {
            this.expect_pulse();
        }
        drop(state);
        if let (true, Some(gpu)) = (busy > 1, gpu) {
            gpu.rings.pulse(this.number);
        }
    }
}

impl WorkItem<TURN> for EngineSlots {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let mut found = None;
        loop {
            match found.take().unwrap_or_else(|| this.decide()) {
                SlotAction::Settle(settlement) => this.settle(settlement),
                SlotAction::Load(rlc, permit) => this.load(rlc, permit),
                SlotAction::Reset(key) => this.hangs(&key),
                SlotAction::Again => {}
                SlotAction::Later(ms) => match this.watch(ms) {
                    None => return this.turn_in(ms),
                    more => found = more,
                },
                SlotAction::Nothing => match this.watch(IDLE_WATCH_MS) {
                    None => return,
                    more => found = more,
                },
            }
        }
    }
}

impl EngineSlots {
    /// The slots of engine `number`, of which there are `slots`; all are free. A direct or followed
    /// queue gets one of the doorbells `own` of its process, a bit each.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(number: u8, slots: u8, own: u32) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                number,
                state <- new_spinlock!(
                    EngineSeats::new(slots, own),
                    "EngineSlots::state"
                ),
                hardware <- new_mutex!((), "EngineSlots::hardware"),
                woken: Atomic::new(false),
                changed <- new_condvar!("EngineSlots::changed"),
                turn <- new_delayed_work!("EngineSlots::turn"),
                pulse <- new_delayed_work!("EngineSlots::pulse"),
            }),
            GFP_KERNEL,
        )
    }

    /// Queues the work item. Any context, also with `state` locked.
    pub(super) fn wake(self: &Arc<Self>) {
        self.woken.store(true, Release);
        workqueue::run_in::<_, TURN>(workqueue::highpri(), self.clone(), 0);
    }

    /// Has the work item run in `ms` milliseconds, unless it is queued already, or the engine is
    /// closed.
    fn turn_in(self: &Arc<Self>, ms: i64) {
        let state = self.state.lock();
        if !state.closed {
            let delay = msecs_to_jiffies(ms.max(1) as u32);
            let _ = workqueue::highpri().enqueue_delayed::<_, TURN>(self.clone(), delay);
        }
    }

    /// Looks at the queues that leave, and decides what is next. Threads that wait for a seat look
    /// again.
    fn decide(&self) -> SlotAction {
        // What happens from now on has the work item decide once more.
        self.woken.store(false, Release);
        let mut state = self.state.lock();
        let next = state.poll_leaving().unwrap_or_else(|| state.next());
        let notifies = core::mem::take(&mut state.notifies);
        let gpu = state.any().filter(|_| notifies).map(|rlc| rlc.gpu.clone());
        drop(state);
        self.changed.notify_all();
        if let Some(gpu) = gpu {
            gpu.hw.vmids.notify();
        }
        next
    }

    /// Looks at the queues that leave, and at those that others wait for, until there is something
    /// to do for one, or the work item is to decide anew, which is after `ms` milliseconds at the
    /// latest. `None` if there are no such queues. May sleep.
    fn watch(&self, ms: i64) -> Option<SlotAction> {
        let began = Instant::<Monotonic>::now();
        loop {
            let state = self.state.lock();
            let (leaving, idle) = (state.poll_delay(), state.idle_delay());
            drop(state);
            let most = leaving.map_or(IDLE_WATCH_MS, |_| WATCH_MS);
            fsleep(Iterator::chain(leaving.into_iter(), idle).min()?);
            if self.woken.load(Acquire) || began.elapsed().as_millis() >= ms.min(most) {
                return Some(SlotAction::Again);
            }
            let mut state = self.state.lock();
            let found = state.poll_leaving();
            let idle = state.has_idle();
            drop(state);
            if found.is_some() {
                self.changed.notify_all();
                return found;
            }
            if idle {
                return Some(SlotAction::Again);
            }
        }
    }

    /// Ends jobs of queues in a slot that are done. A queue that has run out of work by that gives
    /// its place to others that wait.
    pub(super) fn check(self: &Arc<Self>) {
        self.poll_seated(SdmaHwQueue::check);
        if self.state.lock().has_idle() {
            self.wake();
        }
    }

    /// Clears up after queues that have left. May sleep.
    fn settle(&self, mut settlement: Settlement) {
        if settlement.has_queues() {
            settlement.check();
            let mut state = self.state.lock();
            settlement.drop_queues();
            state.end_look();
            drop(state);
            self.changed.notify_all();
        }
        settlement.give_up_vmids();
        self.state.lock().end_settling();
        self.changed.notify_all();
    }

    /// Waits until no queue of process `pasid`, or none at all, comes or goes, or has left and
    /// still has a VMID. The process's queues are gone, or kept off. Bounded; may sleep.
    pub(super) fn wait_settled(self: &Arc<Self>, pasid: Option<u16>) {
        let mut state = self.state.lock();
        while state.is_unsettled(pasid) {
            self.changed.wait(&mut state);
        }
    }

    /// Has the engine show soon that queues get turns. Any context.
    fn expect_pulse(self: &Arc<Self>) {
        let delay = msecs_to_jiffies(PULSE_MS);
        let _ = workqueue::highpri().enqueue_delayed::<_, PULSE>(self.clone(), delay);
    }

    /// See [`RingEngines::clear`](crate::ring::RingEngines::clear).
    pub(super) fn clear(self: &Arc<Self>) {
        let mut state = self.state.lock();
        for slot in 0..state.slots() {
            let seated = state.seated_at(slot);
            if let Some((key, _)) = seated.filter(|(_, entry)| entry.has_work()) {
                state.release(&key);
            }
        }
        drop(state);
        self.wake();
    }

    /// Loads a queue that enters a slot.
    fn load(self: &Arc<Self>, rlc: Arc<SdmaHwQueue>, permit: LoadPermit) {
        let mut vmid = match rlc.vm().use_vmid(rlc.owner.pasid) {
            Ok(vmid) => Some(vmid),
            Err(error) => {
                // Other processes were faster than `VmidPool::ask` said, or there is an error.
                if error != ENOSPC {
                    rlc.fail(error);
                }
                let mut state = self.state.lock();
                let _ = state.apply(&QueueKey::of(&rlc), SeatEvent::NotLoaded(permit));
                // Under the lock, as below.
                drop(rlc);
                drop(state);
                self.changed.notify_all();
                return;
            }
        };
        let slot = permit.slot();
        let mut loaded = 0;
        let hardware = self.hardware.lock();
        let began = Instant::<Monotonic>::now();
        let result = vmid.as_ref().ok_or(EINVAL).and_then(|vmid| {
            let (image, rptr) = rlc.image(slot, vmid.vmid())?;
            let wptr = || {
                loaded = rlc.target();
                loaded
            };
            self.sdma(&rlc.gpu.hw).load(slot, &image, rptr, wptr)
        });
        let took = began.elapsed();
        let event = match result {
            Ok(()) => {
                rlc.enter();
                SeatEvent::Loaded(permit)
            }
            Err(_) => SeatEvent::LoadHangs(permit),
        };
        let mut state = self.state.lock();
        state.has_taken(took);
        if let Some(entry) = state.find(&rlc) {
            entry.since = Instant::now();
            entry.vmid = vmid.take();
        }
        let key = QueueKey::of(&rlc);
        let step = state.apply(&key, event);
        let action = step.map_or(SeatAction::Nothing, |step| step.action);
        if let SeatAction::Nothing = action {
            // A job that came meanwhile found no seat to ring for. The doorbell of a process's own
            // ring is the process's: see `Sdma::load`.
            if !rlc.has_own_doorbell() && rlc.target() != loaded {
                ring(&rlc, slot);
            }
            if state.inside().count() > 1 {
                self.expect_pulse();
            }
        }
        // The entry has a reference of its own, so that nothing is freed here: the thread that
        // destroys the queue may be through as soon as the lock is free.
        drop(rlc);
        drop(state);
        drop(hardware);
        self.changed.notify_all();
        match action {
            // The slot of a queue that has left was not empty after all.
            SeatAction::Reset => self.hangs(&key),
            // The engine was lost while the queue waited to be loaded.
            SeatAction::Fail => self.poll_seated(|rlc| rlc.fail(EIO)),
            _ => {}
        }
    }

    fn sdma<'a>(&self, hw: &'a Hardware) -> &'a Sdma {
        &hw.sdma[usize::from(self.number)]
    }

    /// See [`super::SdmaSlots::submit`].
    pub(super) fn submit(self: &Arc<Self>, rlc: &SdmaHwQueue) {
        let mut state = self.state.lock();
        let Some(step) = state.apply(&QueueKey::of(rlc), SeatEvent::Work) else {
            return;
        };
        if let SeatAction::Ring(slot) = step.action {
            // The process has rung its own doorbell.
            if !rlc.has_own_doorbell() {
                ring(rlc, slot);
            }
            if state.inside().count() > 1 {
                self.expect_pulse();
            }
        }
        if step.wake {
            self.wake();
        }
    }

    /// Has the queue leave its slot and stay out, and waits for that: bounded by the time that the
    /// hardware may take, and by `patience`. `forget` removes it altogether.
    ///
    /// A queue that is out may still have its VMID for a moment, see
    /// [`EngineSlots::wait_settled`].
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` when it is not out; it will be, unless the engine is lost.
    pub(super) fn evict(
        self: &Arc<Self>,
        rlc: &SdmaHwQueue,
        forget: bool,
        patience: &QuiesceTimeout,
    ) -> Result {
        let key = QueueKey::of(rlc);
        let mut state = self.state.lock();
        loop {
            let Some(step) = state.apply(&key, SeatEvent::Evict) else {
                return Ok(());
            };
            // With the lock: the thread may not run again for long once it has given that up.
            if step.wake {
                self.wake();
            }
            if step.notify {
                self.changed.notify_all();
            }
            match step.action {
                SeatAction::Off if !forget || !state.is_looked_at() => break,
                // It is kept, with all that the engine may still reach.
                SeatAction::Keep => return Err(ETIMEDOUT),
                _ => {}
            }
            if patience.is_endless() {
                self.changed.wait(&mut state);
                continue;
            }
            drop(state);
            if patience.is_over() {
                return Err(ETIMEDOUT);
            }
            fsleep(Delta::from_micros(LEAVE_POLL_US));
            state = self.state.lock();
        }
        let gone = if forget { state.remove(rlc) } else { None };
        drop(state);
        drop(gone);
        Ok(())
    }

    /// Allows the queue to be loaded again after [`EngineSlots::evict`].
    pub(super) fn admit(self: &Arc<Self>, rlc: &SdmaHwQueue) {
        let mut state = self.state.lock();
        if state.apply(&QueueKey::of(rlc), SeatEvent::Admit).is_some() {
            self.wake();
        }
    }

    /// Adds a queue. A direct or followed one gets a doorbell of its own, and the work item loads a
    /// direct one if a slot is free. A doorbell that rings before has no effect, but the write
    /// pointer tells.
    ///
    /// # Errors
    ///
    /// `ENOSPC` for such a queue of a process that has one for every doorbell; `ENODEV` when the
    /// device goes, `EIO` when the engine is lost; `ENOMEM`.
    pub(super) fn add(self: &Arc<Self>, rlc: Arc<SdmaHwQueue>) -> Result<Option<u8>> {
        let room = EntryMemory::new()?;
        let mut state = self.state.lock();
        if state.closed {
            return Err(ENODEV);
        }
        if state.table.is_lost() {
            return Err(EIO);
        }
        let is_direct = rlc.is_direct();
        let own = if rlc.has_own_doorbell() {
            let pasid = rlc.owner.pasid;
            let number = match rlc.own_doorbell() {
                Some(wanted) if state.is_own_doorbell_free(pasid, wanted) => wanted,
                Some(_) => return Err(EBUSY),
                None => state.own_doorbell(pasid).ok_or(ENOSPC)?,
            };
            rlc.set_own_doorbell(number);
            Some(number)
        } else {
            None
        };
        state.add(rlc, room);
        if is_direct {
            self.wake();
        }
        Ok(own)
    }

    /// Whether this engine has no doorbell for one more direct or followed queue of process
    /// `pasid`, or is lost, and the number of its queues.
    pub(super) fn load_of(&self, pasid: u16) -> (bool, usize) {
        let state = self.state.lock();
        let full = state.table.is_lost() || state.own_doorbell(pasid).is_none();
        (full, state.len())
    }

    /// The first queue with a key of at least `from`.
    pub(super) fn next_from(&self, from: &QueueKey) -> Option<(QueueKey, SlotView)> {
        let state = self.state.lock();
        let (key, entry) = state.next_from(from)?;
        let view = SlotView {
            rlc: entry.rlc.clone(),
            seat: entry.state.seat().view(|slot| *slot),
            vmid: entry.vmid.as_ref().map(VmidUse::vmid),
        };
        Some((key, view))
    }

    /// Looks at the queues that are in a slot, come or go.
    pub(super) fn poll_seated(&self, look: impl Fn(&SdmaHwQueue)) {
        let mut state = self.state.lock();
        state.begin_look();
        let seated = state.table.slots().clone();
        drop(state);
        seated.queues().for_each(|rlc| look(rlc));
        self.end_look(seated);
    }

    /// Looks at the first queues of process `pasid` for which `which` holds, at most
    /// [`MAX_SLOTS`]. Returns the owner of one, if there are any.
    pub(super) fn poll_some_of(
        &self,
        pasid: u16,
        which: impl Fn(&SdmaHwQueue) -> bool,
        look: impl Fn(&SdmaHwQueue),
    ) -> Option<QueueOwner> {
        let mut found = [const { None }; MAX_SLOTS];
        let mut state = self.state.lock();
        state.begin_look();
        let all = state.of_process(pasid);
        let meant = all.filter(|entry| which(&entry.rlc));
        for (place, entry) in found.iter_mut().zip(meant) {
            *place = Some(entry.rlc.clone());
        }
        drop(state);
        found.iter().flatten().for_each(|rlc| look(rlc));
        let owner = found.iter().flatten().next().map(|rlc| rlc.owner);
        self.end_look(found);
        owner
    }

    /// Ends a look at the queues that `held` has references to.
    fn end_look<T>(&self, held: T) {
        let mut state = self.state.lock();
        // The entries have references of their own, so that nothing is freed here.
        drop(held);
        state.end_look();
        let is_last = !state.is_looked_at();
        drop(state);
        if is_last {
            self.changed.notify_all();
        }
    }

    /// Ends all loading. Returns one of the queues that are left, and how many there are. May
    /// sleep.
    pub(super) fn close(self: &Arc<Self>) -> Option<(Arc<SdmaHwQueue>, usize)> {
        let left = self.state.lock().close();
        workqueue::cancel::<_, TURN>(self);
        workqueue::cancel::<_, PULSE>(self);
        let mut state = self.state.lock();
        while state.is_looked_at() {
            self.changed.wait(&mut state);
        }
        drop(state);
        left.any().map(|rlc| (rlc.clone(), left.len()))
    }
}

/// Rings the doorbell of a queue in `slot`.
fn ring(rlc: &SdmaHwQueue, slot: u8) {
    if let Ok(doorbell) = rlc.doorbell(slot) {
        rlc.gpu
            .hw
            .doorbells
            .ring(doorbell.byte() as u32, rlc.target());
    }
}
