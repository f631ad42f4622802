// SPDX-License-Identifier: GPL-2.0

use super::rig::*;
use crate::board::Board;
use crate::error::ModelError;
use crate::psp::start::Start;
use crate::regs::{athub, gc, hdp, mmhub, mp0, nbio, sdma, smuio, Reg};

#[test]
fn reset_values() {
    let rig = Rig::new();
    assert_eq!(rig.get(nbio::RCC_CONFIG_MEMSIZE), 128);
    for (base, top) in [
        (gc::MC_VM_FB_LOCATION_BASE, gc::MC_VM_FB_LOCATION_TOP),
        (mmhub::MC_VM_FB_LOCATION_BASE, mmhub::MC_VM_FB_LOCATION_TOP),
    ] {
        assert_eq!((rig.get(base), rig.get(top)), (0x2_0000, 0x2_0007));
    }
    rig.gpu.reset();
    assert_eq!(rig.get(sdma::F32_CNTL), 1);
    assert_eq!(rig.get(nbio::RCC_DOORBELL_APER_EN), 0);
    assert_eq!(rig.get(gc::VM_L2_CNTL4), 0xc1);
}

#[test]
fn unknown_registers_are_named() {
    let rig = Rig::new();
    let error = rig.gpu.read(Reg(0x1234)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "read of unknown register at byte 0x048d0 (dword 0x01234)"
    );
    let error = rig.gpu.write(gc::GRBM_STATUS, 1).unwrap_err();
    assert!(error.to_string().contains("GRBM_STATUS"), "{error}");
    assert!(rig.gpu.write(mp0::MP0_SMN_C2PMSG_35, 1).is_err());
}

#[test]
fn windows_lead_to_vram_and_registers() {
    let rig = Rig::new();
    rig.set(nbio::MM_INDEX, 1 << 31 | 0x1000);
    rig.set(nbio::MM_INDEX_HI, 0);
    rig.set(nbio::MM_DATA, 0xabcd_1234);
    assert_eq!(rig.peek32(vram(0x1000)), 0xabcd_1234);
    assert_eq!(rig.get(nbio::MM_DATA), 0xabcd_1234);
    rig.set(nbio::PCIE_INDEX2, nbio::RCC_CONFIG_MEMSIZE.0 * 4);
    assert_eq!(rig.get(nbio::PCIE_DATA2), 128);
    rig.set(nbio::PCIE_INDEX2, 0x0800_0000);
    assert!(rig.gpu.read(nbio::PCIE_DATA2).is_err());
}

#[test]
fn hdp_flush() {
    let rig = Rig::new();
    let page = Reg(0x7f000 / 4);
    assert!(rig.gpu.write(page, 0).is_err());
    rig.set(nbio::REMAP_HDP_MEM_FLUSH_CNTL, 0x7f000);
    rig.set(page, 0);
    assert_eq!(rig.get(page), 0);
    // A process that maps the page reaches nothing else through it.
    rig.set(Reg(page.0 + 2), !0);
    assert_eq!(rig.get(Reg(page.0 + 2)), 0);
    assert!(rig.gpu.write(Reg(page.0 - 1), 0).is_err());
    rig.set(nbio::GPU_HDP_FLUSH_REQ, 1 << 10);
    assert_eq!(rig.get(nbio::GPU_HDP_FLUSH_DONE), 1 << 10);
    // Another engine's request does not clear the bit that the first still looks for.
    rig.set(nbio::GPU_HDP_FLUSH_REQ, 1 << 12);
    assert_eq!(rig.get(nbio::GPU_HDP_FLUSH_DONE), 1 << 10 | 1 << 12);
}

