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
//! ([`hw::vram_fairness`]). So each has its turn, and in it runs longer than it was moved. An allocation that finds no room
//! takes it from the same: it waits for turns, too, and for those who have been away for so long that they are due before
//! it. System memory for all of this is set aside when buffers are made (see [`super::account`]): no turn fails for want of
//! the right to it.
//!
//! Buffers move in steps: one buffer, or small ones together, as many as take some [`STEP_MS`]. In between others have their
//! chance, and who is killed goes. The state's lock is not held meanwhile, since queues have to leave the hardware, which has to copy: of
//! each address space one thread has the [`BufferMover`], and others do without what is there, or wait for that one alone.

mod member;
mod mover;
mod residency;
mod state;
mod transfer;
mod wait_list;

use crate::{
    kern::{killable::KillableMutex, task, workqueue},
    mem::{
        account::{MemoryClient, PAUSE, TRIES},
        bo::Bo,
        placement::VramPlacement,
        vm::Vm,
        vram::VramBlocks,
        GpuMemory,
    },
};
use hw::va::PAGE_SIZE;
use kernel::{
    fmt, new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, AtomicFlag, Relaxed},
        Arc, Mutex,
    },
    time::{delay::fsleep, msecs_to_jiffies, Instant, Monotonic},
    workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem},
};
use member::{EvictMember, YieldState};
use mover::BufferMover;
use state::{EvictorState, NextTurn};
use wait_list::WaitList;

/// How often somebody looks whether a process that is away has something to do, milliseconds.
const LOOK_MS: i64 = 50;
/// When to go on with what is done in steps, milliseconds: at once, when others had their chance.
const SOON_MS: i64 = 0;
/// When to try again what failed, milliseconds.
const AGAIN_MS: i64 = 500;

/// How long a step goes on with more buffers, milliseconds.
const STEP_MS: i64 = 20;

/// How long an allocation waits for what others are moving before it has somebody else moved, milliseconds.
const BESIDE_MS: i64 = 100;

/// The time that a step may take.
struct EvictStep(Instant<Monotonic>);

impl EvictStep {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn is_over(&self) -> bool {
        self.0.elapsed().as_millis() >= STEP_MS
    }
}

/// What came of looking for room.
enum RoomOutcome {
    /// Some was made; there may be more.
    Some,
    /// None yet: others have their turn.
    Later,
    /// None: nobody has anything that may move.
    Nothing,
}

/// Takes care that processes share a GPU's VRAM.
#[pin_data]
pub(crate) struct Evictor {
    #[pin]
    state: Mutex<EvictorState>,
    /// Who copies. The window that engines see system memory through takes an eighth of the GART: there is one, and who
    /// moves buffers has it for a part of them at a time.
    #[pin]
    window: KillableMutex<()>,
    #[pin]
    line: WaitList,
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
        if this.state.lock().closed {
            return;
        }
        // Nobody leaves for what is his while room is made for others.
        let later = !this.line.is_empty() || this.recall();
        let again = this.turn().or(later.then_some(AGAIN_MS));
        let state = this.state.lock();
        this.kept.store(state.kept(), Relaxed);
        if let Some(ms) = again.filter(|_| !state.closed) {
            this.schedule_in(ms);
        }
    }
}

/// A member as debugfs shows it.
pub(crate) struct MemberState {
    /// The process.
    pub(crate) pid: u32,
    /// What it has.
    pub(crate) client: Arc<MemoryClient>,
    /// Its queues wait for its buffers.
    pub(crate) away: bool,
}

