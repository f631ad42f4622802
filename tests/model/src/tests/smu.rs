// SPDX-License-Identifier: GPL-2.0
//! Messages to the SMU.

use std::time::Duration;

use super::psp_rig::*;
use super::rig::*;
use crate::psp::image::Kind;
use crate::psp::start::Start;
use crate::regs::mp1::*;
use crate::regs::{mp0, nbio};

const ANSWER: crate::regs::Reg = MP1_SMN_C2PMSG_90;
/// Where tables are, in VRAM.
const TABLE: u64 = 48 * MIB;
const FLAGS: u32 = 0x03b1_0024;

/// Sends a message: its answer, and what is in the argument then.
fn send(psp: &Psp, message: u32, argument: u32) -> (u32, u32) {
    psp.rig.set(ANSWER, 0);
    psp.rig.set(MP1_SMN_C2PMSG_82, argument);
    psp.rig.set(MP1_SMN_C2PMSG_66, message);
    eventually("the SMU", || psp.get(ANSWER) != 0);
    (psp.get(ANSWER), psp.get(MP1_SMN_C2PMSG_82))
}

fn flags(psp: &Psp) -> u32 {
    psp.rig.set(nbio::PCIE_INDEX2, FLAGS);
    psp.get(nbio::PCIE_DATA2)
}

/// With the table's address told, and a table there.
fn with_table() -> Psp {
    let psp = Psp::on(Start::Warm);
    assert_eq!(send(&psp, 0xf, hi(FB + TABLE)).0, 1);
    assert_eq!(send(&psp, 0x10, lo(FB + TABLE)).0, 1);
    let mut table = vec![0; 760];
    table[4..8].copy_from_slice(&0x33_003fu32.to_le_bytes());
    table[0xc] = 200;
    table[0x144..0x148].copy_from_slice(&[0xa4, 0x06, 0xf4, 0x01]);
    psp.rig.poke(vram(TABLE), &table);
    psp
}

#[test]
fn versions() {
    let psp = Psp::on(Start::Warm);
    assert_eq!(flags(&psp), 1);
    assert_eq!(send(&psp, 1, 41), (1, 42));
    assert_eq!(send(&psp, 2, 0), (1, 0x0044_3f00));
    assert_eq!(send(&psp, 4, 0), (1, 8));
    assert_eq!(send(&psp, 0x77, 5), (0xfe, 5));
    assert!(psp.trace().contains(&"smu 0x2 0x0->0x443f00".to_string()));
}

#[test]
fn no_answer_without_firmware() {
    let mut psp = Psp::with_ring(Start::Cold);
    assert_eq!((psp.get(ANSWER), flags(&psp)), (0, 0));
    psp.rig.set(MP1_SMN_C2PMSG_66, 2);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(psp.get(ANSWER), 0);
    assert_eq!(psp.load(18, &sample(Kind::SMU)).unwrap().status, 0);
    assert_eq!(flags(&psp), 1);
    assert_eq!(send(&psp, 2, 0).0, 1);
    assert_eq!(send(&psp, 0x24, 0).0, 1);
    assert_eq!(flags(&psp), 0);
    psp.rig.set(ANSWER, 0);
    psp.rig.set(MP1_SMN_C2PMSG_66, 2);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(psp.get(ANSWER), 0);
}

#[test]
fn what_it_gets_wrong() {
    let mut psp = Psp::with("smu-off", Start::Cold);
    psp.start_os();
    psp.good_ring();
    let load = |psp: &mut Psp| assert_eq!(psp.load(18, &sample(Kind::SMU)).unwrap().status, 0);
    load(&mut psp);
    assert_eq!(flags(&psp), 0);
    let fault = |psp: &Psp, text| psp.rig.gpu.psp.add_fault(&psp.rig.gpu, text).unwrap();
    fault(&psp, "none");
    load(&mut psp);
    assert_eq!(flags(&psp), 1);
    fault(&psp, "smu=2:0xfc");
    assert_eq!([send(&psp, 2, 0).0, send(&psp, 4, 0).0], [0xfc, 1]);
    fault(&psp, "smu-hangs=4");
    psp.rig.set(ANSWER, 0);
    psp.rig.set(MP1_SMN_C2PMSG_66, 4);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(psp.get(ANSWER), 0);
    fault(&psp, "none");
    assert_eq!(send(&psp, 4, 0), (1, 8));
}

#[test]
fn one_message_at_a_time() {
    let psp = Psp::on(Start::Warm);
    let gpu = &psp.rig.gpu;
    assert!(gpu.write(MP1_SMN_C2PMSG_66, 2).is_err(), "not cleared");
    assert!(gpu.write(ANSWER, 2).is_err());
    psp.rig.set(ANSWER, 0);
    psp.rig.set(MP1_SMN_C2PMSG_66, 2);
    for reg in [MP1_SMN_C2PMSG_66, MP1_SMN_C2PMSG_82, ANSWER] {
        assert!(gpu.write(reg, 0).is_err(), "busy");
    }
}

