// SPDX-License-Identifier: GPL-2.0
//! Kernel rings: the ring of each SDMA engine that the driver itself uses, behind
//! `drm_gpu_scheduler`.

mod batch;
pub(crate) mod flight;
mod job;
mod pm4;
mod sdma;

use crate::ip::Hardware;
use crate::kern::fence::Fence;
use crate::mem::copy_engine::{CopyEngine, CopyLane};
use crate::mem::gart::JobMemory;
use crate::mem::vram::VramBlocks;
use crate::mem::GpuMemory;
use core::fmt;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, SpinLock};

pub(crate) use job::TIMEOUT_MS;
use job::{JobRing, KeptMemory};
pub(crate) use pm4::Pm4Ring;
use sdma::SdmaRing;
pub(crate) use sdma::STARVED_MS;

/// Kernel rings of a GPU, one for each engine, and the memory that they are in and work on.
pub(crate) struct KernelRings {
    running: Arc<RunningSet>,
    /// The memory.
    pub(crate) memory: Arc<GpuMemory>,
    /// The hardware.
    pub(crate) hw: Arc<Hardware>,
}

/// The rings as the memory code sees them: none before [`KernelRings::start`] and after
/// [`KernelRings::stop`], so that memory and rings do not keep each other alive.
#[pin_data]
struct RunningSet {
    #[pin]
    set: SpinLock<Option<Arc<RingSet>>>,
    next: Atomic<u32>,
}

/// The code that knows which other queues run on the engines of the kernel rings.
pub(crate) trait RingEngines: Send + Sync {
    /// Makes every other queue of `engine` leave for a moment, because the kernel ring gets no
    /// turns there. The queue that does not leave is the culprit. Does not wait and does not
    /// allocate.
    fn clear(&self, engine: u8);

    /// Resets `engine`, whose kernel ring has failed and does not stop. The engine goes on without
    /// that ring. May sleep.
    fn reset(&self, hw: &Hardware, engine: u8);
}

/// The rings between start and stop.
struct RingSet {
    rings: KVec<JobRing>,
    /// MC address of the first byte of VRAM.
    vram: u64,
}

/// How the engine for a job is chosen.
#[derive(Clone, Copy)]
enum EngineTurn<'a> {
    /// Each engine in turn; this is the number of the next one.
    All(&'a Atomic<u32>),
    /// Always the first engine.
    First,
}

/// A ring as debugfs shows it; the pointers are byte counts that never wrap.
pub(crate) struct RingState {
    /// The engine.
    pub(crate) engine: u8,
    /// Read pointer: how far the engine has come.
    pub(crate) rptr: u64,
    /// Write pointer: how far the ring is written.
    pub(crate) wptr: u64,
    /// The sequence number last given to a job, and the last one that is done.
    pub(crate) sequence: (u32, u32),
    /// Whether the ring has failed and takes no more jobs.
    pub(crate) dead: bool,
}