impl Evictor {
    /// Nobody takes part. `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                state <- new_mutex!(
                    EvictorState { members: KVVec::new(), moving: 0, closed: false },
                    "Evictor::state"
                ),
                window <- KillableMutex::new(
                    (),
                    c"Evictor::window",
                    kernel::static_lock_class!(),
                ),
                line <- WaitList::new(),
                kept: Atomic::new(0),
                stopped: AtomicFlag::new(false),
                turn <- new_delayed_work!("Evictor::turn"),
            }),
            GFP_KERNEL,
        )
    }

    /// `vm` takes part until what is returned is dropped. `ENODEV` when the device goes, `ENOMEM`.
    pub(crate) fn join(self: &Arc<Self>, vm: &Arc<Vm>) -> Result<EvictMembership> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(ENODEV);
        }
        state.members.push(EvictMember::new(vm), GFP_KERNEL)?;
        Ok(EvictMembership {
            evictor: self.clone(),
            vm: vm.clone(),
        })
    }

    /// Calls `f` with what moves buffers of `vm`, without the lock. `None` while somebody else has that, and when the device goes.
    fn with_mover<R>(&self, vm: &Arc<Vm>, f: impl FnOnce(&mut BufferMover) -> R) -> Option<R> {
        let begun = {
            let mut state = self.state.lock();
            if state.closed {
                None
            } else {
                state.start_moving(vm)
            }
        };
        let mut mover = begun?;
        let result = f(&mut mover);
        self.state.lock().end_moving(mover);
        Some(result)
    }

    /// Makes some room by moving buffers of others than `client` out, of which the turn does not last: at least one, and until `enough` or
    /// the end of the step.
    fn make_room(
        &self,
        client: &Arc<MemoryClient>,
        step: &EvictStep,
        enough: impl Fn() -> bool,
    ) -> Result<RoomOutcome> {
        let mut order = KVVec::new();
        let mut none = RoomOutcome::Nothing;
        for member in &self.state.lock().members {
            let other = member.vm.client();
            if Arc::ptr_eq(other, client) || other.movable_home() == 0 {
                continue;
            }
            match member.yields() {
                Some(YieldState { rank, left_ms }) if left_ms <= 0 => {
                    order.push((rank, member.vm.clone()), GFP_KERNEL)?;
                }
                _ => none = RoomOutcome::Later,
            }
        }
        let mut any = false;
        loop {
            let least = order.iter().enumerate().min_by_key(|(_, (rank, _))| *rank);
            let Some((place, _)) = least else {
                break;
            };
            let (_, vm) = order.remove(place).map_err(|_| EINVAL)?;
            match self.with_mover(&vm, |mover| mover.yield_vram(step, &enough)) {
                Some(moved) => any |= moved?,
                None => none = RoomOutcome::Later,
            }
            if any && (step.is_over() || enough()) {
                break;
            }
        }
        Ok(if any { RoomOutcome::Some } else { none })
    }

    /// Lets those leave of which something can come home that other devices had; whether there are any others, for which there is no
    /// room.
    fn recall(&self) -> bool {
        loop {
            let mut later = false;
            let leaves = |member: &&EvictMember| {
                let leaves = member.is_evictable_for();
                later |= leaves.is_none();
                leaves == Some(true)
            };
            let next = self
                .state
                .lock()
                .members
                .iter()
                .find(leaves)
                .map(|member| member.vm.clone());
            match next {
                None => return later,
                Some(vm) if self.with_mover(&vm, |mover| mover.move_out_all()).is_some() => (),
                Some(_) => return true,
            }
        }
    }

    /// Gives the next one its turn, if it can be; in how many milliseconds to come again.
    fn turn(&self) -> Option<i64> {
        let step = EvictStep::start();
        let next = self.state.lock().turn(|client| self.line.first(client));
        let (vm, fits) = match next {
            NextTurn::Idle => return None,
            NextTurn::Retry(ms) => return Some(ms),
            NextTurn::Restore { vm, fits } => (vm, fits),
        };
        let (gpu, client) = (vm.gpu(), vm.client());
        if !fits {
            let fits = || gpu.vram.free() >= client.waiting_to_return();
            match self.make_room(client, &step, fits) {
                Ok(_) if fits() => (),
                // Others first have their chance.
                Ok(RoomOutcome::Some) => return Some(SOON_MS),
                Ok(_) => return Some(AGAIN_MS),
                Err(_) => return self.put_last(&vm),
            }
        }
        // What is taken for it now is not to be kept for it.
        let taken = |bytes| {
            let kept = self.kept.load(Relaxed);
            self.kept.store(kept.saturating_sub(bytes), Relaxed);
        };
        match self.with_mover(&vm, |mover| mover.restore(&step, &taken)) {
            None => Some(LOOK_MS),
            Some(Err(_)) => self.put_last(&vm),
            Some(Ok(false)) => Some(SOON_MS),
            Some(Ok(true)) => {
                let more = self.state.lock().next().is_some();
                // Also of what was given back when it was passed by.
                let recalled = client.is_recalled();
                more.then_some(SOON_MS).or(recalled.then_some(AGAIN_MS))
            }
        }
    }

    /// The others first; in how many milliseconds to come again.
    fn put_last(&self, vm: &Arc<Vm>) -> Option<i64> {
        if let Some(member) = self.state.lock().member(vm) {
            member.requeue();
        }
        Some(AGAIN_MS)
    }

    /// `size` bytes of VRAM for `client`, in one run if there is one and it is to be `contiguous`; others make room if need be, when they
    /// have had their turn. `ENOMEM` when there is no such memory for it, `EINTR` when the caller is killed, `ENODEV` when the GPU is about
    /// to go; errors of the engines. Sleeps until there is room.
    pub(crate) fn alloc(
        self: &Arc<Self>,
        gpu: &GpuMemory,
        client: &Arc<MemoryClient>,
        size: u64,
        contiguous: bool,
    ) -> Result<VramBlocks> {
        let alloc = || match gpu.vram.alloc(size, PAGE_SIZE, contiguous, true) {
            Ok(blocks) => Ok(Some(blocks)),
            Err(error) if error == ENOMEM => Ok(None),
            Err(error) => Err(error),
        };
        // What is being freed for somebody else is not for who comes now.
        let is_free = || gpu.vram.free() >= size.saturating_add(self.kept.load(Relaxed));
        if is_free() {
            if let Some(blocks) = alloc()? {
                return Ok(blocks);
            }
        }
        let asking = self.line.join(client)?;
        let mut tries = 0;
        loop {
            let (overtaken, moving) = {
                let state = self.state.lock();
                if state.closed {
                    return Err(ENODEV);
                }
                let overtaken = !is_free() && state.is_overtaken(gpu, client, asking.wait());
                (overtaken, state.moving != 0)
            };
            let made = if overtaken {
                Ok(RoomOutcome::Later)
            } else if let Some(blocks) = alloc()? {
                return Ok(blocks);
            } else if moving && asking.ms() < BESIDE_MS {
                // It may be enough for both.
                Ok(RoomOutcome::Later)
            } else {
                self.make_room(client, &EvictStep::start(), || gpu.vram.free() >= size)
            };
            // Whoever was quiesced comes back, whatever became of this.
            self.reschedule_in(LOOK_MS);
            match made? {
                RoomOutcome::Some => (),
                RoomOutcome::Later => fsleep(PAUSE),
                RoomOutcome::Nothing => {
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
    /// when the GPU is gone, `ENOMEM`; errors of the engines. Sleeps, also while other buffers of its process move.
    pub(crate) fn share(self: &Arc<Self>, bo: &Bo, stays: bool) -> Result {
        let placement = bo.placement().ok_or(EINVAL)?;
        let moved = loop {
            // It may have gone meanwhile.
            if placement.share(stays) {
                return Ok(());
            } else if let Some(moved) = self.move_out(bo, placement) {
                break moved;
            } else if task::is_killed() {
                return Err(EINTR);
            }
            fsleep(PAUSE);
        };
        if moved.is_err() {
            // Its process may not run before all of it is mapped.
            self.reschedule_in(AGAIN_MS);
        }
        moved?;
        placement.share(stays).then_some(()).ok_or(EBUSY)
    }

    /// Moves `bo` to where other devices reach it. `None` while somebody else moves buffers of its client. EBUSY when it has to stay where
    /// it is; the rest as [`transfer::out`].
    fn move_out(&self, bo: &Bo, placement: &VramPlacement) -> Option<Result> {
        let own = |member: &&EvictMember| Arc::ptr_eq(member.vm.client(), placement.client());
        let mut state = self.state.lock();
        if state.closed {
            return Some(Err(ENODEV));
        }
        if let Some(vm) = state
            .members
            .iter()
            .find(own)
            .map(|member| member.vm.clone())
        {
            drop(state);
            return self.with_mover(&vm, |mover| mover.share(bo));
        }
        if !placement.is_orphan() {
            // It may be mapped by who does not take part.
            return Some(Err(EBUSY));
        }
        state.moving += 1;
        drop(state);
        let moved = transfer::share(bo.gpu(), None, bo);
        self.state.lock().moving -= 1;
        Some(moved.map(|_| ()))
    }

    /// Takes one [`Evictor::share`] back: the buffer goes home when there is room.
    pub(crate) fn unshare(self: &Arc<Self>, placement: &VramPlacement, stays: bool) {
        if placement.unshare(stays) {
            placement.client().recall(true);
            if !self.stopped.load(Relaxed) {
                self.schedule_in(LOOK_MS);
            }
        }
    }

    /// Nothing moves any more: the device is about to go. Bounded by what the engines may take; sleeps.
    pub(crate) fn stop(self: &Arc<Self>) {
        self.stopped.store(true, Relaxed);
        self.state.lock().closed = true;
        workqueue::cancel(self);
        while self.state.lock().moving != 0 {
            fsleep(PAUSE);
        }
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
                away: member.turn.away,
            })
        })
    }

    /// Has somebody look at once, or else in `ms` milliseconds unless somebody is going to anyway: who asks again and again does not put
    /// that off. Nobody does when the state says by then that it is closed.
    fn schedule_in(self: &Arc<Self>, ms: i64) {
        let queue = workqueue::background();
        if ms == SOON_MS {
            workqueue::run_in(queue, self.clone(), 0);
        } else {
            let delay = msecs_to_jiffies(ms.clamp(0, AGAIN_MS) as u32);
            let _ = queue.enqueue_delayed(self.clone(), delay);
        }
    }

    /// The same, for somebody who has moved buffers, and whom [`Evictor::stop`] may have waited for.
    fn reschedule_in(self: &Arc<Self>, ms: i64) {
        let state = self.state.lock();
        if !state.closed {
            self.schedule_in(ms);
        }
    }
}

