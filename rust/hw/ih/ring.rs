// SPDX-License-Identifier: GPL-2.0
//! The driver's position in the IH ring. The hardware overwrites the oldest entries of the ring if
//! the driver does not read them.

use super::ENTRY_BYTES;

/// The arithmetic of a ring. The driver's position in it is a count of bytes, handled or lost, that
/// never wraps.
#[derive(Clone, Copy, Debug)]
pub struct IhRing {
    bytes: u32,
    batch: u32,
}

/// The hardware's write pointer of a ring (IH_RB_WPTR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IhWritePointer {
    /// Byte in the ring where the next entry is written; a multiple of [`ENTRY_BYTES`].
    pub offset: u32,
    /// RB_OVERFLOW: the hardware has reached the last read pointer that it was given, and goes on
    /// writing.
    pub overflow: bool,
}

impl IhRing {
    /// A ring of `bytes`, a power of two. The driver writes the read pointer to the hardware every
    /// `batch` entries, which is much fewer than the ring has.
    pub const fn new(bytes: u32, batch: u32) -> Self {
        assert!(bytes.is_power_of_two() && batch * ENTRY_BYTES < bytes / 4);
        Self {
            bytes,
            batch: batch * ENTRY_BYTES,
        }
    }

    /// Byte in the ring of a driver whose count is `handled`.
    #[inline]
    pub const fn offset(&self, handled: u64) -> u32 {
        handled as u32 & (self.bytes - 1)
    }

    /// Bytes from `handled` to the write pointer, as if it had not passed `handled`.
    #[inline]
    fn ahead(&self, handled: u64, wptr: IhWritePointer) -> u32 {
        wptr.offset.wrapping_sub(self.offset(handled)) & (self.bytes - 1)
    }

    /// Bytes from `handled` to the oldest entry that remains after an overflow, which is the one
    /// behind the write pointer.
    #[inline]
    fn past(&self, handled: u64, wptr: IhWritePointer) -> u32 {
        (self.ahead(handled, wptr) + ENTRY_BYTES) & (self.bytes - 1)
    }

    /// Bytes of entries that a driver at `handled` skips: none without an overflow. After an
    /// overflow they are the entries before the oldest one that remains, and a quarter of the ring.
    /// That many new entries may arrive before the hardware is given the new read pointer; without
    /// this margin it could pass the driver unnoticed.
    ///
    /// The hardware knows the driver's position of a batch ago, so it may have passed that position
    /// and not the driver. In that case all entries remain: a driver that took the oldest one as
    /// the next would find entries that it has already handled.
    #[inline]
    pub fn lost(&self, handled: u64, wptr: IhWritePointer) -> u32 {
        if !wptr.overflow {
            return 0;
        }
        let past = self.past(handled, wptr);
        let overtaken = past < self.bytes - self.batch;
        self.bytes / 4 + if overtaken { past } else { 0 }
    }

    /// Upper bound of the driver's count once it has handled the entries that are there; `handled`
    /// is its count of at most a batch ago. After an overflow the count may end up lower, with
    /// nothing left to handle.
    #[inline]
    pub fn end(&self, handled: u64, wptr: IhWritePointer) -> u64 {
        let ahead = match wptr.overflow {
            true => self.past(handled, wptr) + self.bytes - ENTRY_BYTES,
            false => self.ahead(handled, wptr),
        };
        handled + u64::from(ahead)
    }

    /// Whether a driver at `handled` has nothing to handle.
    #[inline]
    pub fn is_empty(&self, handled: u64, wptr: IhWritePointer) -> bool {
        !wptr.overflow && self.ahead(handled, wptr) == 0
    }
}
