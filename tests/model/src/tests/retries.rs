// SPDX-License-Identifier: GPL-2.0
//! Accesses that are retried, and the events that end that.

use std::time::{Duration, Instant};

use super::rig::*;
use crate::control;
use crate::regs::gc::{self, vm_context0_cntl as context};
use crate::regs::osssys::{self, ih_doorbell_rptr, ih_retry_int_cam_cntl as cam_cntl};
use crate::regs::sdma::{self, f32_cntl};
use crate::regs::{Reg, MMHUB_DELTA};

const VA: u64 = 0x1234_5000_0000;
const NO_RETRY: u64 = 1 << 51 | SYSTEM | VALID;
const RETRY: u32 = 1 << 7;
/// The CAM's doorbell, dword index.
const CAM_DOORBELL: u32 = IH_DOORBELL + 6;

/// A rig with a user queue of VMID 8, whose context retries, and a page mapped.
fn rig(cam: bool) -> (Rig, Ring) {
    let mut rig = Rig::new();
    let ring = rig.ring(0, 1, 8);
    rig.map(8, VA, vram(0x10_0000), 4096, RW);
    let control = Reg(gc::VM_CONTEXT0_CNTL.0 + 8 + MMHUB_DELTA);
    let retry = context::RETRY_PERMISSION_OR_INVALID_PAGE_FAULT;
    rig.set(control, retry.put(rig.get(control), 1));
    rig.set(
        osssys::IH_DOORBELL_RETRY_CAM,
        ih_doorbell_rptr::OFFSET.of(CAM_DOORBELL) | ih_doorbell_rptr::ENABLE.of(1),
    );
    rig.set(
        osssys::IH_RETRY_INT_CAM_CNTL,
        cam_cntl::ENABLE.of(cam.into()),
    );
    (rig, ring)
}

fn acknowledge(rig: &Rig, place: u32) {
    let byte = u64::from(CAM_DOORBELL) * 4;
    let data = place.to_le_bytes();
    rig.gpu.nbio.doorbell(&rig.gpu, byte, &data).unwrap();
}

