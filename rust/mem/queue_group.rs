// SPDX-License-Identifier: GPL-2.0
//! The queues that run in one address space, and how all of them are kept off the hardware for a
//! while.

use crate::kern::mm_exit::AddressSpace;
use crate::kern::trace;
use crate::mem::pasid::Pasid;
use crate::mem::stopwatch::Stopwatch;
use crate::smi::{Smi, SmiEvent, SmiProcess};
use kernel::{
    new_mutex, new_spinlock,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex, SpinLock,
    },
    time::{Delta, Instant, Monotonic},
};

/// The reason why queues are quiesced. The numbers are those of `KFD_QUEUE_EVICTION_TRIGGERS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum EvictTrigger {
    /// Shared virtual memory of the process moves or is unmapped.
    Svm = 0,
    /// USERPTR memory of the process moves or is unmapped.
    Userptr = 1,
    /// A buffer moves.
    Eviction = 2,
    /// The machine is suspended.
    Suspend = 3,
    /// The process is about to be saved.
    Checkpoint = 4,
    /// The process is restored.
    Restore = 5,
}

/// A queue as its group sees it.
///
/// All functions are called with the group locked, and may be called under memory reclaim: they
/// allocate no memory, and take no lock under which memory is allocated.
pub(crate) trait GroupMember: Send + Sync {
    /// Announces that [`GroupMember::quiesce`] follows, for this queue and the others of the group:
    /// slow work may start now. Does not wait.
    fn begin_quiesce(&self) {}

    /// Takes the queue off the hardware, and keeps it off until [`GroupMember::resume`]. It is off
    /// at the return, even if its engine hangs; then the queue has failed. The exception is that
    /// `timeout` is over before: then the queue is off as soon as it can be. It may be off
    /// already. Takes a bounded time. May sleep.
    fn quiesce(&self, timeout: &QuiesceTimeout);

    /// Lets the queue run again, if its process wants it to. Does not wait.
    fn resume(&self);

    /// Whether it is a queue of the process, and not of a client of the render node, whose jobs go
    /// on while the process is saved or restored.
    fn is_of_process(&self) -> bool {
        true
    }

    /// Whether the queue has work, as far as memory tells.
    fn wants_to_run(&self) -> bool {
        true
    }
}

/// How long a caller waits for queues to be off the hardware.
pub(crate) struct QuiesceTimeout {
    since: Instant<Monotonic>,
    ms: Option<i64>,
}

impl QuiesceTimeout {
    /// Returns a limit as long as the hardware may take.
    pub(crate) fn endless() -> Self {
        let since = Instant::now();
        Self { since, ms: None }
    }

    /// Returns a limit of `ms` milliseconds from now on.
    pub(crate) fn of(ms: i64) -> Self {
        let since = Instant::now();
        let ms = Some(ms);
        Self { since, ms }
    }

    /// Whether the time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.ms
            .is_some_and(|ms| self.since.elapsed().as_millis() >= ms)
    }

    /// Whether there is no limit.
    pub(crate) fn is_endless(&self) -> bool {
        self.ms.is_none()
    }
}

/// The queues of one process on one GPU. Its lock, a mutex, is taken inside an MMU notifier: no
/// memory is allocated under it.
#[pin_data]
pub(crate) struct QueueGroup {
    gpu: u32,
    smi: Arc<Smi>,
    pid: Atomic<i32>,
    pasid: Atomic<u32>,
    /// The address space of the owning process and its PASID, once there is one.
    #[pin]
    space: SpinLock<Option<(AddressSpace, Arc<Pasid>)>>,
    /// How long the queues were quiesced.
    #[pin]
    evicted: Stopwatch,
    /// How long SDMA engines had packets of these queues to process.
    #[pin]
    sdma: Stopwatch,
    #[pin]
    state: Mutex<GroupState>,
}

struct GroupState {
    members: KVec<Arc<dyn GroupMember>>,
    /// The number of [`QuiesceGuard`]s.
    quiesced: usize,
    /// The number of [`PauseGuard`]s.
    paused: usize,
    /// A timeout ended before all of them were off the hardware.
    timed_out: bool,
}

impl GroupState {
    /// Whether `member` may not run.
    fn keeps_off(&self, member: &dyn GroupMember) -> bool {
        self.quiesced != 0 || self.paused != 0 && member.is_of_process()
    }

