// SPDX-License-Identifier: GPL-2.0
//! A buffer in an address space, and what keeps it there.

use super::lent::Lent;
use crate::{
    kern::user_range::Watch,
    mem::{bo::Bo, placement::Pinned},
};
use hw::{pte::Access, va::VaRange};
use kernel::sync::{
    aref::ARef,
    atomic::{Acquire, Atomic, Relaxed, Release},
    Arc,
};

/// What of a buffer is mapped, and for what.
pub(crate) struct Part {
    /// The buffer.
    pub(crate) bo: ARef<Bo>,
    /// The first byte, a multiple of the page size.
    pub(crate) offset: u64,
    /// What the GPU may do.
    pub(crate) access: Access,
}

/// A buffer mapped at a range.
pub(super) struct Mapping {
    range: VaRange,
    part: Part,
    /// For memory of the process.
    lent: Option<Watch<Lent>>,
    /// How many [`Held`] there are. It grows under the VM's lock only.
    holds: Atomic<i32>,
    /// The page tables lead to the buffer. The VM's lock guards it.
    shown: Atomic<bool>,
    _pinned: Option<Pinned>,
}

impl Mapping {
    pub(super) fn new(
        range: VaRange,
        part: Part,
        lent: Option<Watch<Lent>>,
        pinned: Option<Pinned>,
    ) -> Self {
        Self {
            range,
            part,
            lent,
            holds: Atomic::new(0),
            shown: Atomic::new(false),
            _pinned: pinned,
        }
    }

    pub(super) fn range(&self) -> VaRange {
        self.range
    }

    pub(super) fn bo(&self) -> &ARef<Bo> {
        &self.part.bo
    }

    pub(super) fn part(&self) -> &Part {
        &self.part
    }

    /// Whether it has been made: that of lent memory takes its place before, and gives it up again if there is no
    /// memory to be had. The VM's lock is held.
    pub(super) fn is_made(&self) -> bool {
        self.lent.as_ref().is_none_or(|lent| lent.is_made())
    }

    /// What watches the memory of a process.
    pub(super) fn lent(&self) -> Option<&Watch<Lent>> {
        self.lent.as_ref()
    }

    /// Whether the page tables lead to the buffer. The VM's lock is held.
    pub(super) fn is_shown(&self) -> bool {
        self.shown.load(Relaxed)
    }

    /// Says whether the page tables lead to the buffer. The VM's lock is held.
    pub(super) fn set_shown(&self, shown: bool) {
        self.shown.store(shown, Relaxed);
    }

    /// Whether it must stay. The VM's lock is held, so that a no stays true.
    pub(super) fn is_held(&self) -> bool {
        self.holds.load(Acquire) != 0
    }
}

/// A part of a mapping that is in use: the mapping stays until this is dropped, in any context that may
/// sleep.
pub(crate) struct Held {
    mapping: Arc<Mapping>,
    part: VaRange,
    _pinned: Option<Pinned>,
}

impl Held {
    /// Holds `mapping`, whose buffer is pinned, for the sake of `part` of it. The VM's lock is held.
    pub(super) fn new(mapping: &Arc<Mapping>, part: VaRange, pinned: Option<Pinned>) -> Self {
        mapping.holds.add(1, Relaxed);
        Self {
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

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.mapping.holds.fetch_sub(1, Release);
    }
}
