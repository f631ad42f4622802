// SPDX-License-Identifier: GPL-2.0

use std::time::{Duration, Instant};

use super::rig::*;
use crate::board::Board;

const AT: u64 = 0x10_0000;

#[test]
fn a_copy_takes_the_time_of_a_card() {
    let mut rig = Rig::on(Board {
        timing: Some("card=1000".parse().unwrap()),
        ..Board::new(VRAM)
    });
    let mut ring = rig.ring(0, 0, 0);
    let start = Instant::now();
    rig.run(&mut ring, &copy(FB + AT, FB + AT + 64, 4));
    // And 55,000 bytes in a microsecond, which is a millisecond here.
    let small = start.elapsed();
    assert!(small >= Duration::from_micros(8200), "{small:?}");
    let start = Instant::now();
    rig.run(&mut ring, &copy(FB + AT, FB + AT + MIB, 550_000));
    let large = start.elapsed();
    assert!(large >= Duration::from_micros(18_200), "{large:?}");
}
