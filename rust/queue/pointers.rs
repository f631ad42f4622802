// SPDX-License-Identifier: GPL-2.0
//! A user queue's memory: its ring and its two pointers, held so that they stay mapped as long as
//! the queue exists. The driver reads and writes them in places where it may not wait for a
//! process's memory, so user memory is pinned.

use super::request::PreparedQueue;
use crate::mem::cpu_view::{CpuView, ViewPins};
use crate::mem::vm::{HeldMapping, Vm};
use hw::sdma::ring::RingSize;
use hw::va::{VaError, VaRange, PAGE_SIZE};
use kernel::prelude::*;
use kernel::sync::Arc;

/// A 64-bit word of user memory that both CPU and GPU can reach.
pub(super) struct UserWord {
    view: CpuView,
    offset: u64,
}

impl UserWord {
    /// The word at GPU address `address`.
    ///
    /// # Errors
    ///
    /// `EFAULT` if the address does not belong to the user; `EINVAL` if it is not a multiple of 8
    /// or nothing is mapped there.
    pub(super) fn new(vm: &Arc<Vm>, pins: &ViewPins, address: u64) -> Result<Self> {
        if address % 8 != 0 {
            return Err(EINVAL);
        }
        let in_page = address % PAGE_SIZE;
        let view = CpuView::new(hold_still(vm, address - in_page, PAGE_SIZE)?, pins)?;
        // Memory that the CPU cannot reach is refused here rather than later.
        view.read64(in_page).map_err(|_| EINVAL)?;
        Ok(Self {
            view,
            offset: in_page,
        })
    }

    /// Returns its value; 0 if the device is gone.
    pub(super) fn read(&self) -> u64 {
        // It was readable at creation; only a device that is gone fails here.
        self.view.read64(self.offset).unwrap_or(0)
    }

    /// As [`UserWord::new`], for a word that the driver or the hardware writes.
    ///
    /// # Errors
    ///
    /// As [`UserWord::new`]; `EINVAL` also if the process may only read the word.
    pub(super) fn written(vm: &Arc<Vm>, pins: &ViewPins, address: u64) -> Result<Self> {
        let word = Self::new(vm, pins, address)?;
        if word.view.is_writable() {
            Ok(word)
        } else {
            Err(EINVAL)
        }
    }

    fn write(&self, value: u64) {
        let _ = self.view.write64(self.offset, value);
    }
}

/// The range, if it belongs to the user.
///
/// # Errors
///
/// `EFAULT` or `EINVAL` if it does not.
pub(super) fn range(address: u64, size: u64) -> Result<VaRange> {
    VaRange::new(address, size).map_err(|error| match error {
        VaError::OutOfRange => EFAULT,
        VaError::Empty | VaError::Unaligned => EINVAL,
    })
}

/// Holds the mapping that covers `size` bytes at `address`, for the hardware.
///
/// # Errors
///
/// `EFAULT` for addresses that do not belong to the user; `EINVAL` for others where no memory is
/// mapped.
pub(super) fn hold(vm: &Arc<Vm>, address: u64, size: u64) -> Result<HeldMapping> {
    let held = vm.hold(range(address, size)?).map_err(|_| EINVAL)?;
    if held.bo().is_registers() {
        return Err(EINVAL);
    }
    Ok(held)
}

/// As [`hold`], for access by the driver too.
fn hold_still(vm: &Arc<Vm>, address: u64, size: u64) -> Result<HeldMapping> {
    vm.hold_still(range(address, size)?)
        .map_err(|error| if error == EFAULT { EINVAL } else { error })
}

/// The ring and pointers of a user queue.
pub(super) struct QueuePointers {
    ring: CpuView,
    address: u64,
    size: RingSize,
    read: UserWord,
    read_address: u64,
    write: UserWord,
}

impl QueuePointers {
    /// Holds the memory that `create` names.
    ///
    /// # Errors
    ///
    /// `EFAULT` for addresses that do not belong to the user; `EINVAL` for memory that is not
    /// mapped or not aligned, for a read pointer that may not be written, or for a ring that is not
    /// one buffer from start to end.
    pub(super) fn new(vm: &Arc<Vm>, create: &PreparedQueue) -> Result<Self> {
        let bytes = create.ring_bytes();
        let ring = hold_still(vm, create.ring, bytes)?;
        if ring.offset() != 0 || ring.bo().size() as u64 != bytes {
            return Err(EINVAL);
        }
        Ok(Self {
            ring: CpuView::new(ring, create.pins())?,
            address: create.ring,
            size: create.size,
            read: UserWord::written(vm, create.pins(), create.read_pointer)?,
            read_address: create.read_pointer,
            write: UserWord::new(vm, create.pins(), create.write_pointer)?,
        })
    }

    /// Returns the GPU address of the ring.
    pub(super) fn ring_address(&self) -> u64 {
        self.address
    }

    /// Returns the size of the ring.
    pub(super) fn size(&self) -> RingSize {
        self.size
    }

    /// Returns the GPU address of the read pointer.
    pub(super) fn read_address(&self) -> u64 {
        self.read_address
    }

    /// The read pointer in memory.
    pub(super) fn read_pointer(&self) -> u64 {
        self.read.read()
    }

    /// Shows the process how far its queue has been read.
    pub(super) fn set_read_pointer(&self, value: u64) {
        self.read.write(value);
    }

    /// The write pointer in memory, which may have any value.
    pub(super) fn write_pointer(&self) -> u64 {
        self.write.read()
    }

    /// The furthest of `candidates` that can be the write pointer of a ring in which the bytes
    /// before `done` are free again and those before `taken` have been taken; `taken` if none is
    /// further.
    pub(super) fn furthest(&self, done: u64, taken: u64, candidates: [u64; 2]) -> u64 {
        candidates
            .into_iter()
            .filter(|&wptr| self.size.used(done, wptr).is_some())
            .fold(taken, u64::max)
    }

    /// Reads the dwords of the ring at byte count `at`; returns the byte count after them.
    pub(super) fn read_ring(&self, at: u64, to: &mut [u32]) -> Result<u64> {
        let bytes = to.len() as u64 * 4;
        let split = self.size.split(at, bytes).ok_or(EINVAL)?;
        let (first, second) = to.split_at_mut(split.first.dwords);
        self.ring.read32s(split.first.start as u64 * 4, first)?;
        self.ring.read32s(0, second)?;
        Ok(at + bytes)
    }
}
