// SPDX-License-Identifier: GPL-2.0
//! SDMA queues of a runlist: the scheduler's firmware loads their MQDs into free RLC queues, and
//! saves them again.

use super::engine::Engine;
use super::execute::address_space;
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::vm::Vm;

/// Dwords of an MQD with the hardware's registers.
pub const DWORDS: usize = 32;

/// Dwords of the MQD, with the names of the GFX ring's registers.
pub mod dword {
    pub const RB_CNTL: usize = 0;
    pub const RB_BASE: usize = 1;
    pub const RB_RPTR: usize = 3;
    pub const RB_WPTR: usize = 5;
    pub const RB_RPTR_ADDR_HI: usize = 8;
    pub const RB_RPTR_ADDR_LO: usize = 9;
    pub const IB_CNTL: usize = 10;
    pub const IB_RPTR: usize = 11;
    pub const IB_BASE: usize = 13;
    pub const IB_SIZE: usize = 15;
    pub const CONTEXT_STATUS: usize = 17;
    pub const RB_AQL_CNTL: usize = 30;
}

/// An RLC queue of an engine, and the number of its load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    queue: usize,
    load: u64,
}

/// A queue in MAP_QUEUES.
#[derive(Debug, Clone, Copy)]
pub struct Mapping {
    /// Address of the MQD.
    pub mqd: u64,
    /// Address space.
    pub vmid: u8,
    /// Dword index.
    pub doorbell: u32,
    /// Address of the write pointer, in the queue's address space.
    pub wptr: u64,
}

impl Engine {
    /// The number of free RLC queues.
    pub fn free_queues(&self) -> usize {
        let state = self.state();
        state.queues[1..].iter().filter(|q| q.is_free()).count()
    }

    /// Loads a queue into a free RLC queue; None if there is none.
    pub fn map(&self, gpu: &Gpu, mapping: &Mapping) -> Result<Option<Place>> {
        let mut image = [0; DWORDS * 4];
        Vm::kernel(gpu, HubId::Gfx).read(mapping.mqd, &mut image)?;
        let mut words = [0; DWORDS];
        for (word, bytes) in words.iter_mut().zip(image.chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        let vm = address_space(gpu, self, mapping.vmid);
        let before = vm.faults();
        let wptr = match mapping.wptr & !7 {
            0 => 0,
            at => vm.load64(at)?,
        };
        let wptr = if vm.faults() == before { wptr } else { 0 };
        let mut state = self.state();
        let free = (1..state.queues.len()).find(|&n| state.queues[n].is_free());
        let Some(queue) = free else {
            return Ok(None);
        };
        let load = state.queues[queue]
            .load(&words, mapping.vmid, mapping.doorbell, wptr)
            .map_err(|reason| {
                let (engine, mqd) = (self.number(), mapping.mqd);
                ModelError::Other(format!("SDMA{engine}: MQD at {mqd:#x}: {reason}"))
            })?;
        drop(state);
        self.work.notify_all();
        Ok(Some(Place { queue, load }))
    }

    /// Takes a queue off and saves it in its MQD. Returns false if the current packet has to end
    /// first; none follows it.
    pub fn unmap(&self, gpu: &Gpu, place: Place, mqd: u64) -> Result<bool> {
        let mut state = self.state();
        let queue = &mut state.queues[place.queue];
        if !queue.is_loaded(place.load) {
            return Ok(true);
        }
        if !queue.leave() {
            return Ok(false);
        }
        let saved = queue.unload();
        drop(state);
        let vm = Vm::kernel(gpu, HubId::Gfx);
        for (at, value) in saved {
            vm.store32(mqd + 4 * at as u64, value)?;
        }
        Ok(true)
    }

    /// Keeps a queue that was to leave.
    pub fn keep(&self, place: Place) {
        let mut state = self.state();
        if state.queues[place.queue].is_loaded(place.load) {
            state.queues[place.queue].stay();
        }
        drop(state);
        self.work.notify_all();
    }

    /// Returns whether the queue is still there.
    pub fn is_mapped(&self, place: Place) -> bool {
        self.state().queues[place.queue].is_loaded(place.load)
    }

    /// Returns whether it has packets.
    pub fn is_busy(&self, place: Place) -> bool {
        let state = self.state();
        let queue = &state.queues[place.queue];
        queue.is_loaded(place.load) && queue.is_busy()
    }
}
