// SPDX-License-Identifier: GPL-2.0
//! A board on which a driver has left engines at work, and the next driver's hubs.

use super::rig::*;
use crate::board::Board;
use crate::gpu::Gpu;
use crate::hub::{Flush, HubId};
use crate::psp::start::Start;
use crate::regs::gc::{self, cp_mec_cntl};
use crate::regs::sdma::{self, f32_cntl, gfx_rb_cntl};
use crate::regs::{osssys, Reg, SDMA_ENGINES};
use crate::tlb::Scope;

fn left() -> Gpu {
    let board = Board {
        start: Start::Dirty,
        ..Board::new(VRAM)
    };
    Gpu::new(board, |error| panic!("{error}")).unwrap()
}

fn halt_sdma(gpu: &Gpu) {
    for n in 0..SDMA_ENGINES {
        let reg = sdma::F32_CNTL.of_sdma(n);
        gpu.write(reg, f32_cntl::HALT.of(1)).unwrap();
    }
}

/// The reason why the hub refuses that.
fn refused(gpu: &Gpu, hub: HubId, reg: Reg, value: u32) -> String {
    gpu.write(hub.reg(reg), value).unwrap_err().to_string()
}

#[test]
fn engines_are_at_work() {
    let gpu = left();
    for engine in &gpu.sdma {
        for _ in 0..20 {
            assert_eq!(engine.step(&gpu), Ok(true));
        }
        assert!(engine.is_at_work(&gpu));
    }
    eventually("a look", || gpu.cp.step(&gpu).unwrap());
    eventually("another", || gpu.cp.step(&gpu).unwrap());
    assert!(gpu.cp.is_at_work(&gpu));
}

#[test]
fn what_leads_them_to_memory_does_not_change() {
    let gpu = left();
    for (reg, value) in [
        (gc::VM_CONTEXT0_CNTL, 0),
        (gc::VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32, 0x1001),
        (gc::VM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32, 1),
        (gc::VM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32, 0x1000),
        (gc::MC_VM_AGP_BOT, 0),
        (gc::MC_VM_SYSTEM_APERTURE_HIGH_ADDR, 1),
        (gc::MC_VM_MX_L1_TLB_CNTL, 3 << 3),
    ] {
        let why = refused(&gpu, HubId::Mm, reg, value);
        assert!(why.contains("SDMA0 is at work"), "{why}");
        let why = refused(&gpu, HubId::Gfx, reg, value);
        assert!(why.contains("the CP is at work"), "{why}");
    }
    // The present value, bits that are not of the path, and another register's.
    for (reg, value) in [
        (gc::VM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32, 0),
        (
            gc::VM_CONTEXT0_CNTL,
            gpu.regs.get(gc::VM_CONTEXT0_CNTL) | 1 << 11,
        ),
        (gc::VM_CONTEXT0_CNTL.nth(1, 1), 0),
        (gc::MC_VM_MX_L1_TLB_CNTL, 1),
    ] {
        for hub in HubId::ALL {
            gpu.write(hub.reg(reg), value).unwrap();
        }
    }
}

#[test]
fn it_changes_when_they_stand() {
    let gpu = left();
    let end = gc::VM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32;
    halt_sdma(&gpu);
    let why = refused(&gpu, HubId::Mm, end, 0x1000);
    assert!(why.contains("the IH is at work"), "{why}");
    gpu.write(osssys::IH_RB_CNTL, 0).unwrap();
    gpu.write(HubId::Mm.reg(end), 0x1000).unwrap();
    gpu.write(osssys::IH_RB_CNTL_RING1, 1).unwrap();
    assert!(refused(&gpu, HubId::Mm, end, 0x2000).contains("the IH"));

    assert!(refused(&gpu, HubId::Gfx, end, 0x1000).contains("the CP"));
    let halt = cp_mec_cntl::MEC_ME1_HALT.of(1);
    gpu.write(gc::CP_MEC_CNTL, halt).unwrap();
    gpu.write(HubId::Gfx.reg(end), 0x1000).unwrap();
    // An engine that was only halted still has its work.
    gpu.write(gc::CP_MEC_CNTL, 0).unwrap();
    assert!(refused(&gpu, HubId::Gfx, end, 0x2000).contains("the CP"));
    gpu.write(sdma::F32_CNTL, 0).unwrap();
    assert!(refused(&gpu, HubId::Mm, end, 0x2000).contains("SDMA0"));
    let control = gfx_rb_cntl::RB_SIZE.of(10);
    gpu.write(sdma::GFX_RB_CNTL, control).unwrap();
    assert!(refused(&gpu, HubId::Mm, end, 0x2000).contains("the IH"));
}

#[test]
fn tables_that_are_another_drivers() {
    let gpu = left();
    assert_eq!(gpu.sdma[1].step(&gpu), Ok(true));
    // As hardware does with the values in registers.
    for hub in HubId::ALL {
        let page = hub.reg(gc::VM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32);
        gpu.regs.set(page, 0x100);
        gpu.hub(hub).flush(&gpu, 1, Scope::ALL, Flush::Heavy);
    }
    assert!(gpu.sdma[1].step(&gpu).is_err());
    assert!((0..3).any(|_| gpu.cp.step(&gpu).is_err()));
}