    /// Whether no queue of the process may run.
    fn is_evicted(&self) -> bool {
        self.quiesced != 0 || self.paused != 0
    }

    fn position(&self, member: *const ()) -> Option<usize> {
        let is = |other: &Arc<dyn GroupMember>| Arc::as_ptr(other).cast::<()>() == member;
        self.members.iter().position(is)
    }
}

impl QueueGroup {
    /// Creates a group without queues, on the GPU with this id, with the SMI watchers to notify.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(gpu: u32, smi: &Arc<Smi>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                gpu,
                smi: smi.clone(),
                pid: Atomic::new(0),
                pasid: Atomic::new(0),
                space <- new_spinlock!(None, "QueueGroup::space"),
                evicted <- Stopwatch::new(),
                sdma <- Stopwatch::new(),
                state <- new_mutex!(
                    GroupState {
                        members: KVec::new(),
                        quiesced: 0,
                        paused: 0,
                        timed_out: false,
                    },
                    "QueueGroup::state"
                ),
            }),
            GFP_KERNEL,
        )
    }

    /// Sets the owner of the queues for the watchers' events: the process of `space`.
    ///
    /// The PASID stays leased as long as the address space exists: jobs of the render node may run
    /// under it when the process has ended.
    pub(crate) fn belongs_to(&self, pid: i32, pasid: &Arc<Pasid>, space: &AddressSpace) {
        let owner = (space.clone(), pasid.clone());
        let before = self.space.lock().replace(owner);
        drop(before);
        self.pid.store(pid, Relaxed);
        self.pasid.store(pasid.get().into(), Relaxed);
    }

    /// Returns the PASID of the owner, if there is one.
    pub(crate) fn lease(&self) -> Option<Arc<Pasid>> {
        let space = self.space.lock();
        space.as_ref().map(|(_, pasid)| pasid.clone())
    }

    /// Returns the PID of the owner, in the initial PID namespace; 0 if there is none yet.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.load(Relaxed) as u32
    }

    /// Returns the PASID of the owner; 0 if there is none yet.
    pub(super) fn pasid(&self) -> u32 {
        self.pasid.load(Relaxed)
    }

    /// Returns how long the queues were kept off the hardware in all.
    pub(crate) fn evicted(&self) -> Delta {
        self.evicted.total()
    }

    /// Returns the stopwatch that runs while an SDMA queue is on an engine and has packets to
    /// process. This is known only for queues of which the driver turns the packets into jobs.
    pub(crate) fn sdma(&self) -> &Stopwatch {
        &self.sdma
    }

    /// Whether any of the queues has work. Also true while they are being taken off the hardware;
    /// the caller does not wait for that.
    pub(crate) fn wants_to_run(&self) -> bool {
        let state = self.state.try_lock();
        state.is_none_or(|state| state.members.iter().any(|member| member.wants_to_run()))
    }

    /// Adds a queue, which is quiesced at once if the group is. It stays until
    /// [`QueueGroup::remove`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn join(&self, member: Arc<dyn GroupMember>) -> Result {
        let mut more = KVec::new();
        loop {
            let mut state = self.state.lock();
            let count = state.members.len();
            if count < state.members.capacity() {
                if state.keeps_off(&*member) {
                    member.quiesce(&QuiesceTimeout::endless());
                }
                return state
                    .members
                    .push_within_capacity(member)
                    .map_err(|_| ENOMEM);
            }
            if more.capacity() > count {
                let mut old = core::mem::replace(&mut state.members, core::mem::take(&mut more));
                for member in old.drain_all() {
                    let _ = state.members.push_within_capacity(member);
                }
                drop(state);
                continue;
            }
            drop(state);
            more = KVec::with_capacity(count.saturating_mul(2).max(4), GFP_KERNEL)?;
        }
    }

    /// Removes a queue. From the return on, the group does not use it. Does nothing if the queue is
    /// not in the group.
    pub(crate) fn remove<T: GroupMember>(&self, member: &Arc<T>) {
        let removed = {
            let mut state = self.state.lock();
            let place = state.position(Arc::as_ptr(member).cast());
            place.and_then(|place| state.members.remove(place).ok())
        };
        // This may be the last reference.
        drop(removed);
    }

    /// Keeps every queue of the group off the hardware, including queues that join later, until all
    /// guards are dropped. Takes as long as the hardware may take. May sleep, and allocates no
    /// memory.
    pub(crate) fn quiesce(self: &Arc<Self>, why: EvictTrigger) -> QuiesceGuard {
        self.quiesce_within(why, &QuiesceTimeout::endless())
    }

    /// Like [`QueueGroup::quiesce`], but waits no longer than `timeout` for queues that do not
    /// leave the hardware: the caller ensures that they can do no harm. The next caller waits for
    /// them within its own limit.
    pub(crate) fn quiesce_within(
        self: &Arc<Self>,
        why: EvictTrigger,
        timeout: &QuiesceTimeout,
    ) -> QuiesceGuard {
        let mut state = self.state.lock();
        if !state.is_evicted() {
            self.notify_evicted(why, true);
        }
        state.quiesced += 1;
        let is_first = state.quiesced == 1;
        if is_first {
            // All queues are asked first, so that they are waited for together.
            state
                .members
                .iter()
                .for_each(|member| member.begin_quiesce());
        }
        if is_first || state.timed_out {
            state
                .members
                .iter()
                .for_each(|member| member.quiesce(timeout));
            state.timed_out = timeout.is_over();
        }
        drop(state);
        QuiesceGuard {
            why,
            group: self.clone(),
        }
    }

    fn resume(&self, why: EvictTrigger) {
        let mut state = self.state.lock();
        state.quiesced = state.quiesced.saturating_sub(1);
        if state.quiesced == 0 {
            let members = state.members.iter();
            members
                .filter(|member| !state.keeps_off(&***member))
                .for_each(|member| member.resume());
        }
        if !state.is_evicted() {
            self.notify_evicted(why, false);
        }
    }

    /// Keeps the queues of the process off the hardware, including queues that join later, until
    /// all guards are dropped; see [`GroupMember::is_of_process`]. Takes as long as the hardware
    /// may take. May sleep, and allocates no memory.
    pub(crate) fn pause(self: &Arc<Self>, why: EvictTrigger) -> PauseGuard {
        let mut state = self.state.lock();
        if !state.is_evicted() {
            self.notify_evicted(why, true);
        }
        state.paused += 1;
        if state.paused == 1 {
            let queues = || state.members.iter().filter(|member| member.is_of_process());
            queues().for_each(|member| member.begin_quiesce());
            queues().for_each(|member| member.quiesce(&QuiesceTimeout::endless()));
        }
        drop(state);
        PauseGuard {
            why,
            group: self.clone(),
        }
    }

    fn unpause(&self, why: EvictTrigger) {
        let mut state = self.state.lock();
        state.paused = state.paused.saturating_sub(1);
        if !state.is_evicted() {
            let members = state.members.iter();
            members
                .filter(|member| member.is_of_process())
                .for_each(|member| member.resume());
            self.notify_evicted(why, false);
        }
    }

    /// Returns the owner of the queues.
    pub(super) fn owner(&self) -> SmiProcess {
        SmiProcess {
            pid: self.pid() as i32,
            space: self
                .space
                .lock()
                .as_ref()
                .map_or(0, |(space, _)| space.id()),
        }
    }

    /// Counts, and notifies watchers, that the group's queues are taken off the hardware, or
    /// restored.
    fn notify_evicted(&self, why: EvictTrigger, evicted: bool) {
        let (pid, pasid) = (self.pid(), self.pasid.load(Relaxed));
        let owner = self.owner();
        if evicted {
            self.evicted.start();
            self.smi.notify(&SmiEvent::Evicted(owner, why as u32));
            trace::queue_evict(pid, pasid, self.gpu, why as u32);
        } else {
            self.evicted.stop();
            self.smi.notify(&SmiEvent::Restored(owner));
            trace::queue_restore(pid, pasid, self.gpu, why as u32);
        }
    }
}

/// Keeps a group's queues off the hardware; when the last guard is dropped, they may run again.
/// Dropped where sleeping is allowed; allocates no memory.
pub(crate) struct QuiesceGuard {
    why: EvictTrigger,
    group: Arc<QueueGroup>,
}

impl Drop for QuiesceGuard {
    fn drop(&mut self) {
        self.group.resume(self.why);
    }
}

/// Keeps the queues of a group's process off the hardware; when the last guard is dropped, they may
/// run again. Dropped where sleeping is allowed; allocates no memory.
pub(crate) struct PauseGuard {
    why: EvictTrigger,
    group: Arc<QueueGroup>,
}

impl Drop for PauseGuard {
    fn drop(&mut self) {
        self.group.unpause(self.why);
    }
}
