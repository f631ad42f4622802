// SPDX-License-Identifier: GPL-2.0
//! The queues that run in one address space, and how all of them are kept off the hardware for a while.

use crate::kern::mm_exit::AddressSpace;
use crate::kern::trace;
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

/// Why queues are quiesced. The numbers are those of `KFD_QUEUE_EVICTION_TRIGGERS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum EvictTrigger {
    /// Shared virtual memory of the process moves or goes.
    Svm = 0,
    /// USERPTR memory of the process moves or goes.
    Userptr = 1,
    /// A buffer moves.
    Eviction = 2,
    /// The machine sleeps.
    Suspend = 3,
}

/// A queue as its group sees it.
///
/// All functions are called with the group locked, and may be called under memory reclaim: they allocate nothing, and
/// take no lock under which memory is allocated.
pub(crate) trait GroupMember: Send + Sync {
    /// [`GroupMember::quiesce`] is about to follow, as of others beside it: what takes time may begin. Waits for nothing.
    fn begin_quiesce(&self) {}

    /// Takes the queue off the hardware; it does not get on it before [`GroupMember::resume`]. Whatever it does, it is off
    /// at the return: when its engine hangs, the queue has failed. Unless `patience` is over before: then it is off as soon as it
    /// can be. Bounded; sleeps. Also called for one that is off.
    fn quiesce(&self, patience: &QuiesceTimeout);

    /// The queue may run again, if its process wants it to. Waits for nothing.
    fn resume(&self);

    /// Whether it has something to do, as far as memory tells.
    fn wants_to_run(&self) -> bool {
        true
    }
}

/// How long somebody waits for queues to be off the hardware.
pub(crate) struct QuiesceTimeout {
    since: Instant<Monotonic>,
    ms: Option<i64>,
}

impl QuiesceTimeout {
    /// As long as the hardware may take.
    pub(crate) fn endless() -> Self {
        let since = Instant::now();
        Self { since, ms: None }
    }

    /// For `ms` milliseconds from now on.
    pub(crate) fn of(ms: i64) -> Self {
        let since = Instant::now();
        let ms = Some(ms);
        Self { since, ms }
    }

    /// What is left, at most `most`; never less than nothing.
    pub(crate) fn left(&self, most: Delta) -> Delta {
        let left = self.ms.map(|ms| ms - self.since.elapsed().as_millis());
        left.map_or(most, |left| Delta::from_millis(left.max(0)).min(most))
    }

    /// Whether it is over.
    pub(crate) fn is_over(&self) -> bool {
        self.ms
            .is_some_and(|ms| self.since.elapsed().as_millis() >= ms)
    }

    /// Whether it ends at all.
    pub(crate) fn is_endless(&self) -> bool {
        self.ms.is_none()
    }
}

/// The queues of one process on one GPU. Its lock, a mutex, is taken inside an MMU notifier: no memory is allocated
/// under it.
#[pin_data]
pub(crate) struct QueueGroup {
    gpu: u32,
    smi: Arc<Smi>,
    pid: Atomic<i32>,
    pasid: Atomic<u32>,
    /// The process's address space, once it is somebody's.
    #[pin]
    space: SpinLock<Option<AddressSpace>>,
    /// How long they were quiesced.
    #[pin]
    evicted: Stopwatch,
    /// How long engines of SDMA had packets of theirs to do.
    #[pin]
    sdma: Stopwatch,
    #[pin]
    state: Mutex<GroupState>,
}

struct GroupState {
    members: KVec<Arc<dyn GroupMember>>,
    /// How many [`QuiesceGuard`] guards there are.
    quiesced: usize,
    /// Somebody had no patience left before all of them were off the hardware.
    not_off: bool,
}

impl GroupState {
    fn position(&self, member: *const ()) -> Option<usize> {
        let is = |other: &Arc<dyn GroupMember>| Arc::as_ptr(other).cast::<()>() == member;
        self.members.iter().position(is)
    }
}

