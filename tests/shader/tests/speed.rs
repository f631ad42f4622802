// SPDX-License-Identifier: GPL-2.0
//! The duration of a wave instruction: in two kernels, and of single instructions with all lanes
//! active. A measurement: scripts/cargo test --release -p rkfd-shader --test speed -- --ignored
//! --nocapture

mod common;
#[path = "common/compile.rs"]
mod compile;

use common::{bytes, Ran};
use compile::compile;

/// Prints the fastest of some runs: other processes only make them slower.
fn tell(name: &str, run: impl Fn() -> Ran) {
    let ran = (0..5).map(|_| run()).min_by_key(|ran| ran.time).unwrap();
    let each = ran.time.as_nanos() as f64 / ran.executed as f64;
    println!(
        "{name}: {} wave instructions, {each:.1} ns each",
        ran.executed
    );
}

#[test]
#[ignore = "a measurement"]
fn kernels() {
    let object = compile("gfx90a", "kernels", 5, 3);
    let a = bytes(&vec![1f32; 256 * 256]);
    tell("multiply", || {
        let multiply = object.kernel("multiply").buffer(&a).buffer(&a).buffer(&a);
        multiply.word(256).run([256, 256, 1], [16, 16, 1])
    });
    let a = bytes(&(1..65536).collect::<Vec<u32>>());
    tell("collatz", || {
        let collatz = object.kernel("collatz").buffer(&a).buffer(&a);
        collatz.word(65535).run([65536, 1, 1], [256, 1, 1])
    });
}

#[test]
#[ignore = "a measurement"]
fn instructions() {
    const ROUNDS: u32 = 500;
    let object = compile("gfx90a", "speed", 5, 3);
    for name in object.kernels() {
        tell(name, || {
            let kernel = object.kernel(name).buffer(&vec![0; 64 << 10]);
            kernel.word(ROUNDS).run([64, 1, 1], [64, 1, 1])
        });
    }
}