impl KernelRings {
    /// Creates the set without rings. Once there are rings, they clear and copy `memory`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(memory: &Arc<GpuMemory>) -> Result<Arc<Self>> {
        let running = Arc::pin_init(
            pin_init!(RunningSet {
                set <- new_spinlock!(None, "Rings::set"),
                next: Atomic::new(0),
            }),
            GFP_KERNEL,
        )?;
        memory.set_copy_engine(running.clone());
        let rings = Self {
            running,
            memory: memory.clone(),
            hw: memory.hw.clone(),
        };
        Ok(Arc::new(rings, GFP_KERNEL)?)
    }

    /// Starts the ring of every engine. The engines and the GART are up. `engines` is called for
    /// those that hang. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` if the GART has no room; `ETIMEDOUT` if an engine does nothing, which is
    /// logged.
    pub(crate) fn start(&self, engines: &Arc<dyn RingEngines>) -> Result {
        let gpu = &self.memory;
        let count = gpu.hw.asic.sdma.engines();
        let mut rings = KVec::with_capacity(count.into(), GFP_KERNEL)?;
        for engine in 0..count {
            rings.push(JobRing::start(gpu, engine, engines)?, GFP_KERNEL)?;
        }
        rings.iter().for_each(|ring| SdmaRing::pulse(ring.sdma()));
        for ring in &rings {
            ring.sdma().wait_pulse()?;
        }
        let set = Arc::new(
            RingSet {
                rings,
                vram: gpu.hw.gmc.fb_base(),
            },
            GFP_KERNEL,
        )?;
        *self.running.set.lock() = Some(set);
        Ok(())
    }

    /// Stops the rings. Jobs under way fail with `ENODEV`. Bounded; may sleep.
    pub(crate) fn stop(&self) {
        let set = self.running.set.lock().take();
        if let Some(set) = set {
            set.rings.iter().for_each(|ring| ring.sdma().stop(ENODEV));
        }
    }

    /// Ends the jobs that are done. Called when a TRAP of `engine`'s ring arrived, or may have been
    /// lost.
    pub(crate) fn check(&self, engine: u8) {
        if let Ok(set) = self.running.set() {
            if let Some(ring) = set.rings.get(usize::from(engine)) {
                ring.sdma().check();
            }
        }
    }

    /// Tests whether `engine` gives its kernel ring turns. If it does not, [`RingEngines::clear`]
    /// is called. Does not allocate and does not wait.
    pub(crate) fn pulse(&self, engine: u8) {
        if let Ok(set) = self.running.set() {
            if let Some(ring) = set.rings.get(usize::from(engine)) {
                SdmaRing::pulse(ring.sdma());
            }
        }
    }

    /// Continues the kernel ring of `engine`, which was reset and is about to run, where it was.
    /// Does not allocate.
    pub(crate) fn resume(&self, engine: u8) {
        if let Ok(set) = self.running.set() {
            if let Some(ring) = set.rings.get(usize::from(engine)) {
                ring.sdma().resume();
            }
        }
    }

    /// Makes the kernel ring of `engine`, which does not run any more, take no more jobs. The jobs
    /// that it has are kept, as the engine may still use them.
    pub(crate) fn set_dead(&self, engine: u8) {
        if let Ok(set) = self.running.set() {
            if let Some(ring) = set.rings.get(usize::from(engine)) {
                ring.sdma().set_dead();
            }
        }
    }

    /// Makes jobs of `engine` fail, now and later: it refused a packet of its ring, or is lost and
    /// will be reset with the whole GPU. Bounded; may sleep.
    pub(crate) fn fail(&self, engine: u8) {
        if let Ok(set) = self.running.set() {
            if let Some(ring) = set.rings.get(usize::from(engine)) {
                ring.sdma().stop(EIO);
            }
        }
    }

    /// The state of each ring, for debugfs.
    pub(crate) fn states(&self, mut show: impl FnMut(RingState) -> fmt::Result) -> fmt::Result {
        let Ok(set) = self.running.set() else {
            return Ok(());
        };
        set.rings
            .iter()
            .try_for_each(|ring| show(ring.sdma().state()))
    }
}

impl RunningSet {
    /// The engines that do the jobs of `lane`.
    fn turns(&self, lane: CopyLane) -> EngineTurn<'_> {
        match lane {
            CopyLane::All => EngineTurn::All(&self.next),
            // No queue of a process that waits for pages is put on that engine, see
            // `queue::request::engines`.
            CopyLane::Pages => EngineTurn::First,
        }
    }

    /// The rings.
    ///
    /// # Errors
    ///
    /// `ENODEV` if they are stopped.
    fn set(&self) -> Result<Arc<RingSet>> {
        self.set.lock().clone().ok_or(ENODEV)
    }
}

impl CopyEngine for RunningSet {
    fn fill(&self, blocks: &Arc<VramBlocks>, value: u32, lane: CopyLane) -> Result {
        batch::fill(&*self.set()?, self.turns(lane), blocks, value, true)
    }

    fn scrub(&self, blocks: &Arc<VramBlocks>) -> Result {
        batch::fill(&*self.set()?, self.turns(CopyLane::All), blocks, 0, false)
    }

    fn copy(
        &self,
        pieces: &mut dyn Iterator<Item = (u64, u64, u64)>,
        memory: JobMemory,
        lane: CopyLane,
    ) -> Result {
        batch::copy(&*self.set()?, self.turns(lane), pieces, memory)
    }
}

impl RingSet {
    /// Gives `packets`, which use the memory of `keep`, to the engine whose turn it is, or to the
    /// next one whose ring works.
    ///
    /// # Errors
    ///
    /// `EIO` if no ring works.
    fn submit(
        &self,
        turns: EngineTurn<'_>,
        packets: KVec<u32>,
        keep: &Arc<KeptMemory>,
        counted: bool,
    ) -> Result<ARef<Fence>> {
        let first = match turns {
            EngineTurn::All(next) => next.fetch_add(1, Relaxed) as usize,
            EngineTurn::First => 0,
        };
        let count = self.rings.len();
        let mut rings = (0..count).filter_map(|n| self.rings.get((first.wrapping_add(n)) % count));
        let ring = rings.find(|ring| ring.sdma().is_alive()).ok_or(EIO)?;
        ring.submit(packets, keep, counted)
    }
}
