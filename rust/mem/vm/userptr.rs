// SPDX-License-Identifier: GPL-2.0
//! Memory of a process (USERPTR) in an address space. Before its pages are unmapped or change, the
//! process's queues are quiesced, its entries are made invalid and its DMA mapping ends. A work
//! item then finds the current pages, maps them, and resumes the queues. Memory that the process no
//! longer has stays invalid.
//!
//! These entries have two writers: [`Vm::attach`] with [`Vm`]'s lock, which may change the tables'
//! shape, and the notifier, which may not take that lock, since memory is allocated under it.
//! [`Userptr`]'s own lock is between them.

mod refault;
mod restore;

use super::{
    backoff::{RetryBackoff, SOON_MS},
    gone_pages::GonePages,
    mapping::BoMapping,
    pending_ranges::{PendingRanges, PendingRoom},
    table::{IdleTables, ReservedLeaves},
    Vm,
};
use crate::{
    ip::hub::TlbFlush,
    kern::{
        device_memory::DeviceMemory,
        errno,
        ratelimit::dev_err_ratelimited,
        trace,
        user_range::{
            DevicePages, FetchRequest, LockWait, MissingPages, PageRequest, RangeChange,
            RangeStamp, RangeWatch, RangeWatcher,
        },
        workqueue,
    },
    mem::{
        queue_group::{EvictTrigger, QuiesceGuard, QuiesceTimeout},
        user_memory::{UserMemory, UserMemoryTime},
    },
};
use hw::{
    pte::{MemoryResidence, PageAccess},
    va::VaRange,
};
use kernel::{
    error::code::*,
    new_mutex,
    prelude::*,
    sync::{
        atomic::{AtomicFlag, Relaxed},
        Arc, Mutex,
    },
    time::{delay::fsleep, msecs_to_jiffies, Delta, Instant, Monotonic},
};

/// How often a range that changes during the call is tried at once.
const TRIES: u32 = 8;
/// How long the queues may run at least before they are quiesced again, so that they make progress
/// however fast the process changes its memory. Other causes of changes (reclaim, compaction) are
/// not delayed.
const LEAST_RUN_MS: i64 = 10;
/// Where page faults are retried, the minimum run is at least as long as it took to get the memory
/// for it, on a machine that is slow or busy. This is its limit.
const MOST_RUN_MS: i64 = 50;

/// How long a process that changes its memory waits for its own queues to leave the hardware, and
/// how long all other callers wait, milliseconds. The cause of a wait may be a queue that hangs, or
/// with `sched=hws` a queue that waits for another process's queue to be reset.
const OWN_MS: i64 = 2000;
const OTHERS_MS: i64 = 1000;

/// The state of the range on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GpuBinding {
    /// Not mapped, and not requested.
    Out,
    /// The process's pages are mapped.
    In,
    /// Not mapped: the pages have changed, and the queues wait for them.
    Invalid,
    /// Not mapped: the process is being restored, and does not have its memory yet. Its queues are
    /// kept off the hardware until [`Vm::expect_pending`].
    Pending,
}

struct UserptrState {
    binding: GpuBinding,
    /// The state when the mapping was removed.
    final_binding: GpuBinding,
    /// The run that started when the range was last mapped, where page faults are retried.
    run: Option<LeastRun>,
    /// For shared virtual memory: the pages that the process has unmapped.
    unmapped: GonePages,
    /// The entries that lead to `pages`.
    reserved: ReservedLeaves,
    pages: DevicePages,
}

/// A time for which queues run on memory of the process.
struct LeastRun {
    since: Instant<Monotonic>,
    /// The length that the run is to have, if the process itself changes the memory, milliseconds.
    least_ms: i64,
}

impl LeastRun {
    /// Starts a run; the wait for its memory started at `asked`.
    fn new(asked: Instant<Monotonic>) -> Self {
        Self {
            since: Instant::now(),
            least_ms: asked.elapsed().as_millis().clamp(LEAST_RUN_MS, MOST_RUN_MS),
        }
    }

    /// Delays the thread that changes the memory until the run has lasted that long, so that queues
    /// make progress.
    fn wait_least_run(&self) {
        let remaining_ms = self.least_ms - self.since.elapsed().as_millis();
        if remaining_ms > 0 {
            fsleep(Delta::from_millis(remaining_ms));
        }
    }
}

