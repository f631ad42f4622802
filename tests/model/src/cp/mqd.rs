// SPDX-License-Identifier: GPL-2.0
//! The memory queue descriptor: where a queue's state is while it is not on an HQD.

use super::hqd::Hqd;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::regs::gc;
use crate::regs::Reg;
use crate::vm::Vm;

/// Dword of the AQL read index.
const READ_INDEX: u64 = 96;
/// Dword of the first HQD register, CP_MQD_BASE_ADDR; the others follow in their order.
const FIRST: u64 = 128;

/// Registers that the processor saves.
const SAVED: &[Reg] = &[
    gc::CP_HQD_PQ_RPTR,
    gc::CP_HQD_IB_BASE_ADDR,
    gc::CP_HQD_IB_BASE_ADDR_HI,
    gc::CP_HQD_IB_RPTR,
    gc::CP_HQD_IB_CONTROL,
    gc::CP_HQD_EOP_RPTR,
    gc::CP_HQD_EOP_WPTR,
    gc::CP_HQD_ERROR,
    gc::CP_HQD_PQ_WPTR_LO,
    gc::CP_HQD_PQ_WPTR_HI,
];

/// Byte offset of a register's dword.
fn offset(reg: Reg) -> u64 {
    (FIRST + u64::from(reg.0 - gc::CP_MQD_BASE_ADDR.0)) * 4
}

/// Writes what a queue's MQD keeps: `hqd` was just taken off, at read index `index`.
pub fn save(gpu: &Gpu, hqd: &Hqd, index: u64) -> Result<()> {
    let vm = Vm::kernel(gpu, HubId::Gfx);
    let mqd = hqd.mqd();
    if hqd.is_aql() {
        vm.write(mqd + READ_INDEX * 4, &index.to_le_bytes())?;
    }
    for &reg in SAVED {
        vm.store32(mqd + offset(reg), hqd.reg(reg))?;
    }
    Ok(())
}
