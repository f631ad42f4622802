// SPDX-License-Identifier: GPL-2.0
//! Each packet, from the ring to memory.

use super::rig::*;
use crate::regs::{gc, nbio, sdma};

const VA: u64 = 0x1_0000_0000;
const AT: u64 = 0x10_0000;

/// A user queue of VMID 8 with 8 MiB of VRAM mapped at VA.
fn rig() -> (Rig, Ring) {
    let mut rig = Rig::new();
    let ring = rig.ring(0, 1, 8);
    for n in 0..4 {
        rig.map_large(8, VA + n * 2 * MIB, n * 2 * MIB, RW);
    }
    (rig, ring)
}

fn kernel() -> (Rig, Ring) {
    let mut rig = Rig::new();
    let ring = rig.ring(0, 0, 0);
    (rig, ring)
}

#[test]
fn nop() {
    let (rig, mut ring) = rig();
    rig.run(&mut ring, &[0, 3 << 16, 7, 7, 7, 0]);
    assert_eq!(rig.gpu.summary.json()["packets"]["NOP"], 3);
}

#[test]
fn copy_linear_of_odd_sizes() {
    let (rig, mut ring) = rig();
    let data: Vec<u8> = (0..4_000_000u32).map(|n| ((n * 31) >> 5) as u8).collect();
    rig.poke(vram(AT), &data);
    for (len, from, to) in [(1, 3, 5), (4097, 1, 2), (3_000_001, 13, 7)] {
        rig.run(
            &mut ring,
            &copy(VA + 0x40_0000 + to, VA + AT + from, len as u64),
        );
        let got = rig.peek(vram(0x40_0000 + to), len as u64);
        assert!(got == data[from as usize..from as usize + len]);
    }
}

#[test]
fn copy_broadcast() {
    let (rig, mut ring) = rig();
    rig.poke(vram(AT), b"both");
    let mut words = copy(VA + AT + 0x100, VA + AT, 4).to_vec();
    words[0] |= 1 << 27;
    words.extend([lo(VA + AT + 0x200), hi(VA + AT + 0x200)]);
    rig.run(&mut ring, &words);
    assert_eq!(rig.peek(vram(AT + 0x100), 4), b"both");
    assert_eq!(rig.peek(vram(AT + 0x200), 4), b"both");
    assert_eq!(rig.gpu.summary.json()["packets"]["COPY_BROADCAST"], 1);
}

#[test]
fn write_across_the_end_of_the_ring() {
    let (rig, mut ring) = rig();
    rig.run(&mut ring, &vec![0; 1000]);
    let mut words = vec![2, lo(VA + AT), hi(VA + AT), 99];
    words.extend(0x100..0x100 + 100);
    rig.run(&mut ring, &words);
    let got: Vec<u32> = (0..100).map(|n| rig.peek32(vram(AT + n * 4))).collect();
    assert_eq!(got, words[4..]);
}

#[test]
fn fill() {
    let (rig, mut ring) = rig();
    let fill = |size: u32, to: u64, data, count| [11 | size << 30, lo(to), hi(to), data, count];
    rig.run(&mut ring, &fill(0, VA + AT + 3, 0x4433_2211, 10));
    assert_eq!(
        rig.peek(vram(AT), 16),
        [0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x11, 0x22, 0x33, 0x44, 0x11, 0x22, 0x33, 0, 0]
    );
    let len = 3 * MIB + 4;
    rig.run(&mut ring, &fill(2, VA + AT, 0xdead_beef, len as u32 - 4));
    let got = rig.peek(vram(AT), len + 4);
    assert!(got[..len as usize]
        .chunks(4)
        .all(|word| word == 0xdead_beefu32.to_le_bytes()));
    assert_eq!(got[len as usize..], [0; 4]);
    assert_eq!(rig.gpu.summary.bytes_filled.get(), len + 11);
}

#[test]
fn fence_and_trap() {
    let (rig, mut ring) = rig();
    rig.run(&mut ring, &[&fence(VA + AT, 0x77)[..], &[6, 5]].concat());
    assert_eq!(rig.peek32(vram(AT)), 0x77);
    assert_eq!(rig.iv_head(0), [8, 224, 2, 8]);
    assert_eq!(rig.iv(0)[4], 5);
}

