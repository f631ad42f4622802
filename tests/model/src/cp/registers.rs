// SPDX-License-Identifier: GPL-2.0
//! Access of the driver and its clients to the front end: registers and doorbells.

use super::hqd_registers;
use super::mec::Cp;
use super::Slot;
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::regs::gc::{
    self, cp_hqd_active, cp_mec_cntl, cp_pq_status, grbm_gfx_cntl as select,
    grbm_soft_reset as soft_reset, grbm_status, spi_compute_queue_reset,
};
use crate::regs::{Field, Reg, Store};

/// The HQD that GRBM_GFX_CNTL selects.
fn selected(regs: &Store) -> Option<Slot> {
    let control = regs.get(gc::GRBM_GFX_CNTL);
    Slot::new(
        regs.xcc,
        select::MEID.get(control),
        select::PIPEID.get(control),
        select::QUEUEID.get(control),
    )
}

/// Returns whether the queue's MEC is halted or its pipe held in reset, by CP_MEC_CNTL.
pub fn is_stopped(control: u32, slot: Slot) -> bool {
    let halted = if slot.me() == 1 {
        cp_mec_cntl::MEC_ME1_HALT.is_set(control)
    } else {
        cp_mec_cntl::MEC_ME2_HALT.is_set(control)
    };
    halted || is_reset(control, slot)
}

/// Returns whether the bit is set that resets the queue's pipe; MEC2 has bits for two pipes only.
fn is_reset(control: u32, slot: Slot) -> bool {
    let bit = 16 + 4 * (slot.me() - 1) + slot.pipe();
    bit < 22 && Field::new(bit, bit).is_set(control)
}

impl Cp {
    /// Returns whether it or its waves may access memory: a queue is loaded that is not stopped, or
    /// has waves.
    pub fn is_at_work(&self, gpu: &Gpu) -> bool {
        let control = gpu.regs.get(gc::CP_MEC_CNTL);
        let state = self.state();
        Slot::all(gpu.regs.xcc).any(|slot| {
            let hqd = &state.hqds[slot.index()];
            hqd.is_active() && (!is_stopped(control, slot) || hqd.has_waves())
        })
    }

    /// Reads a register of the selected HQD, or of the current activity; None if it is neither.
    pub fn read(&self, gpu: &Gpu, reg: Reg) -> Option<u32> {
        if reg == gc::GRBM_STATUS {
            let state = self.state();
            let mut slots = Slot::all(gpu.regs.xcc);
            let busy = u32::from(slots.any(|slot| state.hqds[slot.index()].is_at_work()));
            return Some(grbm_status::CP_BUSY.of(busy) | grbm_status::GUI_ACTIVE.of(busy));
        }
        if !hqd_registers::owns(reg) {
            return None;
        }
        let slot = selected(&gpu.regs);
        let _access = self.access();
        Some(slot.map_or(0, |slot| self.state().hqds[slot.index()].read(reg)))
    }

