// SPDX-License-Identifier: GPL-2.0
//! Dispatches by PM4: the COMPUTE_* registers, DISPATCH_DIRECT and DISPATCH_INDIRECT, and packets
//! that wait for waves.

use super::assembly::assemble;
use super::compute::*;
use super::dispatches::NUMBERS;
use super::rig::*;
use super::waves::{Waves, ARGUMENTS, CODE, RSRC1, RSRC2};
use crate::regs::gc::{self, cp_hqd_error as error};

/// DISPATCH_INITIATOR: waves; with partial groups; from group 0 whatever START says; dimensions are
/// items.
const SHADER_EN: u32 = 1;
const PARTIAL: u32 = 2;
const FROM_0: u32 = 4;
const BY_ITEM: u32 = 0x20;
/// Waits for waves.
const FLUSH: [u32; 2] = [0xc000_4602, 7 | 4 << 8];

/// SET_SH_REG of one COMPUTE_* register.
fn set(number: u32, value: u32) -> [u32; 3] {
    [0xc001_7602, 0x200 + number, value]
}

fn direct(dims: [u32; 3], initiator: u32) -> [u32; 5] {
    [0xc003_1502, dims[0], dims[1], dims[2], initiator]
}

/// A queue whose registers have groups of 64 items that write their numbers.
fn numbers() -> Waves {
    let mut w = Waves::new(false);
    w.load();
    w.kernel(&NUMBERS);
    w.pm4([0, 0, 0], RSRC2);
    w
}

/// The number of items that wrote their number, from the first on.
fn written(w: &Waves) -> u64 {
    let is = |n: &u64| u64::from(w.out(4 * n)) == *n;
    let count = (1..512).take_while(is).count() as u64 + 1;
    assert!((count..512).all(|n| w.out(4 * n) == 0), "behind {count}");
    count
}

#[test]
fn dimensions_in_items_and_in_groups() {
    let partial = set(7, 64 | 10 << 16);
    for (packets, items) in [
        (direct([130, 1, 1], SHADER_EN | BY_ITEM).to_vec(), 130),
        (direct([2, 1, 1], SHADER_EN).to_vec(), 128),
        // Without the bit the size of the last group does not count.
        ([&partial[..], &direct([3, 1, 1], SHADER_EN)].concat(), 192),
        (
            [&partial[..], &direct([3, 1, 1], SHADER_EN | PARTIAL)].concat(),
            138,
        ),
        (
            [&set(4, 1)[..], &direct([2, 1, 1], SHADER_EN | FROM_0)].concat(),
            128,
        ),
        (direct([130, 1, 1], BY_ITEM).to_vec(), 1),
        (direct([130, 0, 1], SHADER_EN | BY_ITEM).to_vec(), 1),
    ] {
        let mut w = numbers();
        w.packets(&packets);
        w.run();
        assert_eq!(written(&w), items, "{packets:x?}");
        assert_eq!(w.rig.hqd(&w.queue, gc::CP_HQD_ERROR), 0);
    }
}

#[test]
fn the_first_group_is_another_one() {
    let mut w = numbers();
    w.packets(&set(4, 2));
    w.packets(&direct([3, 1, 1], SHADER_EN));
    w.run();
    assert_eq!(w.rig.gpu.summary.sq_groups.get(), 1);
    assert_eq!(
        (w.out(4 * 127), w.out(4 * 128), w.out(4 * 191)),
        (0, 128, 191)
    );
}

#[test]
fn dimensions_in_memory() {
    let mut w = numbers();
    for (n, dim) in [70u32, 1, 1].into_iter().enumerate() {
        let at = w.queue.memory() + 4 * n as u64;
        w.rig.poke(vram(at), &dim.to_le_bytes());
    }
    let at = w.queue.data();
    w.packets(&[0xc002_1602, lo(at), hi(at), SHADER_EN | BY_ITEM]);
    w.run();
    assert_eq!(written(&w), 70);
    assert_eq!(w.rig.gpu.summary.pm4.get()["DISPATCH_INDIRECT"], 1);
}

#[test]
fn what_waits_for_waves() {
    let at = |w: &Waves, n: u64| w.rig.peek32(vram(w.queue.memory() + 8 * n));
    let mut w = Waves::new(false);
    w.load();
    w.kernel(&assemble(include_str!("asm/patterns.s")));
    let data = w.queue.data();
    w.packets(&set(0x13, RSRC2 | 1 << 15));
    w.pm4([64, 1, 1], RSRC2 | 1 << 15);
    // The front end goes on, but not past a packet that waits.
    w.packets(&write(data, 1));
    w.packets(&FLUSH);
    w.packets(&write(data + 8, 1));
    w.run();
    assert_eq!([at(&w, 0), at(&w, 1)], [1, 0]);
    // It can leave there, and comes back to it.
    w.request(1);
    assert!(w.is_active());
    w.release();
    assert!(!w.is_active());
    w.load();
    assert_eq!(at(&w, 1), 1);
    w.words_out(&[0]);
    w.packets(&direct([64, 1, 1], SHADER_EN | BY_ITEM));
    w.packets(&release(data + 16, 3, 7));
    w.run();
    assert_eq!((at(&w, 2), w.rig.ih_entries()), (0, 0));
    w.release();
    assert_eq!((at(&w, 2), w.rig.ih_entries()), (3, 1));
}

#[test]
fn what_is_refused() {
    for (number, value, code) in [
        (8, 0, 16),
        (9, 17, 21),
        (0x13, RSRC2 | 129 << 15, 17),
        (0x12, RSRC1 | 1 << 20, 20),
        (0x22, 0, 20),
    ] {
        let mut w = numbers();
        w.packets(&set(number, value));
        w.packets(&direct([1, 1, 1], SHADER_EN));
        w.run();
        assert_eq!(
            w.rig.hqd(&w.queue, gc::CP_HQD_ERROR),
            error::SUA_ERROR.of(1)
        );
        assert_eq!(w.rig.iv(0)[4] >> 10, code, "register {number:#x}");
        assert_eq!(w.rig.gpu.summary.sq_waves.get(), 0);
    }
    // 136 VGPRs for each of four waves of a SIMD.
    let mut w = numbers();
    w.packets(&set(7, 1024));
    w.packets(&set(0x12, RSRC1 | 16));
    w.packets(&direct([1, 1, 1], SHADER_EN));
    w.run();
    assert_eq!(w.rig.iv(0)[4] >> 10, 22);
}

#[test]
fn masks_are_the_drivers() {
    let mut w = numbers();
    w.packets(&set(0x16, 0));
    for number in [0x17, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28] {
        w.packets(&set(number, 0));
    }
    w.packets(&direct([1, 1, 1], SHADER_EN));
    w.run();
    assert_eq!(written(&w), 64);
    // Registers that a user set are there when the queue comes back, except these.
    w.request(1);
    assert_eq!(w.mqd(23), !0);
    assert_eq!(w.mqd(8), 64);
    assert_eq!(w.mqd(13), lo(CODE + 256 >> 8));
    assert_eq!(w.mqd(65), lo(ARGUMENTS));
    w.words_out(&[0; 128]);
    w.load();
    w.packets(&direct([1, 1, 1], SHADER_EN));
    w.run();
    assert_eq!(written(&w), 64);
}
