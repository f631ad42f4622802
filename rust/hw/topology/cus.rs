// SPDX-License-Identifier: GPL-2.0
//! The working compute units of a GPU; which ones are fused off differs from card to card.

use super::record::{CacheRecord, CacheSiblings};
use crate::asic::{Asic, ContextSaveSizes};

/// The most shader arrays of a GPU, of all its XCCs together.
pub const MAX_ARRAYS: usize = 64;

/// The working compute units, array by array.
#[derive(Clone, Copy, Debug)]
pub struct ComputeUnits {
    asic: &'static Asic,
    /// A bit for each working unit: the arrays of XCC 0, then those of the next one.
    masks: [u32; MAX_ARRAYS],
}

impl ComputeUnits {
    /// The compute units of a GPU of which `inactive` tells, for each XCC, engine and array of it,
    /// the ones that are switched off, a bit each (CC_GC_SHADER_ARRAY_CONFIG and
    /// GC_USER_SHADER_ARRAY_CONFIG, INACTIVE_CUS). `None` when none is left, or there are more
    /// arrays than [`MAX_ARRAYS`].
    pub fn new(
        asic: &'static Asic,
        mut inactive: impl FnMut(u32, u32, u32) -> u32,
    ) -> Option<Self> {
        let gfx = &asic.gfx;
        let mut masks = [0; MAX_ARRAYS];
        let mut places = masks.get_mut(..gfx.arrays() as usize)?.iter_mut();
        let all = 1u32.checked_shl(gfx.cus_per_array)? - 1;
        for xcc in 0..gfx.xccs {
            for engine in 0..gfx.shader_engines {
                for array in 0..gfx.arrays_per_engine {
                    *places.next()? = all & !inactive(xcc, engine, array);
                }
            }
        }
        let any = masks.iter().any(|&mask| mask != 0);
        any.then_some(Self { asic, masks })
    }

    /// The chip.
    #[inline]
    pub const fn asic(&self) -> &'static Asic {
        self.asic
    }

    /// Number of units.
    #[inline]
    pub fn count(&self) -> u32 {
        self.masks.iter().map(|mask| mask.count_ones()).sum()
    }

    /// SIMDs of the GPU: `simd_count`.
    #[inline]
    pub fn simds(&self) -> u32 {
        self.count() * self.asic.gfx.simds_per_cu
    }

    /// The units of array `array` of engine `engine` of XCC `xcc`, a bit each; 0 if there is no
    /// such array.
    #[inline]
    pub fn mask(&self, xcc: u32, engine: u32, array: u32) -> u32 {
        let gfx = &self.asic.gfx;
        if xcc >= gfx.xccs || engine >= gfx.shader_engines || array >= gfx.arrays_per_engine {
            return 0;
        }
        self.nth_mask((xcc * gfx.shader_engines + engine) * gfx.arrays_per_engine + array)
    }

    /// The units of each array of the GPU, a bit each.
    pub(super) fn array_masks(&self) -> impl Iterator<Item = u32> + '_ {
        let arrays = self.asic.gfx.arrays() as usize;
        self.masks.iter().copied().take(arrays)
    }

    /// The processor numbers that the GPU takes from the topology's sequence: one for each unit of
    /// an XCC, whether it works or not. amdgpu counts those of one XCC only
    /// (kfd_create_vcrat_image_gpu), so that the numbers of a GPU with several overlap those of the
    /// next GPU.
    #[inline]
    pub const fn processor_numbers(&self) -> u32 {
        let gfx = &self.asic.gfx;
        gfx.shader_engines * gfx.arrays_per_engine * gfx.cus_per_array
    }

    /// The units of array `n`, counted over the whole GPU.
    fn nth_mask(&self, n: u32) -> u32 {
        self.masks.get(n as usize).copied().unwrap_or(0)
    }

    /// The units of XCC 0 in the form of the render node's DEV_INFO: four columns of engines,
    /// engines 4 to 7 below engines 0 to 3.
    pub fn bitmap(&self) -> [[u32; 4]; 4] {
        let mut bitmap = [[0; 4]; 4];
        for engine in 0..self.asic.gfx.shader_engines {
            for array in 0..self.asic.gfx.arrays_per_engine {
                let row = (array + engine / 4) as usize;
                if let Some(cell) = bitmap
                    .get_mut(engine as usize % 4)
                    .and_then(|column| column.get_mut(row))
                {
                    *cell = self.mask(0, engine, array);
                }
            }
        }
        bitmap
    }

    /// Sizes of a compute queue's save area of each XCC.
    #[inline]
    pub fn context_save(&self) -> ContextSaveSizes {
        self.asic.context_save(self.count() / self.asic.gfx.xccs)
    }

    /// The caches of the GPU, each once, nearest kind first. CUs are numbered from 0 over the whole
    /// GPU, those of an array together. `first_simd` is the node's `simd_id_base`.
    pub fn caches(&self, first_simd: u32) -> impl Iterator<Item = CacheRecord<'_>> + '_ {
        let asic = self.asic;
        asic.caches.iter().flat_map(move |kind| {
            let shared_by = kind.shared_by.min(asic.gfx.cus_per_array);
            let blocks = asic.gfx.cus_per_array.div_ceil(shared_by);
            let whole_gpu = kind.shared_by > asic.gfx.cus_per_array;
            let arrays = if whole_gpu {
                // At least one array has a working CU.
                let first = self.masks.iter().take_while(|&&mask| mask == 0).count() as u32;
                first..first + 1
            } else {
                0..asic.gfx.arrays()
            };
            arrays.flat_map(move |array| {
                (0..blocks).filter_map(move |block| {
                    let first = block * shared_by;
                    let in_block = (1u32 << shared_by) - 1;
                    let mask = self.nth_mask(array) >> first & in_block;
                    if mask == 0 {
                        return None;
                    }
                    let skipped = mask.trailing_zeros();
                    let cu = array * asic.gfx.cus_per_array + first + skipped;
                    let siblings = match whole_gpu {
                        true => CacheSiblings::All(self),
                        false => CacheSiblings::Some(mask >> skipped),
                    };
                    Some(CacheRecord {
                        processor_id_low: first_simd + cu,
                        level: kind.level.into(),
                        size: kind.kib,
                        cache_line_size: kind.line,
                        cache_lines_per_tag: 0,
                        association: 0,
                        latency: 0,
                        cache_type: kind.kind,
                        siblings,
                    })
                })
            })
        })
    }
}
