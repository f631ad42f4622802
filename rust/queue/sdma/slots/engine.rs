// SPDX-License-Identifier: GPL-2.0
//! The slots of one engine. One work item loads and unloads; who quiesces a queue unloads it, too, and who makes a direct one may load it.
//!
//! A queue that does not leave has the engine to itself, and for all that is known for hours: a packet can be as long as
//! its process likes. Whoever finds that out resets the engine (`EngineSlots::reset`): the queue has failed, with all of
//! its process's, and the others go on from where they were. It is found out when somebody wants the slot or the
//! VMID, and also when two queues have something to do, or the kernel's ring has: then the latter is to get a turn within a second
//! (`KernelRings::pulse`), and if it does not, every queue is asked to leave for a moment (`EngineSlots::clear`).

mod choice;
mod entry;
mod reset;
mod seats;

use super::super::hw_queue::SdmaHwQueue;
use super::SdmaSeat;
use crate::ip::sdma::{Sdma, STOP_TIMEOUT};
use crate::ip::vmid::Vmid;
use crate::ip::Hardware;
use crate::kern::{host, workqueue};
use crate::mem::vm::VmidUse;
use crate::queue::queue_group::QuiesceTimeout;
use crate::queue::request::QueueOwner;
use crate::ring;
use entry::{EntryMemory, SlotEntry};
use hw::doorbell::SDMA_QUEUES;
use kernel::prelude::*;
use kernel::sync::{new_condvar, new_mutex, new_spinlock, Arc, CondVar, Mutex, SpinLock};
use kernel::time::{delay::fsleep, msecs_to_jiffies, Delta, Instant, Monotonic};
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};
use seats::{EngineSeats, SlotAction};

pub(super) use entry::QueueKey;

/// Slots of an engine.
pub(super) const SLOTS: usize = SDMA_QUEUES as usize;
/// Between two looks at the seat of a queue that is not waited for at any cost.
const SEAT_POLL: Delta = Delta::from_micros(200);
/// How often a queue that has to leave and does not is given as much time again because page faults of its process are or were to be dealt with
/// meanwhile, which is the driver's affair: ten seconds in all. amdkfd gives a queue nine (queue_preemption_timeout_ms).
const FAULT_WAITS: u32 = 4;
// The kernel's ring may wait behind it, and must not be taken for dead before the queue is.
const _: () = assert!(
    ring::STARVED_MS * 1_000_000 + (FAULT_WAITS as i64 + 1) * STOP_TIMEOUT.as_nanos()
        < ring::TIMEOUT_MS as i64 * 1_000_000
);
/// How often the engine is to show that queues that have something to do get turns, milliseconds.
const PULSE_MS: u32 = 500;
/// The work items: the one that loads and unloads, and the one that has the engine show that.
const TURN: u64 = 0;
const PULSE: u64 = 1;

