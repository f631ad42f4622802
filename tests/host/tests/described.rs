// SPDX-License-Identifier: GPL-2.0
//! Packets of processes as the report of a fault shows them.

use hw::aql::{AqlPacket, KernelDispatch, PACKET_DWORDS};
use hw::sdma::described::{last_before, DescribedPacket, MOST_DWORDS};
use hw::sdma::packet::{self, CopyBytes, FillBytes};
use proptest::prelude::*;

#[test]
fn sdma_packets() {
    let text = |dwords: &[u32]| DescribedPacket::decode(dwords).to_string();
    let copy = packet::copy_linear(0x1_2000, 0x3_4000, CopyBytes::new(4097).unwrap());
    assert_eq!(text(&copy), "copy of 4097 bytes from 0x12000 to 0x34000");
    let copy = DescribedPacket::decode(&copy);
    assert_eq!(copy.dwords(), Some(7));
    for (page, touches) in [
        (0x1_1000, false),
        (0x1_2000, true),
        (0x1_3000, true),
        (0x1_4000, false),
        (0x3_5000, true),
        (0x3_6000, false),
    ] {
        assert_eq!(copy.touches(page), touches, "{page:#x}");
    }
    let fill = packet::const_fill(0x5000, 1, FillBytes::new(4096).unwrap());
    assert_eq!(text(&fill), "fill of 4096 bytes to 0x5000");
    assert!(!DescribedPacket::decode(&fill).touches(0x6000));
    assert_eq!(
        text(&packet::fence(0x7008, 1)),
        "fence of 4 bytes to 0x7008"
    );
    assert_eq!(text(&packet::trap(1)), "trap");
    assert_eq!(text(&[0xfe]), "packet of an unknown kind");
    // The header of a copy with two destinations, and nothing behind it.
    assert_eq!(text(&[1 | 1 << 27]), "copy");
}

/// The packet of a page is found before the read pointer, whatever is before that.
#[test]
fn packets_before() {
    let copy = |from| packet::copy_linear(from, 0x9000, CopyBytes::new(64).unwrap());
    let mut ring = vec![0xfe, 7, 1];
    ring.extend(copy(0x1000));
    ring.extend(packet::fence(0x7008, 1));
    ring.extend(copy(0x1040));
    ring.extend(packet::trap(1));
    let found = |page| last_before(&ring, page).map(|(at, packet)| (at, packet.to_string()));
    let text = "copy of 64 bytes from 0x1040 to 0x9000".to_string();
    assert_eq!(found(0x1000), Some((14, text)));
    assert_eq!(found(0x7000).unwrap().0, 10);
    assert_eq!(found(0x2000), None);
    // It would end behind the read pointer.
    assert_eq!(last_before(&ring[..20], 0x1000), None);
    assert_eq!(last_before(&[], 0x1000), None);
}

#[test]
fn aql_packets() {
    let mut dwords = [0; PACKET_DWORDS];
    dwords[..12].copy_from_slice(&[
        0x1_1502, 0x8_0040, 2, 1024, 16, 4, 0, 0, 0x80, 0x7f, 0x1000, 0x7f,
    ]);
    let dispatch = KernelDispatch {
        grid: [1024, 16, 4],
        group: [64, 8, 2],
        object: 0x7f_0000_0080,
        arguments: 0x7f_0000_1000,
    };
    assert_eq!(AqlPacket::decode(&dwords), AqlPacket::Kernel(dispatch));
    assert_eq!(
        AqlPacket::decode(&dwords).to_string(),
        "dispatch, kernel object 0x7f00000080, grid 1024x16x4, group 64x8x2, arguments at \
         0x7f00001000"
    );
    dwords[0] = 0x1_1501;
    assert_eq!(AqlPacket::decode(&dwords), AqlPacket::Taken(dispatch));
    assert_eq!(AqlPacket::decode(&[1; PACKET_DWORDS]), AqlPacket::Invalid);
    for (head, packet) in [
        (0, AqlPacket::Vendor),
        (3, AqlPacket::Barrier),
        (4, AqlPacket::Agent),
        (5, AqlPacket::Barrier),
        (6, AqlPacket::Unknown(6)),
    ] {
        dwords[0] = head;
        assert_eq!(AqlPacket::decode(&dwords), packet);
    }
}

/// Any dword, and often one that begins a packet.
fn head() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        (any::<u32>(), 0u32..16).prop_map(|(d, op)| d & 0xfff0_0000 | op)
    ]
}

proptest! {
    /// Any memory gives one line.
    #[test]
    fn any_memory_has_a_text(
        head in head(),
        rest in prop::collection::vec(any::<u32>(), 0..MOST_DWORDS),
        page: u64,
    ) {
        let dwords: Vec<u32> = core::iter::once(head).chain(rest).collect();
        for length in 0..=dwords.len() {
            let packet = DescribedPacket::decode(&dwords[..length]);
            let _ = packet.touches(page);
            let _ = last_before(&dwords[..length], page);
            prop_assert!(packet.dwords() != Some(0));
            prop_assert!(!packet.to_string().contains('\n'));
        }
    }

    #[test]
    fn any_aql_memory_has_a_text(head in head(), mut dwords: [u32; PACKET_DWORDS]) {
        dwords[0] = head;
        prop_assert!(!AqlPacket::decode(&dwords).to_string().contains('\n'));
    }
}
