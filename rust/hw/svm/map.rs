// SPDX-License-Identifier: GPL-2.0
//! The attributes of all ranges of a process. The caller provides the container: the kernel's, or
//! that of a test.

use super::{AttributeChange, AttributeSummary, GpuIndex, GpuReach, SvmAttributes};
use crate::va::{VaRange, USER_VA_END};

/// Ranges with their attributes, in order and without overlaps.
pub trait RangeStore {
    /// The first range that ends after `address`.
    fn ending_after(&self, address: u64) -> Option<(VaRange, SvmAttributes)>;
    /// Adds a range in a gap.
    fn insert(&mut self, range: VaRange, attributes: SvmAttributes);
    /// Removes an existing range.
    fn remove(&mut self, range: VaRange);
    /// Applies `change` to the attributes of all ranges.
    fn change_all(&mut self, change: impl Fn(SvmAttributes) -> SvmAttributes);
}

/// The attributes of all ranges. Adjacent ranges with equal attributes are merged.
#[derive(Debug)]
pub struct AttributeMap<R> {
    ranges: R,
    /// Attributes of the gaps.
    initial: SvmAttributes,
}

impl<R: RangeStore> AttributeMap<R> {
    /// Returns a map of `ranges`, which is without settings if that is empty; `initial` are the
    /// attributes of the gaps.
    #[inline]
    pub const fn new(ranges: R, initial: SvmAttributes) -> Self {
        Self { ranges, initial }
    }

    /// Sets the attributes of the gaps, which are also the base of later changes there.
    #[inline]
    pub fn set_initial(&mut self, initial: SvmAttributes) {
        self.initial = initial;
    }

    /// Returns the attributes at `address`, and the last address range around it, within `within`,
    /// that has the same ones throughout.
    #[inline]
    pub fn at(&self, address: u64, within: VaRange) -> (VaRange, SvmAttributes) {
        let found = self.ranges.ending_after(address);
        if let Some((found, attributes)) = found.filter(|(found, _)| found.start() <= address) {
            return (found.intersection(within).unwrap_or(within), attributes);
        }
        // In a gap: the last range before it ends at or before the address.
        let before = self.parts(within);
        let before = before.take_while(|(part, _)| part.end() <= address);
        let start = before.last().map_or(within.start(), |(part, _)| part.end());
        let end = found.map_or(within.end(), |(found, _)| found.start().min(within.end()));
        let gap = VaRange::between(start, end);
        (gap.unwrap_or(within), self.initial)
    }

    /// The container.
    #[inline]
    pub fn ranges(&mut self) -> &mut R {
        &mut self.ranges
    }

