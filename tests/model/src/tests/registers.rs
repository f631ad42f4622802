// SPDX-License-Identifier: GPL-2.0

use super::rig::*;
use crate::error::ModelError;
use crate::regs::{athub, gc, mmhub, mp0, nbio, sdma, Reg};

#[test]
fn reset_values() {
    let rig = Rig::new();
    assert_eq!(rig.get(nbio::RCC_CONFIG_MEMSIZE), 128);
    for (base, top) in [
        (gc::MC_VM_FB_LOCATION_BASE, gc::MC_VM_FB_LOCATION_TOP),
        (mmhub::MC_VM_FB_LOCATION_BASE, mmhub::MC_VM_FB_LOCATION_TOP),
    ] {
        assert_eq!((rig.get(base), rig.get(top)), (0x8000, 0x8007));
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
    rig.set(nbio::GPU_HDP_FLUSH_REQ, 1 << 10);
    assert_eq!(rig.get(nbio::GPU_HDP_FLUSH_DONE), 1 << 10);
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
    let units: u32 = (0..8)
        .map(|se| {
            rig.set(gc::GRBM_GFX_INDEX, se << 16);
            let inactive =
                rig.get(gc::CC_GC_SHADER_ARRAY_CONFIG) | rig.get(gc::GC_USER_SHADER_ARRAY_CONFIG);
            14 - (inactive >> 16 & 0x3fff).count_ones()
        })
        .sum();
    assert_eq!(units, 104);
}

#[test]
fn doorbells_need_the_aperture() {
    let rig = Rig::new();
    rig.set(nbio::RCC_DOORBELL_APER_EN, 0);
    let error = rig.gpu.nbio.doorbell(&rig.gpu, 0x800, &[0; 8]);
    assert!(matches!(error, Err(ModelError::Other(_))));
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
