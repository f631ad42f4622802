// SPDX-License-Identifier: GPL-2.0
//! From power-up to a ring: start states, the bootloader, engines without firmware.

use super::psp_rig::*;
use super::rig::*;
use crate::psp::image::{self, Kind};
use crate::psp::start::Start;
use crate::regs::mp0::*;
use crate::regs::{gc, hdp, nbio, sdma, Reg, MMHUB_DELTA, SDMA_BASE};

const FLASH: Reg = MP0_SMN_C2PMSG_33;
const BOOTLOADER: Reg = MP0_SMN_C2PMSG_35;
const CONTROL: Reg = MP0_SMN_C2PMSG_64;
const ALIVE: Reg = MP0_SMN_C2PMSG_81;
/// CP_MEC_CNTL when both run.
const MEC_RUNS: u32 = 0;

fn f32_cntl(engine: usize) -> Reg {
    Reg(SDMA_BASE[engine] + sdma::F32_CNTL.0 - SDMA_BASE[0])
}

#[test]
fn start_states() {
    for (start, flash, bootloader, control, alive, posted) in [
        (Start::Warm, READY, READY, READY, 1, 0x200),
        (Start::Dirty, READY, READY, READY, 1, 0x200),
        (Start::Cold, READY, READY, 0, 0, 0x200),
        (Start::Open, READY, READY, 0, 0, 0x200),
        (Start::Stuck, READY, READY | 0x0b, 0, 0, 0x200),
        (Start::Unposted, 0, 0, 0, 0, 0),
    ] {
        let psp = Psp::on(Start::Warm);
        psp.rig.gpu.power_cycle(start);
        let found = [FLASH, BOOTLOADER, CONTROL, ALIVE, nbio::BIOS_SCRATCH_7].map(|r| psp.get(r));
        assert_eq!(
            found,
            [flash, bootloader, control, alive, posted],
            "{start:?}"
        );
        let running = [f32_cntl(4), gc::CP_MEC_CNTL, gc::RLC_CNTL].map(|r| psp.get(r));
        let expected = match start {
            Start::Dirty => [0, 0, 1],
            _ => [1, 0x5000_0000, 0],
        };
        assert_eq!(running, expected, "{start:?}");
    }
}

#[test]
fn cold_to_secure_os() {
    let psp = Psp::on(Start::Cold);
    psp.start_os();
    assert_eq!(psp.get(MP0_SMN_C2PMSG_58), SOS_VERSION);
    assert_eq!(psp.get(CONTROL), READY);
    let lines = psp.trace();
    let commands: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("bl"))
        .map(|line| line.split(' ').nth(1).unwrap())
        .collect();
    assert_eq!(commands, ["0x80000", "0x10000", "0x20000"]);
    let hash = image::digest(&sample(Kind::KEY_DATABASE));
    assert!(lines.contains(&format!("bl 0x80000 0x1000 {hash:016x} 0x0")));
    // It takes nothing more.
    assert!(psp.boot(KDB, &sample(Kind::KEY_DATABASE)).is_err());
}

#[test]
fn the_secure_os_is_not_there_at_once() {
    let psp = Psp::on(Start::Cold);
    psp.boot(KDB, &sample(Kind::KEY_DATABASE)).unwrap();
    psp.boot(SYS, &sample(Kind::SYS_DRIVER)).unwrap();
    psp.boot(SOS, &sample(Kind::SECURE_OS)).unwrap();
    assert!(psp.rig.gpu.write(CONTROL, 2 << 16).is_err());
    assert_eq!(psp.get(ALIVE), 0);
    eventually("the secure OS", || psp.get(ALIVE) != 0);
}

