// SPDX-License-Identifier: GPL-2.0
//! Rings, doorbells and turns.

use std::time::Duration;

use super::rig::*;
use crate::control::command;
use crate::hub::HubId;
use crate::psp::start::Start;
use crate::regs::sdma::{
    self, f32_cntl, gfx_context_status as status, gfx_doorbell, CNTL, F32_CNTL,
};
use crate::regs::{gc, nbio, Reg, MMHUB_DELTA};

const VA: u64 = 0x1_0000_0000;
const AT: u64 = 0x10_0000;

fn idle(rig: &Rig, ring: &Ring) -> bool {
    status::IDLE.is_set(rig.get_queue(ring, sdma::GFX_CONTEXT_STATUS))
}

#[test]
fn rings_wrap_and_pointers_do_not() {
    let mut rig = Rig::new();
    let mut ring = rig.ring(0, 0, 0);
    for n in 0..1000 {
        rig.run(&mut ring, &fence(FB + AT, n));
        assert_eq!(rig.peek32(vram(AT)), n);
    }
    assert_eq!(rig.rptr(&ring), 16_000);
    // A packet across the end of the ring.
    rig.run(&mut ring, &[0; 90]);
    rig.run(&mut ring, &[&[0; 5][..], &fence(FB + AT, 7777)].concat());
    assert_eq!(rig.peek32(vram(AT)), 7777);
}

#[test]
fn doorbell_halves() {
    let mut rig = Rig::new();
    let mut ring = rig.ring(0, 1, 8);
    rig.map(8, VA, vram(AT), 4096, RW);
    let byte = u64::from(ring.doorbell) * 4;
    rig.set(nbio::RCC_DOORBELL_APER_EN, 0);
    rig.set(nbio::RCC_DOORBELL_APER_EN, 1);
    for (n, word) in fence(VA, 4).iter().enumerate() {
        rig.poke(vram(ring.vram + n as u64 * 4), &word.to_le_bytes());
    }
    let ring_half = |at: u64, half: u32| {
        rig.gpu
            .nbio
            .doorbell(&rig.gpu, at, &half.to_le_bytes())
            .unwrap();
    };
    ring_half(byte, 16);
    rig.drain(0).unwrap();
    assert_eq!(rig.peek32(vram(AT)), 0);
    ring_half(byte + 4, 0);
    rig.drain(0).unwrap();
    assert_eq!(rig.peek32(vram(AT)), 4);
    ring.wptr = 16;
    rig.run(&mut ring, &fence(VA, 5));
    assert_eq!(rig.gpu.summary.doorbells_sdma.get(), 2);
}

#[test]
fn an_engine_reports_doorbells_that_are_not_whole() {
    let mut rig = Rig::new();
    let base = u64::from(rig.ring(2, 1, 8).doorbell) * 4;
    let store = |at: u64, data: &[u8]| rig.gpu.nbio.doorbell(&rig.gpu, at, data).unwrap();
    store(base, &[0; 8]);
    assert_eq!(rig.ih_entries(), 0);
    // In any page, and in no queue's place.
    store(base, &[0; 4]);
    store(base + 8 + 4, &[0; 4]);
    store(base + 4096 + 1, &[0; 1]);
    store(base + 3 * 4096 + 4, &[0; 8]);
    assert_eq!(rig.ih_entries(), 4);
    for n in 0..4 {
        assert_eq!(rig.iv_head(n), [1, 244, 0, 0]);
    }
    // The command processor says nothing.
    store(4096 + 0x58, &[0; 4]);
    assert_eq!(rig.ih_entries(), 4);
}

#[test]
fn doorbells_of_nobody() {
    let mut rig = Rig::new();
    let ring = rig.ring(0, 1, 8);
    let other = Ring {
        doorbell: ring.doorbell + 2,
        ..ring
    };
    rig.doorbell(&other, 16);
    // The command processor's part of the page.
    rig.doorbell(
        &Ring {
            doorbell: 0x1000,
            ..ring
        },
        16,
    );
    assert_eq!(rig.gpu.summary.doorbells_unattached.get(), 2);
    assert_eq!(rig.rptr(&ring), 0);
}

