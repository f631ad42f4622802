// SPDX-License-Identifier: GPL-2.0
//! Who yields VRAM to whom.
//!
//! Processes may together ask for more VRAM than there is. When one finds no room, buffers of others are moved to system
//! memory; a process of which a buffer is away does not run on the GPU: its queues are quiesced until all of it is home.
//! (It could run with its buffers in system memory, but not rightly: atomic operations of the GPU on memory across PCIe
//! are not those on VRAM.)
//!
//! Who is away and has something to do waits for its turn. It gets it, oldest first, once there is room: free VRAM, the
//! rest of others that are away, VRAM of processes whose queues have nothing to do, and of those that had their turn
//! ([`hw::turns`]). So each has its turn, and in it runs longer than it was moved. An allocation that finds no room
//! takes it from the same: it waits for turns, too, and for those who have been away for so long that they are due before
//! it. System memory for all of this is set aside when buffers are made (see [`super::account`]): no turn fails for want of
//! the right to it.
//!
//! Buffers move in steps, under the state's lock: one buffer, or small ones together, as many as take some [`STEP_MS`]. In
//! between others have their chance, and who is killed goes. The lock is outside the locks of VMs and allocators, and
//! inside that of a context's memory.

mod line;
mod member;
mod transfer;

use crate::{
    kern::{killable::KillableMutex, task, workqueue},
    mem::{
        account::{Client, PAUSE, TRIES},
        bo::Bo,
        placement::Placement,
        vm::Vm,
        vram::VramBlocks,
        Memory,
    },
};
use hw::{turns::Wait, va::PAGE_SIZE};
use kernel::{
    fmt,
    prelude::*,
    sync::{
        atomic::{Atomic, AtomicFlag, Relaxed},
        Arc,
    },
    time::{delay::fsleep, msecs_to_jiffies, Instant, Monotonic},
    workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem},
};
use line::Line;
use member::Member;

/// How often somebody looks whether a process that is away has something to do, milliseconds.
const LOOK_MS: i64 = 50;
/// When to go on with what is done in steps, milliseconds: at once, when others had their chance.
const SOON_MS: i64 = 0;
/// When to try again what failed, milliseconds.
const AGAIN_MS: i64 = 500;

/// How long a step goes on with more buffers, milliseconds.
const STEP_MS: i64 = 20;

/// The time that a step may take.
struct Step(Instant<Monotonic>);

impl Step {
    fn begin() -> Self {
        Self(Instant::now())
    }

    fn is_over(&self) -> bool {
        self.0.elapsed().as_millis() >= STEP_MS
    }
}

/// What came of looking for room.
enum Made {
    /// Some was made; there may be more.
    Some,
    /// None yet: others have their turn.
    Later,
    /// None: nobody has anything that may move.
    Nothing,
}

struct State {
    /// Whoever has asked for VRAM: as many as there are open files.
    members: KVVec<Member>,
    closed: bool,
}

impl State {
    /// Makes some room by moving buffers of others than `client` out, of which the turn does not last: at least one, and until `enough` or
    /// the end of the step.
    fn make_room(
        &mut self,
        client: &Arc<Client>,
        step: &Step,
        enough: impl Fn() -> bool,
    ) -> Result<Made> {
        let mut order = KVVec::new();
        let mut none = Made::Nothing;
        for (index, member) in self.members.iter().enumerate() {
            let other = member.vm.client();
            if Arc::ptr_eq(other, client) || other.movable_home() == 0 {
                continue;
            }
            let (class, age, left) = member.rank();
            if left <= 0 {
                order.push((class, age, index), GFP_KERNEL)?;
            } else {
                none = Made::Later;
            }
        }
        let mut any = false;
        loop {
            let least = order.iter().enumerate().min_by_key(|(_, rank)| **rank);
            let Some((place, &(_, _, index))) = least else {
                break;
            };
            let _ = order.remove(place);
            let Some(member) = self.members.get_mut(index) else {
                continue;
            };
            any |= member.yield_vram(step, &enough)?;
            if any && (step.is_over() || enough()) {
                break;
            }
        }
        Ok(if any { Made::Some } else { none })
    }

