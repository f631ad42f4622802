// SPDX-License-Identifier: GPL-2.0
//! What the PSP's application for XGMI is asked and answers, right and wrong answers, and the links
//! that the topology makes of them.

use hw::asic::gfx90a::MI210;
use hw::topology::record::IoLink;
use hw::xgmi::ta::{
    self, NodeId, NodeList, TaCommand, TaError, XgmiWay, LIST_DWORDS, MOST_NODES, PORTS,
};
use hw::xgmi::{engines, HivePlace};
use proptest::prelude::*;

fn node(id: u64) -> NodeId {
    ta::node_id([id as u32, (id >> 32) as u32]).unwrap()
}

fn list(ids: &[u64]) -> NodeList {
    let mut list = NodeList::new();
    for &id in ids {
        assert_eq!(list.add(node(id)), Ok(true));
    }
    list
}

/// An answer about these nodes: a number and a byte for each.
fn answer(nodes: &[(u64, u8)]) -> [u32; LIST_DWORDS] {
    let mut dwords = [0; LIST_DWORDS];
    dwords[0] = nodes.len() as u32;
    for (n, &(id, byte)) in nodes.iter().enumerate() {
        // What is behind the byte means nothing here.
        let entry = [id as u32, (id >> 32) as u32, u32::from(byte) | 0x100, !0];
        dwords[2 + 4 * n..][..4].copy_from_slice(&entry);
    }
    dwords
}

const A: u64 = 0x8000_0001_0000_0005;
const B: u64 = 7;
const C: u64 = 0x1_0000_0007;

#[test]
fn numbers() {
    assert_eq!(ta::hive_id([5, 1]).map(|id| id.get()), Ok(0x1_0000_0005));
    assert_eq!(ta::hive_id([0, 0]), Err(TaError::NoHive));
    assert_eq!(ta::node_id([0, 0]), Err(TaError::NoNode));
}

#[test]
fn headers() {
    let command = TaCommand::GetTopology;
    assert_eq!(command.header(), [3, 0, 0, 0]);
    assert_eq!(command.check([3, 0x8000_0003, 0, 0]), Ok(()));
    for response in [0, 3, 0x8000_0002] {
        let silent = Err(TaError::Silent(command));
        assert_eq!(command.check([3, response, 0, 0]), silent);
    }
    let status = Err(TaError::Status { command, status: 7 });
    assert_eq!(command.check([3, 0x8000_0003, 7, 0]), status);
    assert_eq!(
        TaCommand::GetPeerLinks.list_at(),
        TaCommand::GetPeerLinks.answer_at()
    );
    assert_eq!((command.list_at(), command.answer_at()), (0x10, 0x418));
}

#[test]
fn lists_have_each_node_once() {
    let mut nodes = list(&[A, B]);
    assert_eq!(nodes.add(node(A)), Err(TaError::Twice(node(A))));
    assert_eq!(nodes.len(), 2);
    assert_eq!(nodes.position(node(B)), Some(1));
    let dwords = nodes.dwords();
    assert_eq!(
        dwords[..10],
        [2, 0, 5, 0x8000_0001, 0x100, !0, 7, 0, 0x100, !0]
    );
    assert!(dwords[10..].iter().all(|&dword| dword == 0));
    for id in 100..100 + MOST_NODES as u64 - 2 {
        assert_eq!(nodes.add(node(id)), Ok(true));
    }
    assert_eq!(nodes.add(node(1)), Ok(false));
}

#[test]
fn ways_by_both_answers() {
    let nodes = list(&[A, B, C]);
    let hops = answer(&[(A, 0), (B, 1), (C, 0x82)]);
    let links = answer(&[(A, 0), (B, 4), (C, 0)]);
    let ways = nodes.ways(node(A), &hops, Some(&links)).unwrap();
    let way = |hops, links| XgmiWay { hops, links };
    assert_eq!(ways[..4], [way(0, 0), way(1, 4), way(2, 0), way(0, 0)]);
    let ways = nodes.ways(node(A), &hops, None).unwrap();
    assert_eq!(ways[1], way(1, 0));
}