/// USERPTR memory as one address space maps it.
#[pin_data]
pub(super) struct Userptr {
    range: VaRange,
    /// Whether it is shared virtual memory, and whether it is to be mapped for the GPU at all
    /// times.
    shared: bool,
    always: bool,
    /// Its mapping is removed.
    detached: AtomicFlag,
    vm: Arc<Vm>,
    _room: PendingRoom,
    /// Taken inside the MMU notifier: no memory is allocated under it.
    #[pin]
    state: Mutex<UserptrState>,
}

/// The ranges that wait for their pages, and the guard that keeps the queues off the hardware
/// meanwhile.
#[derive(Default)]
pub(super) struct EvictedUserptrs {
    invalid: usize,
    pub(super) waiting: PendingRanges,
    quiesced: Option<QuiesceGuard>,
    /// The run that started when the queues were last resumed.
    run: Option<LeastRun>,
    /// Runs of the work item, since the queues last ran, that did not get the pages they wanted.
    retry: RetryBackoff,
    /// The last request to a program for pages, and the start of its range: one at a time.
    fetch: Option<(u64, FetchRequest)>,
}

impl EvictedUserptrs {
    /// Whether a range waits for its pages.
    pub(super) fn is_waiting(&self) -> bool {
        self.invalid != 0
    }

    /// Records that the range that starts at `start` is not in state `was` any more, but in or out.
    /// Returns the request for its pages, which is cancelled when it is dropped, without the lock.
    fn done_with(&mut self, start: u64, was: GpuBinding) -> Option<FetchRequest> {
        if was == GpuBinding::Invalid {
            self.invalid -= 1;
        }
        let request = self.fetch.take_if(|(owner, _)| *owner == start);
        request.map(|(_, request)| request)
    }
}

impl Userptr {
    /// Watches the part of `memory` that is mapped at `range`, and that is there at that `time`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the size is not one of the CPU's; `EOVERFLOW` if the range wraps; `ENOMEM` if
    /// there is no memory; `ESRCH` if the address space has ended.
    pub(super) fn watch(
        vm: &Arc<Vm>,
        range: VaRange,
        memory: &UserMemory,
        time: UserMemoryTime,
    ) -> Result<RangeWatch<Self>> {
        let (vm, room) = (vm.clone(), PendingRoom::new(vm)?);
        let state = UserptrState {
            binding: match time {
                UserMemoryTime::Now => GpuBinding::Out,
                UserMemoryTime::AtResume => GpuBinding::Pending,
            },
            final_binding: GpuBinding::Out,
            run: None,
            unmapped: GonePages::new(if memory.is_shared() { range.pages() } else { 0 })?,
            reserved: ReservedLeaves::default(),
            pages: DevicePages::default(),
        };
        let userptr = pin_init!(Self {
            range,
            shared: memory.is_shared(),
            always: memory.is_always_mapped(),
            detached: AtomicFlag::new(false),
            vm,
            _room: room,
            state <- new_mutex!(state, "Userptr::state"),
        });
        let size = usize::try_from(range.size()).map_err(|_| EINVAL)?;
        RangeWatch::new(memory.space(), memory.start(), size, userptr)
    }

    /// Whether it is shared virtual memory.
    pub(super) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Whether it is to be mapped for the GPU at all times, also if the GPU retries page faults.
    pub(super) fn is_always_mapped(&self) -> bool {
        self.always
    }

    /// Whether the process has unmapped a part of it. That part stays lost for this mapping.
    pub(super) fn is_cut(&self) -> bool {
        self.state.lock().unmapped.any()
    }

    /// Returns the bytes of it that are in VRAM, if it is mapped.
    pub(super) fn in_vram(&self) -> Option<u64> {
        let state = self.state.lock();
        (state.binding == GpuBinding::In).then(|| state.pages.in_device())
    }

    /// Returns the VRAM that the process may use as memory of its own, if such memory is to be used
    /// where it is.
    fn memory(&self) -> Option<Arc<DeviceMemory>> {
        let shared = self.shared.then(|| self.vm.gpu.shared_vram.get());
        shared.flatten()
    }