#[test]
fn refused_parts() {
    let kdb = sample(Kind::KEY_DATABASE);
    let flipped = |at: usize| {
        let mut image = kdb.clone();
        image[at] ^= 1;
        image
    };
    for (name, command, image, code) in [
        ("wrong magic", KDB, flipped(0x10), 0x0f),
        ("a bit of the body", KDB, flipped(0x400), 0x0f),
        ("a bit of the signature", KDB, flipped(0xff0), 0x0f),
        ("wrong size", KDB, flipped(0x6d), 0x0f),
        ("another kind", KDB, sample(Kind::SYS_DRIVER), 0x0f),
        ("out of order", SYS, sample(Kind::SYS_DRIVER), 0x07),
    ] {
        let psp = Psp::on(Start::Cold);
        assert_eq!(psp.boot(command, &image), Ok(READY | code), "{name}");
        assert!(psp.boot(KDB, &kdb).is_err(), "{name}: it has failed");
    }
}

#[test]
fn what_the_bootloader_does_not_take() {
    let psp = Psp::on(Start::Cold);
    assert!(psp.boot(0x1000_0000, &[0; 16]).is_err(), "no such command");
    let psp = Psp::on(Start::Cold);
    psp.rig.set(BOOTLOADER, KDB);
    assert!(psp.rig.gpu.write(BOOTLOADER, KDB).is_err(), "busy");
    for start in [Start::Warm, Start::Stuck, Start::Unposted] {
        let psp = Psp::on(start);
        assert!(psp.rig.gpu.write(BOOTLOADER, KDB).is_err(), "{start:?}");
    }
    // An address that is neither VRAM nor mapped.
    let psp = Psp::on(Start::Cold);
    psp.rig.set(MP0_SMN_C2PMSG_36, 0x7fff_0000);
    psp.rig.set(BOOTLOADER, KDB);
    assert!(psp.step().is_err());
    for reg in [FLASH, ALIVE, MP0_SMN_C2PMSG_58, MP0_SMN_C2PMSG_68] {
        assert!(psp.rig.gpu.write(reg, 0).is_err());
    }
}

#[test]
fn bar0_has_to_lead_to_vram() {
    let psp = Psp::on(Start::Cold);
    psp.rig.halt_engines();
    for context in 0..16 {
        for hub in [0, MMHUB_DELTA] {
            psp.rig.set(Reg(gc::VM_CONTEXT0_CNTL.0 + context + hub), 0);
        }
    }
    psp.rig.set(hdp::HDP_NONSURFACE_BASE_HI, 0);
    let error = psp.boot(KDB, &sample(Kind::KEY_DATABASE)).unwrap_err();
    assert!(error.to_string().contains("HDP_NONSURFACE_BASE"), "{error}");
}

#[test]
fn images_in_system_memory() {
    let psp = Psp::on(Start::Cold);
    let image = sample(Kind::KEY_DATABASE);
    psp.rig.poke(system(RAM + 3 * MIB), &image);
    psp.rig.set(MP0_SMN_C2PMSG_36, 3);
    psp.rig.set(BOOTLOADER, KDB);
    psp.step().unwrap();
    assert_eq!(psp.get(BOOTLOADER), READY);
}

#[test]
fn rings() {
    let mut psp = Psp::on(Start::Cold);
    assert!(psp.make_ring(FB + MIB, 0x1000).is_err(), "no secure OS");
    assert!(psp.rig.gpu.write(MP0_SMN_C2PMSG_67, 16).is_err());
    psp.start_os();
    for (at, size) in [(FB + MIB + 0x800, 0x1000), (FB + MIB, 0x20), (FB + MIB, 0)] {
        let mut psp = Psp::on(Start::Warm);
        assert!(psp.make_ring(at, size).is_err(), "{size:#x} at {at:#x}");
    }
    psp.good_ring();
    assert_eq!(psp.get(MP0_SMN_C2PMSG_67), 0);
    assert_eq!(psp.make_ring(FB + MIB, 0x1000), Ok(7), "one is there");
    for pointer in [8, 0x400, 0x410] {
        let written = psp.rig.gpu.write(MP0_SMN_C2PMSG_67, pointer);
        assert!(written.is_err(), "{pointer:#x}");
    }
    psp.rig.set(CONTROL, 3 << 16);
    assert!(psp.rig.gpu.write(CONTROL, 2 << 16).is_err(), "busy");
    psp.step().unwrap();
    assert_eq!(psp.get(CONTROL), 0x8003_0000);
    assert!(psp.rig.gpu.write(MP0_SMN_C2PMSG_67, 16).is_err());
    psp.good_ring();
    let lines = psp.trace();
    let ring: Vec<_> = lines.iter().filter(|l| l.starts_with("ring")).collect();
    assert_eq!(
        ring,
        [
            "ring make 0x1000 0x0",
            "ring make 0x1000 0x7",
            "ring gone",
            "ring make 0x1000 0x0"
        ]
    );
}

