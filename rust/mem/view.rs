// SPDX-License-Identifier: GPL-2.0
//! A part of an address space as the driver itself reads and writes it.

use crate::{kern::user_pages::UserPages, mem::vm::Held};
use kernel::prelude::*;

/// A held part of an address space that the CPU reaches at any time, also where nothing may be waited for. User
/// memory stays pinned for it: its content may then differ from what the process sees, if that changes its
/// mapping, but it is nobody else's.
pub(crate) struct View {
    pinned: Option<UserPages>,
    held: Held,
}

impl View {
    /// The CPU's view of what is held, by the process that has it. `EFAULT` when its memory cannot be pinned, `EINTR`,
    /// `ENOMEM`, also beyond the process's limit of locked memory.
    pub(crate) fn new(held: Held) -> Result<Self> {
        let pinned = match held.bo().user() {
            Some(user) => {
                let start = user.address(held.offset(), held.size())?;
                let size = usize::try_from(held.size()).map_err(|_| EFAULT)?;
                Some(UserPages::pin(start, size, held.bo().access().write)?)
            }
            None => None,
        };
        Ok(Self { pinned, held })
    }

    /// Reads dwords from byte `offset` of the part on; see [`Buffer::read32s`](super::bo::Buffer::read32s).
    pub(crate) fn read32s(&self, offset: u64, to: &mut [u32]) -> Result {
        match &self.pinned {
            Some(pages) => pages.read32s(offset, to),
            None => self.held.bo().read32s(self.at(offset)?, to),
        }
    }

    /// Reads the 64-bit value at byte `offset`; see [`Buffer::read64`](super::bo::Buffer::read64).
    pub(crate) fn read64(&self, offset: u64) -> Result<u64> {
        match &self.pinned {
            Some(pages) => pages.read64(offset),
            None => self.held.bo().read64(self.at(offset)?),
        }
    }

    /// Writes the 64-bit value at byte `offset`; see [`Buffer::write64`](super::bo::Buffer::write64).
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
