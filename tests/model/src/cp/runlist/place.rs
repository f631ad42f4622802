// SPDX-License-Identifier: GPL-2.0
//! Where queues of a runlist are, and how many places there are.

use super::super::hqd::Hqd;
use super::super::Slot;
use super::Engine;
use crate::gpu::Gpu;
use crate::regs::SDMA_ENGINES;
use crate::sdma;

/// Where a queue of a runlist is, and which load of that place it is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Hqd(Slot, u64),
    Sdma(usize, sdma::Place),
}

impl Place {
    /// Whether the queue is still there.
    pub(super) fn is_loaded(self, gpu: &Gpu, hqds: &[Hqd]) -> bool {
        match self {
            Place::Hqd(slot, load) => hqds[slot.index()].is_loaded(load),
            Place::Sdma(engine, place) => gpu.sdma[engine].is_mapped(place),
        }
    }

    /// Whether there is something left to do.
    pub(super) fn has_work(self, gpu: &Gpu, hqds: &[Hqd]) -> bool {
        match self {
            Place::Hqd(slot, _) => hqds[slot.index()].has_work(),
            Place::Sdma(engine, place) => gpu.sdma[engine].is_busy(place),
        }
    }

    /// Whether there are packets that do not wait.
    pub(super) fn is_busy(self, gpu: &Gpu, hqds: &[Hqd]) -> bool {
        match self {
            Place::Hqd(slot, _) => hqds[slot.index()].is_busy(),
            Place::Sdma(..) => self.has_work(gpu, hqds),
        }
    }

    /// Whether it hangs, or its waves keep it.
    pub(super) fn stays(self, hqds: &[Hqd]) -> bool {
        matches!(self, Place::Hqd(slot, _) if hqds[slot.index()].stays())
    }

    /// Whether it is to leave, and its waves keep it.
    pub(super) fn is_kept(self, hqds: &[Hqd]) -> bool {
        matches!(self, Place::Hqd(slot, _) if hqds[slot.index()].is_kept())
    }

    /// Packets done; of an SDMA queue nobody counts them.
    pub(super) fn packets(self, hqds: &[Hqd]) -> u64 {
        match self {
            Place::Hqd(slot, _) => hqds[slot.index()].packets(),
            Place::Sdma(..) => 0,
        }
    }
}

/// Free places.
pub(super) struct Room {
    pub(super) compute: usize,
    pub(super) sdma: [usize; SDMA_ENGINES],
}

impl Room {
    /// Those of an engine.
    pub(super) fn of(&mut self, engine: Engine) -> &mut usize {
        match engine {
            Engine::Compute | Engine::Hiq => &mut self.compute,
            Engine::Sdma(n) => &mut self.sdma[n],
        }
    }
}
