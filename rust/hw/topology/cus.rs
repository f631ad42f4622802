// SPDX-License-Identifier: GPL-2.0
//! The compute units of a GPU that work: which ones are fused off differs from card to card.

use super::asic::{Asic, ContextSaveSizes};
use super::record::{CacheRecord, SIBLINGS};

/// The most shader arrays of a GPU.
pub const MOST_ARRAYS: usize = 8;

/// The compute units that work, array by array.
#[derive(Clone, Copy, Debug)]
pub struct ComputeUnits {
    asic: &'static Asic,
    /// A bit for each that works.
    masks: [u32; MOST_ARRAYS],
}

impl ComputeUnits {
    /// Those of a GPU of which `inactive` tells, for each engine and array of it, the ones that are switched off, a bit each
    /// (CC_GC_SHADER_ARRAY_CONFIG and GC_USER_SHADER_ARRAY_CONFIG, INACTIVE_CUS). `None` when none is left, or there are more arrays than
    /// [`MOST_ARRAYS`].
    pub fn new(asic: &'static Asic, mut inactive: impl FnMut(u32, u32) -> u32) -> Option<Self> {
        let mut masks = [0; MOST_ARRAYS];
        let mut places = masks.get_mut(..asic.arrays() as usize)?.iter_mut();
        let all = 1u32.checked_shl(asic.cus_per_array)? - 1;
        for engine in 0..asic.shader_engines {
            for array in 0..asic.arrays_per_engine {
                *places.next()? = all & !inactive(engine, array);
            }
        }
        let any = masks.iter().any(|&mask| mask != 0);
        any.then_some(Self { asic, masks })
    }

    /// What kind of GPU they are of.
    #[inline]
    pub const fn asic(&self) -> &'static Asic {
        self.asic
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> u32 {
        self.masks.iter().map(|mask| mask.count_ones()).sum()
    }

    /// SIMDs of the GPU: `simd_count`.
    #[inline]
    pub fn simds(&self) -> u32 {
        self.count() * self.asic.simds_per_cu
    }

    /// Those of array `array`, a bit each; 0 if there is no such array.
    #[inline]
    pub fn mask(&self, array: u32) -> u32 {
        self.masks.get(array as usize).copied().unwrap_or(0)
    }

    /// As the render node's DEV_INFO packs them: four columns of engines, engines 4 to 7 below engines 0 to 3.
    pub fn bitmap(&self) -> [[u32; 4]; 4] {
        let mut bitmap = [[0; 4]; 4];
        for engine in 0..self.asic.shader_engines {
            for array in 0..self.asic.arrays_per_engine {
                let row = (array + engine / 4) as usize;
                if let Some(cell) = bitmap
                    .get_mut(engine as usize % 4)
                    .and_then(|column| column.get_mut(row))
                {
                    *cell = self.mask(engine * self.asic.arrays_per_engine + array);
                }
            }
        }
        bitmap
    }

    /// Sizes of a compute queue's save area.
    #[inline]
    pub fn context_save(&self) -> ContextSaveSizes {
        self.asic.context_save(self.count())
    }

    /// The caches of the GPU, each once, nearest kind first; CUs are numbered through from 0, an array's CUs
    /// together. `first_simd` is the node's `simd_id_base`.
    pub fn caches(&self, first_simd: u32) -> impl Iterator<Item = CacheRecord> + '_ {
        let asic = self.asic;
        asic.caches.iter().flat_map(move |kind| {
            let shared_by = kind.shared_by.min(asic.cus_per_array);
            let blocks = asic.cus_per_array.div_ceil(shared_by);
            let whole_gpu = kind.shared_by > asic.cus_per_array;
            let arrays = if whole_gpu {
                // There is one with a CU that works.
                let first = self.masks.iter().take_while(|&&mask| mask == 0).count() as u32;
                first..first + 1
            } else {
                0..asic.arrays()
            };
            arrays.flat_map(move |array| {
                (0..blocks).filter_map(move |block| {
                    let first = block * shared_by;
                    let in_block = (1u32 << shared_by) - 1;
                    let mask = self.mask(array) >> first & in_block;
                    if mask == 0 {
                        return None;
                    }
                    let skipped = mask.trailing_zeros();
                    let cu = array * asic.cus_per_array + first + skipped;
                    let mut siblings = [0; SIBLINGS];
                    siblings[0] = mask >> skipped;
                    if whole_gpu {
                        siblings = self.map_from(cu);
                    }
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

    /// The map of all of them, as a cache that all share has it: from CU `first` on, the first that works.
    fn map_from(&self, first: u32) -> [u32; SIBLINGS] {
        let mut map = [0; SIBLINGS];
        for array in 0..self.asic.arrays() {
            for cu in 0..self.asic.cus_per_array {
                let bit = (array * self.asic.cus_per_array + cu).checked_sub(first);
                if let (Some(bit), 1) = (bit, self.mask(array) >> cu & 1) {
                    if let Some(word) = map.get_mut(bit as usize / 32) {
                        *word |= 1 << (bit % 32);
                    }
                }
            }
        }
        map
    }
}
