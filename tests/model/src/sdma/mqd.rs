// SPDX-License-Identifier: GPL-2.0
//! SDMA queues of a runlist: the scheduler's firmware loads their MQDs into free RLC queues, and
//! saves them again.

use super::engine::Engine;
use super::execute::address_space;
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::template::Form;
use crate::vm::Vm;
use crate::walk::Mtype;

/// Dwords of an MQD with the hardware's registers.
pub const DWORDS: usize = 32;

/// The form of an MQD. What the processor saves is free. Source: amdgpu, update_mqd_sdma.
const FORM: Form = Form {
    free: &[
        dword::RB_BASE,
        dword::RB_BASE + 1,
        dword::RB_RPTR,
        dword::RB_RPTR + 1,
        dword::RB_WPTR,
        dword::RB_WPTR + 1,
        dword::RB_RPTR_ADDR_HI,
        dword::RB_RPTR_ADDR_LO,
        dword::IB_RPTR,
        dword::IB_BASE,
        dword::IB_BASE + 1,
        dword::IB_SIZE,
        dword::CONTEXT_STATUS,
        dword::WPTR_POLL_ADDR_HI,
        dword::WPTR_POLL_ADDR_LO,
        // AQL is refused elsewhere.
        dword::RB_AQL_CNTL,
    ],
    rows: &[
        (
            dword::RB_CNTL,
            0x0f00_003f,
            1 << 12 | 6 << 16,
            "RB_CNTL has not RPTR_WRITEBACK_ENABLE and RPTR_WRITEBACK_TIMER 6",
        ),
        (
            dword::IB_CNTL,
            1,
            1 << 8,
            "IB_CNTL has not SWITCH_INSIDE_IB, which keeps processes from starving",
        ),
        (dword::DOORBELL, 1 << 28, 0, "DOORBELL has more than ENABLE"),
        (
            dword::DOORBELL_OFFSET,
            0x0fff_fffc,
            0,
            "DOORBELL_OFFSET has more than an offset",
        ),
        (dword::DUMMY_REG, 0, 0xf, "DUMMY_REG is not 0xf"),
    ],
    zero: "a dword that is always 0 is not",
};

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
    pub const DOORBELL: usize = 18;
    pub const DOORBELL_OFFSET: usize = 22;
    pub const DUMMY_REG: usize = 27;
    pub const WPTR_POLL_ADDR_HI: usize = 28;
    pub const WPTR_POLL_ADDR_LO: usize = 29;
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
        let wrong = |reason: &str| {
            let (engine, mqd) = (self.number(), mapping.mqd);
            ModelError::Other(format!("SDMA{engine}: MQD at {mqd:#x}: {reason}"))
        };
        let memory = Vm::kernel(gpu, HubId::Gfx);
        if memory
            .mtype(mapping.mqd)?
            .is_some_and(|mtype| mtype != Mtype::Uc)
        {
            return Err(wrong("its memory is not uncached"));
        }
        let mut image = [0; DWORDS * 4];
        memory.read(mapping.mqd, &mut image)?;
        let mut words = [0; DWORDS];
        for (word, bytes) in words.iter_mut().zip(image.chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        if let Some(reason) = FORM.misfit(0, &words) {
            return Err(wrong(reason));
        }
        let own = self.view(gpu);
        let vm = address_space(&own, self, mapping.vmid);
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
            .map_err(wrong)?;
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
