// SPDX-License-Identifier: GPL-2.0
//! Memory of a process (USERPTR) in an address space. When its pages go or change, the process's queues are
//! quiesced, its entries are made invalid and its DMA mapping ends, all before the pages go; a work item then finds out
//! what there is now, maps it, and lets the queues go on. What the process no longer has stays invalid.
//!
//! Two things write these entries: [`Vm::attach`] with [`Vm`]'s lock, which may change the tables' shape, and the
//! notifier, which may not take that lock, since memory is allocated under it. Between them is [`Userptr`]'s own lock.

mod refault;
mod restore;

use super::{
    backoff::{RetryBackoff, SOON_MS},
    gone_pages::GonePages,
    mapping::BoMapping,
    pending_ranges::{PendingRanges, PendingRoom},
    table::ReservedLeaves,
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
        user_memory::UserMemory,
    },
};
use hw::{
    pte::{MemoryResidence, PageAccess, PteFlags},
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

/// How often a range that changes under the hand is tried at once.
const TRIES: u32 = 8;
/// How long the queues may run at least before they are quiesced again, so that they get somewhere however fast the
/// process changes its memory. When it is others who change it (reclaim, compaction) they are not held up.
const LEAST_RUN_MS: i64 = 10;
/// Where page faults are retried that is at least as long as it took to give them what they run on, on a machine that is slow or busy, and this at most.
const MOST_RUN_MS: i64 = 50;

/// How long a process that changes its memory waits for its own queues to leave the hardware, and how long everybody else,
/// milliseconds. It may be a queue that hangs, or with `sched=hws` one that waits for another process's to be reset.
const OWN_MS: i64 = 2000;
const OTHERS_MS: i64 = 1000;

/// What the GPU has of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GpuBinding {
    /// Nothing, and nobody has asked for it.
    Out,
    /// What the process has.
    In,
    /// Nothing: the pages have changed, and the queues wait for them.
    Invalid,
}

struct UserptrState {
    now: GpuBinding,
    /// What it was when the mapping went.
    at_last: GpuBinding,
    /// The run that has begun when it was last mapped, where page faults are retried.
    run: Option<LeastRun>,
    /// Of shared virtual memory: what the process has unmapped.
    gone: GonePages,
    /// The entries that lead to `pages`.
    reserved: ReservedLeaves,
    pages: DevicePages,
}

/// A time for which queues run on memory of the process.
struct LeastRun {
    since: Instant<Monotonic>,
    /// How long it is to last, if the process itself changes the memory, milliseconds.
    least_ms: i64,
}

impl LeastRun {
    /// It begins; what it was waited for has begun at `asked`.
    fn new(asked: Instant<Monotonic>) -> Self {
        Self {
            since: Instant::now(),
            least_ms: asked.elapsed().as_millis().clamp(LEAST_RUN_MS, MOST_RUN_MS),
        }
    }

    /// Holds up who changes the memory until it has lasted that long, so that queues get somewhere.
    fn wait_least_run(&self) {
        let left_ms = self.least_ms - self.since.elapsed().as_millis();
        if left_ms > 0 {
            fsleep(Delta::from_millis(left_ms));
        }
    }
}

/// USERPTR memory as one address space maps it.
#[pin_data]
pub(super) struct Userptr {
    range: VaRange,
    /// Whether it is shared virtual memory, and the GPU is to find it there always.
    shared: bool,
    always: bool,
    /// Its mapping is gone.
    left: AtomicFlag,
    vm: Arc<Vm>,
    _room: PendingRoom,
    /// Taken inside the MMU notifier: nothing is allocated under it.
    #[pin]
    state: Mutex<UserptrState>,
}

/// The ranges that wait for their pages, and what keeps the queues off meanwhile.
#[derive(Default)]
pub(super) struct EvictedUserptrs {
    invalid: usize,
    pub(super) waiting: PendingRanges,
    quiesced: Option<QuiesceGuard>,
    /// The run that has begun when the queues were let on again.
    run: Option<LeastRun>,
    /// Runs of the work item, since the queues last ran, that did not get the pages they wanted.
    retry: RetryBackoff,
    /// Who was last to wait for a program, and for the range that starts where: one at a time.
    bringer: Option<(u64, FetchRequest)>,
}

impl EvictedUserptrs {
    /// The range that starts at `start` is `was` no more, and now in or out. Who waits for it, and gives up when dropped, without the lock.
    fn done_with(&mut self, start: u64, was: GpuBinding) -> Option<FetchRequest> {
        if was == GpuBinding::Invalid {
            self.invalid -= 1;
        }
        let its = self.bringer.take_if(|(whose, _)| *whose == start);
        its.map(|(_, brought)| brought)
    }
}