    fn trigger(&self) -> EvictTrigger {
        if self.shared {
            EvictTrigger::Svm
        } else {
            EvictTrigger::Userptr
        }
    }

    /// Whether the queues wait for it.
    pub(super) fn is_invalid(&self) -> bool {
        self.state.lock().binding == GpuBinding::Invalid
    }

    /// Whether it is mapped, though its pages may be invalid at the moment.
    pub(super) fn is_made(&self) -> bool {
        self.state.lock().binding != GpuBinding::Out
    }

    /// Whether it has been detached, which is permanent.
    fn is_detached(&self) -> bool {
        self.detached.load(Relaxed)
    }

    /// Unmaps the pages from the GPU: their entries, the TLBs' copies of those, and the DMA
    /// mapping. `state` is that of the range, and no longer `In`.
    fn unmap_pages(&self, state: &mut UserptrState) {
        let written = state.reserved.clear(&self.vm.gpu);
        if self.vm.flush(TlbFlush::Heavyweight).is_err() {
            dev_err_ratelimited!(
                process self.vm.group.pid(),
                self.vm.gpu.hw.dev,
                "the GPU does not answer a flush: memory that process {} gives back is lost to the \
                 machine\n",
                self.vm.group.pid()
            );
            state.pages.leak();
        }
        state.pages.unmap_device();
        let (start, size) = (self.range.start(), self.range.size());
        trace::unmap(self.vm.group.pid(), start, size, written);
    }

    /// Unmaps the pages from the GPU as if they had changed: the queues wait until the work item
    /// has mapped the then current pages.
    fn evict_pages(&self) {
        let mut state = self.state.lock();
        if state.binding != GpuBinding::In {
            return;
        }
        self.vm.evict(self.range, self.trigger(), false);
        state.binding = GpuBinding::Invalid;
        self.unmap_pages(&mut state);
        drop(state);
        self.vm.restore_in(SOON_MS);
    }

    /// Detaches the range after the GPU has lost the entries. From the return on the notifier does
    /// not touch them, and the GPU has no page of the range. The VM's lock is held. The returned
    /// value is to be dropped without it.
    pub(super) fn detach(&self) -> impl Sized {
        // A thread that is looking for its pages stops.
        self.detached.store(true, Relaxed);
        let mut state = self.state.lock();
        let was = core::mem::replace(&mut state.binding, GpuBinding::Out);
        state.final_binding = was;
        state.pages.unmap_device();
        let start = self.range.start();
        let fetch = self.vm.evicted.lock().done_with(start, was);
        (
            core::mem::take(&mut state.pages),
            core::mem::take(&mut state.reserved),
            fetch,
        )
    }
}

impl RangeWatch<Userptr> {
    /// Returns the process's pages in the range at the request's stamp: see
    /// [`RangeWatch::map_pages`].
    ///
    /// # Errors
    ///
    /// Also `EAGAIN` if it is detached.
    fn pages(&self, request: &PageRequest<'_>) -> Result<DevicePages> {
        let count = self.range.pages() as usize;
        let go_on = || match self.is_detached() {
            true => Err(EAGAIN),
            false => (request.go_on)(),
        };
        let request = PageRequest {
            go_on: &go_on,
            ..*request
        };
        self.map_pages(&self.vm.gpu.hw.dev, &request, |from| {
            self.state.lock().unmapped.next_mapped(from, count)
        })
    }
}

impl RangeWatcher for Userptr {
    fn invalidate(&self, change: &RangeChange) {
        let mut state = self.state.lock();
        change.set_seq();
        let mut ended = false;
        if let Some(unmapped) = change.unmapped().filter(|_| self.shared) {
            state.unmapped.add(self.range, unmapped);
            ended = state.unmapped.is_all();
        }
        self.notify_unmapped(change, &state);
        if state.binding != GpuBinding::In {
            return;
        }
        // The queues need not wait: either no page of it returns, or the pages return when the
        // queues access them.
        let refaults = self.refaults();
        let stays_out = ended || refaults;
        if stays_out {
            if refaults && !ended && change.may_be_delayed() {
                state.run.iter().for_each(LeastRun::wait_least_run);
            }
            state.binding = GpuBinding::Out;
        } else {
            self.vm
                .evict(self.range, self.trigger(), change.may_be_delayed());
            state.binding = GpuBinding::Invalid;
        }
        self.unmap_pages(&mut state);
        drop(state);
        if !stays_out {
            self.vm.restore_in(SOON_MS);
        }
    }
}

