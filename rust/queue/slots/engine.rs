// SPDX-License-Identifier: GPL-2.0
//! The slots of one engine. One work item loads and unloads; who halts a queue unloads it, too.
//!
//! A queue that does not leave has the engine to itself, and for all that is known for hours: a packet can be as long as
//! its process likes. Whoever finds that out resets the engine (`Engine::reset`): the queue has failed, with all of
//! its process's, and the others go on from where they were. It is found out when somebody wants the slot or the
//! VMID, and also when two queues have something to do, or the kernel's ring has: then the latter is to get a turn within a second
//! (`Rings::pulse`), and if it does not, every queue is asked to leave for a moment (`Engine::clear`).

use super::super::doorbell::Slice;
use super::super::group::Patience;
use super::super::rlc::Rlc;
use super::Seat;
use crate::ip::sdma::{Sdma, STOP_TIMEOUT};
use crate::ip::vmid::{Turn, Vmid, Vmids};
use crate::ip::Hardware;
use crate::kern::ratelimit::dev_err_ratelimited;
use crate::kern::workqueue;
use crate::mem::vm::VmidUse;
use crate::ring::Rings;
use hw::doorbell::SDMA_QUEUES;
use kernel::prelude::*;
use kernel::sync::{new_condvar, new_mutex, new_spinlock, Arc, CondVar, Mutex, SpinLock};
use kernel::time::{delay::fsleep, msecs_to_jiffies, Delta, Instant, Monotonic};
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};

pub(super) const SLOTS: usize = SDMA_QUEUES as usize;
/// How long a working queue keeps its slot while another waits, milliseconds.
const QUANTUM_MS: i64 = 10;
/// How long the working queues of a process keep its VMID while another process waits, milliseconds.
const VMID_QUANTUM_MS: i64 = 20;
/// How often the write pointers of direct queues are looked at that are in no slot, where doorbells find nobody,
/// milliseconds.
const WORK_POLL_MS: i64 = 5;
/// Between two looks at the seat of a queue that is not waited for at any cost.
const SEAT_POLL: Delta = Delta::from_micros(200);
/// How often the engine is to show that queues that have something to do get turns, milliseconds.
const PULSE_MS: u32 = 500;
/// The work items: the one that loads and unloads, and the one that has the engine show that.
const TURN: u64 = 0;
const PULSE: u64 = 1;

/// A queue of an engine.
struct Entry {
    rlc: Arc<Rlc>,
    seat: Seat,
    /// Its VMID, unless it is out.
    vmid: Option<VmidUse>,
    /// When it got the slot, or began to wait for one.
    since: Instant<Monotonic>,
    /// It is to be out, and stay out.
    leaving: bool,
    /// It is to be out for a moment.
    cleared: bool,
    /// The only slot that a direct queue can be in: the one that its doorbell goes to.
    own: Option<u8>,
}

impl Entry {
    fn is_runnable(&self) -> bool {
        !self.leaving && self.rlc.is_runnable()
    }

    fn has_work(&self) -> bool {
        self.rlc.has_work(self.seat == Seat::Out)
    }

    /// Whether it is not on the hardware, and may be.
    fn waits(&self) -> bool {
        self.seat == Seat::Out && self.is_runnable()
    }

    fn pasid(&self) -> u16 {
        self.rlc.owner.pasid
    }
}

struct State {
    entries: KVVec<Entry>,
    /// Who is in each slot, coming or going, to be found without a look at all.
    seated: [Option<Arc<Rlc>>; SLOTS],
    closed: bool,
    /// The engine did not come to rest by a reset: nothing runs on it any more.
    lost: bool,
}

impl State {
    fn position(&self, rlc: &Rlc) -> Option<usize> {
        self.entries
            .iter()
            .position(|entry| core::ptr::eq(&*entry.rlc, rlc))
    }

    fn find(&mut self, rlc: &Rlc) -> Option<&mut Entry> {
        let index = self.position(rlc)?;
        self.entries.get_mut(index)
    }

    /// Which slots somebody is in whose seat is meant, a bit each.
    fn slots(&self, which: impl Fn(Seat) -> bool) -> u32 {
        let seats = self.entries.iter().map(|entry| entry.seat);
        let slots = seats.filter(|&seat| which(seat)).filter_map(Seat::slot);
        slots.fold(0, |mask, slot| mask | 1 << slot)
    }

