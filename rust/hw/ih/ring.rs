// SPDX-License-Identifier: GPL-2.0
//! How far the driver is in the IH ring, which the hardware goes on writing over its oldest entries when nobody reads them.

use super::ENTRY_BYTES;

/// The arithmetic of a ring. The driver's place in it is a count of bytes, handled or lost, that never wraps.
#[derive(Clone, Copy, Debug)]
pub struct IhRing {
    bytes: u32,
    batch: u32,
}

/// What the hardware says of a ring (IH_RB_WPTR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IhWritePointer {
    /// Byte in the ring that the next entry comes to; a multiple of [`ENTRY_BYTES`].
    pub offset: u32,
    /// RB_OVERFLOW: it has come to the read pointer that it was told last, and goes on.
    pub overflow: bool,
}

impl IhRing {
    /// A ring of `bytes`, a power of two; the hardware is told the read pointer each `batch` entries, much fewer than it has.
    pub const fn new(bytes: u32, batch: u32) -> Self {
        assert!(bytes.is_power_of_two() && batch * ENTRY_BYTES < bytes / 4);
        Self {
            bytes,
            batch: batch * ENTRY_BYTES,
        }
    }

    /// Byte in the ring of a driver that is at `handled`.
    #[inline]
    pub const fn offset(&self, handled: u64) -> u32 {
        handled as u32 & (self.bytes - 1)
    }

    /// Bytes from `handled` to the write pointer, as if it had not come past that.
    #[inline]
    fn ahead(&self, handled: u64, wptr: IhWritePointer) -> u32 {
        wptr.offset.wrapping_sub(self.offset(handled)) & (self.bytes - 1)
    }

    /// Bytes from `handled` to the oldest entry that is left after an overflow, which is the one behind the write pointer.
    #[inline]
    fn past(&self, handled: u64, wptr: IhWritePointer) -> u32 {
        (self.ahead(handled, wptr) + ENTRY_BYTES) & (self.bytes - 1)
    }

    /// Bytes of entries that a driver at `handled` passes over: none without an overflow. With one, those before the oldest that is left,
    /// and a quarter of the ring: so much may come until the hardware is told where the driver is then, and it would come past that unseen.
    /// The hardware knows the driver's place of a batch ago, so it may have come past that and not past the driver. Then all is left: who
    /// took the oldest for the next would find those again that he has handled.
    #[inline]
    pub fn lost(&self, handled: u64, wptr: IhWritePointer) -> u32 {
        if !wptr.overflow {
            return 0;
        }
        let past = self.past(handled, wptr);
        let overtaken = past < self.bytes - self.batch;
        self.bytes / 4 + if overtaken { past } else { 0 }
    }

    /// The most that the count of a driver is when it has handled what is there, which was `handled` a batch ago or less. After an overflow
    /// it may come to less, and then have nothing left to handle.
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
