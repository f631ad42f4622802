// SPDX-License-Identifier: GPL-2.0
//! SDMA packets: the dwords of each form, and sequences of packets for long copies and fills.

use hw::sdma::copy::{CopyPackets, FillPackets};
use hw::sdma::length::{self, PacketLength};
use hw::sdma::packet::{self as p, CopyBytes, FillBytes};
use proptest::prelude::*;

/// Dwords of the longest packet: a WRITE with its data.
const LONGEST: u32 = 4 + (1 << 20);

const ADDRESS: u64 = 0x1234_5678_9abc_def0;

#[test]
fn each_packet_has_the_dwords_of_the_specification() {
    let bytes = CopyBytes::new(0x1000).unwrap();
    assert_eq!(
        p::copy_linear(0x1_0000_0002, 0x3_0000_0004, bytes),
        [1, 0xfff, 0, 2, 1, 4, 3]
    );
    let fill = FillBytes::new(0x1000).unwrap();
    assert_eq!(
        p::const_fill(ADDRESS, 0xa5a5_a5a5, fill),
        [0x8000_000b, 0x9abc_def0, 0x1234_5678, 0xa5a5_a5a5, 0xffc]
    );
    assert_eq!(p::fence(ADDRESS, 9), [5, 0x9abc_def0, 0x1234_5678, 9]);
    assert_eq!(p::trap(0xffff_ffff), [6, 0x0fff_ffff]);
}

#[test]
fn counts_that_a_packet_cannot_hold_are_refused() {
    assert!(CopyBytes::new(0).is_none());
    assert!(CopyBytes::new(1 << 30).is_some());
    assert!(CopyBytes::new((1 << 30) + 1).is_none());
    assert!(FillBytes::new(6).is_none());
    assert!(FillBytes::new(0).is_none());
    assert!(FillBytes::new(1 << 30).is_some());
    assert!(FillBytes::new((1 << 30) + 4).is_none());
    assert!(p::nop_burst(0).is_none());
    assert_eq!(p::nop_burst(1), Some(0));
    assert_eq!(p::nop_burst(1 << 14), Some(0x3fff << 16));
    assert!(p::nop_burst((1 << 14) + 1).is_none());
}

#[test]
fn every_packet_has_the_length_that_its_dwords_say() {
    let bytes = CopyBytes::new(1).unwrap();
    let fill = FillBytes::new(4).unwrap();
    let packets: [&[u32]; 14] = [
        &[p::NOP],
        &p::copy_linear(0, 0, bytes),
        &p::const_fill(0, 0, fill),
        // WRITE of one dword, and of two.
        &[2, 0, 0, 0, 7],
        &[2, 0, 0, 1, 7, 8],
        &p::fence(0, 0),
        &p::trap(0),
        // POLL_REGMEM on memory, on a register, and in its HDP form.
        &[0xb000_0008, 0, 0, 1, 2, 0x0fff_000a],
        &[0x5000_0008, 0, 0, 3, 4, 0x0567_1234],
        &[0x3400_0008, 0, 0, 1, 1, 0x0fff_000a],
        // INDIRECT, PTEPDE_GEN, SRBM_WRITE, ATOMIC.
        &[0x0005_0004, 0x40, 2, 0x20, 0, 0],
        &[0xc, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0xf000_000e, 0, 0],
        &[0x5e00_000a, 0, 0, 0, 0, 0, 0, 0],
    ];
    for packet in packets {
        assert_eq!(
            length::of(packet),
            PacketLength::Dwords(packet.len() as u32)
        );
    }
    assert_eq!(length::of(&[0x20d, 0, 0]), PacketLength::Dwords(3));
    assert_eq!(
        length::of(&[p::nop_burst(77).unwrap()]),
        PacketLength::Dwords(77)
    );
    assert_eq!(length::of(&[1 | 1 << 27]), PacketLength::Dwords(9));
    assert_eq!(length::of(&[1 | 4 << 8]), PacketLength::Dwords(13));
    assert_eq!(length::of(&[]), PacketLength::Incomplete(1));
    assert_eq!(length::of(&[2, 0, 0]), PacketLength::Incomplete(4));
    assert_eq!(
        length::of(&[2, 0, 0, (1 << 20) - 1]),
        PacketLength::Dwords(LONGEST)
    );
    assert_eq!(length::of(&[17]), PacketLength::Unknown);
    assert_eq!(length::of(&[1 | 9 << 8]), PacketLength::Unknown);
}

