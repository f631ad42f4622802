// SPDX-License-Identifier: GPL-2.0
//! Whatever a user queue carries, the device goes on: no model error, no panic, no endless packet.

use std::time::Duration;

use proptest::prelude::*;

use super::rig::*;
use crate::regs::sdma::{self, gfx_context_status as status};

const VA: u64 = 0x1_0000_0000;

/// A packet with a known or any opcode, and addresses that are likely to be mapped.
fn packet() -> impl Strategy<Value = Vec<u32>> {
    let header = prop_oneof![
        any::<u32>(),
        (0u32..18, 0u32..5, any::<u32>())
            .prop_map(|(op, sub_op, rest)| op | sub_op << 8 | rest & 0xf800_0000),
        prop::sample::select(vec![0, 1, 2, 4, 5, 6, 8, 10, 11, 12, 13, 14]),
    ];
    let word = prop_oneof![
        any::<u32>(),
        0u32..0x1000,
        Just(0),
        Just(1),
        (0u32..0x20_0000).prop_map(|n| n & !7),
    ];
    (header, prop::collection::vec(word, 1..16)).prop_map(|(header, words)| {
        let mut packet = vec![header];
        packet.extend(words);
        packet
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]
    #[test]
    fn user_queues_cannot_break_the_device(packets in prop::collection::vec(packet(), 1..20)) {
        let mut rig = Rig::new();
        let mut ring = rig.ring(0, 1, 8);
        let mut other = rig.ring(0, 2, 8);
        rig.map_large(8, VA, 0, RW);
        rig.map_large(8, 0, 0, RW);
        let gpu = rig.gpu.clone();
        let engine = std::thread::spawn(move || gpu.sdma[0].run(&gpu));
        let words: Vec<u32> = packets.into_iter().flatten().collect();
        rig.submit(&mut ring, &words);
        std::thread::sleep(Duration::from_millis(20));
        rig.enable(&ring, false);
        let idle = || status::IDLE.is_set(rig.get_queue(&ring, sdma::GFX_CONTEXT_STATUS));
        eventually("idle", || idle() || engine.is_finished());
        rig.submit(&mut other, &fence(VA + 0x10_0000, 77));
        let fenced = || rig.peek32(vram(0x10_0000)) == 77;
        eventually("fence", || fenced() || engine.is_finished());
        if engine.is_finished() {
            let error = engine.join().unwrap();
            return Err(TestCaseError::fail(format!("{error:?}")));
        }
    }
}
