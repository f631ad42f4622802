// SPDX-License-Identifier: GPL-2.0
//! CU masks: the compute units that a queue's waves may use. User space numbers the CUs so that
//! neighbours are in different XCCs and shader engines. The descriptor has a dword for each engine,
//! with 16 bits for each of its arrays. There the hardware numbers the working CUs from 0 on, and
//! finds out by itself which those are: an array with 13 of 14 has bits 0 to 12, whichever CU is
//! fused off (amdgpu's mqd_symmetrically_map_cu_mask).

use crate::topology::cus::ComputeUnits;

/// The most shader engines of an XCC that a descriptor has masks for.
pub const MAX_WORDS: usize = 8;
/// The most XCCs that a queue has masks for.
pub const MAX_XCCS: usize = 8;
/// The masks of the shader engines of each XCC.
pub type CuMasks = [[u32; MAX_WORDS]; MAX_XCCS];

/// The masks of all XCCs, see [`spread`]. `None` if no CU of any remains. An XCC that has none left
/// never ends its part of a dispatch, which is up to the user (amdkfd takes such masks, too).
pub fn spread_all(cus: &ComputeUnits, bit: &mut dyn FnMut(u32) -> bool) -> Option<CuMasks> {
    let mut all = [[0; MAX_WORDS]; MAX_XCCS];
    let mut any = false;
    for (xcc, masks) in (0..cus.asic().gfx.xccs).zip(all.iter_mut()) {
        if let Some(own) = spread(cus, xcc, &mut *bit) {
            *masks = own;
            any = true;
        }
    }
    any.then_some(all)
}

/// The most bits of a mask that are used.
pub const MAX_BITS: u32 = 1024;

/// The masks of the shader engines of XCC `xcc` for a mask of the compute units `cus`; `bit`
/// returns each bit of it. Bits are dealt to the XCCs in turn. The bits of an XCC go to the first
/// CU of every engine in turn, then to the second of each that has one, and so on. `None` if no CU
/// of the XCC remains.
pub fn spread(
    cus: &ComputeUnits,
    xcc: u32,
    mut bit: impl FnMut(u32) -> bool,
) -> Option<[u32; MAX_WORDS]> {
    let gfx = &cus.asic().gfx;
    let mut masks = [0; MAX_WORDS];
    let mut next = xcc;
    for cu in 0..gfx.cus_per_array {
        for array in 0..gfx.arrays_per_engine {
            for (engine, mask) in (0..gfx.shader_engines).zip(masks.iter_mut()) {
                let working = cus.mask(xcc, engine, array);
                if cu >= working.count_ones() {
                    continue;
                }
                if bit(next) {
                    *mask |= 1 << (cu + 16 * array);
                }
                next += gfx.xccs;
            }
        }
    }
    masks.iter().any(|&mask| mask != 0).then_some(masks)
}
