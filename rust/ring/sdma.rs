// SPDX-License-Identifier: GPL-2.0
//! The GFX ring of an SDMA engine: VMID 0, privileged.

use super::flight::{self, JobsInFlight};
use super::kept::KeptMemory;
use super::{RingEngines, RingState};
use crate::health::{WedgeReport, WedgedPart};
use crate::ip::sdma::KernelRingConfig;
use crate::kern::fence::{Fence, HwFence};
use crate::kern::pages::SystemPages;
use crate::kern::workqueue;
use crate::mem::gart::GartBuffer;
use crate::mem::GpuMemory;
use hw::doorbell::{Doorbell, SliceIndex};
use hw::sdma::packet;
use hw::sdma::ring::{RingSize, RingSpace};
use kernel::io::poll::read_poll_timeout;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::{Arc, Mutex, SpinLock};
use kernel::time::{msecs_to_jiffies, Delta, Instant, Monotonic};
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};
use kernel::{dev_err, dev_warn, new_mutex, new_spinlock};

/// Bytes of the ring.
const RING_BYTES: u64 = 64 << 10;
/// Where the fence's number is, behind the ring.
const FENCE: u64 = RING_BYTES;
/// Where the engine writes its read pointer.
const RPTR: u64 = RING_BYTES + 64;
/// Where the number of the last pulse is.
const PULSE: u64 = RING_BYTES + 128;
/// Bytes of the whole memory.
const BYTES: u64 = RING_BYTES + 4096;
/// Dwords that end a job: FENCE and TRAP.
const END_DWORDS: usize = 6;
/// How long a job may take once it is the oldest, milliseconds. After that the ring has failed.
pub(crate) const TIMEOUT_MS: u32 = 12_000;
/// How long an interrupt may be lost before the watchdog checks, milliseconds.
const WATCHDOG_MS: u32 = 50;
/// How long the ring may make no progress before the engine's other queues have to leave,
/// milliseconds.
pub(crate) const STARVED_MS: i64 = 1000;
/// A ring that fails again sooner than this after its last start is given up, milliseconds.
const RESTART_MS: i64 = 60_000;
/// How long an engine may take to begin, and the interval between two polls of it.
const FIRST_TIMEOUT: Delta = Delta::from_millis(2000);
const FIRST_POLL: Delta = Delta::from_micros(100);

/// The dwords of packets that fit the ring at once, with the end of each job, and the number of
/// jobs. The rest of the ring is for a pulse.
pub(super) const ROOM: RingSpace = RingSpace::new((RING_BYTES / 4) as u32 - 8, flight::MAX as u32);

// Even of the smallest jobs the scheduler gives the ring no more than `JobsInFlight` holds.
const _: () = {
    let least = ROOM.credits_of(0).unwrap();
    assert!(least as usize * (flight::MAX + 1) > ROOM.credits() as usize);
};

/// Credits of a job of `dwords` dwords of packets.
pub(super) fn credits(dwords: usize) -> Result<u32> {
    let all = dwords.checked_add(END_DWORDS).ok_or(EINVAL)?;
    ROOM.credits_of(all).ok_or(EINVAL)
}

/// The ring and the memory that it writes to.
#[pin_data]
pub(crate) struct SdmaRing {
    engine: u8,
    size: RingSize,
    doorbell: Doorbell,
    #[pin]
    state: SpinLock<SdmaRingState>,
    /// Held by the thread that stops the ring, until its engine has left it. Nothing is allocated
    /// under it.
    #[pin]
    halt: Mutex<RingHalt>,
    #[pin]
    watchdog: DelayedWork<Self>,
    memory: GartBuffer,
    engines: Arc<dyn RingEngines>,
    gpu: Arc<GpuMemory>,
}

struct SdmaRingState {
    written: u64,
    /// Each with the memory that it uses. The job has it, too, until its fence is signalled: a
    /// reference here is never the last one before that.
    flight: JobsInFlight<Arc<KeptMemory>>,
    /// The number of the last pulse, and whether the engine has yet to reach it.
    pulse: (u32, bool),
    /// When the engine last finished something here, or was last given work while idle.
    progress: Instant<Monotonic>,
    condition: RingCondition,
}

/// Whether the ring takes jobs.
#[derive(Clone, Copy, PartialEq)]
enum RingCondition {
    /// It does.
    Works,
    /// It has failed, and is started again once its engine was reset.
    Failed,
    /// It never does again.
    Dead,
}

/// The end of a ring that is stopped.
#[derive(Clone, Copy, PartialEq)]
enum RingEnd {
    /// Its engine is reset, and the ring started again, unless it fails too often.
    Restart,
    /// It takes no more jobs.
    Final,
}

