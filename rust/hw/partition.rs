// SPDX-License-Identifier: GPL-2.0
//! Partitions of a GPU of several XCCs: its compute, of which each partition is a GPU of its own,
//! and its memory, of which each partition is in one part of the memory controllers. NBIO says how
//! it is partitioned (amdgpu: amdgpu_gfx.h, nbio_v7_9.c).

use core::fmt;

/// How a GPU is partitioned. The default is as a whole (SPX and NPS1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Partitioning {
    /// PARTITION_COMPUTE_STATUS.PARTITION_MODE: 0 for one partition.
    pub compute: u32,
    /// PARTITION_MEM_STATUS.NPS_MODE: a bit for each number of partitions, bit 0 for one. 0 where
    /// the card's firmware has not set it, which amdgpu takes as one.
    pub memory: u32,
}

impl Partitioning {
    /// Whether the GPU is one, with one memory.
    #[inline]
    pub const fn is_whole(&self) -> bool {
        self.compute == 0 && (self.memory == 0 || self.memory.trailing_zeros() == 0)
    }
}

impl fmt::Display for Partitioning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const COMPUTE: [&str; 5] = ["SPX", "DPX", "TPX", "QPX", "CPX"];
        match COMPUTE.get(self.compute as usize) {
            Some(mode) => f.write_str(mode)?,
            None => write!(f, "compute mode {}", self.compute)?,
        }
        match self.memory {
            0 => f.write_str(", NPS1"),
            modes => write!(f, ", NPS{}", modes.trailing_zeros() + 1),
        }
    }
}