/// A dword pair as an address.
fn address(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

proptest! {
    #[test]
    fn copies_cover_the_whole_once(
        source in 0u64..1 << 47,
        destination in 0u64..1 << 47,
        bytes in prop_oneof![0u64..5, 0u64..1 << 34, (1u64..5).prop_map(|n| n << 30)],
    ) {
        let copies = CopyPackets::new(source, destination, bytes).unwrap();
        let mut done = 0;
        for packet in copies {
            let [op, count, _, s_lo, s_hi, d_lo, d_hi] = packet;
            prop_assert_eq!(op, 1);
            prop_assert_eq!(address(s_lo, s_hi), source + done);
            prop_assert_eq!(address(d_lo, d_hi), destination + done);
            prop_assert!(count < 1 << 30);
            done += u64::from(count) + 1;
        }
        prop_assert_eq!(done, bytes);
    }

    #[test]
    fn fills_cover_the_whole_once(
        destination in (0u64..1 << 45).prop_map(|n| n * 4),
        value: u32,
        bytes in prop_oneof![0u64..5, 0u64..1 << 32, (1u64..5).prop_map(|n| n << 28)]
            .prop_map(|n| n * 4),
    ) {
        let fills = FillPackets::new(destination, value, bytes).unwrap();
        let mut done = 0;
        for packet in fills {
            let [op, d_lo, d_hi, v, count] = packet;
            prop_assert_eq!((op, v), (0x8000_000b, value));
            prop_assert_eq!(address(d_lo, d_hi), destination + done);
            prop_assert!(count < 1 << 30);
            // The specification: length is the count plus one element.
            done += u64::from(count) + 4;
        }
        prop_assert_eq!(done, bytes);
    }

    #[test]
    fn ends_that_would_wrap_are_refused(from_top in 0u64..100, bytes in 0u64..200) {
        let start = u64::MAX - from_top;
        let fits = start.checked_add(bytes).is_some();
        prop_assert_eq!(CopyPackets::new(start, 0, bytes).is_some(), fits);
        prop_assert_eq!(CopyPackets::new(0, start, bytes).is_some(), fits);
        prop_assert_eq!(
            FillPackets::new(start, 0, bytes).is_some(),
            fits && start % 4 == 0 && bytes % 4 == 0
        );
    }

    #[test]
    fn the_length_of_garbage_is_bounded(
        dwords in prop::collection::vec(any::<u32>(), 0..8),
        op in 0u32..18,
    ) {
        let mut dwords = dwords;
        if let Some(first) = dwords.first_mut() {
            *first = *first & !0xffff | op;
        }
        match length::of(&dwords) {
            PacketLength::Dwords(n) => prop_assert!(0 < n && n <= LONGEST),
            PacketLength::Incomplete(n) => prop_assert!(n as usize > dwords.len()),
            PacketLength::Unknown => {}
        }
    }
}

#[test]
fn a_packet_is_the_work_that_its_dwords_say() {
    let bytes = CopyBytes::new(16 << 20).unwrap();
    assert_eq!(length::work(&p::copy_linear(0, 0, bytes)), Some(16 << 20));
    assert_eq!(length::work(&p::fence(0, 0)), Some(0));
    assert_eq!(length::work(&p::trap(0)), Some(0));
    assert_eq!(length::work(&[2, 0, 0, 0, 7]), Some(0));
    // POLL_REGMEM, an indirect buffer, a sub-window, no packet, and none at all.
    for packet in [&[8][..], &[4], &[0x401], &[0xff], &[]] {
        assert_eq!(length::work(packet), None);
    }
}
