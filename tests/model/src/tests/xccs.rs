// SPDX-License-Identifier: GPL-2.0
//! A gfx942 with several XCCs and AIDs.

use std::sync::Arc;

use super::compute::Compute;
use super::dispatches::{Kernels, KERNARG, NUMBERS, RSRC2};
use super::rig::{vram, Rig, FB};
use crate::asic::GFX942;
use crate::board::Board;
use crate::layout::Layout;
use crate::regs::gc::{self, cp_hyp_xcp_ctl as xcp};
use crate::regs::{mmhub, nbio, sdma, Part, Reg, DWORDS};

fn board(xccs: usize, harvested: u32) -> Board {
    Board {
        asic: &GFX942,
        layout: Layout { xccs, harvested },
        ..Board::new(super::rig::VRAM)
    }
}

#[test]
fn each_has_registers_of_its_own() {
    let rig = Rig::on(board(8, 0));
    let gpu = &rig.gpu;
    // VM_L2_CNTL3 of the GFXHUBs, and of the MMHUBs.
    for dword in [0x2822, 0x1_2822, 0x7_2822, 0x1_8b62, 0x3_8b62, 0x7_8b62] {
        assert_eq!(gpu.read_at(dword), Ok(0x8010_0007), "{dword:#x}");
    }
    gpu.write_at(0x3_2820, 5).unwrap();
    assert_eq!(gpu.xcc(3).regs.get(gc::VM_L2_CNTL), 5);
    assert_eq!(gpu.regs.get(gc::VM_L2_CNTL), 0);
    assert_eq!(gpu.xcc(3).regs.dword(gc::VM_L2_CNTL), 0x3_2820);
    gpu.write_at(0x5_9802, 1).unwrap();
    assert_eq!(gpu.aid(2).regs.get(sdma::F32_CNTL.of_sdma(3)), 1);
    assert_eq!(gpu.sdma[11].register(gpu, sdma::F32_CNTL), 1);
    assert_eq!(gpu.aid(1).regs.dword(mmhub::VM_L2_CNTL), 0x3_8b60);
    // Blocks of which there is one, and what lies between the parts.
    for dword in [0x2_10a0, 0x8_2820, 0x2_0e2b, 0x1_3400, 0x2_8b60] {
        assert!(gpu.read_at(dword).is_err(), "{dword:#x}");
    }
    // What a packet calls its own is that of its XCC.
    let regs = &gpu.xcc(6).regs;
    assert_eq!(regs.of_packet(0xc040), 0x6_c040);
    assert_eq!(regs.of_packet(0x3_8b60), 0x3_8b60);
    assert_eq!(regs.part(0x3_8b60).0, Part::Aid(1));
}

#[test]
fn a_chip_with_one_has_nothing_of_the_others() {
    let rig = Rig::on(board(1, 0));
    for dword in [0x1_2820, 0x3_8b60, 0x2_1260] {
        assert!(rig.gpu.read_at(dword).is_err(), "{dword:#x}");
    }
}

#[test]
fn the_fabric_of_each_aid() {
    let rig = Rig::on(board(4, 0));
    rig.set(nbio::PCIE_INDEX2_HI, 5);
    rig.fabric(0x141_ea04, 0x1234);
    assert_eq!(rig.get(nbio::PCIE_DATA2), 0x1234);
    rig.set(nbio::PCIE_INDEX2_HI, 0);
    assert_ne!(rig.get(nbio::PCIE_DATA2), 0x1234);
    // The third.
    rig.set(nbio::PCIE_INDEX2_HI, 6);
    assert!(rig.gpu.read(nbio::PCIE_DATA2).is_err());
}

#[test]
fn those_that_are_left_are_a_partition() {
    use crate::cp::Gang;
    let rig = Rig::on(board(4, 0b10));
    let gpu = &rig.gpu;
    for (xcc, place) in [(0, 0), (2, 1), (3, 2)] {
        let control = xcp::NUM_XCC_IN_XCP.of(3) | xcp::VIRTUAL_XCC_ID.of(place);
        gpu.xcc(xcc).write(gc::CP_HYP_XCP_CTL, control).unwrap();
    }
    let gang = Gang::of(gpu, 3).unwrap();
    assert_eq!(gang.members().collect::<Vec<_>>(), [0, 2, 3]);
    assert_eq!((gang.lead(), gang.place(3)), (0, 2));
    // The second says that it is the third.
    let control = xcp::NUM_XCC_IN_XCP.of(3) | xcp::VIRTUAL_XCC_ID.of(2);
    gpu.xcc(2).write(gc::CP_HYP_XCP_CTL, control).unwrap();
    assert!(Gang::of(gpu, 0).is_err());
}

