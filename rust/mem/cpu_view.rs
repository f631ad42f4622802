// SPDX-License-Identifier: GPL-2.0
//! A part of an address space as the driver itself reads and writes it.

use crate::{
    kern::user_pages::UserPages,
    mem::vm::{HeldMapping, Vm},
};
use hw::va::VaRange;
use kernel::{prelude::*, sync::Arc};

/// User memory that was pinned for views that are to be made of it. Pinning waits for whoever brings the pages, which may be a program:
/// it is done with no lock that others need, and nothing held.
#[derive(Default)]
pub(crate) struct ViewPins(KVec<PinnedRange>);

struct PinnedRange {
    start: u64,
    size: u64,
    write: bool,
    pages: Arc<UserPages>,
}

impl ViewPins {
    /// Pins what `range` of `vm`, an address space of the calling process, has of its memory: nothing for other memory, or for
    /// a range that cannot be held. `EFAULT` when it cannot be pinned, `EINTR`, `ENOMEM`, also beyond the process's limit of
    /// locked memory. Sleeps for as long as the pages take to come; a kill ends that.
    pub(crate) fn add(&mut self, vm: &Arc<Vm>, range: VaRange) -> Result {
        let Ok(held) = vm.hold(range) else {
            return Ok(());
        };
        let Some(user) = held.bo().user() else {
            return Ok(());
        };
        let (start, size) = (user.address(held.offset(), held.size())?, held.size());
        let write = held.bo().access().write;
        drop(held);
        if self.get(start, size, write).is_some() {
            return Ok(());
        }
        let bytes = usize::try_from(size).map_err(|_| EFAULT)?;
        let pages = Arc::new(UserPages::pin(start, bytes, write)?, GFP_KERNEL_ACCOUNT)?;
        let range = PinnedRange {
            start,
            size,
            write,
            pages,
        };
        Ok(self.0.push(range, GFP_KERNEL_ACCOUNT)?)
    }

    /// The pages of what `held` covers, `None` for other than user memory. `EFAULT` for what was not pinned.
    fn of(&self, held: &HeldMapping) -> Result<Option<Arc<UserPages>>> {
        let Some(user) = held.bo().user() else {
            return Ok(None);
        };
        let start = user.address(held.offset(), held.size())?;
        let write = held.bo().access().write;
        let pages = self.get(start, held.size(), write).ok_or(EFAULT)?;
        Ok(Some(pages.clone()))
    }

    fn get(&self, start: u64, size: u64, write: bool) -> Option<&Arc<UserPages>> {
        let mut pins = self.0.iter();
        pins.find(|pin| (pin.start, pin.size, pin.write) == (start, size, write))
            .map(|pin| &pin.pages)
    }
}

/// A held part of an address space that the CPU reaches at any time, also where nothing may be waited for. User
/// memory stays pinned for it: its content may then differ from what the process sees, if that changes its
/// mapping, but it is nobody else's.
pub(crate) struct CpuView {
    pinned: Option<Arc<UserPages>>,
    held: HeldMapping,
}

impl CpuView {
    /// The CPU's view of what is held, by the process that has it. `EFAULT` for user memory that is not among `pins`.
    pub(crate) fn new(held: HeldMapping, pins: &ViewPins) -> Result<Self> {
        Ok(Self {
            pinned: pins.of(&held)?,
            held,
        })
    }

    /// Reads dwords from byte `offset` of the part on; see [`BoData::read32s`](super::bo::Buffer::read32s).
    pub(crate) fn read32s(&self, offset: u64, to: &mut [u32]) -> Result {
        match &self.pinned {
            Some(pages) => pages.read32s(offset, to),
            None => self.held.bo().read32s(self.at(offset)?, to),
        }
    }

    /// Reads the 64-bit value at byte `offset`; see [`BoData::read64`](super::bo::Buffer::read64).
    pub(crate) fn read64(&self, offset: u64) -> Result<u64> {
        match &self.pinned {
            Some(pages) => pages.read64(offset),
            None => self.held.bo().read64(self.at(offset)?),
        }
    }

    /// Writes the 64-bit value at byte `offset`; see [`BoData::write64`](super::bo::Buffer::write64).
    pub(crate) fn write64(&self, offset: u64, value: u64) -> Result {
        match &self.pinned {
            Some(pages) => pages.write64(offset, value),
            None => self.held.bo().write64(self.at(offset)?, value),
        }
    }

    /// Whether the process may have it written.
    pub(crate) fn is_writable(&self) -> bool {
        self.held.is_writable()
    }

    fn at(&self, offset: u64) -> Result<u64> {
        self.held.offset().checked_add(offset).ok_or(EINVAL)
    }
}