impl QueueGroup {
    /// No queues, on the GPU with this id, whose watchers are told. `ENOMEM`.
    pub(super) fn new(gpu: u32, smi: &Arc<Smi>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                gpu,
                smi: smi.clone(),
                pid: Atomic::new(0),
                pasid: Atomic::new(0),
                space <- new_spinlock!(None, "Group::space"),
                evicted <- Stopwatch::new(),
                sdma <- Stopwatch::new(),
                state <- new_mutex!(
                    GroupState { members: KVec::new(), quiesced: 0, not_off: false },
                    "Group::state"
                ),
            }),
            GFP_KERNEL,
        )
    }

    /// Says whose queues they are, for whoever watches: of the process of `space`.
    pub(crate) fn belongs_to(&self, pid: i32, pasid: u16, space: &AddressSpace) {
        let before = self.space.lock().replace(space.clone());
        drop(before);
        self.pid.store(pid, Relaxed);
        self.pasid.store(pasid.into(), Relaxed);
    }

    /// The process, in the initial PID namespace; 0 if it is nobody's yet.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.load(Relaxed) as u32
    }

    /// For how long its queues were kept off the hardware in all.
    pub(crate) fn evicted(&self) -> Delta {
        self.evicted.total()
    }

    /// Runs while a queue of SDMA is on an engine that has packets of it to do. Only for queues of which that is known: those of
    /// which the driver makes jobs.
    pub(crate) fn sdma(&self) -> &Stopwatch {
        &self.sdma
    }

    /// Whether any of the queues has something to do; also while they are just taken off the hardware, which is not waited for.
    pub(crate) fn wants_to_run(&self) -> bool {
        let state = self.state.try_lock();
        state.is_none_or(|state| state.members.iter().any(|member| member.wants_to_run()))
    }

    /// Adds a queue, which is quiesced at once if the group is. It stays until [`QueueGroup::remove`]. `ENOMEM`.
    pub(crate) fn join(&self, member: Arc<dyn GroupMember>) -> Result {
        let mut more = KVec::new();
        loop {
            let mut state = self.state.lock();
            let count = state.members.len();
            if count < state.members.capacity() {
                if state.quiesced != 0 {
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

    /// The group has nothing to do with a queue any more, from the return on. Nothing happens when it is not in it.
    pub(crate) fn remove<T: GroupMember>(&self, member: &Arc<T>) {
        let gone = {
            let mut state = self.state.lock();
            let place = state.position(Arc::as_ptr(member).cast());
            place.and_then(|place| state.members.remove(place).ok())
        };
        // Maybe the last reference.
        drop(gone);
    }

    /// Keeps every queue of the group off the hardware, also those that come later, until all guards are dropped.
    /// Bounded by what the hardware may take; sleeps, allocates nothing.
    pub(crate) fn quiesce(self: &Arc<Self>, why: EvictTrigger) -> QuiesceGuard {
        self.quiesce_within(why, &QuiesceTimeout::endless())
    }

    /// The same, but waits no longer than `patience` for those that do not leave: who calls this sees to it that they can do no
    /// harm. Who comes next waits for them as long as its own patience lasts.
    pub(crate) fn quiesce_within(
        self: &Arc<Self>,
        why: EvictTrigger,
        patience: &QuiesceTimeout,
    ) -> QuiesceGuard {
        let mut state = self.state.lock();
        state.quiesced += 1;
        let is_first = state.quiesced == 1;
        if is_first {
            self.notify_evicted(why, true);
            // Queues that do not end what they are at are waited for together.
            state
                .members
                .iter()
                .for_each(|member| member.begin_quiesce());
        }
        if is_first || state.not_off {
            state
                .members
                .iter()
                .for_each(|member| member.quiesce(patience));
            state.not_off = patience.is_over();
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
            state.members.iter().for_each(|member| member.resume());
            self.notify_evicted(why, false);
        }
    }

    /// Whose its queues are.
    pub(super) fn owner(&self) -> SmiProcess {
        SmiProcess {
            pid: self.pid() as i32,
            space: self.space.lock().as_ref().map_or(0, AddressSpace::id),
        }
    }

    /// Counts, and for whoever watches: the group's queues are taken off the hardware, or come back.
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

/// Keeps a group's queues off the hardware; the last one that is dropped lets them on again. Dropped where sleeping is
/// allowed; allocates nothing.
pub(crate) struct QuiesceGuard {
    why: EvictTrigger,
    group: Arc<QueueGroup>,
}

impl Drop for QuiesceGuard {
    fn drop(&mut self) {
        self.group.resume(self.why);
    }
}