#[test]
fn features_come_from_the_table() {
    let psp = Psp::on(Start::Warm);
    assert_eq!(send(&psp, 0x14, 0).0, 0xfd, "no address");
    assert_eq!(send(&psp, 0x13, 4).0, 0xfd);
    assert_eq!(send(&psp, 7, 0).0, 0xfd, "no table");
    let psp = with_table();
    assert_eq!(send(&psp, 0x27, 0).0, 0xfd, "no features");
    assert_eq!(send(&psp, 0x14, 0).0, 1);
    assert_eq!(send(&psp, 0x14, 6).0, 0xff, "no bus of ours");
    assert_eq!(send(&psp, 7, 0).0, 1);
    assert_eq!(send(&psp, 0xd, 0), (1, 0x33_003f));
    assert_eq!(send(&psp, 0xe, 0), (1, 0));
    for message in [0x27, 0x43] {
        assert_eq!(send(&psp, message, 0).0, 1);
    }
    assert_eq!(send(&psp, 0x23, 0), (1, 200));
    assert_eq!(send(&psp, 0x22, 150).0, 1);
    assert_eq!(send(&psp, 0x23, 0), (1, 150));
    assert_eq!(send(&psp, 8, 0).0, 1);
    assert_eq!(send(&psp, 0xd, 0), (1, 0));
}

#[test]
fn clocks() {
    let psp = with_table();
    assert_eq!(send(&psp, 0x1e, 0).0, 0xff, "no table");
    assert_eq!(send(&psp, 0x14, 0).0, 1);
    assert_eq!(send(&psp, 0x1e, 0xff), (1, 1));
    assert_eq!(send(&psp, 0x1e, 0), (1, 500));
    assert_eq!(send(&psp, 0x1e, 1), (1, 1700));
    assert_eq!(send(&psp, 0x1e, 3 << 16 | 0xff), (1, 2));
    assert_eq!(send(&psp, 0x1e, 3 << 16 | 2), (1, 1090));
    assert_eq!(send(&psp, 0x1e, 3 << 16 | 3).0, 0xff);
    assert_eq!(send(&psp, 0x1e, 7 << 16).0, 0xff);
    assert_eq!(send(&psp, 0x1c, 4 << 16), (1, 400));
    assert_eq!(send(&psp, 0x1d, 4 << 16), (1, 1600));
    assert_eq!(send(&psp, 0x1d, 0), (1, 1700));
}

#[test]
fn measurements() {
    let psp = with_table();
    assert_eq!(send(&psp, 0x14, 0).0, 1);
    assert_eq!(send(&psp, 0x13, 4).0, 1);
    let data = psp.rig.peek(vram(TABLE), 128);
    assert_eq!([data[0], data[1]], 500u16.to_le_bytes());
    assert_eq!(data[0x20], 35);
    assert_eq!(data[120..], [0; 8], "not more than 120 bytes");
    assert_eq!(send(&psp, 0x13, 9).0, 0xff);
}

fn reset(psp: &Psp) {
    assert_eq!(send(psp, 3, 2).0, 0xff, "only the whole GPU");
    psp.rig.set(ANSWER, 0);
    psp.rig.set(MP1_SMN_C2PMSG_82, 1);
    psp.rig.set(MP1_SMN_C2PMSG_66, 3);
    std::thread::sleep(Duration::from_millis(1));
    assert_eq!(psp.get(ANSWER), 1);
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(psp.get(nbio::RCC_CONFIG_MEMSIZE), !0, "away");
    psp.rig.set(nbio::BIOS_SCRATCH_0, 5);
    eventually("the GPU", || psp.get(nbio::RCC_CONFIG_MEMSIZE) != !0);
    assert_eq!(psp.get(nbio::BIOS_SCRATCH_0), 0);
    assert_eq!(psp.get(mp0::MP0_SMN_C2PMSG_81), 0);
    assert_eq!(flags(psp), 0);
    assert!(!psp.rig.gpu.bus.is_master());
}

#[test]
fn a_reset_of_the_whole() {
    let psp = Psp::with_tmr(Start::Warm);
    reset(&psp);
    assert_eq!(psp.get(nbio::BIOS_SCRATCH_7), 1 << 9);
    assert_eq!(psp.get(mp0::MP0_SMN_C2PMSG_35), READY);
    psp.rig.poke(vram(TMR), &[0]);
    let psp = Psp::with("no-post", Start::Warm);
    reset(&psp);
    assert_eq!(psp.get(nbio::BIOS_SCRATCH_7), 0);
}
