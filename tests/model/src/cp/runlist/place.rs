// SPDX-License-Identifier: GPL-2.0
//! Places of queues of a runlist, and the number of places.

use std::time::Instant;

use super::super::hqd::Hqd;
use super::super::Slot;
use super::Engine;
use crate::gpu::Gpu;
use crate::regs::SDMA_ENGINES;
use crate::sdma;

/// The place of a queue of a runlist, and the number of its load there.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Hqd(Slot, u64),
    Sdma(usize, sdma::Place),
}

impl Place {
    /// Returns whether the queue is still there.
    pub(super) fn is_loaded(self, gpu: &Gpu, hqds: &[Hqd]) -> bool {
        match self {
            Place::Hqd(slot, load) => hqds[slot.index()].is_loaded(load),
            Place::Sdma(engine, place) => gpu.sdma[engine].is_mapped(place),
        }
    }

    /// Returns whether it has work left.
    pub(super) fn has_work(self, gpu: &Gpu, hqds: &[Hqd]) -> bool {
        match self {
            Place::Hqd(slot, _) => hqds[slot.index()].has_work(),
            Place::Sdma(engine, place) => gpu.sdma[engine].is_busy(place),
        }
    }

    /// Returns whether there are packets that do not wait.
    pub(super) fn is_busy(self, gpu: &Gpu, hqds: &[Hqd]) -> bool {
        match self {
            Place::Hqd(slot, _) => hqds[slot.index()].is_busy(),
            Place::Sdma(..) => self.has_work(gpu, hqds),
        }
    }

    /// When the waves with which it was loaded had been restored; see [`Hqd::restored_at`].
    pub(super) fn restored_at(self, hqds: &[Hqd], now: Instant) -> Option<Instant> {
        match self {
            Place::Hqd(slot, _) => hqds[slot.index()].restored_at(now),
            Place::Sdma(..) => None,
        }
    }

    /// Returns whether it hangs, or its waves prevent it from leaving.
    pub(super) fn stays(self, hqds: &[Hqd]) -> bool {
        matches!(self, Place::Hqd(slot, _) if hqds[slot.index()].stays())
    }

    /// Returns whether it is to leave, and its waves prevent that.
    pub(super) fn is_kept(self, hqds: &[Hqd]) -> bool {
        matches!(self, Place::Hqd(slot, _) if hqds[slot.index()].is_kept())
    }

    /// Returns whether it has waves that execute.
    pub(super) fn runs_waves(self, hqds: &[Hqd]) -> bool {
        matches!(self, Place::Hqd(slot, _) if hqds[slot.index()].runs_waves())
    }

    /// Packets done; for an SDMA queue they are not counted.
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
