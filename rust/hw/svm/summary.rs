// SPDX-License-Identifier: GPL-2.0
//! What is told of several ranges together.

use super::{kind, Attributes, GpuSet, Location, Question, Reach};

/// What ranges have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    common: Attributes,
    /// Flags that one of them has.
    any_flags: u32,
}

impl Summary {
    /// That of `ranges`, unless there are none.
    #[inline]
    pub fn of(ranges: impl Iterator<Item = Attributes>) -> Option<Self> {
        ranges.map(Self::of_one).reduce(Self::and)
    }

    /// That of one range.
    #[inline]
    pub const fn of_one(attributes: Attributes) -> Self {
        Self {
            common: attributes,
            any_flags: attributes.flags,
        }
    }

    fn and(self, other: Self) -> Self {
        let (a, b) = (self.common, other.common);
        let same = |a, b| if a == b { a } else { Location::Undefined };
        Self {
            common: Attributes {
                preferred: same(a.preferred, b.preferred),
                prefetch: same(a.prefetch, b.prefetch),
                // A GPU that may use some parts in place and others otherwise has no kind of access to all.
                access: GpuSet(a.access.0 & b.access.0),
                in_place: GpuSet(a.in_place.0 & b.in_place.0),
                flags: a.flags & b.flags,
                granularity: a.granularity.min(b.granularity),
            },
            any_flags: self.any_flags | other.any_flags,
        }
    }

    /// The kind and the value of the attribute that answers `question`; no value where that which was asked stays.
    #[inline]
    pub fn answer(&self, question: Question) -> (u32, Option<u32>) {
        let common = &self.common;
        match question {
            Question::Preferred => (kind::PREFERRED_LOC, Some(common.preferred.raw())),
            Question::Prefetch => (kind::PREFETCH_LOC, Some(common.prefetch.raw())),
            Question::Reach(gpu) => (Reach::kind(common.reach(gpu)), None),
            Question::Set => (kind::SET_FLAGS, Some(common.flags)),
            Question::Clear => (kind::CLR_FLAGS, Some(!self.any_flags)),
            Question::Granularity => (kind::GRANULARITY, Some(common.granularity.into())),
        }
    }
}
