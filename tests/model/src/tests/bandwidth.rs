// SPDX-License-Identifier: GPL-2.0
//! Copies against memcpy. Run with `cargo test --release -- --ignored --nocapture bandwidth`.

use std::hint::black_box;
use std::time::Instant;

use super::rig::*;

const VA: u64 = 0x1_0000_0000;
const SIZE: u64 = 16 * MIB;
const ROUNDS: u32 = 24;

/// GB/s of the best of some rounds.
fn measure(mut work: impl FnMut()) -> f64 {
    let best = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    SIZE as f64 / best / 1e9
}

#[test]
#[ignore = "measures"]
fn copies_at_memory_speed() {
    let source = vec![1u8; SIZE as usize];
    let mut sink = vec![0u8; SIZE as usize];
    let memcpy = measure(|| {
        sink.copy_from_slice(black_box(&source));
        black_box(&mut sink);
    });
    println!("memcpy        {memcpy:6.2} GB/s");
    let mut rig = Rig::new();
    let mut ring = rig.ring(0, 1, 8);
    let (large, small, ram) = (VA, VA + 0x1000_0000, VA + 0x2000_0000);
    for n in 0..2 * SIZE / (2 * MIB) {
        rig.map_large(8, large + n * 2 * MIB, n * 2 * MIB, RW);
    }
    // 4 KiB pages, no two of them neighbours in memory.
    for page in 0..SIZE >> 12 {
        let swapped = (page ^ 1) << 12;
        rig.map(8, small + (page << 12), vram(swapped), 4096, RW);
        rig.map(
            8,
            ram + (page << 12),
            system(RAM + 32 * MIB + swapped),
            4096,
            RW,
        );
    }
    for (name, to, from) in [
        ("2 MiB pages", large + SIZE, large),
        ("4 KiB VRAM to RAM", ram, small),
        ("4 KiB RAM to VRAM", small, ram),
    ] {
        let speed = measure(|| rig.run(&mut ring, &copy(to, from, SIZE)));
        println!(
            "{name:18} {speed:6.2} GB/s, {:.2} of memcpy",
            speed / memcpy
        );
        assert!(speed >= memcpy / 2.0);
    }
}
