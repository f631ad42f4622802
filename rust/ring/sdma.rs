// SPDX-License-Identifier: GPL-2.0
//! The GFX ring of an SDMA engine: VMID 0, privileged.

use super::flight::{self, JobsInFlight};
use super::{RingEngines, RingState};
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
use kernel::sync::{Arc, SpinLock};
use kernel::time::{msecs_to_jiffies, Delta, Instant, Monotonic};
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};
use kernel::{dev_err, new_spinlock};

/// Bytes of the ring.
const RING_BYTES: u64 = 64 << 10;
/// Where the fence's number is, behind the ring.
const FENCE: u64 = RING_BYTES;
/// Where the engine writes its read pointer.
const RPTR: u64 = RING_BYTES + 64;
/// Where the number of the last pulse is.
const PULSE: u64 = RING_BYTES + 128;
/// Bytes of all.
const BYTES: u64 = RING_BYTES + 4096;
/// Dwords that end a job: FENCE and TRAP.
const END_DWORDS: usize = 6;
/// How long an interrupt may be lost before somebody looks, milliseconds.
const WATCHDOG_MS: u32 = 50;
/// How long the ring may get on with nothing before the engine's other queues are to leave, milliseconds.
pub(crate) const STARVED_MS: i64 = 1000;
/// How long an engine may take to begin, and between two looks at it.
const FIRST_TIMEOUT: Delta = Delta::from_millis(2000);
const FIRST_POLL: Delta = Delta::from_micros(100);

/// The dwords of packets that fit the ring at once, each job's end among them, and the jobs. What they leave is for a pulse.
pub(super) const ROOM: RingSpace = RingSpace::new((RING_BYTES / 4) as u32 - 8, flight::MAX as u32);

// Even of the smallest jobs the scheduler gives it no more than `JobsInFlight` holds.
const _: () = {
    let least = ROOM.credits_of(0).unwrap();
    assert!(least as usize * (flight::MAX + 1) > ROOM.credits() as usize);
};

/// Credits of a job of `dwords` dwords of packets.
pub(super) fn credits(dwords: usize) -> Result<u32> {
    let all = dwords.checked_add(END_DWORDS).ok_or(EINVAL)?;
    ROOM.credits_of(all).ok_or(EINVAL)
}

/// The ring and what it writes to.
#[pin_data]
pub(crate) struct SdmaRing {
    engine: u8,
    size: RingSize,
    doorbell: Doorbell,
    #[pin]
    state: SpinLock<SdmaRingState>,
    #[pin]
    watchdog: DelayedWork<Self>,
    memory: GartBuffer,
    engines: Arc<dyn RingEngines>,
    gpu: Arc<GpuMemory>,
}

struct SdmaRingState {
    written: u64,
    flight: JobsInFlight,
    /// The number of the last pulse, and whether the engine has still to come to it.
    pulse: (u32, bool),
    /// When the engine last came to an end here, or was last given something when it had nothing.
    progress: Instant<Monotonic>,
    dead: bool,
    /// The engine was told to leave it.
    stopped: bool,
}

impl SdmaRingState {
    /// Whether the engine has something to do here.
    fn is_busy(&self) -> bool {
        !self.dead && (self.flight.count() != 0 || self.pulse.1)
    }