    /// Writes a register of the selected HQD or of the front end. Returns false if it is neither.
    /// Writes that take queues off take effect when the current packet has ended.
    pub fn write(&self, gpu: &Gpu, reg: Reg, value: u32) -> Result<bool> {
        let regs = &gpu.regs;
        let _access = self.access();
        match reg {
            gc::CP_MEC_CNTL => {
                let own = regs.xcc;
                let mut state = self.quiesce(|slot| slot.xcc() == own && is_stopped(value, slot));
                for slot in Slot::all(own).filter(|&slot| is_reset(value, slot)) {
                    state.hqds[slot.index()].drop_off();
                }
                // Stored while no packet can begin.
                regs.set(reg, value);
            }
            gc::GRBM_SOFT_RESET => {
                if soft_reset::SOFT_RESET_CP.is_set(value)
                    || soft_reset::SOFT_RESET_CPC.is_set(value)
                    || soft_reset::SOFT_RESET_GFX.is_set(value)
                {
                    let mut state = self.quiesce(|slot| slot.xcc() == regs.xcc);
                    for slot in Slot::all(regs.xcc) {
                        state.hqds[slot.index()].drop_off();
                    }
                }
            }
            gc::SPI_COMPUTE_QUEUE_RESET => {
                if spi_compute_queue_reset::RESET.is_set(value) {
                    let slot = self.selected_or_refuse(regs, reg, value)?;
                    self.state().hqds[slot.index()].unhang();
                }
            }
            gc::CP_PQ_WPTR_POLL_CNTL1 => {
                let me = selected(regs).map_or(1, Slot::me);
                let mut state = self.state();
                for slot in Slot::all(regs.xcc).filter(|slot| slot.me() == me) {
                    if value >> (slot.pipe() * 8 + slot.queue()) & 1 == 1 {
                        state.hqds[slot.index()].request_poll();
                    }
                }
                state.errands = true;
            }
            gc::CP_PQ_WPTR_POLL_CNTL => {}
            _ if hqd_registers::owns(reg) => {
                let slot = self.selected_or_refuse(regs, reg, value)?;
                return self.write_hqd(gpu, slot, reg, value).map(|()| true);
            }
            _ => return Ok(false),
        }
        regs.set(reg, value);
        self.work.ring();
        Ok(true)
    }

    fn selected_or_refuse(&self, regs: &Store, reg: Reg, value: u32) -> Result<Slot> {
        selected(regs).ok_or_else(|| regs.refuse(reg, value, "GRBM_GFX_CNTL selects no MEC"))
    }

    fn write_hqd(&self, gpu: &Gpu, slot: Slot, reg: Reg, value: u32) -> Result<()> {
        let off = reg == gc::CP_HQD_ACTIVE && !cp_hqd_active::ACTIVE.is_set(value);
        let mut state = self.quiesce(|executing| off && executing == slot);
        let hqd = &mut state.hqds[slot.index()];
        let before = hqd.is_active();
        hqd.write(gpu, reg, value)?;
        if reg == gc::CP_HQD_DEQUEUE_REQUEST {
            hqd.save_waves(gpu.clock.now());
            gpu.sq.wake();
        }
        if hqd.is_active() && !before {
            gpu.summary.cp_loads.bump();
        }
        // Most writes belong to a load, which only the last of them starts.
        if hqd.is_active() {
            state.errands = true;
            self.work.ring();
        }
        Ok(())
    }

    /// A doorbell at dword `index` of BAR2. Returns false if it belongs to no queue that is active
    /// or waits for its turn.
    pub fn doorbell(&self, gpu: &Gpu, index: u32, value: u64) -> Result<bool> {
        let listens = |xcc: &usize| {
            let status = gpu.regs.of(*xcc, 0).get(gc::CP_PQ_STATUS);
            cp_pq_status::DOORBELL_ENABLE.is_set(status)
        };
        let xccs: Vec<usize> = gpu.layout().working().filter(listens).collect();
        if xccs.is_empty() {
            return Ok(false);
        }
        let _access = self.access();
        let mut state = self.state();
        // All XCCs that serve the queue hear it.
        let mut known = false;
        for slot in xccs.into_iter().flat_map(Slot::all) {
            let hqd = &mut state.hqds[slot.index()];
            if !hqd.owns_doorbell(index) {
                continue;
            }
            if !hqd.ring(value) {
                return Err(ModelError::Other(format!(
                    "{slot}: doorbell {value:#x} of VMID 0 is below the write pointer"
                )));
            }
            known = true;
        }
        known = known || state.list.as_mut().is_some_and(|list| list.ring(index));
        drop(state);
        if known {
            self.work.ring();
        }
        Ok(known)
    }

    /// A doorbell at dword `index` that no SDMA queue listens to. Returns false if no queue of the
    /// runlist waits for its turn with it either.
    pub fn sdma_doorbell(&self, index: u32) -> bool {
        let _access = self.access();
        let known = self
            .state()
            .list
            .as_mut()
            .is_some_and(|list| list.ring(index));
        if known {
            self.work.ring();
        }
        known
    }
}