#[test]
fn write_pointer_by_register() {
    let mut rig = Rig::new();
    let ring = rig.ring(2, 0, 0);
    for (n, word) in fence(FB + AT, 4).iter().enumerate() {
        rig.poke(vram(ring.vram + n as u64 * 4), &word.to_le_bytes());
    }
    rig.set_queue(&ring, sdma::GFX_RB_WPTR, 16);
    rig.set_queue(&ring, sdma::GFX_RB_WPTR_HI, 0);
    rig.drain(2).unwrap();
    assert_eq!(rig.peek32(vram(AT)), 4);
    // Going back needs MINOR_PTR_UPDATE.
    rig.set_queue(&ring, sdma::GFX_RB_WPTR, 0);
    let hi = Rig::queue_reg(2, 0, sdma::GFX_RB_WPTR_HI);
    assert!(rig.gpu.write(hi, 0).is_err());
}

#[test]
fn minor_pointer_update_keeps_a_doorbell() {
    let mut rig = Rig::new();
    let mut ring = rig.ring(0, 1, 8);
    rig.map(8, VA, vram(AT), 4096, RW);
    rig.run(&mut ring, &fence(VA, 1));
    rig.enable(&ring, false);
    rig.set_queue(&ring, sdma::GFX_RB_RPTR, 0);
    rig.set_queue(&ring, sdma::GFX_MINOR_PTR_UPDATE, 1);
    rig.enable(&ring, true);
    rig.poke(vram(AT), &[0; 4]);
    rig.doorbell(&ring, 16);
    rig.set_queue(&ring, sdma::GFX_RB_WPTR, 0);
    rig.set_queue(&ring, sdma::GFX_RB_WPTR_HI, 0);
    rig.drain(0).unwrap();
    assert_eq!(rig.peek32(vram(AT)), 0);
    rig.set_queue(&ring, sdma::GFX_MINOR_PTR_UPDATE, 0);
    rig.drain(0).unwrap();
    assert_eq!(rig.peek32(vram(AT)), 1);
}

#[test]
fn a_packet_waits_for_its_end() {
    let mut rig = Rig::new();
    let mut ring = rig.ring(0, 1, 8);
    rig.map(8, VA, vram(AT), 4096, RW);
    let words = fence(VA, 3);
    rig.submit(&mut ring, &words[..2]);
    rig.drain(0).unwrap();
    assert_eq!(rig.rptr(&ring), 0);
    rig.run(&mut ring, &words[2..]);
    assert_eq!(rig.peek32(vram(AT)), 3);
}

#[test]
fn a_write_pointer_beyond_the_ring_is_refused() {
    let mut rig = Rig::new();
    let ring = rig.ring(0, 1, 8);
    rig.doorbell(&ring, RING + 4);
    rig.drain(0).unwrap();
    assert_eq!(rig.ih_entries(), 0);
    assert_eq!(rig.get_queue(&ring, sdma::GFX_CONTEXT_STATUS) >> 4 & 7, 4);
    let kernel = rig.ring(0, 0, 0);
    rig.doorbell(&kernel, RING + 4);
    assert!(rig.drain(0).is_err());
}

