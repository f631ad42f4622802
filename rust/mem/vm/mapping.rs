// SPDX-License-Identifier: GPL-2.0
//! A buffer in an address space, and the guards that keep it there.

use super::{fault_counter::FaultCounter, userptr::Userptr, Vm};
use crate::{
    kern::user_range::RangeWatch,
    mem::user_memory::UserMemoryTime,
    mem::{account::MappingShare, bo::Bo, import::ImportUse, placement::PinnedBuffer},
};
use hw::{pte::PageAccess, surroundings::PlacedBuffer, va::VaRange};
use kernel::error::Result;
use kernel::sync::{
    aref::ARef,
    atomic::{Acquire, Atomic, Full, Relaxed},
    Arc,
};

/// A flag in the count of holders: the mapping is to be removed.
const LEAVING: i32 = 1 << 30;

/// A part of a buffer to map, and the allowed access.
pub(crate) struct MappedPart {
    /// The buffer.
    pub(crate) bo: ARef<Bo>,
    /// The first byte, a multiple of the page size.
    pub(crate) offset: u64,
    /// The kinds of access that the GPU has.
    pub(crate) access: PageAccess,
}

/// How to map a buffer.
pub(crate) struct MapRequest<'a> {
    /// When the process has memory of its own. What comes later is mapped by
    /// [`super::Vm::expect_pending`].
    pub(crate) time: UserMemoryTime,
    /// Called while pages of a process are looked for; its error ends that.
    pub(crate) go_on: &'a dyn Fn() -> Result,
}

/// The address of a buffer, and the first address of a mapping of it.
pub(super) type Key = (usize, u64);

/// A buffer mapped at a range.
pub(super) struct BoMapping {
    range: VaRange,
    part: MappedPart,
    /// The watch of the range, for memory of the process.
    userptr: Option<RangeWatch<Userptr>>,
    /// The number of [`HeldMapping`]s, and [`LEAVING`]. It grows only under the VM's lock.
    holds: Atomic<i32>,
    /// The page tables lead to the buffer. Guarded by the VM's lock.
    shown: Atomic<bool>,
    /// Counts page faults at it all the same.
    repeats: FaultCounter,
    _pinned: Option<PinnedBuffer>,
    import: Option<ImportUse>,
    _share: MappingShare,
}

impl BoMapping {
    pub(super) fn new(
        range: VaRange,
        part: MappedPart,
        userptr: Option<RangeWatch<Userptr>>,
        pinned: Option<PinnedBuffer>,
        import: Option<ImportUse>,
        share: MappingShare,
    ) -> Self {
        Self {
            range,
            part,
            userptr,
            holds: Atomic::new(0),
            shown: Atomic::new(false),
            repeats: FaultCounter::new(),
            _pinned: pinned,
            import,
            _share: share,
        }
    }

    pub(super) fn range(&self) -> VaRange {
        self.range
    }

    /// Returns its key among the mappings of an address space by buffer: those of one buffer are in
    /// a row.
    pub(super) fn key(&self) -> Key {
        (self.part.bo.address(), self.range.start())
    }

    pub(super) fn bo(&self) -> &ARef<Bo> {
        &self.part.bo
    }

    pub(super) fn part(&self) -> &MappedPart {
        &self.part
    }

    /// Returns what is mapped where.
    pub(super) fn placed(&self) -> PlacedBuffer {
        PlacedBuffer {
            kind: self.part.bo.kind(),
            range: self.range,
        }
    }

    /// Whether the mapping is complete. A mapping of USERPTR memory takes its place before that,
    /// and releases it again if the memory is not available. The VM's lock is held.
    pub(super) fn is_made(&self) -> bool {
        self.userptr
            .as_ref()
            .is_none_or(|userptr| userptr.is_made())
    }

