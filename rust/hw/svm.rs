// SPDX-License-Identifier: GPL-2.0
//! Shared virtual memory: the attributes that a process may set for ranges of its memory, and query
//! (`AMDKFD_IOC_SVM`).

mod map;
mod ping_pong;
mod places;
mod summary;

pub use map::{AttributeMap, RangeStore};
pub use ping_pong::PingPong;
pub use places::GpuPlaces;
pub use summary::AttributeSummary;

use crate::pte::{Coherence, PageAccess};
use crate::va::LARGE_PAGE_SIZE;

/// See [`SvmAttributes::together`].
const MOST_TOGETHER: u64 = 16 * LARGE_PAGE_SIZE;

/// `KFD_IOCTL_SVM_ATTR_*`.
mod kind {
    pub(super) const PREFERRED_LOC: u32 = 0;
    pub(super) const PREFETCH_LOC: u32 = 1;
    pub(super) const ACCESS: u32 = 2;
    pub(super) const ACCESS_IN_PLACE: u32 = 3;
    pub(super) const NO_ACCESS: u32 = 4;
    pub(super) const SET_FLAGS: u32 = 5;
    pub(super) const CLR_FLAGS: u32 = 6;
    pub(super) const GRANULARITY: u32 = 7;
}

/// `KFD_IOCTL_SVM_FLAG_*`: the flags that decide how the GPU may use a range. All others are stored
/// and returned, and have no effect.
mod flag {
    pub(super) const HOST_ACCESS: u32 = 1 << 0;
    pub(super) const COHERENT: u32 = 1 << 1;
    pub(super) const GPU_RO: u32 = 1 << 3;
    pub(super) const GPU_EXEC: u32 = 1 << 4;
    pub(super) const GPU_ALWAYS_MAPPED: u32 = 1 << 6;
    pub(super) const EXT_COHERENT: u32 = 1 << 7;
}

/// The values for no location, and for system memory.
const UNDEFINED: u32 = u32::MAX;
const SYSTEM: u32 = 0;

/// Log2 of the pages that move together by default: 2 MiB.
const DEFAULT_GRANULARITY: u8 = 9;
/// The largest granularity that is stored.
const MOST_GRANULARITY: u32 = 0x3f;

/// The error of an attribute that a process cannot set or query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadAttribute;

/// A GPU, by its index among the GPUs that a process has set attributes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuIndex(u8);

impl GpuIndex {
    /// The number of GPUs that can be distinguished.
    pub const COUNT: usize = 64;

    /// The GPU at an index below [`GpuIndex::COUNT`].
    #[inline]
    pub const fn new(index: usize) -> Option<Self> {
        if index < Self::COUNT {
            Some(Self(index as u8))
        } else {
            None
        }
    }

    /// The index.
    #[inline]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// A set of GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct GpuSet(u64);

impl GpuSet {
    const fn has(self, gpu: GpuIndex) -> bool {
        self.0 >> gpu.0 & 1 != 0
    }

    const fn with(self, gpu: GpuIndex) -> Self {
        Self(self.0 | 1 << gpu.0)
    }

    const fn without(self, gpu: GpuIndex) -> Self {
        Self(self.0 & !(1 << gpu.0))
    }
}

/// A location of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLocation {
    /// No location was set.
    Undefined,
    /// System memory.
    System,
    /// The VRAM of the GPU with this id.
    Gpu(u32),
}

impl MemoryLocation {
    const fn from_raw(raw: u32) -> Self {
        match raw {
            UNDEFINED => Self::Undefined,
            SYSTEM => Self::System,
            id => Self::Gpu(id),
        }
    }

    /// Its value in an attribute.
    #[inline]
    pub const fn raw(self) -> u32 {
        match self {
            Self::Undefined => UNDEFINED,
            Self::System => SYSTEM,
            Self::Gpu(id) => id,
        }
    }
}

/// How a GPU may use a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuReach {
    /// It may use the range, and the memory may be moved to it.
    Access,
    /// It may use the range in place, where the memory is.
    InPlace,
    /// It may not use the range.
    None,
}

impl GpuReach {
    /// `KFD_IOCTL_SVM_ATTR_ACCESS` and the two similar kinds.
    const fn kind(self) -> u32 {
        match self {
            Self::Access => kind::ACCESS,
            Self::InPlace => kind::ACCESS_IN_PLACE,
            Self::None => kind::NO_ACCESS,
        }
    }
}

/// A change of one attribute of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeChange {
    /// The preferred location.
    Preferred(MemoryLocation),
    /// The location to move to now; not [`MemoryLocation::Undefined`].
    Prefetch(MemoryLocation),
    /// The access of a GPU.
    Reach(GpuIndex, GpuReach),
    /// Flags to set.
    Set(u32),
    /// Flags to clear.
    Clear(u32),
    /// Log2 of the pages that move together.
    Granularity(u8),
}