impl Vm {
    /// Counts `range` as invalid, too. The queues are off the hardware at the return, unless they
    /// take too long. With `delay`, a process that changes its own memory faster than its queues
    /// make progress is slowed down. Called by the notifier.
    fn evict(&self, range: VaRange, trigger: EvictTrigger, delay: bool) {
        let mut evicted = self.evicted.lock();
        evicted.invalid += 1;
        evicted.waiting.push(range.start());
        if evicted.quiesced.is_none() {
            if delay {
                evicted.run.iter().for_each(LeastRun::wait_least_run);
            }
            // A queue that does not leave finds no entries once they are cleared and flushed, and
            // the pages are safe: the queue faults, at its own cost.
            let timeout = QuiesceTimeout::of(if delay { OWN_MS } else { OTHERS_MS });
            evicted.quiesced = Some(self.group.quiesce_within(trigger, &timeout));
        }
    }

    /// Unmaps all memory that others may move from the GPU. From the return on no notifier finds
    /// any of it mapped, until the work item has mapped it again. The work item does not run
    /// meanwhile, and the queues wait for it. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; then a part of the memory is unmapped.
    pub(crate) fn evict_pages(self: &Arc<Self>) -> Result {
        let mut from = 0;
        let mut imports = false;
        loop {
            let next = self.state.lock().at_or_above(from);
            let Some(mapping) = next else { break };
            if let Some(userptr) = mapping.userptr() {
                userptr.evict_pages();
            }
            imports |= mapping.bo().moving().is_some();
            from = mapping.range().end();
        }
        if imports {
            self.wait_for_moved();
            self.hide_imports()?;
        }
        Ok(())
    }

    /// Has the memory of a process that was restored, which is laid out by now, mapped for the GPU.
    /// The queues wait for it. May sleep.
    pub(crate) fn expect_pending(self: &Arc<Self>) {
        let mut from = 0;
        let mut any = false;
        loop {
            let next = self.state.lock().at_or_above(from);
            let Some(mapping) = next else { break };
            if let Some(userptr) = mapping.userptr() {
                let mut state = userptr.state.lock();
                if state.binding == GpuBinding::Pending {
                    self.evict(userptr.range, userptr.trigger(), false);
                    state.binding = GpuBinding::Invalid;
                    any = true;
                }
            }
            from = mapping.range().end();
        }
        if any {
            self.restore_in(SOON_MS);
        }
    }

    /// Schedules the work item in `delay_ms` milliseconds, unless it is scheduled already. Context:
    /// any.
    pub(super) fn restore_in(self: &Arc<Self>, delay_ms: u32) {
        let delay = msecs_to_jiffies(delay_ms);
        let _ = workqueue::background().enqueue_delayed(self.clone(), delay);
    }

    /// Maps USERPTR memory for the first time. Calls `go_on` meanwhile, and stops with its error.
    ///
    /// # Errors
    ///
    /// `EFAULT` if the process does not have all of it; `ENOMEM`, `EINTR` and others if it is not
    /// available; those of `go_on`.
    pub(super) fn map_userptr(
        self: &Arc<Self>,
        mapping: &Arc<BoMapping>,
        go_on: &dyn Fn() -> Result,
    ) -> Result {
        let userptr = mapping.userptr().ok_or(EINVAL)?;
        // The process may have only a part of the memory that it shares, and more later.
        match self.validate(mapping, !userptr.shared, LockWait::Short, go_on) {
            Err(error)
                if (error == EAGAIN || error == errno::in_progress()) && userptr.refaults() =>
            {
                // The GPU accesses it later, or again.
                Ok(())
            }
            Err(error) if error == EAGAIN || error == errno::in_progress() => {
                // It changes too fast for this call, or a program has to provide it. The queues
                // wait for it then.
                let mut state = userptr.state.lock();
                if state.binding == GpuBinding::Out {
                    self.evict(userptr.range, userptr.trigger(), true);
                    state.binding = GpuBinding::Invalid;
                }
                drop(state);
                self.restore_in(SOON_MS);
                Ok(())
            }
            done => done,
        }
    }