/// Bytes from a queue's MQD to that of the next XCC.
const STRIDE: u64 = 0x2000;

/// A queue of two XCCs, loaded by registers.
fn shared() -> Kernels {
    let rig = Rig::on(board(2, 0));
    for place in [0, 1] {
        let control = xcp::NUM_XCC_IN_XCP.of(2) | xcp::VIRTUAL_XCC_ID.of(place);
        let gpu = rig.gpu.xcc(place as usize);
        gpu.write(gc::CP_HYP_XCP_CTL, control).unwrap();
    }
    let mut k = Kernels::on(rig);
    // The second one is set up as the first.
    let (first, second) = (k.rig.gpu.clone(), k.rig.gpu.xcc(1));
    for reg in (0..DWORDS).map(Reg).filter(|&reg| first.regs.exists(reg)) {
        if first.regs.part(first.regs.dword(reg)).0 == Part::Xcc(0) && reg != gc::CP_HYP_XCP_CTL {
            second.regs.set(reg, first.regs.get(reg));
        }
    }
    for (reg, bank, value) in first.grbm.values() {
        second.grbm.set_of_bank(reg, bank, value);
    }
    let of_second = Compute {
        mqd: k.queue.mqd + STRIDE,
        ..k.queue
    };
    for dword in 0..512 {
        let value = k.rig.mqd_dword(&k.queue, dword);
        k.rig.set_mqd(&of_second, dword, value);
    }
    for (queue, part) in [(k.queue, 0), (of_second, 1)] {
        k.rig.set_mqd(&queue, 39, part);
        k.rig.set_mqd(&queue, 41, 1);
        k.rig.set_mqd(&queue, 226, STRIDE as u32);
    }
    let control = k.rig.mqd_dword(&of_second, 145);
    k.rig.set_mqd(&of_second, 145, control | 1 << 27);
    k.rig.set_mqd(&of_second, 128, (FB + of_second.mqd) as u32);
    k.rig.gpu = Arc::new(second);
    k.rig.load(&of_second);
    k.rig.gpu = first;
    k.kernel(&NUMBERS, RSRC2, KERNARG);
    k
}

#[test]
fn groups_go_to_the_xccs_in_turn() {
    let mut k = shared();
    for (dispatches, items, parts) in [(1, 64 * 7, [4, 3]), (2, 1, [5, 3])] {
        let packet = k.packet(items);
        k.rig.put_aql(&mut k.queue, &packet);
        k.rig.knock(&k.queue);
        // The packet ends once, and both go past it.
        super::rig::eventually("the packet ends", || {
            k.rig.settle().unwrap();
            k.rig.reported(&k.queue) == dispatches as u64
        });
        assert_eq!(k.signal(), -dispatches);
        for n in 0..items {
            assert_eq!(k.rig.peek32(vram(k.out + 4 * u64::from(n))), n);
        }
        let summary = &k.rig.gpu.summary;
        let groups = [0, 1].map(|xcc: usize| summary.xccs[xcc].groups.get());
        assert_eq!(groups, parts);
        assert_eq!(summary.aql.get()["KERNEL_DISPATCH"], dispatches as u64);
    }
}

#[test]
fn a_packet_waits_for_all_xccs() {
    let mut k = shared();
    // The second XCC is halted.
    let second = k.rig.gpu.xcc(1);
    second.write(gc::CP_MEC_CNTL, 1 << 30).unwrap();
    let packet = k.packet(64 * 4);
    k.rig.put_aql(&mut k.queue, &packet);
    k.rig.knock(&k.queue);
    k.rig.settle().unwrap();
    assert_eq!((k.signal(), k.rig.gpu.summary.sq_groups.get()), (0, 2));
    second.write(gc::CP_MEC_CNTL, 0).unwrap();
    super::rig::eventually("the packet ends", || {
        k.rig.settle().unwrap();
        k.signal() == -1
    });
    assert_eq!(k.rig.gpu.summary.sq_groups.get(), 4);
}
