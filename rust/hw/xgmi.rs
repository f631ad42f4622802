// SPDX-License-Identifier: GPL-2.0
//! XGMI, which joins GPUs to a hive. All of a hive have one physical address space, in which each
//! has a segment for its VRAM.

pub mod engines;
pub mod ta;

use core::fmt;

use ta::{XgmiWay, MOST_NODES};

/// The place of a GPU in its hive: MC_VM_XGMI_LFB_CNTL and MC_VM_XGMI_LFB_SIZE, which its firmware
/// has set. The default is a GPU that is in no hive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XgmiPlace {
    /// PF_LFB_REGION: its number.
    pub node: u32,
    /// PF_MAX_REGION: how many other GPUs are in the hive; 0 without a hive.
    pub others: u32,
    /// PF_LFB_SIZE: bytes of a segment.
    pub segment: u64,
}

impl XgmiPlace {
    /// Whether it is in a hive.
    #[inline]
    pub const fn is_in_hive(&self) -> bool {
        self.others != 0
    }

    /// Bytes from the first node's VRAM to its own. Without a hive the other fields mean nothing.
    #[inline]
    pub const fn vram_start(&self) -> u64 {
        if self.is_in_hive() {
            self.node as u64 * self.segment
        } else {
            0
        }
    }

    /// Whether a GPU with `vram` bytes can be there: its number is one of the hive's, and VRAM fits
    /// its segment.
    #[inline]
    pub const fn is_possible(&self, vram: u64) -> bool {
        !self.is_in_hive() || (self.node <= self.others && vram <= self.segment)
    }
}

/// The ways from one GPU to the others, by their numbers in the hive.
pub type HiveWays = [XgmiWay; MOST_NODES];

/// A GPU's place in its hive, as the topology shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HivePlace {
    /// The number of the hive; 0 without one.
    pub hive: u64,
    /// The number of the GPU in it, from 0 on.
    pub number: usize,
    /// The number of all GPUs that it can have.
    pub nodes: usize,
    /// How it reaches the others.
    pub ways: HiveWays,
}

impl HivePlace {
    /// How it reaches `other`, another GPU, if they are in one hive.
    pub fn way_to(&self, other: &Self) -> Option<XgmiWay> {
        let together = self.hive != 0 && self.hive == other.hive;
        let way = self.ways.get(other.number).filter(|_| together)?;
        (way.hops != 0).then_some(*way)
    }
}

impl fmt::Display for XgmiPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node,
            others,
            segment,
        } = self;
        if !self.is_in_hive() {
            return f.write_str("no hive");
        }
        write!(
            f,
            "node {node} of a hive of {}, segments of {} MiB",
            others + 1,
            segment >> 20
        )
    }
}