    /// Maps the process's current pages in the range for the GPU. If it `must`, the process has to
    /// have all of the range. A removed mapping is left alone.
    ///
    /// # Errors
    ///
    /// `EFAULT` if it must be all and is not; `EAGAIN` if the range changes all the time;
    /// [`errno::in_progress`] while a program has not provided pages; `ESRCH` if the address space
    /// is being destroyed; `EINTR`, `ENOMEM` and others if the pages are not available; those of
    /// `go_on`.
    fn validate(
        &self,
        mapping: &Arc<BoMapping>,
        must: bool,
        lock_wait: LockWait,
        go_on: &dyn Fn() -> Result,
    ) -> Result {
        let userptr = mapping.userptr().ok_or(EINVAL)?;
        let write = mapping.bo().access().write;
        let (memory, asked) = (userptr.memory(), Instant::now());
        for _ in 0..TRIES {
            let stamp = userptr.read_begin();
            let request = PageRequest {
                stamp,
                write,
                missing: MissingPages::Fails,
                memory: memory.as_ref(),
                lock_wait,
                go_on,
            };
            let pages = match userptr.pages(&request) {
                Ok(pages) => pages,
                Err(error) if error == EBUSY => continue,
                Err(_) if userptr.is_detached() => return Ok(()),
                Err(error) => return Err(error),
            };
            if must && !pages.is_whole(userptr.range.size(), write) {
                return Err(EFAULT);
            }
            if self.attach(mapping, userptr, (stamp, pages), asked)? {
                return Ok(());
            }
        }
        Err(EAGAIN)
    }

    /// Writes the entries of a mapping that has none, for `pages`, which were current at `stamp`;
    /// the search for them started at `asked`. Returns false if they have changed since. A removed
    /// mapping is left alone.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENODEV`, `ETIMEDOUT`.
    fn attach(
        &self,
        mapping: &Arc<BoMapping>,
        userptr: &RangeWatch<Userptr>,
        (stamp, mut pages): (RangeStamp, DevicePages),
        asked: Instant<Monotonic>,
    ) -> Result<bool> {
        let (range, bo) = (userptr.range, mapping.bo());
        let mut reserved = ReservedLeaves::default();
        let mut written = 0;
        // These are dropped after the locks.
        let (_rest, _more, _fetch);
        let mut state = self.state.lock();
        if !state.has(mapping) {
            return Ok(true);
        }
        let idle = state.tree.clear(range, &mut written);
        if !idle.is_empty() {
            if let Err(error) = self.flush(TlbFlush::Heavyweight) {
                self.leak(idle);
                return Err(error);
            }
        }
        // The new entries need many of them. If they need more than there are, these are for the
        // next try.
        _rest = state.tree.keep(idle);
        for found in pages.parts() {
            let access = PageAccess {
                write: found.writable,
                ..bo.access()
            };
            let (residence, base) = match found.in_device {
                true => (MemoryResidence::LocalVram, self.gpu.hw.gmc.fb_offset()),
                false => (MemoryResidence::Host, 0),
            };
            let flags = self
                .gpu
                .hw
                .asic
                .pte
                .flags(residence, access, bo.coherence());
            let mut at = found.offset;
            for run in found.runs {
                let part = range.slice(at, run.size).map_err(|_| EINVAL)?;
                state
                    .tree
                    .reserve(part, base + run.address, flags, &mut reserved, &mut written)?;
                at += run.size;
            }
        }
        {
            let mut own = userptr.state.lock();
            if userptr.is_stale(stamp) {
                return Ok(false);
            }
            written += reserved.write(&self.gpu)?;
            core::mem::swap(&mut own.reserved, &mut reserved);
            core::mem::swap(&mut own.pages, &mut pages);
            let was = core::mem::replace(&mut own.binding, GpuBinding::In);
            mapping.repeats().clear();
            own.run = userptr.refaults().then(|| LeastRun::new(asked));
            _fetch = self.evicted.lock().done_with(range.start(), was);
        }
        _more = self.recycle(&mut state, IdleTables::default());
        self.flush(TlbFlush::Legacy)?;
        trace::map(self.group.pid(), range.start(), range.size(), written);
        Ok(true)
    }
}
