// SPDX-License-Identifier: GPL-2.0
//! The fast path to memory, for a client that keeps translations: the waves' data.

use super::Vm;
use crate::error::Result;
use crate::hub::{Run, Target};
use crate::mapping::Span;
use crate::memory::{Access, Phys, Space, View};
use crate::utcl1::Utcl1;
use crate::walk::PAGE_SHIFT;

/// Bytes of the smallest page.
const PAGE: u64 = 1 << PAGE_SHIFT;

impl<'a> Vm<'a> {
    /// The same, for a client with many accesses that keeps translations itself.
    pub fn keeping(self) -> Vm<'a> {
        // Apertures come before the tables of VMID 0, so nothing of it is kept.
        let utcl1 = (self.vmid != 0).then(Utcl1::new);
        Vm { utcl1, ..self }
    }

    /// Adds the lookups that found a kept translation to the summary.
    pub fn count_hits(&self) {
        if let Some(utcl1) = &self.utcl1 {
            self.gpu.summary.tlb_hits.add(utcl1.take_hits());
        }
    }

    /// Translates by the hub.
    pub(super) fn translate_far(
        &self,
        view: &View<'_>,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<Run> {
        let hub = self.gpu.hub(self.hub);
        hub.translate(self.gpu, view, self.vmid, va, len, access)
    }

    /// Translates by the kept translations, or by the hub, whose translation is kept then.
    pub(super) fn translate_near(
        &self,
        utcl1: &Utcl1,
        view: &View<'_>,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<Run> {
        let hub = self.gpu.hub(self.hub);
        // Before any lookup: a removal meanwhile counts as later than it.
        let generation = hub.generation(self.vmid);
        if let Some(phys) = kept(utcl1, generation, va, len, access) {
            let target = Target::Memory(phys);
            return Ok(Run { len, target });
        }
        let run = self.translate_far(view, va, len, access)?;
        if let (Target::Memory(_), 0) = (run.target, va >> 47) {
            if let Some(leaf) = hub.cached(self.vmid, va) {
                utcl1.keep(generation, va, leaf);
            }
        }
        Ok(run)
    }

    /// Calls `step` with memory of at least `size` bytes for each lane of `lanes`, in order, at the
    /// lane's address in `at`, until one is not directly accessible: it is the first of the
    /// returned lanes. All of it is under one hold of the translations.
    pub fn each_lane(
        &self,
        at: &[u64],
        lanes: u64,
        size: usize,
        access: Access,
        mut step: impl FnMut(usize, Span<'_>),
    ) -> u64 {
        let Some(utcl1) = self.utcl1.as_ref().filter(|_| !self.is_lost()) else {
            return lanes;
        };
        let _held = self.gpu.hub(self.hub).hold();
        let view = self.gpu.bus.view();
        let mut left = lanes;
        // The stretch of the previous lane.
        let mut last: Option<Stretch<'_>> = None;
        let leave = |stretch: Option<Stretch<'_>>| {
            if let Some(stretch) = stretch.filter(|_| access.writes()) {
                view.has_written(stretch.phys, stretch.span.len() as u64);
            }
        };
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let span = match last.and_then(|stretch| stretch.at(at[lane], size)) {
                Some(span) => span,
                None => {
                    leave(last);
                    last = self.stretch(utcl1, &view, at[lane], access);
                    match last.and_then(|stretch| stretch.at(at[lane], size)) {
                        Some(span) => span,
                        None => return left,
                    }
                }
            };
            step(lane, span);
            left &= left - 1;
        }
        leave(last);
        0
    }

    /// The memory around `va`, if there is some for which the hub has the translation.
    fn stretch<'v>(
        &self,
        utcl1: &Utcl1,
        view: &'v View<'_>,
        va: u64,
        access: Access,
    ) -> Option<Stretch<'v>> {
        if va >> 47 != 0 {
            return None;
        }
        let hub = self.gpu.hub(self.hub);
        let generation = hub.generation(self.vmid);
        let leaf = match utcl1.lookup(generation, va, 1) {
            Some(leaf) => leaf,
            None => {
                let leaf = hub.cached(self.vmid, va)?;
                utcl1.keep(generation, va, leaf);
                leaf
            }
        };
        if !leaf.allows(access) {
            return None;
        }
        let first = va >> leaf.log2 << leaf.log2;
        let size = 1 << leaf.log2;
        if leaf.base.space == Space::Vram {
            let phys = leaf.base;
            if let Ok(span) = view.span(phys, size, access) {
                return Some(Stretch { first, phys, span });
            }
        }
        // Other memory may contain a part of the device itself.
        let first = va & !(PAGE - 1);
        let phys = leaf.base.plus(first & (size - 1));
        if self.gpu.bus.own(phys).is_some() {
            return None;
        }
        let span = view.span(phys, PAGE, access).ok()?;
        Some(Stretch { first, phys, span })
    }
}

/// A contiguous stretch of an address space.
#[derive(Clone, Copy)]
struct Stretch<'a> {
    first: u64,
    phys: Phys,
    span: Span<'a>,
}

impl<'a> Stretch<'a> {
    /// The memory at `va`, if it has at least `size` bytes.
    fn at(&self, va: u64, size: usize) -> Option<Span<'a>> {
        let last = self.span.len().checked_sub(size)? as u64;
        let offset = va.wrapping_sub(self.first);
        (offset <= last).then(|| self.span.tail(offset as usize))
    }
}

/// The place of `len` bytes at `va`, if a kept translation covers all of them and allows the
/// access.
fn kept(utcl1: &Utcl1, generation: u64, va: u64, len: u64, access: Access) -> Option<Phys> {
    let leaf = utcl1.lookup(generation, va, len)?;
    let offset = va & ((1 << leaf.log2) - 1);
    leaf.allows(access).then(|| leaf.base.plus(offset))
}