#[test]
fn the_flash_chip() {
    let rig = Rig::on(Board {
        rom: vec![0x55, 0xaa, 4, 0xcb, 1, 2, 3, 4],
        ..Board::new(VRAM)
    });
    rig.set(smuio::ROM_INDEX, 0);
    assert_eq!(rig.get(smuio::ROM_DATA), 0xcb04_aa55);
    assert_eq!(rig.get(smuio::ROM_DATA), 0x0403_0201);
    assert_eq!(rig.get(smuio::ROM_INDEX), 8);
    assert_eq!(rig.get(smuio::ROM_DATA), !0);
    assert!(rig.gpu.write(smuio::ROM_DATA, 0).is_err());
    rig.gpu.reset();
    assert_eq!(rig.get(smuio::ROM_DATA), 0xcb04_aa55);
}

#[test]
fn what_the_board_did_at_power_up() {
    let rig = Rig::new();
    assert_eq!(rig.get(nbio::BIOS_SCRATCH_7), 1 << 9);
    assert_eq!(rig.get(mp0::MP0_SMN_C2PMSG_81), 1);
    assert_eq!(rig.get(smuio::SMUIO_MCM_CONFIG), 0);
    let rig = Rig::on(Board {
        start: Start::Open,
        ..Board::new(VRAM)
    });
    assert_eq!(rig.get(mp0::MP0_SMN_C2PMSG_81), 0);
    assert_eq!(rig.get(mp0::MP0_SMN_C2PMSG_33), 1 << 31);
}

#[test]
fn registers_that_only_store() {
    let rig = Rig::new();
    for (reg, reset) in [
        (gc::TCP_UTCL1_CNTL1, 0x0080_0400),
        (gc::TA_CNTL_AUX, 0),
        (gc::SPI_WCL_PIPE_PERCENT_CS3, 0x7f),
        (gc::RLC_CGTT_MGCG_OVERRIDE, !0),
        (nbio::DRIVER_SCRATCH_2, 0),
        (sdma::CLK_CTRL, 0xff00_0100),
    ] {
        assert_eq!(rig.get(reg), reset, "{}", rig.gpu.regs.name(reg));
        rig.set(reg, 0x1234);
        assert_eq!(rig.get(reg), 0x1234);
        rig.gpu.reset();
        assert_eq!(rig.get(reg), reset);
    }
    assert!(rig.gpu.write(gc::RLC_SERDES_CU_MASTER_BUSY, 1).is_err());
    // The registers behind GC_CAC_IND_INDEX, and one register for each VMID.
    for (index, value) in [(5, 1), (6, 2)] {
        rig.set(gc::GC_CAC_IND_INDEX, index);
        rig.set(gc::GC_CAC_IND_DATA, value);
        rig.set(gc::GRBM_GFX_CNTL, index << 4);
        rig.set(gc::SPI_GDBG_PER_VMID_CNTL, value);
    }
    rig.set(gc::GC_CAC_IND_INDEX, 5);
    assert_eq!(rig.get(gc::GC_CAC_IND_DATA), 1);
    rig.set(gc::GRBM_GFX_CNTL, 5 << 4);
    assert_eq!(rig.get(gc::SPI_GDBG_PER_VMID_CNTL), 1);
}

#[test]
fn pasid_mappings_report_when_done() {
    let rig = Rig::new();
    let status = athub::ATC_VMID_PASID_MAPPING_UPDATE_STATUS;
    rig.set(athub::ATC_VMID8_PASID_MAPPING, 0x8000_1234);
    rig.set(athub::ATC_VMID24_PASID_MAPPING, 0x8000_1234);
    assert_eq!(rig.get(status), 1 << 8 | 1 << 24);
    rig.set(status, 1 << 8);
    assert_eq!(rig.get(status), 1 << 24);
    assert_eq!(rig.get(athub::ATC_VMID8_PASID_MAPPING), 0x8000_1234);
}

