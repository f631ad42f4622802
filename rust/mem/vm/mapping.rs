// SPDX-License-Identifier: GPL-2.0
//! A buffer in an address space, and what keeps it there.

use super::{fault_counter::FaultCounter, userptr::Userptr, Vm};
use crate::{
    kern::user_range::RangeWatch,
    mem::{account::MappingShare, bo::Bo, import::ImportUse, placement::PinnedBuffer},
};
use hw::{pte::PageAccess, va::VaRange};
use kernel::sync::{
    aref::ARef,
    atomic::{Acquire, Atomic, Full, Relaxed},
    Arc,
};

/// In the count of what holds a mapping: it is to go.
const LEAVING: i32 = 1 << 30;

/// What of a buffer is mapped, and for what.
pub(crate) struct MappedPart {
    /// The buffer.
    pub(crate) bo: ARef<Bo>,
    /// The first byte, a multiple of the page size.
    pub(crate) offset: u64,
    /// What the GPU may do.
    pub(crate) access: PageAccess,
}

/// A buffer, by its address, and the first address of a mapping of it.
pub(super) type Key = (usize, u64);

/// A buffer mapped at a range.
pub(super) struct BoMapping {
    range: VaRange,
    part: MappedPart,
    /// For memory of the process.
    userptr: Option<RangeWatch<Userptr>>,
    /// How many [`HeldMapping`] there are, and [`LEAVING`]. It grows under the VM's lock only.
    holds: Atomic<i32>,
    /// The page tables lead to the buffer. The VM's lock guards it.
    shown: Atomic<bool>,
    /// Page faults at it all the same.
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

    /// Its place among the mappings of an address space by buffer: those of one are in a row.
    pub(super) fn key(&self) -> Key {
        (self.part.bo.address(), self.range.start())
    }

    pub(super) fn bo(&self) -> &ARef<Bo> {
        &self.part.bo
    }

    pub(super) fn part(&self) -> &MappedPart {
        &self.part
    }

    /// Whether it has been made: that of USERPTR memory takes its place before, and gives it up again if there is no
    /// memory to be had. The VM's lock is held.
    pub(super) fn is_made(&self) -> bool {
        self.userptr
            .as_ref()
            .is_none_or(|userptr| userptr.is_made())
    }

    /// Whether a queue may use it. Not what goes when another GPU goes, or when the process unmaps it, whoever holds it. The
    /// VM's lock is held.
    pub(super) fn may_be_held(&self) -> bool {
        self.is_made()
            && !self.is_leaving()
            && !self.part.bo.is_peer_vram()
            && self.shared().is_none()
    }

    /// What watches the memory of a process.
    pub(super) fn userptr(&self) -> Option<&RangeWatch<Userptr>> {
        self.userptr.as_ref()
    }

    /// The same, if it is shared virtual memory.
    pub(super) fn shared(&self) -> Option<&RangeWatch<Userptr>> {
        self.userptr().filter(|userptr| userptr.is_shared())
    }

    /// Whether it leads to the address space: who owns the memory tells it of changes.
    pub(super) fn is_tied(&self) -> bool {
        self.userptr.is_some() || self.import.is_some()
    }

    /// Whether the page tables lead to the buffer. The VM's lock is held.
    pub(super) fn is_shown(&self) -> bool {
        self.shown.load(Relaxed)
    }

    /// Says whether the page tables lead to the buffer. The VM's lock is held.
    pub(super) fn set_shown(&self, shown: bool) {
        self.shown.store(shown, Relaxed);
        self.repeats.clear();
    }

    /// Page faults at it although it is mapped.
    pub(super) fn repeats(&self) -> &FaultCounter {
        &self.repeats
    }

    /// Whether it must stay. The VM's lock is held, so that a no stays true.
    pub(super) fn is_held(&self) -> bool {
        self.holds.load(Acquire) & !LEAVING != 0
    }

    /// It goes when nothing holds it any more; whether that is now. Who lets go of it last sees to it otherwise. The VM's
    /// lock is held, and this called once.
    pub(super) fn start_leaving(&self) -> bool {
        self.holds.fetch_add(LEAVING, Full) == 0
    }

    /// Whether it is to go, and nothing holds it. The VM's lock is held.
    pub(super) fn is_left(&self) -> bool {
        self.holds.load(Acquire) == LEAVING
    }

    /// Whether it goes when nothing holds it any more.
    pub(super) fn is_leaving(&self) -> bool {
        self.holds.load(Relaxed) & LEAVING != 0
    }
}

/// A part of a mapping that is in use: the mapping stays until this is dropped, in any context that may
/// sleep.
pub(crate) struct HeldMapping {
    vm: Arc<Vm>,
    mapping: Arc<BoMapping>,
    part: VaRange,
    _pinned: Option<PinnedBuffer>,
}

impl HeldMapping {
    /// Whether the process may have it written.
    pub(crate) fn is_writable(&self) -> bool {
        self.mapping.part().access.write
    }

    /// Holds `mapping`, whose buffer is pinned, for the sake of `part` of it. The VM's lock is held.
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

    /// The buffer.
    pub(crate) fn bo(&self) -> &ARef<Bo> {
        &self.mapping.part.bo
    }

    /// The bytes of the part.
    pub(crate) fn size(&self) -> u64 {
        self.part.size()
    }

    /// Where the part starts in the buffer, in bytes.
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
