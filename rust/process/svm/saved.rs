// SPDX-License-Identifier: GPL-2.0
//! The attributes of a process that is saved.

use hw::svm::{AttributeChange, AttributeQuery, AttributeSummary, MemoryLocation};
use hw::topology::gpu_id::GpuId;
use hw::va::{VaRange, USER_VA_END};
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::Arc;

use super::Svm;

/// The most attributes of a range: locations, flags and granularity, and one for each GPU.
const MOST: usize = 5 + hw::criu::MOST_DEVICES;

impl Svm {
    /// Calls `save` with each range that has attributes, and their kinds and values, which set them
    /// again. `gpus` are those of the process, and `name` is how it knows them.
    ///
    /// # Errors
    ///
    /// `EINTR` if the caller is killed; `ENODEV` if the process is at its end; `ENOMEM`; those of
    /// `save`.
    pub(crate) fn save(
        self: &Arc<Self>,
        gpus: &[GpuId],
        name: impl Fn(GpuId) -> GpuId,
        mut save: impl FnMut(VaRange, &[u32]) -> Result,
    ) -> Result {
        if !self.used.load(Acquire) {
            return Ok(());
        }
        let all = VaRange::between(0, USER_VA_END).ok_or(EINVAL)?;
        let opened = self.open(|| Ok(()))?;
        for (range, attributes) in opened.state.map.parts(all) {
            let summary = AttributeSummary::of_one(attributes);
            let mut words = [0; 2 * MOST];
            let mut places = words.chunks_exact_mut(2);
            let mut count = 0;
            let mut put = |(kind, value): (u32, Option<u32>), own: u32| {
                if let Some([to_kind, to_value]) = places.next() {
                    let value = value.unwrap_or(own);
                    let gpu = GpuId::from_raw(value).filter(|_| AttributeChange::has_gpu(kind));
                    *to_kind = kind;
                    *to_value = gpu.map_or(value, |gpu| name(gpu).get().into());
                    count += 2;
                }
            };
            put(summary.answer(AttributeQuery::Preferred), 0);
            let prefetch = summary.answer(AttributeQuery::Prefetch);
            if prefetch.1 != Some(MemoryLocation::Undefined.raw()) {
                put(prefetch, 0);
            }
            for &gpu in gpus.iter().take(hw::criu::MOST_DEVICES) {
                if let Some(index) = opened.state.gpus.index(gpu) {
                    put(
                        summary.answer(AttributeQuery::Reach(index)),
                        gpu.get().into(),
                    );
                }
            }
            put(summary.answer(AttributeQuery::Clear), 0);
            put(summary.answer(AttributeQuery::Set), 0);
            put(summary.answer(AttributeQuery::Granularity), 0);
            save(range, words.get(..count).unwrap_or(&[]))?;
        }
        Ok(())
    }
}
