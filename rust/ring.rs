// SPDX-License-Identifier: GPL-2.0
//! Kernel rings: the ring of each SDMA engine that the driver itself uses, behind
//! `drm_gpu_scheduler`.

mod batch;
pub(crate) mod flight;
mod job;
mod kept;
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

use job::JobRing;
use kept::KeptMemory;
pub(crate) use pm4::Pm4Ring;
use sdma::SdmaRing;
pub(crate) use sdma::{STARVED_MS, TIMEOUT_MS};

/// Kernel rings of a GPU, one for each engine, and the memory that they are in and work on.
pub(crate) struct KernelRings {
    running: Arc<RunningSet>,
    /// The memory.
    pub(crate) memory: Arc<GpuMemory>,
    /// The hardware.
    pub(crate) hw: Arc<Hardware>,
}

/// The rings as memory knows them: none before [`KernelRings::start`] and after
/// [`KernelRings::stop`], so that neither keeps the other alive.
#[pin_data]
struct RunningSet {
    #[pin]
    set: SpinLock<Option<Arc<RingSet>>>,
    next: Atomic<u32>,
    /// See [`CopyLane::Pages`].
    pages: u8,
}

/// The owner of the other queues on the engines of the kernel rings.
pub(crate) trait RingEngines: Send + Sync {
    /// The kernel ring of `engine` gets no turns: every other queue is asked to leave for a moment,
    /// so that a queue which does not leave shows. Waits for nothing, allocates nothing.
    fn clear(&self, engine: u8);

    /// The kernel ring of `engine` has failed: the engine is reset, and goes on without it.
    /// Context: may sleep, allocates nothing.
    ///
    /// # Errors
    ///
    /// `EIO` if the engine does not come to rest, which is reported: nothing runs on it any more.
    fn reset(&self, hw: &Hardware, engine: u8) -> Result;
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
    /// Always this engine.
    One(u8),
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
    /// No rings yet; once there are rings, `memory` is cleared and copied by them.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(memory: &Arc<GpuMemory>) -> Result<Arc<Self>> {
        let running = Arc::pin_init(
            pin_init!(RunningSet {
                set <- new_spinlock!(None, "KernelRings::set"),
                next: Atomic::new(0),
                pages: memory.hw.asic.sdma.pages_engine(),
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

    /// Starts the ring of every engine; they and the GART are up. `engines` is notified of rings
    /// that hang. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` without room in the GART; `ETIMEDOUT` for an engine that does nothing,
    /// which the log says.
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

    /// Stops the rings; jobs under way fail with `ENODEV`. Bounded. Context: may sleep.
    pub(crate) fn stop(&self) {
        let set = self.running.set.lock().take();
        if let Some(set) = set {
            let rings = set.rings.iter();
            rings.for_each(|ring| SdmaRing::stop(ring.sdma(), ENODEV));
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

    /// Has `engine` show that it gives its kernel ring turns; if it does not,
    /// [`RingEngines::clear`] is called. Allocates nothing, waits for nothing.
    pub(crate) fn pulse(&self, engine: u8) {
        if let Ok(set) = self.running.set() {
            if let Some(ring) = set.rings.get(usize::from(engine)) {
                SdmaRing::pulse(ring.sdma());
            }
        }
    }

    /// `engine` was reset, and is about to run: its kernel ring goes on where it was. Allocates
    /// nothing.
    pub(crate) fn resume(&self, engine: u8) {
        if let Ok(set) = self.running.set() {
            if let Some(ring) = set.rings.get(usize::from(engine)) {
                ring.sdma().resume();
            }
        }
    }

    /// `engine` runs no more: its kernel ring takes no more jobs. Its memory is kept, as the engine
    /// may still use it.
    pub(crate) fn set_dead(&self, engine: u8) {
        if let Ok(set) = self.running.set() {
            if let Some(ring) = set.rings.get(usize::from(engine)) {
                ring.sdma().set_dead();
            }
        }
    }

    /// `engine` reported an error of its kernel ring: jobs there fail. The ring is started again
    /// once the engine was reset. Bounded. Context: may sleep, allocates nothing.
    pub(crate) fn fail(&self, engine: u8) {
        if let Ok(set) = self.running.set() {
            if let Some(ring) = set.rings.get(usize::from(engine)) {
                SdmaRing::fail(ring.sdma());
            }
        }
    }

    /// `engine` is lost and will be reset with the whole GPU: jobs there fail, now and later.
    /// Bounded. Context: may sleep.
    pub(crate) fn give_up(&self, engine: u8) {
        if let Ok(set) = self.running.set() {
            if let Some(ring) = set.rings.get(usize::from(engine)) {
                SdmaRing::stop(ring.sdma(), EIO);
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
    /// The engines that do the work of `lane`.
    fn turns(&self, lane: CopyLane) -> EngineTurn<'_> {
        match lane {
            CopyLane::All => EngineTurn::All(&self.next),
            // No queue of a process that waits for pages is put on that engine, see
            // `queue::request::engines`.
            CopyLane::Pages => EngineTurn::One(self.pages),
        }
    }

    /// The rings.
    ///
    /// # Errors
    ///
    /// `ENODEV` when they are stopped.
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
    /// `EIO` when no ring works.
    fn submit(
        &self,
        turns: EngineTurn<'_>,
        packets: KVec<u32>,
        keep: &Arc<KeptMemory>,
        counted: bool,
    ) -> Result<ARef<Fence>> {
        let first = match turns {
            EngineTurn::All(next) => next.fetch_add(1, Relaxed) as usize,
            EngineTurn::One(engine) => engine.into(),
        };
        let count = self.rings.len();
        let mut rings = (0..count).filter_map(|n| self.rings.get((first.wrapping_add(n)) % count));
        let ring = rings.find(|ring| ring.sdma().is_alive()).ok_or(EIO)?;
        ring.submit(packets, keep, counted)
    }
}