#[test]
fn a_doorbell_below_the_write_pointer() {
    let mut rig = Rig::new();
    for vmid in [0, 8] {
        let mut ring = rig.ring(0, usize::from(vmid != 0), vmid);
        rig.run(&mut ring, &[0, 0, 0]);
        let byte = u64::from(ring.doorbell) * 4;
        let result = rig
            .gpu
            .nbio
            .doorbell(&rig.gpu, byte, &[4, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(result.is_err(), vmid == 0);
        rig.drain(0).unwrap();
        assert_eq!(rig.rptr(&ring), 12);
    }
}

#[test]
fn a_ring_that_is_gone_stops_the_queue() {
    let mut rig = Rig::new();
    let mut ring = rig.ring(0, 1, 8);
    let entry = rig.entry(8, 0x7f00_0000_0000 + ring.vram);
    rig.poke64(entry, 0);
    rig.submit(&mut ring, &[0; 64]);
    rig.drain(0).unwrap();
    assert_eq!(rig.ih_entries(), 1);
    assert_eq!(rig.iv_head(0)[0], 0x12);
    assert_eq!(rig.get_queue(&ring, sdma::GFX_CONTEXT_STATUS) >> 4 & 7, 3);
}

#[test]
fn user_queues_need_context_switching_and_the_engine_running() {
    let mut rig = Rig::new();
    let mut ring = rig.ring(0, 3, 8);
    rig.map(8, VA, vram(AT), 4096, RW);
    rig.set(CNTL, 1);
    rig.submit(&mut ring, &fence(VA, 1));
    rig.drain(0).unwrap();
    assert_eq!(rig.peek32(vram(AT)), 0);
    rig.set(CNTL, 1 | 1 << 18);
    rig.set(F32_CNTL, 1);
    rig.drain(0).unwrap();
    assert_eq!(rig.peek32(vram(AT)), 0);
    rig.set(F32_CNTL, 0);
    rig.drain(0).unwrap();
    assert_eq!(rig.peek32(vram(AT)), 1);
}

#[test]
fn a_queue_that_polls_blocks_nobody() {
    let mut rig = Rig::new();
    rig.map_large(8, VA, 0, RW);
    rig.map_large(9, VA, 0, RW);
    let mut polling: Vec<Ring> = (1..8).map(|queue| rig.ring(1, queue, 8)).collect();
    let mut other = rig.ring(1, 8, 9);
    let mut kernel = rig.ring(1, 0, 0);
    rig.gpu.start();
    for (n, ring) in polling.iter_mut().enumerate() {
        rig.submit(ring, &poll(VA + AT, 1));
        rig.submit(ring, &fence(VA + AT + 64 + n as u64 * 4, 1));
    }
    for n in 1..50 {
        rig.submit(&mut other, &fence(VA + AT + 8, n));
        rig.submit(&mut kernel, &fence(FB + AT + 16, n));
        eventually("others run", || {
            rig.peek32(vram(AT + 8)) == n && rig.peek32(vram(AT + 16)) == n
        });
    }
    assert!(polling.iter().all(|ring| rig.rptr(ring) == 0));
    rig.poke(vram(AT), &[1]);
    eventually("polls end", || {
        (0..7).all(|n| rig.peek32(vram(AT + 64 + n * 4)) == 1)
    });
}

#[test]
fn a_queue_can_be_taken_off_in_the_middle_of_a_poll() {
    let mut rig = Rig::new();
    rig.map_large(8, VA, 0, RW);
    let mut ring = rig.ring(0, 1, 8);
    rig.gpu.start();
    rig.submit(&mut ring, &fence(VA + AT + 4, 1));
    rig.submit(&mut ring, &poll(VA + AT, 1));
    rig.submit(&mut ring, &fence(VA + AT + 8, 1));
    eventually("poll reached", || rig.rptr(&ring) == 16);
    assert!(!idle(&rig, &ring));
    rig.enable(&ring, false);
    eventually("idle", || idle(&rig, &ring));
    assert_eq!(rig.rptr(&ring), 16);
    // Onto another slot of the same engine, where it goes on.
    let va = 0x7f00_0000_0000 + ring.vram;
    let moved = Ring { queue: 4, ..ring };
    rig.set_queue(&moved, sdma::GFX_RB_BASE, (va >> 8) as u32);
    rig.set_queue(&moved, sdma::GFX_RB_BASE_HI, (va >> 40) as u32);
    rig.set_queue(&moved, sdma::GFX_RB_RPTR_ADDR_LO, lo(va + RING));
    rig.set_queue(&moved, sdma::GFX_RB_RPTR_ADDR_HI, hi(va + RING));
    rig.set_queue(&moved, sdma::GFX_RB_RPTR, 16);
    rig.set_queue(&moved, sdma::GFX_MINOR_PTR_UPDATE, 1);
    rig.set_queue(&moved, sdma::GFX_RB_WPTR, ring.wptr as u32);
    rig.set_queue(&moved, sdma::GFX_MINOR_PTR_UPDATE, 0);
    rig.set_queue(&moved, sdma::GFX_DOORBELL, gfx_doorbell::ENABLE.of(1));
    rig.enable(&moved, true);
    rig.poke(vram(AT), &[1]);
    eventually("resumed", || rig.peek32(vram(AT + 8)) == 1);
}

#[test]
fn an_enabled_queue_without_a_doorbell_does_not_run() {
    let mut rig = Rig::new();
    rig.map_large(8, VA, 0, RW);
    let mut ring = rig.ring(0, 1, 8);
    rig.enable(&ring, false);
    rig.submit(&mut ring, &fence(VA + AT, 1));
    rig.set_queue(&ring, sdma::GFX_DOORBELL, 0);
    rig.enable(&ring, true);
    rig.drain(0).unwrap();
    assert!(idle(&rig, &ring));
    assert_eq!(rig.rptr(&ring), 0);
    rig.set_queue(&ring, sdma::GFX_DOORBELL, gfx_doorbell::ENABLE.of(1));
    rig.drain(0).unwrap();
    assert_eq!(rig.peek32(vram(AT)), 1);
}

#[test]
fn turns_within_a_long_list() {
    let mut rig = Rig::new();
    rig.map_large(8, VA, 0, RW);
    rig.map_large(8, VA + 2 * MIB, 2 * MIB, RW);
    let mut long = rig.ring(0, 1, 8);
    let mut short = rig.ring(0, 2, 8);
    // 100 copies of 1 MiB take far longer than a turn.
    let words: Vec<u32> = (0..100).flat_map(|_| copy(VA + 2 * MIB, VA, MIB)).collect();
    rig.submit(&mut long, &words);
    rig.submit(&mut short, &fence(VA + AT, 1));
    let mut steps = 0;
    while rig.peek32(vram(AT)) == 0 {
        rig.gpu.sdma[0].step(&rig.gpu).unwrap();
        steps += 1;
    }
    assert!(steps < 90, "{steps} packets before the other queue's turn");
}

#[test]
fn engines_run_at_the_same_time() {
    let mut rig = Rig::new();
    rig.map_large(8, VA, 0, RW);
    let mut rings: Vec<Ring> = (0..5).map(|engine| rig.ring(engine, 1, 8)).collect();
    rig.gpu.start();
    // Each waits for the next one's fence; the last is free.
    for (n, ring) in rings.iter_mut().enumerate() {
        let flag = |n: u64| VA + AT + n * 4;
        if n < 4 {
            rig.submit(ring, &poll(flag(n as u64 + 1), 1));
        }
        rig.submit(ring, &fence(flag(n as u64), 1));
    }
    eventually("all", || rig.peek32(vram(AT)) == 1);
}

#[test]
fn pause_and_resume() {
    let mut rig = Rig::new();
    let mut ring = rig.ring(0, 0, 0);
    rig.gpu.start();
    assert_eq!(command(&rig.gpu, "pause 0"), Ok(String::new()));
    rig.submit(&mut ring, &fence(FB + AT, 1));
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(rig.peek32(vram(AT)), 0);
    assert_eq!(command(&rig.gpu, "resume 0"), Ok(String::new()));
    eventually("resumed", || rig.peek32(vram(AT)) == 1);
    assert!(command(&rig.gpu, "pause 5").is_err());
    assert!(command(&rig.gpu, "nonsense").is_err());
    assert!(command(&rig.gpu, "summary").unwrap().starts_with('{'));
    assert_eq!(command(&rig.gpu, "count packets.FENCE"), Ok("1".into()));
    assert_eq!(command(&rig.gpu, "count packets.*"), Ok("1".into()));
    assert_eq!(
        command(&rig.gpu, "count packets.COPY* packets.*"),
        Ok("0 1".into())
    );
    for wrong in [
        "packets.FENCES",
        "packet.*",
        "packets",
        "packets.FENCE packets.FENCES",
        "engines.*",
        "firmware.*",
    ] {
        assert!(command(&rig.gpu, &format!("count {wrong}")).is_err());
    }
}

#[test]
fn reset_stops_the_queues() {
    let mut rig = Rig::new();
    let mut ring = rig.ring(3, 0, 0);
    rig.gpu.start();
    rig.submit(&mut ring, &poll(FB + AT, 1));
    rig.gpu.reset();
    assert_eq!(rig.rptr(&ring), 0);
    let f32_cntl = F32_CNTL.of_sdma(3);
    assert_eq!(rig.get(f32_cntl), 1);
    assert!(idle(&rig, &ring));
}

#[test]
fn a_flush_waits_for_the_users_of_old_translations() {
    // A copy runs back and forth while its pages are unmapped one after the other: after the flush
    // of a page the engine never writes to it again.
    let mut rig = Rig::new();
    let mut ring = rig.ring(0, 1, 8);
    for n in 0..8 {
        rig.map_large(8, VA + n * 2 * MIB, n * 2 * MIB, RW);
    }
    rig.poke(vram(0), &vec![0x55; 2 * MIB as usize]);
    rig.gpu.start();
    let words: Vec<u32> = (0..100)
        .flat_map(|n| copy(VA + (1 + n % 7) * 2 * MIB, VA, 2 * MIB))
        .collect();
    rig.submit(&mut ring, &words);
    for n in 1..8u64 {
        let first = rig.entry_large(8, VA + n * 2 * MIB);
        rig.poke64(first, 0);
        rig.flush(8);
        rig.poke(vram(n * 2 * MIB), &vec![0xaa; 2 * MIB as usize]);
    }
    eventually("all copies", || rig.rptr(&ring) == ring.wptr);
    for n in 1..8 {
        assert!(rig
            .peek(vram(n * 2 * MIB), 2 * MIB)
            .iter()
            .all(|&b| b == 0xaa));
    }
}

#[test]
fn only_a_heavyweight_flush_waits() {
    let rig = Rig::new();
    let hub = rig.gpu.hub(HubId::Mm);
    let (send, done) = std::sync::mpsc::channel();
    std::thread::scope(|threads| {
        let held = hub.hold();
        threads.spawn(|| {
            for kind in [0, HEAVYWEIGHT] {
                rig.flush_as(8, kind);
                send.send(kind).unwrap();
            }
        });
        assert_eq!(done.recv(), Ok(0));
        assert!(done.recv_timeout(Duration::from_millis(50)).is_err());
        drop(held);
        assert_eq!(done.recv(), Ok(HEAVYWEIGHT));
    });
    let ack = Reg(gc::VM_INVALIDATE_ENG17_ACK.0 + MMHUB_DELTA);
    rig.set(Reg(gc::VM_INVALIDATE_ENG17_REQ.0 + MMHUB_DELTA), 0);
    let request = Reg(gc::VM_INVALIDATE_ENG17_REQ.0 + MMHUB_DELTA);
    for kind in [LIGHTWEIGHT, 3] {
        let error = rig.gpu.write(request, kind << 16 | 1).unwrap_err();
        assert!(error.to_string().contains("FLUSH_TYPE"), "{error}");
    }
    assert_eq!(rig.get(ack) & 1, 0);
}

/// COPY_LINEAR_SUBWIN with all dimensions at their largest, from unmapped memory.
const TERABYTES: [u32; 13] = [
    1 | 4 << 8 | 4 << 29,
    0,
    1,
    0,
    !0x1fff,
    0x0fff_ffff,
    0,
    2,
    0,
    !0x1fff,
    0x0fff_ffff,
    0x3fff_3fff,
    0x7ff,
];

#[test]
fn a_long_packet_keeps_its_engine_until_that_is_reset() {
    let mut rig = Rig::new();
    let mut ring = rig.ring(0, 1, 8);
    let mut other = rig.ring(0, 2, 9);
    let mut kernel = rig.ring(0, 0, 0);
    rig.gpu.start();
    rig.submit(&mut ring, &TERABYTES);
    let nap = || std::thread::sleep(Duration::from_millis(20));
    nap();
    rig.submit(&mut other, &[0]);
    rig.submit(&mut kernel, &fence(FB + AT, 7));
    rig.enable(&ring, false);
    let stands = || !idle(&rig, &ring) && rig.rptr(&other) == 0 && rig.peek32(vram(AT)) == 0;
    std::thread::sleep(Duration::from_millis(700));
    assert!(stands(), "RB_ENABLE alone ends no packet");
    rig.set(F32_CNTL, f32_cntl::HALT.of(1));
    nap();
    assert!(stands(), "nor does HALT");
    rig.set(F32_CNTL, 0);
    nap();
    assert!(stands(), "after which it goes on");
    rig.set(F32_CNTL, f32_cntl::HALT.of(1) | f32_cntl::RESET.of(1));
    eventually("idle", || idle(&rig, &ring));
    assert_eq!(rig.rptr(&ring), 0);
    assert_eq!(rig.rptr(&other), 0);
    rig.set(F32_CNTL, 0);
    eventually("the other", || rig.rptr(&other) == other.wptr);
    eventually("the kernel's", || rig.peek32(vram(AT)) == 7);
    assert_eq!(rig.rptr(&ring), 0);
}

#[test]
fn a_device_reset_ends_a_long_packet() {
    let mut rig = Rig::new();
    let mut ring = rig.ring(0, 1, 8);
    rig.gpu.start();
    rig.submit(&mut ring, &TERABYTES);
    std::thread::sleep(Duration::from_millis(20));
    assert!(!idle(&rig, &ring));
    rig.gpu.reset();
    assert!(idle(&rig, &ring));
}

#[test]
fn a_crashed_engine_is_at_something_for_ever() {
    let mut rig = Rig::new();
    let mut ring = rig.ring(0, 1, 8);
    let mut other = rig.ring(1, 0, 0);
    assert!(command(&rig.gpu, "crash rlc").is_err());
    assert!(command(&rig.gpu, "crash sdma5").is_err());
    command(&rig.gpu, "crash sdma0").unwrap();
    rig.submit(&mut ring, &[0]);
    assert!(!rig.gpu.sdma[0].step(&rig.gpu).unwrap());
    rig.run(&mut other, &fence(FB + AT, 3));
    assert_eq!(rig.peek32(vram(AT)), 3, "the others work");
    rig.enable(&ring, false);
    rig.set(F32_CNTL, f32_cntl::HALT.of(1) | f32_cntl::RESET.of(1));
    assert!(!idle(&rig, &ring), "its own reset does not help");
    rig.gpu.power_cycle(Start::Warm);
    assert!(idle(&rig, &ring));
}

#[test]
fn a_queue_that_lingers_is_idle_late() {
    let mut rig = Rig::new();
    let ring = rig.ring(0, 1, 8);
    assert!(command(&rig.gpu, "linger long").is_err());
    command(&rig.gpu, "linger 1000000").unwrap();
    assert!(idle(&rig, &ring));
    rig.enable(&ring, false);
    assert!(!idle(&rig, &ring));
    rig.enable(&ring, true);
    assert!(idle(&rig, &ring));
    rig.enable(&ring, false);
    command(&rig.gpu, "linger 0").unwrap();
    assert!(idle(&rig, &ring));
}

#[test]
fn a_queue_behind_a_packet_is_idle_when_that_ends() {
    let mut rig = Rig::new();
    let other = rig.ring(0, 2, 9);
    let mut ring = rig.ring(0, 1, 8);
    rig.gpu.start();
    rig.submit(&mut ring, &TERABYTES);
    let selected = |rig: &Rig, ring: &Ring| {
        status::SELECTED.is_set(rig.get_queue(ring, sdma::GFX_CONTEXT_STATUS))
    };
    eventually("selected", || selected(&rig, &ring));
    assert!(!selected(&rig, &other));
    rig.enable(&other, false);
    assert!(idle(&rig, &other));
    command(&rig.gpu, "linger packet").unwrap();
    assert!(!idle(&rig, &other) && !selected(&rig, &other));
    rig.set(F32_CNTL, f32_cntl::HALT.of(1) | f32_cntl::RESET.of(1));
    eventually("idle", || idle(&rig, &other) && !selected(&rig, &ring));
}
