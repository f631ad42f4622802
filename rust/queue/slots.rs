// SPDX-License-Identifier: GPL-2.0
//! The RLC slots of the engines, and who is in them. Queues that have work and no slot take turns: an idle queue
//! gives its slot up at once, a working one after a quantum.

use super::rlc::{Rlc, Source};
use super::Owner;
use core::fmt;
use hw::doorbell::{Slot, SDMA_QUEUES};
use hw::ip::GFX90A_SDMA_ENGINES;
use kernel::dev_warn;
use kernel::prelude::*;
use kernel::sync::{new_condvar, new_spinlock, Arc, CondVar, SpinLock};
use kernel::time::{msecs_to_jiffies, Instant, Monotonic};
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};

use crate::kern::ratelimit::dev_err_ratelimited;
use crate::kern::workqueue;

const SLOTS: usize = SDMA_QUEUES as usize;
/// How long a working queue keeps its slot while another waits, milliseconds.
const QUANTUM_MS: i64 = 10;

/// Where a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// In no slot.
    Out,
    /// Being loaded into the slot.
    Loading(u8),
    /// In the slot.
    In(u8),
    /// Being unloaded from the slot.
    Leaving(u8),
    /// In a slot that it does not leave: the engine hangs.
    Stuck(u8),
}

impl Seat {
    fn slot(self) -> Option<u8> {
        match self {
            Self::Out => None,
            Self::Loading(slot) | Self::In(slot) | Self::Leaving(slot) | Self::Stuck(slot) => {
                Some(slot)
            }
        }
    }
}

/// A queue of an engine.
struct Entry {
    rlc: Arc<Rlc>,
    seat: Seat,
    /// When it got the slot, or began to wait for one.
    since: Instant<Monotonic>,
    /// It is to be out, and stay out.
    leaving: bool,
    /// The only slot that a direct queue can be in: the one that its doorbell goes to. Nobody else gets it.
    own: Option<u8>,
}

struct State {
    entries: KVec<Entry>,
    closed: bool,
}

impl State {
    fn position(&self, rlc: &Rlc) -> Option<usize> {
        self.entries
            .iter()
            .position(|entry| core::ptr::eq(&*entry.rlc, rlc))
    }

    fn find(&mut self, rlc: &Rlc) -> Option<&mut Entry> {
        self.entries
            .iter_mut()
            .find(|entry| core::ptr::eq(&*entry.rlc, rlc))
    }

