// SPDX-License-Identifier: GPL-2.0
//! The memory queue descriptor: a queue's state while it is not on an HQD.

use super::gang::{Gang, Share};
use super::hqd::Hqd;
use super::templates;
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::regs::gc::{self, cp_hqd_persistent_state as persistent};
use crate::regs::Reg;
use crate::sq::grid::Remains;
use crate::vm::Vm;
use crate::walk::Mtype;

/// Dword of the AQL read index.
const READ_INDEX: u64 = 96;
/// Dword of queue_doorbell_id0.
const DOORBELL_ID0: u64 = 240;
/// Dwords of pm4_target_xcc_in_xcp and cp_mqd_stride_size.
const TARGET: u64 = 225;
const STRIDE: u64 = 226;
/// Dwords of compute_current_logic_xcc_id and compute_tg_chunk_size.
const LOGICAL: u64 = 39;
const CHUNK: u64 = 41;
/// Dword of the first HQD register, CP_MQD_BASE_ADDR; the others follow in their order.
const FIRST: u64 = 128;
/// Dwords, two each: the times of the request and the end of a save, and the same of a restore.
const SAVE_TIMES: u64 = 98;
const RESTORE_TIMES: u64 = 102;
/// Reserved dwords, two: when the first wave of a dispatch that was saved began.
const STARTED: u64 = 44;
/// Bytes from the MQD to the control stack.
const CONTROL_STACK: u64 = 4096;

