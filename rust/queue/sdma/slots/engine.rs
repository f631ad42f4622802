// SPDX-License-Identifier: GPL-2.0
//! The slots of one engine. One work item loads and unloads. A thread that evicts a queue unloads
//! it, too, and a thread that makes a direct one may load it. [`hw::sdma::seat`] has the
//! transitions.
//!
//! A queue that does not leave has the engine to itself, maybe for hours: a packet can be as long
//! as its process likes. The thread that finds that out resets the engine ([`EngineSlots::reset`]):
//! the queue has failed, with all of its process's, and the others go on from where they were. It
//! is found out when another queue needs the slot or the VMID, and also when two queues have
//! something to do, or the kernel's ring has. Then the kernel's ring must get a turn within a
//! second (`KernelRings::pulse`). If it does not, every queue is asked to leave for a moment
//! ([`EngineSlots::clear`]).

mod choice;
mod entry;
mod reset;
mod seats;

use super::super::hw_queue::SdmaHwQueue;
use crate::ip::sdma::{Sdma, STOP_TIMEOUT};
use crate::ip::vmid::Vmid;
use crate::ip::Hardware;
use crate::kern::{host, workqueue};
use crate::mem::queue_group::QuiesceTimeout;
use crate::mem::vm::VmidUse;
use crate::queue::request::QueueOwner;
use crate::ring;
use entry::{EntryMemory, SlotEntry};
use hw::doorbell::MAX_SDMA_QUEUES;
use hw::sdma::seat::{LateReason, LoadPermit, SeatAction, SeatEvent, UnloadPermit, FAULT_WAITS};
use hw::seat::Seat;
use kernel::prelude::*;
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
/// The work items: `TURN` loads and unloads, `PULSE` has the engine show that.
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
    /// A seat changed.
    #[pin]
    changed: CondVar,
    /// Held while registers of more than one ring are written, or while a reset must not come
    /// between: by a thread that loads a queue or resets the engine. Nothing is allocated under it.
    #[pin]
    hardware: Mutex<()>,
    /// Held by the interrupt thread while it looks at queues without the lock of `state`. A thread
    /// that has taken a queue out waits for it before it lets go of the queue, so that the
    /// interrupt thread never drops the last reference. Innermost but for the locks that a look
    /// takes.
    #[pin]
    looking: Mutex<()>,
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
        loop {
            let next = this.state.lock().next();
            match next {
                SlotAction::Load(rlc, permit) => this.load(rlc, permit),
                // It is decided anew, whatever comes of it.
                SlotAction::Unload(rlc, permit) => {
                    let _ = this.unload(rlc, permit, &QuiesceTimeout::endless());
                }
                SlotAction::Later(ms) => {
                    let state = this.state.lock();
                    if !state.closed {
                        let delay = msecs_to_jiffies(ms.max(1) as u32);
                        let _ =
                            workqueue::highpri().enqueue_delayed::<_, TURN>(this.clone(), delay);
                    }
                    return;
                }
                SlotAction::Nothing => return,
            }
        }
    }
}