    /// The slot for one more direct queue with doorbells in `slice`: one that no other queue with doorbells there has,
    /// and that the fewest have.
    fn own_slot(&self, slice: &Arc<Slice>) -> Option<u8> {
        let have = |slot| {
            let all = self.entries.iter();
            all.filter(move |entry| entry.own == Some(slot))
        };
        (0..SDMA_QUEUES)
            .filter(|&slot| !have(slot).any(|entry| Arc::ptr_eq(&entry.rlc.slice, slice)))
            .min_by_key(|&slot| have(slot).count())
    }
}

/// What the hardware is to do next.
enum Action {
    Load(Arc<Rlc>, u8),
    Unload(Arc<Rlc>, u8),
    /// Nothing until so many milliseconds have passed.
    Later(i64),
    Nothing,
}

/// The sooner of two times in milliseconds, of which one may be never.
fn sooner(one: Option<i64>, other: i64) -> Option<i64> {
    Some(one.map_or(other, |one| one.min(other)))
}

/// Of the entries whose indices and times are `one` and `other`, the one that has waited longer.
fn longer(
    one: Option<(usize, Instant<Monotonic>)>,
    other: (usize, Instant<Monotonic>),
) -> Option<(usize, Instant<Monotonic>)> {
    Some(
        one.filter(|one| one.1.elapsed() >= other.1.elapsed())
            .unwrap_or(other),
    )
}

/// A queue as debugfs sees it.
pub(super) struct View {
    pub(super) rlc: Arc<Rlc>,
    pub(super) seat: Seat,
    pub(super) vmid: Option<Vmid>,
}

/// An engine's slots.
#[pin_data]
pub(super) struct Engine {
    pub(super) number: u8,
    #[pin]
    state: SpinLock<State>,
    /// A seat changed.
    #[pin]
    changed: CondVar,
    /// Held while registers of more than one ring are written, or while a reset must not come between: by who loads a queue
    /// or resets the engine. Nothing is allocated under it.
    #[pin]
    hardware: Mutex<()>,
    #[pin]
    turn: DelayedWork<Self, TURN>,
    #[pin]
    pulse: DelayedWork<Self, PULSE>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self, TURN> for Engine { self.turn }
    impl HasDelayedWork<Self, PULSE> for Engine { self.pulse }
}

impl WorkItem<PULSE> for Engine {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let state = this.state.lock();
        let is_in = |entry: &&Entry| matches!(entry.seat, Seat::In(_));
        let inside = || state.entries.iter().filter(is_in);
        let busy = inside().filter(|entry| entry.has_work()).count();
        // Direct queues get work without the driver's knowing.
        let again = busy > 1 || inside().count() > 1 && inside().any(|entry| entry.rlc.is_direct());
        let gpu = inside().next().map(|entry| entry.rlc.gpu.clone());
        if again && !state.closed {
            this.expect_pulse();
        }
        drop(state);
        if let (true, Some(gpu)) = (busy > 1, gpu) {
            gpu.rings.pulse(this.number);
        }
    }
}

impl WorkItem<TURN> for Engine {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        loop {
            match this.next() {
                Action::Load(rlc, slot) => this.load(&rlc, slot),
                // Whatever comes of it.
                Action::Unload(rlc, slot) => {
                    let _ = this.unload(&rlc, slot, &Patience::endless());
                }
                Action::Later(ms) => {
                    let state = this.state.lock();
                    if !state.closed {
                        let delay = msecs_to_jiffies(ms.max(1) as u32);
                        let _ =
                            workqueue::highpri().enqueue_delayed::<_, TURN>(this.clone(), delay);
                    }
                    return;
                }
                Action::Nothing => return,
            }
        }
    }
}

impl Engine {
    pub(super) fn new(number: u8) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                number,
                state <- new_spinlock!(
                    State {
                        entries: KVVec::new(),
                        seated: [const { None }; SLOTS],
                        closed: false,
                        lost: false,
                    },
                    "Engine::state"
                ),
                hardware <- new_mutex!((), "Engine::hardware"),
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

    /// See [`Engines::clear`](crate::ring::Engines::clear).
    pub(super) fn clear(self: &Arc<Self>) {
        let mut state = self.state.lock();
        for entry in state.entries.iter_mut() {
            entry.cleared |= matches!(entry.seat, Seat::In(_)) && entry.has_work();
        }
        drop(state);
        self.wake();
    }