#[test]
fn poll_memory() {
    let (rig, mut ring) = rig();
    rig.submit(&mut ring, &poll(VA + AT, 3));
    rig.submit(&mut ring, &fence(VA + AT + 8, 1));
    for _ in 0..10 {
        rig.gpu.sdma[0].step(&rig.gpu).unwrap();
    }
    assert_eq!(rig.rptr(&ring), 0);
    rig.poke(vram(AT), &[3]);
    eventually("poll", || {
        rig.gpu.sdma[0].step(&rig.gpu).unwrap();
        rig.peek32(vram(AT + 8)) == 1
    });
    assert_eq!(rig.rptr(&ring), ring.wptr);
}

#[test]
fn poll_with_limited_retries_times_out() {
    let (rig, mut ring) = rig();
    let mut words = poll(VA + AT, 3);
    words[5] = 10 | 4 << 16;
    rig.submit(&mut ring, &words);
    rig.drain(0).unwrap();
    assert_eq!(rig.iv_head(0), [8, 246, 2, 8]);
    assert_eq!(rig.get_queue(&ring, sdma::GFX_CONTEXT_STATUS) >> 4 & 7, 2);
}

#[test]
fn poll_registers_and_hdp() {
    let (rig, mut ring) = kernel();
    // Register: GRBM scratch; HDP: request and wait for done.
    rig.set(gc::SCRATCH_REG0, 0x1234);
    let scratch = gc::SCRATCH_REG0.0 * 4;
    rig.run(
        &mut ring,
        &[8 | 3 << 28, scratch, 0, 0x34, 0xff, 0xfff << 16],
    );
    let (request, done) = (
        nbio::GPU_HDP_FLUSH_REQ.0 * 4,
        nbio::GPU_HDP_FLUSH_DONE.0 * 4,
    );
    rig.run(
        &mut ring,
        &[
            8 | 1 << 26 | 3 << 28,
            done,
            request,
            1 << 10,
            1 << 10,
            0xfff << 16,
        ],
    );
    assert_eq!(rig.get(nbio::GPU_HDP_FLUSH_DONE), 1 << 10);
}

#[test]
fn poll_always_is_the_hdp_flush_of_user_space() {
    let (rig, mut ring) = rig();
    rig.run(&mut ring, &[8, 0, 0x8000_0000, 0, 0, 0]);
}

#[test]
fn atomic_add() {
    let (rig, mut ring) = rig();
    rig.poke64(vram(AT), 1);
    let va = VA + AT;
    rig.run(
        &mut ring,
        &[10 | 0x2f << 25, lo(va), hi(va), !0, !0, 0, 0, 0],
    );
    assert_eq!(rig.peek64(vram(AT)), 0);
}

#[test]
fn atomic_compare_and_swap_in_a_loop_waits() {
    let (rig, mut ring) = rig();
    let va = VA + AT;
    rig.submit(
        &mut ring,
        &[10 | 1 << 16 | 0x28 << 25, lo(va), hi(va), 9, 0, 5, 0, 1],
    );
    for _ in 0..5 {
        rig.gpu.sdma[0].step(&rig.gpu).unwrap();
    }
    assert_eq!(rig.peek64(vram(AT)), 0);
    rig.poke64(vram(AT), 5);
    eventually("swap", || {
        rig.gpu.sdma[0].step(&rig.gpu).unwrap();
        rig.peek64(vram(AT)) == 9
    });
}

