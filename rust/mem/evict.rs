// SPDX-License-Identifier: GPL-2.0
//! Eviction: which process yields VRAM, and to which one.
//!
//! Processes may together ask for more VRAM than there is. If an allocation finds no room, buffers
//! of other processes are moved out to system memory. A process with a buffer that is moved out
//! does not run on the GPU: its queues are evicted until all of its buffers are in VRAM. (It could
//! run with its buffers in system memory, but not correctly: atomic operations of the GPU on memory
//! across PCIe are not those on VRAM.)
//!
//! An evicted process that has work waits for a time slice. Processes get it in the order of their
//! waits, longest first, as soon as there is room: free VRAM, the remaining buffers of other
//! evicted processes, VRAM of processes with idle queues, and VRAM of processes of which the time
//! slice is over ([`hw::vram_fairness`]). So each process gets a time slice, and in it runs for
//! longer than its buffers took to move. An allocation that finds no room takes it from the same
//! sources: it waits for the ends of time slices, too, and for processes that have been evicted for
//! so long that they have priority over it. System memory for all of this is charged when buffers
//! are created (see [`super::account`]): no restore fails for want of the right to it.
//!
//! Buffers move in steps: one buffer, or as many small ones as take about [`STEP_MS`]. Between
//! steps other waiters have their chance, and a killed process ends. The state's lock is not held
//! meanwhile, since queues have to leave the hardware, which has to copy. One thread at a time has
//! the [`BufferMover`] of an address space. Other threads do without the memory of that space, or
//! wait for that thread alone.

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

/// The interval at which the evictor checks whether an evicted process has work, milliseconds.
const LOOK_MS: i64 = 50;
/// The delay before the next step of work in progress, milliseconds: none, once other threads had
/// their chance.
const SOON_MS: i64 = 0;
/// The delay before a retry after a failure, milliseconds.
const AGAIN_MS: i64 = 500;

/// How long a step continues with further buffers, milliseconds.
const STEP_MS: i64 = 20;

/// How long an allocation waits for buffers that other threads are moving before it has further
/// ones moved out, milliseconds.
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

/// The outcome of a search for room.
enum RoomOutcome {
    /// Some room was made; there may be more.
    Some,
    /// None yet: the time slices of others are not over.
    Later,
    /// None: no process has a buffer that may be moved.
    Nothing,
}

/// Shares a GPU's VRAM among processes.
#[pin_data]
pub(crate) struct Evictor {
    #[pin]
    state: Mutex<EvictorState>,
    /// Serializes copies. The window through which engines see system memory takes an eighth of the
    /// GART, so there is one. A thread that moves buffers holds it for a part of them at a time.
    #[pin]
    window: KillableMutex<()>,
    #[pin]
    line: WaitList,
    /// Bytes of VRAM that are reserved for the process that is to be restored next.
    kept: Atomic<u64>,
    /// A copy of the flag in the state, for readers without its lock.
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
        // No process is moved out for its own recalled buffers while room is made for others.
        let later = !this.line.is_empty() || this.recall();
        let again = this.turn().or(later.then_some(AGAIN_MS));
        let state = this.state.lock();
        this.kept.store(state.kept(), Relaxed);
        if let Some(ms) = again.filter(|_| !state.closed) {
            this.schedule_in(ms);
        }
    }
}

/// A member of the evictor as debugfs shows it.
pub(crate) struct MemberState {
    /// The process.
    pub(crate) pid: u32,
    /// Its memory.
    pub(crate) client: Arc<MemoryClient>,
    /// Its queues wait for its buffers.
    pub(crate) away: bool,
}

impl Evictor {
    /// Creates an evictor without members.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
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

    /// Makes `vm` a member until the returned value is dropped.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is being removed; `ENOMEM`.
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

    /// Calls `f` with the mover of the buffers of `vm`, without the lock. `None` while another
    /// thread has it, and if the device is being removed.
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

    /// Makes some room: moves out buffers of other processes than `client` of which the time slice
    /// is over, at least one buffer, and until `enough` or the end of the step.
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