impl AttributeChange {
    /// Returns the change for the `kind` and `value` of an attribute; `gpu` returns the GPU with an
    /// id, if there is one.
    ///
    /// # Errors
    ///
    /// [`BadAttribute`] for an unknown kind or GPU.
    #[inline]
    pub fn new(
        kind: u32,
        value: u32,
        gpu: impl FnOnce(u32) -> Option<GpuIndex>,
    ) -> Result<Self, BadAttribute> {
        let reach = match kind {
            kind::PREFERRED_LOC | kind::PREFETCH_LOC => {
                let location = MemoryLocation::from_raw(value);
                if let MemoryLocation::Gpu(id) = location {
                    gpu(id).ok_or(BadAttribute)?;
                }
                return match (kind, location) {
                    (kind::PREFERRED_LOC, location) => Ok(Self::Preferred(location)),
                    (_, MemoryLocation::Undefined) => Err(BadAttribute),
                    (_, location) => Ok(Self::Prefetch(location)),
                };
            }
            kind::SET_FLAGS => return Ok(Self::Set(value)),
            kind::CLR_FLAGS => return Ok(Self::Clear(value)),
            kind::GRANULARITY => {
                return Ok(Self::Granularity(value.min(MOST_GRANULARITY) as u8));
            }
            kind::ACCESS => GpuReach::Access,
            kind::ACCESS_IN_PLACE => GpuReach::InPlace,
            kind::NO_ACCESS => GpuReach::None,
            _ => return Err(BadAttribute),
        };
        Ok(Self::Reach(gpu(value).ok_or(BadAttribute)?, reach))
    }

    /// Whether the value of an attribute of this `kind` is a GPU's id, or may be one.
    #[inline]
    pub const fn has_gpu(kind: u32) -> bool {
        matches!(
            kind,
            kind::PREFERRED_LOC
                | kind::PREFETCH_LOC
                | kind::ACCESS
                | kind::ACCESS_IN_PLACE
                | kind::NO_ACCESS
        )
    }

    /// Whether a GPU may use the range after the change.
    #[inline]
    pub const fn gives_access(self) -> bool {
        matches!(self, Self::Reach(_, GpuReach::Access | GpuReach::InPlace))
    }
}

/// A query of one attribute of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeQuery {
    /// The preferred location.
    Preferred,
    /// The location of the last prefetch.
    Prefetch,
    /// The access of a GPU.
    Reach(GpuIndex),
    /// The flags that are set everywhere in the range.
    Set,
    /// The flags that are clear everywhere in the range.
    Clear,
    /// Log2 of the pages that move together.
    Granularity,
}

impl AttributeQuery {
    /// Returns the query for an attribute of this `kind` and `value`; `gpu` and errors as in
    /// [`AttributeChange::new`]. All kinds of access are queried by the first one.
    #[inline]
    pub fn new(
        kind: u32,
        value: u32,
        gpu: impl FnOnce(u32) -> Option<GpuIndex>,
    ) -> Result<Self, BadAttribute> {
        match kind {
            kind::PREFERRED_LOC => Ok(Self::Preferred),
            kind::PREFETCH_LOC => Ok(Self::Prefetch),
            kind::ACCESS => Ok(Self::Reach(gpu(value).ok_or(BadAttribute)?)),
            kind::SET_FLAGS => Ok(Self::Set),
            kind::CLR_FLAGS => Ok(Self::Clear),
            kind::GRANULARITY => Ok(Self::Granularity),
            _ => Err(BadAttribute),
        }
    }
}

/// All attributes of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SvmAttributes {
    preferred: MemoryLocation,
    prefetch: MemoryLocation,
    access: GpuSet,
    in_place: GpuSet,
    flags: u32,
    granularity: u8,
}

impl Default for SvmAttributes {
    /// The attributes of a range without any settings, while page faults are not retried (XNACK
    /// off): no GPU may use it.
    #[inline]
    fn default() -> Self {
        Self {
            preferred: MemoryLocation::Undefined,
            prefetch: MemoryLocation::Undefined,
            access: GpuSet::default(),
            in_place: GpuSet::default(),
            flags: flag::HOST_ACCESS | flag::COHERENT,
            granularity: DEFAULT_GRANULARITY,
        }
    }
}

/// The location of memory after a GPU fault on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultDestination {
    /// System memory.
    System,
    /// The VRAM of that GPU.
    Vram,
    /// Where the memory is.
    Stays,
}

impl SvmAttributes {
    /// The attributes of a range without any settings: if page faults are retried (XNACK on), all
    /// GPUs may use it.
    #[inline]
    pub fn initial(retries: bool) -> Self {
        Self {
            access: GpuSet(if retries { !0 } else { 0 }),
            ..Self::default()
        }
    }

