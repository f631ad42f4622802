// SPDX-License-Identifier: GPL-2.0
//! Common attributes of several ranges.

use super::{kind, AttributeQuery, GpuReach, GpuSet, MemoryLocation, SvmAttributes};

/// The attributes that ranges have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeSummary {
    common: SvmAttributes,
    /// Flags that at least one of them has.
    any_flags: u32,
}

impl AttributeSummary {
    /// The summary of `ranges`; `None` if there are none.
    #[inline]
    pub fn of(ranges: impl Iterator<Item = SvmAttributes>) -> Option<Self> {
        ranges.map(Self::of_one).reduce(Self::and)
    }

    /// The summary of one range.
    #[inline]
    pub const fn of_one(attributes: SvmAttributes) -> Self {
        Self {
            common: attributes,
            any_flags: attributes.flags,
        }
    }

    fn and(self, other: Self) -> Self {
        let (a, b) = (self.common, other.common);
        let same = |a, b| if a == b { a } else { MemoryLocation::Undefined };
        Self {
            common: SvmAttributes {
                preferred: same(a.preferred, b.preferred),
                prefetch: same(a.prefetch, b.prefetch),
                // A GPU that may use some parts in place and others with migration has no single
                // kind of access to all of them.
                access: GpuSet(a.access.0 & b.access.0),
                in_place: GpuSet(a.in_place.0 & b.in_place.0),
                flags: a.flags & b.flags,
                granularity: a.granularity.min(b.granularity),
            },
            any_flags: self.any_flags | other.any_flags,
        }
    }

    /// The kind and the value of the attribute that answers `question`; no value if the attribute
    /// in the question stays as it is.
    #[inline]
    pub fn answer(&self, question: AttributeQuery) -> (u32, Option<u32>) {
        let common = &self.common;
        match question {
            AttributeQuery::Preferred => (kind::PREFERRED_LOC, Some(common.preferred.raw())),
            AttributeQuery::Prefetch => (kind::PREFETCH_LOC, Some(common.prefetch.raw())),
            AttributeQuery::Reach(gpu) => (GpuReach::kind(common.reach(gpu)), None),
            AttributeQuery::Set => (kind::SET_FLAGS, Some(common.flags)),
            AttributeQuery::Clear => (kind::CLR_FLAGS, Some(!self.any_flags)),
            AttributeQuery::Granularity => (kind::GRANULARITY, Some(common.granularity.into())),
        }
    }
}
