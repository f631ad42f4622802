// SPDX-License-Identifier: GPL-2.0
//! Registers that exist once for each VMID, pipe or shader array. GRBM_GFX_CNTL and GRBM_GFX_INDEX
//! select the one that an access hits, GC_CAC_IND_INDEX that behind GC_CAC_IND_DATA,
//! IH_VMID_LUT_INDEX the node whose table of PASIDs it is. Those of queues are the command
//! processor's.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::regs::gc::{
    self, cc_gc_shader_array_config as array, grbm_gfx_cntl as select, grbm_gfx_index as index,
};
use crate::regs::{osssys, Reg, Store};

const MEC_PIPES: u32 = 4;
/// GDS_VMID0_BASE, GDS_VMID0_SIZE, GDS_GWS_VMID0, GDS_OA_VMID0.
const OF_VMID_0: [u32; 4] = [0x3300, 0x3301, 0x3320, 0x3330];

/// Values of the banked registers that were written; all others are zero.
#[derive(Default)]
pub struct Grbm(Mutex<HashMap<(Reg, u32), u32>>);

/// The bank that `reg` selects now, or None if there is only one of it.
fn bank(regs: &Store, reg: Reg) -> Option<u32> {
    let control = regs.get(gc::GRBM_GFX_CNTL);
    match reg.0 {
        n if n == gc::CPC_INT_CNTL.0 => {
            Some(pipe(select::MEID.get(control), select::PIPEID.get(control)))
        }
        n if (gc::SH_MEM_BASES.0..=gc::SH_MEM_CONFIG.0).contains(&n)
            || (gc::SQ_SHADER_TBA_LO.0..=gc::SQ_SHADER_TMA_HI.0).contains(&n)
            || n == gc::SPI_GDBG_PER_VMID_CNTL.0 =>
        {
            Some(select::VMID.get(control))
        }
        _ if Grbm::is_of_nodes(reg) => {
            let has_nodes = regs.asic.has_nodes;
            has_nodes.then(|| regs.get(osssys::IH_VMID_LUT_INDEX))
        }
        n if n == gc::GC_CAC_IND_DATA.0 => Some(regs.get(gc::GC_CAC_IND_INDEX)),
        n if n == gc::GC_USER_SHADER_ARRAY_CONFIG.0 || n == gc::SQ_TIMEOUT_CONFIG.0 => {
            Some(engine(regs))
        }
        _ => None,
    }
}

/// The shader engine that is selected; each has one array.
fn engine(regs: &Store) -> u32 {
    index::SE_INDEX.get(regs.get(gc::GRBM_GFX_INDEX)) % regs.asic.shape.engines
}

/// The bank of a pipe.
fn pipe(me: u32, pipe: u32) -> u32 {
    me * MEC_PIPES + pipe
}

impl Grbm {
    /// Returns whether a register is a node's, and not an XCC's.
    pub fn is_of_nodes(reg: Reg) -> bool {
        (osssys::IH_VMID_0_LUT.0..=osssys::IH_VMID_15_LUT_MM.0).contains(&reg.0)
    }

    /// CPC_INT_CNTL of a pipe.
    pub fn pipe_interrupts(&self, me: u32, number: u32) -> u32 {
        let banks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bank = (gc::CPC_INT_CNTL, pipe(me, number));
        banks.get(&bank).copied().unwrap_or(0)
    }

    /// The registers, banks and values that were written.
    pub fn values(&self) -> Vec<(Reg, u32, u32)> {
        let banks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        banks
            .iter()
            .map(|(&(reg, bank), &value)| (reg, bank, value))
            .collect()
    }

    /// Forgets all values.
    pub fn reset(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// A bank of a register: of a VMID or a node.
    pub fn of_bank(&self, reg: Reg, bank: u32) -> u32 {
        let banks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        banks.get(&(reg, bank)).copied().unwrap_or(0)
    }

    /// Writes a bank of a register: of a VMID or a node.
    pub fn set_of_bank(&self, reg: Reg, bank: u32, value: u32) {
        let mut banks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        banks.insert((reg, bank), value);
    }

    /// The value in the selected bank, if `reg` is banked.
    pub fn read(&self, regs: &Store, reg: Reg) -> Option<u32> {
        if reg == gc::CC_GC_SHADER_ARRAY_CONFIG {
            return Some(array::INACTIVE_CUS.of(regs.asic.shape.fused_off(engine(regs))));
        }
        let bank = bank(regs, reg)?;
        let banks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(banks.get(&(reg, bank)).copied().unwrap_or(0))
    }

    /// Writes the selected bank if `reg` is banked. Returns whether it is.
    pub fn write(&self, regs: &Store, reg: Reg, value: u32) -> Result<bool> {
        if reg == gc::CC_GC_SHADER_ARRAY_CONFIG {
            return Err(regs.refuse(reg, value, "the register is read-only"));
        }
        if OF_VMID_0.contains(&reg.0) {
            let why = "VMID 0 has its GDS, GWS and OA out of reset, \
                       and the firmware saves and restores by it";
            return Err(regs.refuse(reg, value, why));
        }
        let Some(bank) = bank(regs, reg) else {
            return Ok(false);
        };
        let mut banks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        banks.insert((reg, bank), value);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asic::GFX90A;

    #[test]
    fn banks_by_vmid_and_pipe() {
        let regs = Store::new(&GFX90A);
        let grbm = Grbm::default();
        let value = |vmid| {
            regs.set(gc::GRBM_GFX_CNTL, select::VMID.of(vmid));
            grbm.read(&regs, gc::SH_MEM_BASES)
        };
        regs.set(gc::GRBM_GFX_CNTL, select::VMID.of(3));
        assert_eq!(grbm.write(&regs, gc::SH_MEM_BASES, 0x1_0002), Ok(true));
        assert_eq!(value(3), Some(0x1_0002));
        assert_eq!(value(4), Some(0));
        regs.set(gc::GRBM_GFX_CNTL, select::MEID.of(1) | select::PIPEID.of(2));
        assert_eq!(grbm.write(&regs, gc::CPC_INT_CNTL, 8), Ok(true));
        assert_eq!(grbm.read(&regs, gc::CPC_INT_CNTL), Some(8));
        assert_eq!(grbm.pipe_interrupts(1, 2), 8);
        regs.set(gc::GRBM_GFX_CNTL, 0);
        assert_eq!(grbm.read(&regs, gc::CPC_INT_CNTL), Some(0));
        assert_eq!(grbm.write(&regs, gc::GRBM_CNTL, 1), Ok(false));
    }

    #[test]
    fn vmid_0_keeps_the_global_data_share() {
        let (regs, grbm) = (Store::new(&GFX90A), Grbm::default());
        for first in OF_VMID_0 {
            let error = grbm.write(&regs, Reg(first), 0).unwrap_err();
            assert!(error.to_string().contains("VMID 0"), "{error}");
        }
        // VMID 1's.
        for own in [0x3302, 0x3303, 0x3321, 0x3331] {
            assert_eq!(grbm.write(&regs, Reg(own), 0), Ok(false));
        }
    }
}
