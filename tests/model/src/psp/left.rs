// SPDX-License-Identifier: GPL-2.0
//! Engines that a crashed driver has left at work: a GART in both hubs, and in it a ring of each
//! SDMA engine and a compute queue, which poll a word of memory that never changes. All of that is
//! in VRAM, where the next driver puts other data.

use super::{LEFT_TMR, RUNNING};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::memory::{Phys, Space};
use crate::psp::tmr;
use crate::regs::gc::{
    self, cp_hqd_persistent_state as persistent, cp_hqd_pq_control as pq_control,
    grbm_gfx_cntl as select, vm_context0_cntl as context,
};
use crate::regs::sdma::{self, gfx_rb_cntl as rb_cntl};
use crate::regs::{hdp, osssys, Reg, SDMA_BASE, SDMA_ENGINES};
use crate::walk::PAGE_SHIFT;

/// Its places in VRAM, behind the TMR: the GART's table, and the pages that it maps, from GPU
/// address 0 on.
const TABLE: u64 = LEFT_TMR + tmr::LEAST;
const PAGES: u64 = TABLE + (1 << PAGE_SHIFT);
/// The pages' uses.
const WORD: u64 = 0;
const SDMA_RINGS: u64 = 1;
const COMPUTE_RING: u64 = SDMA_RINGS + SDMA_ENGINES as u64;
const MQD: u64 = COMPUTE_RING + 1;
const COUNT: u64 = MQD + 1;
/// Log2 of the dwords of a ring, which is a page.
const RING_ORDER: u32 = 10;
/// An entry of a page that is present, readable, writable and uncached.
const ENTRY: u64 = 1 | 1 << 5 | 1 << 6 | 3 << 57;
/// PRELOAD_SIZE of a queue.
const PRELOAD: u32 = 0x53;

/// POLL_REGMEM, for ever, of memory that would have to be 1.
const SDMA_WAIT: [u32; 6] = [8 | 3 << 28 | 1 << 31, address(WORD), 0, 1, !0, 0xfff << 16];
/// WAIT_REG_MEM, of the same.
const CP_WAIT: [u32; 7] = [0xc005_3c00, 3 | 1 << 4, address(WORD), 0, 1, !0, 4];

const fn address(page: u64) -> u32 {
    (page << PAGE_SHIFT) as u32
}

fn put(gpu: &Gpu, addr: u64, words: &[u32]) -> Result<()> {
    let space = Space::Vram;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    gpu.bus.view().write(Phys { space, addr }, &bytes)
}

fn page(gpu: &Gpu, number: u64, words: &[u32]) -> Result<()> {
    let mut whole = [0; 1 << RING_ORDER];
    whole[..words.len()].copy_from_slice(words);
    put(gpu, PAGES + (number << PAGE_SHIFT), &whole)
}

/// Makes all of it run.
pub fn run(gpu: &Gpu) -> Result<()> {
    gart(gpu)?;
    page(gpu, WORD, &[])?;
    // The first AID's are enough.
    for engine in 0..gpu.regs.asic.sdma.len() {
        sdma_ring(gpu, engine)?;
    }
    compute_queue(gpu)?;
    let on = osssys::ih_rb_cntl::RB_ENABLE.of(1);
    gpu.regs.set(osssys::IH_RB_CNTL, on);
    Ok(())
}

fn gart(gpu: &Gpu) -> Result<()> {
    for number in 0..COUNT {
        let entry = (gpu.hive.start() + PAGES + (number << PAGE_SHIFT)) | ENTRY;
        put(
            gpu,
            TABLE + number * 8,
            &[entry as u32, (entry >> 32) as u32],
        )?;
    }
    let vram = gpu.vram_base();
    gpu.regs.set(hdp::HDP_NONSURFACE_BASE, (vram >> 8) as u32);
    gpu.regs
        .set(hdp::HDP_NONSURFACE_BASE_HI, (vram >> 40) as u32);
    let table = gpu.hive.start() + TABLE;
    for hub in HubId::ALL {
        for (reg, value) in [
            (gc::VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32, table as u32 | 1),
            (
                gc::VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_HI32,
                (table >> 32) as u32,
            ),
            (gc::VM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32, COUNT as u32 - 1),
            (gc::VM_CONTEXT0_CNTL, context::ENABLE_CONTEXT.of(1)),
        ] {
            gpu.regs.set(hub.reg(reg), value);
        }
    }
    Ok(())
}

fn sdma_ring(gpu: &Gpu, number: usize) -> Result<()> {
    let at = SDMA_RINGS + number as u64;
    page(gpu, at, &SDMA_WAIT)?;
    let control = rb_cntl::RB_SIZE.of(RING_ORDER) | rb_cntl::RB_ENABLE.of(1);
    for (reg, value) in [
        (sdma::GFX_RB_BASE, address(at) >> 8),
        (sdma::GFX_RB_WPTR, SDMA_WAIT.len() as u32 * 4),
        (sdma::F32_CNTL, RUNNING),
        (sdma::GFX_RB_CNTL, control),
    ] {
        let engine = &gpu.sdma[number];
        engine.write(gpu, reg.of_sdma(number), reg.0 - SDMA_BASE[0], value)?;
    }
    Ok(())
}

fn compute_queue(gpu: &Gpu) -> Result<()> {
    page(gpu, COMPUTE_RING, &CP_WAIT)?;
    page(gpu, MQD, &[])?;
    gpu.regs
        .set(gc::RLC_CNTL, gc::rlc_cntl::RLC_ENABLE_F32.of(1));
    let control = pq_control::QUEUE_SIZE.of(RING_ORDER - 1)
        | pq_control::PRIV_STATE.of(1)
        | pq_control::KMD_QUEUE.of(1);
    gpu.regs.set(gc::GRBM_GFX_CNTL, select::MEID.of(1));
    let registers: [(Reg, u32); 7] = [
        (gc::CP_MQD_BASE_ADDR, address(MQD)),
        (gc::CP_HQD_PQ_BASE, address(COMPUTE_RING) >> 8),
        (gc::CP_HQD_PQ_CONTROL, control),
        (
            gc::CP_HQD_PERSISTENT_STATE,
            persistent::PRELOAD_SIZE.of(PRELOAD),
        ),
        (gc::CP_HQD_PQ_WPTR_LO, CP_WAIT.len() as u32),
        (gc::CP_HQD_ACTIVE, 1),
        (gc::CP_MEC_CNTL, RUNNING),
    ];
    for (reg, value) in registers {
        gpu.cp.write(gpu, reg, value)?;
    }
    gpu.regs.set(gc::GRBM_GFX_CNTL, 0);
    Ok(())
}
