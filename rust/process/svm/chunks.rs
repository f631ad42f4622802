// SPDX-License-Identifier: GPL-2.0
//! What the GPUs have of what was said, chunk by chunk: given, taken away, and made anew.

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
    /// Gives the GPUs again what they have lost. Errors of [`SvmState::update_gpu`]: some is left for the next time.
    pub(super) fn restore_lost(&mut self, svm: &Svm) -> Result {
        while let Some(range) = self.torn.last() {
            self.update_gpu(svm, range)?;
            self.torn.pop();
        }
        Ok(())
    }

    /// See [`update_gpu`], for the GPUs that have what they may not use any more: when it moves, they would have it come back to where they reach it.
    pub(super) fn revoke(&mut self, svm: &Svm, range: VaRange) -> Result {
        for on in &self.vms {
            let (index, vm) = on;
            let loses = |(part, attributes): (VaRange, SvmAttributes)| {
                usage(&attributes, *index).is_none() && vm.first_chunk(part).is_some()
            };
            if self.map.parts(range).any(loses) {
                update_gpu(svm, &self.map, &mut self.torn, on, range)?;
            }
        }
        Ok(())
    }

    /// See [`update_gpu`], for all GPUs. When one is to go, the others may not have been looked at.
    pub(super) fn update_gpu(&mut self, svm: &Svm, range: VaRange) -> Result {
        let mut result = Ok(());
        for on in &self.vms {
            let done = update_gpu(svm, &self.map, &mut self.torn, on, range);
            if done == Err(errno::in_progress()) {
                return done;
            }
            result = result.and(done);
        }
        result
    }

    /// Has chunks with a hole in `range` made anew, which still take its place; whether there are any.
    pub(super) fn split_holes(&mut self, range: VaRange) -> bool {
        let mut found = false;
        for (_, vm) in &self.vms {
            for chunk in vm.chunks(range).filter(|chunk| chunk.cut) {
                self.torn.add(chunk.range);
                found = true;
            }
        }
        found
    }
}

/// How the GPU at `index` may use what has these attributes, if it may, and whether it has it always.
pub(super) fn usage(attributes: &SvmAttributes, index: GpuIndex) -> Option<(BoUsage, bool)> {
    (attributes.reach(index) != GpuReach::None).then(|| {
        let usage = BoUsage {
            access: attributes.access(),
            coherence: attributes.coherence(),
        };
        (usage, attributes.is_always_mapped())
    })
}

/// Whether a chunk of the GPU `on` is as was said of all of it.
fn is_right(
    map: &AttributeMap<RangeTree>,
    (index, vm): &(GpuIndex, Arc<Vm>),
    chunk: &SharedChunk,
) -> bool {
    let mut at = chunk.range.start();
    while let Some(left) = VaRange::between(at, chunk.range.end()) {
        let (part, attributes) = map.at(at, left);
        let is_usage = usage(&attributes, *index) == Some((chunk.usage, chunk.always));
        if !is_usage || chunk.range.size() > attributes.together(vm.retries()) {
            return false;
        }
        at = part.end();
    }
    !chunk.cut
}

/// Gives one GPU what it may use of `range`, and takes from it what it may not. Chunks that reach beyond are made anew, and added to `torn`
/// when that fails. What [`Vm::share`] and [`Svm::check_precedence`] say, ENOMEM.
pub(super) fn update_gpu(
    svm: &Svm,
    map: &AttributeMap<RangeTree>,
    torn: &mut SmallRangeList,
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
    let made = remap(svm, map, on, range, &wrong);
    if made.is_err() {
        wrong.iter().for_each(|chunk| torn.add(chunk.range));
    }
    made
}

/// Takes the chunks `wrong` out, and gives one GPU what it may use of all that lies in `range` or in them. Errors as [`update_gpu`].
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
    // What they may use before and after that is not there in between.
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
        // The GPU comes to the rest.
        let was_there =
            || ranges().any(|chunk| chunk.overlaps(part)) || vm.first_chunk(part).is_some();
        let in_place = attributes.reach(*index) == GpuReach::InPlace;
        if svm.retries() && !in_place && !attributes.is_always_mapped() && !was_there() {
            continue;
        }
        let mut at = part.start();
        while let Some(left) = VaRange::between(at, part.end()) {
            let next = vm.first_chunk(left).map(|chunk| chunk.range);
            let end = next.map_or(left.end(), |next| next.start());
            if let Some(gap) = VaRange::between(at, end) {
                let most = attributes.together(svm.retries());
                let shared = vm.share(&svm.space, gap, usage, most, || svm.check_precedence(vm));
                if shared == Err(EINTR) || shared == Err(errno::in_progress()) {
                    return shared;
                }
                result = result.and(shared);
            }
            at = next.map_or(left.end(), |next| next.end());
        }
    }
    result
}
