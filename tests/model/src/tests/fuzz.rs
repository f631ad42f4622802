// SPDX-License-Identifier: GPL-2.0
//! For any content of a user queue the device goes on: no model error, no panic, no endless packet.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::compute::{write, DWORDS};
use super::rig::*;
use crate::regs::gc;
use crate::regs::sdma::{self, gfx_context_status as status};

const VA: u64 = 0x1_0000_0000;

/// The addresses of the device's own doorbells and flush registers.
const OWN: u64 = 0x20_0000;

/// An address in the pages that are mapped at [`OWN`].
fn own_page() -> impl Strategy<Value = u32> {
    (0u32..0x3000).prop_map(|n| OWN as u32 + (n & !3))
}

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
        own_page(),
    ];
    (header, prop::collection::vec(word, 1..16)).prop_map(|(header, words)| {
        let mut packet = vec![header];
        packet.extend(words);
        packet
    })
}

/// A PM4 packet with a known or any opcode and a count that is likely to be right.
fn pm4() -> impl Strategy<Value = Vec<u32>> {
    let known = vec![
        0x10, 0x15, 0x1e, 0x37, 0x3c, 0x3f, 0x40, 0x46, 0x49, 0x58, 0x76, 0x79, 0x98, 0xa0, 0xa2,
        0xa3, 0xa5,
    ];
    let opcode = prop_oneof![prop::sample::select(known), 0u32..0x100];
    let word = prop_oneof![
        any::<u32>(),
        0u32..0x1000,
        Just(0),
        Just(5 << 8),
        Just(2 << 29 | 2 << 24),
        own_page(),
        Just(8 | 1 << 23),
    ];
    let body = prop::collection::vec(word, 1..9);
    (opcode, body, 0u32..40, any::<u32>()).prop_map(|(opcode, body, odd, any)| {
        let count = if odd == 0 {
            any % 64
        } else {
            body.len() as u32 - 1
        };
        let mut packet = vec![3 << 30 | count << 16 | opcode << 8];
        packet.extend(body);
        packet
    })
}

/// An AQL packet of any type, with signals that are likely to be there.
fn aql() -> impl Strategy<Value = [u32; 16]> {
    let head = prop_oneof![0u32..7, 0u32..3, any::<u32>()];
    let word = prop_oneof![
        Just(0),
        (0u32..0x1000).prop_map(|n| n << 3),
        own_page(),
        any::<u32>(),
        Just(0xc002_3f00),
        Just(8 | 1 << 23),
    ];
    (head, 0u32..3, prop::array::uniform15(word)).prop_map(|(head, format, words)| {
        let mut packet = [0; 16];
        packet[0] = head | format << 16;
        packet[1..].copy_from_slice(&words);
        packet
    })
}

/// Calls `put` to fill a queue, runs it, then takes it off; another queue does not notice.
fn survive(aql: bool, put: impl FnOnce(&Rig, &mut super::compute::Compute)) -> TestCaseResult {
    let mut rig = Rig::new();
    let mut queue = rig.running([1, 0, 0], 8, aql);
    let mut other = rig.running([1, 0, 1], 9, false);
    rig.map_large(8, 0, 0, RW);
    rig.map_own(8, OWN, 3);
    let gpu = rig.gpu.clone();
    let front = std::thread::spawn(move || gpu.cp.run(&gpu));
    put(&rig, &mut queue);
    rig.knock(&queue);
    std::thread::sleep(Duration::from_millis(10));
    rig.set_hqd(&queue, gc::CP_HQD_DEQUEUE_REQUEST, 1);
    eventually("inactive", || !rig.is_active(&queue) || front.is_finished());
    let packet = write(other.data(), 77);
    rig.put(&mut other, &packet);
    rig.knock(&other);
    let written = || rig.peek32(vram(other.memory())) == 77;
    eventually("write", || written() || front.is_finished());
    if front.is_finished() {
        let error = front.join().unwrap();
        return Err(TestCaseError::fail(format!("{error:?}")));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..Default::default()
    })]
    #[test]
    fn user_queues_cannot_break_the_device(packets in prop::collection::vec(packet(), 1..20)) {
        let mut rig = Rig::new();
        let mut ring = rig.ring(0, 1, 8);
        let mut other = rig.ring(0, 2, 8);
        rig.map_large(8, VA, 0, RW);
        rig.map_large(8, 0, 0, RW);
        rig.map_own(8, OWN, 3);
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

    #[test]
    fn pm4_queues_cannot_break_the_device(packets in prop::collection::vec(pm4(), 1..20)) {
        let words: Vec<u32> = packets.into_iter().flatten().collect();
        prop_assert!((words.len() as u64) < DWORDS);
        survive(false, |rig, queue| rig.put(queue, &words))?;
    }

    #[test]
    fn aql_queues_cannot_break_the_device(packets in prop::collection::vec(aql(), 1..20)) {
        survive(true, |rig, queue| {
            for packet in &packets {
                rig.put_aql(queue, packet);
            }
        })?;
    }
}