/// A queue as debugfs sees it.
pub(super) struct SlotView {
    pub(super) rlc: Arc<SdmaHwQueue>,
    pub(super) seat: SdmaSeat,
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
    /// Held while registers of more than one ring are written, or while a reset must not come between: by who loads a queue
    /// or resets the engine. Nothing is allocated under it.
    #[pin]
    hardware: Mutex<()>,
    /// Held by the interrupt thread while it looks at queues without the lock of `state`. Who has taken a queue out waits for it
    /// before letting go of that, so that nobody's last reference is dropped there. Innermost but for what looking takes.
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
        // Direct queues get work without the driver's knowing.
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
                SlotAction::Load(rlc, slot) => this.load(&rlc, slot),
                // Whatever comes of it.
                SlotAction::Unload(rlc, slot) => {
                    let _ = this.unload(&rlc, slot, &QuiesceTimeout::endless());
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
    pub(super) fn new(number: u8) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                number,
                state <- new_spinlock!(
                    EngineSeats::new(),
                    "Engine::state"
                ),
                hardware <- new_mutex!((), "Engine::hardware"),
                looking <- new_mutex!((), "Engine::looking"),
                changed <- new_condvar!("Engine::changed"),
                turn <- new_delayed_work!("Engine::turn"),
                pulse <- new_delayed_work!("Engine::pulse"),
            }),
            GFP_KERNEL,
        )
    }

    /// Has the work item look. Any context.
    pub(super) fn wake(self: &Arc<Self>) {
        workqueue::run_in::<_, TURN>(workqueue::highpri(), self.clone(), 0);
    }

    /// Has the engine show before long that queues get turns. Any context.
    fn expect_pulse(self: &Arc<Self>) {
        let delay = msecs_to_jiffies(PULSE_MS);
        let _ = workqueue::highpri().enqueue_delayed::<_, PULSE>(self.clone(), delay);
    }

    /// See [`RingEngines::clear`](crate::ring::RingEngines::clear).
    pub(super) fn clear(self: &Arc<Self>) {
        let mut state = self.state.lock();
        for slot in 0..SLOTS {
            if let Some(entry) = state.seated_mut(slot) {
                entry.cleared |= matches!(entry.seat, SdmaSeat::In(_)) && entry.has_work();
            }
        }
        drop(state);
        self.wake();
    }

    /// Loads a queue whose seat is `Loading(slot)`.
    fn load(self: &Arc<Self>, rlc: &Arc<SdmaHwQueue>, slot: u8) {
        let mut vmid = match rlc.vm().use_vmid(rlc.owner.pasid) {
            Ok(vmid) => Some(vmid),
            Err(error) => {
                // Unless others were faster than `turn` said, there is none.
                if error != ENOSPC {
                    rlc.fail(error);
                }
                self.seat(rlc, SdmaSeat::Out);
                return;
            }
        };
        let mut loaded = 0;
        let hardware = self.hardware.lock();
        let began = Instant::<Monotonic>::now();
        let result = vmid.as_ref().ok_or(EINVAL).and_then(|vmid| {
            let (image, rptr, wptr) = rlc.image(slot, vmid.vmid())?;
            loaded = wptr;
            self.sdma(&rlc.gpu.hw).load(slot, &image, rptr, wptr)
        });
        let took = began.elapsed();
        if result.is_ok() {
            rlc.enter();
        }
        let mut state = self.state.lock();
        state.has_taken(took);
        if let Some(entry) = state.find(rlc) {
            entry.since = Instant::now();
            entry.vmid = vmid.take();
            entry.seat = match result {
                Ok(()) => SdmaSeat::In(slot),
                Err(_) => SdmaSeat::Leaving(slot),
            };
            entry.cleared = false;
        }
        match result {
            // A job that came meanwhile found nobody to ring for.
            Ok(()) if rlc.target() != loaded => ring(rlc, slot),
            Ok(()) => {}
            Err(error) => {
                drop(state);
                drop(hardware);
                // The slot of a queue that has left was not empty after all.
                self.hangs(rlc, slot, error);
                return;
            }
        }
        if state.inside().count() > 1 {
            self.expect_pulse();
        }
        drop(state);
        drop(hardware);
        self.changed.notify_all();
    }

    /// Unloads a queue whose seat is `Leaving(slot)`. ETIMEDOUT when `patience` is over before that: the work item goes on
    /// with it.
    fn unload(
        self: &Arc<Self>,
        rlc: &Arc<SdmaHwQueue>,
        slot: u8,
        patience: &QuiesceTimeout,
    ) -> Result {
        let hw = &rlc.gpu.hw;
        let _urgent = hw.faults.set_urgent(rlc.owner.pasid);
        let mut waits = 0;
        let unloaded = loop {
            let time = patience.left(STOP_TIMEOUT);
            let since_ms = host::boot_ms();
            match self.sdma(hw).unload(slot, time) {
                // Its packet goes on when the driver has mapped what it has come to.
                Err(_)
                    if !patience.is_over()
                        && waits < FAULT_WAITS
                        && hw.faults.are_under_way(rlc.owner.pasid, since_ms) =>
                {
                    waits += 1;
                }
                done => break done,
            }
        };
        match unloaded {
            Ok(rptr) => self.is_out(rlc, rptr),
            Err(error) if patience.is_over() => {
                let mut state = self.state.lock();
                if let Some(entry) = state.find(rlc) {
                    // Its ring is off: it has to be loaded anew, whoever wants it to run by then.
                    entry.seat = SdmaSeat::In(slot);
                    entry.cleared = true;
                }
                drop(state);
                self.changed.notify_all();
                self.wake();
                return Err(error);
            }
            Err(error) => self.hangs(rlc, slot, error),
        }
        Ok(())
    }

    /// A queue whose seat was `Leaving` has left at `rptr`.
    fn is_out(&self, rlc: &SdmaHwQueue, rptr: u64) {
        rlc.save(rptr);
        rlc.check();
        self.seat(rlc, SdmaSeat::Out);
    }

    fn sdma<'a>(&self, hw: &'a Hardware) -> &'a Sdma {
        &hw.sdma[usize::from(self.number)]
    }

    /// Changes a seat. Who is out gives its VMID up. Sleeps.
    fn seat(&self, rlc: &SdmaHwQueue, seat: SdmaSeat) {
        let mut vmid = None;
        let mut state = self.state.lock();
        let mut before = None;
        if let Some(entry) = state.find(rlc) {
            entry.since = Instant::now();
            before = entry.seat.slot();
            entry.seat = seat;
            if seat == SdmaSeat::Out {
                vmid = entry.vmid.take();
            }
        }
        let place = before.filter(|_| seat == SdmaSeat::Out).map(usize::from);
        let left = place.and_then(|place| state.seated.get_mut(place)?.take());
        if left.is_some() {
            state.unloaded(rlc);
        }
        drop(state);
        drop((vmid, left));
        self.changed.notify_all();
    }

    /// See [`super::SdmaSlots::submit`].
    pub(super) fn submit(self: &Arc<Self>, rlc: &SdmaHwQueue) {
        let mut state = self.state.lock();
        match state.find(rlc) {
            Some(SlotEntry {
                seat: SdmaSeat::In(slot),
                leaving: false,
                cleared: false,
                ..
            }) => {
                ring(rlc, *slot);
                if state.inside().count() > 1 {
                    self.expect_pulse();
                }
            }
            // `load` looks again when it is through, and so does `unload`.
            Some(SlotEntry {
                seat: SdmaSeat::Loading(_) | SdmaSeat::Leaving(_),
                ..
            }) => {}
            Some(_) => {
                state.line_up(&QueueKey::of(rlc));
                drop(state);
                self.wake();
            }
            None => {}
        }
    }

    /// Takes the queue out of its slot and has it stay out, and waits for that: bounded by what the hardware may
    /// take, and by `patience`. `forget` removes it altogether. ETIMEDOUT when it is not out; it will be, unless the engine is lost.
    pub(super) fn evict(
        self: &Arc<Self>,
        rlc: &SdmaHwQueue,
        forget: bool,
        patience: &QuiesceTimeout,
    ) -> Result {
        let mut state = self.state.lock();
        // Who waits for the slot of a queue that another thread takes out is told there.
        let mut freed = false;
        loop {
            let Some(entry) = state.find(rlc) else {
                return Ok(());
            };
            entry.leaving = true;
            match entry.seat {
                SdmaSeat::Out => break,
                // Kept, with all that the engine may still reach.
                SdmaSeat::Stuck(_) => return Err(ETIMEDOUT),
                SdmaSeat::Loading(_) | SdmaSeat::Leaving(_) if patience.is_endless() => {
                    self.changed.wait(&mut state);
                }
                SdmaSeat::Loading(_) | SdmaSeat::Leaving(_) => {
                    drop(state);
                    if patience.is_over() {
                        return Err(ETIMEDOUT);
                    }
                    fsleep(SEAT_POLL);
                    state = self.state.lock();
                }
                SdmaSeat::In(slot) => {
                    entry.seat = SdmaSeat::Leaving(slot);
                    let rlc = entry.rlc.clone();
                    drop(state);
                    self.unload(&rlc, slot, patience)?;
                    freed = true;
                    state = self.state.lock();
                }
            }
        }
        let gone = if forget { state.remove(rlc) } else { None };
        let awaited = freed && state.has_line();
        drop(state);
        if gone.is_some() {
            self.wait_polls();
        }
        drop(gone);
        if awaited {
            // The slot is free for who waits.
            self.wake();
        }
        Ok(())
    }

    /// The queue may be loaded again after [`EngineSlots::evict`].
    pub(super) fn admit(self: &Arc<Self>, rlc: &SdmaHwQueue) {
        let mut state = self.state.lock();
        if let Some(entry) = state.find(rlc) {
            // It keeps its turn among those that wait: it may be quiesced again before that.
            entry.leaving = false;
        }
        state.line_up(&QueueKey::of(rlc));
        drop(state);
        self.wake();
    }

    /// Adds a queue; a direct one with its slot, in which it is at the return if that is free. ENOSPC for a direct one whose
    /// process has one in every slot; ENODEV, ENOMEM. Sleeps.
    pub(super) fn add(self: &Arc<Self>, rlc: Arc<SdmaHwQueue>) -> Result<Option<u8>> {
        let room = EntryMemory::new()?;
        let mut state = self.state.lock();
        if state.closed {
            return Err(ENODEV);
        }
        if state.lost {
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
        let wakes = if let SlotAction::Load(rlc, slot) = first {
            // As a change of queues by the work item would cost more than the load.
            self.load(&rlc, slot);
            // It may have failed meanwhile, or its VMID been recalled, when the work item found it neither in nor out.
            let vmids = &rlc.gpu.hw.vmids;
            self.state.lock().must_unload(&key, vmids)
        } else {
            own.is_some()
        };
        if wakes {
            self.wake();
        }
        Ok(own)
    }

    /// Whether one more direct queue of process `pasid` finds no slot here, or none finds any, and how many queues there
    /// are.
    pub(super) fn load_of(&self, pasid: u16) -> (bool, usize) {
        let state = self.state.lock();
        let full = state.lost || state.own_slot(pasid).is_none();
        (full, state.len())
    }

    /// The first queue whose key is `from` or behind that.
    pub(super) fn next_from(&self, from: &QueueKey) -> Option<(QueueKey, SlotView)> {
        let state = self.state.lock();
        let (key, entry) = state.next_from(from)?;
        let view = SlotView {
            rlc: entry.rlc.clone(),
            seat: entry.seat,
            vmid: entry.vmid.as_ref().map(VmidUse::vmid),
        };
        Some((key, view))
    }

    /// Looks at who is in a slot, coming or going.
    pub(super) fn poll_seated(&self, look: impl Fn(&SdmaHwQueue)) {
        let _looking = self.looking.lock();
        let seated = self.state.lock().seated.clone();
        seated.iter().flatten().for_each(|rlc| look(rlc));
    }

    /// Looks at the first queues of process `pasid` that are meant, at most as many as there are slots; the owner of one, if
    /// there are any.
    pub(super) fn poll_some_of(
        &self,
        pasid: u16,
        which: impl Fn(&SdmaHwQueue) -> bool,
        look: impl Fn(&SdmaHwQueue),
    ) -> Option<QueueOwner> {
        let _looking = self.looking.lock();
        let mut found = [const { None }; SLOTS];
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

    /// Who looks at queues by now has done so. Sleeps.
    fn wait_polls(&self) {
        drop(self.looking.lock());
    }

    /// Nothing is loaded any more. Gives one of the queues that are left, and how many there are. Sleeps.
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
