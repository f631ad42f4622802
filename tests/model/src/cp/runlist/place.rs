// SPDX-License-Identifier: GPL-2.0
//! Places of queues of a runlist, and the number of places.

use std::time::Instant;

use super::super::gang::Gang;
use super::super::hqd::Hqd;
use super::super::Slot;
use super::Engine;
use crate::gpu::Gpu;
use crate::regs::MOST_SDMA_ENGINES;
use crate::sdma;

/// The place of a queue of a runlist, and the number of its load there.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// The slot of the first of the XCCs; the others have it in the same one.
    Hqd(Slot, u64, Gang),
    Sdma(usize, sdma::Place),
}

impl Place {
    /// The HQDs of the XCCs that still have the queue.
    pub(super) fn hqds(self, hqds: &[Hqd]) -> impl Iterator<Item = (Slot, &Hqd)> {
        let (slots, load) = match self {
            Place::Hqd(slot, load, gang) => (Some(gang.slots(slot)), load),
            Place::Sdma(..) => (None, 0),
        };
        let slots = slots.into_iter().flatten();
        slots
            .map(|slot| (slot, &hqds[slot.index()]))
            .filter(move |(_, hqd)| hqd.is_loaded(load))
    }

    fn any(self, hqds: &[Hqd], is: impl Fn(&Hqd) -> bool) -> bool {
        self.hqds(hqds).any(|(_, hqd)| is(hqd))
    }

    /// Returns whether the queue is still there.
    pub(super) fn is_loaded(self, gpu: &Gpu, hqds: &[Hqd]) -> bool {
        match self {
            Place::Hqd(..) => self.any(hqds, |_| true),
            Place::Sdma(engine, place) => gpu.sdma[engine].is_mapped(place),
        }
    }

    /// Returns whether it has work left.
    pub(super) fn has_work(self, gpu: &Gpu, hqds: &[Hqd]) -> bool {
        match self {
            Place::Hqd(..) => self.any(hqds, Hqd::has_work),
            Place::Sdma(engine, place) => gpu.sdma[engine].is_busy(place),
        }
    }

    /// Returns whether there are packets that do not wait.
    pub(super) fn is_busy(self, gpu: &Gpu, hqds: &[Hqd]) -> bool {
        match self {
            Place::Hqd(..) => self.any(hqds, Hqd::is_busy),
            Place::Sdma(..) => self.has_work(gpu, hqds),
        }
    }

    /// When the waves with which it was loaded had been restored; see [`Hqd::restored_at`].
    pub(super) fn restored_at(self, hqds: &[Hqd], now: Instant) -> Option<Instant> {
        let hqds = self.hqds(hqds);
        hqds.filter_map(|(_, hqd)| hqd.restored_at(now)).max()
    }

    /// Returns whether it hangs, or its waves prevent it from leaving.
    pub(super) fn stays(self, hqds: &[Hqd]) -> bool {
        self.any(hqds, Hqd::stays)
    }

    /// Returns whether it has waves that execute.
    pub(super) fn runs_waves(self, hqds: &[Hqd]) -> bool {
        self.any(hqds, Hqd::runs_waves)
    }

    /// Packets done; for an SDMA queue they are not counted.
    pub(super) fn packets(self, hqds: &[Hqd]) -> u64 {
        let hqds = self.hqds(hqds);
        hqds.map(|(_, hqd)| hqd.packets()).max().unwrap_or(0)
    }
}

/// Free places.
pub(super) struct Room {
    pub(super) compute: usize,
    pub(super) sdma: [usize; MOST_SDMA_ENGINES],
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