#[test]
fn engines_need_firmware() {
    let psp = Psp::on(Start::Cold);
    for (reg, value) in [
        (f32_cntl(0), 0),
        (f32_cntl(4), 0),
        (gc::CP_MEC_CNTL, MEC_RUNS),
        (gc::RLC_CNTL, 1),
    ] {
        assert!(psp.rig.gpu.write(reg, value).is_err());
        // Their present values may be written.
        psp.rig.set(reg, psp.get(reg));
    }
    let clock = || {
        psp.rig.set(gc::RLC_CAPTURE_GPU_CLOCK_COUNT, 1);
        psp.get(gc::RLC_GPU_CLOCK_COUNT_LSB)
    };
    assert_eq!([clock(), clock()], [0, 0], "the clock stands");

    let mut psp = Psp::with_tmr(Start::Cold);
    let mut load = |number, kind| assert_eq!(psp.load(number, &sample(kind)).unwrap().status, 0);
    for number in [9, 10, 52, 53] {
        load(number, Kind::SDMA);
    }
    load(4, Kind::MEC);
    load(8, Kind::RLC);
    psp.rig.set(f32_cntl(3), 0);
    assert!(psp.rig.gpu.write(f32_cntl(4), 0).is_err());
    assert_eq!(
        psp.get(sdma::UCODE_ADDR),
        0,
        "who loads by registers leaves it"
    );
    assert!(psp.rig.gpu.write(gc::CP_MEC_CNTL, MEC_RUNS).is_err(), "RLC");
    psp.rig.set(gc::RLC_CNTL, 1);
    assert!(
        psp.rig.gpu.write(gc::CP_MEC_CNTL, MEC_RUNS).is_err(),
        "jump table"
    );
    assert_eq!(
        psp.load(5, &sample(Kind::MEC_JUMP_TABLE)).unwrap().status,
        0
    );
    psp.rig.set(gc::CP_MEC_CNTL, MEC_RUNS);
    assert_eq!(psp.get(gc::CP_MEC_ME1_UCODE_ADDR), 0);
    psp.rig.set(gc::CP_MEC_CNTL, 0x5000_0000);
    let lines = psp.trace();
    let engines: Vec<_> = lines.iter().filter(|l| l.starts_with("engine")).collect();
    assert_eq!(
        engines,
        [
            "engine sdma3 start",
            "engine rlc start",
            "engine mec start",
            "engine mec stop"
        ]
    );
    assert!(lines.contains(&"reg GC RLC_CNTL 0x0->0x1".to_string()));
    // Not for an engine that runs.
    assert!(psp.load(53, &sample(Kind::SDMA)).is_err());
}

#[test]
fn an_open_board_is_loaded_by_registers() {
    let psp = Psp::on(Start::Open);
    assert!(psp.rig.gpu.write(f32_cntl(1), 0).is_err());
    for reg in [
        Reg(SDMA_BASE[1] + sdma::UCODE_DATA.0 - SDMA_BASE[0]),
        gc::RLC_GPM_UCODE_DATA,
        gc::CP_MEC_ME1_UCODE_DATA,
    ] {
        psp.rig.set(reg, 7);
    }
    psp.rig.set(f32_cntl(1), 0);
    psp.rig.set(gc::RLC_CNTL, 1);
    psp.rig.set(gc::CP_MEC_CNTL, MEC_RUNS);
    let psp = Psp::on(Start::Cold);
    psp.rig.set(gc::RLC_GPM_UCODE_DATA, 7);
    assert!(psp.rig.gpu.write(gc::RLC_CNTL, 1).is_err());
}

