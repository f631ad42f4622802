// SPDX-License-Identifier: GPL-2.0
//! The links between the GPUs of a hive. The map of eight dies of gfx90a is that of a real machine
//! with four packages; the others are full meshes.

use crate::asic::Asic;

/// The neighbours of each of eight dies.
const EIGHT: [[u32; 3]; 8] = [
    [1, 2, 6],
    [0, 3, 5],
    [0, 3, 4],
    [1, 2, 7],
    [2, 5, 6],
    [1, 4, 7],
    [0, 4, 7],
    [3, 5, 6],
];
/// Links between the two dies of a package, and between two cards that a bridge joins.
const TWIN: u32 = 4;
const BRIDGE: u32 = 3;

/// How one GPU reaches another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// Links on the way; 0 to itself.
    pub hops: u32,
    /// Links that join the two directly.
    pub links: u32,
}

/// The way between two GPUs of a hive of `nodes`; `is_card` tells that each is a card of its own.
pub fn way(asic: &Asic, is_card: bool, nodes: u32, from: u32, to: u32) -> Way {
    if from == to {
        return Way { hops: 0, links: 0 };
    }
    let is_map = nodes == 8 && asic.name == "gfx90a";
    if !is_map {
        let links = match (nodes, is_card) {
            (2, true) => BRIDGE,
            (2, false) => TWIN,
            _ => 1,
        };
        return Way { hops: 1, links };
    }
    let hops = distance(from, to);
    let links = match hops {
        1 if from / 2 == to / 2 => TWIN,
        1 => 1,
        _ => 0,
    };
    Way { hops, links }
}

/// Links on the shortest way among eight.
fn distance(from: u32, to: u32) -> u32 {
    let mut reached = 1u32 << from;
    let mut hops = 0;
    while reached >> to & 1 == 0 {
        let before = reached;
        for (node, others) in EIGHT.iter().enumerate() {
            if before >> node & 1 != 0 {
                reached |= others.iter().fold(0, |mask, other| mask | 1 << other);
            }
        }
        hops += 1;
    }
    hops
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asic::{GFX90A, GFX942};

    #[test]
    fn eight_dies() {
        let way = |from, to| way(&GFX90A, false, 8, from, to);
        assert_eq!(way(0, 1), Way { hops: 1, links: 4 });
        assert_eq!(way(0, 6), Way { hops: 1, links: 1 });
        assert_eq!(way(0, 7), Way { hops: 2, links: 0 });
        for from in 0..8 {
            let all: u32 = (0..8).map(|to| way(from, to).links).sum();
            assert_eq!(all, 6);
            for to in 0..8 {
                assert_eq!(way(from, to), way(to, from));
            }
        }
    }

    #[test]
    fn meshes() {
        let links = |asic, card, nodes| way(asic, card, nodes, 0, 1).links;
        assert_eq!(links(&GFX90A, true, 2), 3);
        assert_eq!(links(&GFX90A, false, 2), 4);
        assert_eq!(links(&GFX90A, true, 4), 1);
        assert_eq!(links(&GFX942, false, 8), 1);
        assert_eq!(way(&GFX942, false, 8, 3, 3).hops, 0);
    }
}