    /// Marks as away the processes that have a buffer which can be moved in after other devices had
    /// it: their next restore moves it in. Returns whether there are more of them, for which there
    /// is no room.
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
                Some(vm) if self.with_mover(&vm, |mover| mover.start_away()).is_some() => (),
                Some(_) => return true,
            }
        }
    }

    /// Gives the next waiter its time slice, if possible. Returns after how many milliseconds to
    /// call it again.
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
        // Memory that is taken for the process now no longer has to be reserved for it.
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
                // This includes a buffer that was unshared after the restore had passed it.
                let recalled = client.is_recalled();
                more.then_some(SOON_MS).or(recalled.then_some(AGAIN_MS))
            }
        }
    }

    /// Puts `vm` behind the other waiters. Returns after how many milliseconds to look again.
    fn put_last(&self, vm: &Arc<Vm>) -> Option<i64> {
        if let Some(member) = self.state.lock().member(vm) {
            member.requeue();
        }
        Some(AGAIN_MS)
    }

    /// Allocates `size` bytes of VRAM for `client`, in one run if there is one and it is to be
    /// `contiguous`. If need be, other processes make room after their time slices. May sleep,
    /// until there is room.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no such memory for the client; `EINTR` if the caller is killed;
    /// `ENODEV` if the GPU is about to be removed; errors of the engines.
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
        // Memory that is being freed for a waiting process is not for a new allocation.
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
                // The room that is being made may be enough for both.
                Ok(RoomOutcome::Later)
            } else {
                self.make_room(client, &EvictStep::start(), || gpu.vram.free() >= size)
            };
            // The evicted processes are restored, whatever the outcome here.
            self.reschedule_in(LOOK_MS);
            match made? {
                RoomOutcome::Some => (),
                RoomOutcome::Later => fsleep(PAUSE),
                RoomOutcome::Nothing => {
                    // The budget allows this allocation, so room is about to appear: a process is
                    // just ending.
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

    /// Shares `bo`, a VRAM buffer of which the reservation is locked, with another device. The
    /// buffer is then in system memory. If it `stays`, it is there until the share ends; otherwise
    /// it may be moved in earlier. May sleep, also while other buffers of its process move.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the buffer has to be in VRAM; `EINTR` if the caller is killed; `ENODEV` if the
    /// GPU is gone; `ENOMEM`; errors of the engines.
    pub(crate) fn share(self: &Arc<Self>, bo: &Bo, stays: bool) -> Result {
        let placement = bo.placement().ok_or(EINVAL)?;
        let moved = loop {
            // It may have been moved out meanwhile.
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
            // Its process may not run before all of the buffer is mapped.
            self.reschedule_in(AGAIN_MS);
        }
        moved?;
        placement.share(stays).then_some(()).ok_or(EBUSY)
    }

    /// Moves `bo` to where other devices can access it. `None` while another thread moves buffers
    /// of its client.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the buffer has to stay where it is; others as [`transfer::share`].
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
            // An address space that is not a member may map it.
            return Some(Err(EBUSY));
        }
        state.moving += 1;
        drop(state);
        let moved = transfer::share(bo.gpu(), None, bo);
        self.state.lock().moving -= 1;
        Some(moved.map(|_| ()))
    }

    /// Undoes one [`Evictor::share`]: the buffer is moved in when there is room.
    pub(crate) fn unshare(self: &Arc<Self>, placement: &VramPlacement, stays: bool) {
        if placement.unshare(stays) {
            placement.client().recall(true);
            if !self.stopped.load(Relaxed) {
                self.schedule_in(LOOK_MS);
            }
        }
    }

    /// Stops all moves: the device is about to be removed. May sleep, for as long as the engines
    /// may take.
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

    /// Calls `show` for each member, for debugfs.
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

    /// Schedules the evictor at once (`ms` is [`SOON_MS`]), or in `ms` milliseconds unless it is
    /// scheduled already: repeated calls do not postpone it. The work does nothing if the state is
    /// closed by then.
    fn schedule_in(self: &Arc<Self>, ms: i64) {
        let queue = workqueue::background();
        if ms == SOON_MS {
            workqueue::run_in(queue, self.clone(), 0);
        } else {
            let delay = msecs_to_jiffies(ms.clamp(0, AGAIN_MS) as u32);
            let _ = queue.enqueue_delayed(self.clone(), delay);
        }
    }

    /// Calls [`Evictor::schedule_in`], for a thread that has moved buffers: [`Evictor::stop`] may
    /// have waited for it.
    fn reschedule_in(self: &Arc<Self>, ms: i64) {
        let state = self.state.lock();
        if !state.closed {
            self.schedule_in(ms);
        }
    }
}

/// The membership of an address space, which lasts as long as this exists.
pub(crate) struct EvictMembership {
    evictor: Arc<Evictor>,
    vm: Arc<Vm>,
}

impl Drop for EvictMembership {
    fn drop(&mut self) {
        // From here on no other thread moves its buffers.
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
        // Buffers that other processes still have stay where they are.
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
        // This would resume the queues; there are none any more.
        drop((mover, member));
    }
}