#[test]
fn answers_that_cannot_be() {
    let nodes = list(&[A, B, C]);
    let good = answer(&[(A, 0), (B, 1), (C, 1)]);
    let ways = |hops: &[(u64, u8)], links: &[(u64, u8)]| {
        nodes.ways(node(A), &answer(hops), Some(&answer(links)))
    };
    let no_hops = Err(TaError::Hops {
        node: node(C),
        hops: 0,
    });
    assert_eq!(
        ways(&[(A, 0), (B, 1), (C, 0)], &[(A, 0), (B, 1), (C, 1)]),
        no_hops
    );
    // The bits above are no hops.
    assert_eq!(
        ways(&[(A, 0), (B, 1), (C, 8)], &[(A, 0), (B, 1), (C, 1)]),
        no_hops
    );
    for other in [&[(A, 0), (B, 1)][..], &[(A, 0), (C, 1), (B, 1)]] {
        assert_eq!(
            ways(other, &[(A, 0), (B, 1), (C, 1)]),
            Err(TaError::OtherNodes)
        );
        let result = nodes.ways(node(A), &good, Some(&answer(other)));
        assert_eq!(result, Err(TaError::OtherNodes));
    }
    let links = &[(A, 0), (B, PORTS as u8), (C, 1)];
    let result = nodes.ways(node(A), &good, Some(&answer(links)));
    assert_eq!(result, Err(TaError::Links(PORTS + 1)));
    let text = TaError::Twice(node(B)).to_string();
    assert_eq!(text, "two GPUs have the number 0x7");
}

proptest! {
    #[test]
    fn any_answer_is_an_error_or_within_bounds(
        hops in prop::collection::vec(any::<u32>(), LIST_DWORDS),
        links in prop::collection::vec(any::<u32>(), LIST_DWORDS),
        fit in any::<bool>(),
    ) {
        let ids = [A, B, C];
        let nodes = list(&ids);
        let mut answers = [hops, links].map(|words| <[u32; LIST_DWORDS]>::try_from(words).unwrap());
        if fit {
            for words in &mut answers {
                words[0] = 3;
                for (n, id) in ids.into_iter().enumerate() {
                    words[2 + 4 * n] = id as u32;
                    words[3 + 4 * n] = (id >> 32) as u32;
                }
            }
        }
        if let Ok(ways) = nodes.ways(node(B), &answers[0], Some(&answers[1])) {
            prop_assert_eq!(ways[1], XgmiWay::default());
            prop_assert!(ways.iter().all(|way| way.hops < 8));
            prop_assert!(ways.iter().map(|way| way.links).sum::<u32>() <= PORTS);
            prop_assert!(ways[0].hops > 0 && ways[2].hops > 0);
        }
    }
}

#[test]
fn links_of_the_topology() {
    let link = |hops, links| IoLink::xgmi(1, 2, XgmiWay { hops, links }, MI210.xgmi_link_mbs);
    let near = link(1, 4);
    assert_eq!((near.link_type, near.weight, near.flags), (11, 15, 1));
    assert_eq!((near.min_bandwidth, near.max_bandwidth), (50_000, 200_000));
    let far = link(3, 0);
    assert_eq!(
        (far.weight, far.min_bandwidth, far.max_bandwidth),
        (45, 0, 0)
    );
    assert_eq!(MI210.sdma.xgmi_engines_mask(), 0x1c);
}

#[test]
fn engines_near_to_a_link() {
    let mut sdma = MI210.sdma;
    assert_eq!(engines::recommended(&sdma, 8, 0, 1), 0x1c);
    sdma.xgmi_engines = 14;
    for own in 0..8 {
        let mut seen = 0;
        for other in (0..8).filter(|&other| other != own) {
            let mask = engines::recommended(&sdma, 8, own, other);
            assert_eq!(mask.count_ones(), 1);
            assert_eq!(seen & mask, 0);
            seen |= mask;
        }
        assert_eq!(seen, 0x5554);
    }
    assert_eq!(engines::recommended(&sdma, 8, 0, 1), 1 << 14);
    assert_eq!(engines::recommended(&sdma, 4, 0, 1), 0xfffc);
    assert_eq!(engines::recommended(&sdma, 8, 8, 1), 0xfffc);
    sdma.xgmi_engines = 6;
    assert_eq!(engines::recommended(&sdma, 8, 0, 1), 1 << 7);
    // Engine 1 is for the host.
    assert_eq!(engines::recommended(&sdma, 8, 0, 3), 0xfc);
}

#[test]
fn ways_within_one_hive() {
    let mut one = HivePlace {
        hive: 5,
        number: 0,
        ..HivePlace::default()
    };
    one.ways[1] = XgmiWay { hops: 1, links: 2 };
    let mut other = HivePlace { number: 1, ..one };
    assert_eq!(one.way_to(&other), Some(XgmiWay { hops: 1, links: 2 }));
    assert_eq!(one.way_to(&one), None);
    other.hive = 6;
    assert_eq!(one.way_to(&other), None);
    let none = HivePlace::default();
    assert_eq!(none.way_to(&none), None);
}