/// Registers that the processor saves.
const SAVED: &[Reg] = &[
    gc::CP_HQD_PERSISTENT_STATE,
    gc::CP_HQD_PQ_RPTR,
    gc::CP_HQD_IB_BASE_ADDR,
    gc::CP_HQD_IB_BASE_ADDR_HI,
    gc::CP_HQD_IB_RPTR,
    gc::CP_HQD_IB_CONTROL,
    gc::CP_HQD_EOP_RPTR,
    gc::CP_HQD_EOP_WPTR,
    gc::CP_HQD_CNTL_STACK_OFFSET,
    gc::CP_HQD_WG_STATE_OFFSET,
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

/// Checks the memory types of an MQD and of the control stack behind it, `stack` bytes: uncached,
/// and not coherent (amdgpu: "due to a HW bug", kfd_mqd_manager_v9.c). VRAM that no table of VMID 0
/// leads to has none.
fn check_mtypes(gpu: &Gpu, mqd: u64, stack: u64) -> Result<()> {
    let vm = Vm::kernel(gpu, HubId::Gfx);
    let check = |at: u64, wanted: Mtype, what: &str| match vm.mtype(at)? {
        Some(mtype) if mtype != wanted => Err(ModelError::Other(format!(
            "{what} at {at:#x} is in memory of type {mtype:?}, which has to be {wanted:?}"
        ))),
        _ => Ok(()),
    };
    check(mqd, Mtype::Uc, "MQD")?;
    if let Some(last) = stack.checked_sub(1) {
        for at in [0, last] {
            check(mqd + CONTROL_STACK + at, Mtype::Nc, "control stack")?;
        }
    }
    Ok(())
}

/// Loads an HQD's registers from the MQD at `mqd`.
pub fn load(gpu: &Gpu, hqd: &mut Hqd, mqd: u64) -> Result<()> {
    let mut header = [0; 4];
    Vm::kernel(gpu, HubId::Gfx).read(mqd, &mut header)?;
    if let Some(reason) = templates::header(u32::from_le_bytes(header)) {
        return Err(ModelError::Other(format!("MQD at {mqd:#x}: {reason}")));
    }
    let mut image = [0; REGISTERS as usize * 4];
    Vm::kernel(gpu, HubId::Gfx).read(mqd + FIRST * 4, &mut image)?;
    for (n, word) in (0..).zip(image.chunks_exact(4)) {
        let value = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        hqd.regs.put(gc::CP_MQD_BASE_ADDR.nth(n, 1), value);
    }
    Ok(())
}

/// Bytes from a queue's MQD to that of the next XCC.
pub fn stride(gpu: &Gpu, mqd: u64) -> Result<u64> {
    let stride = Vm::kernel(gpu, HubId::Gfx).load32(mqd + STRIDE * 4)?;
    if stride == 0 || stride % 4096 != 0 {
        return Err(ModelError::Other(format!(
            "MQD at {mqd:#x}: cp_mqd_stride_size is {stride:#x}"
        )));
    }
    Ok(stride.into())
}

/// Returns whether the read pointer of an AQL queue is reported by an XCC.
pub fn reports(gpu: &Gpu, xcc: usize) -> Result<bool> {
    Ok(gpu.regs.asic.reports_aql && Gang::of(gpu, xcc)?.lead() == xcc)
}

/// The part that an XCC has in a user's queue, according to its MQD.
pub fn share(gpu: &Gpu, hqd: &Hqd, xcc: usize) -> Result<Share> {
    let gang = Gang::of(gpu, xcc)?;
    let whole = Share::whole(xcc);
    if gang.size() == 1 || hqd.regs.vmid() == 0 {
        return Ok(whole);
    }
    let vm = Vm::kernel(gpu, HubId::Gfx);
    let mqd = hqd.regs.mqd();
    let [target, index, chunk] = [TARGET, LOGICAL, CHUNK].map(|dword| vm.load32(mqd + dword * 4));
    let (target, index, chunk) = (target?, index?, chunk?);
    let wrong = |what: &str| {
        Err(ModelError::Other(format!(
            "MQD at {mqd:#x} of XCC{xcc}: {what}"
        )))
    };
    if !hqd.regs.is_aql() {
        if target as usize >= gang.size() || (index, chunk) != (0, 0) {
            return wrong("pm4_target_xcc_in_xcp, or a part of an AQL queue's dispatches");
        }
        let idles = target as usize != gang.place(xcc);
        return Ok(Share { idles, ..whole });
    }
    if index as usize >= gang.size() || chunk == 0 {
        return wrong("compute_current_logic_xcc_id or compute_tg_chunk_size");
    }
    Ok(Share {
        gang,
        index: index.into(),
        chunk: chunk.into(),
        idles: false,
    })
}

/// Checks the memory of the MQD that the registers of `hqd` name.
pub fn check_memory(gpu: &Gpu, hqd: &Hqd) -> Result<()> {
    let stack = hqd.regs.area().map_or(0, |area| area.stack);
    check_mtypes(gpu, hqd.regs.mqd(), stack)
}

/// The dwords of the control stack from byte `from` to byte `to`.
pub fn control_stack(gpu: &Gpu, mqd: u64, from: u64, to: u64) -> Result<Vec<u32>> {
    let mut bytes = vec![0; (to - from) as usize];
    Vm::kernel(gpu, HubId::Gfx).read(mqd + CONTROL_STACK + from, &mut bytes)?;
    let words = bytes.chunks_exact(4);
    Ok(words
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect())
}

fn write_times(gpu: &Gpu, mqd: u64, dword: u64, times: &[u64]) -> Result<()> {
    let bytes: Vec<u8> = times.iter().flat_map(|time| time.to_le_bytes()).collect();
    Vm::kernel(gpu, HubId::Gfx).write(mqd + dword * 4, &bytes)
}

/// When the first wave of the saved dispatch began; 0: none has.
pub fn started(gpu: &Gpu, mqd: u64) -> Result<u64> {
    let mut bytes = [0; 8];
    Vm::kernel(gpu, HubId::Gfx).read(mqd + STARTED * 4, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Writes the times of the begin and the end of a restore.
pub fn note_restore(gpu: &Gpu, mqd: u64, begin: u64, end: u64) -> Result<()> {
    write_times(gpu, mqd, RESTORE_TIMES, &[begin, end])
}

/// Writes the saved waves' words to the place that the registers of `hqd` will point to.
pub fn save_waves(gpu: &Gpu, hqd: &mut Hqd, remains: &Remains) -> Result<()> {
    let mqd = hqd.regs.mqd();
    let state = hqd.regs.get(gc::CP_HQD_PERSISTENT_STATE);
    let state = persistent::DISP_ACTIVE.put(state, remains.next.is_some().into());
    let state = persistent::RELAUNCH_WAVES.put(state, (!remains.image.is_empty()).into());
    hqd.regs.put(gc::CP_HQD_PERSISTENT_STATE, state);
    if hqd.regs.area().is_some() {
        let (stack, end, dwords) = remains.image.memory();
        hqd.regs.set_saved(stack, end);
        let bytes: Vec<u8> = dwords.iter().flat_map(|word| word.to_le_bytes()).collect();
        Vm::kernel(gpu, HubId::Gfx).write(mqd + CONTROL_STACK + stack, &bytes)?;
    }
    write_times(gpu, mqd, STARTED, &[remains.started.unwrap_or(0)])?;
    let (begin, end) = remains.save;
    write_times(gpu, mqd, SAVE_TIMES, &[begin, end])
}

/// The AQL read index in a queue's MQD.
pub fn read_index(gpu: &Gpu, hqd: &Hqd) -> Result<u64> {
    let mut index = [0; 8];
    Vm::kernel(gpu, HubId::Gfx).read(hqd.regs.mqd() + READ_INDEX * 4, &mut index)?;
    Ok(u64::from_le_bytes(index))
}

/// Reports a queue that does not leave in the scheduler's MQD: by its doorbell's dword index.
pub fn report_hang(gpu: &Gpu, scheduler: &Hqd, doorbell: u32) -> Result<()> {
    Vm::kernel(gpu, HubId::Gfx).store32(scheduler.regs.mqd() + DOORBELL_ID0 * 4, doorbell)
}

/// Writes the state that a queue's MQD keeps: `hqd` was just taken off, at read index `index`.
pub fn save(gpu: &Gpu, hqd: &Hqd, index: u64) -> Result<()> {
    let vm = Vm::kernel(gpu, HubId::Gfx);
    let mqd = hqd.regs.mqd();
    if hqd.regs.is_aql() {
        vm.write(mqd + READ_INDEX * 4, &index.to_le_bytes())?;
    }
    for &reg in SAVED {
        vm.store32(mqd + offset(reg), hqd.regs.get(reg))?;
    }
    hqd.compute.save(gpu, mqd)
}