    /// The bytes that `client` can have, at most: free, or of others when they have had their turn.
    fn could_have(&self, gpu: &Memory, client: &Arc<Client>) -> u64 {
        let others = self.members.iter().map(|member| member.vm.client());
        let others = others.filter(|other| !Arc::ptr_eq(other, client));
        let movable: u64 = others.map(|other| other.movable_home()).sum();
        gpu.vram.free() + movable
    }

    /// Whether somebody is away who comes home before `client` gets room that it has looked for as `wait` says: not one for whom there can
    /// be no room.
    fn is_overtaken(&self, gpu: &Memory, client: &Arc<Client>, wait: Wait) -> bool {
        let others = self
            .members
            .iter()
            .map(|member| (member, member.vm.client()));
        let mut others = others.filter(|(_, other)| !Arc::ptr_eq(other, client));
        others.any(|(member, other)| {
            let first = member.waits().is_some_and(|home| home.goes_before(wait));
            first && self.could_have(gpu, other) >= other.to_come_home()
        })
    }

    /// Moves `bo` to where other devices reach it. EBUSY when it has to stay where it is; the rest as [`transfer::out`].
    fn share(&mut self, bo: &Bo, placement: &Placement) -> Result {
        let own = |m: &&mut Member| Arc::ptr_eq(m.vm.client(), placement.client());
        match self.members.iter_mut().find(own) {
            Some(member) => member.share(bo),
            // It may be mapped by who does not take part.
            None if !placement.is_orphan() => Err(EBUSY),
            None => transfer::share(bo.gpu(), None, bo).map(|_| ()),
        }
    }

    /// Lets those leave of which something can come home that other devices had; whether there are any others, for which there is no
    /// room.
    fn recall(&mut self) -> bool {
        let mut later = false;
        for member in &mut self.members {
            let client = member.vm.client();
            if member.quiesced.is_some() || !client.is_recalled() {
                continue;
            }
            let room = member.vm.gpu().vram.free() >= client.to_come_home();
            if !room || !member.may_leave() {
                later = true;
                continue;
            }
            member.leave();
        }
        later
    }

    /// Who is away and wants to run, the one that is due for longest first; else who is away at all, longest.
    fn next(&self) -> Option<(usize, Option<Wait>)> {
        let members = self.members.iter().enumerate();
        let waits = members
            .clone()
            .filter_map(|(index, m)| Some((index, m.waits()?)));
        if let Some((index, wait)) = waits.max_by_key(|(_, wait)| wait.due()) {
            return Some((index, Some(wait)));
        }
        let away = members.filter(|(_, member)| member.quiesced.is_some());
        let next = away.max_by_key(|(_, member)| member.since.elapsed().as_nanos());
        next.map(|(index, _)| (index, None))
    }

    /// The bytes that are kept for who is due to come home.
    fn kept(&self) -> u64 {
        let due = |(index, wait): (usize, Option<Wait>)| {
            let member = self.members.get(index)?;
            (wait?.due() > 0).then(|| member.vm.client().to_come_home())
        };
        self.next().and_then(due).unwrap_or(0)
    }

    /// Gives the next one its turn, if it can be; in how many milliseconds to come again. `asking` says how long a client's allocations
    /// look for room that are not another's: those that go first have it.
    fn turn(&mut self, asking: impl Fn(&Arc<Client>) -> Option<Wait>) -> Option<i64> {
        let (index, wait) = self.next()?;
        let step = Step::begin();
        let member = self.members.get(index)?;
        let (gpu, client) = (member.vm.gpu().clone(), member.vm.client().clone());
        if let Some(room) = asking(&client) {
            if !wait.is_some_and(|home| home.goes_before(room)) {
                return Some(LOOK_MS);
            }
        }
        let need = client.to_come_home();
        let fits = || gpu.vram.free() >= need;
        if !fits() {
            if wait.is_none() {
                return Some(LOOK_MS);
            }
            // Nobody yields unless it is enough.
            let (mut room, mut wait) = (gpu.vram.free(), AGAIN_MS);
            for other in &self.members {
                let (_, _, left) = other.rank();
                if Arc::ptr_eq(other.vm.client(), &client) {
                    continue;
                } else if left <= 0 {
                    room += other.vm.client().movable_home();
                } else {
                    wait = wait.min(left);
                }
            }
            if room < need {
                return Some(wait);
            }
            match self.make_room(&client, &step, fits) {
                Ok(_) if fits() => (),
                // Others first have their chance.
                Ok(Made::Some) => return Some(SOON_MS),
                Ok(_) => return Some(AGAIN_MS),
                Err(_) => {
                    self.members.get_mut(index)?.since = Instant::now();
                    return Some(AGAIN_MS);
                }
            }
        }
        let member = self.members.get_mut(index)?;
        match member.restore(&step) {
            Err(_) => {
                // The others first.
                member.since = Instant::now();
                Some(AGAIN_MS)
            }
            Ok(false) => Some(SOON_MS),
            Ok(true) => {
                let refused = member.is_refused().then_some(AGAIN_MS);
                self.next().map(|_| SOON_MS).or(refused)
            }
        }
    }
}