#[test]
fn what_a_crashed_driver_leaves() {
    let mut psp = Psp::on(Start::Dirty);
    assert_eq!(psp.make_ring(FB + 32 * MIB, 0x1000), Ok(7));
    let kept = psp.rig.gpu.bus.view().write(vram(TMR), &[0]);
    assert!(kept.is_err(), "its TMR");
    psp.rig.set(CONTROL, 3 << 16);
    psp.step().unwrap();
    psp.good_ring();
    assert_eq!(psp.tmr(FB + 40 * MIB, TMR_SIZE, 2, 40 * MIB), Ok(0));
    psp.rig.poke(vram(TMR), &[0]);
}

#[test]
fn faults_of_the_bootloader() {
    let kdb = sample(Kind::KEY_DATABASE);
    let psp = Psp::with("no-flash", Start::Cold);
    assert_eq!(psp.get(FLASH), 0);
    let psp = Psp::with("no-bootloader", Start::Cold);
    assert_eq!(psp.get(BOOTLOADER), 0);
    assert!(psp.boot(KDB, &kdb).is_err());
    psp.rig.gpu.power_cycle(Start::Cold);
    assert_eq!(psp.get(BOOTLOADER), 0, "it stays");
    let psp = Psp::with("bootloader=sys:0x12", Start::Cold);
    assert_eq!(psp.boot(KDB, &kdb), Ok(READY));
    assert_eq!(psp.boot(SYS, &sample(Kind::SYS_DRIVER)), Ok(READY | 0x12));
    let psp = Psp::with("no-secure-os", Start::Cold);
    psp.boot(KDB, &kdb).unwrap();
    psp.boot(SYS, &sample(Kind::SYS_DRIVER)).unwrap();
    assert_eq!(psp.boot(SOS, &sample(Kind::SECURE_OS)), Ok(0));
    std::thread::sleep(std::time::Duration::from_millis(40));
    assert_eq!([psp.get(ALIVE), psp.get(ALIVE)], [0, 0]);
    let mut psp = Psp::with("ring=0x124", Start::Warm);
    assert_eq!(psp.make_ring(FB + 32 * MIB, 0x1000), Ok(0x124));
    psp.rig.gpu.psp.add_fault(&psp.rig.gpu, "none").unwrap();
    psp.good_ring();
}

#[test]
fn what_was_loaded_before_needs_the_rlc_too() {
    let psp = Psp::on(Start::Warm);
    psp.rig.set(gc::RLC_CNTL, 0);
    assert!(psp.rig.gpu.write(gc::CP_MEC_CNTL, MEC_RUNS).is_err());
    psp.rig.set(gc::RLC_CNTL, 1);
    psp.rig.set(gc::CP_MEC_CNTL, MEC_RUNS);
}

#[test]
fn faults_that_hang() {
    let kdb = sample(Kind::KEY_DATABASE);
    let psp = Psp::with("bootloader-hangs=sys", Start::Cold);
    assert_eq!(psp.boot(KDB, &kdb), Ok(READY));
    assert_eq!(psp.boot(SYS, &sample(Kind::SYS_DRIVER)), Ok(SYS));
    let psp = Psp::with("ring-hangs", Start::Warm);
    psp.rig.set(CONTROL, 3 << 16);
    psp.step().unwrap();
    assert_eq!(psp.get(CONTROL), 3 << 16);
    let psp = Psp::with("dead=rlc", Start::Warm);
    psp.rig.set(gc::RLC_CAPTURE_GPU_CLOCK_COUNT, 1);
    assert_eq!(psp.get(gc::RLC_GPU_CLOCK_COUNT_LSB), 0, "the clock stands");
}