    /// Decides what comes next, and marks the seat.
    fn next(&self) -> Action {
        let mut state = self.state.lock();
        if state.lost {
            return Action::Nothing;
        }
        let Some(gpu) = state.entries.first().map(|entry| entry.rlc.gpu.clone()) else {
            return Action::Nothing;
        };
        let vmids = &*gpu.hw.vmids;
        if let Some(action) = leave(&mut state, vmids) {
            return action;
        }
        let taken = state.slots(|_| true);
        let lost = state.slots(|seat| matches!(seat, Seat::Stuck(_)));
        let mut later = None;
        // Who has work and all that it needs, and who only needs a slot.
        let (mut best, mut crowded) = (None, None);
        for (index, entry) in state.entries.iter().enumerate() {
            if !entry.waits() {
                continue;
            }
            if entry.rlc.is_direct() {
                later = sooner(later, WORK_POLL_MS);
            }
            // Who cannot get a slot at all keeps no VMID from others.
            if !entry.has_work() || slot_for(entry, lost).is_none() {
                continue;
            }
            let this = (index, entry.since);
            match vmids.turn(entry.pasid(), VMID_QUANTUM_MS) {
                Turn::In(ms) => later = sooner(later, ms),
                Turn::Now if slot_for(entry, taken).is_some() => best = longer(best, this),
                Turn::Now => crowded = longer(crowded, this),
            }
        }
        if let Some((index, _)) = best {
            return enter(&mut state, index, taken);
        }
        if let Some((index, _)) = crowded {
            match make_room(&mut state, index) {
                Action::Later(ms) => later = sooner(later, ms),
                // Only leaving or stuck queues: one of them will say when it is gone.
                Action::Nothing => {}
                action => return action,
            }
        }
        // Doorbells of direct queues that have no work yet find them, where that is free.
        let idle = state.entries.iter().position(|entry| {
            entry.waits()
                && entry.rlc.is_direct()
                && slot_for(entry, taken).is_some()
                && vmids.has_room(entry.pasid())
        });
        match (idle, later) {
            (Some(index), _) => enter(&mut state, index, taken),
            (None, Some(ms)) => Action::Later(ms),
            (None, None) => Action::Nothing,
        }
    }

