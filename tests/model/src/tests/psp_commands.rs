// SPDX-License-Identifier: GPL-2.0
//! The secure OS's commands and their answers.

use super::psp_rig::*;
use super::rig::*;
use crate::psp::commands::{BAD_PARAMETERS, BAD_STATE, CANCEL, SECURITY, UNKNOWN_COMMAND};
use crate::psp::engines::Engine;
use crate::psp::image::{self, Kind};
use crate::psp::start::Start;
use crate::regs::sdma;

#[test]
fn firmware_in_order() {
    let mut psp = Psp::with_ring(Start::Cold);
    assert_eq!(psp.load(9, &sample(Kind::SDMA)).unwrap().status, BAD_STATE);
    assert_eq!(psp.load(18, &sample(Kind::SMU)).unwrap().status, 0);
    assert_eq!(psp.set_up_tmr(), Ok(0));
    let mut places = Vec::new();
    for (number, kind) in [
        (9, Kind::SDMA),
        (54, Kind::SDMA),
        (4, Kind::MEC),
        (5, Kind::MEC_JUMP_TABLE),
        (22, Kind::RLC_LIST_CNTL),
        (20, Kind::RLC_LIST_GPM),
        (21, Kind::RLC_LIST_SRM),
        (8, Kind::RLC),
    ] {
        let answer = psp.load(number, &sample(kind)).unwrap();
        assert_eq!((answer.status, answer.fence), (0, true), "{number}");
        places.push(answer.address);
    }
    assert!(places.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(places[0] == FB + TMR);
    let list = image::make(Kind::REGISTER_LIST, 1, 0x15c0, false);
    assert_eq!(psp.load(67, &list).unwrap().status, 0);
    assert_eq!(psp.load(67, &list).unwrap().status, CANCEL);
    let lines = psp.trace();
    assert!(
        lines.contains(&"tmr 0x800000 0x1000000".to_string()),
        "{lines:?}"
    );
    let hash = image::digest(&list);
    let line = format!("psp LOAD_IP_FW 67 0x15c0 {hash:016x} 0xffff0002");
    assert_eq!(lines.last(), Some(&line));
}

#[test]
fn refused_images() {
    let mut psp = Psp::with_tmr(Start::Warm);
    let image = sample(Kind::RLC);
    for (name, at) in [
        ("magic", 0x11),
        ("body", 0x300),
        ("size", 0x6c),
        ("signature", 0xe00),
    ] {
        let mut bad = image.clone();
        bad[at] ^= 0x40;
        assert_eq!(psp.load(8, &bad).unwrap().status, SECURITY, "{name}");
    }
    assert_eq!(psp.load(8, &sample(Kind::MEC)).unwrap().status, SECURITY);
    assert_eq!(psp.load(8, &image[..0xff0]).unwrap().status, SECURITY);
    assert_eq!(psp.load(8, &[]).unwrap().status, SECURITY);
    assert_eq!(psp.load(3, &image).unwrap().status, BAD_PARAMETERS);
    psp.rig.poke(vram(40 * MIB + 0x80), &image);
    let unaligned = psp.load_at(8, FB + 40 * MIB + 0x80, image.len() as u32);
    assert_eq!(unaligned.unwrap().status, BAD_PARAMETERS);
    assert_eq!(psp.load(8, &image).unwrap().status, 0);
    // An address without memory is no status.
    assert!(psp.load_at(8, 0x7fff_0000_0000, 0x1000).is_err());
}

#[test]
fn firmware_that_crashed_is_loaded_again() {
    let mut psp = Psp::with_tmr(Start::Warm);
    let is_dead = |psp: &Psp| psp.rig.gpu.psp.is_dead(Engine::Sdma(1));
    for engine in 0..2 {
        psp.rig.set(sdma::F32_CNTL.of_sdma(engine), 1);
    }
    crate::control::command(&psp.rig.gpu, "crash sdma1").unwrap();
    assert_eq!(psp.load(9, &sample(Kind::SDMA)).unwrap().status, 0);
    assert!(is_dead(&psp), "that was another");
    assert_eq!(psp.load(10, &sample(Kind::SDMA)).unwrap().status, 0);
    assert!(!is_dead(&psp));
}

#[test]
fn firmware_from_system_memory() {
    let mut psp = Psp::with_tmr(Start::Warm);
    let image = sample(Kind::RLC);
    psp.rig.poke(system(RAM + 5 * MIB), &image);
    assert_eq!(
        psp.load_at(8, 5 * MIB, image.len() as u32).unwrap().status,
        0
    );
}

#[test]
fn regions() {
    let mut psp = Psp::with_ring(Start::Warm);
    let end = VRAM - u64::from(TMR_SIZE);
    for (name, at, size, flags, physical) in [
        ("not aligned", TMR + 0x800, TMR_SIZE, 2, TMR + 0x800),
        ("too small", TMR, TMR_SIZE / 2, 2, TMR),
        ("past the end", end + 0x1000, TMR_SIZE, 2, end + 0x1000),
        ("another physical address", TMR, TMR_SIZE, 2, TMR + 0x1000),
        ("no physical address", TMR, TMR_SIZE, 0, TMR),
        ("a virtual function's", TMR, TMR_SIZE, 3, TMR),
    ] {
        let status = psp.tmr(FB + at, size, flags, physical);
        assert_eq!(status, Ok(BAD_PARAMETERS), "{name}");
    }
    assert_eq!(
        psp.tmr(RAM, TMR_SIZE, 2, RAM),
        Ok(BAD_PARAMETERS),
        "system memory"
    );
    assert_eq!(
        psp.command(7, &[]).unwrap().status,
        BAD_STATE,
        "there is none"
    );
    assert_eq!(psp.set_up_tmr(), Ok(0));
    assert_eq!(psp.set_up_tmr(), Ok(BAD_STATE), "twice");
    assert_eq!(psp.command(7, &[]).unwrap().status, 0);
    assert_eq!(psp.command(7, &[]).unwrap().status, BAD_STATE);
}

#[test]
fn a_region_is_the_psps_alone() {
    let mut psp = Psp::with_tmr(Start::Warm);
    let view = |psp: &Psp, at: u64, len: usize| {
        let mut data = vec![0; len];
        let gpu = &psp.rig.gpu;
        let read = gpu.bus.view().read(vram(at), &mut data);
        read.and(gpu.bus.view().write(vram(at), &data))
    };
    let last = TMR + u64::from(TMR_SIZE) - 1;
    for (at, len) in [(TMR, 1), (last, 1), (TMR - 1, 2), (last, 2)] {
        assert!(view(&psp, at, len).is_err(), "{len} bytes at {at:#x}");
    }
    for at in [TMR - 1, last + 1] {
        assert!(view(&psp, at, 1).is_ok(), "{at:#x}");
    }
    // An engine of the kernel's.
    let mut ring = psp.rig.ring(0, 0, 0);
    psp.rig
        .submit(&mut ring, &copy(FB + TMR, FB + 60 * MIB, 64));
    assert!(psp.rig.drain(0).is_err());
    // By a mapping of BAR0, which only the next command notices.
    assert_eq!(psp.command(0x20, &[]).unwrap().status, 0);
    let gpu = psp.rig.gpu.clone();
    gpu.bus.trusted(TMR + 0x12_3456, 1).write(&[0]);
    assert!(psp.command(0x20, &[]).is_err());
}

#[test]
fn after_it_is_destroyed_it_is_memory() {
    let mut psp = Psp::with_tmr(Start::Warm);
    assert_eq!(psp.command(7, &[]).unwrap().status, 0);
    psp.rig.poke(vram(TMR), &[1; 4096]);
    assert_eq!(psp.set_up_tmr(), Ok(0));
    psp.rig.gpu.power_cycle(Start::Cold);
    psp.rig.poke(vram(TMR), &[1; 4096]);
}

#[test]
fn other_commands() {
    let mut psp = Psp::with_ring(Start::Warm);
    let toc = psp.command(0x20, &[0, 0, 0]).unwrap();
    assert_eq!((toc.status, toc.tmr_size), (0, TMR_SIZE));
    for id in [0, 4, 8, 0x21, 0x22, !0] {
        assert_eq!(
            psp.command(id, &[]).unwrap().status,
            UNKNOWN_COMMAND,
            "{id:#x}"
        );
    }
}

#[test]
fn a_ring_wraps() {
    let mut psp = Psp::with_ring(Start::Warm);
    for n in 0..130 {
        let answer = psp.command(0x20, &[]).unwrap();
        assert!(answer.fence, "command {n}");
    }
}

#[test]
fn frames_and_pages_that_are_not() {
    let page = vec![0; 256];
    let fence = lo(FB + 33 * MIB + 0x2000);
    let frame = [lo(FB + 33 * MIB + 0x1000), hi(FB), 0, fence, hi(FB), 1];
    for (name, n, value) in [
        ("page not aligned", 0, frame[0] + 0x40),
        ("fence not aligned", 3, fence + 2),
        ("page out of the way", 1, 0x7fff),
    ] {
        let mut psp = Psp::with_ring(Start::Warm);
        let mut bad = frame;
        bad[n] = value;
        assert!(psp.raw(&page, &bad).is_err(), "{name}");
    }
    let mut psp = Psp::with_ring(Start::Warm);
    let mut long = [0; 9];
    long[..6].copy_from_slice(&frame);
    long[8] = 1;
    assert!(psp.raw(&page, &long).is_err(), "a VMID");
    let mut psp = Psp::with_ring(Start::Warm);
    let mut user = page.clone();
    user[3] = 0x1000;
    assert!(psp.raw(&user, &frame).is_err(), "a user ring's answer");
}

#[test]
fn faults_of_commands() {
    let mut psp = Psp::with("status=2:0xffff300f", Start::Warm);
    let gpu = psp.rig.gpu.clone();
    gpu.psp.add_fault(&gpu, "no-fence=3").unwrap();
    psp.good_ring();
    assert_eq!(psp.set_up_tmr(), Ok(0));
    let refused = psp.load(8, &sample(Kind::RLC)).unwrap();
    assert_eq!((refused.status, refused.fence), (0xffff_300f, true));
    let silent = psp.load(8, &sample(Kind::RLC)).unwrap();
    assert_eq!((silent.status, silent.fence), (0, false));
    assert!(psp.load(8, &sample(Kind::RLC)).unwrap().fence);
}