impl EngineSlots {
    /// The slots of engine `number`, of which there are `slots`; all are free.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(number: u8, slots: u8) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                number,
                state <- new_spinlock!(
                    EngineSeats::new(slots),
                    "EngineSlots::state"
                ),
                hardware <- new_mutex!((), "EngineSlots::hardware"),
                looking <- new_mutex!((), "EngineSlots::looking"),
                changed <- new_condvar!("EngineSlots::changed"),
                turn <- new_delayed_work!("EngineSlots::turn"),
                pulse <- new_delayed_work!("EngineSlots::pulse"),
            }),
            GFP_KERNEL,
        )
    }

    /// Queues the work item. Any context.
    pub(super) fn wake(self: &Arc<Self>) {
        workqueue::run_in::<_, TURN>(workqueue::highpri(), self.clone(), 0);
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
                // The work item is woken once, for all.
                let _ = state.apply(&key, SeatEvent::Clear);
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
                // Other processes were faster than `VmidPool::turn` said, or there is an error.
                if error != ENOSPC {
                    rlc.fail(error);
                }
                let _ = self.report(rlc, SeatEvent::NotLoaded(permit));
                return;
            }
        };
        let slot = permit.slot();
        let mut loaded = 0;
        let hardware = self.hardware.lock();
        let began = Instant::<Monotonic>::now();
        let result = vmid.as_ref().ok_or(EINVAL).and_then(|vmid| {
            let (image, rptr, wptr) = rlc.image(slot, vmid.vmid())?;
            loaded = wptr;
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
        let change = state.apply(&QueueKey::of(&rlc), event);
        let held = match change.map(|change| change.step.action) {
            Some(SeatAction::Nothing) => {
                // A job that came meanwhile found no seat to ring for.
                if rlc.target() != loaded {
                    ring(&rlc, slot);
                }
                if state.inside().count() > 1 {
                    self.expect_pulse();
                }
                // The entry has a reference of its own: nothing is freed under the lock.
                drop(rlc);
                None
            }
            action => Some((rlc, action)),
        };
        drop(state);
        drop(hardware);
        self.changed.notify_all();
        match (held, result) {
            // The slot of a queue that has left was not empty after all.
            (Some((rlc, Some(SeatAction::Reset(permit)))), Err(error)) => {
                self.hangs(rlc, permit, error);
            }
            // The engine was lost while the queue waited to be loaded.
            (Some((rlc, Some(SeatAction::Fail))), _) => rlc.fail(EIO),
            _ => {}
        }
    }

    /// Unloads a queue that leaves its slot.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` when `patience` is over before that: the work item goes on with it.
    fn unload(
        self: &Arc<Self>,
        rlc: Arc<SdmaHwQueue>,
        permit: UnloadPermit,
        patience: &QuiesceTimeout,
    ) -> Result {
        let gpu = rlc.gpu.clone();
        let pasid = rlc.owner.pasid;
        let _urgent = gpu.hw.faults.set_urgent(pasid);
        let (mut rlc, mut permit) = (rlc, permit);
        loop {
            let time = patience.left(Delta::from_millis(permit.within_ms()));
            let since_ms = host::boot_ms();
            let error = match self.sdma(&gpu.hw).unload(permit.slot(), time) {
                Ok(rptr) => {
                    self.is_out(rlc, permit, rptr);
                    return Ok(());
                }
                Err(error) => error,
            };
            let why = if patience.is_over() {
                LateReason::CallerGivesUp
            } else if gpu.hw.faults.are_under_way(pasid, since_ms) {
                LateReason::PageFaults
            } else {
                LateReason::Hangs
            };
            match self.report(rlc, SeatEvent::Late(permit, why)) {
                Some((again, SeatAction::Unload(more))) => (rlc, permit) = (again, more),
                Some((hung, SeatAction::Reset(permit))) => {
                    self.hangs(hung, permit, error);
                    return Ok(());
                }
                // The engine was lost meanwhile.
                Some((kept, _)) => {
                    kept.fail(EIO);
                    return Err(error);
                }
                None => return Err(error),
            }
        }
    }

    /// A queue has left its slot at `rptr`.
    fn is_out(self: &Arc<Self>, rlc: Arc<SdmaHwQueue>, permit: UnloadPermit, rptr: u64) {
        rlc.save(rptr);
        rlc.check();
        self.give_up_vmid(&rlc);
        let _ = self.report(rlc, SeatEvent::Left(permit));
    }

    /// Gives up the VMID of a queue that is off the hardware, before the queue is reported to be
    /// out: a thread that destroys it may be through as soon as it is. May sleep.
    fn give_up_vmid(&self, rlc: &SdmaHwQueue) {
        let vmid = self
            .state
            .lock()
            .find(rlc)
            .and_then(|entry| entry.vmid.take());
        drop(vmid);
    }

    fn sdma<'a>(&self, hw: &'a Hardware) -> &'a Sdma {
        &hw.sdma[usize::from(self.number)]
    }

    /// Reports an event of a queue that this thread moves. If the thread has to do more with the
    /// queue, that is returned, with the queue. If not, the thread's reference is dropped while the
    /// entry still has one: a thread that moves the queue of another process must not be the one
    /// that frees it. May sleep.
    fn report(
        self: &Arc<Self>,
        rlc: Arc<SdmaHwQueue>,
        event: SeatEvent<Arc<SdmaHwQueue>>,
    ) -> Option<(Arc<SdmaHwQueue>, SeatAction)> {
        let mut state = self.state.lock();
        let Some(change) = state.apply(&QueueKey::of(&rlc), event) else {
            // The engine was closed, and has the last reference elsewhere or here.
            drop(state);
            return None;
        };
        let held = match change.step.action {
            SeatAction::Nothing => {
                drop(rlc);
                None
            }
            action => Some((rlc, action)),
        };
        drop(state);
        // Its page tables are taken from the VMID.
        drop(change.vmid);
        if change.step.notify {
            self.changed.notify_all();
        }
        if change.wakes {
            self.wake();
        }
        held
    }

    /// See [`super::SdmaSlots::submit`].
    pub(super) fn submit(self: &Arc<Self>, rlc: &SdmaHwQueue) {
        let mut state = self.state.lock();
        let Some(change) = state.apply(&QueueKey::of(rlc), SeatEvent::Work) else {
            return;
        };
        if let SeatAction::Ring(slot) = change.step.action {
            ring(rlc, slot);
            if state.inside().count() > 1 {
                self.expect_pulse();
            }
        }
        drop(state);
        if change.wakes {
            self.wake();
        }
    }

    /// Takes the queue out of its slot and has it stay out, and waits for that: bounded by the time
    /// that the hardware may take, and by `patience`. `forget` removes it altogether.
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
            let Some(change) = state.apply(&key, SeatEvent::Evict) else {
                return Ok(());
            };
            match change.step.action {
                SeatAction::Unload(permit) => {
                    let Some(rlc) = state.find(rlc).map(|entry| entry.rlc.clone()) else {
                        return Ok(());
                    };
                    drop(state);
                    self.unload(rlc, permit, patience)?;
                    state = self.state.lock();
                }
                // It is kept, with all that the engine may still reach.
                SeatAction::Keep => return Err(ETIMEDOUT),
                SeatAction::Wait { .. } if patience.is_endless() => self.changed.wait(&mut state),
                SeatAction::Wait { poll_us } => {
                    drop(state);
                    if patience.is_over() {
                        return Err(ETIMEDOUT);
                    }
                    fsleep(Delta::from_micros(poll_us));
                    state = self.state.lock();
                }
                _ => break,
            }
        }
        let gone = if forget { state.remove(rlc) } else { None };
        drop(state);
        if gone.is_some() {
            self.wait_polls();
        }
        drop(gone);
        Ok(())
    }

    /// Allows the queue to be loaded again after [`EngineSlots::evict`].
    pub(super) fn admit(self: &Arc<Self>, rlc: &SdmaHwQueue) {
        let mut state = self.state.lock();
        let change = state.apply(&QueueKey::of(rlc), SeatEvent::Admit);
        drop(state);
        if change.is_some() {
            self.wake();
        }
    }

    /// Adds a queue. A direct one gets a slot of its own, in which it is at the return if that is
    /// free. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOSPC` for a direct queue of a process that has one in every slot; `ENODEV` when the
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
        let own = if rlc.is_direct() {
            Some(state.own_slot(rlc.owner.pasid).ok_or(ENOSPC)?)
        } else {
            None
        };
        let key = QueueKey::of(&rlc);
        state.add(rlc, own, room);
        let first = match own {
            Some(_) => state.try_seat(&key),
            None => SlotAction::Nothing,
        };
        drop(state);
        let wakes = if let SlotAction::Load(rlc, permit) = first {
            let gpu = rlc.gpu.clone();
            // A change of queues by the work item would cost more than the load.
            self.load(rlc, permit);
            // It may have failed meanwhile, or its VMID been recalled, when the work item found it
            // neither in nor out.
            self.state.lock().must_unload(&key, &gpu.hw.vmids)
        } else {
            own.is_some()
        };
        if wakes {
            self.wake();
        }
        Ok(own)
    }

    /// Whether this engine has no slot for one more direct queue of process `pasid`, or none at
    /// all, and the number of its queues.
    pub(super) fn load_of(&self, pasid: u16) -> (bool, usize) {
        let state = self.state.lock();
        let full = state.table.is_lost() || state.own_slot(pasid).is_none();
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
        let _looking = self.looking.lock();
        let seated = self.state.lock().table.slots().clone();
        seated.queues().for_each(|rlc| look(rlc));
    }

    /// Looks at the first queues of process `pasid` for which `which` holds, at most
    /// [`MAX_SLOTS`]. Returns the owner of one, if there are any.
    pub(super) fn poll_some_of(
        &self,
        pasid: u16,
        which: impl Fn(&SdmaHwQueue) -> bool,
        look: impl Fn(&SdmaHwQueue),
    ) -> Option<QueueOwner> {
        let _looking = self.looking.lock();
        let mut found = [const { None }; MAX_SLOTS];
        {
            let state = self.state.lock();
            let all = state.of_process(pasid);
            let meant = all.filter(|entry| which(&entry.rlc));
            for (place, entry) in found.iter_mut().zip(meant) {
                *place = Some(entry.rlc.clone());
            }
        }
        found.iter().flatten().for_each(|rlc| look(rlc));
        found.iter().flatten().next().map(|rlc| rlc.owner)
    }

    /// Waits until threads that look at queues now are through. May sleep.
    fn wait_polls(&self) {
        drop(self.looking.lock());
    }

    /// Ends all loading. Returns one of the queues that are left, and how many there are. May
    /// sleep.
    pub(super) fn close(self: &Arc<Self>) -> Option<(Arc<SdmaHwQueue>, usize)> {
        let left = self.state.lock().close();
        workqueue::cancel::<_, TURN>(self);
        workqueue::cancel::<_, PULSE>(self);
        self.wait_polls();
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