    /// Something is about to be written.
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
    /// Starts the ring of `engine`. ENOMEM, ENOSPC in the GART; errors of the engine.
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
                        dead: false,
                        stopped: false,
                    },
                    "SdmaRing::state"
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

    /// Has the engine go on at `rptr`, bytes. It has no such ring, or has been reset.
    fn run(&self, rptr: u64) {
        let state = self.state.lock();
        let Some(sdma) = self.gpu.hw.sdma.get(usize::from(self.engine)) else {
            return;
        };
        if !state.dead {
            let base = self.memory.mc_addr();
            sdma.start_kernel_ring(KernelRingConfig {
                base,
                size: self.size,
                pointers: (rptr, state.written),
                rptr_writeback: base + RPTR,
                doorbell: self.doorbell,
            });
        }
    }

    /// The engine was reset: has it go on here where it was.
    pub(super) fn resume(&self) {
        if let Some(sdma) = self.gpu.hw.sdma.get(usize::from(self.engine)) {
            self.run(sdma.kernel_rptr());
        }
    }

    /// The ring takes no more jobs.
    pub(super) fn set_dead(&self) {
        self.state.lock().dead = true;
    }

    /// Whether it takes jobs.
    pub(super) fn is_alive(&self) -> bool {
        !self.state.lock().dead
    }

    /// Writes `packets` and the end of a job to the ring and rings the doorbell. `fence` is signalled when the
    /// engine is through. The scheduler's credits leave room for it. EIO when the ring has failed.
    pub(super) fn emit(this: &Arc<Self>, packets: &[u32], fence: HwFence) -> Result<ARef<Fence>> {
        let handle = fence.fence();
        let mut state = this.state.lock();
        if state.dead {
            return Err(EIO);
        }
        let number = packet::fence(this.memory.mc_addr() + FENCE, state.flight.next());
        state.start_write();
        let mut at = this.write(state.written, packets)?;
        at = this.write(at, &number)?;
        at = this.write(at, &packet::trap(0))?;
        // Its credits say that there is room. A fence that finds none is dropped, and thereby fails.
        state.flight.push(at, fence).map_err(|_| EBUSY)?;
        state.written = at;
        this.gpu.hw.doorbells.ring(this.doorbell.byte() as u32, at);
        this.watch();
        Ok(handle)
    }

    /// Has the engine do nothing, so that it shows that it gives this ring its turns: unless it is about to show that,
    /// and nothing when the ring has failed. Allocates nothing, waits for nothing.
    pub(super) fn pulse(this: &Arc<Self>) {
        let mut state = this.state.lock();
        if state.dead || state.is_busy() {
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

    /// Has the watchdog look after a while.
    fn watch(self: &Arc<Self>) {
        let _ = workqueue::highpri().enqueue_delayed(self.clone(), msecs_to_jiffies(WATCHDOG_MS));
    }

    /// Writes `dwords` at byte count `at`; the byte count after them.
    fn write(&self, at: u64, dwords: &[u32]) -> Result<u64> {
        let bytes = dwords.len() as u64 * 4;
        let split = self.size.split(at, bytes).ok_or(EINVAL)?;
        let (first, second) = dwords.split_at(split.first.dwords);
        self.memory.write32s(split.first.start as u64 * 4, first)?;
        self.memory.write32s(0, second)?;
        Ok(at + bytes)
    }

    /// Ends the jobs that the engine is through with. Any process context.
    pub(super) fn check(&self) {
        let Ok(value) = self.memory.read64(FENCE) else {
            return;
        };
        loop {
            // The fence is signalled without the lock: the scheduler's callback may go far.
            let popped = {
                let mut state = self.state.lock();
                let popped = state.flight.pop(value as u32);
                if popped.is_some() {
                    state.progress = Instant::now();
                }
                popped
            };
            match popped {
                Some((_, fence)) => fence.signal(Ok(())),
                None => break,
            }
        }
    }

    /// Looks whether the engine has come to the last pulse.
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

    /// Waits until the engine has come to the last pulse, the first thing that it does. ETIMEDOUT: the log says so. ENODEV when the device is
    /// gone. Sleeps.
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

    /// The oldest job takes too long. If it is not done after all, the ring has failed, or the device is gone, which others say.
    pub(super) fn timed_out(&self) {
        self.check();
        if self.state.lock().flight.count() == 0 {
            return;
        }
        if !self.gpu.hw.is_present() {
            self.stop(ENODEV);
            return;
        }
        dev_err!(
            self.gpu.hw.dev,
            "sdma{}: the kernel's ring does not get on\n",
            self.engine
        );
        self.stop(ETIMEDOUT);
    }

    /// Stops the engine's ring; jobs in it fail with `error`, and so do all later ones.
    pub(super) fn stop(&self, error: Error) {
        let stopped = {
            let mut state = self.state.lock();
            state.dead = true;
            core::mem::replace(&mut state.stopped, true)
        };
        let sdma = self.gpu.hw.sdma.get(usize::from(self.engine));
        if let Some(sdma) = sdma.filter(|_| !stopped) {
            if sdma.stop_kernel_ring().is_err() {
                dev_err!(
                    self.gpu.hw.dev,
                    "sdma{}: the kernel's ring does not stop: the engine is reset\n",
                    self.engine
                );
                self.engines.reset(&self.gpu.hw, self.engine);
            }
        }
        self.check();
        loop {
            let taken = self.state.lock().flight.pop_oldest();
            match taken {
                Some((_, fence)) => fence.signal(Err(error)),
                None => break,
            }
        }
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
            dead: state.dead,
        }
    }
}

impl WorkItem for SdmaRing {
    type Pointer = Arc<Self>;

    /// Interrupts can get lost; jobs do not.
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