#[test]
fn indirect() {
    let (mut rig, mut ring) = kernel();
    // The buffer is in VMID 8's space, the ring in the kernel's.
    rig.map_large(8, VA, 0, RW);
    let ib = [&fence(VA + AT + 0x100, 5)[..], &[0; 4]].concat();
    for (n, word) in ib.iter().enumerate() {
        rig.poke(vram(AT + n as u64 * 4), &word.to_le_bytes());
    }
    let head = 4 | 8 << 16;
    let indirect = [head, lo(VA + AT), hi(VA + AT), ib.len() as u32, 0, 0];
    rig.run(
        &mut ring,
        &[&[0, 0][..], &indirect, &fence(FB + AT + 0x200, 6)].concat(),
    );
    assert_eq!(rig.peek32(vram(AT + 0x100)), 5);
    assert_eq!(rig.peek32(vram(AT + 0x200)), 6);
    // Not ending on a boundary of eight dwords.
    rig.submit(&mut ring, &indirect);
    let error = rig.drain(0).unwrap_err();
    assert!(error.to_string().contains("boundary of 8"), "{error}");
}

#[test]
fn a_user_cannot_choose_the_address_space_of_an_indirect_buffer() {
    let (rig, mut ring) = rig();
    rig.poke(vram(AT), &[0; 64]);
    for (n, word) in fence(VA + AT + 0x100, 5).iter().enumerate() {
        rig.poke(vram(AT + n as u64 * 4), &word.to_le_bytes());
    }
    // VMID 0 in the packet.
    rig.run(&mut ring, &[0, 0, 4, lo(VA + AT), hi(VA + AT), 8, 0, 0]);
    assert_eq!(rig.peek32(vram(AT + 0x100)), 5);
}

#[test]
fn page_table_entries() {
    let (rig, mut ring) = kernel();
    let to = FB + AT;
    rig.run(
        &mut ring,
        &[12, lo(to), hi(to), 0x61, 0x40, 0x8000_0000, 1, 0x1000, 0, 2],
    );
    let got: Vec<u64> = (0..4).map(|n| rig.peek64(vram(AT + n * 8))).collect();
    let first = 0x40_0000_0061 | 0x1_8000_0000;
    assert_eq!(got, [first, first + 0x1000, first + 0x2000, 0]);
    // Copy, low 32 bits only.
    rig.poke64(vram(AT + 0x100), 0xffff_ffff_ffff_ffff);
    let (from, to) = (FB + AT, FB + AT + 0x100);
    rig.run(
        &mut ring,
        &[12 | 1 << 8, lo(from), hi(from), lo(to), hi(to), !0, 0, 0],
    );
    assert_eq!(
        rig.peek64(vram(AT + 0x100)),
        first & 0xffff_ffff | 0xffff_ffff << 32
    );
    let to = FB + AT + 8;
    rig.run(&mut ring, &[12 | 2 << 8, lo(to), hi(to), 0xff, 0, 0x12, 0]);
    assert_eq!(rig.peek64(vram(AT + 8)), (first + 0x1000) & !0xff | 0x12);
}

#[test]
fn timestamps() {
    let (rig, mut ring) = rig();
    let to = VA + AT;
    let before = rig.gpu.clock.now();
    rig.run(&mut ring, &[13 | 2 << 8, lo(to), hi(to)]);
    let stamp = rig.peek64(vram(AT));
    assert!(before <= stamp && stamp <= rig.gpu.clock.now());
    rig.run(&mut ring, &[13, 0, 0x100, 13 | 1 << 8, lo(to), hi(to)]);
    assert!(rig.peek64(vram(AT)) >> 32 >= 0x100);
    let unaligned = &rig.gpu.summary.timestamps_unaligned;
    assert_eq!(unaligned.get(), 0);
    rig.run(&mut ring, &[13 | 2 << 8, lo(to + 8), hi(to)]);
    assert_eq!(unaligned.get(), 1);
}

#[test]
fn srbm_write() {
    let (rig, mut ring) = kernel();
    let reg = gc::SCRATCH_REG0;
    rig.run(&mut ring, &[14 | 0xf << 28, reg.0, 0x1122_3344]);
    assert_eq!(rig.get(reg), 0x1122_3344);
    rig.run(&mut ring, &[14 | 0x3 << 28, reg.0, 0xffff_5566]);
    assert_eq!(rig.get(reg), 0x1122_5566);
}