    /// The attributes after `changes`, in order.
    #[inline]
    pub fn after(self, changes: &[AttributeChange]) -> Self {
        changes.iter().fold(self, |was, change| match *change {
            AttributeChange::Preferred(preferred) => Self { preferred, ..was },
            AttributeChange::Prefetch(prefetch) => Self { prefetch, ..was },
            AttributeChange::Reach(gpu, reach) => was.reached(gpu, reach),
            AttributeChange::Set(flags) => Self {
                flags: was.flags | flags,
                ..was
            },
            AttributeChange::Clear(flags) => Self {
                flags: was.flags & !flags,
                ..was
            },
            AttributeChange::Granularity(granularity) => Self { granularity, ..was },
        })
    }

    fn reached(self, gpu: GpuIndex, reach: GpuReach) -> Self {
        let mut now = Self {
            access: self.access.without(gpu),
            in_place: self.in_place.without(gpu),
            ..self
        };
        match reach {
            GpuReach::Access => now.access = now.access.with(gpu),
            GpuReach::InPlace => now.in_place = now.in_place.with(gpu),
            GpuReach::None => {}
        }
        now
    }

    /// How `gpu` may use the range.
    #[inline]
    pub const fn reach(&self, gpu: GpuIndex) -> GpuReach {
        if self.access.has(gpu) {
            GpuReach::Access
        } else if self.in_place.has(gpu) {
            GpuReach::InPlace
        } else {
            GpuReach::None
        }
    }

    /// Whether `gpu` has to access the range in system memory, so that the range may not be in the
    /// VRAM of another GPU. If page faults are retried (`retries`), this is true only of a GPU that
    /// uses it in place: for others the memory moves when they access it
    /// (`svm_range_best_prefetch_location`).
    #[inline]
    pub const fn must_stay_in_system(&self, gpu: GpuIndex, retries: bool) -> bool {
        match self.reach(gpu) {
            GpuReach::Access => !retries,
            GpuReach::InPlace => true,
            GpuReach::None => false,
        }
    }

    /// The location of the last prefetch.
    #[inline]
    pub const fn prefetch(&self) -> MemoryLocation {
        self.prefetch
    }

    /// The preferred location.
    #[inline]
    pub const fn preferred(&self) -> MemoryLocation {
        self.preferred
    }

    /// The location of memory after a fault of the GPU `id`, at index `gpu`: the preferred location
    /// if that is this GPU or system memory. Otherwise this GPU, unless it uses the range in place
    /// (`svm_range_best_restore_location`).
    #[inline]
    pub const fn destination(&self, gpu: GpuIndex, id: u32) -> FaultDestination {
        match self.preferred {
            MemoryLocation::System => FaultDestination::System,
            MemoryLocation::Gpu(preferred) if preferred == id => FaultDestination::Vram,
            MemoryLocation::Gpu(_) | MemoryLocation::Undefined => match self.reach(gpu) {
                GpuReach::Access => FaultDestination::Vram,
                GpuReach::InPlace | GpuReach::None => FaultDestination::Stays,
            },
        }
    }

    /// The access of a GPU that may use the range.
    #[inline]
    pub const fn access(&self) -> PageAccess {
        PageAccess {
            read: true,
            write: self.flags & flag::GPU_RO == 0,
            execute: self.flags & flag::GPU_EXEC != 0,
        }
    }

    /// Whether the range is mapped for the GPU before the GPU accesses it, even if the GPU retries
    /// page faults.
    #[inline]
    pub const fn is_always_mapped(&self) -> bool {
        self.flags & flag::GPU_ALWAYS_MAPPED != 0
    }

    /// The most bytes of the range that are mapped and unmapped together. Memory that may go to
    /// VRAM moves there in large pages, and comes back whenever the CPU touches it, so the rest of
    /// the range should stay mapped. Memory in system memory changes rarely. `retries`: page faults
    /// are retried.
    #[inline]
    pub const fn together(&self, retries: bool) -> u64 {
        let refaults = retries && !self.is_always_mapped();
        match (self.prefetch, self.preferred) {
            (
                MemoryLocation::Undefined | MemoryLocation::System,
                MemoryLocation::Undefined | MemoryLocation::System,
            ) if !refaults => MOST_TOGETHER,
            _ => LARGE_PAGE_SIZE,
        }
    }

    /// Log2 of the pages that move together.
    #[inline]
    pub const fn granularity(&self) -> u8 {
        self.granularity
    }

    /// The coherence of the caches for the range.
    #[inline]
    pub const fn coherence(&self) -> Coherence {
        Coherence {
            coherent: self.flags & flag::COHERENT != 0,
            extended: self.flags & flag::EXT_COHERENT != 0,
            uncached: false,
        }
    }
}
