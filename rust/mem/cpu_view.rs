// SPDX-License-Identifier: GPL-2.0
//! A part of an address space as the driver itself reads and writes it.

use crate::{
    kern::{mm_exit::AddressSpace, user_pages::UserPages},
    mem::{
        account::PinShare,
        vm::{HeldMapping, Vm},
    },
};
use hw::va::VaRange;
use kernel::{prelude::*, sync::Arc};

/// User memory that is pinned for views that are to be made of it. Pinning waits for the source of
/// the pages, which may be a program (userfaultfd, FUSE). So it is done without a lock that other
/// threads need, and without a held mapping.
pub(crate) struct ViewPins {
    /// The process's.
    space: AddressSpace,
    ranges: KVec<PinnedRange>,
}

struct PinnedRange {
    start: u64,
    size: u64,
    write: bool,
    pages: Arc<ChargedPages>,
}

/// Pinned pages that are charged to the address space.
struct ChargedPages {
    pages: UserPages,
    // After the pages: they are unpinned before it.
    _share: PinShare,
}

impl ViewPins {
    /// No pins of memory of `space`.
    pub(crate) fn new(space: &AddressSpace) -> Self {
        Self {
            space: space.clone(),
            ranges: KVec::new(),
        }
    }

    /// Pins the user memory in `range` of `vm`, which has to be the process's own. Does nothing for
    /// other memory, or for a range that cannot be held. May sleep, for as long as the pages take
    /// to arrive; a kill ends that.
    ///
    /// # Errors
    ///
    /// `EFAULT` if it cannot be pinned; `ESRCH` if the process has ended; `EINTR`; `ENOMEM`, also
    /// beyond the address space's share of pinned memory.
    pub(crate) fn add(&mut self, vm: &Arc<Vm>, range: VaRange) -> Result {
        let Ok(held) = vm.hold(range) else {
            return Ok(());
        };
        let Some(user) = held.bo().user() else {
            return Ok(());
        };
        let size = held.size();
        let start = user.address_in(&self.space, held.offset(), size)?;
        let write = held.bo().access().write;
        drop(held);
        if self.get(start, size, write).is_some() {
            return Ok(());
        }
        let bytes = usize::try_from(size).map_err(|_| EFAULT)?;
        let share = PinShare::charge(vm.client(), size)?;
        let pages = ChargedPages {
            pages: UserPages::pin(&self.space, start, bytes, write)?,
            _share: share,
        };
        let pages = Arc::new(pages, GFP_KERNEL_ACCOUNT)?;
        let range = PinnedRange {
            start,
            size,
            write,
            pages,
        };
        Ok(self.ranges.push(range, GFP_KERNEL_ACCOUNT)?)
    }

    /// Returns the pinned pages of the range of `held`, `None` if it is not user memory.
    ///
    /// # Errors
    ///
    /// `EFAULT` if the range was not pinned.
    fn of(&self, held: &HeldMapping) -> Result<Option<Arc<ChargedPages>>> {
        let Some(user) = held.bo().user() else {
            return Ok(None);
        };
        let start = user.address_in(&self.space, held.offset(), held.size())?;
        let write = held.bo().access().write;
        let pages = self.get(start, held.size(), write).ok_or(EFAULT)?;
        Ok(Some(pages.clone()))
    }

    fn get(&self, start: u64, size: u64, write: bool) -> Option<&Arc<ChargedPages>> {
        let mut pins = self.ranges.iter();
        pins.find(|pin| (pin.start, pin.size, pin.write) == (start, size, write))
            .map(|pin| &pin.pages)
    }
}

/// A held part of an address space that the CPU accesses at any time, also where waiting is not
/// allowed. User memory stays pinned for it. If the process changes its mapping, the content may
/// differ from that which the process sees, but the pages never belong to another process.
pub(crate) struct CpuView {
    pinned: Option<Arc<ChargedPages>>,
    held: HeldMapping,
}

impl CpuView {
    /// Creates the CPU's view of a held mapping.
    ///
    /// # Errors
    ///
    /// `EFAULT` for user memory that is not among `pins`.
    pub(crate) fn new(held: HeldMapping, pins: &ViewPins) -> Result<Self> {
        Ok(Self {
            pinned: pins.of(&held)?,
            held,
        })
    }

    /// Reads dwords from byte `offset` of the part on; see
    /// [`BoData::read32s`](super::bo::BoData::read32s).
    pub(crate) fn read32s(&self, offset: u64, to: &mut [u32]) -> Result {
        match &self.pinned {
            Some(pinned) => pinned.pages.read32s(offset, to),
            None => self.held.bo().read32s(self.at(offset)?, to),
        }
    }

    /// Reads the 64-bit value at byte `offset`; see [`BoData::read64`](super::bo::BoData::read64).
    pub(crate) fn read64(&self, offset: u64) -> Result<u64> {
        match &self.pinned {
            Some(pinned) => pinned.pages.read64(offset),
            None => self.held.bo().read64(self.at(offset)?),
        }
    }

    /// Writes the 64-bit value at byte `offset`; see
    /// [`BoData::write64`](super::bo::BoData::write64).
    pub(crate) fn write64(&self, offset: u64, value: u64) -> Result {
        match &self.pinned {
            Some(pinned) => pinned.pages.write64(offset, value),
            None => self.held.bo().write64(self.at(offset)?, value),
        }
    }

    /// Whether the process may have the part written.
    pub(crate) fn is_writable(&self) -> bool {
        self.held.is_writable()
    }

    fn at(&self, offset: u64) -> Result<u64> {
        self.held.offset().checked_add(offset).ok_or(EINVAL)
    }
}