/// An address space takes part as long as this exists.
pub(crate) struct EvictMembership {
    evictor: Arc<Evictor>,
    vm: Arc<Vm>,
}

impl Drop for EvictMembership {
    fn drop(&mut self) {
        // Nobody else moves its buffers from here on.
        let mover = loop {
            let begun = {
                let mut state = self.evictor.state.lock();
                if state.member(&self.vm).is_none() {
                    return;
                }
                state.start_moving(&self.vm)
            };
            match begun {
                Some(mover) => break mover,
                None => fsleep(PAUSE),
            }
        };
        // Buffers that others still have stay where they are.
        let (bos, owner) = (&self.vm.gpu().bos, self.vm.client().number());
        let mut next = 0;
        while let Some((at, bo)) = bos.next_of(owner, next) {
            if let Some(placement) = bo.placement() {
                placement.orphan();
            }
            next = at + 1;
        }
        let mut state = self.evictor.state.lock();
        let mut members = state.members.iter();
        let place = members.position(|member| Arc::ptr_eq(&member.vm, &self.vm));
        let member = place.and_then(|place| state.members.remove(place).ok());
        state.moving -= 1;
        drop(state);
        self.vm.client().set_moving(false);
        // Lets queues run again: there are none any more.
        drop((mover, member));
    }
}
