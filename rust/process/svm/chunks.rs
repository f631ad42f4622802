// SPDX-License-Identifier: GPL-2.0
//! The mappings of shared memory on the GPUs, chunk by chunk: mapped, revoked, and mapped again.

use hw::svm::{AttributeMap, GpuIndex, GpuReach, SvmAttributes};
use hw::va::VaRange;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::ranges::RangeTree;
use super::small_range_list::SmallRangeList;
use super::{Svm, SvmState};
use crate::kern::errno;
use crate::mem::bo::BoUsage;
use crate::mem::vm::{SharedChunk, Vm};

impl SvmState {
    /// Restores the mappings that the GPUs have lost. After an error, the rest is left for the next
    /// call.
    ///
    /// # Errors
    ///
    /// Those of [`SvmState::update_gpu`].
    pub(super) fn restore_lost(&mut self, svm: &Svm) -> Result {
        while let Some(range) = self.lost.last() {
            self.update_gpu(svm, range)?;
            self.lost.pop();
        }
        Ok(())
    }

    /// Calls [`update_gpu`] for the GPUs that have mappings in `range` that they may no longer use.
    /// Otherwise these GPUs would make memory that is moved come back to where they reach it.
    ///
    /// # Errors
    ///
    /// Those of [`update_gpu`].
    pub(super) fn revoke(&mut self, svm: &Svm, range: VaRange) -> Result {
        for on in &self.vms {
            let (index, vm) = on;
            let loses = |(part, attributes): (VaRange, SvmAttributes)| {
                usage(&attributes, *index).is_none() && vm.first_chunk(part).is_some()
            };
            if self.map.parts(range).any(loses) {
                update_gpu(svm, &self.map, &mut self.lost, on, range)?;
            }
        }
        Ok(())
    }

    /// Calls [`update_gpu`] for all GPUs, and returns the first error.
    ///
    /// # Errors
    ///
    /// Those of [`update_gpu`]. With [`errno::in_progress`], some GPUs may have been left out.
    pub(super) fn update_gpu(&mut self, svm: &Svm, range: VaRange) -> Result {
        let mut result = Ok(());
        for on in &self.vms {
            let done = update_gpu(svm, &self.map, &mut self.lost, on, range);
            if done == Err(errno::in_progress()) {
                return done;
            }
            result = result.and(done);
        }
        result
    }

    /// Notes that the chunks with a hole in `range`, which still occupy its addresses, are to be
    /// mapped again; returns whether there are any.
    pub(super) fn split_holes(&mut self, range: VaRange) -> bool {
        let mut found = false;
        for (_, vm) in &self.vms {
            for chunk in vm.chunks(range).filter(|chunk| chunk.cut) {
                self.lost.add(chunk.range);
                found = true;
            }
        }
        found
    }
}

/// The way in which the GPU at `index` may use memory with these attributes, if it may, and whether
/// it always has the memory mapped.
pub(super) fn usage(attributes: &SvmAttributes, index: GpuIndex) -> Option<(BoUsage, bool)> {
    (attributes.reach(index) != GpuReach::None).then(|| {
        let usage = BoUsage {
            access: attributes.access(),
            coherence: attributes.coherence(),
            ..BoUsage::default()
        };
        (usage, attributes.is_always_mapped())
    })
}

/// Whether a chunk of the GPU `on` matches the attributes of all of its range.
fn is_right(
    map: &AttributeMap<RangeTree>,
    (index, vm): &(GpuIndex, Arc<Vm>),
    chunk: &SharedChunk,
) -> bool {
    let mut at = chunk.range.start();
    while let Some(rest) = VaRange::between(at, chunk.range.end()) {
        let (part, attributes) = map.at(at, rest);
        let is_usage = usage(&attributes, *index) == Some((chunk.usage, chunk.always));
        if !is_usage || chunk.range.size() > attributes.together(vm.retries()) {
            return false;
        }
        at = part.end();
    }
    !chunk.cut
}

/// Maps what one GPU may use of `range`, and unmaps what it may not use. Chunks that reach beyond
/// the range are mapped again, and added to `lost` if that fails.
///
/// # Errors
///
/// `ENOMEM` if there is no memory; those of [`Vm::share`] and [`Svm::check_precedence`].
pub(super) fn update_gpu(
    svm: &Svm,
    map: &AttributeMap<RangeTree>,
    lost: &mut SmallRangeList,
    on: &(GpuIndex, Arc<Vm>),
    range: VaRange,
) -> Result {
    let (_, vm) = on;
    let mut wrong = KVVec::new();
    for chunk in vm.chunks(range) {
        if !is_right(map, on, &chunk) {
            wrong.push(chunk, GFP_KERNEL_ACCOUNT)?;
        }
    }
    let remapped = remap(svm, map, on, range, &wrong);
    if remapped.is_err() {
        wrong.iter().for_each(|chunk| lost.add(chunk.range));
    }
    remapped
}

/// Unmaps the chunks `wrong`, and maps what one GPU may use of all memory in `range` or in them.
///
/// # Errors
///
/// Those of [`update_gpu`].
fn remap(
    svm: &Svm,
    map: &AttributeMap<RangeTree>,
    on: &(GpuIndex, Arc<Vm>),
    range: VaRange,
    wrong: &[SharedChunk],
) -> Result {
    let (index, vm) = on;
    let ranges = || wrong.iter().map(|chunk| chunk.range);
    let hull = ranges().fold(range, VaRange::hull);
    // Memory that they may use before and after this is unmapped for a moment in between.
    let refaults = |chunk: &SharedChunk| svm.retries() && !chunk.always;
    let _quiesced = (!wrong.iter().all(refaults)).then(|| vm.quiesce_for_svm());
    for chunk in ranges() {
        svm.check_precedence(vm)?;
        vm.unmap(chunk)?;
    }
    let mut result = Ok(());
    for (part, attributes) in map.parts(hull) {
        let Some(usage) = usage(&attributes, *index) else {
            continue;
        };
        // The GPU gets the rest when it touches it.
        let was_mapped =
            || ranges().any(|chunk| chunk.overlaps(part)) || vm.first_chunk(part).is_some();
        let in_place = attributes.reach(*index) == GpuReach::InPlace;
        if svm.retries() && !in_place && !attributes.is_always_mapped() && !was_mapped() {
            continue;
        }
        let mut at = part.start();
        while let Some(rest) = VaRange::between(at, part.end()) {
            let next = vm.first_chunk(rest).map(|chunk| chunk.range);
            let end = next.map_or(rest.end(), |next| next.start());
            if let Some(gap) = VaRange::between(at, end) {
                let most = attributes.together(svm.retries());
                let shared = vm.share(&svm.space, gap, usage, most, || svm.check_precedence(vm));
                if shared == Err(EINTR) || shared == Err(errno::in_progress()) {
                    return shared;
                }
                result = result.and(shared);
            }
            at = next.map_or(rest.end(), |next| next.end());
        }
    }
    result
}