#[test]
fn compute_units_of_a_shader_array() {
    let rig = Rig::new();
    let inactive: Vec<u32> = (0..8)
        .map(|se| {
            rig.set(gc::GRBM_GFX_INDEX, se << 16);
            rig.get(gc::CC_GC_SHADER_ARRAY_CONFIG) | rig.get(gc::GC_USER_SHADER_ARRAY_CONFIG)
        })
        .collect();
    assert!(inactive.iter().all(|one| one & 0xc000_ffff == 0));
    let each: Vec<u32> = inactive.iter().map(|one| one.count_ones()).collect();
    assert_eq!(each, [1, 1, 2, 1, 1, 1, 0, 1]);
    assert_ne!(inactive[0], inactive[1]);
    // Engine 0 has CU 3 fused off, so that bit 3 of a mask is CU 4, and no CU has bit 13.
    assert_eq!(inactive[0], 1 << (16 + 3));
    let by_bit = [2, 3, 12, 13].map(|bit| rig.gpu.regs.asic.shape.by_mask_bit(0, bit));
    assert_eq!(by_bit, [Some(2), Some(4), Some(13), None]);
}

#[test]
fn doorbells_need_the_aperture() {
    let rig = Rig::new();
    rig.set(nbio::RCC_DOORBELL_APER_EN, 0);
    let error = rig.gpu.nbio.doorbell(&rig.gpu, 0x800, &[0; 8]);
    assert!(matches!(error, Err(ModelError::Other(_))));
}

#[test]
fn the_state_of_everything() {
    let mut rig = Rig::new();
    rig.ring(1, 0, 0);
    rig.running([1, 1, 2], 8, false);
    rig.set(gc::GRBM_GFX_CNTL, 3 << 4);
    rig.set(gc::SH_MEM_CONFIG, 0x1_0002);
    let state = crate::state::dump(&rig.gpu);
    assert_eq!(state["NBIO RCC_CONFIG_MEMSIZE"], "0x80");
    assert_eq!(state["GC SH_MEM_CONFIG[3]"], "0x10002");
    assert_eq!(state["SDMA1_GFX_DOORBELL"], "0x10000000");
    assert_eq!(state["MEC1 pipe 1 queue 2"]["GC CP_HQD_VMID"], "0x8");
    assert!(state.get("SDMA0_GFX_DOORBELL").is_none());
    // The dump changes nothing.
    assert_eq!(state, crate::state::dump(&rig.gpu));
    let text = crate::control::command(&rig.gpu, "state").unwrap();
    assert_eq!(text, state.to_string());
}

#[test]
fn gpu_clock() {
    let rig = Rig::new();
    let read = || {
        rig.set(gc::RLC_CAPTURE_GPU_CLOCK_COUNT, 1);
        u64::from(rig.get(gc::RLC_GPU_CLOCK_COUNT_LSB))
            | u64::from(rig.get(gc::RLC_GPU_CLOCK_COUNT_MSB)) << 32
    };
    let first = read();
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert!(read() >= first + 200_000);
}

#[test]
fn tables_need_a_way_to_vram() {
    let rig = Rig::new();
    rig.gpu.reset();
    let control = rig.get(gc::VM_CONTEXT0_CNTL);
    assert_eq!(control, 0x007f_fe80);
    let error = rig
        .gpu
        .write(gc::VM_CONTEXT0_CNTL, control | 1)
        .unwrap_err();
    assert!(error.to_string().contains("HDP_NONSURFACE_BASE"), "{error}");
    rig.set(hdp::HDP_NONSURFACE_BASE_HI, 2);
    rig.set(gc::VM_CONTEXT0_CNTL, control | 1);
    let lead = |reg, to| rig.gpu.write(reg, to);
    assert!(lead(hdp::HDP_NONSURFACE_BASE, 0).is_ok());
    assert!(lead(hdp::HDP_NONSURFACE_BASE, 0x9000_0000).is_err());
    rig.set(gc::VM_CONTEXT0_CNTL, control);
    assert!(lead(hdp::HDP_NONSURFACE_BASE, 0x9000_0000).is_ok());
}