impl Userptr {
    /// Watches the part of `memory` that is mapped at `range`. `ENOMEM`, `ESRCH`.
    pub(super) fn watch(
        vm: &Arc<Vm>,
        range: VaRange,
        memory: &UserMemory,
    ) -> Result<RangeWatch<Self>> {
        let (vm, room) = (vm.clone(), PendingRoom::new(vm)?);
        let state = UserptrState {
            now: GpuBinding::Out,
            at_last: GpuBinding::Out,
            run: None,
            gone: GonePages::new(if memory.is_shared() { range.pages() } else { 0 })?,
            reserved: ReservedLeaves::default(),
            pages: DevicePages::default(),
        };
        let userptr = pin_init!(Self {
            range,
            shared: memory.is_shared(),
            always: memory.is_always_mapped(),
            left: AtomicFlag::new(false),
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

    /// Whether the GPU is to find it there always, also if it retries page faults.
    pub(super) fn is_always_mapped(&self) -> bool {
        self.always
    }

    /// Whether the process has unmapped a part of it, which stays lost for this mapping.
    pub(super) fn is_cut(&self) -> bool {
        self.state.lock().gone.any()
    }

    /// The bytes of it that are in VRAM, if it is mapped.
    pub(super) fn in_vram(&self) -> Option<u64> {
        let state = self.state.lock();
        (state.now == GpuBinding::In).then(|| state.pages.in_device())
    }

    /// VRAM that the process may have as memory of its own, if it is to be used where it is.
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
        self.state.lock().now == GpuBinding::Invalid
    }

    /// Whether it is mapped, though its pages may just be gone.
    pub(super) fn is_made(&self) -> bool {
        self.state.lock().now != GpuBinding::Out
    }

    /// Whether it has been detached, which is for good.
    fn is_left(&self) -> bool {
        self.left.load(Relaxed)
    }

    /// The GPU loses the pages: their entries, what it has cached of those, and the DMA mapping. `state` is the range's own, and no more `In`.
    fn unmap_pages(&self, state: &mut UserptrState) {
        let written = state.reserved.clear(&self.vm.gpu);
        if self.vm.flush(TlbFlush::Heavyweight).is_err() {
            dev_err_ratelimited!(
                self.vm.gpu.hw.dev,
                "the GPU does not answer a flush: memory that a process gives back is lost\n"
            );
            state.pages.leak();
        }
        state.pages.unmap_device();
        let (start, size) = (self.range.start(), self.range.size());
        trace::unmap(self.vm.group.pid(), start, size, written);
    }

    /// The GPU loses the pages as if they had changed: the queues wait until the work item has mapped what there is then.
    fn evict_pages(&self) {
        let mut state = self.state.lock();
        if state.now != GpuBinding::In {
            return;
        }
        self.vm.evict(self.range, self.trigger(), false);
        state.now = GpuBinding::Invalid;
        self.unmap_pages(&mut state);
        drop(state);
        self.vm.restore_in(SOON_MS);
    }

    /// The GPU has lost the entries: from the return on the notifier leaves them alone, and nothing of the range is the
    /// GPU's. The VM's lock is held. What is returned is dropped without it.
    pub(super) fn detach(&self) -> impl Sized {
        // Who is finding its pages gives up.
        self.left.store(true, Relaxed);
        let mut state = self.state.lock();
        let was = core::mem::replace(&mut state.now, GpuBinding::Out);
        state.at_last = was;
        state.pages.unmap_device();
        let start = self.range.start();
        let bringer = self.vm.evicted.lock().done_with(start, was);
        (
            core::mem::take(&mut state.pages),
            core::mem::take(&mut state.reserved),
            bringer,
        )
    }
}

impl RangeWatch<Userptr> {
    /// What the process has there at the request's stamp: see [`RangeWatch::map_pages`]. `EAGAIN` when it is detached.
    fn pages(&self, request: &PageRequest<'_>) -> Result<DevicePages> {
        let count = self.range.pages() as usize;
        let go_on = || match self.is_left() {
            true => Err(EAGAIN),
            false => (request.go_on)(),
        };
        let request = PageRequest {
            go_on: &go_on,
            ..*request
        };
        self.map_pages(&self.vm.gpu.hw.dev, &request, |from| {
            self.state.lock().gone.next_left(from, count)
        })
    }
}

impl RangeWatcher for Userptr {
    fn invalidate(&self, change: &RangeChange) {
        let mut state = self.state.lock();
        change.set_seq();
        let mut ended = false;
        if let Some(unmapped) = change.unmapped().filter(|_| self.shared) {
            state.gone.add(self.range, unmapped);
            ended = state.gone.is_all();
        }
        self.notify_unmapped(change, &state);
        if state.now != GpuBinding::In {
            return;
        }
        // Nothing of it comes back for which the queues would have to wait, or it does where they come there.
        let refaults = self.refaults();
        let stays_out = ended || refaults;
        if stays_out {
            if refaults && !ended && change.may_be_delayed() {
                state.run.iter().for_each(LeastRun::wait_least_run);
            }
            state.now = GpuBinding::Out;
        } else {
            self.vm
                .evict(self.range, self.trigger(), change.may_be_delayed());
            state.now = GpuBinding::Invalid;
        }
        self.unmap_pages(&mut state);
        drop(state);
        if !stays_out {
            self.vm.restore_in(SOON_MS);
        }
    }
}

impl Vm {
    /// `range` is invalid, too: the queues are off the hardware at the return, unless they take too long. Who changes its own memory faster than
    /// its queues get anywhere is slowed down by `delay`. Called by the notifier.
    fn evict(&self, range: VaRange, trigger: EvictTrigger, delay: bool) {
        let mut evicted = self.evicted.lock();
        evicted.invalid += 1;
        evicted.waiting.push(range.start());
        if evicted.quiesced.is_none() {
            if delay {
                evicted.run.iter().for_each(LeastRun::wait_least_run);
            }
            // Who does not leave finds no entries any more, once they are cleared and flushed, and the pages are safe: it
            // faults, at its own cost.
            let patience = QuiesceTimeout::of(if delay { OWN_MS } else { OTHERS_MS });
            evicted.quiesced = Some(self.group.quiesce_within(trigger, &patience));
        }
    }

    /// The GPU loses all memory that others may move: no notifier finds anything of it from the return on, until the work item has mapped it again, which does not run
    /// meanwhile. The queues wait for that. ENOMEM, with some of it let go. Sleeps.
    pub(crate) fn evict_pages(self: &Arc<Self>) -> Result {
        let mut from = 0;
        let mut imports = false;
        loop {
            let next = self.state.lock().at_or_above(from);
            let Some(mapping) = next else { break };
            if let Some(userptr) = mapping.userptr() {
                userptr.evict_pages();
            }
            imports |= mapping.bo().import().is_some();
            from = mapping.range().end();
        }
        if imports {
            self.wait_for_moved();
            self.hide_imports()?;
        }
        Ok(())
    }

    /// Has the work item run after `delay`, if it is not due already. Any context.
    pub(super) fn restore_in(self: &Arc<Self>, delay_ms: u32) {
        let delay = msecs_to_jiffies(delay_ms);
        let _ = workqueue::background().enqueue_delayed(self.clone(), delay);
    }

    /// Maps USERPTR memory for the first time, as long as `go_on` does not fail. `EFAULT` when the process does not have all of it;
    /// `ENOMEM`, `EINTR` and others when it cannot be had; what `go_on` says.
    pub(super) fn map_userptr(
        self: &Arc<Self>,
        mapping: &Arc<BoMapping>,
        go_on: &dyn Fn() -> Result,
    ) -> Result {
        let userptr = mapping.userptr().ok_or(EINVAL)?;
        // The process may have less of what it shares, and later more.
        match self.validate(mapping, !userptr.shared, LockWait::Short, go_on) {
            Err(error)
                if (error == EAGAIN || error == errno::in_progress()) && userptr.refaults() =>
            {
                // The GPU comes to it later, or again.
                Ok(())
            }
            Err(error) if error == EAGAIN || error == errno::in_progress() => {
                // It changes too fast for this call, or a program has to bring it. The queues wait for it then.
                let mut state = userptr.state.lock();
                if state.now == GpuBinding::Out {
                    self.evict(userptr.range, userptr.trigger(), true);
                    state.now = GpuBinding::Invalid;
                }
                drop(state);
                self.restore_in(SOON_MS);
                Ok(())
            }
            done => done,
        }
    }

    /// Gives the GPU what the process has in the range now. If it `must` be all, `EFAULT` when it is not. `EAGAIN` when
    /// the range changes all the time; [`errno::in_progress`] while a program has not brought pages; `ESRCH` when the address space is at its end; `EINTR`, `ENOMEM` and others when
    /// the pages cannot be had; what `go_on` says. A mapping that is gone is left alone.
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
                Err(_) if userptr.is_left() => return Ok(()),
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

    /// Leads the entries of a mapping that has none to `pages`, which were there at `stamp` and have been looked for since `asked`; false when they have
    /// changed since. A mapping that is gone is left alone. `ENOMEM`, `ENODEV`, `ETIMEDOUT`.
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
        // Dropped after the locks.
        let (_idle, _bringer);
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
        _idle = idle;
        for found in pages.parts() {
            let access = PageAccess {
                write: found.writable,
                ..bo.access()
            };
            let (residence, base) = match found.in_device {
                true => (MemoryResidence::LocalVram, self.gpu.hw.gmc.fb_offset()),
                false => (MemoryResidence::Host, 0),
            };
            let flags = PteFlags::gfx90a(residence, access, bo.coherence());
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
            let was = core::mem::replace(&mut own.now, GpuBinding::In);
            mapping.repeats().clear();
            own.run = userptr.refaults().then(|| LeastRun::new(asked));
            _bringer = self.evicted.lock().done_with(range.start(), was);
        }
        self.flush(TlbFlush::Legacy)?;
        trace::map(self.group.pid(), range.start(), range.size(), written);
        Ok(true)
    }
}