    /// The ranges with settings, clipped to `within`.
    #[inline]
    pub fn parts(&self, within: VaRange) -> impl Iterator<Item = (VaRange, SvmAttributes)> + '_ {
        let mut at = within.start();
        core::iter::from_fn(move || {
            let left = VaRange::between(at, within.end())?;
            let (found, attributes) = self.ranges.ending_after(at)?;
            let part = found.intersection(left)?;
            at = part.end();
            Some((part, attributes))
        })
    }

    /// Whether a part of `range` has settings.
    #[inline]
    pub fn overlaps(&self, range: VaRange) -> bool {
        self.parts(range).next().is_some()
    }

    /// The common attributes of `range`.
    #[inline]
    pub fn summary(&self, range: VaRange) -> AttributeSummary {
        let said = self.parts(range).map(|(_, attributes)| attributes);
        AttributeSummary::of(said).unwrap_or_else(|| AttributeSummary::of_one(self.initial))
    }

    /// The number of ranges that [`AttributeMap::set`] of `range` may add before it has removed as
    /// many: one for each gap, and one for each end at which a range is cut.
    #[inline]
    pub fn room(&self, range: VaRange) -> usize {
        let is_cut = |at: &u64| {
            let found = self.ranges.ending_after(*at);
            found.is_some_and(|(found, _)| found.start() < *at)
        };
        let ends = [range.start(), range.end()];
        let cut = ends.iter().filter(|at| is_cut(at)).count();
        let (mut at, mut gaps) = (range.start(), 0);
        for (part, _) in self.parts(range) {
            gaps += usize::from(at < part.start());
            at = part.end();
        }
        cut + gaps + usize::from(at < range.end())
    }

    /// Applies `changes` to all of `range`.
    #[inline]
    pub fn set(&mut self, range: VaRange, changes: &[AttributeChange]) {
        let mut at = range.start();
        while let Some(left) = VaRange::between(at, range.end()) {
            let found = self.ranges.ending_after(at);
            let found = found.filter(|(found, _)| found.overlaps(left));
            let part = match found {
                Some((found, attributes)) if found.start() <= at => {
                    let part = self.cut(found, attributes, left);
                    self.ranges.insert(part, attributes.after(changes));
                    part
                }
                beyond => {
                    let end = beyond.map_or(left.end(), |(found, _)| found.start());
                    let Some(gap) = VaRange::between(at, end) else {
                        break;
                    };
                    self.ranges.insert(gap, self.initial.after(changes));
                    gap
                }
            };
            at = part.end();
        }
        self.join(range);
    }

    /// Removes all settings of `range`, which may add one range.
    #[inline]
    pub fn remove(&mut self, range: VaRange) {
        while let Some((found, attributes)) = self.ranges.ending_after(range.start()) {
            if !found.overlaps(range) {
                break;
            }
            self.cut(found, attributes, range);
        }
    }

    /// The range to remove for `range` so that the number of ranges does not grow. If `range` lies
    /// in the middle of one, it includes the smaller rest of that one.
    #[inline]
    pub fn with_smaller_rest(&self, range: VaRange) -> VaRange {
        let found = self.ranges.ending_after(range.start());
        let is_cut = |found: &VaRange| found.start() < range.start() && range.end() < found.end();
        let Some(found) = found.map(|(found, _)| found).filter(is_cut) else {
            return range;
        };
        let (before, after) = (range.start() - found.start(), found.end() - range.end());
        let more = if before <= after {
            VaRange::between(found.start(), range.end())
        } else {
            VaRange::between(range.start(), found.end())
        };
        more.unwrap_or(range)
    }

    /// Removes all access of `gpu` from the settings. Adds no range.
    #[inline]
    pub fn remove_gpu(&mut self, gpu: GpuIndex) {
        self.ranges
            .change_all(|attributes| attributes.reached(gpu, GpuReach::None));
        if let Some(all) = VaRange::between(0, USER_VA_END) {
            self.join(all);
        }
    }

    /// Removes the part of `found` that is in `within`, and returns that part.
    fn cut(&mut self, found: VaRange, attributes: SvmAttributes, within: VaRange) -> VaRange {
        let part = found.intersection(within).unwrap_or(found);
        self.ranges.remove(found);
        for rest in [
            VaRange::between(found.start(), part.start()),
            VaRange::between(part.end(), found.end()),
        ]
        .into_iter()
        .flatten()
        {
            self.ranges.insert(rest, attributes);
        }
        part
    }

    /// Merges adjacent ranges with equal attributes, in `range` and at its ends.
    fn join(&mut self, range: VaRange) {
        let before = range.start().saturating_sub(1);
        let mut last = self.ranges.ending_after(before);
        while let Some((one, attributes)) = last {
            last = self.ranges.ending_after(one.end());
            let Some((other, next)) = last else { break };
            if other.start() > range.end() {
                break;
            }
            if other.start() != one.end() || next != attributes {
                continue;
            }
            let Some(both) = VaRange::between(one.start(), other.end()) else {
                break;
            };
            self.ranges.remove(one);
            self.ranges.remove(other);
            self.ranges.insert(both, attributes);
            last = Some((both, attributes));
        }
    }
}
