// SPDX-License-Identifier: GPL-2.0
//! What gfx942 has that gfx90a has not, or elsewhere.

use super::rig::*;
use super::templates::started_with;
use crate::asic::GFX942;
use crate::board::Board;
use crate::discovery::{self, FROM_END};
use crate::ih::Iv;
use crate::nbio::Route;
use crate::psp::start::Start;
use crate::regs::{athub, gc, nbio, osssys, sdma};

fn board() -> Board {
    Board {
        asic: &GFX942,
        ..Board::new(VRAM)
    }
}

#[test]
fn its_table_of_blocks_is_at_the_end_of_vram() {
    let rig = Rig::on(board());
    let table = discovery::GFX942.binary(Default::default());
    let at = VRAM - FROM_END;
    let read = |offset: u64| {
        let place = at + offset;
        rig.set(nbio::MM_INDEX, 1 << 31 | place as u32);
        rig.set(nbio::MM_INDEX_HI, (place >> 31) as u32);
        rig.get(nbio::MM_DATA).to_le_bytes()
    };
    rig.gpu.power_up();
    for (n, bytes) in (0..).step_by(4).zip(table.chunks_exact(4)) {
        assert_eq!(read(n), bytes, "{n:#x}");
    }
    // What another driver left there, the next start of the board replaces.
    rig.poke(vram(at), &[0; 4]);
    rig.gpu.power_cycle(Start::Open);
    assert_eq!(rig.peek32(vram(at)), 0x2821_1407);
}

#[test]
fn registers_are_where_the_chip_has_them() {
    let rig = Rig::on(board());
    let gpu = &rig.gpu;
    for dword in [0x2822, 0x1_8b62] {
        assert_eq!(gpu.read_at(dword), Ok(0x8010_0007), "{dword:#x}");
    }
    gpu.write_at(0x1_9802, 1).unwrap();
    assert_eq!(rig.get(sdma::F32_CNTL.of_sdma(3)), 1);
    // Revision 1: with 0, amdgpu takes it for one that was never sold.
    assert_eq!(gpu.read_at(0xd36).unwrap() >> 24 & 0xf, 1);
    // One partition of memory.
    assert_eq!(
        [gpu.read_at(0xe82), gpu.read_at(0xe84)],
        [Ok(1), Ok(1 << 4)]
    );
    assert!(gpu.write_at(0xe84, 0).is_err());
    // gfx90a's places.
    for dword in [0x1_a000 + 0xb80, 0x1_e800 + 0x80, 0xef0, 0x7064] {
        assert!(gpu.read_at(dword).is_err(), "{dword:#x}");
        assert!(gpu.write_at(dword, 0).is_err(), "{dword:#x}");
    }
}

#[test]
fn the_fabric_has_addresses_beyond_4_gib() {
    let rig = Rig::on(board());
    rig.fabric(0x141_ea04, 0x1234);
    assert_eq!(rig.get(nbio::PCIE_DATA2), 0x1234);
    // That is another die.
    rig.set(nbio::PCIE_INDEX2_HI, 4);
    assert!(rig.gpu.read(nbio::PCIE_DATA2).is_err());
    rig.set(nbio::PCIE_INDEX2_HI, 0);
    rig.set(nbio::PCIE_INDEX2, 0x141_ea00);
    assert!(rig.gpu.read(nbio::PCIE_DATA2).is_err());
}

#[test]
fn doorbells_by_the_fabric() {
    let rig = Rig::on(board());
    let route = |dword: u64| rig.gpu.nbio.route(&rig.gpu.regs, dword * 4);
    let routes = [0x200, 0x214, 0x228, 0x23c, IH_DOORBELL.into()].map(route);
    let engines = [0, 1, 2, 3].map(Route::Sdma);
    assert_eq!(routes[..4], engines);
    assert_eq!(
        [routes[4], route(0x250), route(0x10)],
        [Route::Ih, Route::Cp, Route::Cp]
    );
}

#[test]
fn interrupts_name_their_node() {
    let rig = Rig::on(board());
    // The node's own table counts.
    for (node, pasid) in [(0, 0x11), (1, 0x22), (2, 0x33)] {
        rig.set(osssys::IH_VMID_LUT_INDEX, node);
        rig.set(osssys::IH_VMID_0_LUT.nth(3, 1), pasid);
        rig.set(osssys::IH_VMID_0_LUT_MM.nth(3, 1), pasid + 0x100);
    }
    for mmhub in [false, true] {
        let iv = Iv {
            client: 8,
            vmid: 3,
            mmhub,
            ..Iv::default()
        };
        rig.gpu.ih.push(&rig.gpu, iv).unwrap();
    }
    assert_eq!(rig.iv(0)[3], 1 << 16 | 0x22);
    assert_eq!(rig.iv(1)[3], 0x111);
}

#[test]
fn compute_units_of_an_xcc() {
    let rig = Rig::on(board());
    let off = (0..4).map(|se| {
        rig.set(gc::GRBM_GFX_INDEX, se << 16);
        rig.get(gc::CC_GC_SHADER_ARRAY_CONFIG).count_ones()
    });
    assert_eq!(40 - off.sum::<u32>(), 38);
}

#[test]
fn pasid_mappings_are_of_16_vmids() {
    let rig = Rig::on(board());
    rig.gpu.write_at(0xc5f + 8, 0x8000_1234).unwrap();
    assert_eq!(rig.gpu.read_at(0xc5e).unwrap(), 1 << 8);
    assert!(rig.gpu.write(athub::ATC_VMID24_PASID_MAPPING, 0).is_err());
}

#[test]
fn an_aql_queue_has_its_read_pointer_reported() {
    let mut rig = Rig::on(board());
    rig.start_mecs();
    let queue = rig.compute([1, 0, 0], 8, true);
    let control = rig.mqd_dword(&queue, 145);
    // NO_UPDATE_RPTR, which other XCCs than the first one have.
    let error = started_with(&rig, &queue, 145, control | 1 << 27);
    assert!(error.contains("AQL on a first XCC"), "{error}");
    rig.load(&queue);
    assert!(rig.is_active(&queue));
}

#[test]
fn clock_gating_has_its_registers() {
    let rig = Rig::on(board());
    for dword in [0x117b, 0x21c2] {
        rig.gpu.write_at(dword, 0x3345_0100).unwrap();
        assert_eq!(rig.gpu.read_at(dword), Ok(0x3345_0100), "{dword:#x}");
    }
}
