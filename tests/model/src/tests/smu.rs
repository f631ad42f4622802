// SPDX-License-Identifier: GPL-2.0
//! Messages to the SMU.

use std::time::Duration;

use super::psp_rig::*;
use super::rig::*;
use crate::psp::engines::Engine;
use crate::psp::image::Kind;
use crate::psp::start::Start;
use crate::regs::mp1::*;
use crate::regs::{mp0, nbio};

const ANSWER: crate::regs::Reg = MP1_SMN_C2PMSG_90;
/// Where tables are, in VRAM.
const TABLE: u64 = 48 * MIB;
const FLAGS: u32 = 0x03b1_0024;
/// Bytes of configuration space.
const COMMAND: u64 = 4;
const BAR2: u64 = 0x18;

/// Sends a message. Returns its answer, and the argument after it.
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

/// With the table's address set, and a table there.
fn with_table() -> Psp {
    let psp = Psp::on(Start::Warm);
    assert_eq!(send(&psp, 0xf, hi(FB + TABLE)).0, 1);
    assert_eq!(send(&psp, 0x10, lo(FB + TABLE)).0, 1);
    psp.rig.poke(vram(TABLE), &pptable());
    psp
}

/// Features, the limit of power, the range of the graphics clock.
fn pptable() -> Vec<u8> {
    let mut table = vec![0; 760];
    table[4..8].copy_from_slice(&0x33_003fu32.to_le_bytes());
    table[0xc] = 200;
    table[0x14] = 105;
    table[0x16] = 95;
    table[0x144..0x148].copy_from_slice(&[0xa4, 0x06, 0xf4, 0x01]);
    table
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
    gpu.psp.add_fault(gpu, "smu-late=2:60000").unwrap();
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

/// A message that ends the run.
fn fatal(psp: &Psp, message: u32, argument: u32) {
    psp.rig.set(ANSWER, 0);
    psp.rig.set(MP1_SMN_C2PMSG_82, argument);
    if psp.rig.gpu.write(MP1_SMN_C2PMSG_66, message).is_ok() {
        std::thread::sleep(Duration::from_millis(5));
        assert!(psp.rig.gpu.read(ANSWER).is_err());
    }
}

#[test]
fn a_table_that_is_not_sane() {
    let psp = with_table();
    psp.rig.poke(vram(TABLE + 0x14), &[79]);
    fatal(&psp, 0x14, 0);
}

#[test]
fn other_limits_while_features_are_on() {
    let psp = with_table();
    assert_eq!([0x14, 7].map(|message| send(&psp, message, 0).0), [1; 2]);
    fatal(&psp, 0x14, 0);
}

#[test]
fn features_end_before_it_unloads() {
    let psp = with_table();
    assert_eq!([0x14, 7].map(|message| send(&psp, message, 0).0), [1; 2]);
    fatal(&psp, 0x24, 0);
    let psp = with_table();
    for message in [0x14, 7, 0x27, 0x43, 8, 0x24] {
        assert_eq!(send(&psp, message, 0).0, 1);
    }
    // Nor if it was told and did not do it.
    let psp = Psp::with("smu=8:0xff", Start::Dirty);
    assert_eq!(send(&psp, 8, 0).0, 0xff);
    assert_eq!(send(&psp, 0x24, 0).0, 1);
}

#[test]
fn what_a_driver_has_left_on() {
    let mut psp = Psp::on(Start::Dirty);
    assert_eq!(send(&psp, 0xd, 0), (1, 0x33_003f));
    // The previous ring goes.
    psp.rig.set(mp0::MP0_SMN_C2PMSG_64, 3 << 16);
    assert!(psp.step().unwrap());
    psp.good_ring();
    let load = |psp: &mut Psp| assert_eq!(psp.load(18, &sample(Kind::SMU)).unwrap().status, 0);
    load(&mut psp);
    assert_eq!(send(&psp, 0xd, 0), (1, 0x33_003f), "nobody has ended it");
    assert_eq!([8, 0x24].map(|message| send(&psp, message, 0).0), [1; 2]);
    load(&mut psp);
    assert_eq!(send(&psp, 0xd, 0), (1, 0));
    assert_eq!(send(&psp, 7, 0).0, 0xfd, "whose table");
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

/// Its measurements, after setting the board's sensors.
fn measure(psp: &Psp, sensors: &str) -> Vec<u8> {
    crate::control::command(&psp.rig.gpu, &format!("sensors {sensors}")).unwrap();
    assert_eq!(send(psp, 0x13, 4).0, 1);
    psp.rig.peek(vram(TABLE), 128)
}

fn word(data: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([data[at], data[at + 1]])
}

#[test]
fn measurements() {
    let psp = with_table();
    let data = measure(&psp, "");
    assert_eq!([0, 0x10, 0x20].map(|at| word(&data, at)), [0, 800, 35]);
    assert_eq!(data[120..], [0; 8], "not more than 120 bytes");
    let data = measure(&psp, "edge=51 mem=60 power=290 sclk=1650 throttle=65");
    assert_eq!([0x1e, 0x20, 0x22].map(|at| word(&data, at)), [290, 51, 41]);
    assert_eq!([0x38, 0x3a, 0x3c].map(|at| word(&data, at)), [60, 59, 58]);
    assert_eq!([word(&data, 0), word(&data, 0x10)], [0, 1650]);
    assert_eq!(data[0x2c..0x30], 65u32.to_le_bytes());
    // Clocks are the SMU's once features are on.
    assert_eq!(send(&psp, 0x13, 4).0, 1);
    psp.rig.poke(vram(TABLE), &pptable());
    assert_eq!(send(&psp, 0x14, 0).0, 1);
    assert_eq!(send(&psp, 7, 0).0, 1);
    assert_eq!(word(&measure(&psp, "default"), 0), 500);
    assert_eq!(word(&measure(&psp, "sclk=900"), 0), 900);
    // It does not fill the trace of drivers' actions.
    assert!(!psp.trace().iter().any(|line| line.contains("smu 0x13")));
    assert_eq!(psp.rig.gpu.summary.smu_measurements.get(), 5);
}

#[test]
fn measurements_of_work() {
    let psp = with_table();
    assert_eq!([0x16, 0x18].map(|at| word(&measure(&psp, ""), at)), [0; 2]);
    psp.rig.gpu.activity.begin_waves();
    std::thread::sleep(Duration::from_millis(700));
    let data = measure(&psp, "");
    assert!([0x16, 0x18]
        .map(|at| word(&data, at))
        .iter()
        .all(|&n| n > 95));
    let count = u32::from_le_bytes(data[0x40..0x44].try_into().unwrap());
    assert!(count >= 700 * 100, "100 each millisecond");
    psp.rig.gpu.activity.end_waves();
}

#[test]
fn energy_does_not_go_back() {
    let psp = with_table();
    let energy = |sensors: &str| {
        let data = measure(&psp, sensors);
        u64::from_le_bytes(std::array::from_fn(|n| data[0x48 + n]))
    };
    let before = energy("power=500");
    std::thread::sleep(Duration::from_millis(20));
    let then = energy("power=1");
    assert!(then - before >= 500 * 20 * 1000 / 16, "{before} {then}");
    assert!(energy("") >= then);
}

#[test]
fn tables_that_it_does_not_give() {
    let psp = Psp::on(Start::Warm);
    assert_eq!(send(&psp, 0xf, hi(FB + TABLE)).0, 1);
    assert_eq!(send(&psp, 0x13, 4).0, 0xfd, "half an address");
    assert_eq!(send(&psp, 0x10, lo(FB + TABLE + 64)).0, 1);
    assert_eq!(send(&psp, 0x13, 4).0, 0xff, "not a page");
    assert_eq!(send(&psp, 0x10, lo(FB + TABLE)).0, 1);
    assert_eq!(send(&psp, 0x13, 9).0, 0xff, "no such table");
    assert_eq!(send(&psp, 0x13, 0).0, 0xff, "nobody has given it");
    assert_eq!(send(&psp, 0x13, 1 << 16 | 4).0, 0xff, "no such argument");
    assert_eq!(psp.rig.peek(vram(TABLE), 8), [0; 8]);
    psp.rig
        .gpu
        .psp
        .add_fault(&psp.rig.gpu, "smu=0x13:0xfc")
        .unwrap();
    assert_eq!(send(&psp, 0x13, 4).0, 0xfc);
    psp.rig.gpu.psp.add_fault(&psp.rig.gpu, "none").unwrap();
    // At an address without memory it writes to nothing, and the run ends.
    assert_eq!(send(&psp, 0xf, 0x7fff).0, 1);
    psp.rig.set(ANSWER, 0);
    psp.rig.set(MP1_SMN_C2PMSG_82, 4);
    psp.rig.set(MP1_SMN_C2PMSG_66, 0x13);
    std::thread::sleep(Duration::from_millis(5));
    assert!(psp.rig.gpu.read(ANSWER).is_err());
}

#[test]
fn a_late_answer() {
    let psp = Psp::with("smu-late=1:100", Start::Warm);
    psp.rig.set(ANSWER, 0);
    psp.rig.set(MP1_SMN_C2PMSG_82, 5);
    psp.rig.set(MP1_SMN_C2PMSG_66, 1);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(psp.get(ANSWER), 0);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!([ANSWER, MP1_SMN_C2PMSG_82].map(|reg| psp.get(reg)), [1, 6]);
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
    let gpu = &psp.rig.gpu;
    gpu.write_config(COMMAND, &[6]);
    std::thread::sleep(Duration::from_millis(150));
    assert_eq!(psp.get(nbio::RCC_CONFIG_MEMSIZE), !0, "not enabled");
    let mut command = [0xff];
    gpu.read_config(COMMAND, &mut command);
    assert_eq!(command, [0], "written while it was away");
    gpu.write_config(COMMAND, &[2]);
    assert_ne!(psp.get(nbio::RCC_CONFIG_MEMSIZE), !0);
    assert_eq!(psp.get(nbio::BIOS_SCRATCH_0), 0);
    assert_eq!(psp.get(mp0::MP0_SMN_C2PMSG_81), 0);
    assert_eq!(flags(psp), 0);
    assert!(!psp.rig.gpu.bus.is_master());
}

#[test]
fn a_reset_of_the_whole() {
    let psp = Psp::with_tmr(Start::Warm);
    psp.rig.poke(vram(VRAM - 8), &[1; 8]);
    psp.rig.gpu.write_config(BAR2, &[0, 0, 0x20, 0xf0]);
    crate::control::command(&psp.rig.gpu, "crash mec").unwrap();
    reset(&psp);
    assert_ne!(psp.rig.peek(vram(VRAM - 8), 8), [1; 8], "VRAM is lost");
    assert_eq!(psp.rig.gpu.bus.doorbells(), 0xf020_0000, "the client's");
    assert!(!psp.rig.gpu.psp.is_dead(Engine::Mec));
    assert_eq!(psp.get(nbio::BIOS_SCRATCH_7), 1 << 9);
    assert_eq!(psp.get(mp0::MP0_SMN_C2PMSG_35), READY);
    psp.rig.poke(vram(TMR), &[0]);
    // A board that does not post itself leaves the mark that it was posted.
    for before in [0, 1 << 9] {
        let psp = Psp::with("no-post", Start::Warm);
        psp.rig.set(nbio::BIOS_SCRATCH_7, before);
        reset(&psp);
        assert_eq!(psp.get(nbio::BIOS_SCRATCH_7), before);
        assert_eq!(psp.get(mp0::MP0_SMN_C2PMSG_33), 0);
    }
}