    fn free_slot(&self) -> Option<u8> {
        let taken = |slot| {
            let has = |entry: &Entry| entry.seat.slot() == Some(slot) || entry.own == Some(slot);
            self.entries.iter().any(has)
        };
        (0..SDMA_QUEUES).find(|&slot| !taken(slot))
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

/// An engine's slots.
#[pin_data]
struct Engine {
    number: u8,
    #[pin]
    state: SpinLock<State>,
    /// A seat changed.
    #[pin]
    changed: CondVar,
    #[pin]
    turn: DelayedWork<Self>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Engine { self.turn }
}

impl WorkItem for Engine {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        loop {
            match this.next() {
                Action::Load(rlc, slot) => this.load(&rlc, slot),
                Action::Unload(rlc, slot) => this.unload(&rlc, slot),
                Action::Later(ms) => {
                    let state = this.state.lock();
                    if !state.closed {
                        let delay = msecs_to_jiffies(ms.max(1) as u32);
                        let _ = workqueue::highpri().enqueue_delayed(this.clone(), delay);
                    }
                    return;
                }
                Action::Nothing => return,
            }
        }
    }
}

impl Engine {
    fn new(number: u8) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                number,
                state <- new_spinlock!(
                    State { entries: KVec::new(), closed: false },
                    "Engine::state"
                ),
                changed <- new_condvar!("Engine::changed"),
                turn <- new_delayed_work!("Engine::turn"),
            }),
            GFP_KERNEL,
        )
    }

    fn wake(self: &Arc<Self>) {
        workqueue::run_in(workqueue::highpri(), self.clone(), 0);
    }

    /// Decides what comes next, and marks the seat.
    fn next(&self) -> Action {
        let mut state = self.state.lock();
        // Who is not to run leaves first.
        for entry in state.entries.iter_mut() {
            if let Seat::In(slot) = entry.seat {
                if entry.leaving || !entry.rlc.is_runnable() {
                    entry.seat = Seat::Leaving(slot);
                    return Action::Unload(entry.rlc.clone(), slot);
                }
            }
        }
        let free = state.free_slot();
        let waiting = state
            .entries
            .iter_mut()
            .filter(|entry| entry.seat == Seat::Out && !entry.leaving && entry.rlc.wants())
            .max_by_key(|entry| entry.since.elapsed().as_nanos());
        let Some(waiting) = waiting else {
            return Action::Nothing;
        };
        if let Some(slot) = waiting.own.or(free) {
            waiting.seat = Seat::Loading(slot);
            return Action::Load(waiting.rlc.clone(), slot);
        }
        // Direct queues are never idle and never give way: their doorbells would find nobody.
        let longest = |idle: bool| {
            move |entry: &&mut Entry| {
                matches!(entry.seat, Seat::In(_))
                    && entry.rlc.feed().is_some()
                    && (!idle || entry.rlc.is_idle())
            }
        };
        for idle in [true, false] {
            let victim = state
                .entries
                .iter_mut()
                .filter(longest(idle))
                .max_by_key(|entry| entry.since.elapsed().as_nanos());
            if let Some(entry) = victim {
                let held = entry.since.elapsed().as_millis();
                if !idle && held < QUANTUM_MS {
                    return Action::Later(QUANTUM_MS - held);
                }
                if let Seat::In(slot) = entry.seat {
                    entry.seat = Seat::Leaving(slot);
                    return Action::Unload(entry.rlc.clone(), slot);
                }
            }
        }
        // Only direct, leaving or stuck queues: one of them will say when it is gone.
        Action::Nothing
    }

    /// Loads a queue whose seat is `Loading(slot)`.
    fn load(&self, rlc: &Arc<Rlc>, slot: u8) {
        let mut loaded = 0;
        let result = rlc.image(slot).and_then(|(image, rptr, wptr)| {
            loaded = wptr;
            rlc.gpu.sdma[usize::from(self.number)].load(slot, &image, rptr, wptr)
        });
        let mut state = self.state.lock();
        if let Some(entry) = state.find(rlc) {
            entry.since = Instant::now();
            entry.seat = match result {
                Ok(()) => Seat::In(slot),
                Err(_) => Seat::Stuck(slot),
            };
        }
        match result {
            // A job that came meanwhile found nobody to ring for.
            Ok(()) if rlc.target() != loaded => ring(rlc, slot),
            Ok(()) => {}
            Err(error) => {
                drop(state);
                self.hangs(rlc, slot, error);
            }
        }
        self.changed.notify_all();
    }

    /// Unloads a queue whose seat is `Leaving(slot)`.
    fn unload(&self, rlc: &Arc<Rlc>, slot: u8) {
        let result = rlc.gpu.sdma[usize::from(self.number)].unload(slot);
        if let Ok(rptr) = result {
            rlc.save(rptr);
            rlc.check();
        }
        let mut state = self.state.lock();
        if let Some(entry) = state.find(rlc) {
            entry.since = Instant::now();
            entry.seat = match result {
                Ok(_) => Seat::Out,
                Err(_) => Seat::Stuck(slot),
            };
        }
        drop(state);
        if let Err(error) = result {
            self.hangs(rlc, slot, error);
        }
        self.changed.notify_all();
    }

    /// The slot is lost until the device is taken down, and with it the queue's memory and VMID, which the engine
    /// may still use.
    fn hangs(&self, rlc: &Rlc, slot: u8, error: Error) {
        dev_err_ratelimited!(
            &*rlc.gpu.dev,
            "sdma{}: slot {slot} hangs with queue {} of process {}: {error:?}\n",
            self.number,
            rlc.owner.queue,
            rlc.owner.pid
        );
        rlc.gpu
            .queue_hung(rlc.owner.pasid, c"SDMA queue hang", || rlc.fail(EIO));
    }

    /// Has the hardware do what was put into the queue's ring. Allocates nothing, waits for nothing.
    fn submit(self: &Arc<Self>, rlc: &Rlc) {
        let mut state = self.state.lock();
        match state.find(rlc) {
            Some(Entry {
                seat: Seat::In(slot),
                leaving: false,
                ..
            }) => ring(rlc, *slot),
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
    /// take. `forget` removes it altogether.
    fn evict(self: &Arc<Self>, rlc: &Rlc, forget: bool) -> Result {
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
                Seat::Loading(_) | Seat::Leaving(_) => self.changed.wait(&mut state),
                Seat::In(slot) => {
                    entry.seat = Seat::Leaving(slot);
                    let rlc = entry.rlc.clone();
                    drop(state);
                    self.unload(&rlc, slot);
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
    fn admit(self: &Arc<Self>, rlc: &Rlc) {
        let mut state = self.state.lock();
        if let Some(entry) = state.find(rlc) {
            // It keeps its place among those that wait: it may be halted again before its turn.
            entry.leaving = false;
        }
        drop(state);
        self.wake();
    }

    /// Adds a queue; a direct one with its slot. ENOSPC for a direct one without a free slot; ENODEV, ENOMEM.
    fn add(self: &Arc<Self>, rlc: Arc<Rlc>) -> Result<Option<u8>> {
        let direct = rlc.feed().is_none();
        let mut more = KVec::new();
        loop {
            let mut state = self.state.lock();
            if state.closed {
                return Err(ENODEV);
            }
            let count = state.entries.len();
            // No allocation under the lock: what is too small is replaced by what was made without it.
            if count == state.entries.capacity() {
                if more.capacity() <= count {
                    drop(state);
                    more = KVec::with_capacity(count.saturating_mul(2).max(SLOTS), GFP_KERNEL)?;
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
            let slot = if direct {
                Some(state.free_slot().ok_or(ENOSPC)?)
            } else {
                None
            };
            let runnable = rlc.is_runnable();
            let entry = Entry {
                rlc: rlc.clone(),
                seat: match slot {
                    Some(slot) if runnable => Seat::Loading(slot),
                    _ => Seat::Out,
                },
                since: Instant::now(),
                leaving: !runnable,
                own: slot,
            };
            let seat = entry.seat;
            let pushed = state.entries.push_within_capacity(entry);
            drop(state);
            if pushed.is_err() {
                return Err(ENOMEM);
            }
            // A direct queue is in its slot when CREATE_QUEUE returns: its doorbell must find it.
            if let Seat::Loading(slot) = seat {
                self.load(&rlc, slot);
            }
            return Ok(slot);
        }
    }

    fn len(&self) -> usize {
        self.state.lock().entries.len()
    }

    /// The first queues that are meant, at most as many as there are slots.
    fn some(&self, which: impl Fn(&Entry) -> bool) -> [Option<Arc<Rlc>>; SLOTS] {
        let mut found = [const { None }; SLOTS];
        let state = self.state.lock();
        let meant = state.entries.iter().filter(|entry| which(entry));
        for (place, entry) in found.iter_mut().zip(meant) {
            *place = Some(entry.rlc.clone());
        }
        found
    }
}

/// Rings the doorbell of a queue in `slot`.
fn ring(rlc: &Rlc, slot: u8) {
    if let Ok(doorbell) = rlc.doorbell(slot) {
        rlc.gpu.doorbells.ring(doorbell.byte() as u32, rlc.target());
    }
}

/// The slots of all engines.
pub(crate) struct Slots {
    engines: [Arc<Engine>; GFX90A_SDMA_ENGINES],
}

/// A queue as debugfs shows it.
pub(crate) struct QueueState {
    /// Whose it is.
    pub(crate) owner: Owner,
    /// Its engine and where it is.
    pub(crate) engine: u8,
    /// Where it is.
    pub(crate) seat: Seat,
    /// Its address space.
    pub(crate) vmid: u8,
    /// It is scheduled, not direct.
    pub(crate) scheduled: bool,
    /// Read and write pointer as the process knows them, bytes.
    pub(crate) pointers: (u64, u64),
    /// Read and write pointer of the hardware's ring, bytes.
    pub(crate) hardware: (u64, u64),
}

impl Slots {
    /// All slots free. ENOMEM.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let engines = [
            Engine::new(0)?,
            Engine::new(1)?,
            Engine::new(2)?,
            Engine::new(3)?,
            Engine::new(4)?,
        ];
        Ok(Arc::new(Self { engines }, GFP_KERNEL)?)
    }

    fn engine(&self, number: u8) -> Option<&Arc<Engine>> {
        self.engines.get(usize::from(number))
    }

    /// The engine of `range` that has the fewest queues.
    pub(super) fn quietest(&self, range: core::ops::Range<u8>) -> Result<u8> {
        let by_queues = |&number: &u8| {
            self.engine(number)
                .map_or(usize::MAX, |engine| engine.len())
        };
        range.min_by_key(by_queues).ok_or(EINVAL)
    }

    /// Adds a queue to its engine. A direct one is loaded at once, and the doorbell that the hardware gives it is
    /// returned: ENOSPC without a slot. ENOMEM; ENODEV when the device goes.
    pub(super) fn add(&self, rlc: Arc<Rlc>) -> Result<Option<Slot>> {
        let engine = rlc.engine;
        let slot = self.engine(engine).ok_or(EINVAL)?.add(rlc)?;
        slot.map(|slot| Slot::sdma(engine, slot).ok_or(EINVAL))
            .transpose()
    }

    /// Takes a queue off the hardware for good. ETIMEDOUT for a queue that hangs, which stays with the engine.
    /// Bounded; sleeps.
    pub(super) fn remove(&self, rlc: &Rlc) -> Result {
        self.engine(rlc.engine).ok_or(EINVAL)?.evict(rlc, true)
    }

    /// Takes a queue off the hardware until [`Slots::admit`]. ETIMEDOUT when it hangs. Bounded; sleeps.
    pub(super) fn suspend(&self, rlc: &Rlc) -> Result {
        self.engine(rlc.engine).ok_or(EINVAL)?.evict(rlc, false)
    }

    /// Allows a suspended queue to run again.
    pub(super) fn admit(&self, rlc: &Rlc) {
        if let Some(engine) = self.engine(rlc.engine) {
            engine.admit(rlc);
        }
    }

    /// Has the hardware do what was put into a queue's ring. Allocates nothing, waits for nothing.
    pub(super) fn submit(&self, rlc: &Rlc) {
        if let Some(engine) = self.engine(rlc.engine) {
            engine.submit(rlc);
        }
    }

    /// A TRAP of `engine` arrived: jobs of its queues may be done. Which queue it was, the hardware does not say for
    /// sure, and looking is cheap.
    pub(super) fn check(&self, engine: u8) {
        if let Some(engine) = self.engine(engine) {
            let loaded = engine.some(|entry| entry.seat != Seat::Out);
            loaded.iter().flatten().for_each(|rlc| rlc.check());
        }
    }

    /// Stops the queues of the process `pasid` on `engine`, or on all engines; their jobs fail with `error`. Gives the
    /// owner of one of them. Allocates nothing; the hardware lets go of them later.
    pub(super) fn fail(&self, engine: Option<u8>, pasid: u16, error: Error) -> Option<Owner> {
        let mut owner = None;
        for one in &self.engines {
            if engine.is_some_and(|number| number != one.number) {
                continue;
            }
            // Ends, since who has failed is not meant any more.
            loop {
                let meant =
                    one.some(|entry| entry.rlc.owner.pasid == pasid && !entry.rlc.has_failed());
                let Some(Some(first)) = meant.first() else {
                    break;
                };
                owner = Some(first.owner);
                meant.iter().flatten().for_each(|rlc| rlc.fail(error));
                one.wake();
            }
        }
        owner
    }

    /// No queue is loaded any more, and what is still there is forgotten. For unbind, after every process has lost
    /// its queues. Sleeps.
    pub(crate) fn close(&self) {
        for engine in &self.engines {
            let left = {
                let mut state = engine.state.lock();
                state.closed = true;
                core::mem::take(&mut state.entries)
            };
            workqueue::cancel(engine);
            if let Some(entry) = left.first() {
                dev_warn!(
                    &*entry.rlc.gpu.dev,
                    "sdma{}: {} queues are left\n",
                    engine.number,
                    left.len()
                );
            }
        }
    }

    /// Every queue, engine by engine, for debugfs.
    pub(crate) fn states(&self, mut show: impl FnMut(QueueState) -> fmt::Result) -> fmt::Result {
        for engine in &self.engines {
            let mut at = 0;
            // One at a time: what is shown is written without the lock.
            loop {
                let next = {
                    let state = engine.state.lock();
                    state
                        .entries
                        .get(at)
                        .map(|entry| (entry.rlc.clone(), entry.seat))
                };
                let Some((rlc, seat)) = next else {
                    break;
                };
                show(describe(&rlc, seat))?;
                at += 1;
            }
        }
        Ok(())
    }
}

fn describe(rlc: &Rlc, seat: Seat) -> QueueState {
    let (pointers, position) = match &rlc.source {
        Source::Direct(direct) => {
            let pointers = &direct.pointers;
            let both = (pointers.read_pointer(), pointers.write_pointer());
            (both, direct.position())
        }
        Source::Feed(feed) => (feed.progress(), feed.position()),
    };
    let rptr = match seat {
        Seat::In(slot) => rlc.gpu.sdma[usize::from(rlc.engine)].rptr(slot),
        _ => position.0,
    };
    QueueState {
        owner: rlc.owner,
        engine: rlc.engine,
        seat,
        vmid: rlc.vmid(),
        scheduled: rlc.feed().is_some(),
        pointers,
        hardware: (rptr, position.1),
    }
}