fn wait(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Makes the queue execute `packet`, which stalls, and calls `meanwhile`.
fn stalled(rig: &mut Rig, ring: &mut Ring, packet: &[u32], meanwhile: impl FnOnce(&mut Rig)) {
    rig.submit(ring, packet);
    let gpu = rig.gpu.clone();
    let before = gpu.summary.retry_faults.get();
    let engine = std::thread::spawn(move || while gpu.sdma[0].step(&gpu).unwrap() {});
    let gpu = rig.gpu.clone();
    wait("a stall", || gpu.summary.retry_faults.get() > before + 3);
    assert!(!engine.is_finished());
    meanwhile(rig);
    wait("the end", || engine.is_finished());
    engine.join().unwrap();
}

#[test]
fn goes_on_when_the_page_is_mapped() {
    let (mut rig, mut ring) = rig(true);
    rig.poke(vram(0x10_0000), b"as it was");
    stalled(&mut rig, &mut ring, &copy(VA + 0x1000, VA, 9), |rig| {
        // Nothing holds what is to be flushed.
        rig.flush(8);
        rig.map(8, VA + 0x1000, vram(0x20_0000), 4096, RW);
    });
    assert_eq!(rig.peek(vram(0x20_0000), 9), b"as it was");
    // Not valid, a write, and again.
    assert_eq!(rig.iv_head(0), [0x12, 0, 0x28, 8]);
    assert_eq!(rig.iv(0)[4], lo((VA + 0x1000) >> 12));
    assert_eq!(rig.iv(0)[5], hi((VA + 0x1000) >> 12) & 0xf | RETRY | 1 << 5);
    assert_eq!(rig.ih_entries(), 1);
    assert_eq!(rig.gpu.summary.faults.get(), 0);
}

#[test]
fn a_pte_ends_it() {
    let (mut rig, mut ring) = rig(true);
    rig.poke(vram(0x10_0000), &[0xff; 4]);
    stalled(&mut rig, &mut ring, &copy(VA, VA + 0x3000, 4), |rig| {
        let entry = rig.entry(8, VA + 0x3000);
        rig.poke64(entry, NO_RETRY);
        acknowledge(rig, rig.iv(0)[6]);
    });
    assert_eq!(rig.peek32(vram(0x10_0000)), 0);
    // One of each kind, the second for good.
    assert_eq!(rig.iv(0)[5] & 0xf0, RETRY | 1 << 6);
    assert_eq!(rig.iv(1)[5] & 0xf0, 1 << 6);
    assert_eq!(rig.ih_entries(), 2);
    assert_eq!(rig.gpu.summary.faults.get(), 1);
}

#[test]
fn permissions_are_waited_for() {
    let (mut rig, mut ring) = rig(true);
    rig.map(8, VA + 0x1000, vram(0x20_0000), 4096, READ);
    stalled(&mut rig, &mut ring, &fence(VA + 0x1000, 7), |rig| {
        assert_eq!(rig.peek32(vram(0x20_0000)), 0);
        // Without a flush: each try walks the tables.
        rig.map(8, VA + 0x1000, vram(0x20_0000), 4096, RW);
    });
    assert_eq!(rig.peek32(vram(0x20_0000)), 7);
    assert_eq!(rig.iv_head(0), [0x12, 0, 0x20, 8]);
}

#[test]
fn the_hole_is_not_retried() {
    let (rig, mut ring) = rig(true);
    rig.run(&mut ring, &fence(1 << 50, 1));
    assert_eq!(rig.iv(0)[5] & RETRY, 0);
    assert_eq!(rig.gpu.summary.retry_faults.get(), 0);
}

#[test]
fn an_acknowledged_fault_is_raised_again() {
    let (mut rig, mut ring) = rig(true);
    stalled(&mut rig, &mut ring, &fence(VA + 0x1000, 7), |rig| {
        assert_eq!(rig.ih_entries(), 1);
        let gpu = rig.gpu.clone();
        acknowledge(rig, rig.iv(0)[6]);
        wait("another entry", || gpu.summary.ivs.get() == 2);
        rig.map(8, VA + 0x1000, vram(0x20_0000), 4096, RW);
    });
    assert_eq!(rig.ih_entries(), 2);
    assert_eq!(rig.gpu.summary.cam_idle_acks.get(), 0);
    assert_ne!(rig.gpu.summary.cam_hits.get(), 0);
}

#[test]
fn without_the_cam_there_is_a_flood() {
    for how in [None, Some("retry-cam off")] {
        let (mut rig, mut ring) = rig(how.is_some());
        if let Some(line) = how {
            control::command(&rig.gpu, line).unwrap();
        }
        stalled(&mut rig, &mut ring, &fence(VA + 0x1000, 7), |rig| {
            let gpu = rig.gpu.clone();
            wait("a flood", || gpu.summary.ih_overflows.get() > 0);
            rig.map(8, VA + 0x1000, vram(0x20_0000), 4096, RW);
        });
        assert_eq!(rig.gpu.summary.cam_hits.get(), 0);
        assert_eq!(rig.peek32(vram(0x20_0000)), 7);
    }
}

#[test]
fn a_reset_of_the_engine_ends_it() {
    let (mut rig, mut ring) = rig(true);
    let rptr = Rig::queue_reg(0, 1, sdma::GFX_RB_RPTR);
    let before = rig.get(rptr);
    stalled(&mut rig, &mut ring, &fence(VA + 0x1000, 7), |rig| {
        let reset = f32_cntl::HALT.of(1) | f32_cntl::RESET.of(1);
        rig.set(sdma::F32_CNTL, reset);
    });
    assert_eq!(rig.get(rptr), before);
    assert_eq!(rig.gpu.summary.faults.get(), 0);
}
