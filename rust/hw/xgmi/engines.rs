// SPDX-License-Identifier: GPL-2.0
//! The SDMA engines that are near to a GPU's links to others of its hive (amdgpu: kfd_topology.c,
//! rec_sdma_eng_map).

use crate::asic::SdmaInfo;

/// GPUs of a hive for which the table is.
const NODES: usize = 8;
/// Fewer engines for XGMI have no table; with just so many, two links share one.
const LEAST: u8 = 6;

/// The engine of a GPU, which the row is for, that is near to its link to another one. 0 stands for
/// the GPU itself.
const NEAR: [[u8; NODES]; NODES] = [
    [0, 14, 12, 2, 4, 8, 10, 6],
    [14, 0, 2, 10, 8, 4, 6, 12],
    [10, 2, 0, 12, 14, 6, 4, 8],
    [2, 12, 10, 0, 6, 14, 8, 4],
    [4, 8, 14, 6, 0, 10, 12, 2],
    [8, 4, 6, 14, 12, 0, 2, 10],
    [10, 6, 4, 8, 12, 2, 0, 14],
    [6, 12, 8, 4, 2, 10, 14, 0],
];

/// The engines that are recommended for copies over the link from GPU `own` of a hive of `nodes` to
/// GPU `other`, a bit each: the one that is near to it, where that is known, or all for XGMI.
pub fn recommended(sdma: &SdmaInfo, nodes: usize, own: usize, other: usize) -> u32 {
    let all = sdma.xgmi_engines_mask();
    let near = NEAR.get(own).and_then(|row| row.get(other));
    let Some(near) = near.filter(|_| nodes == NODES) else {
        return all;
    };
    let engine = match sdma.xgmi_engines {
        ..LEAST => return all,
        LEAST => near / 2,
        _ => *near,
    };
    let bit = 1 << engine;
    if engine < sdma.host_engines || bit & all == 0 {
        return all;
    }
    bit
}
