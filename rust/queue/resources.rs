// SPDX-License-Identifier: GPL-2.0
//! Resources that a process has for its queues on a GPU.

use super::compute::descriptor::MqdMemory;
use super::doorbell::{DoorbellSlice, SliceTable};
use super::quota::{ProcessQueueCounts, QueueQuota};
use super::sdma::pump::Pump;
use super::sdma::ring_memory::RingMemory;
use super::spare::SpareMemory;
use crate::ip::Hardware;
use crate::kern::vma::{Mappable, VmaPage};
use crate::mem::bo::RegisterRange;
use kernel::mm::virt::VmaNew;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, ArcBorrow};

/// Doorbells, pump, counts and spare memory of a process on a GPU.
pub(crate) struct QueueResources {
    /// The pump of its scheduled and followed queues, unless SDMA queues are direct.
    pub(super) pump: Option<Arc<Pump>>,
    /// Number of its queues.
    pub(super) counts: Arc<ProcessQueueCounts>,
    /// For each SDMA engine the turn of the engine at which a queue of the process was last given a
    /// slot; 0 is never. Guarded by `EngineSlots::state`.
    served: KVec<Atomic<u64>>,
    /// Ring memory for its next scheduled queue.
    pub(super) rings: Arc<SpareMemory<RingMemory>>,
    /// Descriptor memory for its next compute queue.
    pub(super) descriptors: Arc<SpareMemory<MqdMemory>>,
    /// The process's doorbells. Another process gets them only when the rest is gone.
    pub(super) doorbells: Arc<DoorbellSlice>,
}

impl QueueResources {
    /// Returns the resources of process `pid`, with PASID `pasid`, on the GPU of `hw`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        hw: &Arc<Hardware>,
        slices: &Arc<SliceTable>,
        quota: &Arc<QueueQuota>,
        pid: i32,
        pasid: u16,
    ) -> Result<Arc<Self>> {
        let engines = hw.asic.sdma.engines();
        let mut served = KVec::with_capacity(engines.into(), GFP_KERNEL)?;
        for _ in 0..engines {
            served.push(Atomic::new(0), GFP_KERNEL)?;
        }
        let doorbells = DoorbellSlice::new(hw, slices, pid, pasid)?;
        let pump = match doorbells.is_pumped() {
            true => Some(Pump::new(&doorbells)?),
            false => None,
        };
        let resources = Self {
            doorbells,
            pump,
            counts: ProcessQueueCounts::new(quota)?,
            served,
            rings: SpareMemory::new()?,
            descriptors: SpareMemory::new()?,
        };
        Ok(Arc::new(resources, GFP_KERNEL)?)
    }

    /// Maps the process's doorbells at `vma`; see [`DoorbellSlice::mmap`].
    pub(crate) fn mmap(self: &Arc<Self>, vma: &VmaNew) -> Result {
        self.doorbells.mmap(vma, self.clone())
    }

    /// Returns the offset of the process's doorbells in the file of KFD, in bytes.
    pub(crate) fn mmap_offset(&self) -> u64 {
        self.doorbells.mmap_offset()
    }

    /// Returns the process's doorbells as the GPU reaches them; see [`DoorbellSlice::registers`].
    pub(crate) fn registers(&self) -> Result<RegisterRange> {
        self.doorbells.registers()
    }

    /// Returns the turn of `engine` at which the process was last given a slot there.
    pub(super) fn served(&self, engine: u8) -> u64 {
        let served = self.served.get(usize::from(engine));
        served.map_or(0, |served| served.load(Relaxed))
    }

    /// Notes that the process is given a slot of `engine` at this turn.
    pub(super) fn set_served(&self, engine: u8, turn: u64) {
        if let Some(served) = self.served.get(usize::from(engine)) {
            served.store(turn, Relaxed);
        }
    }

    /// Takes the doorbells away from the process, whose queues are gone by now: every mapping of
    /// them gives SIGBUS. For the end of the process's use of the GPU, and for unbind. May sleep.
    pub(crate) fn close(&self) {
        match &self.pump {
            // The pump closes them under its lock: no pass may go on, nor be due later.
            Some(pump) => pump.close(),
            None => self.doorbells.close(),
        }
        self.rings.close();
        self.descriptors.close();
        self.doorbells.zap_all();
        if let Some(pump) = &self.pump {
            pump.cancel();
        }
    }
}

impl Mappable for QueueResources {
    fn page(&self, index: usize) -> VmaPage {
        self.doorbells.vma_page(index)
    }

    fn mapped(this: ArcBorrow<'_, Self>, index: usize, offset: usize) {
        if this.doorbells.is_closed() {
            // Closed since `page` was asked: the page that `close` took away is mapped again.
            this.doorbells.zap(index);
            return;
        }
        if let (true, Some(pump)) = (this.doorbells.is_pumped_page(index), &this.pump) {
            pump.touched(offset);
        }
    }
}
