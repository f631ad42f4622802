// SPDX-License-Identifier: GPL-2.0
//! CU masks: which compute units a queue's waves may use. User space numbers the CUs so that neighbours are in
//! different shader engines; the descriptor has a dword for each engine, with 16 bits for each of its arrays. There the hardware
//! numbers the CUs that work, from 0 on, and finds out by itself which those are: an array with 13 of 14 has bits 0 to 12, whichever
//! CU is fused off (amdgpu's mqd_symmetrically_map_cu_mask).

use crate::topology::cus::ComputeUnits;

/// Shader engines that a descriptor has masks for.
pub const ENGINES: usize = 8;
/// The most bits of a mask that are looked at.
pub const MAX_BITS: u32 = 1024;

/// The engines' masks for a mask of the compute units `cus`, of which `bit` tells each bit: the first CU of every engine in turn,
/// then the second of each that has one, and so on. `None` when no CU is left.
pub fn spread(cus: &ComputeUnits, mut bit: impl FnMut(u32) -> bool) -> Option<[u32; ENGINES]> {
    let asic = cus.asic();
    let mut masks = [0; ENGINES];
    let mut next = 0;
    for cu in 0..asic.cus_per_array {
        for array in 0..asic.arrays_per_engine {
            for (engine, mask) in (0..asic.shader_engines).zip(masks.iter_mut()) {
                let working = cus.mask(engine * asic.arrays_per_engine + array);
                if cu >= working.count_ones() {
                    continue;
                }
                if bit(next) {
                    *mask |= 1 << (cu + 16 * array);
                }
                next += 1;
            }
        }
    }
    masks.iter().any(|&mask| mask != 0).then_some(masks)
}
