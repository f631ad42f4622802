// SPDX-License-Identifier: GPL-2.0
//! The GFX ring of an SDMA engine: VMID 0, privileged.

use super::flight::Flight;
use super::RingState;
use crate::ip::sdma::KernelRingConfig;
use crate::kern::fence::{Fence, HwFence};
use crate::kern::pages::SystemPages;
use crate::kern::workqueue;
use crate::mem::gart::GartBuffer;
use crate::mem::Memory;
use hw::doorbell::{Doorbell, SliceIndex, Slot};
use hw::sdma::packet;
use hw::sdma::ring::RingSize;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::{Arc, SpinLock};
use kernel::time::msecs_to_jiffies;
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};
use kernel::{dev_err, new_spinlock};

/// Bytes of the ring.
const RING_BYTES: u64 = 64 << 10;
/// Where the fence's number is, behind the ring.
const FENCE: u64 = RING_BYTES;
/// Where the engine writes its read pointer.
const RPTR: u64 = RING_BYTES + 64;
/// Bytes of all.
const BYTES: u64 = RING_BYTES + 4096;
/// Dwords that end a job: FENCE and TRAP.
const END_DWORDS: usize = 6;
/// How long an interrupt may be lost before somebody looks, milliseconds.
const WATCHDOG_MS: u32 = 50;

/// The most dwords of packets that fit the ring at once, each job's end among them.
pub(super) const CREDITS: u32 = (RING_BYTES / 4) as u32 - 8;

/// Credits of a job of `dwords` dwords of packets.
pub(super) fn credits(dwords: usize) -> Result<u32> {
    let all = dwords.checked_add(END_DWORDS).ok_or(EINVAL)?;
    match u32::try_from(all) {
        Ok(credits) if credits <= CREDITS => Ok(credits),
        _ => Err(EINVAL),
    }
}

/// The ring and what it writes to.
#[pin_data]
pub(crate) struct SdmaRing {
    engine: u8,
    size: RingSize,
    doorbell: Doorbell,
    #[pin]
    state: SpinLock<State>,
    #[pin]
    watchdog: DelayedWork<Self>,
    memory: GartBuffer,
    gpu: Arc<Memory>,
}

struct State {
    written: u64,
    flight: Flight,
    dead: bool,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for SdmaRing { self.watchdog }
}

impl SdmaRing {
    /// Starts the ring of `engine`. ENOMEM, ENOSPC in the GART; errors of the engine.
    pub(super) fn start(gpu: &Arc<Memory>, engine: u8) -> Result<Arc<Self>> {
        let size = RingSize::new(RING_BYTES).map_err(|_| EINVAL)?;
        let slot = Slot::sdma_kernel(engine).ok_or(EINVAL)?;
        let memory = gpu
            .gart
            .bind(SystemPages::alloc(&gpu.dev, BYTES as usize)?)?;
        let base = memory.mc_addr();
        let doorbell = SliceIndex::KERNEL.doorbell(slot);
        let ring = Arc::pin_init(
            try_pin_init!(Self {
                engine,
                size,
                doorbell,
                state <- new_spinlock!(
                    State { written: 0, flight: Flight::new(), dead: false },
                    "SdmaRing::state"
                ),
                watchdog <- new_delayed_work!("SdmaRing::watchdog"),
                memory,
                gpu: gpu.clone(),
            }),
            GFP_KERNEL,
        )?;
        let sdma = gpu.sdma.get(usize::from(engine)).ok_or(EINVAL)?;
        sdma.start_kernel_ring(KernelRingConfig {
            base,
            size,
            rptr_writeback: base + RPTR,
            doorbell,
        });
        Ok(ring)
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
        let mut at = this.write(state.written, packets)?;
        at = this.write(at, &number)?;
        at = this.write(at, &packet::trap(0))?;
        // A fence that finds no room is dropped, and thereby fails.
        state.flight.push(at, fence).map_err(|_| EBUSY)?;
        state.written = at;
        this.gpu.doorbells.ring(this.doorbell.byte() as u32, at);
        let _ = workqueue::highpri().enqueue_delayed(this.clone(), msecs_to_jiffies(WATCHDOG_MS));
        Ok(handle)
    }

    /// Writes `dwords` at byte count `at`; the byte count after them.
    fn write(&self, at: u64, dwords: &[u32]) -> Result<u64> {
        let bytes = dwords.len() as u64 * 4;
        let spans = self.size.spans(at, bytes).ok_or(EINVAL)?;
        let (first, second) = dwords.split_at(spans.first.dwords);
        self.memory.write32s(spans.first.start as u64 * 4, first)?;
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
            let popped = self.state.lock().flight.pop(value as u32);
            match popped {
                Some((_, fence)) => fence.signal(Ok(())),
                None => break,
            }
        }
    }

    /// The oldest job takes too long. If it is not done after all, the ring has failed.
    pub(super) fn timed_out(&self) {
        self.check();
        if self.state.lock().flight.count() != 0 {
            dev_err!(
                self.gpu.dev,
                "sdma{}: the kernel's ring does not get on\n",
                self.engine
            );
            self.stop(ETIMEDOUT);
        }
    }

    /// Stops the engine's ring; jobs in it fail with `error`, and so do all later ones.
    pub(super) fn stop(&self, error: Error) {
        self.state.lock().dead = true;
        if let Some(sdma) = self.gpu.sdma.get(usize::from(self.engine)) {
            if sdma.stop_kernel_ring().is_err() {
                dev_err!(
                    self.gpu.dev,
                    "sdma{}: the kernel's ring does not stop\n",
                    self.engine
                );
            }
        }
        self.check();
        loop {
            let taken = self.state.lock().flight.take();
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
        let state = this.state.lock();
        if state.flight.count() != 0 && !state.dead {
            let _ =
                workqueue::highpri().enqueue_delayed(this.clone(), msecs_to_jiffies(WATCHDOG_MS));
        }
    }
}
