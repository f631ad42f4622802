// SPDX-License-Identifier: GPL-2.0
//! The memory queue descriptor: where a queue's state is while it is not on an HQD.

use super::hqd::Hqd;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::regs::gc;
use crate::regs::Reg;
use crate::sq::grid::ENGINES;
use crate::vm::Vm;

/// Dword of the AQL read index.
const READ_INDEX: u64 = 96;
/// Dword of queue_doorbell_id0.
const DOORBELL_ID0: u64 = 240;
/// Dword of the first HQD register, CP_MQD_BASE_ADDR; the others follow in their order.
const FIRST: u64 = 128;

/// Dwords of the CU masks of engines 0 to 7.
const CU_MASKS: [u64; ENGINES as usize] = [23, 24, 26, 27, 39, 40, 41, 42];
/// CUs of an engine.
const CUS: u32 = 13;

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

/// Registers in the MQD: those up to CP_HQD_PQ_WPTR_HI.
const REGISTERS: u32 = gc::CP_HQD_PQ_WPTR_HI.0 - gc::CP_MQD_BASE_ADDR.0 + 1;

/// Loads an HQD's registers from the MQD at `mqd`.
pub fn load(gpu: &Gpu, hqd: &mut Hqd, mqd: u64) -> Result<()> {
    let mut image = [0; REGISTERS as usize * 4];
    Vm::kernel(gpu, HubId::Gfx).read(mqd + FIRST * 4, &mut image)?;
    for (n, word) in (0..).zip(image.chunks_exact(4)) {
        let value = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        hqd.regs.put(gc::CP_MQD_BASE_ADDR.nth(n, 1), value);
    }
    Ok(())
}

/// The CUs that the masks in the MQD leave: engine and number, engines first.
pub fn cus(gpu: &Gpu, mqd: u64) -> Result<Vec<(u32, u32)>> {
    let vm = Vm::kernel(gpu, HubId::Gfx);
    let mut masks = [0; ENGINES as usize];
    for (mask, dword) in masks.iter_mut().zip(CU_MASKS) {
        *mask = vm.load32(mqd + dword * 4)?;
    }
    let all = (0..CUS).flat_map(|cu| (0..ENGINES).map(move |engine| (engine, cu)));
    Ok(all
        .filter(|&(engine, cu)| masks[engine as usize] >> cu & 1 == 1)
        .collect())
}

/// The AQL read index in a queue's MQD.
pub fn read_index(gpu: &Gpu, hqd: &Hqd) -> Result<u64> {
    let mut index = [0; 8];
    Vm::kernel(gpu, HubId::Gfx).read(hqd.regs.mqd() + READ_INDEX * 4, &mut index)?;
    Ok(u64::from_le_bytes(index))
}

/// Says in the scheduler's MQD which queue does not leave: by its doorbell's dword index.
pub fn report_hang(gpu: &Gpu, scheduler: &Hqd, doorbell: u32) -> Result<()> {
    Vm::kernel(gpu, HubId::Gfx).store32(scheduler.regs.mqd() + DOORBELL_ID0 * 4, doorbell)
}

/// Writes what a queue's MQD keeps: `hqd` was just taken off, at read index `index`.
pub fn save(gpu: &Gpu, hqd: &Hqd, index: u64) -> Result<()> {
    let vm = Vm::kernel(gpu, HubId::Gfx);
    let mqd = hqd.regs.mqd();
    if hqd.regs.is_aql() {
        vm.write(mqd + READ_INDEX * 4, &index.to_le_bytes())?;
    }
    for &reg in SAVED {
        vm.store32(mqd + offset(reg), hqd.regs.get(reg))?;
    }
    Ok(())
}