    /// Whether a queue may use the mapping. It may not use one that is removed with another GPU, or
    /// when the process unmaps it, without regard to holders. The VM's lock is held.
    pub(super) fn may_be_held(&self) -> bool {
        self.is_made()
            && !self.is_leaving()
            && !self.part.bo.is_peer_vram()
            && self.shared().is_none()
    }

    /// Returns the watch of the memory, if it is a process's.
    pub(super) fn userptr(&self) -> Option<&RangeWatch<Userptr>> {
        self.userptr.as_ref()
    }

    /// Returns the same, if it is shared virtual memory.
    pub(super) fn shared(&self) -> Option<&RangeWatch<Userptr>> {
        self.userptr().filter(|userptr| userptr.is_shared())
    }

    /// Whether the mapping refers to the address space: the owner of the memory notifies it of
    /// changes.
    pub(super) fn is_tied(&self) -> bool {
        self.userptr.is_some() || self.import.is_some()
    }

    /// Whether the page tables lead to the buffer. The VM's lock is held.
    pub(super) fn is_shown(&self) -> bool {
        self.shown.load(Relaxed)
    }

    /// Sets whether the page tables lead to the buffer. The VM's lock is held.
    pub(super) fn set_shown(&self, shown: bool) {
        self.shown.store(shown, Relaxed);
        self.repeats.clear();
    }

    /// Returns the counter of page faults at the mapping although it is mapped.
    pub(super) fn repeats(&self) -> &FaultCounter {
        &self.repeats
    }

    /// Whether the mapping must stay. The VM's lock is held, so a result of false stays true.
    pub(super) fn is_held(&self) -> bool {
        self.holds.load(Acquire) & !LEAVING != 0
    }

    /// Marks the mapping for removal when nothing holds it. Returns whether nothing holds it now;
    /// otherwise the last holder starts the removal. The VM's lock is held, and this is called
    /// once.
    pub(super) fn start_leaving(&self) -> bool {
        self.holds.fetch_add(LEAVING, Full) == 0
    }

    /// Whether the mapping is to be removed and nothing holds it. The VM's lock is held.
    pub(super) fn is_released(&self) -> bool {
        self.holds.load(Acquire) == LEAVING
    }

    /// Whether the mapping is to be removed when nothing holds it.
    pub(super) fn is_leaving(&self) -> bool {
        self.holds.load(Relaxed) & LEAVING != 0
    }
}

/// A part of a mapping that is in use: the mapping stays until this is dropped. Dropped where
/// sleeping is allowed.
pub(crate) struct HeldMapping {
    vm: Arc<Vm>,
    mapping: Arc<BoMapping>,
    part: VaRange,
    _pinned: Option<PinnedBuffer>,
}

impl HeldMapping {
    /// Whether the process may have the part written.
    pub(crate) fn is_writable(&self) -> bool {
        self.mapping.part().access.write
    }

    /// Holds `mapping` for the use of `part` of it; `pinned` is the pin of its buffer, if it has
    /// one. The VM's lock is held.
    pub(super) fn new(
        vm: &Arc<Vm>,
        mapping: &Arc<BoMapping>,
        part: VaRange,
        pinned: Option<PinnedBuffer>,
    ) -> Self {
        mapping.holds.add(1, Relaxed);
        Self {
            vm: vm.clone(),
            mapping: mapping.clone(),
            part,
            _pinned: pinned,
        }
    }

    /// Returns the buffer.
    pub(crate) fn bo(&self) -> &ARef<Bo> {
        &self.mapping.part.bo
    }

    /// Returns the bytes of the part.
    pub(crate) fn size(&self) -> u64 {
        self.part.size()
    }

    /// Returns where the part starts in the buffer, in bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.mapping.part.offset + (self.part.start() - self.mapping.range.start())
    }
}

impl Drop for HeldMapping {
    fn drop(&mut self) {
        if self.mapping.holds.fetch_sub(1, Full) == LEAVING + 1 {
            self.vm.clean_up();
        }
    }
}