/// Whether an engine may access the memory of a ring and of the jobs in it.
#[derive(Clone, Copy, PartialEq)]
enum RingEngine {
    /// It does.
    AtWork,
    /// It has left the ring.
    Left,
    /// It was to leave the ring, and did not come to rest.
    Lost,
}

/// What the threads that stop a ring know of its engine.
struct RingHalt {
    engine: RingEngine,
    /// When the ring was last started again.
    restarted: Option<Instant<Monotonic>>,
}

impl SdmaRingState {
    /// Whether the ring takes jobs.
    fn works(&self) -> bool {
        self.condition == RingCondition::Works
    }

    /// Whether the engine has something to do here.
    fn is_busy(&self) -> bool {
        self.works() && (self.flight.count() != 0 || self.pulse.1)
    }

    /// Restarts the progress clock if the ring is idle. Called before a write to it.
    fn start_write(&mut self) {
        if !self.is_busy() {
            self.progress = Instant::now();
        }
    }
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for SdmaRing { self.watchdog }
}

impl SdmaRing {
    /// Starts the ring of `engine`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` if the GART has no room; errors of the engine.
    pub(super) fn start(
        gpu: &Arc<GpuMemory>,
        engine: u8,
        engines: &Arc<dyn RingEngines>,
    ) -> Result<Arc<Self>> {
        let size = RingSize::new(RING_BYTES).map_err(|_| EINVAL)?;
        let slot = gpu.hw.asic.doorbells.sdma_kernel(engine).ok_or(EINVAL)?;
        let memory = gpu
            .gart
            .bind(SystemPages::alloc(&gpu.hw.dev, BYTES as usize)?)?;
        let doorbell = SliceIndex::KERNEL.doorbell(slot);
        let ring = Arc::pin_init(
            try_pin_init!(Self {
                engine,
                size,
                doorbell,
                state <- new_spinlock!(
                    SdmaRingState {
                        written: 0,
                        flight: JobsInFlight::new(),
                        pulse: (0, false),
                        progress: Instant::now(),
                        condition: RingCondition::Works,
                    },
                    "SdmaRing::state"
                ),
                halt <- new_mutex!(
                    RingHalt {
                        engine: RingEngine::AtWork,
                        restarted: None,
                    },
                    "SdmaRing::halt"
                ),
                watchdog <- new_delayed_work!("SdmaRing::watchdog"),
                memory,
                engines: engines.clone(),
                gpu: gpu.clone(),
            }),
            GFP_KERNEL,
        )?;
        ring.run(0);
        Ok(ring)
    }

    /// Makes the engine, which has no such ring or has been reset, continue at `rptr`, bytes.
    fn run(&self, rptr: u64) {
        let state = self.state.lock();
        if state.works() {
            self.start_at(rptr, &state);
        }
    }

    /// Gives the engine the ring from `rptr`, bytes, on.
    fn start_at(&self, rptr: u64, state: &SdmaRingState) {
        let Some(sdma) = self.gpu.hw.sdma.get(usize::from(self.engine)) else {
            return;
        };
        let base = self.memory.mc_addr();
        sdma.start_kernel_ring(KernelRingConfig {
            base,
            size: self.size,
            pointers: (rptr, state.written),
            rptr_writeback: base + RPTR,
            doorbell: self.doorbell,
        });
    }

    /// Makes the engine, which was reset, continue where the ring was.
    pub(super) fn resume(&self) {
        if let Some(sdma) = self.gpu.hw.sdma.get(usize::from(self.engine)) {
            self.run(sdma.kernel_rptr());
        }
    }

    /// Makes the ring take no more jobs.
    pub(super) fn set_dead(&self) {
        self.state.lock().condition = RingCondition::Dead;
    }

    /// Whether the ring takes jobs.
    pub(super) fn is_alive(&self) -> bool {
        self.state.lock().works()
    }

    /// Writes `packets`, which use the memory of `keep`, and the end of a job to the ring and rings
    /// the doorbell. `fence` is signalled when the engine has finished. The scheduler's credits
    /// leave room for the job.
    ///
    /// # Errors
    ///
    /// `EIO` if the ring has failed.
    pub(super) fn emit(
        this: &Arc<Self>,
        packets: &[u32],
        keep: &Arc<KeptMemory>,
        fence: HwFence,
    ) -> Result<ARef<Fence>> {
        let handle = fence.fence();
        let mut state = this.state.lock();
        if !state.works() {
            return Err(EIO);
        }
        let number = packet::fence(this.memory.mc_addr() + FENCE, state.flight.next());
        state.start_write();
        let mut at = this.write(state.written, packets)?;
        at = this.write(at, &number)?;
        at = this.write(at, &packet::trap(0))?;
        // The job's credits say that there is room. A fence without room is dropped, and thereby
        // fails.
        state.flight.push(keep.clone(), fence).map_err(|_| EBUSY)?;
        state.written = at;
        this.gpu.hw.doorbells.ring(this.doorbell.byte() as u32, at);
        this.watch();
        Ok(handle)
    }