    /// Loads a queue whose seat is `Loading(slot)`.
    fn load(self: &Arc<Self>, rlc: &Arc<Rlc>, slot: u8) {
        let mut vmid = match rlc.vm().use_vmid(rlc.owner.pasid) {
            Ok(vmid) => Some(vmid),
            Err(error) => {
                // Unless others were faster than `turn` said, there is none.
                if error != ENOSPC {
                    rlc.fail(error);
                }
                self.seat(rlc, Seat::Out);
                return;
            }
        };
        let mut loaded = 0;
        let hardware = self.hardware.lock();
        let result = vmid.as_ref().ok_or(EINVAL).and_then(|vmid| {
            let (image, rptr, wptr) = rlc.image(slot, vmid.vmid())?;
            loaded = wptr;
            self.sdma(&rlc.gpu.hw).load(slot, &image, rptr, wptr)
        });
        let mut state = self.state.lock();
        if let Some(entry) = state.find(rlc) {
            entry.since = Instant::now();
            entry.vmid = vmid.take();
            entry.seat = match result {
                Ok(()) => Seat::In(slot),
                Err(_) => Seat::Leaving(slot),
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
        if state.slots(|seat| matches!(seat, Seat::In(_))).count_ones() > 1 {
            self.expect_pulse();
        }
        drop(state);
        drop(hardware);
        self.changed.notify_all();
    }

    /// Unloads a queue whose seat is `Leaving(slot)`. ETIMEDOUT when `patience` is over before that: the work item goes on
    /// with it.
    fn unload(self: &Arc<Self>, rlc: &Arc<Rlc>, slot: u8, patience: &Patience) -> Result {
        let time = patience.left(STOP_TIMEOUT);
        match self.sdma(&rlc.gpu.hw).unload(slot, time) {
            Ok(rptr) => self.is_out(rlc, rptr),
            Err(error) if patience.is_over() => {
                let mut state = self.state.lock();
                if let Some(entry) = state.find(rlc) {
                    // Its ring is off: it has to be loaded anew, whoever wants it to run by then.
                    entry.seat = Seat::In(slot);
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
    fn is_out(&self, rlc: &Rlc, rptr: u64) {
        rlc.save(rptr);
        rlc.check();
        self.seat(rlc, Seat::Out);
    }

    fn sdma<'a>(&self, hw: &'a Hardware) -> &'a Sdma {
        &hw.sdma[usize::from(self.number)]
    }

    /// Changes a seat. Who is out gives its VMID up. Sleeps.
    fn seat(&self, rlc: &Rlc, seat: Seat) {
        let mut vmid = None;
        let mut state = self.state.lock();
        let mut before = None;
        if let Some(entry) = state.find(rlc) {
            entry.since = Instant::now();
            before = entry.seat.slot();
            entry.seat = seat;
            if seat == Seat::Out {
                vmid = entry.vmid.take();
            }
        }
        let place = before.filter(|_| seat == Seat::Out).map(usize::from);
        let left = place.and_then(|place| state.seated.get_mut(place)?.take());
        drop(state);
        drop((vmid, left));
        self.changed.notify_all();
    }

    /// A queue whose seat is `Leaving(slot)` does not leave: the engine is reset. The queue has failed, and so have all
    /// others of its process, which might do the same next.
    fn hangs(self: &Arc<Self>, rlc: &Rlc, slot: u8, error: Error) {
        dev_err_ratelimited!(
            &*rlc.gpu.hw.dev,
            "sdma{}: slot {slot} hangs with queue {} of process {}: {error:?}: the engine is reset\n",
            self.number,
            rlc.owner.queue,
            rlc.owner.pid
        );
        rlc.gpu.queue_hung(rlc.owner.pasid, c"SDMA queue hang", || {
            let reset = self.reset(&rlc.gpu.hw, Some(&rlc.gpu.rings));
            rlc.fail(EIO);
            rlc.gpu.slots.fail(None, rlc.owner.pasid, EIO);
            self.seat(
                rlc,
                match reset {
                    Ok(()) => Seat::Out,
                    // Kept, with the memory and the VMID that the engine may still use.
                    Err(_) => Seat::Stuck(slot),
                },
            );
        });
        self.wake();
    }

    /// Resets the engine, whatever it is at: its queues are out, where the hardware has left them, but for those that
    /// somebody is taking out. The kernel's ring goes on at once, if it is one of `rings`, the others at their next turn. Sleeps, allocates nothing. EIO when
    /// the engine does not come to rest; then nothing runs on it any more.
    pub(super) fn reset(self: &Arc<Self>, hw: &Hardware, rings: Option<&Rings>) -> Result {
        let _hardware = self.hardware.lock();
        let stopped = self.sdma(hw).reset();
        let out = {
            let mut state = self.state.lock();
            state.lost |= stopped.is_err();
            let mut out = [const { None }; SLOTS];
            let inside = state
                .entries
                .iter_mut()
                .filter_map(|entry| match entry.seat {
                    Seat::In(slot) => Some((entry, slot)),
                    _ => None,
                });
            for (place, (entry, slot)) in out.iter_mut().zip(inside) {
                entry.seat = Seat::Leaving(slot);
                *place = Some((entry.rlc.clone(), slot));
            }
            out
        };
        if stopped.is_err() {
            dev_err!(
                hw.dev,
                "sdma{}: the engine does not come to rest: nothing runs on it any more\n",
                self.number
            );
            if let Some(rings) = rings {
                rings.lose(self.number);
            }
            for (rlc, slot) in out.into_iter().flatten() {
                rlc.fail(EIO);
                self.seat(&rlc, Seat::Stuck(slot));
            }
            return Err(EIO);
        }
        for (rlc, slot) in out.into_iter().flatten() {
            self.is_out(&rlc, self.sdma(hw).rptr(slot));
        }
        if let Some(rings) = rings {
            rings.resume(self.number);
        }
        self.sdma(hw).run();
        self.wake();
        Ok(())
    }

    /// See [`super::Slots::submit`].
    pub(super) fn submit(self: &Arc<Self>, rlc: &Rlc) {
        let mut state = self.state.lock();
        match state.find(rlc) {
            Some(Entry {
                seat: Seat::In(slot),
                leaving: false,
                cleared: false,
                ..
            }) => {
                ring(rlc, *slot);
                if state.slots(|seat| matches!(seat, Seat::In(_))).count_ones() > 1 {
                    self.expect_pulse();
                }
            }
            // `load` looks again when it is through, and so does `unload`.
            Some(Entry {
                seat: Seat::Loading(_) | Seat::Leaving(_),
                ..
            }) => {}
            Some(_) => {
                drop(state);
                self.wake();
            }
            None => {}
        }
    }

    /// Takes the queue out of its slot and has it stay out, and waits for that: bounded by what the hardware may
    /// take, and by `patience`. `forget` removes it altogether. ETIMEDOUT when it is not out; it will be, unless the engine is lost.
    pub(super) fn evict(self: &Arc<Self>, rlc: &Rlc, forget: bool, patience: &Patience) -> Result {
        let mut state = self.state.lock();
        loop {
            let Some(entry) = state.find(rlc) else {
                return Ok(());
            };
            entry.leaving = true;
            match entry.seat {
                Seat::Out => break,
                // Kept, with all that the engine may still reach.
                Seat::Stuck(_) => return Err(ETIMEDOUT),
                Seat::Loading(_) | Seat::Leaving(_) if patience.is_endless() => {
                    self.changed.wait(&mut state);
                }
                Seat::Loading(_) | Seat::Leaving(_) => {
                    drop(state);
                    if patience.is_over() {
                        return Err(ETIMEDOUT);
                    }
                    fsleep(SEAT_POLL);
                    state = self.state.lock();
                }
                Seat::In(slot) => {
                    entry.seat = Seat::Leaving(slot);
                    let rlc = entry.rlc.clone();
                    drop(state);
                    self.unload(&rlc, slot, patience)?;
                    state = self.state.lock();
                }
            }
        }
        let gone = match state.position(rlc) {
            Some(place) if forget => state.entries.remove(place).ok(),
            _ => None,
        };
        drop(state);
        drop(gone);
        // The slot is free for who waits.
        self.wake();
        Ok(())
    }

    /// The queue may be loaded again after [`Engine::evict`].
    pub(super) fn admit(self: &Arc<Self>, rlc: &Rlc) {
        let mut state = self.state.lock();
        if let Some(entry) = state.find(rlc) {
            // It keeps its place among those that wait: it may be halted again before its turn.
            entry.leaving = false;
        }
        drop(state);
        self.wake();
    }

    /// Adds a queue; a direct one with its slot. ENOSPC for a direct one whose process has one in every slot; ENODEV,
    /// ENOMEM.
    pub(super) fn add(self: &Arc<Self>, rlc: Arc<Rlc>) -> Result<Option<u8>> {
        let mut more = KVVec::new();
        loop {
            let mut state = self.state.lock();
            if state.closed {
                return Err(ENODEV);
            }
            if state.lost {
                return Err(EIO);
            }
            let count = state.entries.len();
            // No allocation under the lock: what is too small is replaced by what was made without it.
            if count == state.entries.capacity() {
                if more.capacity() <= count {
                    drop(state);
                    let count = count.saturating_mul(2).max(SLOTS);
                    more = KVVec::with_capacity(count, GFP_KERNEL | __GFP_NOWARN)?;
                    continue;
                }
                let mut old = core::mem::replace(&mut state.entries, core::mem::take(&mut more));
                for entry in old.drain_all() {
                    let _ = state.entries.push_within_capacity(entry);
                }
                drop(state);
                drop(old);
                continue;
            }
            let own = if rlc.is_direct() {
                Some(state.own_slot(&rlc.slice).ok_or(ENOSPC)?)
            } else {
                None
            };
            let entry = Entry {
                leaving: !rlc.is_runnable(),
                rlc,
                seat: Seat::Out,
                vmid: None,
                since: Instant::now(),
                cleared: false,
                own,
            };
            let pushed = state.entries.push_within_capacity(entry);
            drop(state);
            if pushed.is_err() {
                return Err(ENOMEM);
            }
            if own.is_some() {
                self.wake();
            }
            return Ok(own);
        }
    }

    /// Whether one more direct queue with doorbells in `slice` finds no slot here, or none finds any, and how many queues
    /// there are.
    pub(super) fn load_of(&self, slice: &Arc<Slice>) -> (bool, usize) {
        let state = self.state.lock();
        let full = state.lost || state.own_slot(slice).is_none();
        (full, state.entries.len())
    }

    /// The queue at place `at` of those there are.
    pub(super) fn nth(&self, at: usize) -> Option<View> {
        let state = self.state.lock();
        state.entries.get(at).map(|entry| View {
            rlc: entry.rlc.clone(),
            seat: entry.seat,
            vmid: entry.vmid.as_ref().map(VmidUse::vmid),
        })
    }

    /// Who is in each slot, coming or going.
    pub(super) fn seated(&self) -> [Option<Arc<Rlc>>; SLOTS] {
        self.state.lock().seated.clone()
    }

    /// The first queues that are meant, at most as many as there are slots.
    pub(super) fn some(&self, which: impl Fn(&Rlc) -> bool) -> [Option<Arc<Rlc>>; SLOTS] {
        let mut found = [const { None }; SLOTS];
        let state = self.state.lock();
        let meant = state.entries.iter().filter(|entry| which(&entry.rlc));
        for (place, entry) in found.iter_mut().zip(meant) {
            *place = Some(entry.rlc.clone());
        }
        found
    }

    /// Nothing is loaded any more. Gives one of the queues that are left, and how many there are. Sleeps.
    pub(super) fn close(self: &Arc<Self>) -> Option<(Arc<Rlc>, usize)> {
        let (left, _seated) = {
            let mut state = self.state.lock();
            state.closed = true;
            let seated = core::mem::replace(&mut state.seated, [const { None }; SLOTS]);
            (core::mem::take(&mut state.entries), seated)
        };
        workqueue::cancel::<_, TURN>(self);
        workqueue::cancel::<_, PULSE>(self);
        left.first().map(|entry| (entry.rlc.clone(), left.len()))
    }
}

/// One who is not to run any more leaves, or has no work while others want its VMID, or has had its turn.
fn leave(state: &mut State, vmids: &Vmids) -> Option<Action> {
    let wanted = vmids.is_wanted();
    let leaves = |entry: &Entry| {
        !entry.is_runnable()
            || entry.cleared
            || wanted && !entry.has_work()
            || entry.vmid.as_ref().is_some_and(VmidUse::is_recalled)
    };
    for entry in state.entries.iter_mut() {
        if let Seat::In(slot) = entry.seat {
            if leaves(entry) {
                entry.seat = Seat::Leaving(slot);
                return Some(Action::Unload(entry.rlc.clone(), slot));
            }
        }
    }
    None
}

/// The slot that a queue can be put into now.
fn slot_for(entry: &Entry, taken: u32) -> Option<u8> {
    let is_free = |&slot: &u8| taken >> slot & 1 == 0;
    match entry.own {
        Some(slot) => Some(slot).filter(is_free),
        None => (0..SDMA_QUEUES).find(is_free),
    }
}

/// Entry `index`, for which there is a slot, comes.
fn enter(state: &mut State, index: usize, taken: u32) -> Action {
    let Some(entry) = state.entries.get_mut(index) else {
        return Action::Nothing;
    };
    match slot_for(entry, taken) {
        Some(slot) => {
            entry.seat = Seat::Loading(slot);
            let rlc = entry.rlc.clone();
            if let Some(place) = state.seated.get_mut(usize::from(slot)) {
                // It was empty.
                *place = Some(rlc.clone());
            }
            Action::Load(rlc, slot)
        }
        None => Action::Nothing,
    }
}

/// Has a queue leave a slot that entry `index` could have: one without work, or else the one that has been in longest, once
/// it has had its turn.
fn make_room(state: &mut State, index: usize) -> Action {
    let own = state.entries.get(index).and_then(|entry| entry.own);
    let inside = |entry: &&mut Entry| match entry.seat {
        Seat::In(slot) => own.is_none_or(|own| own == slot),
        _ => false,
    };
    let left = |entry: &Entry| match entry.has_work() {
        true => QUANTUM_MS - entry.since.elapsed().as_millis(),
        false => i64::MIN,
    };
    let victim = state.entries.iter_mut().filter(inside);
    let Some(entry) = victim.min_by_key(|entry| left(entry)) else {
        return Action::Nothing;
    };
    match (left(entry), entry.seat) {
        (left @ 1.., _) => Action::Later(left),
        (_, Seat::In(slot)) => {
            entry.seat = Seat::Leaving(slot);
            Action::Unload(entry.rlc.clone(), slot)
        }
        _ => Action::Nothing,
    }
}

/// Rings the doorbell of a queue in `slot`.
fn ring(rlc: &Rlc, slot: u8) {
    if let Ok(doorbell) = rlc.doorbell(slot) {
        rlc.gpu
            .hw
            .doorbells
            .ring(doorbell.byte() as u32, rlc.target());
    }
}
