// SPDX-License-Identifier: GPL-2.0
//! XGMI, which joins GPUs to a hive. All of a hive have one physical address space, in which each
//! has a segment for its VRAM.

use core::fmt;

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