    /// Gives the engine an empty piece of work that shows whether it gives this ring its turns.
    /// Does nothing if the engine has other work here, which shows the same, or if the ring has
    /// failed. Does not allocate and does not wait.
    pub(super) fn pulse(this: &Arc<Self>) {
        let mut state = this.state.lock();
        if !state.works() || state.is_busy() {
            return;
        }
        state.start_write();
        let number = state.pulse.0.wrapping_add(1);
        let fence = packet::fence(this.memory.mc_addr() + PULSE, number);
        let Ok(at) = this.write(state.written, &fence) else {
            return;
        };
        state.pulse = (number, true);
        state.written = at;
        this.gpu.hw.doorbells.ring(this.doorbell.byte() as u32, at);
        this.watch();
    }

    /// Schedules the next run of the watchdog.
    fn watch(self: &Arc<Self>) {
        let _ = workqueue::highpri().enqueue_delayed(self.clone(), msecs_to_jiffies(WATCHDOG_MS));
    }

    /// Writes `dwords` at byte count `at`; returns the byte count after them.
    fn write(&self, at: u64, dwords: &[u32]) -> Result<u64> {
        let bytes = dwords.len() as u64 * 4;
        let split = self.size.split(at, bytes).ok_or(EINVAL)?;
        let (first, second) = dwords.split_at(split.first.dwords);
        self.memory.write32s(split.first.start as u64 * 4, first)?;
        self.memory.write32s(0, second)?;
        Ok(at + bytes)
    }

    /// Ends the jobs that the engine has finished. Context: process, any.
    pub(super) fn check(&self) {
        let Ok(value) = self.memory.read64(FENCE) else {
            return;
        };
        loop {
            // The fence is signalled without the lock, because the scheduler's callback may call
            // far into other code.
            let popped = {
                let mut state = self.state.lock();
                let popped = state.flight.pop(value as u32);
                if popped.is_some() {
                    state.progress = Instant::now();
                }
                popped
            };
            match popped {
                Some((keep, fence)) => {
                    drop(keep);
                    fence.signal(Ok(()));
                }
                None => break,
            }
        }
    }

    /// Checks whether the engine has reached the last pulse.
    fn check_pulse(&self) {
        let Ok(value) = self.memory.read64(PULSE) else {
            return;
        };
        let mut state = self.state.lock();
        if state.pulse.1 && value as u32 == state.pulse.0 {
            state.pulse.1 = false;
            state.progress = Instant::now();
        }
    }

    /// Waits until the engine has reached the last pulse, the first thing that it does. May sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT`, which is logged; `ENODEV` if the device is gone.
    pub(super) fn wait_pulse(&self) -> Result {
        let is_there = || self.gpu.hw.is_present();
        let came = read_poll_timeout(
            || {
                self.check_pulse();
                Ok(self.state.lock().pulse.1)
            },
            |waits| !*waits || !is_there(),
            FIRST_POLL,
            FIRST_TIMEOUT,
        );
        if matches!(came, Ok(true)) {
            return Err(ENODEV);
        }
        came.map(|_| ()).inspect_err(|_| {
            dev_err!(
                self.gpu.hw.dev,
                "sdma{}: the engine was started, and does not work\n",
                self.engine
            );
        })
    }

    /// Handles the timeout of the oldest job. If the job is not done after all, the ring has failed
    /// or the device is gone; other code reports the latter.
    pub(super) fn timed_out(this: &Arc<Self>) {
        this.check();
        if this.state.lock().flight.count() == 0 {
            return;
        }
        if !this.gpu.hw.is_present() {
            this.end(ENODEV, RingEnd::Final);
            return;
        }
        dev_err!(
            this.gpu.hw.dev,
            "sdma{}: a job of the driver has not ended within {} s: its jobs there fail, and the \
             engine is reset\n",
            this.engine,
            TIMEOUT_MS / 1000
        );
        this.end(ETIMEDOUT, RingEnd::Restart);
    }

    /// The engine reported an error of the ring. Jobs in it fail with `EIO`; the ring is started
    /// again with the engine. Bounded. Context: may sleep, allocates nothing.
    pub(super) fn fail(this: &Arc<Self>) {
        this.end(EIO, RingEnd::Restart);
    }

    /// Stops the engine's ring; jobs in it fail with `error`, and so do all later ones. Bounded.
    /// Context: may sleep.
    pub(super) fn stop(this: &Arc<Self>, error: Error) {
        this.end(error, RingEnd::Final);
    }