#[test]
fn a_ring_can_flush_the_tlb() {
    let (mut rig, mut kernel) = kernel();
    let mut user = rig.ring(1, 1, 8);
    rig.map(8, VA, vram(AT), 4096, RW);
    rig.run(&mut user, &fence(VA, 1));
    rig.map(8, VA, vram(AT + 0x1000), 4096, RW);
    let request = crate::regs::mmhub::VM_INVALIDATE_ENG0_REQ.nth(4, 1);
    let ack = crate::regs::mmhub::VM_INVALIDATE_ENG0_ACK.nth(4, 1);
    let bit = 1 << 8;
    rig.run(
        &mut kernel,
        &[
            14 | 0xf << 28,
            request.0,
            bit | 0x1f << 18,
            8 | 3 << 28,
            ack.0 * 4,
            0,
            bit,
            bit,
            10 | 0xfff << 16,
        ],
    );
    rig.run(&mut user, &fence(VA, 2));
    assert_eq!(rig.peek32(vram(AT)), 1);
    assert_eq!(rig.peek32(vram(AT + 0x1000)), 2);
}

#[test]
fn users_are_refused() {
    let va = VA + AT;
    for words in [
        // Unknown opcode, semaphore, conditional execution.
        &[0x11][..],
        &[7, 0, 0],
        &[9, lo(va), hi(va), 1, 1],
        // Registers.
        &[14 | 0xf << 28, gc::SCRATCH_REG0.0, 1],
        &[8 | 3 << 28, gc::SCRATCH_REG0.0 * 4, 0, 0, !0, 0],
        // Misaligned, too large.
        &fence(va + 2, 1),
        &[1, 1 << 30, 0, lo(va), hi(va), lo(va), hi(va)],
        &[10 | 0x2f << 25, lo(va + 4), hi(va), 1, 0, 0, 0, 0],
    ] {
        let (rig, mut ring) = rig();
        rig.run(&mut ring, &[0, 0, 0]);
        rig.submit(&mut ring, words);
        rig.submit(&mut ring, &fence(va, 1));
        rig.drain(0).unwrap();
        assert_eq!(rig.rptr(&ring), 12, "{words:x?}");
        assert_eq!(rig.iv_head(0), [8, 247, 2, 8], "{words:x?}");
        assert_eq!(rig.iv(0)[4], words[0], "{words:x?}");
        let status = rig.get_queue(&ring, sdma::GFX_CONTEXT_STATUS);
        assert_eq!(status >> 4 & 7, 1, "{words:x?}");
        assert_eq!(status >> 2 & 1, 1, "{words:x?}");
        assert_eq!(rig.peek32(vram(AT)), 0, "{words:x?}");
        assert_eq!(rig.gpu.summary.engines[0].refused.get(), 1);
        // Enabled again behind the packet, the queue works.
        rig.enable(&ring, false);
        rig.set_queue(&ring, sdma::GFX_RB_RPTR, 12 + words.len() as u32 * 4);
        rig.enable(&ring, true);
        rig.drain(0).unwrap();
        assert_eq!(rig.peek32(vram(AT)), 1);
        assert_eq!(rig.get_queue(&ring, sdma::GFX_CONTEXT_STATUS) >> 4 & 7, 0);
    }
}

#[test]
fn the_kernel_is_not_refused_but_wrong() {
    let (rig, mut ring) = kernel();
    rig.run(&mut ring, &[0, 0]);
    rig.submit(&mut ring, &[0x11]);
    let error = rig.drain(0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "SDMA0 GFX at ring offset 0x8: packet 0x00000011: the opcode is unknown"
    );
}

#[test]
fn a_copy_fails_on_request() {
    let (rig, mut ring) = kernel();
    assert!(crate::control::command(&rig.gpu, "fail-copy 0").is_ok());
    let words = copy(FB + AT, FB + AT + 64, 4);
    rig.submit(&mut ring, &[&fence(FB + AT, 1)[..], &words].concat());
    rig.drain(0).unwrap();
    assert_eq!(rig.rptr(&ring), 16);
    assert_eq!(rig.iv_head(0), [8, 220, 0, 0]);
    rig.enable(&ring, false);
    rig.enable(&ring, true);
    rig.drain(0).unwrap();
    assert_eq!(rig.rptr(&ring), ring.wptr);
}