/// Takes care that processes share a GPU's VRAM.
#[pin_data]
pub(crate) struct Evictor {
    #[pin]
    state: KillableMutex<State>,
    #[pin]
    line: Line,
    /// Bytes of VRAM that are kept for who is due to come home.
    kept: Atomic<u64>,
    /// As the state says, for who does not look at that.
    stopped: AtomicFlag,
    #[pin]
    turn: DelayedWork<Self>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Evictor { self.turn }
}

impl WorkItem for Evictor {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let mut state = this.state.lock();
        if state.closed {
            return;
        }
        // Nobody leaves for what is his while room is made for others.
        let later = !this.line.is_empty() || state.recall();
        let later = later.then_some(AGAIN_MS);
        let again = state.turn(|client| this.line.first(client)).or(later);
        this.kept.store(state.kept(), Relaxed);
        if let Some(ms) = again {
            this.come_in(ms);
        }
    }
}

/// A member as debugfs shows it.
pub(crate) struct MemberState {
    /// The process.
    pub(crate) pid: u32,
    /// What it has.
    pub(crate) client: Arc<Client>,
    /// Its queues wait for its buffers.
    pub(crate) away: bool,
}

impl Evictor {
    /// Nobody takes part. `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                state <- KillableMutex::new(
                    State { members: KVVec::new(), closed: false },
                    c"Evictor::state",
                    kernel::static_lock_class!(),
                ),
                line <- Line::new(),
                kept: Atomic::new(0),
                stopped: AtomicFlag::new(false),
                turn <- new_delayed_work!("Evictor::turn"),
            }),
            GFP_KERNEL,
        )
    }

    /// `vm` takes part until what is returned is dropped. `ENODEV` when the device goes, `ENOMEM`, `EINTR` when the
    /// caller is killed.
    pub(crate) fn join(self: &Arc<Self>, vm: &Arc<Vm>) -> Result<Membership> {
        let mut state = self.state.lock_killable()?;
        if state.closed {
            return Err(ENODEV);
        }
        state.members.push(Member::new(vm), GFP_KERNEL)?;
        Ok(Membership {
            evictor: self.clone(),
            vm: vm.clone(),
        })
    }

    /// `size` bytes of VRAM for `client`, in one run if there is one and it is to be `contiguous`; others make room if need be, when they
    /// have had their turn. `ENOMEM` when there is no such memory for it, `EINTR` when the caller is killed, `ENODEV` when the GPU is about
    /// to go; errors of the engines. Sleeps until there is room.
    pub(crate) fn alloc(
        self: &Arc<Self>,
        gpu: &Memory,
        client: &Arc<Client>,
        size: u64,
        contiguous: bool,
    ) -> Result<VramBlocks> {
        let alloc = || match gpu.vram.alloc(size, PAGE_SIZE, contiguous, true) {
            Ok(blocks) => Ok(Some(blocks)),
            Err(error) if error == ENOMEM => Ok(None),
            Err(error) => Err(error),
        };
        // What is being freed for somebody else is not for who comes now.
        if gpu.vram.free() >= size.saturating_add(self.kept.load(Relaxed)) {
            if let Some(blocks) = alloc()? {
                return Ok(blocks);
            }
        }
        let asking = self.line.join(client)?;
        let mut tries = 0;
        loop {
            let mut state = self.state.lock_killable()?;
            if state.closed {
                return Err(ENODEV);
            }
            let made = if state.is_overtaken(gpu, client, asking.wait()) {
                Ok(Made::Later)
            } else if let Some(blocks) = alloc()? {
                return Ok(blocks);
            } else {
                state.make_room(client, &Step::begin(), || gpu.vram.free() >= size)
            };
            // Whoever was quiesced comes back, whatever became of this.
            self.come_in(LOOK_MS);
            drop(state);
            match made? {
                Made::Some => (),
                Made::Later => fsleep(PAUSE),
                Made::Nothing => {
                    // The client may have it, so it is on its way: somebody is just ending.
                    tries += 1;
                    if tries > TRIES {
                        return Err(ENOMEM);
                    }
                    fsleep(PAUSE);
                }
            }
            if task::is_killed() {
                return Err(EINTR);
            }
        }
    }

    /// Shares `bo`, a VRAM buffer whose reservation is locked, with another device: it is in system memory then, and `stays` there
    /// until it is given back, or is asked for before. `EBUSY` when it has to be in VRAM, `EINTR` when the caller is killed, `ENODEV`
    /// when the GPU is gone, `ENOMEM`; errors of the engines. Sleeps.
    pub(crate) fn share(self: &Arc<Self>, bo: &Bo, stays: bool) -> Result {
        let placement = bo.placement().ok_or(EINVAL)?;
        if placement.share(stays) {
            return Ok(());
        }
        let mut state = self.state.lock_killable()?;
        // It may have gone meanwhile.
        if placement.share(stays) {
            return Ok(());
        }
        if state.closed {
            return Err(ENODEV);
        }
        let shared = state.share(bo, placement);
        if shared.is_err() {
            // Its process may not run before all of it is mapped.
            self.come_in(AGAIN_MS);
        }
        shared?;
        placement.share(stays).then_some(()).ok_or(EBUSY)
    }

    /// Takes one [`Evictor::share`] back: the buffer goes home when there is room.
    pub(crate) fn unshare(self: &Arc<Self>, placement: &Placement, stays: bool) {
        if placement.unshare(stays) {
            placement.client().recall(true);
            // Without the lock: who has it may just be asking for the buffer.
            if !self.stopped.load(Relaxed) {
                self.come_in(LOOK_MS);
            }
        }
    }

    /// Nothing moves any more: the device is about to go. Bounded; sleeps.
    pub(crate) fn stop(self: &Arc<Self>) {
        self.stopped.store(true, Relaxed);
        self.state.lock().closed = true;
        workqueue::cancel(self);
    }

    /// Whether [`Evictor::stop`] has been called.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// Each member, for debugfs.
    pub(crate) fn states(&self, mut show: impl FnMut(MemberState) -> fmt::Result) -> fmt::Result {
        let state = self.state.lock();
        state.members.iter().try_for_each(|member| {
            show(MemberState {
                pid: member.vm.group().pid(),
                client: member.vm.client().clone(),
                away: member.quiesced.is_some(),
            })
        })
    }

    /// Has somebody look at once, or else in `ms` milliseconds unless somebody is going to anyway: who asks again and again does not put
    /// that off. Nobody does when the state says by then that it is closed.
    fn come_in(self: &Arc<Self>, ms: i64) {
        let queue = workqueue::background();
        if ms == SOON_MS {
            workqueue::run_in(queue, self.clone(), 0);
        } else {
            let delay = msecs_to_jiffies(ms.clamp(0, AGAIN_MS) as u32);
            let _ = queue.enqueue_delayed(self.clone(), delay);
        }
    }
}

/// An address space takes part as long as this exists.
pub(crate) struct Membership {
    evictor: Arc<Evictor>,
    vm: Arc<Vm>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut state = self.evictor.state.lock();
        let place = state
            .members
            .iter()
            .position(|member| Arc::ptr_eq(&member.vm, &self.vm));
        let member = place.and_then(|place| state.members.remove(place).ok());
        // Buffers that others still have stay where they are.
        let (bos, owner) = (&self.vm.gpu().bos, self.vm.client().number());
        let mut next = 0;
        while let Some((at, bo)) = bos.next_of(owner, next) {
            if let Some(placement) = bo.placement() {
                placement.orphan();
            }
            next = at + 1;
        }
        drop(state);
        // Lets queues run again: there are none any more.
        drop(member);
    }
}