    /// Has the engine leave the ring, and ends the jobs in it with `error`. A thread that comes
    /// while another one waits for the engine waits, too: the jobs' memory is freed after this. If
    /// the engine does not leave it, the memory of the jobs, and the ring's own, is kept until the
    /// device can access no memory any more.
    fn end(self: &Arc<Self>, error: Error, end: RingEnd) {
        {
            let mut state = self.state.lock();
            state.condition = match (state.condition, end) {
                (RingCondition::Works, RingEnd::Restart) => RingCondition::Failed,
                // Another thread does it.
                (RingCondition::Failed, RingEnd::Restart) => return,
                _ => RingCondition::Dead,
            };
        }
        let mut halt = self.halt.lock();
        let engine = match halt.engine {
            RingEngine::AtWork => self.halt_engine(end),
            known => known,
        };
        if engine == RingEngine::Lost && halt.engine != RingEngine::Lost {
            self.gpu.lost.keep(self.clone());
        }
        halt.engine = engine;
        self.check();
        let mut failed = 0;
        loop {
            let taken = self.state.lock().flight.pop_oldest();
            match taken {
                Some((keep, fence)) => {
                    if engine == RingEngine::Lost {
                        self.gpu.lost.keep(keep);
                    } else {
                        drop(keep);
                    }
                    fence.signal(Err(error));
                }
                None => break,
            }
            failed += 1;
        }
        if end == RingEnd::Restart && self.restart(&mut halt) {
            dev_warn!(
                self.gpu.hw.dev,
                "sdma{}: the engine was reset, and the driver's ring started again; {failed} of \
                 the driver's jobs have failed\n",
                self.engine
            );
        }
    }

    /// Has the engine leave the ring, if need be by its reset. To go on with the ring, it is reset
    /// in any case.
    fn halt_engine(&self, end: RingEnd) -> RingEngine {
        let Some(sdma) = self.gpu.hw.sdma.get(usize::from(self.engine)) else {
            return RingEngine::Left;
        };
        let stopped = sdma.stop_kernel_ring();
        if stopped.is_err() {
            dev_err!(
                self.gpu.hw.dev,
                "sdma{}: the driver's ring does not stop: the engine is reset\n",
                self.engine
            );
        }
        if stopped.is_ok() && end == RingEnd::Final {
            return RingEngine::Left;
        }
        match self.engines.reset(&self.gpu.hw, self.engine) {
            Ok(()) => RingEngine::Left,
            Err(_) => {
                self.set_dead();
                RingEngine::Lost
            }
        }
    }

    /// Starts the ring again, whose engine was reset and whose jobs are gone, where the next job
    /// will be. A ring that fails soon after that is not: its engine is given up, and the GPU is
    /// wedged. Returns whether it was started.
    fn restart(&self, halt: &mut RingHalt) -> bool {
        let mut state = self.state.lock();
        if state.condition != RingCondition::Failed {
            return false;
        }
        let soon = |at: Instant<Monotonic>| at.elapsed().as_millis() < RESTART_MS;
        if halt.restarted.is_some_and(soon) {
            state.condition = RingCondition::Dead;
            drop(state);
            dev_err!(
                self.gpu.hw.dev,
                "sdma{}: the driver's ring fails again and again: the driver uses the other \
                 engines\n",
                self.engine
            );
            self.gpu.hw.health.wedge(WedgeReport {
                part: WedgedPart::KernelRing(self.engine),
                suspect: None,
            });
            return false;
        }
        halt.restarted = Some(Instant::now());
        halt.engine = RingEngine::AtWork;
        state.pulse.1 = false;
        state.condition = RingCondition::Works;
        self.start_at(state.written, &state);
        true
    }

    /// For debugfs.
    pub(super) fn state(&self) -> RingState {
        let rptr = self.memory.read64(RPTR).unwrap_or(0);
        let state = self.state.lock();
        RingState {
            engine: self.engine,
            rptr,
            wptr: state.written,
            sequence: state.flight.sequence(),
            dead: !state.works(),
        }
    }
}

impl WorkItem for SdmaRing {
    type Pointer = Arc<Self>;

    /// Runs the watchdog: interrupts can get lost, jobs cannot.
    fn run(this: Arc<Self>) {
        this.check();
        this.check_pulse();
        let starved = {
            let mut state = this.state.lock();
            if !state.is_busy() {
                return;
            }
            let starved = state.progress.elapsed().as_millis() >= STARVED_MS;
            if starved {
                state.progress = Instant::now();
            }
            starved
        };
        if starved {
            this.engines.clear(this.engine);
        }
        this.watch();
    }
}
